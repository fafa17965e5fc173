"""The suite of the Ledger port."""

from typing import Final

from triolet.spec_tests.cases.ledger.accepting import ACCEPTING
from triolet.spec_tests.cases.ledger.setting import LedgerSubject
from triolet.spec_tests.cases.ledger.working import WORKING
from triolet.spec_tests.suite import Suite

__all__ = ["LEDGER", "LedgerSubject"]

LEDGER: Final = Suite(
    port="ledger",
    version=1,
    subject=LedgerSubject,
    verbs=(
        "admit",
        "claim",
        "claim_joining",
        "commands",
        "figures",
        "finalize",
        "find",
        "forget",
        "lookup",
        "mark_joined",
        "mark_ready",
        "post",
        "release",
        "renew",
        "reserve",
        "revert",
        "scan",
        "scan_seconds",
        "shared",
        "stash",
        "suspend",
        "take",
        "watch",
    ),
    cases=(*ACCEPTING, *WORKING),
)
