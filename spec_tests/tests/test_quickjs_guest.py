"""The guest itself: its stack, its memory, its messages, and the private names that it leans on."""

import os
import socket
import threading
import time
from contextlib import closing, suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.mutants.executor_mutants import in_node
from triolet.adapters.quickjs_guest import engine, stack_room
from triolet.adapters.quickjs_guest.cell import Cell, Cells
from triolet.adapters.quickjs_guest.engine import GuestMissing, compiled_guest, guest_path
from triolet.adapters.quickjs_guest.framing import MAX_MESSAGE, BadMessage, framed, length_of, message_of
from triolet.adapters.quickjs_guest.guest import Guest
from triolet.adapters.quickjs_guest.realm import KEPT, Realms, written_parts
from triolet.adapters.quickjs_guest.stack_room import ROOM_PAGES, UnknownModule, with_room
from triolet.adapters.quickjs_guest.steps import Settings, Step
from triolet.adapters.quickjs_wasm import open_quickjs_wasm
from triolet.adapters.quickjs_wasm_sandboxed import command, open_quickjs_wasm_sandboxed
from triolet.adapters.quickjs_wasm_sandboxed import executor as sandboxed
from triolet.ports.code_executor import CodeExecutionRequest, CodeLimits, ExecutorUnavailable, LimitExceeded
from triolet.spec_tests import CODE_EXECUTOR, Case, makers, run_case
from triolet.spec_tests.cases.code_executor.caging import MARK, reach
from triolet.spec_tests.cases.code_executor.setting import Host


def guest(source: str = "async () => 1", memory: int = 32 << 20) -> Guest:
    settings = Settings(source, {"files": ["read"]}, memory, 1_000, 10_000)
    return Guest(Cell(compiled_guest().path), settings)


def test_the_stack_lies_where_no_heap_is() -> None:
    """What was moved: the stack is above the static data, and the heap begins above the stack."""
    made = guest()
    assert made.start() == Step("returned", "1")
    top = (3 + ROOM_PAGES) * 65_536
    places = [made._f("malloc", size) for size in (10, 1_000, 60_000, 100_000, 3_000_000)]
    assert min(places) > top
    made.close()


def test_a_copied_realm_is_a_whole_guest() -> None:
    """A guest that is a copy says what one that was set up says, and no copy sees another's changes."""
    source = (
        "async () => [Math.random(), Date.now(), Object.getOwnPropertyNames(globalThis).length, typeof globalThis.left]"
    )
    settings = Settings(source, {"files": ["read"]}, 32 << 20, 1_000, 10_000)
    realms = Realms(Guest(Cell(compiled_guest().path), settings).prepare())
    first = realms.of(settings)
    leaving = Guest(
        Cell(compiled_guest().path), settings._replace(source="async () => { globalThis.left = 1 }"), realms
    )
    assert leaving.start() == Step("returned", "null")
    realm = realms.of(settings)
    assert first.bridge is None
    assert realm.bridge is not None, "the bridge is opened once for the same namespaces"
    copied, again, fresh = (Guest(Cell(compiled_guest().path), settings, each) for each in (realms, realms, None))
    said = fresh.start()
    assert said.kind == "returned"
    assert copied.start() == again.start() == said
    assert sum(len(data) for _, data in realm.parts) < 512 * 1024


def test_a_cell_serves_one_pass_after_another_and_none_after_an_error() -> None:
    cells = Cells(compiled_guest().path)
    with cells.one() as first, cells.one() as beside:
        assert first is not beside
    with cells.one() as again:
        assert again is first
        leaves = Settings("async () => { globalThis.left = 1 }", {}, 32 << 20, 0, 10_000)
        looks = leaves._replace(source="async () => typeof globalThis.left")
        for settings, said in ((leaves, "null"), (looks, '"undefined"')):
            with closing(Guest(again, settings)) as made:
                assert made.start() == Step("returned", said)
                made.interrupt()
    with pytest.raises(RuntimeError, match="the pass"), cells.one() as spoilt:
        assert spoilt is first
        raise RuntimeError("the pass")
    with cells.one() as left:
        assert left is beside
    cells.close()


