"""The suite of the Sandbox port: its contract, and attacks that are first shown to succeed without it."""

from typing import Final

from triolet.spec_tests.cases.sandbox.attacks import ATTACKS
from triolet.spec_tests.cases.sandbox.bounding import BOUNDING
from triolet.spec_tests.cases.sandbox.declaring import DECLARING
from triolet.spec_tests.cases.sandbox.ending import ENDING
from triolet.spec_tests.cases.sandbox.giving import GIVING
from triolet.spec_tests.cases.sandbox.setting import KnownSecret, SandboxSubject
from triolet.spec_tests.suite import Suite

__all__ = ["SANDBOX", "KnownSecret", "SandboxSubject"]

SANDBOX: Final = Suite(
    port="sandbox",
    version=1,
    subject=SandboxSubject,
    verbs=("check", "execute", "implementation"),
    cases=(*DECLARING, *BOUNDING, *ENDING, *GIVING, *ATTACKS),
    traits=("isolation",),
    real_time=True,
)
