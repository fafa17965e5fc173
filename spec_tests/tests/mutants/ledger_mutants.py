"""Wrong ledgers, each a memory one but for one thing."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from itertools import count
from typing import Any, Self
from unittest import mock

import attrs
import trio

from tests.mutants.mutant import Mutant
from triolet.adapters.memory import MemoryLedger
from triolet.adapters.store_rules.book import OUT_OF_LINE, Entry, Lane
from triolet.ports.admission import InputKind
from triolet.ports.conversation_store import Address
from triolet.ports.errors import Conflict
from triolet.ports.identity import AgentId, CallId, ConversationId, Instant, SubmissionId, TenantId
from triolet.ports.ledger import (
    Claim,
    Command,
    Figures,
    Idle,
    Kept,
    Ledger,
    Renewed,
    Settlement,
    Standing,
    Submission,
    Wait,
    run_of,
)
from triolet.ports.outcomes import Outcome
from triolet.ports.records import RunSettled
from triolet.ports.wakeups import Topic
from triolet.spec_tests.cases.ledger import LEDGER, LedgerSubject
from triolet.spec_tests.ledger_makers import LeverClock

LEDGER_MUTANTS: list[Mutant] = []


def _breaks(*violates: str) -> Any:
    def decorate(ledger: type[MemoryLedger]) -> type[MemoryLedger]:
        @asynccontextmanager
        async def maker() -> AsyncGenerator[LedgerSubject]:
            clock = LeverClock()
            opened = ledger(clock)

            @asynccontextmanager
            async def reopen() -> AsyncGenerator[Ledger]:
                yield ledger.load(opened.save(), clock)

            yield LedgerSubject(port=opened, reopen=reopen, advance=clock.advance)

        why = (ledger.__doc__ or "").partition("\n")[0].rstrip(".")
        LEDGER_MUTANTS.append(Mutant(name=ledger.__name__, why=why, violates=violates, suite=LEDGER, open=maker))
        return ledger

    return decorate


@_breaks("STORE-002", "DUR-001")
class ForgetsKeys(MemoryLedger):
    """Asking again is asking for more."""

    async def admit(self, submission: Submission) -> Standing:
        return await super().admit(attrs.evolve(submission, key=f"{submission.key} {submission.id}"))


@_breaks("DUR-001")
class AcceptsTooSoon(MemoryLedger):
    """What is only admitted can be claimed."""

    async def admit(self, submission: Submission) -> Standing:
        standing = await super().admit(submission)
        return await self.mark_ready(standing.submission.address.tenant, standing.submission.id)


@_breaks("DUR-004", "DUR-005")
class GivesEachItsOwnLine(MemoryLedger):
    """Work of one conversation is done side by side."""

    async def admit(self, submission: Submission) -> Standing:
        alone = ConversationId(f"{submission.address.conversation} {submission.id}")
        address = Address(tenant=submission.address.tenant, conversation=alone)
        return await super().admit(attrs.evolve(submission, address=address))


def _first_in_line(lane: Lane) -> Entry | None:
    return next((each for each in lane.entries.values() if each.standing.status not in OUT_OF_LINE), None)


@_breaks("DUR-005")
class LetsItOvertake(MemoryLedger):
    """What was admitted first is claimed first, also beside a run that has begun."""

    async def mark_ready(self, tenant: TenantId, submission: SubmissionId) -> Standing:
        with mock.patch.object(Lane, "head", property(_first_in_line)):
            return await super().mark_ready(tenant, submission)


@_breaks("DUR-004")
class GivesAnybodyAnything(MemoryLedger):
    """A worker gets work for agents that it does not have."""

    async def claim(self, worker: str, *, agents: frozenset[AgentId] | None, lease_seconds: float) -> Claim | Idle:
        return await super().claim(worker, agents=None, lease_seconds=lease_seconds)


@_breaks("STEER-001")
class SteersNobody(MemoryLedger):
    """Steering is kept although no run is active."""

    async def admit(self, submission: Submission) -> Standing:
        kind = "follow-up" if submission.kind == "steering" else submission.kind
        return await super().admit(attrs.evolve(submission, kind=kind))


@_breaks("SEC-002")
class KnowsNoTenants(MemoryLedger):
    """A submission is found by anybody who knows its name."""

    async def lookup(self, tenant: TenantId, submission: SubmissionId) -> Standing:
        return self.book.entries[submission].standing


@_breaks("STORE-014")
class WakesNobody(MemoryLedger):
    """A change is announced to nobody."""

    def wake(self, topic: Topic) -> None:
        """Nothing."""


@_breaks("STORE-002")
class BeginsAnew(MemoryLedger):
    """Opened again, epochs begin at the beginning."""

    @classmethod
    def load(cls, image: bytes, clock: Any, **_: Any) -> Self:
        ledger = super().load(image, clock)
        for lane in ledger.book.lanes.values():
            lane.epoch = type(lane.epoch)(0)
        return ledger


@_breaks("DUR-006")
class ObeysTheDead(MemoryLedger):
    """A claim that is over can still put something aside."""

    async def stash(self, claim: Claim, call: CallId, outcome: Outcome) -> None:
        self.book.entries[claim.submission.id].stash[call] = outcome


@_breaks("DUR-006")
class RenewsForAMoment(MemoryLedger):
    """A renewed lease is over at once."""

    async def renew(self, claim: Claim, *, lease_seconds: float, at_least: Any = None) -> Renewed:
        return await super().renew(claim, lease_seconds=0.001, at_least=at_least)


@_breaks("APPR-004")
class WaitsInAWorkersArms(MemoryLedger):
    """What waits is still owned."""

    async def suspend(self, claim: Claim, waits: tuple[Wait, ...], *, until: Instant | None) -> None:
        """Nothing."""


@_breaks("APPR-004")
class MissesEarlyWord(MemoryLedger):
    """Word that came before the wait does not end it."""

    async def suspend(self, claim: Claim, waits: tuple[Wait, ...], *, until: Instant | None) -> None:
        await self.take(claim, tuple(command.key for command in claim.commands))
        await super().suspend(claim, waits, until=until)


@_breaks("DUR-012")
class HearsEverythingTwice(MemoryLedger):
    """The same command again is another one."""

    async def post(self, tenant: TenantId, submission: SubmissionId, command: Command) -> Standing:
        self._heard = getattr(self, "_heard", None) or count()
        return await super().post(tenant, submission, attrs.evolve(command, key=f"{command.key} {next(self._heard)}"))


@_breaks("SEC-011")
class LeavesNoTrail(MemoryLedger):
    """Commands that were dealt with are forgotten."""

    async def commands(self, tenant: TenantId, submission: SubmissionId) -> tuple[Kept, ...]:
        return tuple(kept for kept in await super().commands(tenant, submission) if not kept.taken)


@_breaks("DUR-016")
class GivesTwice(MemoryLedger):
    """What has joined is given out again."""

    async def mark_joined(self, claim: Claim, submissions: tuple[SubmissionId, ...]) -> None:
        """Nothing."""


@_breaks("STEER-002")
class GivesTheLastFirst(MemoryLedger):
    """Input joins in the wrong order."""

    async def claim_joining(self, claim: Claim, kind: InputKind, limit: int) -> tuple[Submission, ...]:
        return (await super().claim_joining(claim, kind, limit))[::-1]


@_breaks("DUR-002")
class SettlesAgain(MemoryLedger):
    """A second end is taken for the first."""

    async def finalize(self, claim: Claim, settled: RunSettled) -> Settlement:
        try:
            return await super().finalize(claim, settled)
        except Conflict:
            id_ = claim.submission.id
            return Settlement(submission=id_, run=run_of(id_), at=self.book.now, settled=settled)


@_breaks("DUR-011")
class ReservesTheLast(MemoryLedger):
    """Another ending takes the place of the one that was reserved."""

    async def reserve(self, claim: Claim, batch: bytes) -> None:
        self.book.entries[claim.submission.id].reserved = batch


@_breaks("DUR-014")
class ForgivesFailures(MemoryLedger):
    """A failed attempt does not count."""

    async def release(self, claim: Claim, *, not_before: Instant | None = None, failed: bool = False) -> None:
        await super().release(claim, not_before=not_before, failed=False)


@_breaks("OPS-001")
class KnowsNoAge(MemoryLedger):
    """How long work has been open is not told."""

    async def figures(self) -> Figures:
        return attrs.evolve(await super().figures(), oldest_unsettled=None)


@_breaks("OPS-002")
class KnowsNoDoubt(MemoryLedger):
    """Unknown outcomes are not counted."""

    async def figures(self) -> Figures:
        return attrs.evolve(await super().figures(), unknown=0)


@_breaks("CAP-001")
class LeavesLedgerTasks(MemoryLedger):
    """Every admission starts a task that outlives the ledger."""

    async def admit(self, submission: Submission) -> Standing:
        trio.lowlevel.spawn_system_task(trio.sleep_forever)
        return await super().admit(submission)
