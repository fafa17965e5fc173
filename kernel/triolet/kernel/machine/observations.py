"""What the outside tells the machine: the closed union of observations.

Each is a plain value: what a model answered, what a handler ended with, that somebody cancelled. An observation
carries every identity and instant that its records need, so that `decide` draws none. It decides nothing.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal

import attrs

from triolet.ports.admission import Admitted
from triolet.ports.approval import ApprovalRequest, Decision
from triolet.ports.budget import NodeWarning
from triolet.ports.canonical import Digest
from triolet.ports.identity import (
    AgentId,
    CallId,
    ConversationId,
    Epoch,
    GrantId,
    InputId,
    Instant,
    Principal,
    RequestId,
    RunId,
    SequenceNumber,
    SubmissionId,
    TenantId,
)
from triolet.ports.language_model import FinishReason
from triolet.ports.messages import AssistantMessage, Part
from triolet.ports.outcomes import Outcome
from triolet.ports.records import (
    AbortReason,
    ApprovalRules,
    CompactionFault,
    Dimension,
    FailureCode,
    Limits,
    RetryRules,
    Summarise,
)
from triolet.ports.strict_json import JsonText
from triolet.ports.tools import ExecutionClass
from triolet.ports.usage import Usage

NO_CALLS: Final[Mapping[CallId, int]] = MappingProxyType({})


@attrs.frozen(kw_only=True, weakref_slot=False)
class ConversationOpened:
    """A host opens a conversation that has no log yet."""

    conversation: ConversationId
    tenant: TenantId


@attrs.frozen(kw_only=True, weakref_slot=False)
class RunRequested:
    """Somebody wants an agent to run on this input, under this authority, from now on.

    `at` is when the input was offered. `submission` is the accepted work that the run is for, where it is any.
    """

    run: RunId
    agent: AgentId
    agent_version: str
    definition: Digest
    principal: Principal
    limits: Limits
    approval: ApprovalRules
    drain: Literal["one", "all"]
    retry: RetryRules
    summarise: Summarise
    deadline: Instant | None
    warn_at: Instant | None
    unknown: Literal["result", "wait"]
    structured: bool
    instructions: str
    epoch: Epoch
    input: InputId
    author: str
    parts: tuple[Part, ...]
    submission: SubmissionId | None = None
    at: Instant


@attrs.frozen(kw_only=True, weakref_slot=False)
class ResponseReduced:
    """A model's complete response. `forbidden` says that its request forbade tools."""

    attempt: int
    model: str
    message: AssistantMessage
    finish: FinishReason
    usage: Usage
    forbidden: bool


@attrs.frozen(kw_only=True, weakref_slot=False)
class RequestMeasured:
    """The coming request is about to be made: what it will take, by estimate, and the time. None is not estimated."""

    tokens: int | None
    cost: int | None
    at: Instant


@attrs.frozen(kw_only=True, weakref_slot=False)
class BudgetGranted:
    """The budgets above the run have what the coming request takes; some of them are nearly used up by it."""

    warnings: tuple[NodeWarning, ...]


@attrs.frozen(kw_only=True, weakref_slot=False)
class BudgetRefused:
    """A budget above the run has not that much left (SEC-012). `node` names it."""

    dimension: Dimension
    node: str
    used: int
    limit: int


@attrs.frozen(kw_only=True, weakref_slot=False)
class ResultsDue:
    """Old results are to be shown cleared from here on."""

    covers_through: SequenceNumber


@attrs.frozen(kw_only=True, weakref_slot=False)
class Summarized:
    """A summary of the first part of the history was made, by the run's model or by the host."""

    covers_through: SequenceNumber
    text: str
    version: str
    usage: Usage | None = None
    facts: tuple[str, ...] = ()
    token_estimate: int | None = None
    source_digest: Digest | None = None
    compactor_version: str | None = None


@attrs.frozen(kw_only=True, weakref_slot=False)
class SummaryFailed:
    """An attempt at a summary came to nothing."""

    reason: CompactionFault
    usage: Usage


@attrs.frozen(kw_only=True, weakref_slot=False)
class ContextFull:
    """The request is too large and nothing more can be taken away from it."""

    tokens: int
    limit: int | None


@attrs.frozen(kw_only=True, weakref_slot=False)
class ModelCallEnded:
    """A model call ended without a complete response, for a reason of its own.

    `passing` says that the same request may succeed later; `retry_after` is the provider's advice in seconds.
    """

    attempt: int
    model: str
    code: FailureCode
    detail: str
    text: str
    usage: Usage
    at: Instant
    passing: bool = False
    retry_after: float | None = None


@attrs.frozen(kw_only=True, weakref_slot=False)
class Forbidden:
    """An authorizer denies a call for good: the run fails (RUN-031)."""

    reason: str


Verdict = ExecutionClass | Outcome | ApprovalRequest | Forbidden
"""A class: the call may run. An outcome: it may not. A request: somebody must say yes first."""


@attrs.frozen(kw_only=True, weakref_slot=False)
class CallsJudged:
    """Every open call of the batch is judged. `refusal`: a budget above the run has not enough for those that may."""

    verdicts: Mapping[CallId, Verdict]
    at: Instant
    refusal: BudgetRefused | None = None


