"""What the outside tells the machine: the closed union of observations.

Each is a plain value: what a model answered, what a handler ended with, that somebody cancelled. An observation
carries every identity and instant that its records need, so that `decide` draws none. It decides nothing.
"""

from collections.abc import Mapping
from typing import Literal

import attrs

from triolet.ports.canonical import Digest
from triolet.ports.identity import AgentId, CallId, ConversationId, Epoch, InputId, Instant, Principal, RunId, TenantId
from triolet.ports.language_model import FinishReason
from triolet.ports.messages import AssistantMessage, Part
from triolet.ports.outcomes import Outcome
from triolet.ports.records import AbortReason, FailureCode, Limits
from triolet.ports.strict_json import JsonText
from triolet.ports.tools import ExecutionClass
from triolet.ports.usage import Usage


@attrs.frozen(kw_only=True, weakref_slot=False)
class ConversationOpened:
    """A host opens a conversation that has no log yet."""

    conversation: ConversationId
    tenant: TenantId


@attrs.frozen(kw_only=True, weakref_slot=False)
class RunRequested:
    """Somebody wants an agent to run on this input, under this authority, from now on."""

    run: RunId
    agent: AgentId
    agent_version: str
    definition: Digest
    principal: Principal
    limits: Limits
    deadline: Instant | None
    unknown: Literal["result", "wait"]
    structured: bool
    instructions: str
    epoch: Epoch
    input: InputId
    author: str
    parts: tuple[Part, ...]
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
class ModelCallEnded:
    """A model call ended without a complete response, for a reason of its own."""

    attempt: int
    model: str
    code: FailureCode
    detail: str
    text: str
    usage: Usage


@attrs.frozen(kw_only=True, weakref_slot=False)
class CallsJudged:
    """Every open call of the batch is judged: a class means it may run, an outcome means it may not."""

    verdicts: Mapping[CallId, ExecutionClass | Outcome]


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


@attrs.frozen(kw_only=True, weakref_slot=False)
class AnswerJudged:
    """The final answer decoded to `output`, or `problem` says, to the model, why it did not."""

    output: JsonText | None
    problem: str | None
    correction: InputId
    at: Instant


@attrs.frozen(kw_only=True, weakref_slot=False)
class BudgetSpent:
    """The run stands where only more work than it is allowed could follow."""


@attrs.frozen(kw_only=True, weakref_slot=False)
class InterruptedCall:
    """A model call that was under way when the run was stopped."""

    attempt: int
    model: str
    text: str
    usage: Usage


@attrs.frozen(kw_only=True, weakref_slot=False)
class Stopped:
    """The run must end now. `started` are the calls whose handlers have begun; `outcomes` those that ended."""

    cause: AbortReason | Literal["deadline"]
    started: frozenset[CallId] = frozenset()
    outcomes: Mapping[CallId, Outcome] = attrs.field(factory=dict[CallId, Outcome])
    asking: InterruptedCall | None = None


Observation = (
    ConversationOpened
    | RunRequested
    | ResponseReduced
    | ModelCallEnded
    | CallsJudged
    | PermitsHeld
    | StepEnded
    | CallsEnded
    | AnswerJudged
    | BudgetSpent
    | Stopped
)
