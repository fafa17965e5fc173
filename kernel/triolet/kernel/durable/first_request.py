"""From a submission to its run: the input decoded again, and the instructions rendered once.

Decides everything about the run that is fixed before its first record, and that input which the agent does not take
any more begins nothing. (DUR-001, RUN-030)
"""

from typing import Any

import attrs

from triolet.kernel.agent import Agent
from triolet.kernel.machine.observations import RunRequested
from triolet.kernel.policy import Allowance
from triolet.kernel.run_request import InvalidInstructions, fixed_run, rendered_instructions
from triolet.kernel.runtime import Runtime
from triolet.ports.errors import BrokenText, InvalidJson, InvalidValue, Misuse
from triolet.ports.identity import InputId
from triolet.ports.ledger import Claim, Submission, run_of
from triolet.ports.messages import Text
from triolet.ports.schema import codec_for


@attrs.define(kw_only=True)
class InputUnfit(Misuse):
    """The agent does not take this input any more, or makes no instructions of it. Nothing was recorded."""

    agent: str
    problem: str

    @property
    def message(self) -> str:
        """Whose input, and what is wrong."""
        return f"agent {self.agent!r} cannot begin: {self.problem}"


async def first_request(runtime: Runtime, agent: Agent[Any, Any], claim: Claim, *, aborted: bool) -> RunRequested:
    """The run of a submission. One that is aborted before it began needs no instructions. Raises `InputUnfit`."""
    work = claim.submission
    try:
        allowance = codec_for(Allowance).decode_text(work.allowance)
        instructions = "" if aborted else await rendered_instructions(agent, _value(agent, work))
    except (InvalidJson, InvalidValue, BrokenText, InvalidInstructions) as error:
        raise InputUnfit(agent=agent.id, problem=error.message) from error
    return fixed_run(
        agent,
        run=run_of(work.id),
        instructions=instructions,
        principal=work.principal,
        allowance=allowance,
        unknown="wait",
        epoch=claim.epoch,
        input=InputId(work.id),
        author=work.author,
        parts=work.parts,
        now=runtime.clock.now(),
        offered_at=work.offered_at,
        submission=work.id,
    )


def _value(agent: Agent[Any, Any], work: Submission) -> Any:
    text = "".join(part.text for part in work.parts if isinstance(part, Text))
    return text if agent.input is str else agent.input_codec.decode_text(text)
