"""Sessions, in memory and in a file: made once, changed by whoever has seen the last revision, kept per tenant."""

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import apsw
import pytest

from triolet.adapters.memory import MemorySessions
from triolet.adapters.sqlite import open_sqlite
from triolet.adapters.store_rules.sessions import CorruptSession
from triolet.ports.errors import BrokenText, InvalidJson, InvalidValue
from triolet.ports.identity import ConversationId, TenantId
from triolet.ports.session_store import (
    Revision,
    SessionConflict,
    SessionCreate,
    SessionId,
    SessionPatch,
    SessionStore,
    UnknownSession,
)
from triolet.ports.strict_json import JsonText
from triolet.spec_tests.ledger_makers import LeverClock

ACME, OTHER = TenantId("acme"), TenantId("other")
ONE = SessionId("one")
FIRST = SessionCreate(id=ONE, tenant=ACME, title="a trip", schema_version=1, metadata=JsonText('{"n":1}'))

Opened = Callable[[], AbstractAsyncContextManager[SessionStore]]


@pytest.fixture(params=["memory", "sqlite"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Opened:
    clock = LeverClock()

    @asynccontextmanager
    async def open_() -> AsyncGenerator[SessionStore]:
        if request.param == "memory":
            yield MemorySessions(clock)
        else:
            async with open_sqlite(tmp_path / "store.db", clock=clock) as store:
                yield store.sessions

    return open_


async def test_a_session_is_made_once(opened: Opened) -> None:
    async with opened() as sessions:
        made = await sessions.create(FIRST)
        assert (made.revision, made.title, made.metadata) == (1, "a trip", '{"n":1}')
        assert await sessions.create(FIRST) == made
        assert await sessions.get(ACME, ONE) == made
        with pytest.raises(SessionConflict):
            await sessions.create(SessionCreate(id=ONE, tenant=ACME, title="another", schema_version=1))
        assert await sessions.get(ACME, SessionId("none")) is None


async def test_a_change_has_to_know_the_last_revision(opened: Opened) -> None:
    async with opened() as sessions:
        await sessions.create(FIRST)
        talks = (ConversationId("a"), ConversationId("b"))
        second = await sessions.update(ACME, ONE, SessionPatch(conversations=talks), expected_revision=Revision(1))
        assert (second.revision, second.conversations, second.title) == (2, talks, "a trip")
        with pytest.raises(SessionConflict) as conflict:
            await sessions.update(ACME, ONE, SessionPatch(title="late"), expected_revision=Revision(1))
        assert (conflict.value.expected, conflict.value.actual) == (1, 2)
        assert await sessions.get(ACME, ONE) == second
        # It has moved on: making it again is another session.
        with pytest.raises(SessionConflict):
            await sessions.create(FIRST)
        with pytest.raises(UnknownSession):
            await sessions.update(ACME, SessionId("none"), SessionPatch(), expected_revision=Revision(1))


async def test_metadata_comes_with_the_version_that_it_is_written_by(opened: Opened) -> None:
    async with opened() as sessions:
        await sessions.create(FIRST)
        patch = SessionPatch(metadata=JsonText('{"n":2}'), schema_version=2)
        assert (await sessions.update(ACME, ONE, patch, expected_revision=Revision(1))).schema_version == 2
        with pytest.raises(InvalidValue):
            await sessions.update(ACME, ONE, SessionPatch(metadata=JsonText("{}")), expected_revision=Revision(2))


async def test_sec_002_tenants_share_no_sessions(opened: Opened) -> None:
    async with opened() as sessions:
        await sessions.create(FIRST)
        assert await sessions.get(OTHER, ONE) is None
        with pytest.raises(UnknownSession):
            await sessions.update(OTHER, ONE, SessionPatch(), expected_revision=Revision(1))
        theirs = await sessions.create(SessionCreate(id=ONE, tenant=OTHER, schema_version=1))
        assert theirs.title == ""


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"id": ""}, InvalidValue),
        ({"id": "x" * 201}, InvalidValue),
        ({"id": "\ud800"}, (BrokenText, InvalidValue)),
        ({"schema_version": 0}, InvalidValue),
        ({"metadata": "[]"}, InvalidValue),
        ({"metadata": "{"}, InvalidJson),
        ({"metadata": '{"x":"' + "y" * 70_000 + '"}'}, InvalidValue),
        ({"conversations": tuple(str(n) for n in range(1_001))}, InvalidValue),
    ],
)
async def test_what_not_every_store_can_keep_is_refused(
    opened: Opened, fields: dict[str, Any], error: type[Exception]
) -> None:
    given: dict[str, Any] = {"id": "one", "tenant": ACME, "schema_version": 1, **fields}
    async with opened() as sessions:
        with pytest.raises(error):
            await sessions.create(SessionCreate(**given))
        assert await sessions.get(ACME, ONE) is None


async def test_sessions_outlive_their_process(tmp_path: Path) -> None:
    clock = LeverClock()
    async with open_sqlite(tmp_path / "store.db", clock=clock) as store:
        made = await store.sessions.create(FIRST)
    async with open_sqlite(tmp_path / "store.db", clock=clock) as store:
        assert await store.sessions.get(ACME, ONE) == made


async def test_a_damaged_session_is_said_and_not_mended(tmp_path: Path) -> None:
    async with open_sqlite(tmp_path / "store.db", clock=LeverClock()) as store:
        await store.sessions.create(FIRST)
        connection = apsw.Connection(str(tmp_path / "store.db"))
        connection.execute("UPDATE sessions SET body = '{}'")
        connection.close()
        with pytest.raises(CorruptSession):
            await store.sessions.get(ACME, ONE)
