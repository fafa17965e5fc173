"""Text hygiene: text from outside is made storable once, where it enters.

Decides which text every store accepts and gives back unchanged: valid Unicode without lone surrogates (UTF-8 cannot
hold them) and without U+0000 (PostgreSQL's text types refuse it, and C interfaces cut there). Text from tools, MCP
servers and sandboxes is repaired; text from the application is refused instead, because its author can fix it.
Never normalises, trims or bounds text, and touches no other character. (CAP-004)
"""

import re
from typing import Final

from triolet.ports.errors import BrokenText

_REPLACEMENT: Final = "\ufffd"
_BROKEN: Final = re.compile("[\x00\ud800-\udfff]")


def repair(text: str) -> str:
    """`text` with each lone surrogate and each U+0000 replaced by U+FFFD.

    Two surrogates that form a pair become the one character that they mean. Clean text comes back as it is.
    """
    if _is_clean(text):
        return text
    joined = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return _BROKEN.sub(_REPLACEMENT, joined)


def require_clean(text: str, place: str) -> str:
    """`text` itself, if it needs no repair. Raises `BrokenText` naming `place` and the first bad character."""
    if _is_clean(text):
        return text
    found = _BROKEN.search(text)
    assert found is not None  # what is not clean has one
    problem = "U+0000" if found[0] == "\0" else "a lone surrogate"
    raise BrokenText(place=place, index=found.start(), problem=problem)


def decode(data: bytes) -> str:
    """`data` read as UTF-8, with U+FFFD for what is not UTF-8 and for U+0000."""
    return data.decode("utf-8", "replace").replace("\0", _REPLACEMENT)


def _is_clean(text: str) -> bool:
    # Both looks run in C; a regular expression takes several times as long on long text.
    if "\0" in text:
        return False
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
