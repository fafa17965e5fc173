"""An interpreter that reports truthfully, for generated runs of the machine: what all its rules stand on."""

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize

from tests.machine_moves import AT, BROKE, DONE, NO_SUCH, decided, opened
from triolet.kernel.machine.advance import advance
from triolet.kernel.machine.compaction import (
    Measured,
)
from triolet.kernel.machine.observations import (
    Observation,
)
from triolet.kernel.machine.plan import (
    next_action,
)
from triolet.kernel.machine.state import NEW, ConversationState
from triolet.kernel.machine.table import legal
from triolet.ports.batch import Batch, decode_batch, encode_batch
from triolet.ports.identity import BatchId, CallId, Epoch
from triolet.ports.outcomes import Outcome, ToolDefect, ToolFailure, ToolRejected, ToolUnknownOutcome
from triolet.ports.records import (
    Record,
    RunStarted,
)
from triolet.ports.strict_json import JsonText
from triolet.ports.usage import Usage

CLASSES = st.sampled_from(["readonly", "idempotent", "durable", "uncertain"])
HANDLER_OUTCOMES: st.SearchStrategy[Outcome] = st.sampled_from(
    [
        DONE,
        ToolFailure(type="Full", payload=JsonText("{}")),
        BROKE,
        ToolUnknownOutcome(reason="timeout"),
        ToolDefect(reason="timeout", effect_possible=False),
    ]
)
REFUSALS: st.SearchStrategy[Outcome] = st.sampled_from([NO_SUCH, ToolRejected(reason="denied", detail="no")])
CAUSES = st.sampled_from(["cancelled", "requested", "lost", "crashed", "deadline"])
NAMES = st.lists(st.sampled_from(["a", "b", "!broken"]), max_size=4)
FINISHES = st.sampled_from(["stop", "tool-calls", "length", "content-filter"])
USAGES = st.builds(Usage, input_tokens=st.integers(0, 9), output_tokens=st.integers(0, 9), at_least=st.booleans())


class HonestInterpreter(RuleBasedStateMachine):
    """Keeps a state, and the log that led to it."""

    state: ConversationState
    log: list[Record]
    runs: int
    refused: dict[CallId, Outcome]
    seams: int
    measured: Measured | None

    @initialize()
    def open(self) -> None:
        self.state, self.log, self.runs, self.refused, self.seams = NEW, [], 0, {}, 0
        self.measured = None
        self.observe(opened())

    def observe(self, seen: Observation) -> tuple[Record, ...]:
        records = decided(self.state, seen)
        for record in records:
            assert legal(self.state, record) is None
            self.state = advance(self.state, record)
            self.log.append(record)
        if records:
            round_trip(records)
        return records

    def plan(self, kind: Any) -> list[Any]:
        return [action for action in next_action(self.state, self.measured).actions if isinstance(action, kind)]

    def write(self, record: Record) -> None:
        self.state = advance(self.state, record)
        self.log.append(record)


def open_limits(log: list[Record]) -> Any:
    return [record for record in log if isinstance(record, RunStarted)][-1].limits


def round_trip(records: tuple[Record, ...]) -> None:
    one = Batch(id=BatchId("b"), run=None, epoch=Epoch(1), at=AT, records=records)
    assert decode_batch(encode_batch(one)).records == records
