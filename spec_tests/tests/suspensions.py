"""Suspended runs for the tests of suspension and resumption."""

from typing import Any

from tests.approval_world import AwayDesk, Office, asker, suspension
from tests.kernel_world import script
from triolet.adapters.scripted_model import call, text, turn
from triolet.kernel import (
    Suspended,
)

PAY = turn(call("pay", {"amount": 10}))


TWO = turn(call("pay", {"amount": 1}), call("pay", {"amount": 2}))


DONE = turn(text("done"))


async def suspended(office: Office, *turns: Any, **approval: Any) -> tuple[Any, Suspended]:
    """An agent and a run of it that waits in conversation c."""
    agent = asker(office.counted(), **approval)
    bound = office.kernel(agent, model=script(*(turns or (PAY,))), desk=AwayDesk())
    async with bound as kernel, kernel.conversation("c") as talk:
        return agent, suspension(await talk.run(agent, "go"))
