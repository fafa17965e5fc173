"""The demo's answer: what the model replied, and what of it this run can vouch for.

Decides when an answer is `sure`: one call of this run returned everything that the reply claims, and the question asks
for just what that tool tells. Both are computed here, by the few plain rules below; the model has no say in it, and
no rule looks at the model's confidence. What no rule covers is not sure.
"""

import re
from collections.abc import Sequence
from typing import Annotated, Any, Final, Protocol, cast

import attrs

from triolet.adapters.cli.demo.folder import Folder
from triolet.adapters.cli.demo.mentions import mentions
from triolet.adapters.cli.demo.tools import file_name_type
from triolet.ports.events import CallEnded, Event, TurnEnded
from triolet.ports.identity import CallId
from triolet.ports.messages import ToolCall
from triolet.ports.outcomes import ToolSuccess
from triolet.ports.schema import Ge, Le, MaxLength
from triolet.ports.strict_json import JsonValue, parse

QUOTE_CHARACTERS: Final = 120
MAX_NUMBER: Final = 999_999_999

# How each tool's question is asked. What is left of a question besides must be empty of meaning.
_ASKS: Final = {
    "count_words": r"how many words|number of words|word count|count (?:all )?(?:the )?words",
    "list_files": r"how many (?:text )?files|number of (?:text )?files|count (?:all )?(?:the )?(?:text )?files",
    "search": r"(?:which|what|in which|in what) (?:text )?(?:file|document)|where",
    "read_passage": r"what does|what do|what is in|what's in|read|show|quote|how does",
}
_VERBS: Final = {
    "search": r"mentions?|mentioned|contains?|contained|speaks? of|talks? about|says?|has|found|find|occurs?|appears?",
    "read_passage": r"say|says|begin|begins|start|starts|contain|begin with|start with",
}
_EMPTY: Final = re.compile(
    r"a|an|the|is|are|am|be|does|do|has|have|of|in|inside|within|there|this|that|it|"
    r"its|me|you|can|could|would|please|tell|give|i|want|to|know|file|folder|document|"
    r"text|word|words|what"
)


class Reply(Protocol):
    """What the model fills in."""

    file: str | None
    words: int | None
    files: int | None
    quote: str | None


def reply_type(folder: Folder) -> type[Any]:
    """The output schema of the demo's agent: an attrs class with the fields of `Reply`.

    `file` can only be one of the folder's names. Every field may be null or left out.
    """
    number = cast("type[Any]", Annotated[int | None, Ge(0), Le(MAX_NUMBER)])
    quote = cast("type[Any]", Annotated[str | None, MaxLength(QUOTE_CHARACTERS)])
    return attrs.make_class(
        "Reply",
        {
            "file": attrs.field(default=None, type=file_name_type(folder) | None),
            "words": attrs.field(default=None, type=number),
            "files": attrs.field(default=None, type=number),
            "quote": attrs.field(default=None, type=quote),
        },
        frozen=True,
        kw_only=True,
    )


@attrs.frozen(kw_only=True, weakref_slot=False)
class Answer:
    """`file`, `words`, `files` and `quote` are the model's reply as it was decoded; the rest is computed."""

    file: str | None
    words: int | None
    files: int | None
    quote: str | None
    sure: bool
    """Whether a tool of this run returned what is claimed, and the question asks for no more than that."""
    why: str
    """What makes it sure, or what it lacks."""
    tried: tuple[str, ...]
    """Every call that was made, in order."""


@attrs.frozen(kw_only=True, weakref_slot=False)
class Made:
    """A call that was made, and what it returned: None unless the tool succeeded."""

    tool: str
    arguments: dict[str, JsonValue]
    returned: dict[str, JsonValue] | None

    def __str__(self) -> str:
        given = ", ".join(f"{name}={value!r}" for name, value in self.arguments.items())
        return f"{self.tool}({given})" + ("" if self.returned is not None else " failed")


