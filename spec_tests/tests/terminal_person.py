"""A person at a pseudo-terminal, for the tests of the desk that asks there."""

import os
import re
import termios
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import attrs
import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.desk_samples import ACME, START
from triolet.adapters.approval_desks.terminal_desk import TerminalDesk, open_terminal_desk
from triolet.adapters.clocks import TrioClock
from triolet.ports.approval import (
    Approval,
    ApprovalRequest,
    ApprovalUnavailable,
    Decision,
    Pending,
)
from triolet.ports.identity import Principal
from triolet.ports.sources import Clock

PATIENT: Final = 30.0
"""Seconds that a test waits for what must come. No test takes that long unless it fails."""


PROMPT: Final = "y/a/n/r> "


STYLES: Final = re.compile(r"\x1b\[[0-9;]*m")


class Person:
    """Whoever sits at the terminal. Sees what it shows, and types."""

    def __init__(self, master: int, slave: int) -> None:
        self.master = master
        self.slave = slave
        self.seen = ""
        self._place = 0

    async def sees(self, text: str) -> str:
        """Wait until `text` is shown behind what was looked at before; return all that was shown up to its end."""
        with trio.fail_after(PATIENT):
            while (found := self.plain.find(text, self._place)) < 0:
                await trio.lowlevel.wait_readable(self.master)
                self.seen += os.read(self.master, 65_536).decode()
        shown = self.plain[self._place : found + len(text)]
        self._place = found + len(text)
        return shown

    async def types(self, text: str) -> None:
        """Type it once nothing else happens in this process."""
        await wait_all_tasks_blocked()
        os.write(self.master, text.encode())

    @property
    def plain(self) -> str:
        return STYLES.sub("", self.seen)

    def resize(self, columns: int) -> None:
        termios.tcsetwinsize(self.slave, (24, columns))


@pytest.fixture
def person() -> Generator[Person]:
    master, slave = os.openpty()
    someone = Person(master, slave)
    someone.resize(100)
    try:
        yield someone
    finally:
        for descriptor in (someone.master, someone.slave):
            if descriptor >= 0:
                os.close(descriptor)


class Asking:
    """Callers in the background and what they heard."""

    def __init__(self, nursery: trio.Nursery, desk: Approval) -> None:
        self._nursery = nursery
        self._desk = desk
        self.heard: dict[str, Decision | Pending | ApprovalUnavailable] = {}
        self._news = trio.Event()

    async def ask(self, asked: ApprovalRequest) -> None:
        """Ask in the background. When this returns, the request is on the desk."""
        self._nursery.start_soon(self._ask, asked)
        await wait_all_tasks_blocked()

    async def answer(self, asked: ApprovalRequest) -> Decision | Pending | ApprovalUnavailable:
        with trio.fail_after(PATIENT):
            while asked.id not in self.heard:
                await self._news.wait()
        return self.heard[asked.id]

    async def _ask(self, asked: ApprovalRequest) -> None:
        try:
            self.heard[asked.id] = await self._desk.request(asked, patience=float("inf"))
        except ApprovalUnavailable as error:
            self.heard[asked.id] = error
        news, self._news = self._news, trio.Event()
        news.set()


@asynccontextmanager
async def sitting(person: Person, clock: Clock | None = None) -> AsyncGenerator[tuple[TerminalDesk, Asking]]:
    async with (
        open_terminal_desk(person="ann", terminal=person.slave, clock=clock or TrioClock(START)) as desk,
        trio.open_nursery() as nursery,
    ):
        yield desk, Asking(nursery, desk)
        nursery.cancel_scope.cancel()


def open_descriptors() -> set[str]:
    return {path.name for path in Path("/proc/self/fd").iterdir()}


def decided(asked: ApprovalRequest, verdict: str, **fields: object) -> Decision:
    decision = Decision(verdict="denied", by=Principal(name="ann", tenant=ACME), arguments=asked.arguments)
    return attrs.evolve(decision, verdict=verdict, **fields)  # type: ignore[arg-type, unused-ignore]
