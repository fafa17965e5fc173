"""Failpoints: every moment right after something durable has changed, by name.

Decides nothing; it is where a test, or a harness that kills its own process, can stop the work at each of them
(CONF-004). Without anybody listening, a failpoint costs one call.
"""

from collections.abc import Callable
from enum import StrEnum


class Failpoint(StrEnum):
    """Right after this is durable."""

    ADMITTED = "admitted"
    CREATED = "created"
    READY = "ready"
    SUBMITTED = "submitted"
    POSTED = "posted"
    CLAIMED = "claimed"
    WRITER_OPENED = "writer-opened"
    CLAIMED_WITH_WRITER = "claimed-with-writer"
    RENEWED = "renewed"
    APPENDED = "appended"
    RESERVED = "reserved"
    ENDING_APPENDED = "ending-appended"
    FINALIZED = "finalized"
    SETTLED = "settled"
    STASHED = "stashed"
    JOINING = "joining"
    JOINED = "joined"
    REVERTED = "reverted"
    TAKEN = "taken"
    SUSPENDED = "suspended"
    RELEASED = "released"
    CHECKPOINTED = "checkpointed"


Reached = Callable[[Failpoint], None]
"""Called at each failpoint. Whatever it raises, or does to its process, happens there."""


def unwatched(_: Failpoint) -> None:
    """Nobody listens."""
