"""How one call of one tool ends, for the tests of outcomes."""

from typing import Any

import attrs

from tests.kernel_world import World, one_agent, shown_outcomes, talker
from triolet.adapters.scripted_model import call, turn
from triolet.kernel import Policy, Tool
from triolet.ports.language_model import ModelRequest
from triolet.ports.outcomes import (
    Outcome,
    ToolSuccess,
)
from triolet.ports.strict_json import parse

SECRET = "s3cr3t"


async def outcome_of(
    world: World, used: Tool[Any, Any], arguments: Any = "{}", policy: Policy | None = None, name: str | None = None
) -> Outcome:
    """The outcome of one call, which the model's next request shows as it is on record."""
    agent = talker(used, policy=policy)
    requests: list[ModelRequest] = []

    def done(request: ModelRequest) -> Any:
        requests.append(request)
        return turn("Done.")

    async with one_agent(world, agent, turn(call(name or used.name, arguments)), done) as (kernel, _):
        result = await kernel.run(agent, "go")
    assert result.output == "Done."
    [outcome] = world.outcomes()
    assert shown_outcomes(requests[0]) == [outcome]
    if isinstance(outcome, ToolSuccess):
        parse(outcome.output)
    return outcome


@attrs.define(kw_only=True)
class Full(Exception):
    """Declared."""

    free: int
    note: str = ""
