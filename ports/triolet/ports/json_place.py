"""Where the first fault of a text that is not strict JSON lies.

Decides the place and the problem that an `InvalidJson` from a text names. Runs only after a document was refused,
so it is exact rather than fast; it never recurses, and it gives up after `MAX_TOKENS` tokens so that a hostile
document cannot hold its reader for long. Never accepts or refuses anything: that is `strict_json`'s decision.
(RUN-004)
"""

import json
import re
from typing import Final, Literal

import attrs

from triolet.ports.errors import InvalidJson
from triolet.ports.json_pointer import pointer

MAX_TOKENS: Final = 100_000
"""How many tokens the search reads: about a quarter of a second."""

_SPACE: Final = re.compile(rb"[ \t\r\n]*+")
_STRING: Final = re.compile(rb'"(?:[^"\\\x00-\x1f]++|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*+"')
_NUMBER: Final = re.compile(rb"(-?(?:0|[1-9][0-9]*+))((?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?)")
_WORD: Final = re.compile(rb"-?[A-Za-z]++")

_Expected = Literal["value", "first item", "first key", "key", "separator", "end"]


def first_fault(data: bytes, *, max_depth: int, max_integer: int) -> InvalidJson | None:
    """The first fault of `data`, reading from the start, or None if it has none or lies too far in."""
    scan = _Scan(data=data, max_depth=max_depth, max_integer=max_integer)
    try:
        for _ in range(MAX_TOKENS):
            if scan.expected == "end" and not scan.opened:
                scan.finish()
                break
            scan.step()
    except _Found as found:
        return InvalidJson(problem=found.problem, pointer=found.pointer, offset=found.offset)
    return None


class _Found(Exception):
    def __init__(self, problem: str, place: str, offset: int) -> None:
        super().__init__(problem)
        self.problem = problem
        self.pointer = place
        self.offset = offset


@attrs.define(kw_only=True)
class _Scan:
    data: bytes
    max_depth: int
    max_integer: int
    at: int = 0
    expected: _Expected = "value"
    path: list[str | int] = attrs.field(factory=list[str | int])
    """One step for each open container: the key or index that is being read."""
    opened: list[set[str] | None] = attrs.field(factory=list[set[str] | None])
    """The keys seen so far of each open object; None for a list."""

    def step(self) -> None:
        """Read one token (a key together with its colon)."""
        self._skip()
        here = self.data[self.at : self.at + 1]
        match self.expected:
            case "separator" | "end":
                self._separator(here)
            case "first key" if here == b"}":
                self._close()
            case "first item" if here == b"]":
                self._close()
            case "first key" | "key":
                self._key(here)
            case "first item" | "value":
                self._value(here)

    def finish(self) -> None:
        """What follows the document must be nothing."""
        self._skip()
        if self.at < len(self.data):
            raise self._found("content after the end of the document")

    def _value(self, here: bytes) -> None:
        if here in (b"{", b"["):
            if len(self.opened) == self.max_depth:
                raise self._found(f"nested deeper than {self.max_depth} levels")
            self.at += 1
            self.opened.append(set() if here == b"{" else None)
            self.path.append("" if here == b"{" else 0)
            self.expected = "first key" if here == b"{" else "first item"
            return
        if here == b'"':
            self._string()
        elif number := _NUMBER.match(self.data, self.at):
            self._number(number)
        else:
            self._word()
        self.expected = "separator" if self.opened else "end"

    def _key(self, here: bytes) -> None:
        # Until the new key is known, a fault belongs to the object itself.
        seen, self.path[-1] = self.opened[-1], ""
        if seen is None or here != b'"':
            raise self._found("a key in double quotes is missing", inside=False)
        start, key = self.at, self._string(inside=False)
        self.path[-1] = key
        if key in seen:
            self.at = start
            raise self._found("a duplicate key")
        seen.add(key)
        self._skip()
        if self.data[self.at : self.at + 1] != b":":
            raise self._found("a colon is missing after the key")
        self.at += 1
        self.expected = "value"

    def _separator(self, here: bytes) -> None:
        in_object = self.opened[-1] is not None
        if here == (b"}" if in_object else b"]"):
            self._close()
        elif here != b",":
            raise self._found("a comma or the closing bracket is missing", inside=False)
        else:
            self.at += 1
            index = self.path[-1]
            self.path[-1] = index + 1 if isinstance(index, int) else ""
            self.expected = "key" if in_object else "value"

    def _close(self) -> None:
        self.at += 1
        self.opened.pop()
        self.path.pop()
        self.expected = "separator" if self.opened else "end"

    def _string(self, *, inside: bool = True) -> str:
        token = _STRING.match(self.data, self.at)
        if token is None:
            raise self._found("a string that does not end, or a bad escape or control character in it", inside=inside)
        try:
            text: str = json.loads(token[0].decode())
            text.encode()
        except UnicodeDecodeError:
            raise self._found("a string that is not valid UTF-8", inside=inside) from None
        except UnicodeEncodeError:
            raise self._found("a lone surrogate", inside=inside) from None
        self.at = token.end()
        return text

    def _number(self, token: re.Match[bytes]) -> None:
        whole, rest = token[1], token[2]
        if not rest and (len(whole) > 17 or abs(int(whole)) > self.max_integer):
            raise self._found("an integer of 2^53 or more (use a string)")
        if rest and float(token[0]) in (float("inf"), float("-inf")):
            raise self._found("a number too large for a double")
        if self.data[token.end() : token.end() + 1] in (b".", b"e", b"E", *(b"%d" % digit for digit in range(10))):
            raise self._found("a malformed number")
        self.at = token.end()

    def _word(self) -> None:
        word = _WORD.match(self.data, self.at)
        if word and word[0] in (b"true", b"false", b"null"):
            self.at = word.end()
        elif word and word[0] in (b"NaN", b"Infinity", b"-Infinity"):
            raise self._found("a number that is not finite")
        elif self.at == len(self.data):
            raise self._found("the document ends where a value is expected")
        else:
            raise self._found("not a JSON value")

    def _skip(self) -> None:
        if space := _SPACE.match(self.data, self.at):
            self.at = space.end()

    def _found(self, problem: str, *, inside: bool = True) -> _Found:
        return _Found(problem, pointer(self.path if inside else self.path[:-1]), self.at)
