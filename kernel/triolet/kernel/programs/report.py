"""What leaves a pass: one report, one byte budget, one redaction.

Decides what a model may see of a program that ran: its value or what it threw, its logs, how many calls it made, and
after a failure which ones. Redaction comes first and cutting second, so that no cut leaves half of what should have
been redacted; logs are cut at the end of a line for the same reason. Results of single calls are not in it. (CAP-016)
"""

from collections.abc import Callable
from typing import Annotated, Any, Final, Literal

import attrs

from triolet.ports.canonical import encode_text
from triolet.ports.errors import Misuse
from triolet.ports.schema import Description
from triolet.ports.strict_json import JsonText, JsonValue, parse

Redaction = Callable[[JsonValue], JsonValue]

MAX_TOLD_CALLS: Final = 20
"""Calls that a failure lists; the others are only counted."""

Stop = Literal[
    "threw", "syntax", "not-async-function", "too-long", "limit", "unsettled", "not-json", "budget", "unavailable"
]


@attrs.frozen(kw_only=True, weakref_slot=False)
class ProgramReport:
    """A program that returned: its value, its logs, and how many calls it made."""

    result: Annotated[JsonValue, Description("What the program returned.")]
    logs: str
    calls: int


@attrs.define(kw_only=True)
class ProgramFailed(Misuse):
    """A program that did not return.

    `stop` says why, `detail` what was thrown or which limit was met. `ran` lists calls with their outcomes, in order,
    at most `MAX_TOLD_CALLS`; `more` counts the others. They ran, whatever became of the program.
    """

    stop: Stop
    detail: str
    logs: str
    ran: tuple[str, ...]
    more: int

    @property
    def message(self) -> str:
        """Why it stopped; nothing that the program said."""
        return f"the program did not return: {self.stop}"


@attrs.frozen(kw_only=True, weakref_slot=False)
class Egress:
    """The one way out. `budget` is in bytes of UTF-8, for value, thrown text and logs together."""

    budget: int
    redact: Redaction | None

    def returned(self, value: JsonText, logs: str, dropped: int, calls: int) -> ProgramReport | None:
        """The report of a value; None if the value alone is beyond the budget."""
        shown = self._redacted({"result": parse(value), "logs": logs})
        room = self.budget - len(encode_text(shown["result"]).encode())
        if room < 0:
            return None
        return ProgramReport(result=shown["result"], logs=_cut(str(shown["logs"]), dropped, room), calls=calls)

    def failed(self, stop: Stop, detail: str, logs: str, dropped: int, ran: list[str]) -> ProgramFailed:
        """The report of a failure: what it says of itself takes at most half of the budget, logs the rest."""
        shown = self._redacted({"detail": detail, "logs": logs})
        half = max(self.budget // 2, self.budget - len(str(shown["logs"]).encode()))
        said = _cut(str(shown["detail"]), 0, half, lines=self.redact is not None)
        return ProgramFailed(
            stop=stop,
            detail=said,
            logs=_cut(str(shown["logs"]), dropped, self.budget - len(said.encode())),
            ran=tuple(ran[:MAX_TOLD_CALLS]),
            more=max(0, len(ran) - MAX_TOLD_CALLS),
        )

    def _redacted(self, parts: dict[str, JsonValue]) -> dict[str, Any]:
        if self.redact is None:
            return parts
        shown = self.redact(parts)
        if not isinstance(shown, dict) or not shown.keys() >= parts.keys():
            raise TypeError("a redaction keeps the fields of what it redacts")
        return shown


def _cut(text: str, dropped: int, room: int, *, lines: bool = True) -> str:
    data = text.encode()
    if len(data) <= room and not dropped:
        return text
    # Some room for saying that something is missing.
    kept = data[: max(0, room - 40)].decode(errors="ignore") if len(data) > room - 40 else text
    if lines:
        kept = kept[: kept.rfind("\n") + 1]
    note = f"[{len(text) - len(kept) + dropped} characters cut]"
    return kept + note if len((kept + note).encode()) <= room else ""
