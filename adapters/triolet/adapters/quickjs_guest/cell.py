"""Cells: an engine in which one pass at a time runs, with the guest loaded into it.

Decides that no two passes share an engine at the same time, so that an epoch interrupts nobody else's program; and that
the engine of a pass which ended well serves the next one, since all that a program can leave is in its store, and that
is gone. It runs nothing. (SEC-010)
"""

from collections.abc import Generator
from contextlib import contextmanager

import wasmtime

from triolet.adapters.quickjs_guest.engine import new_engine
from triolet.adapters.quickjs_guest.wasi import Refusals


class Cell:
    """One engine. Not safe for two threads at once, but for its epoch."""

    def __init__(self, compiled: str) -> None:
        self.engine = new_engine()
        self._compiled = compiled
        self._loaded: tuple[wasmtime.Module, Refusals] | None = None

    def loaded(self) -> tuple[wasmtime.Module, Refusals]:
        """The guest's module and what it imports; loaded when it is first asked for."""
        if self._loaded is None:
            module = wasmtime.Module.deserialize_file(self.engine, self._compiled)
            self._loaded = module, Refusals(module)
        return self._loaded

    def close(self) -> None:
        """Give it back, after the stores in it."""
        if self._loaded is not None:
            self._loaded[0].close()
        self.engine.close()


class Cells:
    """The cells of one executor: as many as ever ran side by side."""

    def __init__(self, compiled: str) -> None:
        self._compiled = compiled
        self._free: list[Cell] = []

    @contextmanager
    def one(self) -> Generator[Cell]:
        """A cell for one pass. A pass that ends in an error takes its cell along."""
        cell = self._free.pop() if self._free else Cell(self._compiled)
        try:
            yield cell
        except BaseException:
            cell.close()
            raise
        self._free.append(cell)

    def close(self) -> None:
        """Give back those that are free."""
        while self._free:
            self._free.pop().close()
