"""The Reconciler port: proof about calls that may have had their effect.

Decides what counts as knowing: that the call never started, that it completed with a known result, or that its tool
makes it safe to run it again. Whoever cannot tell says so, and the call waits for an operator (DUR-009, DUR-017).
"""

from typing import Protocol

import attrs

from triolet.ports.conversation_store import Address
from triolet.ports.identity import CallId, Instant, Principal, RunId
from triolet.ports.outcomes import ToolFailure, ToolSuccess
from triolet.ports.strict_json import JsonText


@attrs.frozen(kw_only=True, weakref_slot=False)
class UncertainCall:
    """A call that was prepared, and of which no result is on record.

    `arguments` are what its handler was given. `operation_key` is what the handler was told to identify the operation
    by outside. `deadline` is the run's.
    """

    address: Address
    run: RunId
    call: CallId
    tool: str
    arguments: JsonText
    operation_key: str
    principal: Principal
    deadline: Instant | None


@attrs.frozen(kw_only=True, weakref_slot=False)
class NeverStarted:
    """Nothing happened outside, and nothing will: the call may start now. `how` is one line on how that is known."""

    how: str


@attrs.frozen(kw_only=True, weakref_slot=False)
class CompletedWith:
    """The call happened, and this is its result."""

    outcome: ToolSuccess | ToolFailure
    how: str


@attrs.frozen(kw_only=True, weakref_slot=False)
class SafeToRepeat:
    """Whatever happened, happening again changes nothing: the call may start again."""

    how: str


@attrs.frozen(kw_only=True, weakref_slot=False)
class CannotTell:
    """Nobody here knows."""


Proof = NeverStarted | CompletedWith | SafeToRepeat | CannotTell
CANNOT_TELL = CannotTell()


class Reconciler(Protocol):
    """Whoever can find out what became of a call.

    Lifetime: the host opens and closes it; one value serves many runs. Emits: nothing by itself; the kernel records
    what is proven, with `how`. (CAP-001)
    """

    async def reconcile(self, call: UncertainCall) -> Proof:
        """Does: find out, from the outside, what became of a call.

        Asked once by each attempt that finds the call without a result, and never about one whose outcome is known.
        Atomicity, Ordering: none. Idempotency: it changes nothing outside that matters. Cancellation: nothing is
        concluded. Raises: whatever it raises, or a minute without an answer, counts as `CannotTell`.
        """
        ...
