"""The Wakeups port: a hint that something may have changed.

Decides how a waiter and a change can never miss each other within a process: the watch is opened *before* the
authoritative read, so a change between the read and the wait is already there. It is never authority, and across
processes it may be lost: whoever waits looks again after `scan_seconds` in any case (STORE-014).
"""

from contextlib import AbstractAsyncContextManager
from typing import Final, NewType, Protocol

from triolet.ports.identity import SubmissionId

Topic = NewType("Topic", str)

WORK: Final = Topic("work")
"""Something may have become claimable."""


def settled_topic(submission: SubmissionId) -> Topic:
    """This submission was settled."""
    return Topic(f"settled:{submission}")


class Watch(Protocol):
    """A waiter's place."""

    async def wait(self) -> None:
        """Does: return once the topic was woken since the watch was opened, or since the last return.

        Atomicity, Ordering: wake-ups in between count as one. Idempotency: it only waits. Cancellation: nothing is
        lost; a wake-up that came is there for the next wait. Raises: nothing of its own.
        """
        ...


class Wakeups(Protocol):
    """Where changes are announced.

    Lifetime: as the adapter that implements it. Emits: nothing. (CAP-001)
    """

    @property
    def scan_seconds(self) -> float | None:
        """How long a change by another process may go unnoticed: look again after this. None: there is no other."""
        ...

    def watch(self, topic: Topic) -> AbstractAsyncContextManager[Watch]:
        """Does: open a place that is woken from now on, and close it on leaving.

        Atomicity, Ordering: from entering on none is missed within this process. Idempotency: each watch is its own.
        Cancellation: the scope only holds memory. Raises: nothing of its own.
        """
        ...
