"""What the demo tells its user: a timeline with the answer under it, or JSON lines.

Decides nothing about the run. A report is told what happens in this order: `begin` once, `event` for each event,
`end` once with the result. Raises what writing raises.
"""

import sys
from typing import Any, Protocol

import attrs

from triolet.adapters.cli.demo.answer import Answer
from triolet.adapters.cli.demo.folder import Folder, describe
from triolet.adapters.cli.demo.json_lines import event_line, result_line
from triolet.kernel import Aborted, Completed, Failed, Suspended
from triolet.ports.events import Event
from triolet.ports.language_model import ModelIdentity
from triolet.ports.strict_json import JsonValue

DemoResult = Completed[Any] | Failed | Aborted | Suspended


@attrs.frozen(kw_only=True, weakref_slot=False)
class Occasion:
    """What the run is about."""

    folder: Folder
    shown_folder: str
    question: str
    model: ModelIdentity


class Report(Protocol):
    """Told what happens."""

    def opening(self, folder: Folder, shown_folder: str) -> None:
        """The folder was read; the model is opened next."""
        ...

    def opened(self, model: ModelIdentity, seconds: float) -> None:
        """The model is ready, after so many seconds."""
        ...

    def event(self, event: Event) -> None:
        """An event of the run, in order."""
        ...

    def end(self, occasion: Occasion, result: DemoResult, answer: Answer | None) -> None:
        """What the run came to, and the answer if it completed."""
        ...


class TimelineReport:
    """For people, on standard output."""

    def __init__(self) -> None:
        from triolet.adapters.console import Timeline, open_page

        self._page = open_page(sys.stdout)
        self._timeline = Timeline(self._page)

    def opening(self, folder: Folder, shown_folder: str) -> None:
        """See `Report`."""
        count = len(folder.names)
        files = f"{count} file" if count == 1 else f"{count} files"
        left_out = f" · left out: {describe(folder.left_out)}" if folder.left_out else ""
        self._page.row(None, "folder", (shown_folder, "bold"), (f" · {files}{left_out}", "dim"))

    def opened(self, model: ModelIdentity, seconds: float) -> None:
        """See `Report`."""
        ready = f" · {model.provider} · ready after {seconds:.2f} s"
        self._page.row(None, "model", (model.name, "bold"), (ready, "dim"))

    def event(self, event: Event) -> None:
        """See `Report`."""
        self._timeline.show(event)

    def end(self, occasion: Occasion, result: DemoResult, answer: Answer | None) -> None:
        """See `Report`."""
        if answer is None:
            return
        page = self._page
        page.blank()
        claimed = (("file", answer.file), ("words", answer.words), ("files", answer.files), ("passage", answer.passage))
        page.row(None, "answer", ("by " if answer.by != "nothing" else "", "dim"), (answer.by, "bold"))
        for name, value in claimed:
            if value is not None:
                page.row(None, name, (str(value), "bold"))
        page.row(
            None, "sure", ("yes", "bold green") if answer.sure else ("no", "bold yellow"), (f": {answer.why}", "dim")
        )
        for place, call in enumerate(answer.tried):
            page.row(None, "" if place else "tried", (call, ""))


class JsonReport:
    """For programs, on standard output and nothing else there; in UTF-8 whatever the terminal's encoding is."""

    def __init__(self) -> None:
        if reconfigure := getattr(sys.stdout, "reconfigure", None):
            reconfigure(encoding="utf-8")

    def opening(self, folder: Folder, shown_folder: str) -> None:
        """See `Report`."""

    def opened(self, model: ModelIdentity, seconds: float) -> None:
        """See `Report`."""

    def event(self, event: Event) -> None:
        """See `Report`."""
        _put(event_line(event))

    def end(self, occasion: Occasion, result: DemoResult, answer: Answer | None) -> None:
        """See `Report`."""
        _put(
            result_line(
                answer,
                status=_status(result),
                error=_error(result),
                question=occasion.question,
                folder={
                    "path": occasion.shown_folder,
                    "files": len(occasion.folder.names),
                    "left_out": dict(occasion.folder.left_out),
                },
                model={"provider": occasion.model.provider, "name": occasion.model.name},
                turns=result.turns,
                exhausted=result.exhausted if isinstance(result, Completed) else None,
                usage=attrs.asdict(result.usage),
            )
        )


def _status(result: DemoResult) -> str:
    return type(result).__name__.lower()


def _error(result: DemoResult) -> dict[str, JsonValue] | None:
    match result:
        case Failed(error=error):
            return {"code": error.failure.code, "detail": error.failure.detail}
        case Aborted(reason=reason):
            return {"code": "aborted", "detail": reason}
        case Suspended(requests=requests):
            return {"code": "suspended", "detail": f"{len(requests)} answers are needed"}
        case Completed():
            return None


def _put(line: str) -> None:
    # Flushed line by line, since whoever reads wants to see events while they happen.
    print(line, flush=True)
