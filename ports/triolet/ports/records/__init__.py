"""Every record family: the facts from which all state of a conversation is folded.

Decides the closed union and its spelling on disk: the kind and schema version of each family (STORE-005).
Families are immutable once released: a change of meaning is a new version, and readers keep the old one.
"""

from typing import Final, get_args

from triolet.ports.records.host import (
    OperatorActed,
    SkillActivated,
    StateWritten,
    SubagentJoined,
    SubagentRequested,
    SubagentStarted,
    ToolCatalogueChanged,
)
from triolet.ports.records.model import (
    BudgetReached,
    BudgetWarned,
    CompactionCreated,
    CompactionFailed,
    CompactionFault,
    ModelInterrupted,
    ModelResponded,
    OverflowRetried,
)
from triolet.ports.records.run import (
    AbortReason,
    AbortRequested,
    ApprovalRules,
    AttemptStarted,
    ConversationCreated,
    Dimension,
    Exhaustion,
    FailureCode,
    InputTaken,
    Limits,
    Lineage,
    RetryRules,
    RunFailure,
    RunSettled,
    RunStarted,
    SkillReference,
    Summarise,
)
from triolet.ports.records.tool import (
    ApprovalDecided,
    ApprovalRequested,
    CallsDecided,
    GrantGiven,
    GrantRevoked,
    RunnableCall,
    StepSettled,
    ToolPrepared,
    ToolResolved,
    ToolSettled,
    ToolUnknown,
)

Record = (
    ConversationCreated
    | RunStarted
    | AttemptStarted
    | InputTaken
    | ModelResponded
    | ModelInterrupted
    | OverflowRetried
    | CompactionCreated
    | CompactionFailed
    | BudgetWarned
    | BudgetReached
    | CallsDecided
    | ApprovalRequested
    | ApprovalDecided
    | ToolPrepared
    | ToolSettled
    | ToolUnknown
    | ToolResolved
    | StepSettled
    | GrantGiven
    | GrantRevoked
    | SkillActivated
    | ToolCatalogueChanged
    | StateWritten
    | SubagentRequested
    | SubagentStarted
    | SubagentJoined
    | AbortRequested
    | OperatorActed
    | RunSettled
)

RECORD_TYPES: Final[tuple[type[Record], ...]] = get_args(Record)

__all__ = [
    "RECORD_TYPES",
    "AbortReason",
    "AbortRequested",
    "ApprovalDecided",
    "ApprovalRequested",
    "ApprovalRules",
    "AttemptStarted",
    "BudgetReached",
    "BudgetWarned",
    "CallsDecided",
    "CompactionCreated",
    "CompactionFailed",
    "CompactionFault",
    "ConversationCreated",
    "Dimension",
    "Exhaustion",
    "FailureCode",
    "GrantGiven",
    "GrantRevoked",
    "InputTaken",
    "Limits",
    "Lineage",
    "ModelInterrupted",
    "ModelResponded",
    "OperatorActed",
    "OverflowRetried",
    "Record",
    "RetryRules",
    "RunFailure",
    "RunSettled",
    "RunStarted",
    "RunnableCall",
    "SkillActivated",
    "SkillReference",
    "StateWritten",
    "StepSettled",
    "SubagentJoined",
    "SubagentRequested",
    "SubagentStarted",
    "Summarise",
    "ToolCatalogueChanged",
    "ToolPrepared",
    "ToolResolved",
    "ToolSettled",
    "ToolUnknown",
]
