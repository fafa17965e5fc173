"""Makes the golden vectors of the run machine: `vectors/logs.json`.

Decides how a log is shown. Each scenario of `log_scenarios` is played on the kernel over a store that keeps what
was written; the file holds the exact bytes of every batch, the tail that they lead to, a summary of the state
behind each batch and what may happen next, and beside them records that may not follow. An implementation in
another language folds the same bytes. Run as ``python -m triolet.spec_tests.log_vectors`` to write the file anew.
(RUN-005, RUN-006, STORE-005)
"""

import json
from pathlib import Path
from typing import Any, Final, cast

import trio

from triolet.adapters.memory import MemoryInbox
from triolet.kernel import open_kernel
from triolet.kernel.machine.advance import fold
from triolet.kernel.machine.plan import (
    JudgeAnswer,
    JudgeCalls,
    MeasureRequest,
    ReportBudgetSpent,
    StartCall,
    next_action,
)
from triolet.kernel.machine.state import NEW, ConversationState
from triolet.kernel.machine.table import legal
from triolet.ports.approval import PENDING, ApprovalRequest, Decision, Pending
from triolet.ports.batch import Batch, encode_batch
from triolet.ports.conversation_store import Tail, tail_after
from triolet.ports.identity import Epoch, RequestId
from triolet.ports.messages import AssistantMessage, Message, ToolMessage, UserMessage
from triolet.ports.schema import codec_for
from triolet.ports.usage import UsageTotals
from triolet.spec_tests.cases.kernel import KernelSubject
from triolet.spec_tests.cases.kernel.setting import open_bench
from triolet.spec_tests.log_scenarios import illegal, scenarios

PATH: Final = Path(__file__).parent / "vectors" / "logs.json"


_NOTES: Final = [
    "batches: `bytes` are the exact canonical bytes of a batch (as text); `tail` is where the log ends behind it.",
    "state: what the records up to there fold to; `open` are the calls without a result, in order.",
    "next: what may happen next; it is the interpreter's to leave out what it already does.",
    "waits: what the run waits for before anything happens; a run that ends its attempt here is suspended.",
    "history: the messages that a model is shown at the end of the log.",
    "refused: a record that may not follow the first `after` batches of the named log.",
]


def build() -> dict[str, Any]:
    """The content of the file."""
    return trio.run(_build)


class _Away:
    """A desk at which nobody sits, so that what needs a yes waits for one that is stored."""

    async def request(self, request: ApprovalRequest, *, patience: float) -> Decision | Pending:
        return PENDING

    async def withdraw(self, request: RequestId) -> None:
        return


async def _build() -> dict[str, Any]:
    logs: list[dict[str, Any]] = []
    batches: dict[str, list[Batch]] = {}
    for scenario in scenarios():
        ports = {"inbox": MemoryInbox(), "approval": _Away()}
        subject = KernelSubject(port=open_kernel)
        async with open_bench(subject, scenario.script, scenario.agent, ports=ports) as bench:
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
                "waits": waits(state),
            }
        )
    history = [_message(message) for message in state.history]
    return {"name": name, "batches": rows, "history": history}


def _refusals(batches: dict[str, list[Batch]]) -> list[dict[str, Any]]:
    refused: list[dict[str, Any]] = []
    for log, after, record in illegal():
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
    run, view = state.run, state.view
    shown: dict[str, Any] | None = None
    if run is not None:
        batch = run.batch
        shown = {
            "run": run.started.run,
            "epoch": run.epoch,
            "turn": run.turn,
            "tries": run.attempt,
            "calls": run.spent,
            "retry_at": run.retry_at,
            "exhausted": run.exhausted,
            "closing": run.closing,
            "warned": sorted(run.warned),
            "failures": run.failures,
            "result_bytes": run.result_bytes,
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
        "view": {"compactions": view.count, "summarised": view.summarised, "cleared": view.cleared},
        "run": shown,
    }


def actions(state: ConversationState) -> list[dict[str, Any]]:
    """What may happen next."""
    return [_action(action) for action in next_action(state).actions]


def waits(state: ConversationState) -> list[dict[str, Any]]:
    """What the run waits for: each open request, and its call."""
    return [{"wait": "approval", "request": each.id, "call": each.call} for each in next_action(state).waits]


def _action(action: object) -> dict[str, Any]:
    match action:
        case MeasureRequest():
            return {
                "action": "measure-request",
                "turn": action.turn,
                "sized": action.sized,
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
