"""What `triolet demo --code` tells its user: the program, its calls, its logs and its value; or JSON lines.

Decides nothing about the run. Raises what writing raises.
"""

import json
import sys
from typing import Any, Final, Protocol, cast

from triolet.adapters.cli.demo.folder import Folder
from triolet.adapters.cli.demo.json_lines import event_line
from triolet.ports.events import CallEnded, Event
from triolet.ports.isolation import Implementation
from triolet.ports.outcomes import Outcome, ToolFailure, ToolSuccess
from triolet.ports.strict_json import parse

_SHOWN_CALLS: Final = 20


class CodeReport(Protocol):
    """Told what happens, in this order."""

    def opening(self, folder: Folder, shown_folder: str) -> None:
        """The folder was read."""
        ...

    def program(self, source: str, implementation: Implementation) -> None:
        """The executor is open, and this will run in it."""
        ...

    def called(self, tool: str, arguments: Any) -> None:
        """The program called a tool."""
        ...

    def event(self, event: Event) -> None:
        """An event of the run, in order."""
        ...

    def end(self, said: str) -> None:
        """The run's answer."""
        ...


class CodePage:
    """For people, on standard output."""

    def __init__(self) -> None:
        from triolet.adapters.console import open_page

        self._page = open_page(sys.stdout)
        self._calls = 0

    def opening(self, folder: Folder, shown_folder: str) -> None:
        """See `CodeReport`."""
        count = len(folder.names)
        self._page.row(None, "folder", (shown_folder, "bold"), (f" · {count} file{'' if count == 1 else 's'}", "dim"))

    def program(self, source: str, implementation: Implementation) -> None:
        """See `CodeReport`."""
        holds = ", ".join(f"{dimension} {hold}" for dimension, hold in implementation.posture.items())
        name = f"{implementation.name} {implementation.version}"
        self._page.row(None, "executor", (name, "bold"), (f" · {implementation.label} ({holds})", "dim"))
        self._page.blank()
        for place, line in enumerate(source.splitlines()):
            self._page.row(None, "" if place else "program", (line, ""))
        self._page.blank()

    def called(self, tool: str, arguments: Any) -> None:
        """See `CodeReport`."""
        self._calls += 1
        if self._calls <= _SHOWN_CALLS:
            told = json.dumps(arguments, ensure_ascii=False)
            self._page.row(None, "call" if self._calls == 1 else "", (tool, "bold"), (f" {told}", ""))

    def event(self, event: Event) -> None:
        """See `CodeReport`."""
        if not isinstance(event, CallEnded):
            return
        if self._calls > _SHOWN_CALLS:
            self._page.row(None, "", (f"and {self._calls - _SHOWN_CALLS} more", "dim"))
        told = _told(event.outcome)
        self._page.blank()
        for place, line in enumerate(str(told.get("logs", "")).splitlines()):
            self._page.row(None, "" if place else "logs", (line, ""))
        left = {key: value for key, value in told.items() if key != "logs"}
        shown = left.get("result", left)
        self._page.row(None, "output", (json.dumps(shown, ensure_ascii=False), "bold"))

    def end(self, said: str) -> None:
        """See `CodeReport`."""
        self._page.row(None, "answer", (said, "bold"))


class CodeLines:
    """For programs, on standard output and nothing else there; in UTF-8 whatever the terminal's encoding is."""

    def __init__(self) -> None:
        if reconfigure := getattr(sys.stdout, "reconfigure", None):
            reconfigure(encoding="utf-8")
        self._source = ""
        self._executor = ""
        self._calls: list[dict[str, Any]] = []
        self._report: dict[str, Any] = {}

    def opening(self, folder: Folder, shown_folder: str) -> None:
        """See `CodeReport`."""

    def program(self, source: str, implementation: Implementation) -> None:
        """See `CodeReport`."""
        self._source, self._executor = source, implementation.name

    def called(self, tool: str, arguments: Any) -> None:
        """See `CodeReport`."""
        self._calls.append({"tool": tool, "arguments": arguments})

    def event(self, event: Event) -> None:
        """See `CodeReport`."""
        if isinstance(event, CallEnded):
            self._report = _told(event.outcome)
        print(event_line(event), flush=True)

    def end(self, said: str) -> None:
        """See `CodeReport`."""
        result = {
            "kind": "result",
            "answer": said,
            "program": self._source,
            "executor": self._executor,
            "calls": self._calls,
            "report": self._report,
        }
        print(json.dumps(result, ensure_ascii=False), flush=True)


def _told(outcome: Outcome) -> dict[str, Any]:
    if isinstance(outcome, ToolSuccess | ToolFailure):
        told: Any = parse(outcome.output if isinstance(outcome, ToolSuccess) else outcome.payload)
        return cast("dict[str, Any]", told) if isinstance(told, dict) else {"result": told}
    return {"result": outcome.kind}
