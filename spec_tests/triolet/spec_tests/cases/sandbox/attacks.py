"""All attacks, in one list.

Decides nothing else.
"""

from typing import Final

from triolet.spec_tests.cases.sandbox.attacks_inward import INWARD
from triolet.spec_tests.cases.sandbox.attacks_outward import OUTWARD

ATTACKS: Final = (*OUTWARD, *INWARD)
