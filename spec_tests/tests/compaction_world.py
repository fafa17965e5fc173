"""Agents with small contexts, and what they are shown, for tests of compaction."""

from collections.abc import Sequence
from typing import Any

import pytest

from tests.kernel_world import World, talker
from triolet.adapters.estimators import ByteEstimator
from triolet.adapters.scripted_model import Turn, call, text, turn
from triolet.kernel import (
    Agent,
    Policy,
    RetryPolicy,
    tool,
)
from triolet.ports.language_model import ModelRequest, ModelUnavailable
from triolet.ports.messages import Message, ToolMessage, UserMessage
from triolet.ports.outcomes import outcome_text
from triolet.ports.usage import Usage

LONG = "x" * 3_000
"""About a thousand tokens."""


@tool(execution="readonly")
async def read(n: int) -> str:
    """Read something long."""
    return f"{n}:{LONG}"


@tool(execution="readonly")
async def think(n: int) -> int:
    """Return a number."""
    return n


@pytest.fixture
async def estimating(world: World) -> World:
    world.ports["estimator"] = ByteEstimator()
    return world


def small(tokens: int | None = 3_000, **fields: Any) -> Agent[str, str]:
    options = {key: fields.pop(key) for key in ("redact_summary", "instructions") if key in fields}
    policy = Policy(context_tokens=tokens, max_turns=40, retry=RetryPolicy(tries=1), **fields)
    return talker(read, think, policy=policy, **options)


def reads(n: int) -> Turn:
    return turn(call("read", {"n": n}))


def shown_text(messages: Sequence[Message]) -> str:
    pieces: list[str] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            pieces.extend(outcome_text(result.outcome) for result in message.results)
        elif isinstance(message, UserMessage):
            pieces.extend(part.text for part in message.parts if part.kind == "text")
        else:
            pieces.append(message.text)
    return "\n".join(pieces)


def answers(request: ModelRequest) -> Turn:
    """Read until told otherwise; write a summary when asked for one."""
    if request.purpose == "summary":
        return turn(text("SUMMARY of it all"), usage=Usage(input_tokens=50, output_tokens=5))
    return turn("done") if request.turn > 6 else reads(request.turn)


BAD_SUMMARIES: dict[str, Turn] = {
    "empty": turn(text(" \n")),
    "no-smaller": turn(text("y" * 60_000)),
    "model-failed": turn("x").failing(ModelUnavailable(model="m", reason="timeout"), after=0),
}
