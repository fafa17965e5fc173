"""The scripted model: its pieces, its faults, its refusals, and that it costs no scheduling."""

import pytest
import trio
import trio.lowlevel
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from triolet.adapters.scripted_model import (
    USUAL_USAGE,
    AnswerClosed,
    ScriptedModel,
    ScriptExhausted,
    Turn,
    call,
    interleaved,
    opaque,
    raw,
    reasoning,
    text,
    turn,
)
from triolet.ports.errors import Misuse
from triolet.ports.identity import RunId
from triolet.ports.language_model import (
    CallChunk,
    CallOpened,
    Finished,
    LanguageModel,
    ModelIdentity,
    ModelPart,
    ModelRequest,
    ModelUnavailable,
    OpaqueDetail,
    ReasoningChunk,
    TextChunk,
    UsageReport,
)
from triolet.ports.messages import user_text
from triolet.ports.usage import Usage

DOWN = ModelUnavailable(model="scripted", reason="overloaded")
STOP = Finished(reason="stop")
REPORT = UsageReport(usage=USUAL_USAGE)


def ask(content: str = "hello", number: int = 1) -> ModelRequest:
    return ModelRequest(run=RunId("run1"), turn=number, attempt=1, instructions="", messages=(user_text(content),))


async def answer(model: LanguageModel, request: ModelRequest | None = None) -> list[ModelPart]:
    async with model.stream(request or ask()) as parts:
        return [part async for part in parts]


async def play(*turns: Turn) -> list[list[ModelPart]]:
    model = ScriptedModel(turns)
    return [await answer(model) for _ in turns]


# --- pieces -------------------------------------------------------------------------------------------


async def test_a_plain_answer() -> None:
    model: LanguageModel = ScriptedModel([turn("Hello.")], name="tiny")
    assert model.identity == ModelIdentity(provider="scripted", name="tiny")
    assert await answer(model) == [TextChunk(text="Hello."), STOP, REPORT]


async def test_text_reasoning_detail_usage_and_reason() -> None:
    usage = Usage(input_tokens=3, output_tokens=2)
    [parts] = await play(
        turn(reasoning("hmm", chunks=2), text("abcd", chunks=3), opaque('{"sig":1}'), usage=usage, finish="length")
    )
    assert parts == [
        ReasoningChunk(text="h"),
        ReasoningChunk(text="mm"),
        TextChunk(text="a"),
        TextChunk(text="b"),
        TextChunk(text="cd"),
        OpaqueDetail(json='{"sig":1}'),
        Finished(reason="length"),
        UsageReport(usage=usage),
    ]


async def test_no_usage_and_no_piece() -> None:
    assert await play(turn(usage=None)) == [[STOP]]


async def test_calls_get_their_indexes_and_their_reason() -> None:
    [parts] = await play(turn("so ", call("add", {"b": 2, "a": 1}, chunks=2), call("list"), usage=None))
    assert parts == [
        TextChunk(text="so "),
        CallOpened(index=0, name="add"),
        CallChunk(index=0, text='{"a":1'),
        CallChunk(index=0, text=',"b":2}'),
        CallOpened(index=1, name="list"),
        CallChunk(index=1, text="{}"),
        Finished(reason="tool-calls"),
    ]


async def test_interleaved_calls_alternate() -> None:
    [parts] = await play(
        turn(call("x"), interleaved(call("a", "12", chunks=2), call("b", "3"), call("c", "")), usage=None)
    )
    assert parts[2:-1] == [
        CallOpened(index=1, name="a"),
        CallOpened(index=2, name="b"),
        CallOpened(index=3, name="c"),
        CallChunk(index=1, text="1"),
        CallChunk(index=2, text="3"),
        CallChunk(index=3, text=""),
        CallChunk(index=1, text="2"),
    ]


async def test_a_call_behind_interleaved_ones_gets_the_next_index() -> None:
    [parts] = await play(turn(interleaved(call("a"), call("b")), call("c"), usage=None))
    assert [part for part in parts if isinstance(part, CallOpened)] == [
        CallOpened(index=0, name="a"),
        CallOpened(index=1, name="b"),
        CallOpened(index=2, name="c"),
    ]


