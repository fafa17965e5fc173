"""Where time and fresh identity come from: the Clock and IdGenerator ports.

The kernel asks them and nothing else, so a test that binds its own is deterministic throughout. Neither
port decides order: order is a sequence number, never a time.
"""

from typing import Literal, Protocol

from triolet.ports.identity import Instant

IdKind = Literal["run", "conversation", "submission", "session", "grant", "input"]


class Clock(Protocol):
    """Wall-clock stamps for records and deadlines.

    Lifetime: a plain value, nothing to release. Emits: nothing. Durations are measured on Trio's clock and
    never with this one.
    """

    def now(self) -> Instant:
        """Does: return the current instant in microseconds.

        Atomicity, Ordering: two readings may be equal or, after a clock step, go backwards; no rule of the
        kernel depends on their order. Idempotency: none needed. Cancellation: synchronous, never waits.
        Raises: nothing.
        """
        ...


class IdGenerator(Protocol):
    """Fresh identifiers for the few things whose identity cannot be derived.

    Lifetime: a plain value, nothing to release. Emits: nothing.
    """

    def new(self, kind: IdKind) -> str:
        """Does: return an identifier that no earlier call returned, for this kind, in this or any process.

        At most 32 characters out of ``A-Za-z0-9_``, so that a derived call identity stays within what
        providers accept (40 of ``A-Za-z0-9_-``). Atomicity: safe to call from any task. Idempotency: never
        the same value twice. Ordering: none is promised. Cancellation: synchronous, never waits.
        Raises: nothing.
        """
        ...
