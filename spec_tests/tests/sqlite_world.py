"""The world of accepted work on a real file: what is durable is the file, and a crash leaves a copy of it.

Time is Trio's, run many times as fast as the machine's: threads take real time, so no clock may jump over them.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import trio

from tests.durable_world import START, DurableWorld, Moment, Outside
from triolet.adapters.clocks import TrioClock
from triolet.adapters.sqlite import SqliteStore, open_sqlite
from triolet.adapters.sqlite.backing_up import back_up
from triolet.kernel import Failpoint

RATE = 60.0
"""How many seconds of the scenarios pass in one of the machine's."""


@attrs.define(eq=False)
class SqliteWorld(DurableWorld):
    """A world whose stores are in one file."""

    folder: Path = attrs.field(kw_only=True, factory=Path)
    store: SqliteStore | None = attrs.field(default=None, kw_only=True)

    def _reached(self, failpoint: Failpoint) -> None:
        self.reached(failpoint)
        if not self.remembers or self.store is None:
            return
        copy = self.folder / f"{len(self.moments)}.copy"
        back_up(self.store.path, str(copy))
        self.moments.append(
            Moment(
                failpoint=failpoint,
                conversations=copy.read_bytes(),
                ledger=b"",
                at=self.clock.now(),
                effects=tuple(self.outside.effects),
                bodies=tuple(self.outside.bodies),
                asked=self.outside.asked,
            )
        )
        copy.unlink()


@asynccontextmanager
async def sqlite_world(
    folder: Path,
    *,
    begun: Moment | None = None,
    effects: tuple[str, ...] = (),
    remembers: bool = False,
    goes_on: "SqliteWorld | None" = None,
) -> AsyncGenerator[SqliteWorld]:
    """A world on a new file, on what a crash at a moment left of one, or on what an earlier world left behind."""
    path = folder / "store.db"
    if goes_on is None:
        await trio.to_thread.run_sync(_make, path, begun)
    clock = TrioClock(START if begun is None else begun.at) if goes_on is None else goes_on.clock
    outside = Outside() if begun is None else Outside(list(effects), list(begun.bodies), begun.asked)
    if goes_on is not None:
        outside = goes_on.outside
    world = SqliteWorld(shared=True, outside=outside, clock=clock, remembers=remembers, folder=folder)
    if goes_on is not None:
        world.ids = goes_on.ids
    async with open_sqlite(path, clock=clock, scan_seconds=30) as store:
        world.store = store
        world.conversations = store.conversations  # type: ignore[assignment]
        world.ledger = store.ledger  # type: ignore[assignment]
        yield world


def _make(path: Path, begun: Moment | None) -> None:
    for each in path.parent.glob(f"{path.name}*"):
        each.unlink()
    if begun is not None:
        path.write_bytes(begun.conversations)
