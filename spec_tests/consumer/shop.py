"""A small shop desk that embeds the kernel: the program of somebody who has the wheel, the README and nothing else."""

import json

import attrs
import trio

from triolet.adapters.memory import in_memory
from triolet.adapters.scripted_model import ScriptedModel, call, text, turn
from triolet.kernel import Agent, Completed, Failed, Policy, Toolkit, open_kernel, tool
from triolet.ports.events import CallEnded, RunCompleted, TextDelta

STOCK = {"pen": 3, "ink": 0}


@attrs.define
class OutOfStock(Exception):
    article: str


@attrs.frozen
class Order:
    article: str
    pieces: int


@attrs.frozen
class Confirmation:
    article: str
    pieces: int
    left: int


@tool(execution="readonly")
def in_stock(article: str) -> int:
    """How many pieces of an article there are."""
    return STOCK[article]


@tool(failures=[OutOfStock])
async def take(order: Order) -> int:
    """Take pieces out of the stock; gives what is left."""
    if STOCK[order.article] < order.pieces:
        raise OutOfStock(order.article)
    STOCK[order.article] -= order.pieces
    return STOCK[order.article]


desk = Agent(
    id="desk",
    input=Order,
    output=Confirmation,
    instructions="Look before you take.",
    toolkit=Toolkit([in_stock, take]),
    policy=Policy(max_turns=4),
)

MODEL = ScriptedModel(
    [
        turn(call("in_stock", {"article": "pen"}), call("in_stock", {"article": "ink"})),
        turn(call("take", {"article": "pen", "pieces": 2})),
        turn(text('{"article": "pen", "pieces": 2, "left": 1}', chunks=5)),
        turn(call("take", {"article": "ink", "pieces": 1})),
        turn(text("Sorry, there is no ink.")),
        turn(text("Still none.")),
        turn(text("None.")),
        turn(text("None at all.")),
    ]
)


async def main() -> None:
    report: dict[str, object] = {}
    async with (
        open_kernel(agents=[desk], capabilities=in_memory(model=MODEL)) as kernel,
        kernel.conversation() as conversation,
    ):
        async with conversation.stream(desk, Order("pen", 2)) as run:
            events = [event async for event in run]
            result = await run.result()
        assert isinstance(result, Completed)
        report["confirmed"] = attrs.asdict(result.output)
        report["calls"] = [event.tool for event in events if isinstance(event, CallEnded)]
        report["streamed"] = "".join(event.text for event in events if isinstance(event, TextDelta))
        report["terminal"] = isinstance(events[-1], RunCompleted)

        second = await conversation.run(desk, Order("ink", 1))
        assert isinstance(second, Failed)
        report["failed"] = second.error.failure.code
        report["messages"] = len(conversation.history)
    print(json.dumps(report))


trio.run(main)
