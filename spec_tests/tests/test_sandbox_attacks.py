"""Every attack of the Sandbox suite succeeds on a subject that protects nothing (CONF-005)."""

from typing import Any

import pytest

from tests.mutants.mutant import Patches
from tests.mutants.sandbox_mutants import open_unprotected
from triolet.spec_tests import SANDBOX, Case, run_case
from triolet.spec_tests.cases.sandbox.attacks import ATTACKS

ISSUE = {
    "network": {"attack_on_loopback", "attack_on_metadata", "attack_on_names", "attack_on_abstract_sockets"},
    "host files": {"attack_on_host_files", "attack_by_writing_outside"},
    "processes": {"attack_on_host_processes", "attack_by_signals"},
    "artifacts": {"attack_by_symbolic_artifacts", "attack_by_hard_linked_artifacts"},
    "bombs": {"attack_by_forking", "attack_by_filling_memory", "attack_by_flooding"},
    "staying": {"attack_by_a_daemon", "attack_by_ignoring_the_end"},
}


@pytest.mark.parametrize("case", ATTACKS, ids=str)
async def test_every_attack_succeeds_without_protection(case: Case[Any]) -> None:
    with Patches() as patches:
        ran = await run_case(SANDBOX, case, lambda: open_unprotected(patches), limit=30)
    assert (ran.row.status, ran.row.fault) == ("failed", "violation"), ran.row


def test_every_kind_of_attack_is_there() -> None:
    assert {case.name for case in ATTACKS} == set().union(*ISSUE.values())