async def test_raw_parts_are_played_verbatim() -> None:
    parts: list[ModelPart] = [CallChunk(index=7, text="{"), STOP, STOP, TextChunk(text="late")]
    assert await play(raw(*parts), raw()) == [parts, []]


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=40), st.data())
def test_chunks_join_to_the_text_and_none_is_empty(content: str, data: st.DataObject) -> None:
    chunks = data.draw(st.integers(1, max(1, len(content))))
    parts = text(content, chunks=chunks).parts
    assert len(parts) == chunks
    assert "".join(part.text for part in parts if isinstance(part, TextChunk)) == content
    assert chunks == 1 or all(isinstance(part, TextChunk) and part.text for part in parts)


# --- the script ---------------------------------------------------------------------------------------


def second_turn(request: ModelRequest) -> Turn:
    return turn(f"two of {request.turn}")


async def test_turns_come_in_order_and_requests_are_kept() -> None:
    model = ScriptedModel([turn("one"), second_turn])
    assert list(model.requests) == []
    assert model.turns_left == 2
    first, second = ask("a", 1), ask("b", 2)
    assert (await answer(model, first))[0] == TextChunk(text="one")
    assert (await answer(model, second))[0] == TextChunk(text="two of 2")
    assert model.turns_left == 0
    assert [id(request) for request in model.requests] == [id(first), id(second)]


async def test_a_script_that_ran_out_says_so() -> None:
    model = ScriptedModel([turn("one")], name="tiny")
    await answer(model)
    for _ in range(2):
        with pytest.raises(ScriptExhausted, match="model tiny was asked again after all 1 turns") as raised:
            await answer(model)
        assert isinstance(raised.value, Misuse)
    assert len(model.requests) == 3


async def test_nobody_may_ask_an_empty_script() -> None:
    with pytest.raises(ScriptExhausted):
        await answer(ScriptedModel([]))


async def test_a_repeated_script_starts_over() -> None:
    model = ScriptedModel([turn("one"), turn("two")], then_repeat=True)
    said = [(await answer(model))[0] for _ in range(5)]
    assert said == [TextChunk(text=word) for word in ("one", "two", "one", "two", "one")]
    assert model.turns_left == 1
    await answer(model)
    assert model.turns_left == 0


async def test_only_the_latest_requests_are_kept_if_asked() -> None:
    model = ScriptedModel([turn("one")], then_repeat=True, remember=2)
    requests = [ask(number=number) for number in range(1, 5)]
    for request in requests:
        await answer(model, request)
    assert model.requests == tuple(requests[2:])


async def test_a_turn_is_taken_on_entering_and_not_before() -> None:
    model = ScriptedModel([turn("one"), turn("two")])
    early, late = model.stream(ask()), model.stream(ask())
    assert model.requests == ()
    async with late as parts:
        assert await anext(parts) == TextChunk(text="one")
    async with early as parts:
        assert await anext(parts) == TextChunk(text="two")


async def test_one_model_answers_several_at_once() -> None:
    model = ScriptedModel([turn("a"), turn("b")])
    async with model.stream(ask()) as one, model.stream(ask()) as other:
        assert [await anext(other), await anext(one)] == [TextChunk(text="b"), TextChunk(text="a")]


async def test_an_answer_is_dead_outside_its_scope() -> None:
    model = ScriptedModel([turn("one"), turn("two").gated(trio.Event(), after=1)])
    for _ in range(2):
        scope = model.stream(ask())
        async with scope as parts:
            await anext(parts)
        with pytest.raises(AnswerClosed, match="after its scope was left"):
            await anext(parts)
        with pytest.raises(AnswerClosed, match="entered a second time"):
            await scope.__aenter__()
    assert len(model.requests) == 2


async def test_an_error_inside_the_scope_passes() -> None:
    with pytest.raises(KeyError):
        async with ScriptedModel([turn("one")]).stream(ask()):
            raise KeyError


# --- faults -------------------------------------------------------------------------------------------


async def test_failing_before_streaming() -> None:
    scope = ScriptedModel([turn("never").failing(DOWN)]).stream(ask())
    with pytest.raises(ModelUnavailable) as raised:
        await scope.__aenter__()
    assert raised.value is DOWN


