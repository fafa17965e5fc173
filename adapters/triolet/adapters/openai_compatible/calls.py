"""Tool calls as chat-completion streams spell them: deltas with a place, an ID, a name and argument text.

Decides which delta belongs to which call, for servers that number their calls, servers that give every whole call the
same number under a new ID, and the single ``function_call`` of old. Calls get their own index here, from 0 in the order
in which they open; what the provider called them is dropped. Argument text is passed on as it was sent. (TOOL-001)
"""

from collections.abc import Mapping
from typing import Any, Final

import attrs

from triolet.adapters.openai_compatible.clean_text import CleanText
from triolet.adapters.openai_compatible.provider_json import as_list, as_object
from triolet.ports.language_model import CallChunk, CallOpened, MalformedResponse, ModelPart

_LEGACY: Final = -1


@attrs.define(kw_only=True)
class _Open:
    index: int
    id: str | None
    name: str
    text: CleanText


class CallReader:
    """Turns the call deltas of one response into parts. At most `limit` calls."""

    __slots__ = ("_by_place", "_limit", "_opened")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._opened: list[_Open] = []
        self._by_place: dict[int, _Open] = {}

    def read(self, deltas: object) -> list[ModelPart]:
        """The parts of a delta's ``tool_calls``. Raises `MalformedResponse` for what no list of calls can be."""
        listed = as_list(deltas)
        if listed is None:
            raise MalformedResponse(problem="tool_calls is no list")
        parts: list[ModelPart] = []
        for position, delta in enumerate(map(as_object, listed)):
            if delta is None:
                raise MalformedResponse(problem="a tool call is no object")
            place = delta.get("index")
            parts += self._one(
                place if type(place) is int and place >= 0 else position,
                _text(delta, "id"),
                as_object(delta.get("function")) or {},
            )
        return parts

    def read_legacy(self, function: object) -> list[ModelPart]:
        """The parts of a delta's ``function_call``, of which a response has one at most."""
        found = as_object(function)
        if found is None:
            raise MalformedResponse(problem="function_call is no object")
        return self._one(_LEGACY, None, found)

    def finish(self) -> list[ModelPart]:
        """What was held back because its second half could have followed."""
        return [CallChunk(index=call.index, text=rest) for call in self._opened if (rest := call.text.finish())]

    def _one(self, place: int, id_: str | None, function: Mapping[str, Any]) -> list[ModelPart]:
        name, arguments = _text(function, "name"), _text(function, "arguments")
        call = self._by_place.get(place)
        if call is not None and id_ and call.id and id_ != call.id:
            call = None
        parts: list[ModelPart] = []
        if call is None:
            if not name:
                if not arguments:
                    return []
                raise MalformedResponse(problem="arguments of a tool call that has no name")
            call = self._open(place, id_, name)
            parts.append(CallOpened(index=call.index, name=call.name))
        elif name and name != call.name:
            raise MalformedResponse(problem="a tool call changes its name")
        if arguments and (text := call.text.feed(arguments)):
            parts.append(CallChunk(index=call.index, text=text))
        return parts

    def _open(self, place: int, id_: str | None, name: str) -> _Open:
        if len(self._opened) == self._limit:
            raise MalformedResponse(problem=f"more than {self._limit} tool calls")
        whole = CleanText()
        call = _Open(index=len(self._opened), id=id_, name=whole.feed(name) + whole.finish(), text=CleanText())
        self._opened.append(call)
        self._by_place[place] = call
        return call


def _text(values: Mapping[str, Any], name: str) -> str | None:
    found = values.get(name)
    if found is None or isinstance(found, str):
        return found
    raise MalformedResponse(problem=f"{name} of a tool call is no text")
