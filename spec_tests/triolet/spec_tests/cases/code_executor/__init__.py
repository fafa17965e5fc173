"""The suite of the CodeExecutor port."""

from typing import Final

from triolet.spec_tests.cases.code_executor.bounding import BOUNDING
from triolet.spec_tests.cases.code_executor.caging import CAGING
from triolet.spec_tests.cases.code_executor.calling import CALLING
from triolet.spec_tests.cases.code_executor.ending import ENDING
from triolet.spec_tests.cases.code_executor.setting import TRAITS, ExecutorSubject
from triolet.spec_tests.cases.code_executor.stopping import STOPPING
from triolet.spec_tests.suite import Suite

__all__ = ["CODE_EXECUTOR", "ExecutorSubject"]

CODE_EXECUTOR: Final = Suite(
    port="code-executor",
    version=1,
    subject=ExecutorSubject,
    verbs=("implementation", "check", "execute"),
    cases=(*ENDING, *CALLING, *BOUNDING, *STOPPING, *CAGING),
    traits=TRAITS,
    real_time=True,
)
