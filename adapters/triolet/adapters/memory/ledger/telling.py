"""The memory ledger's verbs for clients and operators: admit, look up, tell, count, forget.

Decides what is kept, and whom it wakes. Each verb looks for cancellation before any effect and is synchronous after
that, so a cancelled call never wrote.
"""

from collections import Counter

import trio

from triolet.adapters.memory.ledger.book import Book, Entry
from triolet.adapters.memory.ledger.waking import WakeupBoard
from triolet.ports.admission import QueueFull
from triolet.ports.conversation_store import Address, check_limit
from triolet.ports.errors import InvalidValue
from triolet.ports.identity import ConversationId, Principal, SequenceNumber, SubmissionId, TenantId
from triolet.ports.ledger import (
    SCAN_LIMIT,
    Abort,
    Answer,
    ApprovalWait,
    Command,
    CommandReused,
    Figures,
    Kept,
    KeyReused,
    NoActiveRun,
    OperatorWait,
    Resolve,
    Retry,
    Standing,
    Status,
    StillUnsettled,
    Submission,
    UnknownWait,
    Wait,
    same_command,
    same_work,
)
from triolet.ports.schema import codec_for
from triolet.ports.text import require_clean
from triolet.ports.wakeups import WORK


class ClientVerbs:
    """Admissions, Commands and Recovery."""

    def __init__(self, book: Book, board: WakeupBoard, waiting_limit: int) -> None:
        self._book = book
        self._board = board
        self._waiting_limit = waiting_limit

    async def admit(self, submission: Submission) -> Standing:
        """See `Admissions.admit`."""
        await trio.lowlevel.checkpoint_if_cancelled()
        _check(submission)
        known = self._book.keys.get((submission.principal, submission.key))
        if known is not None:
            if not same_work(known.standing.submission, submission):
                raise KeyReused(key=submission.key, submission=known.id)
            return known.standing
        if submission.id in self._book.entries:
            raise KeyReused(key=submission.key, submission=submission.id)
        lane = self._book.lane(submission.address)
        if submission.kind == "steering" and lane.active is None:
            raise NoActiveRun(conversation=submission.address.conversation)
        if len(lane.entries) >= self._waiting_limit:
            raise QueueFull(limit=self._waiting_limit)
        now = self._book.clock.now()
        standing = Standing(
            submission=submission,
            sequence=SequenceNumber(self._book.last + 1),
            status="admitted",
            admitted_at=now,
        )
        self._book.add(Entry(standing=standing, since=now))
        return standing

    async def mark_ready(self, tenant: TenantId, submission: SubmissionId) -> Standing:
        """See `Admissions.mark_ready`."""
        await trio.lowlevel.checkpoint_if_cancelled()
        entry = self._book.find(tenant, submission)
        if entry.standing.status != "admitted":
            return entry.standing
        standing = self._book.change(entry, status="ready")
        active = self._book.lane(standing.submission.address).active
        if (
            standing.submission.kind == "steering"
            and active is not None
            and active.standing.status == "suspended"
            and any(isinstance(wait, ApprovalWait) and wait.steerable for wait in active.standing.waits)
        ):
            self._wake(active)
        self._board.wake(WORK)
        return standing

    async def lookup(self, tenant: TenantId, submission: SubmissionId) -> Standing:
        """See `Admissions.lookup`."""
        await trio.lowlevel.checkpoint_if_cancelled()
        return self._book.find(tenant, submission).standing

    async def find(self, principal: Principal, key: str) -> Standing | None:
        """See `Admissions.find`."""
        await trio.lowlevel.checkpoint_if_cancelled()
        entry = self._book.keys.get((principal, key))
        return None if entry is None else entry.standing

    async def post(self, tenant: TenantId, submission: SubmissionId, command: Command) -> Standing:
        """See `Commands.post`."""
        await trio.lowlevel.checkpoint_if_cancelled()
        codec_for(Command).encode(command)
        entry = self._book.find(tenant, submission)
        known = entry.kept.get(command.key)
        if known is not None and same_command(known.command, command):
            return entry.standing
        if entry.standing.status == "settled":
            return entry.standing
        if known is not None and not known.taken:
            raise CommandReused(submission=submission, key=command.key)
        # Behind all others, also where it takes the place of one that was dealt with.
        entry.kept.pop(command.key, None)
        entry.kept[command.key] = Kept(command=command, taken=False)
        standing = entry.standing
        if standing.status == "suspended" and any(is_about(command, wait) for wait in standing.waits):
            self._wake(entry, attempts=0 if isinstance(command.act, Retry) else standing.attempts)
        elif standing.status == "ready" and standing.not_before is not None:
            self._book.change(entry, not_before=None)
        self._board.wake(WORK)
        return entry.standing

    async def commands(self, tenant: TenantId, submission: SubmissionId) -> tuple[Kept, ...]:
        """See `Commands.commands`."""
        await trio.lowlevel.checkpoint_if_cancelled()
        return tuple(self._book.find(tenant, submission).kept.values())

    async def scan(
        self,
        *,
        tenant: TenantId | None = None,
        conversation: ConversationId | None = None,
        unsettled: bool = True,
        after: SequenceNumber = SequenceNumber(0),
        limit: int = 100,
    ) -> tuple[Standing, ...]:
        """See `Recovery.scan`."""
        await trio.lowlevel.checkpoint_if_cancelled()
        check_limit(limit, SCAN_LIMIT)
        if conversation is not None and tenant is None:
            raise InvalidValue(subject="scan", violations=(("/tenant", "a conversation needs its tenant"),))
        rows: list[Standing] = []
        for entry in self._book.behind(after):
            standing, address = entry.standing, entry.standing.submission.address
            if tenant is not None and address.tenant != tenant:
                continue
            if conversation is not None and address.conversation != conversation:
                continue
            if unsettled and standing.status == "settled":
                continue
            rows.append(standing)
            if len(rows) == limit:
                break
        return tuple(rows)

    async def figures(self) -> Figures:
        """See `Recovery.figures`."""
        await trio.lowlevel.checkpoint_if_cancelled()
        now = self._book.clock.now()
        open_ = [each for lane in self._book.lanes.values() for each in lane.entries.values()]
        by_status = Counter[Status](each.standing.status for each in open_)
        heads = [head for lane in self._book.lanes.values() if (head := lane.head) is not None]
        due = [head.due for head in heads]
        waits = [[wait.kind for wait in each.standing.waits] for each in open_ if each.standing.status == "suspended"]
        return Figures(
            now=now,
            by_status=tuple(sorted(by_status.items())),
            oldest_unsettled=min((each.standing.admitted_at for each in open_), default=None),
            oldest_ready=min((at for at in due if at is not None and at <= now), default=None),
            approvals=sum("approval" in kinds for kinds in waits),
            unknown=sum("unknown" in kinds for kinds in waits),
            dead=sum("operator" in kinds for kinds in waits),
            fenced=self._book.fenced,
        )

    async def forget(self, address: Address) -> bool:
        """See `Recovery.forget`."""
        await trio.lowlevel.checkpoint_if_cancelled()
        lane = self._book.lanes.get(address)
        if lane is not None and lane.entries:
            raise StillUnsettled(conversation=address.conversation, unsettled=len(lane.entries))
        return self._book.remove(address)

    def _wake(self, entry: Entry, attempts: int = 0) -> None:
        self._book.change(entry, status="ready", waits=(), until=None, not_before=None, attempts=attempts)


def is_about(command: Command, wait: Wait) -> bool:
    """Whether a command can end this wait."""
    act = command.act
    if isinstance(act, Abort):
        return True
    match wait:
        case ApprovalWait(request=request):
            return isinstance(act, Answer) and act.request == request.id
        case UnknownWait(unknown=unknown):
            return isinstance(act, Resolve) and act.call == unknown.call
        case OperatorWait():
            return isinstance(act, Retry)


def _check(submission: Submission) -> None:
    require_clean(submission.address.tenant, "tenant")
    require_clean(submission.address.conversation, "conversation")
    require_clean(submission.key, "key")
    codec_for(Submission).encode(submission)
    if submission.principal.tenant != submission.address.tenant:
        problem = "is another tenant's than the conversation"
        raise InvalidValue(subject="submission", violations=(("/principal/tenant", problem),))
