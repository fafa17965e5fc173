"""What a mutant is, and how one is made of the kernel: by replacing a name or a row for as long as a scope lasts."""

import importlib
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager
from typing import Any
from unittest import mock

import attrs

from triolet.kernel import open_kernel
from triolet.kernel.machine.table import TABLE
from triolet.spec_tests.cases.kernel import KERNEL, KernelSubject
from triolet.spec_tests.subject import Maker
from triolet.spec_tests.suite import Suite


@attrs.frozen(kw_only=True, eq=False)
class Mutant:
    """A wrong subject for `suite`, which violates these requirements. `why` is one line.

    `meets` names the only cases that it is shown to, where those that cite its requirements take long.
    """

    name: str
    why: str
    violates: tuple[str, ...]
    suite: Suite[Any]
    open: Maker
    meets: tuple[str, ...] = ()


def mutant(suite: Suite[Any], *violates: str) -> Callable[[Callable[[], AbstractAsyncContextManager[Any]]], Mutant]:
    """Make a mutant of a maker: its name and its docstring are the mutant's."""

    def decorate(maker: Callable[[], AbstractAsyncContextManager[Any]]) -> Mutant:
        return Mutant(name=maker.__name__, why=_first_line(maker), violates=violates, suite=suite, open=maker)

    return decorate


class Patches(ExitStack):
    """Replacements in the kernel's modules, undone when the scope is left."""

    def wrap(self, path: str, replacement: Callable[[Any], Any]) -> None:
        """Replace what stands at `path` (module and name) by what `replacement` makes of it."""
        owner, name = _owner_of(path)
        original = owner.__dict__[name] if isinstance(owner, type) else getattr(owner, name)
        if isinstance(original, property):
            getter = original.fget
            self.enter_context(mock.patch.object(owner, name, property(replacement(getter))))
            return
        self.enter_context(mock.patch.object(owner, name, replacement(original)))

    def unguard(self, phase: Any, family: type[Any]) -> None:
        """Let the machine allow a record without asking its guards."""
        key = (phase, family)
        table: Any = TABLE
        self.enter_context(mock.patch.dict(table, {key: attrs.evolve(table[key], guards=())}))

    def replace_item(self, table: Any, key: object, value: object) -> None:
        """Replace one entry of a mapping."""
        self.enter_context(mock.patch.dict(table, {key: value}))


def kernel_mutant(*violates: str) -> Callable[[Callable[[Patches], None]], Mutant]:
    """Make a mutant of a function that patches the kernel."""

    def decorate(apply: Callable[[Patches], None]) -> Mutant:
        @asynccontextmanager
        async def maker() -> AsyncGenerator[KernelSubject]:
            with Patches() as patches:
                apply(patches)
                yield KernelSubject(port=open_kernel)

        return Mutant(name=apply.__name__, why=_first_line(apply), violates=violates, suite=KERNEL, open=maker)

    return decorate


def always(value: Any) -> Callable[[Any], Any]:
    """A replacement that gives `value` whatever it is called with."""
    return lambda _: lambda *args, **kwargs: value


def _owner_of(path: str) -> tuple[Any, str]:
    parts = path.split(".")
    for length in range(len(parts) - 1, 0, -1):
        try:
            owner: Any = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for part in parts[length:-1]:
            owner = getattr(owner, part)
        return owner, parts[-1]
    raise AssertionError(f"there is no module in {path}")


def _first_line(documented: object) -> str:
    return (documented.__doc__ or "").partition("\n")[0].rstrip(".")
