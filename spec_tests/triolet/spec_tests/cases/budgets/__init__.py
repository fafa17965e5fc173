"""The suite of the Budgets port."""

from typing import Final

from triolet.spec_tests.cases.budgets.charging import CHARGING
from triolet.spec_tests.cases.budgets.reserving import RESERVING
from triolet.spec_tests.cases.budgets.setting import BudgetSubject
from triolet.spec_tests.suite import Suite

__all__ = ["BUDGETS", "BudgetSubject"]

BUDGETS: Final = Suite(
    port="budgets",
    version=1,
    subject=BudgetSubject,
    verbs=("release", "reserve", "settle", "shared", "spent"),
    cases=(*RESERVING, *CHARGING),
)
