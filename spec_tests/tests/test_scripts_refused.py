"""Scripts that cannot be played: refused when they are written."""

from collections.abc import Callable
from typing import Any

import pytest
import trio

from triolet.adapters.scripted_model import (
    InvalidScript,
    ScriptedModel,
    call,
    opaque,
    raw,
    reasoning,
    text,
    turn,
)
from triolet.ports.errors import BrokenText, InvalidJson, Misuse
from triolet.ports.identity import RunId
from triolet.ports.language_model import (
    ModelRequest,
    ModelUnavailable,
    TextChunk,
)
from triolet.ports.usage import Usage

DOWN = ModelUnavailable(model="scripted", reason="overloaded")

ANY: Any = object()


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: ScriptedModel([ANY]), InvalidScript),
        (lambda: ScriptedModel([], then_repeat=True), InvalidScript),
        (lambda: ScriptedModel([turn()], remember=-1), InvalidScript),
        (lambda: turn(ANY), InvalidScript),
        (lambda: turn(finish=ANY), InvalidScript),
        (lambda: turn(usage=Usage(input_tokens=1, cache_read_tokens=2)), InvalidScript),
        (lambda: raw(ANY), InvalidScript),
        (lambda: raw(TextChunk(text="a")).cut(), InvalidScript),
        (lambda: text("abc", chunks=0), InvalidScript),
        (lambda: text("abc", chunks=4), InvalidScript),
        (lambda: text("", chunks=2), InvalidScript),
        (lambda: text("\ud800"), BrokenText),
        (lambda: reasoning("\0"), BrokenText),
        (lambda: opaque("\ud800"), BrokenText),
        (lambda: call("\ud800"), BrokenText),
        (lambda: call("add", "\ud800"), BrokenText),
        (lambda: call("add", {"a": float("nan")}), InvalidJson),
        (lambda: call("add", {"a": object()}), InvalidJson),
        (lambda: turn("a").failing(ANY), InvalidScript),
        (lambda: turn("a").failing(ModelUnavailable, after=0), InvalidScript),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        (lambda: turn("a").failing(DOWN, after=4), InvalidScript),
        (lambda: turn("a").hanging(trio.Event(), after=-1), InvalidScript),
        (lambda: turn("a").gated(trio.Event(), after=4), InvalidScript),
        (lambda: turn("a").hanging(ANY), InvalidScript),
        (lambda: turn("a").gated(ANY), InvalidScript),
    ],
)
def test_what_cannot_be_played_is_refused_at_once(make: Callable[[], object], error: type[Misuse]) -> None:
    with pytest.raises(error):
        make()


async def test_a_function_that_returns_no_turn_is_refused_when_it_does() -> None:
    def broken(request: ModelRequest) -> Any:
        return None

    request = ModelRequest(run=RunId("run1"), turn=1, attempt=1, instructions="", messages=())

    with pytest.raises(InvalidScript, match="the function at 0 returned a NoneType"):
        async with ScriptedModel([broken]).stream(request):
            pass
