"""The two calls of the json-schema protocol, as one response.

Decides what a part of either call is in the whole: the first call's text is a choice and shown to nobody, the second's
is arguments or answer, and usage adds up. It asks nothing and renders nothing.
"""

from collections.abc import Mapping
from typing import Any, Final

import attrs

from triolet.adapters.openai_compatible.turns import CHOICE_KEY
from triolet.adapters.openai_compatible.usage import add_usage
from triolet.ports.errors import InvalidJson
from triolet.ports.language_model import (
    CallChunk,
    CallOpened,
    Finished,
    FinishReason,
    MalformedResponse,
    ModelPart,
    OpaqueDetail,
    ReasoningChunk,
    TextChunk,
    UsageReport,
)
from triolet.ports.strict_json import parse
from triolet.ports.usage import Usage

_CHOICE_LIMIT: Final = 10_000
"""Characters of a choice; a name has 64 at most, and white space is the server's to allow."""

_UNASKED: Final = "a native tool call, though none was asked for"
_UNENFORCED: Final = "no choice among the offered names: this server does not enforce response_format"


class Choice:
    """What the first call says."""

    __slots__ = ("_size", "_text", "finished", "usage")

    def __init__(self) -> None:
        self._text: list[str] = []
        self._size = 0
        self.finished: FinishReason | None = None
        self.usage = Usage(at_least=True)
        """What the first call used; nothing is known until it is reported."""

    def take(self, part: ModelPart) -> ModelPart | None:
        """Keep the part, or give it back if it is for whoever watches."""
        match part:
            case TextChunk(text=text):
                self._text.append(text)
                self._size += len(text)
                if self._size > _CHOICE_LIMIT:
                    raise MalformedResponse(problem=f"a choice of more than {_CHOICE_LIMIT} characters")
            case UsageReport(usage=usage):
                self.usage = usage
            case Finished(reason=reason):
                self.finished = reason
            case CallOpened() | CallChunk():
                raise MalformedResponse(problem=_UNASKED)
            case ReasoningChunk() | OpaqueDetail():
                return part
        return None

    def name(self, names: list[str]) -> str:
        """The name that was chosen."""
        try:
            said = parse("".join(self._text))
        except InvalidJson:
            raise MalformedResponse(problem=_UNENFORCED) from None
        name = said.get(CHOICE_KEY) if isinstance(said, dict) else None
        if isinstance(name, str) and name in names:
            return name
        raise MalformedResponse(problem=_UNENFORCED)


def so_far(first: Usage) -> UsageReport:
    """The report between the calls: from below, since the second call may end without one."""
    return UsageReport(usage=attrs.evolve(first, at_least=True))


def second_part(part: ModelPart, first: Usage, *, called: bool) -> ModelPart:
    """What a part of the second call is in the whole response. `first` is what the first call used."""
    match part:
        case TextChunk(text=text) if called:
            return CallChunk(index=0, text=text)
        case Finished(reason="stop") if called:
            return Finished(reason="tool-calls")
        case UsageReport(usage=usage):
            return UsageReport(usage=add_usage(first, usage))
        case CallOpened() | CallChunk():
            raise MalformedResponse(problem=_UNASKED)
        case _:
            return part


def has_one_value(schema: Mapping[str, Any]) -> bool:
    """Whether ``{}`` surely is the only object that the schema accepts."""
    plain = schema.keys() <= {
        "$schema",
        "title",
        "description",
        "type",
        "properties",
        "required",
        "additionalProperties",
    }
    return (
        plain
        and schema.get("type") == "object"
        and not schema.get("properties")
        and not schema.get("required")
        and schema.get("additionalProperties") is False
    )
