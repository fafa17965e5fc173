"""What this project ships as sandboxes: every case of the suite, and what is said where something cannot be tried."""

import shutil
from typing import Any

import attrs
import pytest

from triolet.spec_tests import SANDBOX, Case, makers, run_case

LIMIT = 30.0

needs_bwrap = pytest.mark.skipif(
    shutil.which("bwrap") is None,
    reason="not exercised: bwrap is not installed (apt-get install bubblewrap), so nothing isolated was tried",
)


@needs_bwrap
@pytest.mark.parametrize("case", SANDBOX.cases, ids=str)
async def test_bubblewrap_keeps_its_promise(case: Case[Any]) -> None:
    ran = await run_case(SANDBOX, case, makers.bubblewrap, limit=LIMIT)
    ran.require()
    if ran.row.status == "not-exercised":
        pytest.skip(f"not exercised: {ran.row.reason}")
    assert ran.row.status == "passed", ran.row.reason


@pytest.mark.parametrize("case", SANDBOX.cases, ids=str)
async def test_the_local_runner_keeps_what_it_promises(case: Case[Any]) -> None:
    ran = await run_case(SANDBOX, case, makers.local_runner, limit=LIMIT)
    ran.require()
    unisolated = case.name.startswith("attack_") or case.name == "processor_time_is_bounded"
    assert ran.row.status == ("not-exercised" if unisolated else "passed"), ran.row.reason


async def test_an_attack_on_who_claims_nothing_is_not_counted_as_passed() -> None:
    case = SANDBOX.find("attack_on_host_files")
    assert case is not None
    ran = await run_case(SANDBOX, attrs.evolve(case, needs=("isolation",)), makers.local_runner)
    assert (ran.row.status, ran.row.reason) == ("not-applicable", "declined 'isolation': it runs plain processes")
