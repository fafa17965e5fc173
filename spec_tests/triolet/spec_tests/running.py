"""Running one case: open, check, close, within a limit, and say what became of it.

Decides which status and fault every ending has. It is the boundary at which whatever an adapter raises becomes a
row; nothing but cancellation and an interrupt passes it. It cannot end a subject that blocks the event loop or the
process; `triolet.spec_tests.isolation` can. (CONF-001, CONF-002)
"""

import functools
import traceback
from collections import Counter
from collections.abc import Sequence
from importlib import metadata
from itertools import islice
from typing import Any, Final, Literal, TypeVar

import attrs
import trio

from triolet.ports.errors import bounded
from triolet.ports.text import repair
from triolet.spec_tests.certificate import MAX_DETAIL, MAX_REASON, Declared, Fault, Row, Status
from triolet.spec_tests.claims import NotExercised, NotTriggered, SpecViolation
from triolet.spec_tests.definition import Case
from triolet.spec_tests.leaks import left_behind, running
from triolet.spec_tests.subject import Maker, Subject
from triolet.spec_tests.suite import LIFETIME, SMOKE, NotASubject, Suite

S = TypeVar("S", bound=Subject[Any])

LIMIT_SECONDS: Final = 10.0
"""How long one case may take, its opening and closing included, unless told otherwise."""


@attrs.frozen(kw_only=True, weakref_slot=False)
class CaseRun:
    """One case's row, what it left running after it was closed, and what the subject said about itself."""

    row: Row
    leaks: tuple[str, ...] = ()
    declared: Declared | None = None

    def require(self) -> None:
        """Raise `SpecViolation` if the case failed, or if something was left running. For use in a test function."""
        if self.row.status == "failed":
            raise SpecViolation(problem=self.row.reason, requirements=self.row.requirements)
        if self.leaks:
            raise SpecViolation(problem=leak_reason(self.leaks), requirements=("CAP-001",))


@attrs.define(kw_only=True, weakref_slot=False)
class _Progress:
    stage: Literal["opening", "checking", "closing"] = "opening"
    declared: Declared | None = None
    ended: Row | None = None


async def run_case(suite: Suite[S], case: Case[S], maker: Maker, *, limit: float = LIMIT_SECONDS) -> CaseRun:
    """Run one case on a fresh subject. `limit` is in seconds."""

    async def check(subject: S) -> Row:
        lack = lacking(suite, case, declared_by(subject))
        if lack is not None:
            return lack
        await case.run(subject)
        return row_of(case, "passed")

    return await _run(suite, case, maker, limit, check)


async def run_smoke(suite: Suite[S], maker: Maker, *, limit: float = LIMIT_SECONDS) -> CaseRun:
    """Open and close a subject and do nothing with it. If that fails, the harness is wrong and not the adapter."""
    case = smoke_case(suite)

    async def check(_: S) -> Row:
        return row_of(case, "passed")

    outcome = await _run(suite, case, maker, limit, check)
    if outcome.row.status != "failed":
        return outcome
    return attrs.evolve(outcome, row=attrs.evolve(outcome.row, fault="harness"))


def smoke_case(suite: Suite[S]) -> Case[S]:
    """What the smoke row is about."""

    async def nothing(_: S) -> None:
        await trio.lowlevel.checkpoint()

    title = f"a subject for {suite.port} opens, has the port's verbs, and closes"
    return Case(name=SMOKE, title=title, requirements=suite.lifetime, check=nothing)


def lacking(suite: Suite[Any], case: Case[Any], declared: Declared) -> Row | None:
    """The row of a case that cannot run on a subject that declares this; None if it can."""
    lack = declared.lacks(case.needs, suite.subject.lever_names())
    return None if lack is None else row_of(case, lack[0], reason=lack[1])


def lifetime_row(suite: Suite[Any], executed: Sequence[CaseRun]) -> Row:
    """The row that says what all cases together left running."""
    leaking = [(run.row.case, run.leaks) for run in executed if run.leaks]
    status: Literal["passed", "failed", "not-exercised"] = "passed" if executed else "not-exercised"
    reason = "" if executed else "no case was executed"
    if leaking:
        first, leaks = leaking[0]
        others = f", and after {len(leaking) - 1} more" if len(leaking) > 1 else ""
        status, reason = "failed", f"{leak_reason(leaks)} after {first}{others}"
    return Row(
        case=LIFETIME,
        title="a closed subject leaves no task and no thread running",
        requirements=suite.lifetime,
        status=status,
        fault="leak" if leaking else None,
        reason=shortened(reason),
    )


