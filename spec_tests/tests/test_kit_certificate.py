"""The certificate: what it counts, that its published schema describes it, and its page."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import jsonschema_rs
import pytest
import trio

from tests.test_kit_cases import broken, fine, suite_of, text
from triolet.spec_tests import (
    CATALOGUE,
    Certificate,
    InvalidSelection,
    Row,
    Subject,
    certify,
    not_triggered,
    page,
    published_schema,
)
from triolet.spec_tests.certificate import CERTIFICATE, MAX_DETAIL, rendered_schema, standing, verdict_of


async def quiet(_: Subject[str]) -> None:
    not_triggered("nothing happened")


def row(status: str, *requirements: str, case: str = "c", fault: str | None = None) -> Row:
    return Row(case=case, title="t", requirements=requirements, status=status, fault=fault)  # type: ignore[arg-type]


def test_only_executed_checks_count() -> None:
    """Whatever was not executed is never counted as passed, and alone it is no verdict (CONF-002)."""
    smoke = row("passed", case="smoke")
    silent = [row("not-exercised", "A"), row("not-applicable", "B"), row("not-triggered", "C")]
    assert verdict_of([smoke, *silent, row("passed", "D", case="lifetime")]) == "nothing-executed"
    assert verdict_of([smoke, *silent]) == "nothing-executed"
    assert verdict_of([smoke, *silent, row("passed", "D")]) == "conforms"
    assert verdict_of([smoke, row("passed", "D"), row("failed", "D")]) == "violates"
    assert verdict_of([row("failed", case="smoke", fault="harness"), row("failed", "D")]) == "harness-broken"
    assert verdict_of([]) == "nothing-executed"
    # One failed case outweighs any number of passed ones; what was not executed stays open.
    assert standing([row("passed", "A", "B"), row("failed", "B"), *silent]) == (("A",), ("B",), ("C",))
    assert standing(silent) == ((), (), ("A", "B", "C"))


async def test_every_case_runs_whatever_became_of_those_before() -> None:
    suite = suite_of(broken, fine, quiet, broken, fine)
    seen: list[str] = []
    certificate = await certify(suite, text, progress=lambda row: seen.append(row.case))
    statuses = [each.status for each in certificate.rows]
    assert statuses == ["passed", "failed", "passed", "not-triggered", "failed", "passed", "passed"]
    assert seen == ["smoke", "c0", "c1", "c2", "c3", "c4", "lifetime"]
    assert certificate.counts == {
        "passed": 4,
        "failed": 2,
        "not-applicable": 0,
        "not-exercised": 0,
        "not-triggered": 1,
    }
    assert (certificate.verdict, certificate.conforms) == ("violates", False)
    assert (certificate.broken, certificate.shown) == (("RUN-001",), ("CAP-001",))


async def test_a_maker_that_cannot_open_is_a_broken_harness() -> None:
    @asynccontextmanager
    async def maker() -> AsyncGenerator[str]:
        raise OSError("no disk")
        yield ""

    certificate = await certify(suite_of(fine, broken), maker)
    assert certificate.verdict == "harness-broken"
    assert [each.status for each in certificate.rows] == ["failed", *["not-exercised"] * 3]
    assert certificate.rows[0].reason == "OSError while opening: no disk"
    assert (certificate.subject, certificate.shown, certificate.broken) == (None, (), ())
    assert "NO VERDICT" in page(certificate)


async def test_a_suite_of_which_nothing_runs_gives_no_verdict() -> None:
    certificate = await certify(suite_of(broken, needs=("reopen",)), text)
    assert certificate.verdict == "nothing-executed"
    assert certificate.open == ("CAP-001", "RUN-001")


async def test_leaks_break_the_lifetime_row_alone() -> None:
    async def leaves(_: Subject[str]) -> None:
        trio.lowlevel.spawn_system_task(trio.sleep_forever, name="left")

    certificate = await certify(suite_of(leaves, fine), text)
    assert [each.status for each in certificate.rows] == ["passed", "passed", "passed", "failed"]
    assert certificate.rows[-1].reason == "left running: task left after c0"
    assert (certificate.verdict, certificate.broken) == ("violates", ("CAP-001",))


async def test_a_certificate_is_what_its_published_schema_says() -> None:
    certificate = await certify(suite_of(broken, fine, quiet), text, target="somebody:else")
    document = json.loads(certificate.to_json())
    schema = json.loads(published_schema())
    validator = jsonschema_rs.validator_for(schema)
    assert validator.is_valid(document)
    assert document["target"] == "somebody:else"
    assert document["limit_seconds"] == "10"
    assert CERTIFICATE.decode(document) == certificate
    for broken_document in (
        {**document, "verdict": "fine"},
        {**document, "more": 1},
        {key: value for key, value in document.items() if key != "rows"},
        {**document, "rows": [{**document["rows"][0], "status": "skipped"}]},
    ):
        assert not validator.is_valid(broken_document)


def test_the_published_schema_is_up_to_date() -> None:
    """If this fails: `python tools/make_generated.py`, and raise FORMAT_VERSION if readers could be hurt."""
    assert published_schema() == rendered_schema()


async def test_texts_are_clean_and_bounded() -> None:
    async def rambles(_: Subject[str]) -> None:
        raise RuntimeError("line\n" * 5_000 + "\ud800 \0")

    certificate = await certify(suite_of(rambles), text)
    (failed,) = [each for each in certificate.rows if each.status == "failed"]
    assert "\n" not in failed.reason
    assert len(failed.reason) <= 500
    assert len(failed.detail) <= MAX_DETAIL
    assert CERTIFICATE.decode(json.loads(certificate.to_json())) == certificate


async def test_only_and_limit_are_checked() -> None:
    suite = suite_of(fine, broken)
    certificate = await certify(suite, text, only=["c0"])
    assert [each.case for each in certificate.rows] == ["smoke", "c0", "lifetime"]
    assert certificate.conforms
    with pytest.raises(InvalidSelection, match="has no case nope"):
        await certify(suite, text, only=["nope"])
    for limit in (0.0, -1.0, 4_000.0, float("nan")):
        with pytest.raises(InvalidSelection, match="limit"):
            await certify(suite, text, limit=limit)


async def test_the_page_shows_every_row_and_the_verdict() -> None:
    certificate: Certificate = await certify(suite_of(broken, fine, quiet), text)
    shown = page(certificate)
    for each in certificate.rows:
        assert each.case in shown
        assert each.reason in shown
    assert shown.rstrip().endswith("VIOLATES the requirements named above")
    assert "broken       RUN-001" in shown
    assert all(len(line) <= 120 for line in shown.splitlines())


def test_rows_cite_the_catalogue() -> None:
    assert all(requirement == row.id for requirement, row in CATALOGUE.items())
