"""The submission ledger: accepted work, who owns it, what it waits for, how it was settled.

Values are in `submission`, `commands` and `ownership`; the contracts in `admissions`, `commands`, `ownership`, `joins`,
`settlements` and `recovery`, cut by who uses them; `ledger` puts them together, and `shared` holds the verbs that one
database can do at once.
"""

from triolet.ports.ledger.admissions import WAITING_LIMIT, Admissions, KeyReused, NoActiveRun, UnknownSubmission
from triolet.ports.ledger.commands import (
    Abort,
    Act,
    Answer,
    Command,
    CommandReused,
    Commands,
    Kept,
    Resolve,
    Retry,
    same_command,
)
from triolet.ports.ledger.joins import Joins
from triolet.ports.ledger.ledger import Ledger
from triolet.ports.ledger.ownership import NOTHING_STASHED, Claim, ClaimLost, CorruptLedger, Idle, Ownership, Renewed
from triolet.ports.ledger.recovery import SCAN_LIMIT, Figures, Recovery, StillUnsettled
from triolet.ports.ledger.settlements import OtherEnding, Settlements
from triolet.ports.ledger.shared import SharedVerbs
from triolet.ports.ledger.submission import (
    NO_ALLOWANCE,
    ApprovalWait,
    OperatorWait,
    Receipt,
    Settlement,
    Standing,
    Status,
    Submission,
    SubmissionKind,
    Trouble,
    UnknownWait,
    Wait,
    run_of,
    same_work,
)

__all__ = [
    "NOTHING_STASHED",
    "NO_ALLOWANCE",
    "SCAN_LIMIT",
    "WAITING_LIMIT",
    "Abort",
    "Act",
    "Admissions",
    "Answer",
    "ApprovalWait",
    "Claim",
    "ClaimLost",
    "Command",
    "CommandReused",
    "Commands",
    "CorruptLedger",
    "Figures",
    "Idle",
    "Joins",
    "Kept",
    "KeyReused",
    "Ledger",
    "NoActiveRun",
    "OperatorWait",
    "OtherEnding",
    "Ownership",
    "Receipt",
    "Recovery",
    "Renewed",
    "Resolve",
    "Retry",
    "Settlement",
    "Settlements",
    "SharedVerbs",
    "Standing",
    "Status",
    "StillUnsettled",
    "Submission",
    "SubmissionKind",
    "Trouble",
    "UnknownSubmission",
    "UnknownWait",
    "Wait",
    "run_of",
    "same_command",
    "same_work",
]
