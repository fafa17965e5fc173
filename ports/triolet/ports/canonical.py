"""Canonical JSON (RFC 8785) and the digests that stand on it.

Decides the one byte form of a value, and how bytes become digests: SHA-256 behind a domain tag, so that a digest
made for one purpose never passes for another, and a chain in which each link seals its sequence and all links
before it. Never re-encodes stored bytes to verify them: a store keeps the exact bytes and hashes those. (STORE-005,
DUR-012)

orjson with sorted keys writes exactly RFC 8785 when a value has no float and no key beyond U+FFFF: the escapes are
the same, and keys sorted by code point (orjson) and by UTF-16 unit (RFC 8785) can differ only where a key has a
character beyond the Basic Multilingual Plane. Everything else goes through the `rfc8785` package.
"""

import functools
import hashlib
import re
from typing import Final, NewType

import orjson
import rfc8785

from triolet.ports.errors import InvalidJson
from triolet.ports.strict_json import (
    ASTRAL_KEYS,
    DEFAULT_LIMITS,
    FLOATS,
    JsonLimits,
    JsonText,
    JsonValue,
    check,
    survey,
)

Digest = NewType("Digest", str)
"""``sha256:`` and 64 lowercase hexadecimal digits."""

_SORTED: Final = orjson.OPT_SORT_KEYS | orjson.OPT_STRICT_INTEGER
_TAG: Final = re.compile(r"[a-z0-9]+(?:[./-][a-z0-9]+)*")
_CHAIN_TAG: Final = "triolet/chain/1"


def encode(value: JsonValue, limits: JsonLimits = DEFAULT_LIMITS) -> bytes:
    """The RFC 8785 encoding of `value`. Raises `InvalidJson` naming the place if it is not strict JSON."""
    if survey(value, limits) & (FLOATS | ASTRAL_KEYS):
        return rfc8785.dumps(value)
    return orjson.dumps(value, option=_SORTED)


def encode_text(value: JsonValue, limits: JsonLimits = DEFAULT_LIMITS) -> JsonText:
    """`encode` as text."""
    return JsonText(encode(value, limits).decode())


def encode_trusted(value: JsonValue) -> bytes:
    """`encode` for a value that was built by code which keeps a promise, without looking at every element.

    The promise: exact built-in types, no float anywhere, and only ASCII keys. The result is then exactly RFC 8785.
    A float, a tuple or an enum would be written without complaint in a form that is not canonical; what orjson does
    refuse (a lone surrogate, an integer of 2^53 or more, a foreign type, more than 254 levels) is `InvalidJson`.
    """
    try:
        return orjson.dumps(value, option=_SORTED)
    except orjson.JSONEncodeError:
        check(value)
        raise InvalidJson(problem="nested too deep", pointer="") from None


def digest(tag: str, body: bytes) -> Digest:
    """SHA-256 over ``triolet``, NUL, `tag`, NUL, `body`.

    `tag` names the purpose and its version, such as ``triolet/definition/1``: lowercase ASCII letters and digits,
    parted by single ``/``, ``.`` or ``-``. Raises `ValueError` for another tag.
    """
    state = hashlib.sha256(_domain(tag))
    state.update(body)
    return Digest("sha256:" + state.hexdigest())


def chain(previous: Digest, sequence: int, body: bytes) -> Digest:
    """The link that seals `body` as number `sequence` behind `previous`.

    SHA-256 over ``triolet``, NUL, ``triolet/chain/1``, NUL, `previous` as text, NUL, `sequence` and the length of
    `body` as unsigned 64-bit big-endian integers, and `body`. `sequence` is 0 to 2^64 - 1; `OverflowError`
    otherwise.
    """
    place = sequence.to_bytes(8, "big") + len(body).to_bytes(8, "big")
    state = hashlib.sha256(b"%b%b\0%b" % (_domain(_CHAIN_TAG), previous.encode(), place))
    state.update(body)
    return Digest("sha256:" + state.hexdigest())


@functools.lru_cache(maxsize=256)
def _domain(tag: str) -> bytes:
    if not _TAG.fullmatch(tag):
        raise ValueError("a digest tag is lowercase ASCII letters and digits, parted by single '/', '.' or '-'")
    return b"triolet\0%b\0" % tag.encode()


GENESIS: Final = digest("triolet/genesis/1", b"")
"""What the first link of every chain stands on."""
