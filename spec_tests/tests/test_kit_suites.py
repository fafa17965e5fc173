"""What this project ships conforms: every suite, by pytest's front, on every maker that needs nothing from outside."""

from typing import Any

import pytest

from triolet.ports.records import RECORD_TYPES
from triolet.spec_tests import (
    ARTIFACT_STORE,
    BUDGETS,
    CODE_EXECUTOR,
    CONVERSATION_STORE,
    KERNEL,
    LANGUAGE_MODEL,
    LEDGER,
    SANDBOX,
    SECRET_RESOLVER,
    SUITES,
    TOOL_SOURCE,
    Case,
    Maker,
    Suite,
    certify,
    makers,
    run_case,
)
from triolet.spec_tests.cases.record_samples import SAMPLES
from triolet.spec_tests.ledger_makers import memory_ledger

_SUBJECTS: tuple[tuple[Suite[Any], Maker], ...] = (
    (CONVERSATION_STORE, makers.memory_conversations),
    (LEDGER, memory_ledger),
    (LANGUAGE_MODEL, makers.scripted_model),
    (ARTIFACT_STORE, makers.file_artifacts),
    (SECRET_RESOLVER, makers.environment_secrets),
    (SECRET_RESOLVER, makers.file_secrets),
    (BUDGETS, makers.memory_budgets),
    (CODE_EXECUTOR, makers.quickjs_wasm),
    (TOOL_SOURCE, makers.mcp_tools),
    (KERNEL, makers.kernel),
)

_ALL = [
    pytest.param(suite, maker, case, id=f"{maker.__name__}-{case}")
    for suite, maker in _SUBJECTS
    for case in suite.cases
]


@pytest.mark.parametrize(("suite", "maker", "case"), _ALL)
async def test_shipped_subject_keeps_its_promise(suite: Suite[Any], maker: Maker, case: Case[Any]) -> None:
    ran = await run_case(suite, case, maker)
    ran.require()
    assert ran.row.status == "passed", ran.row.reason


@pytest.mark.parametrize("case", LANGUAGE_MODEL.cases, ids=str)
async def test_openai_compatible_keeps_its_promise_over_a_stand_in(case: Case[Any]) -> None:
    ran = await run_case(LANGUAGE_MODEL, case, makers.openai_compatible)
    ran.require()
    assert ran.row.status == "passed", ran.row.reason


def test_there_is_a_subject_for_every_suite() -> None:
    # Sandboxes are tried in a file of their own, since what can be tried differs from machine to machine.
    assert {suite.port for suite, _ in _SUBJECTS} | {SANDBOX.port} == set(SUITES)


def test_samples_hold_one_record_of_every_family() -> None:
    assert [type(sample) for sample in SAMPLES] == list(RECORD_TYPES)


async def test_the_model_inside_this_machine_completes_an_answer() -> None:
    """No lever directs it, so most cases say that they were not exercised; what can be asked of any model holds."""
    only = ("an_answer_is_complete_once", "text_keeps_its_order")
    certificate = await certify(LANGUAGE_MODEL, makers.local_model, limit=120, only=only)
    assert [row.status for row in certificate.rows] == ["passed", "passed", "not-exercised", "passed"], certificate
    assert certificate.conforms
