"""Moves of the pure machine for tests: records and observations with plain defaults, and states reached by them."""

from collections.abc import Mapping
from typing import Any, cast

import attrs

from triolet.kernel.machine.advance import advance
from triolet.kernel.machine.decide import decide
from triolet.kernel.machine.decision import Refused
from triolet.kernel.machine.observations import (
    AnswerJudged,
    CallsEnded,
    CallsJudged,
    ConversationOpened,
    ModelCallEnded,
    Observation,
    PermitsHeld,
    ResponseReduced,
    RunRequested,
    Verdict,
)
from triolet.kernel.machine.state import NEW, ConversationState
from triolet.ports.canonical import GENESIS
from triolet.ports.identity import (
    ANONYMOUS,
    AgentId,
    CallId,
    ConversationId,
    Epoch,
    InputId,
    Instant,
    RunId,
    TenantId,
    call_id,
)
from triolet.ports.messages import AssistantMessage, CallDefect, Text, ToolCall
from triolet.ports.outcomes import Outcome, ToolDefect, ToolInvalidInput, ToolSuccess
from triolet.ports.records import ApprovalRules, Limits, Record, RetryRules
from triolet.ports.strict_json import JsonText
from triolet.ports.tools import ExecutionClass
from triolet.ports.usage import Usage

RUN = RunId("r")
AT = Instant(1_000)
SPENT = Usage(input_tokens=7, output_tokens=3)
DONE = ToolSuccess(output=JsonText("1"))
NO_SUCH = ToolInvalidInput(reason="unknown-tool", detail="there is none")
BROKE = ToolDefect(reason="exception", type="ValueError", effect_possible=True)


def limits(**fields: Any) -> Limits:
    given: dict[str, Any] = {"max_turns": 3, "max_tool_calls": 10, "exhaustion": "final-answer", **fields}
    return Limits(**given)


def opened() -> ConversationOpened:
    return ConversationOpened(conversation=ConversationId("c"), tenant=TenantId("t"))


def requested(run: str = RUN, **fields: Any) -> RunRequested:
    given: dict[str, Any] = {
        "agent": AgentId("a"),
        "agent_version": "1",
        "definition": GENESIS,
        "principal": ANONYMOUS,
        "limits": limits(),
        "approval": ApprovalRules(),
        "drain": "all",
        "retry": RetryRules(),
        "summarise": "model",
        "deadline": None,
        "warn_at": None,
        "unknown": "result",
        "structured": False,
        "instructions": "",
        "epoch": Epoch(1),
        "input": InputId(f"{run}-input"),
        "author": "somebody",
        "parts": (Text(text="hello"),),
        "at": AT,
    }
    return RunRequested(run=RunId(run), **{**given, **fields})


def message(*names: str, turn: int = 1, run: str = RUN, text: str = "") -> AssistantMessage:
    """A response with a call for each name; one that starts with ``!`` is defective."""
    calls = tuple(
        ToolCall(
            id=call_id(RunId(run), turn, index),
            name=name.lstrip("!"),
            arguments=JsonText("{}"),
            defect=CallDefect(reason="not-json", raw="{") if name.startswith("!") else None,
        )
        for index, name in enumerate(names)
    )
    return AssistantMessage(text=text, reasoning="", calls=calls)


def responded(*names: str, turn: int = 1, run: str = RUN, **fields: Any) -> ResponseReduced:
    given: dict[str, Any] = {
        "attempt": 1,
        "model": "m",
        "message": message(*names, turn=turn, run=run, text="" if names else "the answer"),
        "finish": "tool-calls" if names else "stop",
        "usage": SPENT,
        "forbidden": False,
    }
    return ResponseReduced(**{**given, **fields})


def model_ended(**fields: Any) -> ModelCallEnded:
    given: dict[str, Any] = {
        "attempt": 1,
        "model": "m",
        "code": "model-unavailable",
        "detail": "down",
        "text": "half an ans",
        "usage": Usage(at_least=True),
        "at": AT,
    }
    return ModelCallEnded(**{**given, **fields})


def judged(verdicts: Mapping[str, Verdict]) -> CallsJudged:
    return CallsJudged(verdicts={CallId(call): verdict for call, verdict in verdicts.items()}, at=AT)


def permitted(*calls: str) -> PermitsHeld:
    return PermitsHeld(calls=tuple(CallId(call) for call in calls))


def ended(outcomes: Mapping[str, Outcome]) -> CallsEnded:
    return CallsEnded(outcomes={CallId(call): outcome for call, outcome in outcomes.items()})


def answered(output: str | None = '"the answer"', problem: str | None = None) -> AnswerJudged:
    text = None if output is None else JsonText(output)
    return AnswerJudged(output=text, problem=problem, correction=InputId("correction"), at=AT)


def decided(state: ConversationState, seen: Observation) -> tuple[Record, ...]:
    """What `decide` answers, which must not be a refusal."""
    decision = decide(state, seen)
    assert not isinstance(decision, Refused), decision
    return decision


def after(*moves: Observation | Record, state: ConversationState = NEW) -> ConversationState:
    """The state behind observations and records in order."""
    for move in moves:
        records = decided(state, move) if isinstance(move, Observation) else (move,)
        for record in records:
            state = advance(state, record)
    return state


def idle() -> ConversationState:
    return after(opened())


def seam(**fields: Any) -> ConversationState:
    """A run that waits for its first response."""
    return after(opened(), requested(**fields))


def batch(*names: str, **fields: Any) -> ConversationState:
    """A run whose first response has these calls."""
    return after(responded(*names), state=seam(**fields))


def running(*executions: ExecutionClass, **fields: Any) -> ConversationState:
    """A run whose first batch has a call of each class, all allowed and none started."""
    verdicts: dict[str, Any] = {f"{RUN}-1-{index}": execution for index, execution in enumerate(executions)}
    return after(judged(verdicts), state=batch(*executions, **fields))


def answer(**fields: Any) -> ConversationState:
    """A run whose first response is an answer."""
    return after(responded(), state=seam(**fields))


def opening() -> ConversationState:
    """A run that no attempt owns yet."""
    [started, *_] = decided(idle(), requested())
    return after(started, state=idle())


def changed(record: Record, **fields: Any) -> Record:
    """`record` with some fields replaced."""
    return cast("Record", attrs.evolve(cast("Any", record), **fields))
