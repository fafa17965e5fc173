"""Bounds: output, time, processor time, artifacts.

SEC-013, F-043.
"""

import trio

from triolet.ports.sandbox import Finished
from triolet.spec_tests.cases.sandbox.setting import SandboxSubject, limits_of, python, request, run_python
from triolet.spec_tests.claims import NotExercised, ensure, ensure_equal, lever
from triolet.spec_tests.definition import case

_FLOOD = """
import sys
size, text = int(sys.argv[1]), sys.argv[2]
piece = (text * 40000).encode()
for stream in (sys.stdout.buffer, sys.stderr.buffer):
    written = 0
    while written < size:
        written += stream.write(piece)
    stream.flush()
sys.exit(5)
"""

_ENDLESS = "import sys\nwhile True: sys.stdout.write('é' * 10000); sys.stderr.write('x' * 10000)"


@case("SEC-013")
async def output_is_bounded_and_counted(subject: SandboxSubject) -> None:
    """Of eight megabytes on each stream the limit is kept, the rest is counted, and the command ends as it would."""
    size, limit = 8_000_000, 10_007  # both cuts go through a character
    result = await run_python(subject.port, _FLOOD, str(size), "aé€😀", limits={"output_bytes": limit})
    ensure_equal((result.status, result.stopped), (5, None), "the end of a command that writes much")
    for name, kept in (("stdout", result.stdout), ("stderr", result.stderr)):
        head, tail = kept.head.encode(), kept.tail.encode()
        ensure(len(head) + len(tail) <= limit, f"{name}: {len(head) + len(tail)} bytes kept, with a limit of {limit}")
        ensure(len(head) > limit // 3 and len(tail) > limit // 3, f"{name}: beginning or end is missing")
        ensure(kept.total_bytes >= size, f"{name}: {kept.total_bytes} bytes counted of at least {size}")
        ensure_equal(len(head) + len(tail) + kept.dropped_bytes, kept.total_bytes, f"{name}: kept and dropped")
        ensure("\ufffd" not in kept.head + kept.tail, f"{name}: a character is broken at the cut")
        ensure(kept.head.startswith("aé€😀") and kept.tail.endswith("aé€😀"), f"{name}: not its beginning and end")


@case("SEC-013")
async def an_endless_writer_meets_its_deadline(subject: SandboxSubject) -> None:
    """A command that writes for ever is ended by its time, says so, and this event loop keeps running meanwhile."""
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await trio.sleep(0.01)
            ticks += 1

    async with trio.open_nursery() as nursery:
        nursery.start_soon(tick)
        result = await run_python(subject.port, _ENDLESS, limits={"wall_seconds": 0.5})
        nursery.cancel_scope.cancel()
    ensure_equal(result.stopped, "wall-clock", "the limit that ended it")
    ensure(result.stdout.dropped_bytes > 0 and result.stderr.dropped_bytes > 0, "nothing is said to be dropped")
    ensure("\ufffd" not in result.stdout.text, "a character is broken at the cut")
    ensure(ticks >= 10, f"another task ran {ticks} times in half a second")


@case("SEC-013")
async def a_reader_who_does_not_read_holds_up_nothing(subject: SandboxSubject) -> None:
    """A command ends in time although nobody takes its events."""
    asked = request(subject.port, *python(_FLOOD, "1000000", "x"), limits={"wall_seconds": 1.5})
    async with subject.port.execute(asked) as events:
        async for _ in events:
            break
        await trio.sleep(2)
        rest = [event async for event in events]
    ensure(len(rest) < 100, f"{len(rest)} events were waiting")
    finished = rest[-1]
    ensure(isinstance(finished, Finished), "the last event is not Finished")
    if isinstance(finished, Finished):
        ensure_equal((finished.result.status, finished.result.stopped), (5, None), "status, and limit that ended it")


@case("SEC-013")
async def processor_time_is_bounded(subject: SandboxSubject) -> None:
    """Two processes that compute for ever are ended by the processor time that both have used."""
    if limits_of(subject.port).cpu_seconds is None:
        raise NotExercised(reason="this sandbox refuses limits on processor time here")
    program = "import os\nos.fork()\nwhile True: pass"
    result = await run_python(subject.port, program, limits={"cpu_seconds": 0.4, "wall_seconds": 3.0})
    ensure_equal(result.stopped, "cpu", "the limit that ended it")
    used = result.usage.cpu_seconds or 0.0
    ensure(used < 1.2, f"{used:.2f} s of processor time were used, with a limit of 0.4")


@case("SEC-013", needs=("store",))
async def artifacts_are_bounded(subject: SandboxSubject) -> None:
    """What is too large, or one too many, is refused by name; the rest is in the store, under its digest."""
    store = lever(subject.store, "store")
    program = "for name, size in (('a', 10), ('b', 5000), ('c', 20), ('d', 30)): open(name, 'w').write(name * size)"
    limits = {"artifact_bytes": 1_000, "artifact_count": 2}
    result = await run_python(subject.port, program, limits=limits, artifacts=("*",))
    ensure_equal([each.path for each in result.artifacts], ["a", "c"], "the collected files")
    ensure_equal([each.path for each in result.refused], ["b", "d"], "the refused files")
    payload = await store.get(result.artifacts[1].handle.digest, tenant=request(subject.port).tenant)
    ensure_equal(payload, b"c" * 20, "what the store gives back")


BOUNDING = (
    output_is_bounded_and_counted,
    an_endless_writer_meets_its_deadline,
    a_reader_who_does_not_read_holds_up_nothing,
    processor_time_is_bounded,
    artifacts_are_bounded,
)
