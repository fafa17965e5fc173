"""What was left running: the tasks and threads that outlive a closed subject.

Decides what counts: a task in Trio's system nursery, since every other task has a nursery that had to end first,
and a thread that is not one of Trio's idle workers. Sockets, files and processes are not looked at. It ends
nothing. (CAP-001)
"""

import re
import threading
from typing import Final

import attrs
import trio

_IDLE_WORKER: Final = re.compile(r"Trio thread \d+")
_PATIENCE_TURNS: Final = 20
_PATIENCE_SECONDS: Final = 0.005


@attrs.frozen(kw_only=True, weakref_slot=False)
class Running:
    """What ran at one moment."""

    tasks: frozenset[trio.lowlevel.Task]
    threads: frozenset[threading.Thread]


def running() -> Running:
    """What runs now."""
    root = trio.lowlevel.current_root_task()
    nurseries = [] if root is None else root.child_nurseries
    tasks = frozenset(task for nursery in nurseries for task in nursery.child_tasks)
    return Running(tasks=tasks, threads=frozenset(thread for thread in threading.enumerate() if _busy(thread)))


async def left_behind(before: Running) -> tuple[str, ...]:
    """What runs now, did not run then, and does not end within a tenth of a second of being waited for."""
    for _ in range(_PATIENCE_TURNS):
        now = running()
        threads = now.threads - before.threads
        if threads:
            # A real wait, since a mocked clock gives threads no time.
            next(iter(threads)).join(_PATIENCE_SECONDS)
        elif not now.tasks - before.tasks:
            return ()
        await trio.lowlevel.checkpoint()
    now = running()
    tasks = sorted(f"task {task.name}" for task in now.tasks - before.tasks)
    return (*tasks, *sorted(f"thread {thread.name}" for thread in now.threads - before.threads))


def _busy(thread: threading.Thread) -> bool:
    return thread.is_alive() and not _IDLE_WORKER.fullmatch(thread.name)
