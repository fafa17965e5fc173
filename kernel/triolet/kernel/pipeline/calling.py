"""Calling a handler: the one way, for a direct call and for one that another handler makes (RUN-016).

Decides what a handler is given: the context of its call, the time that its tool or the policy allows it, and a broker
if its tool declares calls. It judges nothing, pays for nothing, and knows no batch.
"""

from collections.abc import Callable, Mapping
from typing import Any

import attrs

from triolet.kernel.agent import Agent
from triolet.kernel.broker import Account, Broker
from triolet.kernel.machine.state import NO_STEPS
from triolet.kernel.pipeline.bound import Keep
from triolet.kernel.pipeline.context import CallContext, CallHost
from triolet.kernel.pipeline.handler import run_handler
from triolet.kernel.pipeline.runnable import Runnable
from triolet.kernel.runtime import Runtime
from triolet.ports.identity import CallId, ConversationId, after
from triolet.ports.outcomes import Outcome
from triolet.ports.records import RunStarted
from triolet.ports.strict_json import JsonText


@attrs.frozen(kw_only=True, eq=False, weakref_slot=False)
class Calling:
    """What the calls of one run have in common.

    `account` pays for programmatic calls, `host` hears of progress and steps, and `keep` keeps whole what is too large.
    """

    runtime: Runtime
    agent: Agent[Any, Any]
    started: RunStarted
    conversation: ConversationId
    account: Account
    host: CallHost
    keep: Keep

    async def call(
        self, runnable: Runnable, began: Callable[[], None], steps: Mapping[tuple[CallId, str], JsonText]
    ) -> Outcome:
        """Run the handler to its outcome. `began` is called just before it starts; `steps` are those on record."""
        tool, policy = runnable.tool, self.agent.policy
        seconds = policy.tool_seconds if tool.timeout is None else tool.timeout
        context = CallContext(
            tool=tool,
            call=runnable.call.id,
            run=self.started.run,
            conversation=self.conversation,
            principal=self.started.principal,
            deadline=after(self.runtime.clock.now(), seconds),
            capabilities=self.runtime.capabilities,
            steps=steps,
            host=self.host,
            broker=self._broker(runnable),
        )
        try:
            return await run_handler(
                runnable,
                context,
                seconds=seconds,
                result_bytes=policy.result_bytes,
                keep=self.keep,
                threads=self.runtime.threads,
                began=began,
            )
        finally:
            context.close()

    def _broker(self, runnable: Runnable) -> Broker | None:
        if runnable.tool.calls is None:
            return None
        return Broker(
            self.runtime,
            self.agent,
            self.started,
            self.conversation,
            outer=runnable.tool,
            call=runnable.call.id,
            account=self.account,
            run=self._call_within,
        )

    async def _call_within(self, runnable: Runnable) -> Outcome:
        # Nothing of it is on record, so no step of an earlier attempt is either, and observers see the outer call only.
        return await self.call(runnable, _nothing, NO_STEPS)


def _nothing() -> None:
    return None
