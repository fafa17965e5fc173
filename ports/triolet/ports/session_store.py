"""The SessionStore port: named sessions that point to conversations.

Decides what a session is: a name for a user's thread of work, with metadata of a stated schema version and a revision
that every change must know. It is never the history, and never the authority for accepted work: those are the log and
the ledger. (SEC-002, STORE-005)
"""

from typing import Annotated, Final, NewType, Protocol

import attrs

from triolet.ports.errors import Conflict, Misuse
from triolet.ports.identity import ConversationId, Instant, TenantId
from triolet.ports.schema import Ge, MaxItems, MaxLength, MinLength
from triolet.ports.strict_json import JsonText

SessionId = NewType("SessionId", str)
Revision = NewType("Revision", int)

NO_METADATA: Final = JsonText("{}")
MAX_METADATA_BYTES = 65_536
"""A session's metadata, as UTF-8."""
MAX_CONVERSATIONS = 1_000
"""How many conversations a session may point to."""


@attrs.frozen(kw_only=True, weakref_slot=False)
class Session:
    """A session at one revision, from 1. `metadata` is a JSON object by the application's `schema_version`."""

    id: SessionId
    tenant: TenantId
    revision: Annotated[Revision, Ge(1)]
    title: str
    conversations: tuple[ConversationId, ...]
    schema_version: Annotated[int, Ge(1)]
    metadata: JsonText
    created_at: Instant
    updated_at: Instant


@attrs.frozen(kw_only=True, weakref_slot=False)
class SessionCreate:
    """A session that is to be. `id` has 1 to 200 characters."""

    id: Annotated[SessionId, MinLength(1), MaxLength(200)]
    tenant: TenantId
    title: Annotated[str, MaxLength(1_000)] = ""
    conversations: Annotated[tuple[ConversationId, ...], MaxItems(MAX_CONVERSATIONS)] = ()
    schema_version: Annotated[int, Ge(1)]
    metadata: JsonText = NO_METADATA


@attrs.frozen(kw_only=True, weakref_slot=False)
class SessionPatch:
    """What changes. None leaves a field as it is; `metadata` comes with the version that it is written by."""

    title: Annotated[str, MaxLength(1_000)] | None = None
    conversations: Annotated[tuple[ConversationId, ...], MaxItems(MAX_CONVERSATIONS)] | None = None
    schema_version: Annotated[int, Ge(1)] | None = None
    metadata: JsonText | None = None


@attrs.define(kw_only=True)
class SessionConflict(Conflict):
    """The session is at another revision than the caller has seen, or is there with other content. Nothing changed."""

    session: str
    expected: int
    actual: int

    @property
    def message(self) -> str:
        """Both revisions."""
        return f"session {self.session!r} is at revision {self.actual}, not {self.expected}"


@attrs.define(kw_only=True)
class UnknownSession(Misuse):
    """There is no such session for this tenant."""

    session: str

    @property
    def message(self) -> str:
        """Which one."""
        return f"no session {self.session!r}"


class SessionStore(Protocol):
    """Sessions.

    Lifetime: the host opens and closes it; one value serves many tasks. Emits: nothing by itself. Errors: an adapter
    over an outside thing may raise `Unavailable` from any verb, and says in it whether the write happened. (CAP-001)
    """

    async def create(self, session: SessionCreate) -> Session:
        """Does: make a session at revision 1.

        Atomicity: made or not. Idempotency: the same again, while it stands at revision 1, gives the same; otherwise
        `SessionConflict`. Ordering: none. Cancellation: made or not; again is safe.
        Raises, nothing made: `SessionConflict`; `InvalidValue`, `InvalidJson` or `BrokenText` for what not every store
        can keep.
        """
        ...

    async def get(self, tenant: TenantId, session: SessionId) -> Session | None:
        """Does: read a session, strongly consistent. None: there is none.

        Atomicity, Ordering: one consistent view. Idempotency: reads. Cancellation: nothing changed. Raises: nothing of
        its own.
        """
        ...

    async def update(
        self, tenant: TenantId, session: SessionId, patch: SessionPatch, *, expected_revision: Revision
    ) -> Session:
        """Does: change a session that stands at `expected_revision`, to the next revision.

        Atomicity: all of the patch or nothing. Idempotency: none; the same again meets another revision. Ordering: of
        two changes to one revision one is made. Cancellation: changed or not; read to know.
        Raises, nothing changed: `SessionConflict`, `UnknownSession`, `InvalidValue`, `InvalidJson`, `BrokenText`.
        """
        ...
