"""The Compactor port: a host's own way to put old history into a smaller form.

Decides what a compactor is given and what binds its answer to exactly that: an artifact crosses a trust boundary, and
one for another range, of other content or of another version than announced is refused; the history then stands. It
decides neither when to compact nor where to cut (CAP-007, RUN-026).
"""

from typing import Final, Protocol

import attrs

from triolet.ports.canonical import Digest
from triolet.ports.errors import Unavailable
from triolet.ports.identity import ConversationId, SequenceNumber, TenantId
from triolet.ports.messages import Message

MAX_SUMMARY: Final = 65_536
"""Longest summary, in characters."""
MAX_FACTS: Final = 100
"""Most facts that an artifact may keep, of up to `MAX_FACT` characters each."""
MAX_FACT: Final = 1_000


@attrs.frozen(kw_only=True, weakref_slot=False)
class CompactionRange:
    """What is to be compacted: whole turns from the beginning of the conversation through one record of its log.

    `messages` are what the log holds of them, with what the agent's policy keeps out of summaries taken out.
    `digest` is that of their canonical encoding: an artifact must bring it back.
    """

    tenant: TenantId
    conversation: ConversationId
    covers_through: SequenceNumber
    messages: tuple[Message, ...]
    digest: Digest


@attrs.frozen(kw_only=True, weakref_slot=False)
class CompactionArtifact:
    """What stands for a range from now on. `token_estimate` is the compactor's own, of the summary and the facts."""

    covers_through: SequenceNumber
    summary: str
    retained_facts: tuple[str, ...] = ()
    token_estimate: int
    source_digest: Digest
    compactor_version: str


@attrs.define(kw_only=True)
class CompactorUnavailable(Unavailable):
    """The compactor did not answer. Nothing was written."""

    problem: str

    @property
    def message(self) -> str:
        """What is wrong."""
        return f"the compactor is unavailable: {self.problem}"


class Compactor(Protocol):
    """Makes artifacts.

    Lifetime: opened and closed by the host; one value serves many runs. Emits: nothing by itself; the kernel records
    every artifact that it accepts. (CAP-001)
    """

    @property
    def version(self) -> str:
        """Which rules made an artifact, 1 to 200 characters. Constant."""
        ...

    async def compact(self, source: CompactionRange) -> CompactionArtifact:
        """Does: make an artifact for exactly this range.

        Atomicity: nothing is stored. Idempotency: none is needed; another artifact for the same range may differ.
        Ordering: none. Cancellation: nothing happened. Raises: `CompactorUnavailable`.
        """
        ...
