"""A language model that answers by a script: for tests, benchmarks and examples that need no provider."""

from triolet.adapters.scripted_model.model import ScriptedModel, ScriptExhausted, ScriptItem
from triolet.adapters.scripted_model.pieces import (
    USUAL_USAGE,
    Call,
    Interleaved,
    Piece,
    Spoken,
    call,
    interleaved,
    opaque,
    raw,
    reasoning,
    text,
    turn,
)
from triolet.adapters.scripted_model.playing import AnswerClosed, Playing
from triolet.adapters.scripted_model.turns import InvalidScript, Turn

__all__ = [
    "USUAL_USAGE",
    "AnswerClosed",
    "Call",
    "Interleaved",
    "InvalidScript",
    "Piece",
    "Playing",
    "ScriptExhausted",
    "ScriptItem",
    "ScriptedModel",
    "Spoken",
    "Turn",
    "call",
    "interleaved",
    "opaque",
    "raw",
    "reasoning",
    "text",
    "turn",
]
