"""Makes the golden vectors of the run machine: `vectors/logs.json`.

Decides the scenarios. Each is played on the kernel over a store that keeps what was written; the file holds the exact
bytes of every batch, the tail that they lead to, a summary of the state behind each batch and what may happen next, and
beside them records that may not follow. An implementation in another language folds the same bytes. Run as
``python -m triolet.spec_tests.log_vectors`` to write the file anew. (RUN-005, RUN-006, STORE-005)
"""

import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, cast

import attrs
import trio

from triolet.adapters.scripted_model import ScriptItem, call, turn
from triolet.kernel import Agent, Policy, open_kernel, tool
from triolet.kernel.machine.advance import fold
from triolet.kernel.machine.plan import AskModel, JudgeAnswer, JudgeCalls, ReportBudgetSpent, StartCall, next_action
from triolet.kernel.machine.state import NEW, ConversationState
from triolet.kernel.machine.table import legal
from triolet.ports.batch import Batch, encode_batch
from triolet.ports.conversation_store import Tail, WriterFenced, tail_after
from triolet.ports.identity import CallId, Epoch, RunId
from triolet.ports.language_model import ModelUnavailable
from triolet.ports.messages import AssistantMessage, Message, ToolMessage, UserMessage
from triolet.ports.outcomes import ToolRejected, ToolSuccess
from triolet.ports.records import (
    AttemptStarted,
    CallsDecided,
    ModelResponded,
    Record,
    RunnableCall,
    RunSettled,
    ToolPrepared,
    ToolSettled,
)
from triolet.ports.schema import codec_for
from triolet.ports.strict_json import JsonText
from triolet.ports.usage import Usage, UsageTotals
from triolet.spec_tests.cases.kernel import KernelSubject
from triolet.spec_tests.cases.kernel.setting import Bench, open_bench, text_agent

PATH: Final = Path(__file__).parent / "vectors" / "logs.json"


@attrs.frozen(kw_only=True)
class Answer:
    """A structured answer."""

    words: int


@tool(execution="readonly")
async def count(text: str) -> int:
    """Count words."""
    return len(text.split())


@tool
async def send(text: str) -> str:
    """Send a text."""
    return f"sent {text}"


@tool
async def fail() -> str:
    """Fail."""
    raise RuntimeError("no")


@attrs.frozen(kw_only=True, eq=False)
class _Scenario:
    name: str
    agent: Agent[str, Any]
    script: tuple[ScriptItem, ...]
    play: Callable[[Bench], Awaitable[object]]


async def _once(bench: Bench) -> None:
    async with bench.kernel.conversation("c1") as conversation:
        await conversation.run(bench.agent, "How many words?")


async def _twice(bench: Bench) -> None:
    async with bench.kernel.conversation("c1") as conversation:
        await conversation.run(bench.agent, "first")
        await conversation.run(bench.agent, "second")


# One call at a time, so that what ends first is no accident.
_ONE_BY_ONE: Final = Policy(concurrency=1)
_COUNT: Final = call("count", {"text": "a b"})


def _hanging(began: trio.Event) -> Agent[str, str]:
    @tool
    async def hang() -> str:
        began.set()
        await trio.sleep_forever()
        return ""

    return text_agent(hang, count, policy=_ONE_BY_ONE)


def _cancelled() -> _Scenario:
    began = trio.Event()

    async def play(bench: Bench) -> None:
        async with bench.kernel.conversation("c1") as conversation, trio.open_nursery() as nursery:
            nursery.start_soon(conversation.run, bench.agent, "go")
            await began.wait()
            nursery.cancel_scope.cancel()

    script = (turn(call("hang"), _COUNT),)
    return _Scenario(name="cancelled in a call", agent=_hanging(began), script=script, play=play)


def _lost() -> _Scenario:
    began = trio.Event()

    async def lose(bench: Bench) -> None:
        with suppress(WriterFenced):
            async with bench.kernel.conversation("c1") as first:
                await first.run(bench.agent, "go")

    async def play(bench: Bench) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lose, bench)
            await began.wait()
            async with bench.kernel.conversation("c1") as second:
                await second.run(bench.agent, "and now?")
            nursery.cancel_scope.cancel()

    script = (turn(call("hang"), _COUNT), turn("fine"))
    return _Scenario(name="lost, and settled by the next owner", agent=_hanging(began), script=script, play=play)