@pytest.mark.parametrize("after", [0, 1, 2, 3, 4])
async def test_failing_between_parts(after: int) -> None:
    whole = turn(text("ab", chunks=2))
    got: list[ModelPart] = []

    async def read() -> None:
        async with ScriptedModel([whole.failing(DOWN, after=after)]).stream(ask()) as parts:
            async for part in parts:
                got.append(part)  # noqa: PERF401 -- what came before the error is the point

    with pytest.raises(ModelUnavailable):
        await read()
    assert got == [TextChunk(text="a"), TextChunk(text="b"), STOP, REPORT][:after]


async def test_one_error_may_fail_many_turns_with_a_trace_of_its_own() -> None:
    model = ScriptedModel([turn().failing(DOWN, after=0)], then_repeat=True)
    depths: list[int] = []
    for _ in range(3):
        try:
            await answer(model)
        except ModelUnavailable as error:
            trace, depth = error.__traceback__, 0
            while trace is not None:
                trace, depth = trace.tb_next, depth + 1
            depths.append(depth)
    assert len(depths) == 3
    assert len(set(depths)) == 1


async def test_a_cut_answer_ends_without_finishing() -> None:
    assert await play(turn("ab", call("x")).cut()) == [
        [TextChunk(text="ab"), CallOpened(index=0, name="x"), CallChunk(index=0, text="{}")]
    ]


async def test_a_cut_answer_may_end_in_an_error() -> None:
    model = ScriptedModel([turn("ab").cut(DOWN)])
    async with model.stream(ask()) as parts:
        assert await anext(parts) == TextChunk(text="ab")
        with pytest.raises(ModelUnavailable):
            await anext(parts)


@pytest.mark.parametrize("after", [None, 0, 1])
async def test_hanging_says_that_it_began_and_can_be_cancelled(after: int | None) -> None:
    began = trio.Event()
    model = ScriptedModel([turn("abc").hanging(began, after=after)])
    got: list[ModelPart] = []

    async def read() -> None:
        async with model.stream(ask()) as parts:
            async for part in parts:
                got.append(part)  # noqa: PERF401

    async with trio.open_nursery() as nursery:
        assert not began.is_set()
        nursery.start_soon(read)
        await trio.testing.wait_all_tasks_blocked()
        assert began.is_set()
        assert got == [TextChunk(text="abc")][: after or 0]
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("after", [None, 0, 1, 3])
async def test_a_gate_holds_until_it_is_opened(after: int | None) -> None:
    gate = trio.Event()
    model = ScriptedModel([turn("abc").gated(gate, after=after)])
    got: list[ModelPart] = []

    async def read() -> None:
        async with model.stream(ask()) as parts:
            async for part in parts:
                got.append(part)  # noqa: PERF401

    whole = [TextChunk(text="abc"), STOP, REPORT]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        await trio.testing.wait_all_tasks_blocked()
        assert got == whole[: after or 0]
        gate.set()
    assert got == whole


async def test_faults_combine() -> None:
    gate = trio.Event()
    gate.set()
    model = ScriptedModel([turn(text("abc", chunks=3)).gated(gate).gated(gate, after=1).failing(DOWN, after=1)])
    async with model.stream(ask()) as parts:
        assert await anext(parts) == TextChunk(text="a")
        with pytest.raises(ModelUnavailable):
            await anext(parts)


# --- scheduling ---------------------------------------------------------------------------------------


class Switches(trio.abc.Instrument):
    def __init__(self) -> None:
        self.count = 0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.count += 1


async def test_parts_alone_never_yield_to_the_scheduler() -> None:
    model = ScriptedModel([turn(text("x" * 500, chunks=500)), turn(call("add", {"a": 1}))], then_repeat=True)
    switches = Switches()
    trio.lowlevel.add_instrument(switches)
    try:
        total = 0
        for _ in range(10):
            total += len(await answer(model))
        assert switches.count == 0
        await trio.lowlevel.checkpoint()
        assert switches.count == 1
    finally:
        trio.lowlevel.remove_instrument(switches)
    assert total == 5 * 502 + 5 * 4


async def test_a_cancelled_scope_sends_no_request() -> None:
    model = ScriptedModel([turn("one")])
    with trio.CancelScope() as scope:
        scope.cancel()
        await answer(model)
    assert scope.cancelled_caught
    assert model.requests == ()
