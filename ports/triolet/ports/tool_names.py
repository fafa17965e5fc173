"""Public names: how a tool of some source is called in front of a model, whatever it is called at home.

Decides a mapping of (source, own name) to legal names that depends on nothing else, so that it is the same in every
process and in every order of loading (F-038). A name that had to be changed in any way ends in a digest of both parts;
a name that was not changed never looks like one that was. So two different tools share a public name only if digests of
40 bits collide, which whoever puts catalogues together still has to refuse. It calls nothing: the original name is
what a source's handler uses.
"""

import hashlib
import re
from typing import Final

from triolet.ports.errors import Misuse

MAX_PUBLIC_NAME: Final = 64
"""Characters of a public name, as providers accept them."""
MAX_SOURCE_NAME: Final = 100

SEPARATOR: Final = "__"

_PLAIN_SOURCE: Final = re.compile(r"[A-Za-z][A-Za-z0-9-]*(?:_[A-Za-z0-9-]+)*\Z")
_PLAIN_TOOL: Final = re.compile(r"[A-Za-z0-9_-]+\Z")
_LOOKS_DIGESTED: Final = re.compile(r".*_[0-9a-f]{10}\Z")
_ILLEGAL: Final = re.compile(r"[^A-Za-z0-9_-]+")


class InvalidSourceName(Misuse):
    """A tool source's name is empty, too long, or not printable."""

    @property
    def message(self) -> str:
        """What a name may be."""
        return f"a tool source's name has 1 to {MAX_SOURCE_NAME} printable characters"


def check_source_name(name: str) -> str:
    """`name` itself. Raises `InvalidSourceName`."""
    if not isinstance(name, str) or not 0 < len(name) <= MAX_SOURCE_NAME or not name.isprintable():
        raise InvalidSourceName
    return name


def public_name(source: str, own: str) -> str:
    """The name under which a model sees the tool that `source` calls `own`: ``source__own`` wherever that is legal."""
    plain = f"{source}{SEPARATOR}{own}"
    if (
        _PLAIN_SOURCE.match(source)
        and _PLAIN_TOOL.match(own)
        and len(plain) <= MAX_PUBLIC_NAME
        and not _LOOKS_DIGESTED.match(own)
    ):
        return plain
    return _digested(source, own)


def _digested(source: str, own: str) -> str:
    exact = f"{len(source)}:{source}{own}".encode("utf-8", "surrogatepass")
    digest = hashlib.sha256(exact).hexdigest()[:10]
    room = MAX_PUBLIC_NAME - len(digest) - 1
    left = _legal(source)[: room // 2]
    if not left[:1].isalpha() or not left.isascii():
        left = f"t{left}"[: room // 2]
    right = _legal(own)[: room - len(left) - len(SEPARATOR)]
    return f"{left}{SEPARATOR}{right}_{digest}"


def _legal(text: str) -> str:
    return _ILLEGAL.sub("_", text)
