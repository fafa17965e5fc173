"""The agent kernel: what an application imports.

Everything named here is public; modules below are not. The vocabulary that adapters share is in `triolet.ports`.
"""

from triolet.kernel.agent import Agent, InvalidAgent, Policy
from triolet.kernel.conversation import Conversation, ConversationBusy, ConversationClosed
from triolet.kernel.interpreter import MachineRefused, SealTimedOut
from triolet.kernel.kernel import DuplicateAgent, InvalidConversationId, Kernel, open_kernel
from triolet.kernel.machine.advance import IllegalRecord
from triolet.kernel.machine.validity import history_is_valid, history_problem
from triolet.kernel.preflight import MissingCapabilities
from triolet.kernel.results import (
    Aborted,
    BudgetExhaustedError,
    Completed,
    Failed,
    ModelFailedError,
    OutputInvalidError,
    RunAbortedError,
    RunError,
    RunFailedError,
    RunResult,
    ToolsForbiddenError,
)
from triolet.kernel.run_handle import RunHandle
from triolet.kernel.run_request import InvalidInstructions
from triolet.kernel.runtime import UnknownAgent
from triolet.ports.capabilities import Capabilities
from triolet.ports.tool_context import ToolContext
from triolet.ports.tool_function import tool
from triolet.ports.tools import Tool, Toolkit

__all__ = [
    "Aborted",
    "Agent",
    "BudgetExhaustedError",
    "Capabilities",
    "Completed",
    "Conversation",
    "ConversationBusy",
    "ConversationClosed",
    "DuplicateAgent",
    "Failed",
    "IllegalRecord",
    "InvalidAgent",
    "InvalidConversationId",
    "InvalidInstructions",
    "Kernel",
    "MachineRefused",
    "MissingCapabilities",
    "ModelFailedError",
    "OutputInvalidError",
    "Policy",
    "RunAbortedError",
    "RunError",
    "RunFailedError",
    "RunHandle",
    "RunResult",
    "SealTimedOut",
    "Tool",
    "ToolContext",
    "Toolkit",
    "ToolsForbiddenError",
    "UnknownAgent",
    "history_is_valid",
    "history_problem",
    "open_kernel",
    "tool",
]