_BROKEN: Final = ModelUnavailable(model="scripted", reason="transport")


def scenarios() -> tuple[_Scenario, ...]:
    """The scenarios. Made anew each time, inside a Trio run: they hold events."""

    def plain(
        name: str, agent: Agent[str, Any], *script: ScriptItem, play: Callable[[Bench], Awaitable[object]] = _once
    ) -> _Scenario:
        return _Scenario(name=name, agent=agent, script=script, play=play)

    return (
        plain("an answer", text_agent(), turn("Two.")),
        plain("two runs", text_agent(), turn("One."), turn("Two."), play=_twice),
        plain(
            "a batch of calls",
            text_agent(count, send, fail, policy=_ONE_BY_ONE),
            turn("Let me see.", _COUNT, call("send", {"text": "x"}), call("fail"), call("nope"), call("count", "{")),
            turn("Done."),
        ),
        plain(
            "a response cut by length",
            text_agent(count, policy=_ONE_BY_ONE),
            turn(_COUNT, call("count", '{"te'), finish="length"),
            turn("Done."),
        ),
        plain("a corrected answer", text_agent(output=Answer), turn("two"), turn('{"words": 2}')),
        plain("used-up turns", text_agent(count, policy=Policy(max_turns=1)), turn(_COUNT), turn("Enough.")),
        plain(
            "used-up calls", text_agent(count, policy=Policy(max_tool_calls=1)), turn(_COUNT, _COUNT), turn("Enough.")
        ),
        plain("a limit that fails", text_agent(count, policy=Policy(max_turns=1, exhaustion="fail")), turn(_COUNT)),
        plain("a forbidden call", text_agent(count, policy=Policy(max_turns=1)), turn(_COUNT), turn(_COUNT)),
        plain("a model that breaks", text_agent(), turn("Half an answer").failing(_BROKEN, after=1)),
        _cancelled(),
        _lost(),
    )


def _illegal() -> tuple[tuple[str, int, Record], ...]:
    first, second = CallId("run1-1-0"), CallId("run1-1-1")
    one = ToolSuccess(output=JsonText("1"))
    answer = AssistantMessage(text="a", reasoning="", calls=())
    settled = RunSettled(run=RunId("run1"), status="aborted", usage=UsageTotals(), turns=0, reason="cancelled")
    late = attrs.evolve(_RESPONSE, turn=2, message=answer)
    log = "cancelled in a call"
    return (
        (log, 0, _RESPONSE),
        (log, 1, settled),
        (log, 2, late),
        (log, 2, ToolSettled(call=first, outcome=one)),
        (log, 2, attrs.evolve(settled, status="completed", output=JsonText('"a"'), reason=None, finish="stop")),
        (log, 3, ToolSettled(call=second, outcome=one)),
        (log, 3, ToolPrepared(calls=(first,))),
        (log, 3, CallsDecided(turn=1, runnable=(RunnableCall(call=first, execution="readonly"),))),
        (log, 3, late),
        (log, 3, settled),
        (log, 3, AttemptStarted(epoch=Epoch(1))),
        (log, 4, ToolSettled(call=second, outcome=ToolRejected(reason="denied", detail="late"))),
    )


_RESPONSE: Final = ModelResponded(
    turn=1,
    attempt=1,
    model="scripted",
    message=AssistantMessage(text="a", reasoning="", calls=()),
    finish="stop",
    usage=Usage(),
)

_NOTES: Final = [
    "batches: `bytes` are the exact canonical bytes of a batch (as text); `tail` is where the log ends behind it.",
    "state: what the records up to there fold to; `open` are the calls without a result, in order.",
    "next: what may happen next; it is the interpreter's to leave out what it already does.",
    "history: the messages that a model is shown at the end of the log.",
    "refused: a record that may not follow the first `after` batches of the named log.",
]


