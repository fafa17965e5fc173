"""The CodeExecutor port: one program, one pass, and no authority but what the host hands it call by call."""

from triolet.ports.code_executor.errors import (
    CannotKeep,
    CodeExecutionError,
    ExecutorUnavailable,
    LimitExceeded,
    ProgramInvalid,
    ProgramUnsettled,
    ResultUnusable,
)
from triolet.ports.code_executor.port import CodeExecutionHost, CodeExecutor
from triolet.ports.code_executor.values import (
    MAX_BINDINGS,
    Binding,
    CodeExecutionRequest,
    CodeExecutionResult,
    CodeLimits,
    FailureEnvelope,
    HostCall,
    HostFailure,
    HostReply,
    HostResult,
    LimitName,
    Returned,
    Spent,
    Threw,
)

__all__ = [
    "MAX_BINDINGS",
    "Binding",
    "CannotKeep",
    "CodeExecutionError",
    "CodeExecutionHost",
    "CodeExecutionRequest",
    "CodeExecutionResult",
    "CodeExecutor",
    "CodeLimits",
    "ExecutorUnavailable",
    "FailureEnvelope",
    "HostCall",
    "HostFailure",
    "HostReply",
    "HostResult",
    "LimitExceeded",
    "LimitName",
    "ProgramInvalid",
    "ProgramUnsettled",
    "ResultUnusable",
    "Returned",
    "Spent",
    "Threw",
]
