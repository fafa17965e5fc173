"""The kernel's await points: found in its source by the machine, and recognised in tasks that are parked there.

Decides what an await point is called: its module, its function, and the text that awaits, so that a line that moves
is the same point still. An `async with` is two points, entering and leaving. (CONF-004)
"""

import ast
from collections.abc import Iterator
from functools import cache
from itertools import islice
from pathlib import Path
from types import CodeType
from typing import Final

import trio

import triolet.kernel

_ROOT: Final = Path(triolet.kernel.__file__).parent
_TEXT: Final = 90
_Place = tuple[int | None, int | None, int | None, int | None]


def all_points() -> set[str]:
    """Every await point in the kernel's source."""
    return {name for file in sorted(_ROOT.rglob("*.py")) for names in _named(str(file)).values() for name in names}


def points_where_parked() -> set[str]:
    """The points of the kernel at which some task stands now, with those of its callers."""
    found: set[str] = set()
    for task in _tasks():
        frames = [frame for frame, _ in task.iter_await_frames()]
        inner = [*(frame.f_code.co_name for frame in frames[1:]), ""]
        for frame, awaited in zip(frames, inner, strict=True):
            names = _at(frame.f_code, frame.f_lasti)
            if names:
                # The inner frame says which end of an `async with` it is.
                found.add(names[-1] if awaited == "__aexit__" else names[0])
    return found


def _tasks() -> Iterator[trio.lowlevel.Task]:
    root = trio.lowlevel.current_root_task()
    left = [] if root is None else [root]
    while left:
        task = left.pop()
        yield task
        left.extend(child for nursery in task.child_nurseries for child in nursery.child_tasks)


@cache
def _at(code: CodeType, last: int) -> tuple[str, ...]:
    if not code.co_filename.startswith(str(_ROOT)) or last < 0:
        return ()
    place = next(islice(code.co_positions(), last // 2, None), (None,) * 4)
    return _named(code.co_filename).get(place, ())


@cache
def _named(file: str) -> dict[_Place, tuple[str, ...]]:
    """The points of one file by their place in it: one name, or the two of an `async with`."""
    module = ".".join(Path(file).relative_to(_ROOT).with_suffix("").parts)
    seen: dict[str, int] = {}
    named: dict[_Place, tuple[str, ...]] = {}
    for function, node in _awaits(ast.parse(Path(file).read_text(encoding="utf-8")), ""):
        text = f"{module}:{function}: {_text_of(node)}"
        seen[text] = seen.get(text, 0) + 1
        text += f" #{seen[text]}" if seen[text] > 1 else ""
        place = (node.lineno, node.end_lineno, node.col_offset, node.end_col_offset)
        # Entering a nursery is no checkpoint.
        two = isinstance(node, ast.AsyncWith) and "open_nursery" not in text and "open_plain_nursery" not in text
        named[place] = (f"{text} (enter)", f"{text} (exit)") if two else (text,)
    return named


_Awaiting = ast.Await | ast.AsyncWith | ast.AsyncFor


def _awaits(node: ast.AST, function: str) -> Iterator[tuple[str, _Awaiting]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, _Awaiting):
            yield function, child
        inner = function
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            inner = f"{function}.{child.name}" if function else child.name
        if isinstance(child, ast.comprehension) and child.is_async:
            raise AssertionError(f"{function} awaits in a comprehension, which has no name here yet")
        yield from _awaits(child, inner)


def _text_of(node: _Awaiting) -> str:
    match node:
        case ast.Await():
            text = f"await {ast.unparse(node.value)}"
        case ast.AsyncWith():
            text = f"async with {', '.join(ast.unparse(item) for item in node.items)}"
        case ast.AsyncFor():
            text = f"async for {ast.unparse(node.iter)}"
    text = " ".join(text.split())
    return text if len(text) <= _TEXT else f"{text[:_TEXT]}…"