class Ledger:
    """Notes which calls a run makes and what they return, from its semantic events."""

    def __init__(self) -> None:
        self.made: list[Made] = []
        self._open: dict[CallId, ToolCall] = {}

    def note(self, event: Event) -> None:
        """Take the next event."""
        match event:
            case TurnEnded(calls=calls):
                self._open |= {call.id: call for call in calls}
            case CallEnded(outcome=outcome):
                call = self._open.pop(event.call)
                # A result that was cut to the run's bound is not what the tool returned.
                whole = isinstance(outcome, ToolSuccess) and outcome.size is None
                returned = _object(parse(outcome.output)) if isinstance(outcome, ToolSuccess) and whole else None
                self.made.append(
                    Made(
                        tool=call.name,
                        arguments=_object(parse(call.arguments)),
                        returned=returned,
                    )
                )
            case _:
                pass


def answer_from(reply: Reply, question: str, folder: Folder, made: Sequence[Made]) -> Answer:
    """The reply, weighed."""
    sure, why = _weigh(reply, question, folder, made)
    return Answer(
        file=reply.file,
        words=reply.words,
        files=reply.files,
        quote=reply.quote,
        sure=sure,
        why=why,
        tried=tuple(str(call) for call in made),
    )


def _weigh(reply: Reply, question: str, folder: Folder, made: Sequence[Made]) -> tuple[bool, str]:
    if _claims(reply) == (None, None, None, None):
        return False, "it claims nothing"
    holding = [call for call in made if _returned(call, reply)]
    if not holding:
        return False, "no call of this run returned what it claims"
    beyond = [_unanswered(question, folder, call) for call in holding]
    if None in beyond:
        call = holding[beyond.index(None)]
        return True, f"{call} returned it"
    return False, f"{holding[0]} returned what it claims, but does not account for {beyond[0]}"


def _returned(call: Made, reply: Reply) -> bool:
    """Whether `call` alone returned everything that `reply` claims, and it claims what the tool is for."""
    if call.returned is None:
        return False
    told = call.returned
    file, words, files, quote = _claims(reply)
    match call.tool:
        case "count_words":
            return (file, words, files, quote) == (told["file"], told["words"], None, None)
        case "list_files":
            return (file, words, files, quote) == (None, None, told["files"], None)
        case "search":
            names, passage = cast("list[JsonValue]", told["names"]), str(told["passage"])
            return file in names and words is None and files in (None, told["files"]) and (quote or "") in passage
        case "read_passage":
            said = quote is not None and quote in str(told["text"])
            return said and file in (None, told["file"]) and words is None and files is None
        case _:
            return False


def _claims(reply: Reply) -> tuple[str | None, int | None, int | None, str | None]:
    """What is claimed. An empty quote claims nothing."""
    return reply.file, reply.words, reply.files, reply.quote or None


def _unanswered(question: str, folder: Folder, call: Made) -> str | None:
    """Something in the question that `call` does not account for, or None if it accounts for all of it."""
    mentioned = mentions(question, folder.names)
    asked_about, rest = call.arguments.get("file"), mentioned.rest
    if mentioned.names != (() if asked_about is None else (asked_about,)):
        return "the files that the question names"
    rest, times = re.subn(rf"\b(?:{_ASKS[call.tool]})\b", " ", rest, count=1, flags=re.IGNORECASE)
    if not times:
        return "what the question asks for"
    text = call.arguments.get("text")
    if isinstance(text, str):
        rest, times = re.subn(rf"(?<!\w){re.escape(text.strip())}(?!\w)", " ", rest, count=1, flags=re.IGNORECASE)
        if not times:
            return "the text that was searched for"
    if call.tool in _VERBS:
        rest = re.sub(rf"\b(?:{_VERBS[call.tool]})\b", " ", rest, count=1, flags=re.IGNORECASE)
    if call.tool == "read_passage" and call.arguments.get("line") != 1:
        return "where the question begins to read"
    left = (word for word in re.findall(r"\w+", rest.lower()) if not _EMPTY.fullmatch(word))
    return next((f"{word!r} in the question" for word in left), None)


def _object(value: JsonValue) -> dict[str, JsonValue]:
    return value if isinstance(value, dict) else {}
