"""Recovery in the machine: what a new owner makes of an open run is a function of the state and of what it was told."""

import pytest

from tests.machine_moves import AT, DONE, after, answer, batch, decided, ended, judged, running, seam
from tests.recovery_examples import ABORT, FIRST, IMPOSSIBLE, LOST, SECOND, UNKNOWN, Made, doubtful, resolves, started
from triolet.kernel.machine.advance import fold
from triolet.kernel.machine.observations import AbortWanted, AttemptResumed, Resolution, Stopped
from triolet.kernel.machine.plan import next_action
from triolet.kernel.machine.recovery import Classification, classify, uncertain
from triolet.kernel.machine.state import ConversationState
from triolet.kernel.machine.table import legal
from triolet.ports.identity import ANONYMOUS, CallId, Epoch
from triolet.ports.outcomes import Outcome, ToolDefect, ToolUnknownOutcome, UnknownCall
from triolet.ports.records import (
    AbortRequested,
    AttemptStarted,
    Record,
    RunSettled,
    ToolResolved,
    ToolSettled,
    ToolUnknown,
)


def resumed(**told: Outcome | None) -> AttemptResumed:
    """A new attempt, told what calls came to; underscores stand for hyphens."""
    return AttemptResumed(
        epoch=Epoch(2),
        worker="w",
        answers={},
        resolutions={
            CallId(call.replace("_", "-")): Resolution(outcome=outcome, by=ANONYMOUS, reason="told")
            for call, outcome in told.items()
        },
        at=AT,
    )


@pytest.mark.parametrize(
    ("make", "found"),
    [
        (seam, "interrupted-response"),
        (answer, "resumed"),
        (lambda: batch("a"), "open-batch"),
        (lambda: started("uncertain"), "open-batch"),
        (doubtful, "resumed"),
    ],
)
def test_dur_013_what_is_found_is_on_record(make: Made, found: Classification) -> None:
    state = make()
    assert classify(state) == found
    first, *_ = decided(state, resumed())
    assert first == AttemptStarted(epoch=Epoch(2), worker="w", recovery=found)


@pytest.mark.parametrize("execution", ["uncertain", "idempotent", "durable"])
def test_dur_009_only_an_uncertain_call_is_unknown_after_a_crash(execution: str) -> None:
    state = started(execution)
    expected = [UNKNOWN] if execution == "uncertain" else []
    assert list(decided(state, resumed()))[1:] == expected
    then = after(resumed(), state=state)
    plan = next_action(then)
    assert plan.unknown == tuple(UnknownCall(call=each.call, tool=execution, reason="crashed") for each in expected)
    # Nothing of the batch is judged, let alone run, before somebody has said what became of the call.
    assert bool(plan.actions) == (not expected)


def test_dur_009_unprepared_calls_of_the_batch_are_no_less_certain_than_before() -> None:
    state = running("uncertain", "readonly", unknown="wait")
    assert uncertain(state.run.batch) == () if state.run and state.run.batch else False
    assert len(decided(state, resumed())) == 1


def test_what_is_known_by_now_is_no_unknown() -> None:
    state = started("uncertain", "uncertain")
    records = decided(state, resumed(r_1_1=DONE))
    assert records[1:] == (UNKNOWN, ToolResolved(call=SECOND, outcome=DONE, by=ANONYMOUS, reason="told"))
    then = fold(records, state)
    # In its turn: the first call has no result yet.
    assert [each.call for each in next_action(then).unknown] == [FIRST]


def test_dur_017_a_resolution_supplies_the_one_result() -> None:
    state = after(resumed(r_1_0=DONE), state=doubtful())
    assert next_action(state).unknown == (UnknownCall(call=SECOND, tool="uncertain", reason="crashed"),)
    state = after(AttemptResumed(epoch=Epoch(3), worker="w", answers={}, at=AT), state=state)
    state = after(
        AttemptResumed(
            epoch=Epoch(4),
            worker="w",
            answers={},
            resolutions={SECOND: Resolution(outcome=DONE, by=ANONYMOUS, reason="told")},
            at=AT,
        ),
        state=state,
    )
    records = decided(state, judged({}))
    assert [record.call for record in records if isinstance(record, ToolSettled)] == [FIRST, SECOND]
    assert fold(records, state).phase == "seam"


def test_what_surely_never_started_may_start() -> None:
    state = after(resumed(r_1_0=None, r_1_1=DONE), state=doubtful())
    plan = next_action(state)
    assert plan.unknown == ()
    state = after(judged({FIRST: "uncertain"}), state=state)
    [start] = next_action(state).actions
    assert (start.call.id, start.prepared) == (FIRST, False)  # type: ignore[union-attr]


@pytest.mark.parametrize("told", [{"r_1_5": DONE}, {"r_9_0": None}])
def test_word_about_anything_else_changes_nothing(told: dict[str, Outcome | None]) -> None:
    assert decided(doubtful(), resumed(**told)) == decided(doubtful(), resumed())


def test_that_a_repeatable_call_never_started_is_no_news() -> None:
    assert len(decided(started("idempotent"), resumed(r_1_0=None))) == 1


def test_run_005_an_unknown_outcome_is_a_record_and_no_result() -> None:
    state = started("uncertain", "uncertain")
    records = decided(state, ended({SECOND: DONE, FIRST: LOST}))
    assert records == (ToolUnknown(call=FIRST, reason="crashed"),)
    # Noticed once.
    assert decided(fold(records, state), ended({SECOND: DONE, FIRST: LOST})) == ()


def test_an_unknown_outcome_holds_back_only_what_is_behind_it() -> None:
    state = started("uncertain", "uncertain")
    records = decided(state, ended({FIRST: DONE, SECOND: LOST}))
    assert [type(record) for record in records] == [ToolUnknown, ToolSettled]


def test_in_a_run_of_its_own_an_unknown_outcome_is_a_result() -> None:
    state = started("uncertain", unknown="result")
    [settled, *_] = decided(state, ended({FIRST: LOST}))
    assert settled == ToolSettled(call=FIRST, outcome=LOST)


@pytest.mark.parametrize(("make", "record"), IMPOSSIBLE)
def test_no_result_is_made_up(make: Made, record: Record) -> None:
    assert legal(make(), record) is not None


def sealed(state: ConversationState) -> list[Outcome]:
    seen = Stopped(cause="requested", asked=AbortWanted(by=ANONYMOUS, reason="enough"))
    asked, *settled, end = decided(state, seen)
    assert asked == ABORT
    assert isinstance(end, RunSettled)
    assert (end.status, end.reason) == ("aborted", "requested")
    after(asked, *settled, end, state=state)
    return [record.outcome for record in settled if isinstance(record, ToolSettled)]


def test_dur_012_an_abort_is_on_record_with_the_end_it_asked_for() -> None:
    assert sealed(seam()) == []
    assert isinstance(decided(seam(), Stopped(cause="requested"))[0], RunSettled)
    assert AbortRequested not in {type(record) for record in decided(seam(), Stopped(cause="cancelled"))}


def test_run_005_aborting_seals_what_nobody_knows_as_unknown() -> None:
    assert sealed(doubtful())[0] == ToolUnknownOutcome(reason="crashed")
    assert sealed(after(resolves(), state=doubtful()))[0] == DONE


def test_a_repeatable_call_of_an_earlier_attempt_may_have_had_its_effect() -> None:
    state = after(resumed(), state=started("idempotent"))
    assert sealed(state) == [ToolDefect(reason="cancelled", effect_possible=True)]
    assert sealed(batch("a", unknown="wait")) == [ToolDefect(reason="cancelled", effect_possible=False)]
