"""Ledgers to test against their contract: in memory and on a file, each on a clock that a test moves by hand."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import attrs

from triolet.adapters.memory import MemoryConversations, MemoryLedger
from triolet.adapters.sqlite import open_sqlite
from triolet.ports.batch import Batch
from triolet.ports.conversation_store import Address, ConversationStore
from triolet.ports.identity import (
    MICROSECONDS,
    AgentId,
    BatchId,
    ConversationId,
    Epoch,
    Instant,
    Principal,
    RunId,
    SubmissionId,
    TenantId,
)
from triolet.ports.ledger import Claim, Command, Idle, Ledger, Settlement, Submission, SubmissionKind, run_of
from triolet.ports.ledger.commands import Act
from triolet.ports.messages import Text
from triolet.ports.records import RunSettled
from triolet.ports.usage import UsageTotals
from triolet.spec_tests.cases.record_samples import AT

Kind = Literal["memory", "sqlite"]
KINDS: tuple[Kind, ...] = ("memory", "sqlite")

TENANT = TenantId("acme")
ANN = Principal(name="ann", tenant=TENANT)
AGENT = AgentId("agent")


class HandClock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self._now = AT

    def now(self) -> Instant:
        return self._now

    def move(self, seconds: float) -> None:
        self._now = Instant(self._now + int(seconds * MICROSECONDS))


@attrs.define(kw_only=True)
class Stores:
    """A ledger with its logs, on a clock."""

    clock: HandClock
    ledger: Ledger
    conversations: ConversationStore

    async def submitted(self, name: str, conversation: str = "talk", **fields: Any) -> Submission:
        """Work that is accepted."""
        work = submission(name, conversation, **fields)
        await self.ledger.admit(work)
        await self.ledger.mark_ready(work.address.tenant, work.id)
        return work

    async def claimed(self, worker: str = "worker", lease_seconds: float = 10) -> Claim:
        """A claim on what can be claimed; there is something."""
        claim = await self.ledger.claim(worker, agents=None, lease_seconds=lease_seconds)
        assert isinstance(claim, Claim)
        return claim

    async def idle(self) -> Idle:
        """Nothing can be claimed."""
        claim = await self.ledger.claim("nobody", agents=None, lease_seconds=10)
        assert isinstance(claim, Idle), claim
        return claim


@asynccontextmanager
async def open_stores(
    kind: Kind, folder: Path, clock: HandClock, *, waiting_limit: int = 1_000
) -> AsyncGenerator[Stores]:
    """What is in this folder, or new stores. Leaving keeps it there."""
    if kind == "sqlite":
        async with open_sqlite(folder / "store.db", clock=clock, waiting_limit=waiting_limit) as store:
            yield Stores(clock=clock, ledger=store.ledger, conversations=store.conversations)
        return
    logs, work = folder / "logs", folder / "ledger"
    conversations = MemoryConversations.load(logs.read_bytes()) if logs.exists() else MemoryConversations()
    ledger = MemoryLedger(clock, conversations=conversations, waiting_limit=waiting_limit)
    if work.exists():
        ledger = MemoryLedger.load(work.read_bytes(), clock, conversations=conversations)
    yield Stores(clock=clock, ledger=ledger, conversations=conversations)
    logs.write_bytes(conversations.save())
    work.write_bytes(ledger.save())


def submission(
    name: str,
    conversation: str = "talk",
    *,
    kind: SubmissionKind = "run",
    key: str | None = None,
    principal: Principal = ANN,
    agent: AgentId = AGENT,
    text: str = "hello",
) -> Submission:
    """Work that is asked for."""
    return Submission(
        id=SubmissionId(name),
        address=Address(tenant=principal.tenant, conversation=ConversationId(conversation)),
        kind=kind,
        key=name if key is None else key,
        principal=principal,
        author=principal.name,
        offered_at=AT,
        agent=agent,
        parts=(Text(text=text),),
    )


def command(key: str, act: Act, reason: str = "") -> Command:
    """Something that is told."""
    return Command(key=key, act=act, by=ANN, reason=reason, at=AT)


def end_of(work: Submission, status: Literal["completed", "aborted"] = "completed") -> RunSettled:
    """The end of a submission's run."""
    if status == "aborted":
        return RunSettled(run=run_of(work.id), status="aborted", usage=UsageTotals(), turns=0, reason="requested")
    return RunSettled(run=run_of(work.id), status="completed", usage=UsageTotals(), turns=1, finish="stop", output=None)


def end_batch(claim: Claim, settled: RunSettled) -> Batch:
    """The batch that ends a run."""
    return Batch(
        id=BatchId(f"{settled.run}/end"), run=RunId(settled.run), epoch=Epoch(claim.epoch), at=AT, records=(settled,)
    )


def settlement_of(work: Submission, by: Submission, at: Instant) -> Settlement:
    """How a submission is settled by a run."""
    return Settlement(submission=work.id, run=run_of(by.id), at=at, settled=end_of(by))
