"""Certifying in a process that can be killed: whatever a subject does, it gets a row, and the other cases still run."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from triolet.spec_tests import BadTarget, Certificate, InvalidSelection, Row, certify_target
from triolet.spec_tests.isolation import supervisor
from triolet.spec_tests.isolation.target import load_maker

_CASES = ("create_begins_a_log", "append_extends_the_log", "epochs_only_grow")

_MODULE = '''
import ctypes, os, sys, threading, time
from contextlib import asynccontextmanager
import trio
from triolet.adapters.memory import MemoryConversations

class Store(MemoryConversations):
    async def append(self, writer, batch, *, expected):
        if self.act is not None:
            await self.act()
        return await super().append(writer, batch, expected=expected)

def maker(act=None):
    @asynccontextmanager
    async def open_it():
        store = Store()
        store.act = act
        yield store
    return open_it

async def _hang(): await trio.sleep_forever()
async def _raise(): raise KeyError("k")
async def _leave(): sys.exit(4)
async def _exit(): os._exit(3)
async def _crash(): ctypes.string_at(0)
async def _block(): time.sleep(3600)
async def _stubborn():
    with trio.CancelScope(shield=True):
        await trio.sleep_forever()
async def _task(): trio.lowlevel.spawn_system_task(trio.sleep_forever, name="left")
async def _thread(): threading.Thread(target=time.sleep, args=(3600,), name="left").start()
async def _junk():
    print("junk on standard output", flush=True)
    os.write(1, b'{"kind": "loaded"}\\n' * 5_000)
    os.write(2, b"x" * 500_000)
    assert sys.stdin.read() == ""
async def _fork():
    if os.fork() == 0:
        time.sleep(3600)
        os._exit(0)

fine, junk, fork, task, thread, block = map(maker, (None, _junk, _fork, _task, _thread, _block))

def all_of_them():
    """Each opening is worse in another way, counted over processes."""
    acts = [None, _hang, _raise, _leave, _exit, _crash, _block, _stubborn]
    with open("openings", "a+") as file:
        file.write("x")
        file.flush()
        count = file.tell()
    return maker(acts[count - 1] if count <= len(acts) else None)()

number = 3

@asynccontextmanager
async def no_open():
    raise OSError("no disk")
    yield

@asynccontextmanager
async def no_subject():
    yield 3

def no_scope():
    return MemoryConversations()

class Space:
    fine = staticmethod(fine)
'''


@pytest.fixture(scope="module", autouse=True)
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a module of bad adapters, which is the working directory meanwhile."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "bad.py").write_text(_MODULE, encoding="utf-8")
    (folder / "raising.py").write_text("raise ValueError('not today')\n", encoding="utf-8")
    (folder / "exiting.py").write_text("import os; os._exit(9)\n", encoding="utf-8")
    (folder / "hanging.py").write_text("import time; time.sleep(3600)\n", encoding="utf-8")
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield folder
    finally:
        os.chdir(before)


async def certified(target: str, *, limit: float = 10.0, only: tuple[str, ...] = _CASES) -> Certificate:
    return await certify_target(target, port="conversation-store", limit=limit, only=only)


_APPENDING = (
    "create_again_changes_nothing",
    "append_extends_the_log",
    "append_again_writes_once",
    "append_refuses_a_reused_identity",
    "append_checks_the_sequence",
    "append_checks_the_digest",
    "append_lets_one_of_two_win",
    "a_fenced_writer_writes_nothing",
)


def of(certificate: Certificate) -> dict[str, Row]:
    return {row.case: row for row in certificate.rows}


async def test_a_conforming_subject_conforms() -> None:
    certificate = await certified("bad:fine")
    assert certificate.conforms, certificate
    assert certificate.isolated


async def test_each_case_that_goes_wrong_is_one_row_and_the_others_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """One run over everything that can go wrong: four processes are lost on the way, and every row is its own."""
    monkeypatch.setattr(supervisor, "GRACE_SECONDS", 0.5)
    certificate = await certified("bad:all_of_them", limit=0.5, only=_APPENDING)
    rows = [(row.fault, row.reason) for row in certificate.rows]
    killed = "no end within 0.5 s during this case, and no way to interrupt it: the process was killed"
    assert rows == [
        (None, ""),
        ("limit", "no end within 0.5 s while checking"),
        ("error", "KeyError while checking: 'k'"),
        ("error", "SystemExit while checking: 4"),
        ("process", "the process ended itself with status 3, during this case"),
        ("process", "the process was ended by SIGSEGV, during this case"),
        ("limit", killed),
        ("limit", killed),
        (None, ""),
        (None, ""),
    ]
    assert "Segmentation fault" in certificate.rows[5].detail
    assert certificate.verdict == "violates"


async def test_output_of_a_subject_disturbs_nothing() -> None:
    assert (await certified("bad:junk")).conforms


@pytest.mark.parametrize(("target", "left"), [("bad:task", "task left"), ("bad:thread", "thread left")])
async def test_what_is_left_running_is_the_lifetime_row(target: str, left: str) -> None:
    certificate = await certified(target)
    row = of(certificate)["lifetime"]
    assert (row.status, row.fault) == ("failed", "leak")
    assert row.reason == f"left running: {left} (3 times) after append_extends_the_log"
    assert certificate.broken == ("CAP-001",)


async def test_a_forked_process_does_not_outlive_the_certificate() -> None:
    before = _sleepers()
    await certified("bad:fork", only=("append_extends_the_log",))
    assert await _nobody_new(before)


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("raising:x", "target 'raising:x': importing it raised ValueError: not today"),
        ("exiting:x", "the process ended itself with status 9, while it was loaded"),
        ("bad:no_open", "OSError while opening: no disk"),
    ],
)
async def test_what_cannot_be_set_up_is_a_broken_harness(target: str, reason: str) -> None:
    certificate = await certified(target)
    assert certificate.verdict == "harness-broken"
    assert certificate.rows[0].status == "failed"
    assert certificate.rows[0].reason == reason
    assert {row.status for row in certificate.rows[1:]} == {"not-exercised"}
    assert certificate.broken == ()


@pytest.mark.parametrize(
    ("target", "problem"),
    [
        ("bad:nothing", "module 'bad' has no 'nothing'"),
        ("bad:Space.nothing", "module 'bad' has no 'Space.nothing'"),
        ("bad:number", "'number' is a int and cannot be called"),
        ("nosuch.module:x", "there is no module 'nosuch'"),
        ("bad.module:x", "there is no module 'bad.module'"),
        ("raising:x", "importing it raised ValueError: not today"),
    ],
)
def test_a_target_that_leads_nowhere_says_where_it_ends(
    target: str, problem: str, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(project)
    with pytest.raises(BadTarget) as caught:
        load_maker(target)
    assert caught.value.problem == problem


def test_a_target_may_be_an_attribute(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(project)
    assert callable(load_maker("bad:Space.fine"))


async def test_a_target_that_never_loads_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "LOAD_SECONDS", 1.0)
    certificate = await certified("hanging:x")
    assert certificate.verdict == "harness-broken"
    assert certificate.rows[0].reason.startswith("no end within 1 s while it was loaded")


@pytest.mark.parametrize("target", ["", "bad", "bad:", ":fine", "bad:fine()", "../bad:fine", "bad fine:x"])
async def test_a_misspelt_target_is_refused_at_once(target: str) -> None:
    with pytest.raises(BadTarget, match="not spelt"):
        await certified(target)


async def test_an_unknown_port_is_refused_at_once() -> None:
    with pytest.raises(InvalidSelection, match="there is no port 'stores'"):
        await certify_target("bad:fine", port="stores")


async def test_cancelling_kills_the_child() -> None:
    before = _sleepers()
    with trio.move_on_after(1.5) as scope:
        await certified("bad:block", limit=600)
    assert scope.cancelled_caught
    assert await _nobody_new(before)


async def _nobody_new(before: set[int]) -> bool:
    # What was killed may take a moment to be gone.
    with trio.move_on_after(5):
        while _sleepers() - before:  # noqa: ASYNC110 -- the system tells nobody
            await trio.sleep(0.02)
    return not _sleepers() - before


def _sleepers() -> set[int]:
    """The processes of this suite that are alive."""
    found: set[int] = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
                state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
            except OSError:
                continue
            if b"triolet.spec_tests.isolation.child" in words and state != "Z":
                found.add(int(entry.name))
    return found
