"""What a run came to: the results that `run` returns and a handle gives.

Decides how a settlement is shown to the caller: one class per ending, each with an `output` that is the decoded
answer or raises the typed failure. It is derived from the terminal event alone (RUN-001).
"""

from typing import Any, Generic, NoReturn, TypeVar

import attrs

from triolet.kernel.agent import Agent
from triolet.ports.approval import ApprovalRequest
from triolet.ports.errors import TrioletError
from triolet.ports.events import RunCompleted, RunFailed, RunSuspended, TerminalEvent
from triolet.ports.identity import ConversationId, Epoch, RequestId, RunId, TenantId
from triolet.ports.records import AbortReason, Dimension, RunFailure
from triolet.ports.schema import Codec
from triolet.ports.strict_json import JsonText, parse
from triolet.ports.usage import UsageTotals

Out = TypeVar("Out")


@attrs.define(kw_only=True)
class RunError(TrioletError):
    """A run did not complete. Its subclasses are what `output` raises."""

    run: RunId


@attrs.define(kw_only=True)
class RunFailedError(RunError):
    """The run failed; `failure.code` says how, without anybody's text."""

    failure: RunFailure

    @property
    def message(self) -> str:
        """The code and its bounded detail."""
        return f"run {self.run} failed ({self.failure.code}): {self.failure.detail}"


@attrs.define(kw_only=True)
class BudgetExhaustedError(RunFailedError):
    """A limit ended the run, and its policy was to fail; `failure.dimension` names the limit (RUN-011)."""


@attrs.define(kw_only=True)
class OutputInvalidError(RunFailedError):
    """The last answer that was allowed does not match the agent's output schema."""


@attrs.define(kw_only=True)
class ToolsForbiddenError(RunFailedError):
    """The model called a tool in a turn that forbids tools (RUN-020)."""


@attrs.define(kw_only=True)
class ModelFailedError(RunFailedError):
    """The model gave no complete response: unavailable, refused, too large a context, or malformed."""


@attrs.define(kw_only=True)
class RunAbortedError(RunError):
    """The run was stopped before it had an answer."""

    reason: AbortReason

    @property
    def message(self) -> str:
        """Who stopped it."""
        return f"run {self.run} was aborted ({self.reason})"


@attrs.define(kw_only=True)
class RunSuspendedError(RunError):
    """The run has no output yet: it waits for these answers."""

    requests: tuple[RequestId, ...]

    @property
    def message(self) -> str:
        """How many answers it waits for."""
        return f"run {self.run} waits for {len(self.requests)} approvals"


@attrs.define(kw_only=True)
class DeniedError(RunFailedError):
    """An approver, silence or an authorizer denied a call, and the denial was terminal."""


_ERRORS: dict[str, type[RunFailedError]] = {
    "budget-exhausted": BudgetExhaustedError,
    "output-invalid": OutputInvalidError,
    "tools-forbidden": ToolsForbiddenError,
    "model-unavailable": ModelFailedError,
    "model-refused": ModelFailedError,
    "context-too-large": ModelFailedError,
    "malformed-response": ModelFailedError,
    "denied": DeniedError,
}


@attrs.frozen(kw_only=True, weakref_slot=False)
class Owner:
    """Whose attempt a result is of."""

    tenant: TenantId
    epoch: Epoch
    one_shot: bool


@attrs.frozen(kw_only=True, weakref_slot=False)
class Ended:
    """What every ended run tells. `usage` is charged whatever became of the run."""

    run: RunId
    conversation: ConversationId
    usage: UsageTotals
    turns: int


@attrs.frozen(kw_only=True, weakref_slot=False)
class Completed(Ended, Generic[Out]):
    """The run has its answer. `exhausted` names the limit that ended it early, if one did (RUN-011).

    `finish` is ``length`` where the provider cut an unstructured answer. `disposition` is the decoded value that the
    agent declares, beside an ordinary completion only (RUN-029).
    """

    output: Out
    finish: str
    disposition: Any = None
    exhausted: Dimension | None


@attrs.frozen(kw_only=True, weakref_slot=False)
class Failed(Ended):
    """The run failed, typed."""

    error: RunFailedError

    @property
    def output(self) -> NoReturn:
        """Raises `error`."""
        raise self.error


@attrs.frozen(kw_only=True, weakref_slot=False)
class Aborted(Ended):
    """The run was stopped: by its handle, by cancellation, or by the loss of its owner."""

    reason: AbortReason

    @property
    def output(self) -> NoReturn:
        """Raises `RunAbortedError`."""
        raise RunAbortedError(run=self.run, reason=self.reason)


@attrs.frozen(kw_only=True, weakref_slot=False)
class Suspended(Ended):
    """The run waits for answers that nobody in this process will give. It is not settled, and holds nothing open.

    `requests` are what it waits for; `kernel.answer` stores an answer, and `kernel.resume` goes on with those that are
    there, also in another kernel on the same store. `epoch` is the ownership that has ended: of two that resume the
    same suspension, one gets a Conflict. `one_shot` says that the conversation goes when the run has settled.
    """

    tenant: TenantId
    epoch: Epoch
    requests: tuple[ApprovalRequest, ...]
    one_shot: bool

    @property
    def output(self) -> NoReturn:
        """Raises `RunSuspendedError`."""
        raise RunSuspendedError(run=self.run, requests=tuple(request.id for request in self.requests))


RunResult = Completed[Out] | Failed | Aborted | Suspended


def result_of(event: TerminalEvent, agent: Agent[Any, Out], owner: Owner) -> RunResult[Out]:
    """What the terminal event says, with the answer decoded. `owner` is whose attempt it was."""
    run, conversation = event.trace.run, event.trace.conversation
    if isinstance(event, RunSuspended):
        return Suspended(
            run=run,
            conversation=conversation,
            usage=event.usage,
            turns=event.turns,
            tenant=owner.tenant,
            epoch=owner.epoch,
            requests=event.requests,
            one_shot=owner.one_shot,
        )
    settlement = event.settlement
    usage, turns = settlement.usage, settlement.turns
    if isinstance(event, RunCompleted):
        return Completed(
            run=run,
            conversation=conversation,
            usage=usage,
            turns=turns,
            output=_decoded(settlement.output, agent.output_codec),
            finish=settlement.finish or "stop",
            disposition=_disposition(settlement.disposition, agent),
            exhausted=settlement.exhausted,
        )
    if isinstance(event, RunFailed):
        error = _ERRORS.get(event.failure.code, RunFailedError)(run=run, failure=event.failure)
        return Failed(run=run, conversation=conversation, usage=usage, turns=turns, error=error)
    reason = settlement.reason or "cancelled"
    return Aborted(run=run, conversation=conversation, usage=usage, turns=turns, reason=reason)


def _decoded(text: JsonText | None, codec: Codec[Out]) -> Out:
    if text is None:
        raise AssertionError("a completed run has its output")
    return codec.decode(parse(text))


def _disposition(text: JsonText | None, agent: Agent[Any, Any]) -> object:
    return None if text is None or agent.disposition is None else agent.disposition.codec.decode(parse(text))
