"""A substitute for the model: it plays the demo without one.

Decides by plain rules, from the request alone, which tools are called and what is replied. It drives the same agent and
the same tools over the same folder as the model does; only the choosing is not a model's.
"""

import json
import re
from collections.abc import Sequence
from typing import Final

from triolet.adapters.cli.demo.answer import QUOTED_CHARACTERS
from triolet.adapters.cli.demo.folder import Folder
from triolet.adapters.cli.demo.mentions import mentions
from triolet.adapters.scripted_model import Call, ScriptedModel, Turn, call, reasoning, text, turn
from triolet.ports.language_model import ModelRequest
from triolet.ports.messages import Message, Text, ToolMessage, UserMessage
from triolet.ports.outcomes import ToolSuccess
from triolet.ports.strict_json import JsonValue, parse

_LOOK: Final = "Let me see what is there."
_SAYS_LITTLE: Final = re.compile(
    r"how|many|much|words?|files?|text|mentions?|which|what|where|does|have|there|about|from|with|that|this"
    r"|contain(?:s|ing)?|are|the|and|says?"
)


def scripted_model(folder: Folder) -> ScriptedModel:
    """A model for one run: it lists the files, calls what the question seems to want, and replies."""

    def look(_: ModelRequest) -> Turn:
        # There is no usage to report where no model was asked.
        return turn(reasoning(_LOOK, chunks=5), call("list_files"), usage=None)

    def act(request: ModelRequest) -> Turn:
        return turn(_call_for(_question(request.messages), folder), usage=None)

    def reply(request: ModelRequest) -> Turn:
        said = json.dumps(_reply_to(request.messages), ensure_ascii=False)
        return turn(text(said, chunks=min(12, len(said))), usage=None)

    return ScriptedModel((look, act, reply), remember=0)


def _call_for(question: str, folder: Folder) -> Call:
    mentioned = mentions(question, folder.names)
    if not mentioned.names:
        telling = [
            word for word in _words(mentioned.rest) if len(word) > 2 and not _SAYS_LITTLE.fullmatch(word.lower())
        ]
        # The longest word is likely to be the rarest.
        return call("search", {"text": max(telling, key=len, default=question)[:60]})
    if "word" in mentioned.rest.lower():
        return call("count_words", {"file": mentioned.names[0]})
    return call("read_passage", {"file": mentioned.names[0], "line": 1})


def _reply_to(messages: Sequence[Message]) -> dict[str, JsonValue]:
    """The reply by the last result, whatever it is."""
    last = messages[-1]
    (result,) = last.results if isinstance(last, ToolMessage) else (None,)
    told = parse(result.outcome.output) if result and isinstance(result.outcome, ToolSuccess) else None
    match told:
        case {"file": file, "words": words}:
            return {"by": "count_words", "file": file, "words": words}
        case {"names": [first, *_], "passage": _}:
            return {"by": "search", "file": first}
        case {"file": file, "passage": str() as passage} if passage:
            return {"by": "read_passage", "file": file, "passage": passage.splitlines()[0][:QUOTED_CHARACTERS]}
        case _:
            return {"by": "nothing"}


def _question(messages: Sequence[Message]) -> str:
    (first, *_) = messages
    parts = first.parts if isinstance(first, UserMessage) else ()
    return "\n".join(part.text for part in parts if isinstance(part, Text))


def _words(line: str) -> list[str]:
    return "".join(character if character.isalnum() else " " for character in line).split()
