"""Records of what models answered, and of what the kernel did to fit their context and budget.

Decides what is kept of a response: all of a complete one; of an interrupted one its text for audit, which no
projection shows. Partial arguments are never kept as a call (DUR-008).
"""

from typing import ClassVar, Literal

import attrs

from triolet.ports.canonical import Digest
from triolet.ports.identity import Instant, RunId, SequenceNumber
from triolet.ports.language_model import FinishReason
from triolet.ports.messages import AssistantMessage
from triolet.ports.records.run import Dimension, FailureCode
from triolet.ports.usage import Usage


@attrs.frozen(kw_only=True, weakref_slot=False)
class ModelResponded:
    """One complete response. Its calls carry the kernel's identities."""

    kind: ClassVar[str] = "model_responded"
    version: ClassVar[int] = 1
    turn: int
    attempt: int
    model: str
    message: AssistantMessage
    finish: FinishReason
    usage: Usage


@attrs.frozen(kw_only=True, weakref_slot=False)
class ModelInterrupted:
    """A try that ended without a complete response. `text` is what had arrived, for audit only.

    `retry_at` is when the turn may be tried again; None says that it will not be.
    """

    kind: ClassVar[str] = "model_interrupted"
    version: ClassVar[int] = 1
    turn: int
    attempt: int
    model: str
    reason: FailureCode | Literal["cancelled", "deadline"]
    text: str
    usage: Usage
    retry_at: Instant | None = None


@attrs.frozen(kw_only=True, weakref_slot=False)
class OverflowRetried:
    """A provider refused the context's length; the kernel compacted and asks once more (RUN-027)."""

    kind: ClassVar[str] = "overflow_retried"
    version: ClassVar[int] = 1
    turn: int


@attrs.frozen(kw_only=True, weakref_slot=False)
class CompactionCreated:
    """A prefix of the history is shown in a smaller form from here on. The log keeps the prefix (CAP-007).

    `covers_through` is the number of the record that completed the last message covered. `run` and `turn` say whose
    next request it was made for; without a run somebody asked for it between runs. `summary_version` names the prompt
    and rules that made the summary, `usage` what it took. A host's artifact also carries the digest that binds it to
    its range, its compactor's version and its own estimate in tokens. A record whose range covers no whole turns, or
    nothing new, is ignored by whoever reads it.
    """

    kind: ClassVar[str] = "compaction_created"
    version: ClassVar[int] = 1
    run: RunId | None = None
    turn: int
    form: Literal["clear-tool-results", "summarize"]
    covers_through: SequenceNumber
    summary: str | None = None
    summary_version: str | None = None
    retained_facts: tuple[str, ...] = ()
    token_estimate: int | None = None
    source_digest: Digest | None = None
    compactor_version: str | None = None
    usage: Usage | None = None


CompactionFault = Literal["empty", "no-smaller", "model-failed", "compactor-failed", "artifact-refused", "cancelled"]


@attrs.frozen(kw_only=True, weakref_slot=False)
class CompactionFailed:
    """An attempt at a summary came to nothing. The history stands as it was; what it took is charged all the same."""

    kind: ClassVar[str] = "compaction_failed"
    version: ClassVar[int] = 1
    run: RunId
    turn: int
    reason: CompactionFault
    usage: Usage


@attrs.frozen(kw_only=True, weakref_slot=False)
class BudgetWarned:
    """Most of a limit is used: once per dimension, or per dimension of a `node` above the run (RUN-025, SEC-012).

    Cost is in millionths of its currency.
    """

    kind: ClassVar[str] = "budget_warned"
    version: ClassVar[int] = 1
    dimension: Dimension
    used: int
    limit: int
    node: str | None = None


@attrs.frozen(kw_only=True, weakref_slot=False)
class BudgetReached:
    """A limit is reached: no more tools, and at most one more turn; none where the limit is hard or the policy fails.

    `used` includes the estimate of the request that was not made, where that is what would have passed the limit.
    `node` names the budget above the run that refused; None is the run's own limit (SEC-012).
    """

    kind: ClassVar[str] = "budget_reached"
    version: ClassVar[int] = 1
    dimension: Dimension
    used: int
    limit: int
    node: str | None = None
