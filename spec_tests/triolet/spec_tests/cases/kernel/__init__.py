"""The suite of the kernel itself."""

from typing import Final

from triolet.spec_tests.cases.kernel.abandoning import ABANDONING
from triolet.spec_tests.cases.kernel.accounting import ACCOUNTING
from triolet.spec_tests.cases.kernel.approving import APPROVING
from triolet.spec_tests.cases.kernel.assembling import ASSEMBLING
from triolet.spec_tests.cases.kernel.authorizing import AUTHORIZING
from triolet.spec_tests.cases.kernel.budgets import BUDGETS
from triolet.spec_tests.cases.kernel.calls import CALLS
from triolet.spec_tests.cases.kernel.contexts import CONTEXTS
from triolet.spec_tests.cases.kernel.cutting import CUTTING
from triolet.spec_tests.cases.kernel.generating import GENERATING
from triolet.spec_tests.cases.kernel.interpreting import INTERPRETING
from triolet.spec_tests.cases.kernel.keeping import KEEPING
from triolet.spec_tests.cases.kernel.limits import LIMITS
from triolet.spec_tests.cases.kernel.nesting import NESTING
from triolet.spec_tests.cases.kernel.observing import OBSERVING
from triolet.spec_tests.cases.kernel.ordering import ORDERING
from triolet.spec_tests.cases.kernel.outcomes import OUTCOMES
from triolet.spec_tests.cases.kernel.pairing import PAIRING
from triolet.spec_tests.cases.kernel.programs import PROGRAMS
from triolet.spec_tests.cases.kernel.schemas import SCHEMAS
from triolet.spec_tests.cases.kernel.setting import KernelSubject
from triolet.spec_tests.cases.kernel.showing import SHOWING
from triolet.spec_tests.cases.kernel.sourcing import SOURCING
from triolet.spec_tests.cases.kernel.steering import STEERING
from triolet.spec_tests.cases.kernel.suspending import SUSPENDING
from triolet.spec_tests.cases.kernel.telling import TELLING
from triolet.spec_tests.suite import Suite

__all__ = ["KERNEL", "KernelSubject"]

KERNEL: Final = Suite(
    port="kernel",
    version=5,
    subject=KernelSubject,
    verbs=("__call__",),
    cases=(
        *ASSEMBLING,
        *SCHEMAS,
        *ORDERING,
        *INTERPRETING,
        *OBSERVING,
        *CUTTING,
        *PAIRING,
        *NESTING,
        *ABANDONING,
        *LIMITS,
        *SHOWING,
        *CALLS,
        *OUTCOMES,
        *APPROVING,
        *SUSPENDING,
        *AUTHORIZING,
        *STEERING,
        *TELLING,
        *PROGRAMS,
        *GENERATING,
        *CONTEXTS,
        *BUDGETS,
        *ACCOUNTING,
        *KEEPING,
        *SOURCING,
    ),
)
