"""The demo as JSON lines, for programs: one event a line, and the result as the last.

Decides the shape of those lines. An event is encoded by its own schema, with `kind` first; what all events of a run
share stands once, in `run-began`. Fields are only ever added. Nothing is rounded, and nothing is left out.
"""

from collections.abc import Mapping
from typing import Final, cast

import attrs
import orjson

from triolet.adapters.cli.demo.answer import Answer
from triolet.ports.events import Event, RunBegan
from triolet.ports.schema import codec_for
from triolet.ports.strict_json import JsonValue

_SHARED: Final = "trace"
_FIRST: Final = ("kind", "sequence", "at")


def event_line(event: Event) -> str:
    """One event as a line, without its line feed."""
    fields = cast("dict[str, JsonValue]", codec_for(type(event)).encode(event))
    shared = cast("dict[str, JsonValue]", fields.pop(_SHARED))
    if isinstance(event, RunBegan):
        fields |= shared
    return _line({name: fields[name] for name in _FIRST} | fields)


def result_line(answer: Answer | None, **facts: object) -> str:
    """The last line: the answer, or null where the run has none, and what else is known."""
    return _line({"kind": "result", "answer": None if answer is None else attrs.asdict(answer)} | facts)


def _line(fields: Mapping[str, object]) -> str:
    return orjson.dumps(fields).decode()
