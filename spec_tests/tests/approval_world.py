"""A kernel's world with a desk, an inbox, a queue of inputs and an authorizer that the test holds in its hands.

Each tool it makes notes when its handler starts and on what. Besides what every world is held to, its logs are searched
at the end for a handler that started before its call was decided, or against the answer on record.
"""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Literal

import trio

from tests.kernel_world import SeenStore, World, talker
from tests.log_watch import LogWatch
from triolet.adapters.approval_desks import HeldDesk
from triolet.adapters.memory import MemoryInbox, MemoryInputs
from triolet.kernel import Agent, ApprovalPolicy, Capabilities, Kernel, Policy, Suspended, Tool, open_kernel, tool
from triolet.ports.admission import Admitted, InputKind, Offer
from triolet.ports.approval import PENDING, ApprovalRequest, Decision, GrantTerms, Pending
from triolet.ports.authorizer import Authorizer
from triolet.ports.batch import Batch
from triolet.ports.canonical import Digest
from triolet.ports.conversation_store import Address, Appended, Tail, Writer
from triolet.ports.errors import Unavailable
from triolet.ports.identity import CallId, InputId, Principal, RequestId
from triolet.ports.language_model import LanguageModel, ModelRequest
from triolet.ports.messages import Text, UserMessage
from triolet.ports.outcomes import ToolFailure, ToolSuccess
from triolet.ports.records import (
    ApprovalDecided,
    ApprovalRequested,
    CallsDecided,
    InputTaken,
    ModelResponded,
    ToolPrepared,
    ToolSettled,
)
from triolet.ports.strict_json import JsonText

BOSS = Principal(name="boss")


class FailingStore(SeenStore):
    """A store that a test may let fail, by what is to be written."""

    def __init__(self) -> None:
        super().__init__()
        self.fails: Callable[[Batch], bool] = lambda _: False

    async def append(self, writer: Writer, batch: Batch, *, expected: Tail) -> Appended:
        if self.fails(batch):
            raise Gone
        return await super().append(writer, batch, expected=expected)


class Gone(Unavailable):
    """The store cannot be reached."""

    @property
    def message(self) -> str:
        return "gone"


class Office(World):
    """A world with everybody who may have a say."""

    def __init__(self, watch: LogWatch | None = None) -> None:
        self.failing = FailingStore()
        super().__init__(store=self.failing)
        self.desk = HeldDesk()
        self.inbox = MemoryInbox()
        self.inputs = MemoryInputs()
        self.authorizer: Authorizer | None = None
        self.ran: list[tuple[str, int]] = []
        """Every handler that has started, with its input, in order."""
        self._watch = watch

    def kernel(
        self, *agents: Agent[Any, Any], model: LanguageModel | None = None, **options: Any
    ) -> AbstractAsyncContextManager[Kernel]:
        """A kernel over this world; `desk`, `authorizer`, `inbox` and `inputs` may be given otherwise."""
        ports: dict[str, Any] = {
            "approval": options.pop("desk", self.desk),
            "authorizer": options.pop("authorizer", self.authorizer),
            "inbox": options.pop("inbox", self.inbox),
            "inputs": options.pop("inputs", self.inputs),
        }
        bound = Capabilities(
            model=model, conversations=self.store, clock=self.clock, ids=self.ids, **(ports | self.ports)
        )
        return open_kernel(agents=agents, capabilities=bound, **options)

    def counted(self, name: str = "pay", *, ask: bool | Callable[[Any], bool] = True, **options: Any) -> Tool[Any, Any]:
        """A tool that notes its calls, and needs approval unless `ask` says otherwise."""

        async def handler(amount: int = 1, note: str = "") -> str:
            """Counted."""
            self.ran.append((name, amount))
            return f"{name} {amount}{note}"

        return tool(name=name, needs_approval=ask, **options)(handler)

    def leave_open(self) -> None:
        """This test ends while a run still waits, or leaves one that could not be closed."""
        self.open_runs_are_fine = True
        if self._watch is not None:
            self._watch.open_runs_are_fine = True

    def check(self) -> None:
        super().check()
        for address, batches in self.store.logs.items():
            check_approvals(batches, where=address.conversation)


def check_approvals(batches: Sequence[Batch], *, where: str) -> None:
    """No handler before all of its batch is decided, none against an answer, one answer for each request."""
    asked: dict[CallId, RequestId] = {}
    answers: dict[CallId, str] = {}
    runnable: set[CallId] = set()
    current: set[CallId] = set()
    for record in (record for batch in batches for record in batch.records):
        match record:
            case ModelResponded(message=message):
                runnable, current = set(), {call.id for call in message.calls}
            case ApprovalRequested(request=request):
                assert request.call not in asked, where
                asked[request.call] = request.id
            case ApprovalDecided(call=call, request=request, verdict=verdict):
                assert asked[call] == request, where
                assert call not in answers, where
                answers[call] = verdict
            case CallsDecided(runnable=rows):
                assert current & asked.keys() == current & answers.keys(), where
                runnable = {row.call for row in rows}
            case ToolPrepared(calls=calls):
                assert runnable.issuperset(calls), where
            case ToolSettled(call=call, outcome=ToolSuccess() | ToolFailure()):
                assert call in runnable, where
                assert answers.get(call, "approved") == "approved", where
            case _:
                pass


