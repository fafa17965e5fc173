"""The rules of admitting work and of telling it something: what is kept, and whom it makes ready.

Decides the transitions that clients and operators cause. Each function is one verb of the port, on a book; what it
raises, it raises before it has changed anything. (DUR-001, DUR-004, STEER-001, APPR-005, DUR-012)
"""

from triolet.adapters.store_rules.book import Book, Entry, move
from triolet.ports.admission import QueueFull
from triolet.ports.errors import InvalidValue
from triolet.ports.identity import SequenceNumber, SubmissionId, TenantId
from triolet.ports.ledger import (
    Abort,
    Answer,
    ApprovalWait,
    Command,
    CommandReused,
    Kept,
    KeyReused,
    NoActiveRun,
    OperatorWait,
    Resolve,
    Retry,
    Standing,
    Submission,
    UnknownSubmission,
    UnknownWait,
    Wait,
    same_command,
    same_work,
)
from triolet.ports.schema import codec_for
from triolet.ports.text import require_clean
from triolet.ports.wakeups import WORK


def check_submission(submission: Submission) -> None:
    """Refuse what not every store can keep: `InvalidValue`, `BrokenText`."""
    require_clean(submission.address.tenant, "tenant")
    require_clean(submission.address.conversation, "conversation")
    require_clean(submission.key, "key")
    codec_for(Submission).encode(submission)
    if submission.principal.tenant != submission.address.tenant:
        problem = "is another tenant's than the conversation"
        raise InvalidValue(subject="submission", violations=(("/principal/tenant", problem),))


def check_command(command: Command) -> None:
    """Refuse what not every store can keep: `InvalidValue`, `BrokenText`."""
    codec_for(Command).encode(command)


def find(book: Book, tenant: TenantId, submission: SubmissionId) -> Entry:
    """A tenant's entry. Raises `UnknownSubmission`."""
    entry = book.by_id(submission)
    if entry is None or entry.standing.submission.address.tenant != tenant:
        raise UnknownSubmission(submission=submission)
    return entry


def admit(book: Book, submission: Submission, waiting_limit: int) -> Standing:
    """See `Admissions.admit`. The submission is checked already."""
    known = book.by_key(submission.principal, submission.key) or book.by_id(submission.id)
    if known is not None:
        if not same_work(known.standing.submission, submission):
            raise KeyReused(key=submission.key, submission=known.id)
        return known.standing
    lane = book.lane(submission.address)
    if submission.kind == "steering" and lane.active is None:
        raise NoActiveRun(conversation=submission.address.conversation)
    if len(lane.entries) >= waiting_limit:
        raise QueueFull(limit=waiting_limit)
    standing = Standing(
        submission=submission,
        sequence=SequenceNumber(book.last + 1),
        status="admitted",
        admitted_at=book.now,
    )
    book.add(Entry(standing=standing, since=book.now))
    return standing


def mark_ready(book: Book, tenant: TenantId, submission: SubmissionId) -> Standing:
    """See `Admissions.mark_ready`."""
    entry = find(book, tenant, submission)
    if entry.standing.status != "admitted":
        return entry.standing
    standing = move(book, entry, status="ready")
    active = book.lane(standing.submission.address).active
    if (
        standing.submission.kind == "steering"
        and active is not None
        and active.standing.status == "suspended"
        and any(isinstance(wait, ApprovalWait) and wait.steerable for wait in active.standing.waits)
    ):
        _wake(book, active)
    book.wake(WORK)
    return standing


def post(book: Book, tenant: TenantId, submission: SubmissionId, command: Command) -> Standing:
    """See `Commands.post`. The command is checked already."""
    entry = find(book, tenant, submission)
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
    book.keep(entry)
    standing = entry.standing
    if standing.status == "suspended" and any(is_about(command, wait) for wait in standing.waits):
        _wake(book, entry, attempts=0 if isinstance(command.act, Retry) else standing.attempts)
    elif standing.status == "ready" and standing.not_before is not None:
        move(book, entry, not_before=None)
    book.wake(WORK)
    return entry.standing


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


def _wake(book: Book, entry: Entry, attempts: int = 0) -> None:
    move(book, entry, status="ready", waits=(), until=None, not_before=None, attempts=attempts)
