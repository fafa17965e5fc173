"""SqliteSessions: named sessions in a database file.

Decides nothing that the port does not say; what a session may be is checked by `triolet.adapters.store_rules.sessions`.
"""

from triolet.adapters.sqlite.readers import Readers
from triolet.adapters.sqlite.transaction import Transaction
from triolet.adapters.sqlite.writer import Writer
from triolet.adapters.store_rules.sessions import begun, changed, read_session, written_session
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


class SqliteSessions:
    """Sessions in one file. See `SessionStore`.

    Lifetime: it belongs to the `SqliteStore` that opened the file. Emits: nothing. Cancellation and errors: as for
    `SqliteConversations`.
    """

    def __init__(self, writer: Writer, readers: Readers, clock: Clock) -> None:
        self._writer = writer
        self._readers = readers
        self._clock = clock

    async def create(self, session: SessionCreate) -> Session:
        """See `SessionStore.create`."""
        made = begun(session, self._clock.now())

        def create(rows: Transaction) -> Session:
            known = _found(rows, session.tenant, session.id)
            if known is not None:
                return begun(session, known.created_at, known)
            _write(rows, made)
            return made

        return await self._writer.run(create)

    async def get(self, tenant: TenantId, session: SessionId) -> Session | None:
        """See `SessionStore.get`."""
        return await self._readers.run(lambda rows: _found(rows, tenant, session))

    async def update(
        self, tenant: TenantId, session: SessionId, patch: SessionPatch, *, expected_revision: Revision
    ) -> Session:
        """See `SessionStore.update`."""
        now = self._clock.now()

        def update(rows: Transaction) -> Session:
            known = _found(rows, tenant, session)
            if known is None:
                raise UnknownSession(session=session)
            after = changed(known, patch, expected_revision, now)
            _write(rows, after)
            return after

        return await self._writer.run(update)


def _found(rows: Transaction, tenant: TenantId, session: SessionId) -> Session | None:
    row = rows.one("SELECT body FROM sessions WHERE tenant = ? AND session = ?", tenant, session)
    return None if row is None else read_session(row[0])


def _write(rows: Transaction, session: Session) -> None:
    rows.run(
        "INSERT OR REPLACE INTO sessions VALUES (?, ?, ?, ?)",
        session.tenant,
        session.id,
        session.revision,
        written_session(session),
    )
