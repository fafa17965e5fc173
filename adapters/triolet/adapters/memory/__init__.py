"""Everything a kernel needs, inside this process: conversations, inbox, inputs, and a host's one-line assembly."""

from typing import TypedDict, Unpack

from triolet.adapters.clocks import SystemClock
from triolet.adapters.estimators import ByteEstimator
from triolet.adapters.ids import RandomIds
from triolet.adapters.memory.artifacts import MemoryArtifacts
from triolet.adapters.memory.budgets import MemoryBudgets
from triolet.adapters.memory.conversations import MemoryConversations
from triolet.adapters.memory.inbox import InboxFull, MemoryInbox
from triolet.adapters.memory.inputs import MemoryInputs
from triolet.adapters.memory.ledger import MemoryLedger
from triolet.adapters.memory.sessions import MemorySessions
from triolet.ports.admission import InputQueue
from triolet.ports.approval import Approval
from triolet.ports.artifact_store import ArtifactStore
from triolet.ports.authorizer import Authorizer
from triolet.ports.budget import Budgets
from triolet.ports.capabilities import Capabilities
from triolet.ports.code_executor import CodeExecutor
from triolet.ports.compactor import Compactor
from triolet.ports.conversation_store import ConversationStore
from triolet.ports.inbox import Inbox
from triolet.ports.language_model import LanguageModel
from triolet.ports.ledger import Ledger
from triolet.ports.prices import Prices
from triolet.ports.reconciler import Reconciler
from triolet.ports.sandbox import Sandbox
from triolet.ports.secrets import SecretResolver
from triolet.ports.session_store import SessionStore
from triolet.ports.sources import Clock, IdGenerator
from triolet.ports.token_estimator import TokenEstimator
from triolet.ports.tool_source import ToolSource

__all__ = [
    "InboxFull",
    "MemoryArtifacts",
    "MemoryBudgets",
    "MemoryConversations",
    "MemoryInbox",
    "MemoryInputs",
    "MemoryLedger",
    "MemorySessions",
    "Overrides",
    "in_memory",
]


class Overrides(TypedDict, total=False):
    """What a host may bind otherwise than `in_memory` does; None leaves the port absent."""

    conversations: ConversationStore | None
    clock: Clock | None
    ids: IdGenerator | None
    approval: Approval | None
    authorizer: Authorizer | None
    inbox: Inbox | None
    inputs: InputQueue | None
    estimator: TokenEstimator | None
    prices: Prices | None
    compactor: Compactor | None
    artifacts: ArtifactStore | None
    secrets: SecretResolver | None
    budgets: Budgets | None
    sandbox: Sandbox | None
    code: CodeExecutor | None
    ledger: Ledger | None
    sessions: SessionStore | None
    reconciler: Reconciler | None
    tool_sources: tuple[ToolSource, ...] | None


def in_memory(*, model: LanguageModel | None, **overrides: Unpack[Overrides]) -> Capabilities:
    """Capabilities that need nothing outside: what is stored is in memory, and sizes are estimated from bytes.

    With the system clock and random ids. Who approves and who authorizes is the host's to say. Plain values, so there
    is nothing to open or close but what the host binds itself. Each call makes new, empty stores.
    """
    ports: Overrides = {
        "conversations": MemoryConversations(),
        "clock": SystemClock(),
        "ids": RandomIds(),
        "inbox": MemoryInbox(),
        "inputs": MemoryInputs(),
        "estimator": ByteEstimator(),
        "artifacts": MemoryArtifacts(),
    }
    return Capabilities(model=model, **(ports | overrides))
