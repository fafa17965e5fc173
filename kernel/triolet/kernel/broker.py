"""The broker: how a running handler calls other tools (RUN-016, RUN-017).

Decides that a programmatic call takes the way of a direct one, stage by stage, and what is different: it runs under the
outer call's permit and one at a time, its identity is the outer call's and an index, it is paid for before its handler
starts, and it leaves no record. What would have to be asked about is rejected, for nothing in a program can wait for a
person. It decides no budget.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import trio

from triolet.kernel.agent import Agent
from triolet.kernel.machine.observations import Forbidden
from triolet.kernel.machine.outcome_table import denied
from triolet.kernel.machine.plan import JudgeCalls
from triolet.kernel.machine.reduction import reduce_call
from triolet.kernel.machine.state import NOT_ANSWERED
from triolet.kernel.pipeline.authority import Authority
from triolet.kernel.pipeline.judge import judge_with_authority
from triolet.kernel.pipeline.runnable import Runnable
from triolet.kernel.runtime import Runtime
from triolet.ports.approval import ApprovalRequest
from triolet.ports.identity import CallId, ConversationId
from triolet.ports.outcomes import Outcome, ToolRejected
from triolet.ports.records import RunStarted
from triolet.ports.tool_context import CallRefused
from triolet.ports.tools import Tool, Toolkit

_NOBODY_TO_ASK = "the call needs an approval, which a program cannot wait for"


class Account(Protocol):
    """Who pays for programmatic calls."""

    async def pay(self, outer: CallId) -> ToolRejected | None:
        """Pay for one more call; None if it is paid, and otherwise its outcome."""
        ...


class Broker:
    """The programmatic calls of one handler. It ends with the handler."""

    __slots__ = (
        "_account",
        "_agent",
        "_busy",
        "_call",
        "_conversation",
        "_index",
        "_outer",
        "_over",
        "_run",
        "_runtime",
        "_started",
        "_toolkit",
    )

    def __init__(
        self,
        runtime: Runtime,
        agent: Agent[Any, Any],
        started: RunStarted,
        conversation: ConversationId,
        *,
        outer: Tool[Any, Any],
        call: CallId,
        account: Account,
        run: Callable[[Runnable], Awaitable[Outcome]],
    ) -> None:
        if outer.calls is None:
            raise AssertionError("a tool that declares no calls has no broker")
        self._toolkit: Toolkit = outer.calls
        self._runtime = runtime
        self._agent = agent
        self._started = started
        self._conversation = conversation
        self._outer = outer
        self._call = call
        self._account = account
        self._run = run
        self._index = 0
        self._busy = False
        self._over = False

    def close(self) -> None:
        """The handler has ended: nobody calls anything for it any more."""
        self._over = True

    async def call(self, name: str, arguments: str) -> Outcome:
        """Call a declared tool. Raises `CallRefused`."""
        if self._over:
            raise self._refused("its own call has ended")
        if self._busy:
            raise self._refused("another of its calls is under way")
        self._busy = True
        try:
            await trio.lowlevel.checkpoint_if_cancelled()
            identity = CallId(f"{self._call}/{self._index}")
            self._index += 1
            judged = await self._judged(identity, name, arguments)
            if not isinstance(judged, Runnable):
                self._runtime.watch.refused({identity: judged})
                return judged
            rejected = await self._account.pay(self._call)
            if rejected is not None:
                return rejected
            with self._runtime.watch.call(judged) as work:
                return work.settled(await self._run(judged))
        finally:
            self._busy = False

    async def _judged(self, identity: CallId, name: str, arguments: str) -> Runnable | Outcome:
        call = reduce_call(identity, name, arguments)
        authority = Authority(self._runtime, self._agent, self._started, self._conversation)
        action = JudgeCalls(turn=0, calls=(call,), answers=NOT_ANSWERED)
        judged = (await judge_with_authority(self._toolkit, action, authority))[identity]
        if isinstance(judged, ApprovalRequest):
            return denied("denied", _NOBODY_TO_ASK)
        return denied("denied", judged.reason) if isinstance(judged, Forbidden) else judged

    def _refused(self, problem: str) -> CallRefused:
        return CallRefused(tool=self._outer.name, problem=problem)
