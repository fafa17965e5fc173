"""The schema boundary around a handler, both ways. CAP-004, RUN-003."""

from typing import Annotated, Any

import attrs

from triolet.adapters.scripted_model import call, turn
from triolet.kernel import Policy, tool
from triolet.ports.errors import InvalidValue
from triolet.ports.messages import ToolMessage
from triolet.ports.outcomes import ToolDefect, ToolInvalidInput, ToolSuccess
from triolet.ports.schema import Alias, Ge
from triolet.spec_tests.cases.kernel.setting import KernelSubject, open_bench, text_agent
from triolet.spec_tests.claims import ensure, ensure_equal, ensure_raises
from triolet.spec_tests.definition import case


@attrs.frozen(kw_only=True)
class Order:
    """An input with a constraint, a nested value, a default and a field that JSON calls otherwise."""

    count: Annotated[int, Ge(1)]
    sender: Annotated[str, Alias("from")]
    tags: tuple[str, ...] = ("plain",)


@attrs.frozen(kw_only=True)
class Receipt:
    """An output with a field that JSON calls otherwise."""

    total: int
    sender: Annotated[str, Alias("from")]


@case("CAP-004", "RUN-003")
async def input_that_breaks_its_schema_never_reaches_a_handler(subject: KernelSubject) -> None:
    """Each kind of wrong argument is that call's visible result, and the handler does not run."""
    ran: list[object] = []

    @tool
    async def order(value: Order) -> str:
        ran.append(value)
        return "ordered"

    wrong: list[dict[str, Any] | str] = [
        {"count": "5", "from": "ann"},
        {"count": 0, "from": "ann"},
        {"count": 1},
        {"count": 1, "from": None},
        {"count": 1, "from": "ann", "extra": 1},
        {"count": 1, "sender": "ann"},
        '{"count": 1.0, "from": "ann"}',
        {"count": True, "from": "ann"},
        {"count": 1, "from": "ann", "tags": "plain"},
    ]
    script = [turn(*(call("order", arguments) for arguments in wrong)), turn("done")]
    async with open_bench(subject, script, text_agent(order)) as bench:
        await bench.run()
    ensure_equal(ran, [], "inputs that reached the handler")
    reasons = [each.reason if isinstance(each, ToolInvalidInput) else type(each).__name__ for each in bench.outcomes]
    ensure_equal(reasons, ["schema"] * len(wrong), "how calls with wrong arguments ended")


@case("CAP-004", "RUN-003")
async def a_handler_gets_the_decoded_value(subject: KernelSubject) -> None:
    """What a handler sees is the declared type, with defaults filled in, never JSON."""
    seen: list[object] = []

    @tool
    async def order(value: Order) -> str:
        seen.append(value)
        return "ordered"

    @tool
    async def pick(numbers: tuple[int, ...], deep: Order | None = None) -> str:
        seen.extend((numbers, deep))
        return "picked"

    agent = text_agent(order, pick, policy=Policy(concurrency=1))
    nested: dict[str, Any] = {"count": 2, "from": "bob", "tags": []}
    calls = [call("order", {"count": 1, "from": "ann"}), call("pick", {"numbers": [1, 2], "deep": nested})]
    async with open_bench(subject, [turn(*calls), turn("done")], agent) as bench:
        await bench.run()
    due = [Order(count=1, sender="ann"), (1, 2), Order(count=2, sender="bob", tags=())]
    ensure_equal(seen, due, "what the handlers were given")
    ensure_equal([type(value) for value in seen], [Order, tuple, Order], "the types that the handlers were given")


@case("CAP-004")
async def output_that_breaks_its_schema_is_shown_to_nobody(subject: KernelSubject) -> None:
    """A result of another type than declared is a defect; the value is in no record and no request."""
    marker = "what-came-out-instead"

    @tool
    async def count() -> int:
        return marker  # type: ignore[return-value]  # the very fault that the case is about

    @tool
    async def measure() -> float:
        return float("nan")

    @tool
    async def buy() -> Receipt:
        return {"total": 1, "from": marker}  # type: ignore[return-value]  # the very fault that the case is about

    @tool
    async def bound() -> Annotated[int, Ge(1)]:
        return 0

    names = ("count", "measure", "buy", "bound")
    script = [turn(*(call(name) for name in names)), turn("done")]
    async with open_bench(subject, script, text_agent(count, measure, buy, bound)) as bench:
        result = await bench.run()
    ensure_equal(result.output, "done", "the run's answer after four broken results")
    reasons = [each.reason if isinstance(each, ToolDefect) else type(each).__name__ for each in bench.outcomes]
    ensure_equal(reasons, ["output"] * 4, "how calls with broken output ended")
    ensure(marker not in bench.stored_text, "a value that broke its schema is on record")
    ensure(marker not in bench.shown(1), "a value that broke its schema is shown to the model")


@case("CAP-004")
async def output_crosses_encoded(subject: KernelSubject) -> None:
    """A result is the canonical JSON of its declared type, by its names in JSON, on record and in the request."""

    @tool(execution="readonly")
    async def buy() -> Receipt:
        return Receipt(total=3, sender="ann")

    async with open_bench(subject, [turn(call("buy")), turn("done")], text_agent(buy)) as bench:
        await bench.run()
    due = ToolSuccess(output=buy.output.encode_text(Receipt(total=3, sender="ann")))
    ensure_equal(due.output, '{"from":"ann","total":3}', "the declared type's canonical JSON")
    ensure_equal(bench.outcomes, [due], "the outcome on record")
    shown = [
        result.outcome
        for message in bench.requests[1].messages
        if isinstance(message, ToolMessage)
        for result in message.results
    ]
    ensure_equal(shown, [due], "the outcome in the next request")


@case("CAP-004")
async def an_agents_own_input_and_output_are_typed(subject: KernelSubject) -> None:
    """An agent's input is encoded by its schema or refused before anything; its answer is decoded, not passed on."""
    agent = text_agent(input=Order, output=Receipt)
    async with open_bench(subject, [turn('{"total": 2, "from": "bob"}')], agent) as bench:
        with ensure_raises(InvalidValue, "a run on an input of another type"):
            await bench.run({"count": 1, "from": "ann"})
        ensure_equal(len(bench.requests), 0, "requests for a run whose input was refused")
        result = await bench.run(Order(count=1, sender="ann"))
    ensure_equal(result.output, Receipt(total=2, sender="bob"), "the decoded answer")
    ensure('"from":"ann"' in bench.shown(0), "the input is not encoded by its names in JSON")


SCHEMAS = (
    input_that_breaks_its_schema_never_reaches_a_handler,
    a_handler_gets_the_decoded_value,
    output_that_breaks_its_schema_is_shown_to_nobody,
    output_crosses_encoded,
    an_agents_own_input_and_output_are_typed,
)
