"""From an application's wish to a run: input encoded, instructions rendered, identities and deadline fixed.

Decides everything about a run that is fixed before its first record; a fault found here leaves no trace in the
log. It starts nothing.
"""

from collections.abc import Awaitable
from inspect import isawaitable
from typing import Any, Final, Literal, cast

import attrs

from triolet.kernel.agent import Agent
from triolet.kernel.machine.budget import WARN_AT
from triolet.kernel.machine.observations import RunRequested
from triolet.kernel.policy import AS_DEFINED, Allowance
from triolet.kernel.runtime import Runtime
from triolet.ports.errors import InvalidValue, Misuse
from triolet.ports.identity import Epoch, InputId, Instant, Principal, RunId, SubmissionId, after
from triolet.ports.messages import Part, Text
from triolet.ports.text import require_clean

MAX_INPUT_BYTES: Final = 4 * 1024 * 1024
"""One input, as UTF-8. More than that belongs into a tool or an artifact."""
MAX_INSTRUCTIONS_BYTES: Final = 1024 * 1024
"""Rendered instructions, as UTF-8."""


@attrs.define(kw_only=True)
class InvalidInstructions(Misuse):
    """An instruction function gave something that is no acceptable text. Nothing was recorded."""

    agent: str
    problem: str

    @property
    def message(self) -> str:
        """Whose instructions, and what is wrong."""
        return f"instructions of agent {self.agent!r}: {self.problem}"


async def request_run(
    runtime: Runtime,
    agent: Agent[Any, Any],
    value: Any,
    *,
    principal: Principal,
    author: str | None,
    epoch: Epoch,
    allowance: Allowance = AS_DEFINED,
) -> RunRequested:
    """Fix everything about a run. Raises `InvalidValue`, `InvalidJson`, `BrokenText` or `InvalidInstructions`."""
    who = require_clean(principal.name, "principal")
    text = input_text(agent, value)
    instructions = await rendered_instructions(agent, value)
    now = runtime.clock.now()
    run = RunId(runtime.ids.new("run"))
    return fixed_run(
        agent,
        run=run,
        instructions=instructions,
        principal=principal,
        allowance=allowance,
        unknown="result",
        epoch=epoch,
        input=InputId(f"{run}-input"),
        author=who if author is None else require_clean(author, "author"),
        parts=(Text(text=text),),
        now=now,
    )


def fixed_run(
    agent: Agent[Any, Any],
    *,
    run: RunId,
    instructions: str,
    principal: Principal,
    allowance: Allowance,
    unknown: Literal["result", "wait"],
    epoch: Epoch,
    input: InputId,  # noqa: A002 -- it is what the thing is called
    author: str,
    parts: tuple[Part, ...],
    now: Instant,
    offered_at: Instant | None = None,
    submission: SubmissionId | None = None,
) -> RunRequested:
    """A run that starts now: its clock runs from here, whenever its input was offered (RUN-030)."""
    policy = agent.policy.tightened(allowance)
    seconds = policy.max_seconds
    return RunRequested(
        run=run,
        agent=agent.id,
        agent_version=agent.version,
        definition=agent.definition,
        principal=principal,
        limits=policy.limits,
        approval=policy.approval.rules,
        drain=policy.drain,
        retry=policy.retry.rules,
        summarise=policy.summarise,
        deadline=None if seconds is None else after(now, seconds),
        warn_at=None if seconds is None else after(now, seconds * WARN_AT),
        unknown=unknown,
        structured=agent.structured,
        instructions=instructions,
        epoch=epoch,
        input=input,
        author=author,
        parts=parts,
        submission=submission,
        at=now if offered_at is None else offered_at,
    )


def input_text(agent: Agent[Any, Any], value: Any) -> str:
    """An input as it is put on record. Raises `InvalidValue`, `InvalidJson` or `BrokenText`."""
    if agent.input is str:
        if not isinstance(value, str):
            problem = f"is {type(value).__name__}, not text"
            raise InvalidValue(subject=f"input of agent {agent.id}", violations=(("", problem),))
        text = require_clean(value, f"input of agent {agent.id}")
    else:
        text = agent.input_codec.encode_text(value)
    check_size(text, f"input of agent {agent.id}")
    return text


def check_size(text: str, subject: str) -> None:
    """Raise `InvalidValue` if an input's text is larger than `MAX_INPUT_BYTES`."""
    size = len(text) if text.isascii() else len(text.encode())
    if size > MAX_INPUT_BYTES:
        problem = f"is {size} bytes; an input has at most {MAX_INPUT_BYTES}"
        raise InvalidValue(subject=subject, violations=(("", problem),))


async def rendered_instructions(agent: Agent[Any, Any], value: Any) -> str:
    """The agent's instructions for this input. Raises `InvalidInstructions`, and what its function raises."""
    if isinstance(agent.instructions, str):
        text: object = agent.instructions
    else:
        text = agent.instructions(value)
        if isawaitable(text):
            text = await cast("Awaitable[object]", text)
    if not isinstance(text, str):
        raise InvalidInstructions(agent=agent.id, problem=f"the function gave {type(text).__name__}, not text")
    if len(text.encode(errors="replace")) > MAX_INSTRUCTIONS_BYTES:
        raise InvalidInstructions(agent=agent.id, problem=f"they have more than {MAX_INSTRUCTIONS_BYTES} bytes")
    return require_clean(text, f"instructions of agent {agent.id}")
