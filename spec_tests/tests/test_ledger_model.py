"""Generated commands: every ledger does what the reference model does, and opened again it stands as the model does."""

import pytest
import trio
from hypothesis import Phase, given, note, settings
from hypothesis import strategies as st

from tests.ledger_commands import COMMANDS, Driver
from tests.mutants.ledger_mutants import LEDGER_MUTANTS
from tests.mutants.mutant import Mutant
from triolet.spec_tests import Maker
from triolet.spec_tests.ledger_makers import memory_ledger
from triolet.spec_tests.sqlite_makers import sqlite_ledger


def compare(maker: Maker, commands: list[tuple[str, dict[str, int]]]) -> None:
    async def run() -> None:
        async with maker() as subject:
            driver = Driver(subject)
            for name, choices in commands:
                note(f"{name} {choices}")
                await driver.play(name, choices)
                assert await driver.found() == driver.model.told(), f"after {name} {choices}"
            async with subject.reopened() as again:
                driver.ledger = again
                assert await driver.found() == driver.model.told(), "opened again"
                await driver.play("claim", {})
                assert await driver.found() == driver.model.told(), "claimed once it was opened again"

    trio.run(run)


@given(st.lists(COMMANDS, max_size=60))
@settings(max_examples=300)
def test_the_memory_ledger_does_what_the_model_does(commands: list[tuple[str, dict[str, int]]]) -> None:
    compare(memory_ledger, commands)


@given(st.lists(COMMANDS, max_size=40))
@settings(max_examples=25)
def test_the_sqlite_ledger_does_what_the_model_does(commands: list[tuple[str, dict[str, int]]]) -> None:
    compare(sqlite_ledger, commands)


CAUGHT = (
    "ForgetsKeys",
    "AcceptsTooSoon",
    "GivesEachItsOwnLine",
    "SteersNobody",
    "RenewsForAMoment",
    "WaitsInAWorkersArms",
    "MissesEarlyWord",
    "GivesTwice",
    "SettlesAgain",
    "ForgivesFailures",
)


@pytest.mark.parametrize("mutant", [each for each in LEDGER_MUTANTS if each.name in CAUGHT], ids=lambda each: each.name)
def test_the_model_tells_a_wrong_ledger_from_a_right_one(mutant: Mutant) -> None:
    @given(st.lists(COMMANDS, min_size=20, max_size=80))
    @settings(max_examples=2_000, phases=[Phase.generate], database=None, derandomize=True)
    def agrees(commands: list[tuple[str, dict[str, int]]]) -> None:
        compare(mutant.open, commands)

    with pytest.raises(AssertionError):
        agrees()