def leak_reason(leaks: Sequence[str]) -> str:
    """What leaks are called in a reason."""
    counted = Counter(leaks)
    shown = (
        bounded(leak, 80) if count == 1 else f"{bounded(leak, 80)} ({count} times)" for leak, count in counted.items()
    )
    return f"left running: {', '.join(islice(shown, 5))}"


def row_of(
    case: Case[Any],
    status: Status,
    *,
    fault: Fault | None = None,
    reason: str = "",
    error: BaseException | None = None,
) -> Row:
    """A row about `case`, with every text clean and within its bound."""
    # A smoke row is no evidence for any requirement.
    requirements = () if case.name == SMOKE else case.requirements
    return Row(
        case=case.name,
        title=case.title,
        requirements=requirements,
        status=status,
        fault=fault,
        reason=shortened(reason),
        detail="" if error is None else _detail(error),
    )


def shortened(reason: str) -> str:
    """`reason` on one clean line within its bound."""
    return repair(" ".join(bounded(reason, MAX_REASON - 40).split()))[:MAX_REASON]


async def _run(suite: Suite[S], case: Case[S], maker: Maker, limit: float, check: Any) -> CaseRun:
    progress = _Progress()
    before = running()
    started = trio.current_time()
    scope = trio.CancelScope(deadline=started + limit)
    try:
        with scope:
            await _open_and_check(suite, maker, check, case, progress)
    except (Exception, SystemExit) as error:  # noqa: BLE001 -- the boundary: what an adapter raises becomes a row
        progress.ended = _ended_badly(case, progress, error)
    if scope.cancelled_caught and (progress.ended is None or progress.ended.fault in (None, "closing", "error")):
        reason = f"no end within {limit:g} s while {progress.stage}"
        progress.ended = row_of(case, "failed", fault="limit", reason=reason)
    if progress.ended is None:
        raise AssertionError("a case that ends has its row")
    milliseconds = round((trio.current_time() - started) * 1000)
    row = attrs.evolve(progress.ended, duration_ms=milliseconds)
    return CaseRun(row=row, leaks=await left_behind(before), declared=progress.declared)


async def _open_and_check(suite: Suite[S], maker: Maker, check: Any, case: Case[S], progress: _Progress) -> None:
    async with maker() as opened:
        subject = suite.subject_of(opened)
        progress.declared = declared_by(subject)
        progress.stage = "checking"
        try:
            progress.ended = await check(subject)
        except (Exception, SystemExit) as error:  # noqa: BLE001 -- the same boundary, so that the maker closes in order
            progress.ended = _ended_badly(case, progress, error)
        progress.stage = "closing"


def _ended_badly(case: Case[Any], progress: _Progress, error: BaseException) -> Row:
    if progress.ended is not None and progress.ended.status == "failed":
        return progress.ended
    match error:
        case SpecViolation():
            return row_of(case, "failed", fault="violation", reason=error.problem, error=error)
        case NotExercised():
            return row_of(case, "not-exercised", reason=error.reason)
        case NotTriggered():
            return row_of(case, "not-triggered", reason=error.reason)
        case NotASubject():
            return row_of(case, "failed", fault="harness", reason=error.message)
        case _:
            faults: dict[str, Fault] = {"opening": "opening", "checking": "error", "closing": "closing"}
            reason = f"{type(error).__name__} while {progress.stage}: {error}"
            return row_of(case, "failed", fault=faults[progress.stage], reason=reason, error=error)


def declared_by(subject: Subject[Any]) -> Declared:
    """What the subject says about itself."""
    port: object = subject.port
    kind = type(port)
    return Declared(
        name=repair(subject.name or f"{kind.__module__}.{kind.__qualname__}"),
        version=repair(subject.version or _distribution_version(kind.__module__.partition(".")[0])),
        levers=subject.levers,
        declines={repair(name): repair(reason) for name, reason in sorted(subject.declines.items())},
        posture={repair(name): repair(value) for name, value in sorted(subject.posture.items())},
    )


@functools.lru_cache(maxsize=64)
def _distribution_version(package: str) -> str:
    # A guess that costs little: distributions are mostly called as their package is.
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "unknown"


def _detail(error: BaseException) -> str:
    text = repair("".join(traceback.format_exception(error)))
    # The end of a traceback says most.
    return text if len(text) <= MAX_DETAIL else "…" + text[-(MAX_DETAIL - 1) :]