def test_a_realm_is_for_its_namespaces_and_bound_alone() -> None:
    """Other names, or another room for logs, get a bridge of their own; the longest unused realm goes."""
    path = compiled_guest().path
    realms = Realms(Guest(Cell(path), Settings("", {}, 32 << 20, 0, 10_000)).prepare())
    source = "async () => { console.log('a long line'); return Object.keys(globalThis.files ?? globalThis.mail) }"
    for namespaces, room in (
        ({"files": ["read"]}, 1_000),
        ({"mail": ["send", "read"]}, 1_000),
        ({"files": ["read"]}, 4),
    ):
        settings = Settings(source, namespaces, 32 << 20, room, 10_000)
        first, copy, fresh = (Guest(Cell(path), settings, each) for each in (realms, realms, None))
        assert first.start() == copy.start() == fresh.start()
        assert first.logs() == copy.logs() == fresh.logs()
        for each in (first, copy, fresh):
            each.close()
    settings = Settings(source, {}, 32 << 20, 0, 10_000)
    plain = realms.of(settings)
    for room in range(KEPT):
        realms.keep(settings._replace(output_bytes=room), plain)
    assert realms.of(Settings(source, {"files": ["read"]}, 32 << 20, 4, 10_000)).bridge is None


def test_what_is_written_is_found_wherever_it_is() -> None:
    memory = bytearray(5 * 4096)
    assert written_parts(bytes(memory)) == ()
    memory[4096] = memory[8191] = memory[3 * 4096] = memory[-1] = 1
    parts = written_parts(bytes(memory))
    assert [(at, len(data)) for at, data in parts] == [(4096, 4096), (3 * 4096, 2 * 4096)]
    again = bytearray(len(memory))
    for at, data in parts:
        again[at : at + len(data)] = data
    assert again == memory


def test_an_unknown_module_is_not_touched() -> None:
    data = bytearray(guest_path().read_bytes())
    data[-1] ^= 1
    with pytest.raises(UnknownModule):
        with_room(bytes(data))
    with pytest.raises(UnknownModule):
        with_room(b"")
    assert stack_room._leb(174_688) == b"\xe0\xd4\x0a"
    assert stack_room._leb(64) == b"\xc0\x00"
    assert stack_room._leb(64, signed=False) == b"\x40"


def test_compiled_code_is_sealed_and_nobody_can_write_it() -> None:
    compiled = compiled_guest()
    with pytest.raises(PermissionError):
        os.pwrite(compiled.descriptor, b"x", 0)
    with pytest.raises(PermissionError):
        os.ftruncate(compiled.descriptor, 0)
    assert compiled_guest() is compiled


def test_a_missing_or_another_guest_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "VERSION", "0.16.0")
    with pytest.raises(GuestMissing, match=r"0\.15\.0\.1, where 0\.16\.0 is needed"):
        guest_path()
    monkeypatch.setattr(engine, "DISTRIBUTION", "no-such-distribution")
    with pytest.raises(GuestMissing, match="not installed"):
        guest_path()


def test_f045_a_guest_without_a_limit_runs_on_and_an_interruption_ends_it() -> None:
    """CONF-005: unprotected, the loop outlives any limit; from another thread it is ended within moments."""
    made = guest("async () => { console.log('in'); for (;;); }")
    steps: list[Step] = []
    thread = threading.Thread(target=lambda: steps.append(made.start()))
    thread.start()
    thread.join(0.5)
    assert thread.is_alive(), "it ended by itself"
    made.interrupt()
    thread.join(10)
    assert steps == [Step("cpu")]
    assert made.logs() == ("in\n", 0)
    assert made.resume(0, True, "1") == Step("cpu"), "an interrupted guest runs again"
    made.close()


def test_two_guests_have_epochs_of_their_own() -> None:
    one, other = guest("async () => { for (;;); }"), guest("async () => files.read({})")
    one.interrupt()
    assert one.start() == Step("cpu")
    assert other.start() == Step("call", "{}", 0, 0)
    assert other.resume(0, True, "[1]") == Step("returned", "[1]")


@pytest.mark.parametrize("wrong", [-1, 1, 99, 1 << 31])
def test_what_settles_nothing_does_no_harm(wrong: int) -> None:
    made = guest("async () => { try { return await files.read({}) } catch (e) { return 'rejected' } }")
    assert made.start().kind == "call"
    assert made.resume(wrong, True, "1").kind in ("threw", "unsettled")


