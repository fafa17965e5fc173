"""The demo's answer: what the model replied, and what of it this run can vouch for.

Decides when an answer is `sure`: one call of this run returned everything that the reply claims, and the question asks
for just what that tool tells. Both are computed here, by the few plain rules below; the model has no say in it, and
no rule looks at the model's confidence. What no rule covers is not sure.
"""

import re
from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal, Union, cast

import attrs

from triolet.adapters.cli.demo.folder import Folder
from triolet.adapters.cli.demo.mentions import mentions
from triolet.adapters.cli.demo.tools import file_name_type
from triolet.ports.events import CallEnded, Event, TurnEnded
from triolet.ports.identity import CallId
from triolet.ports.messages import ToolCall
from triolet.ports.outcomes import ToolSuccess
from triolet.ports.schema import Codec, Ge, Le, MaxLength, MinLength, codec_for
from triolet.ports.strict_json import JsonValue, parse

QUOTED_CHARACTERS: Final = 60
"""A small model copies the beginning of a passage well, and makes up what it does not remember of the rest."""
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


@attrs.frozen(kw_only=True, weakref_slot=False)
class Reply:
    """What the model says: by which tool it knows something, and what. Without a tool it says that it knows nothing."""

    by: Literal["count_words", "list_files", "search", "read_passage", "nothing"]
    file: str | None = None
    words: int | None = None
    files: int | None = None
    passage: str | None = None


def reply_codec(folder: Folder) -> Codec[Any]:
    """The output schema of the demo's agent: one object for each tool, told apart by `by`, or ``{"by": "nothing"}``.

    Each has exactly the fields that its tool's result can fill, under the same names, and `file` can only be one of
    the folder's names: the less a small model may choose, the less it gets wrong.
    """
    file = file_name_type(folder)
    number = Annotated[int, Ge(0), Le(MAX_NUMBER)]
    passage = Annotated[str, MinLength(1), MaxLength(QUOTED_CHARACTERS)]
    kinds = (
        _kind("count_words", file=file, words=number),
        _kind("list_files", files=number),
        _kind("search", file=file),
        _kind("read_passage", file=file, passage=passage),
        _kind("nothing"),
    )
    # The members are known at run time only, which neither `|` nor type checkers have a form for.
    union: Any = Union
    return codec_for(union[kinds])


def read_reply(output: Any) -> Reply:
    """A value of that schema, whichever it is."""
    return Reply(**attrs.asdict(output))


def _kind(by: str, **fields: Any) -> type[Any]:
    typed: dict[str, Any] = {"by": Literal[by], **fields}
    return attrs.make_class(
        f"By_{by}", {name: attrs.field(type=type_) for name, type_ in typed.items()}, frozen=True, kw_only=True
    )


@attrs.frozen(kw_only=True, weakref_slot=False)
class Answer:
    """`by`, `file`, `words`, `files` and `passage` are the model's reply as it was decoded; the rest is computed."""

    by: str
    file: str | None
    words: int | None
    files: int | None
    passage: str | None
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
    return Answer(**attrs.asdict(reply), sure=sure, why=why, tried=tuple(str(call) for call in made))


def _weigh(reply: Reply, question: str, folder: Folder, made: Sequence[Made]) -> tuple[bool, str]:
    if reply.by == "nothing":
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
    """Whether `call` returned what `reply` claims to know by it."""
    told = call.returned
    if told is None or call.tool != reply.by:
        return False
    match reply.by:
        case "count_words":
            return (reply.file, reply.words) == (told["file"], told["words"])
        case "list_files":
            return reply.files == told["files"]
        case "search":
            return reply.file in cast("list[JsonValue]", told["names"])
        case "read_passage":
            return reply.file == told["file"] and str(reply.passage) in str(told["passage"])
        case "nothing":
            return False


def _unanswered(question: str, folder: Folder, call: Made) -> str | None:
    """Something in the question that `call` does not account for, or None if it accounts for all of it."""
    mentioned = mentions(question, folder.names)
    asked_about, rest = call.arguments.get("file"), mentioned.rest
    if mentioned.names != (() if asked_about is None else (asked_about,)):
        return "the files that the question names" if mentioned.names else "a question that names no file of the folder"
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
