"""Records of a conversation and its runs: created, started, owned, fed, aborted, settled.

Decides what is remembered about who ran what, under which limits, on whose authority, and how it ended. A
record is a fact about the past; what may follow it is the run machine's table.
"""

from typing import Annotated, ClassVar, Final, Literal

import attrs

from triolet.ports.canonical import Digest
from triolet.ports.identity import (
    AgentId,
    CallId,
    ConversationId,
    Epoch,
    InputId,
    Instant,
    Principal,
    RunId,
    SubmissionId,
    TenantId,
)
from triolet.ports.messages import Part
from triolet.ports.schema import Ge
from triolet.ports.strict_json import JsonText
from triolet.ports.usage import UsageTotals

Exhaustion = Literal["final-answer", "fail"]
"""What a run does when a soft limit is used up: one last turn without tools, or a typed failure."""

Summarise = Literal["model", "host", "never"]
"""Who makes a summary where pruning old results is not enough: the run's model, the host's compactor, or nobody."""

Dimension = Literal["turns", "tool-calls", "duration", "tokens", "cost", "failures", "result-bytes"]


@attrs.frozen(kw_only=True, weakref_slot=False)
class Limits:
    """The limits that the machine enforces, as they stood when the run started (RUN-011, RUN-018, RUN-025).

    Turns and calls are always finite; None is an explicit absence. `max_tokens` counts input and output of all the
    run's model calls, `max_cost` their price in millionths of the host's currency. `max_failures` counts results in a
    row that are no success; `max_result_bytes` the encoded results of the whole run. `context_tokens` bounds one
    request: what would exceed it is compacted first (RUN-026). Cost is hard; the others end with `exhaustion`.
    """

    max_turns: Annotated[int, Ge(1)]
    max_tool_calls: Annotated[int, Ge(0)]
    exhaustion: Exhaustion
    max_tokens: Annotated[int, Ge(1)] | None = None
    max_cost: Annotated[int, Ge(1)] | None = None
    max_failures: Annotated[int, Ge(1)] | None = None
    max_result_bytes: Annotated[int, Ge(1)] | None = None
    context_tokens: Annotated[int, Ge(1)] | None = None


@attrs.frozen(kw_only=True, weakref_slot=False)
class RetryRules:
    """How often a turn is tried, and how long the wait before the next try is (F-053).

    The wait is `first_wait` microseconds, doubled with every try up to `longest_wait`, shortened by up to a half so
    that many runs do not come back at once; a provider's own advice counts where it is longer. A try that would come
    after the run's deadline is not made.
    """

    tries: Annotated[int, Ge(1)] = 1
    first_wait: Annotated[int, Ge(0)] = 0
    longest_wait: Annotated[int, Ge(0)] = 0


ONE_TRY: Final = RetryRules()


@attrs.frozen(kw_only=True, weakref_slot=False)
class ApprovalRules:
    """What the machine does about approvals, as it stood when the run started (APPR-002).

    `silence` is what a request becomes whose time is up or whose desk fails: a denial, an open wait, or an approval
    that is the policy's own. `steered` says whether newer input waits for open requests or counts as their denial.
    """

    silence: Literal["deny", "wait", "approve"] = "deny"
    steered: Literal["wait", "deny"] = "wait"


DENY_AND_WAIT: Final = ApprovalRules()


@attrs.frozen(kw_only=True, weakref_slot=False)
class Lineage:
    """The one link from a child conversation to the call that delegated to it (SUB-004)."""

    conversation: ConversationId
    run: RunId
    call: CallId


@attrs.frozen(kw_only=True, weakref_slot=False)
class SkillReference:
    """Exactly which skill content a run saw (CAP-008)."""

    id: str
    version: str
    digest: Digest


@attrs.frozen(kw_only=True, weakref_slot=False)
class ConversationCreated:
    """The first record of every log."""

    kind: ClassVar[str] = "conversation_created"
    version: ClassVar[int] = 1
    conversation: ConversationId
    tenant: TenantId
    parent: Lineage | None = None