@attrs.frozen(kw_only=True, weakref_slot=False)
class ApprovalAnswered:
    """An approver answered. An answer that does not fit its request is void, and the request stays open."""

    call: CallId
    decision: Decision
    at: Instant


@attrs.frozen(kw_only=True, weakref_slot=False)
class ApprovalSilent:
    """A request's time is up, or its desk failed (APPR-002)."""

    call: CallId
    why: Literal["expired", "unavailable"]
    at: Instant


@attrs.frozen(kw_only=True, weakref_slot=False)
class SteeredWhileWaiting:
    """Newer input arrived while requests are open (F-023)."""

    at: Instant


@attrs.frozen(kw_only=True, weakref_slot=False)
class InputsOffered:
    """Admitted input, in the order in which it was claimed, that may enter now."""

    inputs: tuple[Admitted, ...]


@attrs.frozen(kw_only=True, weakref_slot=False)
class SourceCatalogue:
    """What a tool source offers this run from here on, and who it is."""

    source: str
    server: str
    version: str
    protocol: str
    transport: str
    capabilities: tuple[str, ...]
    digest: Digest
    tools: tuple[str, ...]
    set_aside: int


@attrs.frozen(kw_only=True, weakref_slot=False)
class CataloguesSeen:
    """The run's tool sources were looked at; most of the time nothing is new."""

    catalogues: tuple[SourceCatalogue, ...]


@attrs.frozen(kw_only=True, weakref_slot=False)
class Resolution:
    """Somebody knows what a prepared call came to; None says that it surely never started."""

    outcome: Outcome | None
    by: Principal
    reason: str


NOTHING_RESOLVED: Final[Mapping[CallId, Resolution]] = MappingProxyType({})


@attrs.frozen(kw_only=True, weakref_slot=False)
class AttemptResumed:
    """Somebody goes on with an open run under a newer epoch, on what was stored or found out meanwhile.

    `answers` are answers to its requests, `resolutions` what is known about calls that an earlier attempt prepared.
    What fits nothing that is open changes nothing.
    """

    epoch: Epoch
    worker: str
    answers: Mapping[RequestId, Decision]
    resolutions: Mapping[CallId, Resolution] = NOTHING_RESOLVED
    at: Instant


@attrs.frozen(kw_only=True, weakref_slot=False)
class GrantEnded:
    """Somebody takes a grant back."""

    grant: GrantId
    by: Principal
    reason: str


@attrs.frozen(kw_only=True, weakref_slot=False)
class PermitsHeld:
    """These calls could start at this moment."""

    calls: tuple[CallId, ...]


@attrs.frozen(kw_only=True, weakref_slot=False)
class StepEnded:
    """A durable step's body returned."""

    call: CallId
    name: str
    value: JsonText


@attrs.frozen(kw_only=True, weakref_slot=False)
class CallsEnded:
    """All outcomes that are known and not yet on record, in any order."""

    outcomes: Mapping[CallId, Outcome]
    programmatic: Mapping[CallId, int] = NO_CALLS


@attrs.frozen(kw_only=True, weakref_slot=False)
class AnswerJudged:
    """The final answer decoded to `output`, or `problem` says, to the model, why it did not.

    `disposition` is what the application says about an answer that decoded. `inputs` were claimed because the run
    would otherwise stop: with one of them it goes on (RUN-015).
    """

    output: JsonText | None
    problem: str | None
    disposition: JsonText | None = None
    inputs: tuple[Admitted, ...] = ()
    correction: InputId
    at: Instant


@attrs.frozen(kw_only=True, weakref_slot=False)
class BudgetSpent:
    """The run stands where only more work than it is allowed could follow."""


@attrs.frozen(kw_only=True, weakref_slot=False)
class InterruptedCall:
    """A model call that was under way when the run was stopped: for the turn, or for a summary of what came before."""

    attempt: int
    model: str
    text: str
    usage: Usage
    summary: bool = False


@attrs.frozen(kw_only=True, weakref_slot=False)
class AbortWanted:
    """Who wants the run to end, and why."""

    by: Principal
    reason: str


@attrs.frozen(kw_only=True, weakref_slot=False)
class Stopped:
    """The run must end now. `started` are the calls whose handlers have begun; `outcomes` those that ended.

    `asked` is who asked for it, where that is to be on record (DUR-012).
    """

    cause: AbortReason | Literal["deadline"]
    started: frozenset[CallId] = frozenset()
    outcomes: Mapping[CallId, Outcome] = attrs.field(factory=dict[CallId, Outcome])
    programmatic: Mapping[CallId, int] = NO_CALLS
    asking: InterruptedCall | None = None
    asked: AbortWanted | None = None


Observation = (
    ConversationOpened
    | RunRequested
    | RequestMeasured
    | BudgetGranted
    | BudgetRefused
    | ResultsDue
    | Summarized
    | SummaryFailed
    | ContextFull
    | ResponseReduced
    | ModelCallEnded
    | CallsJudged
    | ApprovalAnswered
    | ApprovalSilent
    | SteeredWhileWaiting
    | InputsOffered
    | CataloguesSeen
    | AttemptResumed
    | GrantEnded
    | PermitsHeld
    | StepEnded
    | CallsEnded
    | AnswerJudged
    | BudgetSpent
    | Stopped
)
