"""MemorySessions: named sessions in this process's memory, as strict as a database would be.

Decides nothing that the port does not say; what a session may be is checked by `triolet.adapters.store_rules.sessions`.
"""

import trio

from triolet.adapters.store_rules.sessions import begun, changed
from triolet.ports.identity import TenantId
from triolet.ports.session_store import (
    Revision,
    Session,
    SessionCreate,
    SessionId,
    SessionPatch,
    UnknownSession,
)
from triolet.ports.sources import Clock


class MemorySessions:
    """Sessions in memory. See `SessionStore`.

    Lifetime: a plain value; nothing has to be closed. One value serves many tasks of one Trio run. Emits: nothing.
    Cancellation, for every verb: before any effect or not at all.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._sessions: dict[tuple[TenantId, SessionId], Session] = {}

    async def create(self, session: SessionCreate) -> Session:
        """See `SessionStore.create`."""
        await trio.lowlevel.checkpoint_if_cancelled()
        known = self._sessions.get((session.tenant, session.id))
        made = begun(session, self._clock.now() if known is None else known.created_at, known)
        self._sessions[session.tenant, session.id] = made
        return made

    async def get(self, tenant: TenantId, session: SessionId) -> Session | None:
        """See `SessionStore.get`."""
        await trio.lowlevel.checkpoint_if_cancelled()
        return self._sessions.get((tenant, session))

    async def update(
        self, tenant: TenantId, session: SessionId, patch: SessionPatch, *, expected_revision: Revision
    ) -> Session:
        """See `SessionStore.update`."""
        await trio.lowlevel.checkpoint_if_cancelled()
        known = self._sessions.get((tenant, session))
        if known is None:
            raise UnknownSession(session=session)
        after = changed(known, patch, expected_revision, self._clock.now())
        self._sessions[tenant, session] = after
        return after
