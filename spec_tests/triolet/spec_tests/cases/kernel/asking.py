"""What the cases about approval, authority and steering share: desks and authorizers that a case directs.

Decides nothing that is judged. What a desk or an authorizer was asked is kept in the order in which it was asked.
"""

from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final

import trio

from triolet.adapters.memory import MemoryInbox, MemoryInputs
from triolet.adapters.scripted_model import ScriptItem
from triolet.kernel import Agent, ApprovalPolicy, Failed, Kernel, Policy, RunResult, Suspended, Telemetry, Tool, tool
from triolet.ports.admission import Admitted, InputKind
from triolet.ports.approval import PENDING, Approval, ApprovalRequest, ApprovalUnavailable, Decision, Pending
from triolet.ports.authorizer import Action, Authorizer, Verdict
from triolet.ports.canonical import Digest
from triolet.ports.conversation_store import Address
from triolet.ports.errors import Unavailable
from triolet.ports.identity import InputId, Principal, RequestId
from triolet.ports.secrets import SecretResolver
from triolet.ports.strict_json import JsonText
from triolet.spec_tests.cases.kernel.setting import Bench, KeepingStore, KernelSubject, open_bench, text_agent
from triolet.spec_tests.claims import SpecViolation, ensure_equal

BOSS = Principal(name="boss")
"""Who answers."""


class Desk:
    """A desk that answers at once what a function says; None leaves a request to somebody who is not there."""

    def __init__(self, answer: Callable[[ApprovalRequest], Decision | None] = lambda _: None) -> None:
        self.asked: list[ApprovalRequest] = []
        self.withdrawn: list[RequestId] = []
        self._answer = answer

    async def request(self, request: ApprovalRequest, *, patience: float) -> Decision | Pending:
        """Answer, or say that nobody is there."""
        await trio.lowlevel.checkpoint()
        if request not in self.asked:
            self.asked.append(request)
        return self._answer(request) or PENDING

    async def withdraw(self, request: RequestId) -> None:
        """Note it."""
        await trio.lowlevel.checkpoint()
        self.withdrawn.append(request)


class LateDesk(Desk):
    """A desk that knows nothing at once, and answers whoever waits."""

    async def request(self, request: ApprovalRequest, *, patience: float) -> Decision | Pending:
        """Answer who has patience."""
        answer = await super().request(request, patience=patience)
        return answer if patience > 0 else PENDING


class SilentDesk(Desk):
    """A desk at which nobody answers however long one waits."""

    async def request(self, request: ApprovalRequest, *, patience: float) -> Decision | Pending:
        """Wait all the time that there is."""
        await super().request(request, patience=patience)
        await trio.sleep(patience)
        return PENDING


class BrokenDesk(Desk):
    """A desk that cannot be reached."""

    async def request(self, request: ApprovalRequest, *, patience: float) -> Decision | Pending:
        """Fail."""
        await super().request(request, patience=patience)
        raise ApprovalUnavailable(desk="broken", problem="nobody picks up")


class Rules:
    """An authorizer that says what a function says, and keeps what it was asked and for whom."""

    def __init__(self, judge: Callable[[Any], Verdict]) -> None:
        self.asked: list[tuple[Any, Principal]] = []
        self._judge = judge

    async def authorize(self, action: Action, principal: Principal) -> Verdict:
        """Say it."""
        await trio.lowlevel.checkpoint()
        self.asked.append((action, principal))
        return self._judge(action)


class QueueAway(Unavailable):
    """The queue cannot be reached."""

    @property
    def message(self) -> str:
        """What is wrong."""
        return "the queue cannot be reached"


