"""Names of tools as identifiers of a program: one-to-one, and the same in whatever order tools are listed (F-046).

Decides the mapping. A name that is a plain identifier and means nothing in JavaScript stays as it is. Any other becomes
one; where two would be the same, all but the one that was so already carry a suffix made of their own name. It never
depends on what came first.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable
from typing import Final

import attrs

from triolet.ports.errors import Misuse

_MAX: Final = 80
_OTHER: Final = re.compile(r"[^A-Za-z0-9_]")

_WORDS: Final = """
arguments as async await break case catch class const continue debugger default delete do else enum eval
export extends false finally for from function get if implements import in instanceof interface let new null
of package private protected public return set static super switch this throw true try typeof undefined var
void while with yield
"""
"""Words of the language, in any mode."""

_GLOBALS: Final = """
AggregateError Array ArrayBuffer AsyncFunction Atomics BigInt BigInt64Array BigUint64Array Boolean Buffer
DataView Date Deno DOMException Error EvalError FinalizationRegistry Float16Array Float32Array Float64Array
Function Infinity Int16Array Int32Array Int8Array Intl InternalError Iterator JSON Map Math NaN Number Object
Promise Proxy RangeError ReferenceError Reflect RegExp Set SharedArrayBuffer String Symbol SyntaxError
ToolError TypeError URIError Uint16Array Uint32Array Uint8Array Uint8ClampedArray WeakMap WeakRef WeakSet
WebAssembly atob btoa clearInterval clearTimeout console crypto decodeURI decodeURIComponent document
encodeURI encodeURIComponent escape exports fetch gc global globalThis isFinite isNaN module navigator os
parseFloat parseInt performance print process queueMicrotask require scriptArgs self setInterval setTimeout
std structuredClone unescape window
"""
"""What a realm holds, and what programs of other realms expect to find."""

_MEMBERS: Final = """
__defineGetter__ __defineSetter__ __lookupGetter__ __lookupSetter__ __proto__ apply bind call caller
constructor hasOwnProperty isPrototypeOf length name propertyIsEnumerable prototype then toJSON toLocaleString
toString valueOf
"""
"""What objects and promises give a meaning to."""

RESERVED: Final = frozenset(f"{_WORDS} {_GLOBALS} {_MEMBERS}".split())
"""What no tool is called in a program."""


@attrs.define(kw_only=True)
class NameCollision(Misuse):
    """Two names would be called alike in a program."""

    names: tuple[str, ...]
    identifier: str

    @property
    def message(self) -> str:
        """Which names, and what they would both be."""
        shown = " and ".join(repr(name[:80]) for name in self.names[:5])
        return f"{shown} would both be {self.identifier!r} in a program"


def identifiers(names: Iterable[str]) -> dict[str, str]:
    """Each name's identifier, by name.

    Raises `NameCollision` for a name that is there twice, and ``ValueError`` for an empty one.
    """
    given = list(names)
    for name, count in Counter(given).items():
        if not name:
            raise ValueError("a name is not empty")
        if count > 1:
            raise NameCollision(names=(name, name), identifier=_plain(name))
    shared = Counter(_plain(name) for name in given)
    mapped: dict[str, str] = {}
    for name in sorted(given):
        plain = _plain(name)
        mapped[name] = plain if shared[plain] == 1 or plain == name else f"{plain}_{_mark(name)}"
    for identifier, count in Counter(mapped.values()).items():
        if count > 1:
            alike = tuple(name for name in mapped if mapped[name] == identifier)
            raise NameCollision(names=alike, identifier=identifier)
    return {name: mapped[name] for name in given}


def _plain(name: str) -> str:
    plain = _OTHER.sub("_", name)
    if plain[0].isdigit():
        plain = f"_{plain}"
    if len(plain) > _MAX:
        plain = f"{plain[:_MAX]}_{_mark(name)}"
    return f"{plain}_" if plain in RESERVED else plain


def _mark(name: str) -> str:
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
