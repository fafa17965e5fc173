"""What of a history a model is shown: all of it, or a summary, cleared results and the rest (CAP-007, RUN-026).

Decides how a compaction changes what is *shown* and never what is kept: the history stays whole beneath the view, and a
view without compactions is the history itself. It decides neither when to compact nor where to cut.
"""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, overload

import attrs

from triolet.kernel.machine.history import History
from triolet.ports.messages import AssistantMessage, Message, ToolMessage, ToolResult, UserMessage, user_text
from triolet.ports.outcomes import ToolSuccess, outcome_text
from triolet.ports.strict_json import JsonText

CLEARED: Final = JsonText('"[this result was cleared to save space]"')
"""What a model reads in the place of a cleared result."""
_SUMMARY_HEAD: Final = "Summary of this conversation so far (earlier messages are no longer shown):\n\n"
_FACTS_HEAD: Final = "\n\nFacts to keep:\n"

NONE_REPLACED: Final[Mapping[int, ToolMessage]] = MappingProxyType({})


@attrs.frozen(kw_only=True, weakref_slot=False)
class View:
    """What stands in place of the first messages. `count` numbers the compactions that led here.

    The first `summarised` messages are behind `summary`; results among the first `cleared` are replaced.
    """

    count: int = 0
    summary: UserMessage | None = None
    summarised: int = 0
    cleared: int = 0
    replaced: Mapping[int, ToolMessage] = NONE_REPLACED

    def with_summary(self, text: str, facts: Sequence[str], through: int) -> "View":
        """This view with its first `through` messages behind a summary."""
        kept = _FACTS_HEAD + "".join(f"- {fact}\n" for fact in facts) if facts else ""
        return View(
            count=self.count + 1,
            summary=user_text(f"{_SUMMARY_HEAD}{text}{kept}"),
            summarised=through,
            cleared=max(self.cleared, through),
            replaced={index: message for index, message in self.replaced.items() if index >= through},
        )

    def with_cleared(self, history: History, through: int) -> "View":
        """This view with the results among its first `through` messages cleared."""
        newly: dict[int, ToolMessage] = {}
        for index in range(max(self.cleared, self.summarised), through):
            message = history[index]
            if isinstance(message, ToolMessage):
                newly[index] = _cleared(message)
        return View(
            count=self.count + 1,
            summary=self.summary,
            summarised=self.summarised,
            cleared=through,
            replaced={**self.replaced, **newly},
        )


WHOLE: Final = View()


class Shown(Sequence[Message]):
    """A history seen through a view. Immutable."""

    __slots__ = ("_head", "_history", "_view")

    def __init__(self, history: History, view: View) -> None:
        self._history = history
        self._view = view
        self._head = 0 if view.summary is None else 1

    def __len__(self) -> int:
        return self._head + len(self._history) - self._view.summarised

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Message, ...]: ...
    def __getitem__(self, index: int | slice) -> Message | tuple[Message, ...]:
        if isinstance(index, slice):
            return tuple(self[position] for position in range(*index.indices(len(self))))
        position = index if index >= 0 else len(self) + index
        if not 0 <= position < len(self):
            raise IndexError(f"message {index} of {len(self)}")
        if position < self._head and self._view.summary is not None:
            return self._view.summary
        place = position - self._head + self._view.summarised
        return self._view.replaced.get(place) or self._history[place]

    def __iter__(self) -> Iterator[Message]:
        for position in range(len(self)):
            yield self[position]


def shown(history: History, view: View) -> Sequence[Message]:
    """What a model is shown: the history itself where nothing was compacted."""
    return history if view.count == 0 else Shown(history, view)


def is_boundary(history: History, index: int) -> bool:
    """Whether the first `index` messages are whole turns: no call on one side and its result on the other."""
    if not 0 < index <= len(history):
        return False
    last = history[index - 1]
    return not (isinstance(last, AssistantMessage) and last.calls)


def _cleared(message: ToolMessage) -> ToolMessage:
    return ToolMessage(
        results=tuple(
            ToolResult(
                call=result.call,
                name=result.name,
                outcome=ToolSuccess(output=CLEARED, size=len(outcome_text(result.outcome).encode())),
            )
            for result in message.results
        )
    )
