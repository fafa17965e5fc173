"""The official client conformance suite runs against a small client of ours; what does not apply is listed with why."""

import subprocess
import sys
from pathlib import Path

import pytest

from integration.places import CONFORMANCE, NODE, ROOT

_CLIENT = Path(__file__).with_name("conformance_client.py")
_LIMIT = 90.0

APPLIES = ("initialize", "tools_call", "sse-retry")
DOES_NOT_APPLY = {
    "elicitation-sep1034-client-defaults": "the adapter declares no elicitation: a run has nobody to put a form to",
    "auth/": "the adapter signs nobody in: a host puts a credential into a header by its secret's handle",
}
"""Scenarios, or what their names begin with, and the reason."""


def _run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [NODE, CONFORMANCE, *arguments], check=False, capture_output=True, text=True, timeout=_LIMIT, cwd=ROOT
    )


@pytest.mark.parametrize("scenario", APPLIES)
def test_the_client_passes(scenario: str) -> None:
    ended = _run("client", "--command", f"{sys.executable} -W error {_CLIENT}", "--scenario", scenario)
    shown = ended.stdout + ended.stderr
    assert ended.returncode == 0, shown[-4_000:]
    assert "OVERALL: PASSED" in shown
    assert "0 failed, 0 warnings" in shown


def test_every_scenario_is_passed_or_has_a_reason() -> None:
    """A later suite with another scenario has to be looked at."""
    listing = _run("list").stdout.partition("Client scenarios")[2]
    names = [line.split()[1] for line in listing.splitlines() if line.startswith("  - ")]
    assert len(names) > 20
    unknown = [
        name for name in names if name not in APPLIES and not any(name.startswith(prefix) for prefix in DOES_NOT_APPLY)
    ]
    assert unknown == []