class NotedInputs(MemoryInputs):
    """A queue that notes what it is told about inputs.

    It can hold a claim once: `hold` is set when that is made. Told of inputs on record, it is away `away` times.
    """

    def __init__(self) -> None:
        super().__init__()
        self.told: list[str] = []
        self.hold: trio.Event | None = None
        self.away = 0

    async def claim_joining(self, address: Address, kind: InputKind, limit: int) -> tuple[Admitted, ...]:
        """Claim; a claim that gives something and is to be held comes to no end."""
        claimed = await super().claim_joining(address, kind, limit)
        if claimed and self.hold is not None:
            hold, self.hold = self.hold, None
            hold.set()
            await trio.sleep_forever()
        return claimed

    async def mark_joined(self, address: Address, inputs: tuple[InputId, ...]) -> None:
        """Note the inputs that are on record now, unless the queue is away."""
        if self.away:
            self.away -= 1
            raise QueueAway
        self.told += [f"joined {each}" for each in inputs]
        await super().mark_joined(address, inputs)

    async def revert(self, address: Address) -> None:
        """Note that what was claimed comes back."""
        self.told.append("reverted")
        await super().revert(address)


def yes(
    request: ApprovalRequest | None = None, *, edited: str | None = None, arguments: Digest | None = None, **more: Any
) -> Decision:
    """A yes: to exactly what `request` shows, or about these arguments."""
    return Decision(
        verdict="approved",
        by=BOSS,
        reason="it is due",
        arguments=arguments if request is None else request.arguments,
        edited=None if edited is None else JsonText(edited),
        **more,
    )


def no(request: ApprovalRequest) -> Decision:
    """A no to exactly what `request` shows."""
    return Decision(verdict="denied", by=BOSS, reason="too much", arguments=request.arguments)


def paying(ran: list[Any], *, ask: Any = True, name: str = "pay", **options: Any) -> Tool[Any, Any]:
    """A tool that needs a yes, unless `ask` says otherwise, and notes on what its handler started."""

    async def handler(amount: int) -> str:
        ran.append(amount)
        return f"paid {amount}"

    return tool(name=name, needs_approval=ask, **options)(handler)


def asker(*tools: Tool[Any, Any], limits: dict[str, Any] | None = None, **approval: Any) -> Agent[Any, Any]:
    """An agent with these tools and this approval policy."""
    return text_agent(*tools, policy=Policy(approval=ApprovalPolicy(**approval), **(limits or {})))


@asynccontextmanager
async def open_office(
    subject: KernelSubject,
    script: Iterable[ScriptItem],
    agent: Agent[Any, Any],
    *,
    desk: Approval | None = None,
    authorizer: Authorizer | None = None,
    inputs: MemoryInputs | None = None,
    store: KeepingStore | None = None,
    secrets: SecretResolver | None = None,
    telemetry: Telemetry | None = None,
) -> AsyncGenerator[Bench]:
    """A bench with a desk, an inbox and a queue of inputs, and an authorizer and secrets if they are given."""
    ports = {
        "approval": Desk() if desk is None else desk,
        "inbox": MemoryInbox(),
        "inputs": MemoryInputs() if inputs is None else inputs,
        "authorizer": authorizer,
        "secrets": secrets,
    }
    async with open_bench(
        subject, script, agent, store=store, ports=ports, options={} if telemetry is None else {"telemetry": telemetry}
    ) as bench:
        yield bench


NOTHING: Final[list[int]] = []
"""What ran where nothing did."""


def another_kernel(subject: KernelSubject, bench: Bench) -> AbstractAsyncContextManager[Kernel]:
    """A second kernel on the same ports."""
    return subject.port(agents=[bench.agent], capabilities=bench.capabilities)


def suspension(result: RunResult[Any]) -> Suspended:
    """The result as a suspension. Raises `SpecViolation` if it is none."""
    if not isinstance(result, Suspended):
        raise SpecViolation(problem=f"the run is {type(result).__name__}, where it waits for answers")
    return result


async def ensure_open(bench: Bench, waiting: Suspended) -> None:
    """Raise `SpecViolation` unless the run still waits, for a no is what ends it."""
    for request in waiting.requests:
        await bench.kernel.answer(request.id, no(request))
    result = await bench.kernel.resume(waiting)
    ensure_equal(type(result), Failed, "the result of a run that waited for its answer, once that is a no")
