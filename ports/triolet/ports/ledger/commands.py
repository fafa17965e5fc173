"""Commands: what people tell work that nobody may be working on.

Decides what can be told, and that a command counts once it is on record: the ledger only keeps it until an attempt has
taken it into the log. It authorizes nobody. (APPR-005, DUR-012, DUR-017, SEC-011)
"""

from typing import Annotated, Literal, Protocol

import attrs

from triolet.ports.approval import Decision
from triolet.ports.errors import Conflict
from triolet.ports.identity import CallId, Instant, Principal, RequestId, SubmissionId, TenantId
from triolet.ports.ledger.submission import Standing
from triolet.ports.outcomes import Outcome
from triolet.ports.schema import MaxLength, MinLength


@attrs.frozen(kw_only=True, weakref_slot=False)
class Answer:
    """The answer to an approval request."""

    kind: Literal["answer"] = "answer"
    request: RequestId
    decision: Decision


@attrs.frozen(kw_only=True, weakref_slot=False)
class Resolve:
    """What became of a call whose outcome is unknown. None says that it surely never started, and may start now."""

    kind: Literal["resolve"] = "resolve"
    call: CallId
    outcome: Outcome | None


@attrs.frozen(kw_only=True, weakref_slot=False)
class Abort:
    """End the run as aborted. An outcome that is on record already stands (DUR-012)."""

    kind: Literal["abort"] = "abort"


@attrs.frozen(kw_only=True, weakref_slot=False)
class Retry:
    """Try again what waits for an operator, with a fresh budget of attempts (DUR-014)."""

    kind: Literal["retry"] = "retry"


Act = Answer | Resolve | Abort | Retry


@attrs.frozen(kw_only=True, weakref_slot=False)
class Command:
    """An act, and who is answerable for it. `key` makes it idempotent within its submission: 1 to 250 characters."""

    key: Annotated[str, MinLength(1), MaxLength(250)]
    act: Act
    by: Principal
    reason: str
    at: Instant


@attrs.frozen(kw_only=True, weakref_slot=False)
class Kept:
    """A command as the ledger keeps it; `taken` says that an attempt has dealt with it."""

    command: Command
    taken: bool


@attrs.define(kw_only=True)
class CommandReused(Conflict):
    """Another command waits under this key. The first one stands, and nothing was kept."""

    submission: SubmissionId
    key: str

    @property
    def message(self) -> str:
        """Which submission and key."""
        return f"submission {self.submission} has another command under {self.key[:80]!r}"


def same_command(first: Command, again: Command) -> bool:
    """Whether two commands under one key say the same: in all but the time of saying."""
    return attrs.evolve(again, at=first.at) == first


class Commands(Protocol):
    """Where commands are left.

    Lifetime: as the ledger's. Emits: nothing by itself. (CAP-001)
    """

    async def post(self, tenant: TenantId, submission: SubmissionId, command: Command) -> Standing:
        """Does: keep a command for the next attempt, and make a suspended submission ready if it is about a wait.

        `Abort` is about every wait; `Answer` and `Resolve` about the one that they name; `Retry` about an
        `OperatorWait`, and it clears the count of attempts. Other commands are kept without waking anybody. For a
        submission that is ready it lifts `not_before`. For a settled one nothing is kept and nothing changes.
        Atomicity: kept, and ready if so, or neither. Idempotency: by `key`; two commands are the same if all but `at`
        is equal, and the same again changes nothing, also after it was taken. Another one under the key of an untaken
        command is `CommandReused`; under the key of a taken one it counts as new. Ordering: commands are taken in the
        order in which they were kept. Cancellation: kept or not; posting again is safe.
        Raises: `UnknownSubmission`, `CommandReused`, `InvalidValue`: nothing kept.
        """
        ...

    async def commands(self, tenant: TenantId, submission: SubmissionId) -> tuple[Kept, ...]:
        """Does: read a submission's commands, taken ones included, oldest first; they are the trail (SEC-011).

        Atomicity, Ordering: one consistent view. Idempotency: reads. Cancellation: nothing changed. Raises:
        `UnknownSubmission`.
        """
        ...
