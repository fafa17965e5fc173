"""The agent kernel: what an application imports.

Everything named here is public; modules below are not. The vocabulary that adapters share is in `triolet.ports`.

A name is loaded when it is first used, so that importing the package costs next to nothing however much it offers.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from triolet.kernel.addressing import InvalidConversationId as InvalidConversationId
    from triolet.kernel.agent import Agent as Agent
    from triolet.kernel.agent import Disposition as Disposition
    from triolet.kernel.attempt_errors import MachineRefused as MachineRefused
    from triolet.kernel.attempt_errors import SealTimedOut as SealTimedOut
    from triolet.kernel.catalogue import ToolNameClash as ToolNameClash
    from triolet.kernel.conversation import Conversation as Conversation
    from triolet.kernel.conversation import ConversationBusy as ConversationBusy
    from triolet.kernel.conversation import ConversationClosed as ConversationClosed
    from triolet.kernel.conversation import UnknownGrant as UnknownGrant
    from triolet.kernel.conversation_opening import NotSuspended as NotSuspended
    from triolet.kernel.durable.failpoints import Failpoint as Failpoint
    from triolet.kernel.durable.workers import InvalidWorkers as InvalidWorkers
    from triolet.kernel.durable.workers import WorkerPolicy as WorkerPolicy
    from triolet.kernel.durable.workers import Workers as Workers
    from triolet.kernel.kernel import DuplicateAgent as DuplicateAgent
    from triolet.kernel.kernel import InvalidCloseSeconds as InvalidCloseSeconds
    from triolet.kernel.kernel import Kernel as Kernel
    from triolet.kernel.kernel import open_kernel as open_kernel
    from triolet.kernel.machine.advance import IllegalRecord as IllegalRecord
    from triolet.kernel.machine.validity import history_is_valid as history_is_valid
    from triolet.kernel.machine.validity import history_problem as history_problem
    from triolet.kernel.offers import InputRefused as InputRefused
    from triolet.kernel.policy import Allowance as Allowance
    from triolet.kernel.policy import ApprovalPolicy as ApprovalPolicy
    from triolet.kernel.policy import InvalidAgent as InvalidAgent
    from triolet.kernel.policy import Policy as Policy
    from triolet.kernel.policy import RetryPolicy as RetryPolicy
    from triolet.kernel.preflight import DuplicateSource as DuplicateSource
    from triolet.kernel.preflight import MissingCapabilities as MissingCapabilities
    from triolet.kernel.programs.code_mode import code_mode as code_mode
    from triolet.kernel.programs.identifiers import NameCollision as NameCollision
    from triolet.kernel.programs.report import ProgramFailed as ProgramFailed
    from triolet.kernel.programs.report import ProgramReport as ProgramReport
    from triolet.kernel.rebuilding import NotCompacted as NotCompacted
    from triolet.kernel.results import Aborted as Aborted
    from triolet.kernel.results import BudgetExhaustedError as BudgetExhaustedError
    from triolet.kernel.results import Completed as Completed
    from triolet.kernel.results import DeniedError as DeniedError
    from triolet.kernel.results import Failed as Failed
    from triolet.kernel.results import ModelFailedError as ModelFailedError
    from triolet.kernel.results import OutputInvalidError as OutputInvalidError
    from triolet.kernel.results import RunAbortedError as RunAbortedError
    from triolet.kernel.results import RunError as RunError
    from triolet.kernel.results import RunFailedError as RunFailedError
    from triolet.kernel.results import RunResult as RunResult
    from triolet.kernel.results import RunSuspendedError as RunSuspendedError
    from triolet.kernel.results import Suspended as Suspended
    from triolet.kernel.results import ToolsForbiddenError as ToolsForbiddenError
    from triolet.kernel.run_handle import RunHandle as RunHandle
    from triolet.kernel.run_request import InvalidInstructions as InvalidInstructions
    from triolet.kernel.runtime import DefinitionChanged as DefinitionChanged
    from triolet.kernel.runtime import UnknownAgent as UnknownAgent
    from triolet.kernel.runtime import UnpricedModel as UnpricedModel
    from triolet.kernel.telemetry.settings import Telemetry as Telemetry
    from triolet.kernel.threads import AbandonedCall as AbandonedCall
    from triolet.ports.capabilities import Capabilities as Capabilities
    from triolet.ports.tool_context import ToolContext as ToolContext
    from triolet.ports.tool_function import tool as tool
    from triolet.ports.tools import Tool as Tool
    from triolet.ports.tools import Toolkit as Toolkit

__all__ = [
    "AbandonedCall",
    "Aborted",
    "Agent",
    "Allowance",
    "ApprovalPolicy",
    "BudgetExhaustedError",
    "Capabilities",
    "Completed",
    "Conversation",
    "ConversationBusy",
    "ConversationClosed",
    "DefinitionChanged",
    "DeniedError",
    "Disposition",
    "DuplicateAgent",
    "DuplicateSource",
    "Failed",
    "Failpoint",
    "IllegalRecord",
    "InputRefused",
    "InvalidAgent",
    "InvalidCloseSeconds",
    "InvalidConversationId",
    "InvalidInstructions",
    "InvalidWorkers",
    "Kernel",
    "MachineRefused",
    "MissingCapabilities",
    "ModelFailedError",
    "NameCollision",
    "NotCompacted",
    "NotSuspended",
    "OutputInvalidError",
    "Policy",
    "ProgramFailed",
    "ProgramReport",
    "RetryPolicy",
    "RunAbortedError",
    "RunError",
    "RunFailedError",
    "RunHandle",
    "RunResult",
    "RunSuspendedError",
    "SealTimedOut",
    "Suspended",
    "Telemetry",
    "Tool",
    "ToolContext",
    "ToolNameClash",
    "Toolkit",
    "ToolsForbiddenError",
    "UnknownAgent",
    "UnknownGrant",
    "UnpricedModel",
    "WorkerPolicy",
    "Workers",
    "code_mode",
    "history_is_valid",
    "history_problem",
    "open_kernel",
    "tool",
]

_HOMES: Final = {
    "triolet.kernel.addressing": ("InvalidConversationId",),
    "triolet.kernel.durable.failpoints": ("Failpoint",),
    "triolet.kernel.durable.workers": ("InvalidWorkers", "WorkerPolicy", "Workers"),
    "triolet.kernel.programs.code_mode": ("code_mode",),
    "triolet.kernel.programs.identifiers": ("NameCollision",),
    "triolet.kernel.programs.report": ("ProgramFailed", "ProgramReport"),
    "triolet.kernel.offers": ("InputRefused",),
    "triolet.kernel.conversation_opening": ("NotSuspended",),
    "triolet.kernel.agent": ("Agent", "Disposition"),
    "triolet.kernel.policy": ("Allowance", "ApprovalPolicy", "InvalidAgent", "Policy", "RetryPolicy"),
    "triolet.kernel.conversation": (
        "UnknownGrant",
        "Conversation",
        "ConversationBusy",
        "ConversationClosed",
    ),
    "triolet.kernel.attempt_errors": (
        "MachineRefused",
        "SealTimedOut",
    ),
    "triolet.kernel.kernel": (
        "DuplicateAgent",
        "InvalidCloseSeconds",
        "Kernel",
        "open_kernel",
    ),
    "triolet.kernel.machine.advance": ("IllegalRecord",),
    "triolet.kernel.machine.validity": (
        "history_is_valid",
        "history_problem",
    ),
    "triolet.kernel.rebuilding": ("NotCompacted",),
    "triolet.kernel.catalogue": ("ToolNameClash",),
    "triolet.kernel.preflight": ("DuplicateSource", "MissingCapabilities"),
    "triolet.kernel.results": (
        "DeniedError",
        "RunSuspendedError",
        "Suspended",
        "Aborted",
        "BudgetExhaustedError",
        "Completed",
        "Failed",
        "ModelFailedError",
        "OutputInvalidError",
        "RunAbortedError",
        "RunError",
        "RunFailedError",
        "RunResult",
        "ToolsForbiddenError",
    ),
    "triolet.kernel.run_handle": ("RunHandle",),
    "triolet.kernel.run_request": ("InvalidInstructions",),
    "triolet.kernel.runtime": ("DefinitionChanged", "UnknownAgent", "UnpricedModel"),
    "triolet.kernel.threads": ("AbandonedCall",),
    "triolet.kernel.telemetry.settings": ("Telemetry",),
    "triolet.ports.capabilities": ("Capabilities",),
    "triolet.ports.tool_context": ("ToolContext",),
    "triolet.ports.tool_function": ("tool",),
    "triolet.ports.tools": (
        "Tool",
        "Toolkit",
    ),
}
_HOME_OF: Final = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> object:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(home), name)
    globals()[name] = value  # found once, then an ordinary attribute
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME_OF})
