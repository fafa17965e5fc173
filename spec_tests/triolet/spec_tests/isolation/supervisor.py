"""certify_target: a certificate for a subject in a process of its own.

Decides what a silence, a death or an unreadable report means for the case under way, and that the next case gets a
new process then. A subject that hangs with the event loop blocked, exits, crashes or floods its output gets a row
like any other, and the remaining cases still run. (CONF-002)
"""

from collections.abc import Iterable
from contextlib import AsyncExitStack
from typing import Any, Final

import attrs

from triolet.spec_tests.certificate import Certificate, Fault
from triolet.spec_tests.certifying import InvalidSelection, Progress, Report, selected
from triolet.spec_tests.isolation.messages import Ended, Message, Unloadable
from triolet.spec_tests.isolation.process import GRACE_SECONDS, LOAD_SECONDS, Child, Death, Silence, open_child
from triolet.spec_tests.isolation.target import check_spelling
from triolet.spec_tests.running import LIMIT_SECONDS, CaseRun, row_of, smoke_case
from triolet.spec_tests.suite import SMOKE, Suite
from triolet.spec_tests.suites import SUITES

PORTS: Final = tuple(SUITES)
"""The names that `port` may have."""


async def certify_target(
    target: str,
    *,
    port: str,
    limit: float = LIMIT_SECONDS,
    only: Iterable[str] | None = None,
    progress: Progress | None = None,
) -> Certificate:
    """Certify the maker that `target` names (``PACKAGE.MODULE:OPEN``), found from the working directory or installed.

    `limit` bounds each case, in seconds; a subject that cannot be interrupted is killed two seconds later. A target
    that cannot be imported is a failed smoke row. Raises `BadTarget` for one that is not spelt as such and
    `InvalidSelection` for an unknown port or case, and nothing for anything that the subject does.
    """
    check_spelling(target)
    suite = SUITES.get(port)
    if suite is None:
        raise InvalidSelection(problem=f"there is no port {port!r}; there are {', '.join(PORTS)}")
    cases = selected(suite, only, limit)
    report = Report(suite=suite, target=target, limit=limit, isolated=True, progress=progress)
    async with AsyncExitStack() as scopes:
        supervisor = _Supervisor(suite=suite, target=target, limit=limit, scopes=scopes)
        await report.run_all(cases, supervisor.run)
        await supervisor.let_go()
    return report.certificate()


@attrs.define(kw_only=True, weakref_slot=False)
class _Supervisor:
    suite: Suite[Any]
    target: str
    limit: float
    scopes: AsyncExitStack
    child: Child | None = None

    async def run(self, name: str) -> CaseRun:
        """Run one case in the child, or in a new one where the last is gone."""
        answer: Message | Silence | Death | None = None
        if self.child is None:
            self.child = await self.scopes.enter_async_context(open_child(self.suite.port, self.limit, self.target))
            answer = await self.child.next_message(LOAD_SECONDS)
            if isinstance(answer, Unloadable | Silence | Death):
                return await self._lost(name, answer, loading=True)
        answer = await self.child.ask(name, self.limit + GRACE_SECONDS)
        if isinstance(answer, Ended) and answer.run.row.case == name:
            return answer.run
        return await self._lost(name, answer, loading=False)

    async def let_go(self) -> None:
        """End the child, if there is one."""
        self.child = None
        await self.scopes.aclose()

    async def _lost(self, name: str, answer: Message | Silence | Death, *, loading: bool) -> CaseRun:
        if self.child is not None and isinstance(answer, Silence):
            self.child.kill()
        await self.let_go()
        doing = "while it was loaded" if loading else "during this case"
        fault: Fault
        match answer:
            case Unloadable(problem=problem, detail=detail):
                fault, reason, said = "harness", problem, detail
            case Silence():
                seconds = LOAD_SECONDS if loading else self.limit
                fault, said = "limit", ""
                reason = f"no end within {seconds:g} s {doing}, and no way to interrupt it: the process was killed"
            case Death(how=how, said=said):
                fault, reason = "process", f"{how}, {doing}"
            case _:
                fault, reason, said = "process", f"it reported on another case, {doing}", ""
        case = self.suite.find(name) or smoke_case(self.suite)
        row = row_of(case, "failed", fault="harness" if name == SMOKE else fault, reason=reason)
        return CaseRun(row=attrs.evolve(row, detail=said))