class AwayDesk:
    """A desk at which nobody sits: what is asked lies there, and whoever asks hears so at once."""

    def __init__(self) -> None:
        self.asked: list[tuple[ApprovalRequest, float]] = []
        self.withdrawn: list[RequestId] = []

    async def request(self, request: ApprovalRequest, *, patience: float) -> Decision | Pending:
        self.asked.append((request, patience))
        return PENDING

    async def withdraw(self, request: RequestId) -> None:
        self.withdrawn.append(request)


class SlowInputs(MemoryInputs):
    """A queue that is far away: others get their turn before it acts, and before its caller hears of it."""

    async def admit(self, address: Address, offer: Offer) -> Admitted:
        await trio.lowlevel.checkpoint()
        admitted = await super().admit(address, offer)
        await trio.lowlevel.checkpoint()
        return admitted

    async def claim_joining(self, address: Address, kind: InputKind, limit: int) -> tuple[Admitted, ...]:
        await trio.lowlevel.checkpoint()
        claimed = await super().claim_joining(address, kind, limit)
        await trio.lowlevel.checkpoint()
        return claimed

    async def mark_joined(self, address: Address, inputs: tuple[InputId, ...]) -> None:
        await trio.lowlevel.checkpoint()
        await super().mark_joined(address, inputs)
        await trio.lowlevel.checkpoint()


class Deaf(MemoryInputs):
    """A queue that does not hear so many times: it hangs, or is away."""

    def __init__(self, times: int, *, hangs: bool) -> None:
        super().__init__()
        self.times = times
        self.hangs = hangs
        self.reverted = 0

    async def mark_joined(self, address: Address, inputs: tuple[InputId, ...]) -> None:
        await self._hear()
        await super().mark_joined(address, inputs)

    async def revert(self, address: Address) -> None:
        self.reverted += 1
        await self._hear()
        await super().revert(address)

    async def _hear(self) -> None:
        if self.times:
            self.times -= 1
            if self.hangs:
                await trio.sleep_forever()
            raise Gone


class FunctionDesk(AwayDesk):
    """A desk that does what a function does."""

    def __init__(self, answer: Callable[[ApprovalRequest, float], Awaitable[Any]]) -> None:
        super().__init__()
        self._answer = answer

    async def request(self, request: ApprovalRequest, *, patience: float) -> Any:
        self.asked.append((request, patience))
        return await self._answer(request, patience)


def desk_that(answer: Callable[[ApprovalRequest, float], Any]) -> FunctionDesk:
    """A desk that answers by a plain function, at once."""

    async def answered(request: ApprovalRequest, patience: float) -> Any:
        return answer(request, patience)

    return FunctionDesk(answered)


def asker(*tools: Tool[Any, Any], limits: dict[str, Any] | None = None, **approval: Any) -> Agent[str, str]:
    """An agent from text to text with these tools and this approval policy."""
    return talker(*tools, policy=Policy(approval=ApprovalPolicy(**approval), **(limits or {})))


def yes(
    request: ApprovalRequest | None = None,
    *,
    edited: str | None = None,
    grant: GrantTerms | None = None,
    reason: str = "",
    arguments: Digest | None = None,
) -> Decision:
    """A yes, to exactly what a request shows if one is given."""
    return Decision(
        verdict="approved",
        by=BOSS,
        reason=reason,
        arguments=arguments if request is None else request.arguments,
        edited=None if edited is None else JsonText(edited),
        grant=grant,
    )


def no(request: ApprovalRequest | None = None, *, reason: str = "") -> Decision:
    """A no."""
    return Decision(verdict="denied", by=BOSS, reason=reason, arguments=None if request is None else request.arguments)


def suspension(result: object) -> Suspended:
    """The result, which must be a suspension."""
    assert isinstance(result, Suspended), result
    return result


def shown(request: ModelRequest) -> list[str]:
    """What a request shows, in order: a user's text as it is, and other messages by their role."""
    return [
        "".join(part.text for part in message.parts if isinstance(part, Text))
        if isinstance(message, UserMessage)
        else type(message).__name__.removesuffix("Message").lower()
        for message in request.messages
    ]


def inputs_on_record(batches: Sequence[Batch]) -> list[InputTaken]:
    """Every input that a log holds, in order, but the kernel's own corrections."""
    records = [record for batch in batches for record in batch.records]
    return [record for record in records if isinstance(record, InputTaken) and record.source != "correction"]


def terms_for(
    scope: Literal["run", "conversation"], *, by_targets: bool = False, seconds: float | None = None
) -> GrantTerms:
    """Terms of a grant."""
    return GrantTerms(scope=scope, by_targets=by_targets, seconds=seconds)