def test_private_names_of_the_engine_are_there() -> None:
    """What `calling` leans on; a later wasmtime that lacks one of them is refused by the extra's bound."""
    assert version("wasmtime").startswith("50.")
    made = guest()
    made.start()
    assert made._exports.function("JS_IsPromise")(0) == 0
    with pytest.raises(LookupError):
        made._exports.function("no_such_function")
    with pytest.raises(ValueError, match="argument"):
        made._exports.function("malloc")()
    made.close()


def test_messages_are_bounded_on_both_sides() -> None:
    assert message_of(framed({"a": "é"})[4:]) == {"a": "é"}
    for bad in (b"", b"[1]", b"{", b"[" * 100_000):
        with pytest.raises(BadMessage):
            message_of(bad)
    with pytest.raises(BadMessage):
        length_of((MAX_MESSAGE + 1).to_bytes(4, "little"))
    with pytest.raises(BadMessage):
        framed({"a": "x" * MAX_MESSAGE})


def test_conf_005_the_attacks_succeed_in_a_plain_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Outside of the cage the same program reaches the environment, a file, the network, processes and timers."""
    path = tmp_path / "mark.txt"
    path.write_text(MARK, encoding="utf-8")
    monkeypatch.setenv(MARK, MARK)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        found = in_node(reach(path, listener.getsockname()[1]))
    assert found == '["environment","file","network","process","timer","escape"]'


@pytest.mark.parametrize("case", CODE_EXECUTOR.cases, ids=str)
async def test_the_sandboxed_executor_keeps_its_promise(case: Case[Any]) -> None:
    ran = await run_case(CODE_EXECUTOR, case, makers.quickjs_wasm_sandboxed, limit=60)
    ran.require()
    assert ran.row.status == "passed", ran.row.reason


@pytest.mark.parametrize("case", CODE_EXECUTOR.cases, ids=str)
async def test_the_substitute_keeps_what_it_promises(case: Case[Any]) -> None:
    ran = await run_case(CODE_EXECUTOR, case, makers.substitute_executor)
    ran.require()
    assert ran.row.status in ("passed", "not-applicable"), ran.row.reason


async def test_without_bubblewrap_there_is_no_sandboxed_executor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandboxed, "find_program", lambda: None)
    with pytest.raises(ExecutorUnavailable, match="apt-get install bubblewrap"):
        async with open_quickjs_wasm_sandboxed():
            pass


async def test_a_sandbox_that_does_not_start_is_found_by_its_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandboxed, "find_program", lambda: "/bin/false")
    with pytest.raises(ExecutorUnavailable, match="its probe failed"):
        async with open_quickjs_wasm_sandboxed():
            pass
    monkeypatch.setattr(sandboxed, "find_program", lambda: "/no/such/program")
    with pytest.raises(ExecutorUnavailable, match="its probe failed"):
        async with open_quickjs_wasm_sandboxed():
            pass


async def test_a_childs_view_of_the_machine() -> None:
    """The process around the guest sees no home, no environment and no network of its own."""
    program = command.find_program()
    assert program is not None
    built = command.child_command(program, compiled_guest().descriptor)
    look = (
        "import os, socket; print(sorted(os.environ), os.path.exists('/root/.ssh'), os.path.exists('/home'), "
        "os.path.exists('/etc/passwd'), socket.if_nameindex(), os.getpid() < 10, os.access('/app', os.W_OK))"
    )
    done = await trio.run_process([*built[:-1], look], capture_stdout=True)
    assert done.stdout.decode().strip() == "['LC_CTYPE', 'PWD'] False False False [(1, 'lo')] True False"


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_a_hundred_passes_hold_nothing() -> None:
    """Counted: threads and descriptors after 100 passes of every kind of end are those from before."""
    async with open_quickjs_wasm() as executor:

        async def passes(count: int) -> tuple[int, int]:
            for number in range(count):
                limits = CodeLimits(cpu_seconds=0.01 if number % 4 == 0 else 1.0)
                source = "async () => { for (;;); }" if number % 4 == 0 else "async () => files.read"
                if number % 4 == 1:
                    source = "async () => { throw 1 }"
                with trio.move_on_after(0.01 if number % 4 == 2 else 30):
                    with suppress(LimitExceeded):
                        await executor.execute(CodeExecutionRequest(source=source, limits=limits), Host())
            return threading.active_count(), descriptors()

        before = await passes(8)
        started = time.monotonic()
        after = await passes(100)
        assert after == before, f"after {time.monotonic() - started:.1f} s"