@attrs.frozen(kw_only=True, weakref_slot=False)
class RunStarted:
    """A run began, under exactly this definition, limits and authority.

    `instructions` are rendered text. `structured` says whether the final answer must decode by a schema.
    `deadline` is wall-clock and holds for the whole logical run (RUN-030); at `warn_at` most of that time is used
    (RUN-025). `unknown` says what an unknown
    outcome is: a visible `result`, or a `wait` for its resolution. `drain` says how much steering enters at one seam.
    """

    kind: ClassVar[str] = "run_started"
    version: ClassVar[int] = 1
    run: RunId
    agent: AgentId
    agent_version: str
    definition: Digest
    principal: Principal
    limits: Limits
    approval: ApprovalRules = DENY_AND_WAIT
    drain: Literal["one", "all"] = "all"
    retry: RetryRules = ONE_TRY
    summarise: Summarise = "model"
    deadline: Instant | None
    warn_at: Instant | None = None
    unknown: Literal["result", "wait"]
    structured: bool
    instructions: str
    skills: tuple[SkillReference, ...] = ()


@attrs.frozen(kw_only=True, weakref_slot=False)
class AttemptStarted:
    """Somebody took ownership. `recovery` is what was decided from the log about work found open (DUR-013)."""

    kind: ClassVar[str] = "attempt_started"
    version: ClassVar[int] = 1
    epoch: Epoch
    worker: str | None = None
    recovery: Literal["fresh", "resumed", "interrupted-response", "open-batch"] = "fresh"


@attrs.frozen(kw_only=True, weakref_slot=False)
class InputTaken:
    """Input became part of the history.

    `correction` is the kernel's own: it tells the model why its answer was no valid output. `author` labels
    who wrote it and authorizes nothing. `offered_at` is when it arrived, which may be long before it is taken.
    """

    kind: ClassVar[str] = "input_taken"
    version: ClassVar[int] = 1
    id: InputId
    source: Literal["user", "steering", "follow-up", "joined", "correction"]
    author: str
    offered_at: Instant
    parts: tuple[Part, ...]
    submission: SubmissionId | None = None


@attrs.frozen(kw_only=True, weakref_slot=False)
class AbortRequested:
    """Somebody asked for the run to end. Repeating it changes nothing (DUR-012)."""

    kind: ClassVar[str] = "abort_requested"
    version: ClassVar[int] = 1
    run: RunId
    by: Principal
    reason: str


FailureCode = Literal[
    "budget-exhausted",
    "tools-forbidden",
    "model-unavailable",
    "model-refused",
    "context-too-large",
    "malformed-response",
    "output-invalid",
    "denied",
]


@attrs.frozen(kw_only=True, weakref_slot=False)
class RunFailure:
    """Why a run failed. `detail` is bounded and holds no user's, model's or tool's text."""

    code: FailureCode
    detail: str
    dimension: Dimension | None = None


AbortReason = Literal["cancelled", "requested", "lost", "crashed"]
"""Cancelled from outside, asked to end by its handle, found open by a later owner, or broken by host code."""


@attrs.frozen(kw_only=True, weakref_slot=False)
class RunSettled:
    """The one end of a run (RUN-002, DUR-002).

    `completed` carries `output` (JSON text by the agent's schema, or a JSON string) and `finish`; `failed`
    carries `failure`; `aborted` carries `reason`. `exhausted` names the limit that ended an otherwise
    completed run (RUN-011). `disposition` stands beside an ordinary completion only (RUN-029).
    """

    kind: ClassVar[str] = "run_settled"
    version: ClassVar[int] = 1
    run: RunId
    status: Literal["completed", "failed", "aborted"]
    usage: UsageTotals
    turns: int
    finish: Literal["stop", "length", "budget-exhausted"] | None = None
    exhausted: Dimension | None = None
    output: JsonText | None = None
    disposition: JsonText | None = None
    failure: RunFailure | None = None
    reason: AbortReason | None = None
