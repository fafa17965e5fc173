"""A sandbox that runs nothing, for tests of what is asked of one."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

from triolet.ports.isolation import Implementation, Posture
from triolet.ports.sandbox import Limits, Policy, Refusal, SandboxEvent, SandboxRequest, SandboxUnavailable


class Claims:
    """Says that it enforces everything."""

    implementation = Implementation(
        name="claims",
        version="1",
        posture=Posture(
            filesystem="enforced", network="enforced", processes="enforced", memory="enforced", cpu="enforced"
        ),
    )

    def check(self, policy: Policy, limits: Limits) -> tuple[Refusal, ...]:
        return ()

    @asynccontextmanager
    async def execute(self, request: SandboxRequest) -> AsyncGenerator[AsyncIterator[SandboxEvent]]:
        raise SandboxUnavailable(implementation="claims", problem="it runs nothing")
        yield  # pragma: no cover -- makes this a generator
