"""Hypothesis profiles, and a printed seed for every session.

`dev` (the default) draws a new seed each time; `ci` (chosen by CI=true) always uses the same one and keeps
no database, so that a red build is red again on the next machine. The header names both, and
`--hypothesis-seed=N` repeats a session.
"""

import os
import random

import hypothesis
import pytest

# Fixtures live where a conftest names them.
from tests.approval_fixture import office
from tests.built_wheel import wheel
from tests.compaction_world import estimating
from tests.demo_commands import folder, run
from tests.kernel_world import world
from tests.log_watch import log_watch
from tests.terminal_person import person

__all__ = ["estimating", "folder", "log_watch", "office", "person", "run", "wheel", "world"]

_CI = os.environ.get("CI", "").lower() in {"1", "true"}
_PROFILE = "ci" if _CI else "dev"
_CI_SEED = 20

# No deadline: two processors and a busy machine would make it a test of the scheduler.
hypothesis.settings.register_profile("dev", deadline=None, print_blob=True)
hypothesis.settings.register_profile("ci", deadline=None, print_blob=True, database=None)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Choose the seed before Hypothesis' own plugin reads the option."""
    if config.option.hypothesis_profile is None:
        hypothesis.settings.load_profile(_PROFILE)
    if config.option.hypothesis_seed is None:
        config.option.hypothesis_seed = str(_CI_SEED if _CI else random.SystemRandom().randrange(2**32))


def pytest_report_header(config: pytest.Config) -> str:
    """One line that suffices to draw the same examples again."""
    profile = config.option.hypothesis_profile or _PROFILE
    return f"hypothesis: profile {profile}, repeat with --hypothesis-seed={config.option.hypothesis_seed}"
