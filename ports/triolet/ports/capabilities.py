"""Capabilities: everything outside that a host binds to a kernel, in one value.

Decides which ports exist and under which names tools may require them. None means absent. It checks nothing;
the kernel's preflight compares it with what agents and tools need, and names all that is missing (CAP-002).
"""

import attrs

from triolet.ports.admission import InputQueue
from triolet.ports.approval import Approval
from triolet.ports.artifact_store import ArtifactStore
from triolet.ports.authorizer import Authorizer
from triolet.ports.budget import Budgets
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


@attrs.frozen(kw_only=True, weakref_slot=False)
class Capabilities:
    """One typed field per port. There is no default binding: what is not given is absent.

    `tool_sources` are found by their names, which are distinct.
    """

    model: LanguageModel | None = None
    conversations: ConversationStore | None = None
    clock: Clock | None = None
    ids: IdGenerator | None = None
    approval: Approval | None = None
    authorizer: Authorizer | None = None
    inbox: Inbox | None = None
    inputs: InputQueue | None = None
    estimator: TokenEstimator | None = None
    prices: Prices | None = None
    compactor: Compactor | None = None
    sandbox: Sandbox | None = None
    artifacts: ArtifactStore | None = None
    secrets: SecretResolver | None = None
    budgets: Budgets | None = None
    code: CodeExecutor | None = None
    ledger: Ledger | None = None
    sessions: SessionStore | None = None
    tool_sources: tuple[ToolSource, ...] | None = None
    reconciler: Reconciler | None = None


CAPABILITY_NAMES: frozenset[str] = frozenset(field.name for field in attrs.fields(Capabilities))
