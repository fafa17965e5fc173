"""The Inbox port: answers that come in while nobody is waiting for them.

Decides how an answer finds its request when its run is suspended: by the request's id, whichever process posts it
and whichever reads it. It decides nothing else; the attempt that resumes puts the answer on record before it
counts (APPR-005).
"""

from typing import Protocol

from triolet.ports.approval import Decision
from triolet.ports.identity import RequestId


class Inbox(Protocol):
    """Stored answers.

    Lifetime: as the adapter that implements it. Emits: nothing by itself. (CAP-001)
    """

    async def post(self, request: RequestId, decision: Decision) -> None:
        """Does: keep an answer for whoever resumes the request's run.

        Atomicity: kept or not. Idempotency: the same answer again changes nothing; another one is
        `AlreadyAnswered` and the first stands. Ordering: none among requests. Cancellation: kept or not; posting
        again is safe. Raises: `AlreadyAnswered`; `Unavailable` if the adapter's bound is reached: not kept.
        """
        ...

    async def take(self, requests: tuple[RequestId, ...]) -> dict[RequestId, Decision]:
        """Does: read the answers of these requests, leaving them there: a crash must not lose one.

        Atomicity, Ordering: one consistent view. Idempotency: reads. Cancellation: nothing changed. Raises: nothing
        of its own.
        """
        ...

    async def discard(self, requests: tuple[RequestId, ...]) -> None:
        """Does: forget answers that are on record or whose run has ended.

        Atomicity: all or none. Idempotency: again harmless. Ordering: none. Cancellation: forgotten or not. Raises:
        nothing of its own.
        """
        ...