def build() -> dict[str, Any]:
    """The content of the file."""
    return trio.run(_build)


async def _build() -> dict[str, Any]:
    logs: list[dict[str, Any]] = []
    batches: dict[str, list[Batch]] = {}
    for scenario in scenarios():
        async with open_bench(KernelSubject(port=open_kernel), scenario.script, scenario.agent) as bench:
            await scenario.play(bench)
        batches[scenario.name] = bench.store.batches
        logs.append(_log(scenario.name, bench.store.batches))
    return {"notes": _NOTES, "logs": logs, "refused": list(_refusals(batches))}


def rendered() -> str:
    """The file's text."""
    return json.dumps(build(), indent=1, ensure_ascii=True) + "\n"


def _log(name: str, batches: list[Batch]) -> dict[str, Any]:
    state, tail = NEW, Tail()
    rows: list[dict[str, Any]] = []
    for batch in batches:
        body = encode_batch(batch)
        state, tail = fold(batch.records, state), tail_after(tail, body, len(batch.records))
        rows.append(
            {
                "bytes": body.decode(),
                "tail": {"sequence": tail.sequence, "digest": tail.digest},
                "state": summary(state),
                "next": actions(state),
            }
        )
    history = [_message(message) for message in state.history]
    return {"name": name, "batches": rows, "history": history}


def _refusals(batches: dict[str, list[Batch]]) -> list[dict[str, Any]]:
    refused: list[dict[str, Any]] = []
    for log, after, record in _illegal():
        state = fold(record for batch in batches[log][:after] for record in batch.records)
        if legal(state, record) is None:
            raise AssertionError(f"{record.kind} may follow batch {after} of {log}")
        probe = Batch(id=cast("Any", "probe"), run=None, epoch=Epoch(1), at=cast("Any", 0), records=(record,))
        (spelt,) = json.loads(encode_batch(probe))["records"]
        refused.append({"log": log, "after": after, "record": spelt})
    return refused


_ROLES: Final[dict[type[Message], str]] = {UserMessage: "user", AssistantMessage: "assistant", ToolMessage: "tool"}


def _message(message: Message) -> dict[str, Any]:
    encoded = cast("dict[str, Any]", codec_for(type(message)).encode(message))
    return {"role": _ROLES[type(message)], **encoded}


def summary(state: ConversationState) -> dict[str, Any]:
    """What another implementation can compare: no object of this one's."""
    run = state.run
    shown: dict[str, Any] | None = None
    if run is not None:
        batch = run.batch
        shown = {
            "run": run.started.run,
            "epoch": run.epoch,
            "turn": run.turn,
            "tries": run.attempt,
            "calls": run.spent,
            "exhausted": run.exhausted,
            "usage": codec_for(UsageTotals).encode(run.usage),
            "batch": None
            if batch is None
            else {
                "turn": batch.turn,
                "open": [each.id for each in batch.open],
                "runnable": None if batch.runnable is None else dict(batch.runnable),
                "prepared": sorted(batch.prepared),
            },
        }
    return {
        "phase": state.phase,
        "sequence": state.sequence,
        "epoch": state.epoch,
        "messages": len(state.history),
        "run": shown,
    }


def actions(state: ConversationState) -> list[dict[str, Any]]:
    """What may happen next."""
    return [_action(action) for action in next_action(state).actions]


def _action(action: object) -> dict[str, Any]:
    match action:
        case AskModel():
            return {
                "action": "ask-model",
                "turn": action.turn,
                "try": action.attempt,
                "forbid_tools": action.forbid_tools,
            }
        case JudgeCalls():
            return {"action": "judge-calls", "turn": action.turn, "calls": [each.id for each in action.calls]}
        case StartCall():
            return {"action": "start-call", "call": action.call.id, "prepared": action.prepared}
        case JudgeAnswer():
            return {"action": "judge-answer", "structured": action.structured}
        case ReportBudgetSpent():
            return {"action": "report-budget-spent"}
        case _:
            raise AssertionError(f"{type(action).__name__} has no name in the vectors")


if __name__ == "__main__":
    PATH.write_text(rendered(), encoding="ascii")
