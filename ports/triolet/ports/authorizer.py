"""The Authorizer port: may this principal do this, now?

Decides the closed union of actions that authority is asked about, and the three answers. It is asked when an action
happens, and again on resume (SEC-003, RUN-031); an answer is never remembered.
"""

from typing import Literal, Protocol

import attrs

from triolet.ports.canonical import Digest
from triolet.ports.errors import Unavailable
from triolet.ports.identity import AgentId, CallId, ConversationId, Principal, RunId
from triolet.ports.tools import ExecutionClass, Risk, ToolOrigin


@attrs.frozen(kw_only=True, weakref_slot=False)
class CallTool:
    """Run a tool on decoded input. `arguments` is the digest of that input, `targets` what it touches.

    `origin` is the tool source that it comes from and its own name there; None for an application's own tool.
    """

    kind: Literal["call-tool"] = "call-tool"
    run: RunId
    conversation: ConversationId
    agent: AgentId
    call: CallId
    tool: str
    execution: ExecutionClass
    risk: Risk
    targets: tuple[str, ...]
    arguments: Digest
    origin: ToolOrigin | None = None


@attrs.frozen(kw_only=True, weakref_slot=False)
class LoadSkill:
    """Read a skill's content into a run."""

    kind: Literal["load-skill"] = "load-skill"
    skill: str
    version: str
    digest: Digest


@attrs.frozen(kw_only=True, weakref_slot=False)
class ConnectMcp:
    """Open a connection to a tool server."""

    kind: Literal["connect-mcp"] = "connect-mcp"
    server: str
    transport: str


@attrs.frozen(kw_only=True, weakref_slot=False)
class ResolveSecret:
    """Turn a secret's handle into its value."""

    kind: Literal["resolve-secret"] = "resolve-secret"
    handle: str


@attrs.frozen(kw_only=True, weakref_slot=False)
class OpenSandbox:
    """Run commands with these mounts and this network."""

    kind: Literal["open-sandbox"] = "open-sandbox"
    image: str
    mounts: tuple[str, ...]
    network: str


@attrs.frozen(kw_only=True, weakref_slot=False)
class Delegate:
    """Hand work to a child agent."""

    kind: Literal["delegate"] = "delegate"
    agent: AgentId
    definition: Digest


@attrs.frozen(kw_only=True, weakref_slot=False)
class Operate:
    """Intervene in somebody's work."""

    kind: Literal["operate"] = "operate"
    action: str
    target: str


Action = CallTool | LoadSkill | ConnectMcp | ResolveSecret | OpenSandbox | Delegate | Operate


@attrs.frozen(kw_only=True, weakref_slot=False)
class Allow:
    """Yes."""


@attrs.frozen(kw_only=True, weakref_slot=False)
class Deny:
    """No. A `recoverable` denial of a call is its visible result; any other fails the run, typed."""

    reason: str
    recoverable: bool = False


@attrs.frozen(kw_only=True, weakref_slot=False)
class NeedsApproval:
    """Yes, if an approver says so."""

    reason: str


Verdict = Allow | Deny | NeedsApproval


@attrs.define(kw_only=True)
class AuthorizerUnavailable(Unavailable):
    """Authority could not be asked. Nothing is allowed meanwhile."""

    problem: str

    @property
    def message(self) -> str:
        """What is wrong."""
        return f"the authorizer is unavailable: {self.problem}"


class Authorizer(Protocol):
    """Authority over actions.

    Lifetime: opened and closed by the host; one value serves many runs. Emits: nothing by itself. (CAP-001, SEC-002)
    """

    async def authorize(self, action: Action, principal: Principal) -> Verdict:
        """Does: say whether `principal`, with its tenant, may do `action` now.

        Atomicity: nothing is stored. Idempotency: asking again may answer differently; the latest counts.
        Ordering: none. Cancellation: nothing happened. Raises: `AuthorizerUnavailable`: the call is not run; the run
        fails, typed, and nothing was started.
        """
        ...
