"""Which run an operation belongs to, handed down with the tracing context.

Decides what every span inside a run says about it. It follows OpenTelemetry's context into tasks and threads, so
nothing has to be passed along by hand; outside of a run there is none.
"""

from collections.abc import Callable
from typing import Final

import attrs

from triolet.kernel.telemetry.described import AGENT, CONVERSATION, RUN, TENANT, name
from triolet.kernel.telemetry.otel import Attributes, current_scope
from triolet.ports.identity import AgentId, ConversationId, RunId, TenantId
from triolet.ports.tools import Toolkit

_NO_TOOLS: Final = Toolkit()


@attrs.frozen(kw_only=True, eq=False, weakref_slot=False)
class Scope:
    """A run as its operations see it.

    `tools` gives what it offers now; `enter_turn` is called by its own task when a turn begins.
    """

    run: RunId
    conversation: ConversationId
    tenant: TenantId
    agent: AgentId
    tools: Callable[[], Toolkit]
    enter_turn: Callable[[int], None] | None = None
    attributes: Attributes = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        told = {
            RUN: name(self.run),
            CONVERSATION: name(self.conversation),
            TENANT: name(self.tenant),
            AGENT: name(self.agent),
        }
        object.__setattr__(self, "attributes", told)


def run_scope() -> Scope | None:
    """The run that the current code works for."""
    scope = current_scope()
    return scope if isinstance(scope, Scope) else None


def scope_attributes() -> Attributes:
    """What a span says of its run."""
    scope = run_scope()
    return {} if scope is None else scope.attributes


def tools_in_scope() -> Toolkit:
    """The tools that the run offers, for their redaction."""
    scope = run_scope()
    return _NO_TOOLS if scope is None else scope.tools()
