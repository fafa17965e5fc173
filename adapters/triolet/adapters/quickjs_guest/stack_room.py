"""More room for the guest's own stack.

Decides where the guest's stack lies. As it is built it has 64 KiB between static data and heap, no check, and what
grows beyond it writes over static data. Here it is moved above what the heap starts with, and made larger than
any recursion can fill before the native stack ends, which is a clean trap. Two numbers of the module are changed, and
only in the one module whose bytes are known.
"""

import hashlib
from typing import Final

_KNOWN: Final = "95ca2838c79538e66ff7bbbf8585d11115f8a98794fffff701cb1f41bd5fdb0a"
_PAGE: Final = 65536
_PAGES: Final = 3
_TOP: Final = 174688
ROOM_PAGES: Final = 48
"""64 KiB each. They are address space until they are used."""


class UnknownModule(Exception):
    """These are not the bytes that the two places were looked up in."""


def with_room(module: bytes) -> bytes:
    """The module with `ROOM_PAGES` of stack. Raises `UnknownModule`."""
    if hashlib.sha256(module).hexdigest() != _KNOWN:
        raise UnknownModule
    pages = _PAGES + ROOM_PAGES
    module = _replaced(module, 5, b"\x01\x00" + _leb(_PAGES, signed=False), b"\x01\x00" + _leb(pages, signed=False))
    return _replaced(module, 6, b"\x7f\x01\x41" + _leb(_TOP), b"\x7f\x01\x41" + _leb(pages * _PAGE))


def _replaced(module: bytes, section: int, old: bytes, new: bytes) -> bytes:
    at = 8
    while module[at] != section:
        size, start = _read_leb(module, at + 1)
        at = start + size
    size, start = _read_leb(module, at + 1)
    body = module[start : start + size]
    if body.count(old) != 1:
        raise UnknownModule
    body = body.replace(old, new)
    return module[: at + 1] + _leb(len(body), signed=False) + body + module[start + size :]


def _leb(number: int, *, signed: bool = True) -> bytes:
    out = bytearray()
    while True:
        byte, number = number & 0x7F, number >> 7
        # A positive signed number ends in a group whose highest bit is clear.
        if number == 0 and not (signed and byte & 0x40):
            return bytes([*out, byte])
        out.append(byte | 0x80)


def _read_leb(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[at]
        number |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return number, at
