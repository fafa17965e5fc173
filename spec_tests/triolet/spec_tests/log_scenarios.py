"""The runs that the golden logs are of, and the records that may not follow them.

Decides what happens and what is illegal; the kernel decides what is written, and `log_vectors` how it is shown.
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final, Literal

import attrs
import trio

from triolet.adapters.scripted_model import ScriptItem, call, turn
from triolet.kernel import Agent, ApprovalPolicy, Policy, Suspended, tool
from triolet.ports.approval import Decision
from triolet.ports.conversation_store import WriterFenced
from triolet.ports.identity import CallId, Epoch, Principal, RunId
from triolet.ports.language_model import ModelUnavailable
from triolet.ports.messages import AssistantMessage
from triolet.ports.outcomes import ToolRejected, ToolSuccess
from triolet.ports.records import (
    AttemptStarted,
    CallsDecided,
    ModelResponded,
    Record,
    RunnableCall,
    RunSettled,
    ToolPrepared,
    ToolSettled,
)
from triolet.ports.strict_json import JsonText
from triolet.ports.usage import Usage, UsageTotals
from triolet.spec_tests.cases.kernel.setting import Bench, text_agent


@attrs.frozen(kw_only=True)
class Answer:
    """A structured answer."""

    words: int


@tool(execution="readonly")
async def count(text: str) -> int:
    """Count words."""
    return len(text.split())


@tool
async def send(text: str) -> str:
    """Send a text."""
    return f"sent {text}"


@tool
async def fail() -> str:
    """Fail."""
    raise RuntimeError("no")


@attrs.frozen(kw_only=True, eq=False)
class Scenario:
    """A run, or some: the agent, the model's script, and what the application does."""

    name: str
    agent: Agent[str, Any]
    script: tuple[ScriptItem, ...]
    play: Callable[[Bench], Awaitable[object]]


async def _once(bench: Bench) -> None:
    async with bench.kernel.conversation("c1") as conversation:
        await conversation.run(bench.agent, "How many words?")


async def _twice(bench: Bench) -> None:
    async with bench.kernel.conversation("c1") as conversation:
        await conversation.run(bench.agent, "first")
        await conversation.run(bench.agent, "second")


# One call at a time, so that what ends first is no accident.
_ONE_BY_ONE: Final = Policy(concurrency=1)
_COUNT: Final = call("count", {"text": "a b"})


def _hanging(began: trio.Event) -> Agent[str, str]:
    @tool
    async def hang() -> str:
        began.set()
        await trio.sleep_forever()
        return ""

    return text_agent(hang, count, policy=_ONE_BY_ONE)


def _cancelled() -> Scenario:
    began = trio.Event()

    async def play(bench: Bench) -> None:
        async with bench.kernel.conversation("c1") as conversation, trio.open_nursery() as nursery:
            nursery.start_soon(conversation.run, bench.agent, "go")
            await began.wait()
            nursery.cancel_scope.cancel()

    script = (turn(call("hang"), _COUNT),)
    return Scenario(name="cancelled in a call", agent=_hanging(began), script=script, play=play)


def _lost() -> Scenario:
    began = trio.Event()

    async def lose(bench: Bench) -> None:
        with suppress(WriterFenced):
            async with bench.kernel.conversation("c1") as first:
                await first.run(bench.agent, "go")

    async def play(bench: Bench) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lose, bench)
            await began.wait()
            async with bench.kernel.conversation("c1") as second:
                await second.run(bench.agent, "and now?")
            nursery.cancel_scope.cancel()

    script = (turn(call("hang"), _COUNT), turn("fine"))
    return Scenario(name="lost, and settled by the next owner", agent=_hanging(began), script=script, play=play)


def _asked(name: str, verdict: Literal["approved", "denied"], denial: Literal["terminal", "recoverable"]) -> Scenario:
    """Two calls that need a yes, answered one by one, each by a resumption."""

    @tool(needs_approval=True)
    async def pay(amount: int) -> str:
        """Pay."""
        return f"paid {amount}"

    async def play(bench: Bench) -> None:
        async with bench.kernel.conversation("c1") as conversation:
            waiting = await conversation.run(bench.agent, "go")
        while isinstance(waiting, Suspended):
            request = waiting.requests[0]
            decision = Decision(
                verdict=verdict if request.call.endswith("-0") else "approved",
                by=Principal(name="boss"),
                reason="it is due",
                arguments=request.arguments,
            )
            await bench.kernel.answer(request.id, decision)
            waiting = await bench.kernel.resume(waiting)

    policy = Policy(concurrency=1, approval=ApprovalPolicy(denial=denial))
    script = (turn(call("pay", {"amount": 1}), call("pay", {"amount": 2})), turn("Done."))
    return Scenario(name=name, agent=text_agent(pay, policy=policy), script=script, play=play)


_BROKEN: Final = ModelUnavailable(model="scripted", reason="transport")


def scenarios() -> tuple[Scenario, ...]:
    """The scenarios. Made anew each time, inside a Trio run: they hold events."""

    def plain(
        name: str, agent: Agent[str, Any], *script: ScriptItem, play: Callable[[Bench], Awaitable[object]] = _once
    ) -> Scenario:
        return Scenario(name=name, agent=agent, script=script, play=play)

    return (
        plain("an answer", text_agent(), turn("Two.")),
        plain("two runs", text_agent(), turn("One."), turn("Two."), play=_twice),
        plain(
            "a batch of calls",
            text_agent(count, send, fail, policy=_ONE_BY_ONE),
            turn("Let me see.", _COUNT, call("send", {"text": "x"}), call("fail"), call("nope"), call("count", "{")),
            turn("Done."),
        ),
        plain(
            "a response cut by length",
            text_agent(count, policy=_ONE_BY_ONE),
            turn(_COUNT, call("count", '{"te'), finish="length"),
            turn("Done."),
        ),
        plain("a corrected answer", text_agent(output=Answer), turn("two"), turn('{"words": 2}')),
        plain("used-up turns", text_agent(count, policy=Policy(max_turns=1)), turn(_COUNT), turn("Enough.")),
        plain(
            "used-up calls", text_agent(count, policy=Policy(max_tool_calls=1)), turn(_COUNT, _COUNT), turn("Enough.")
        ),
        plain("a limit that fails", text_agent(count, policy=Policy(max_turns=1, exhaustion="fail")), turn(_COUNT)),
        plain("a forbidden call", text_agent(count, policy=Policy(max_turns=1)), turn(_COUNT), turn(_COUNT)),
        plain("a model that breaks", text_agent(), turn("Half an answer").failing(_BROKEN, after=1)),
        _cancelled(),
        _lost(),
        _asked("suspended, and approved one by one", "approved", "recoverable"),
        _asked("suspended, and one denied", "denied", "recoverable"),
        _asked("suspended, and ended by a denial", "denied", "terminal"),
    )


def illegal() -> tuple[tuple[str, int, Record], ...]:
    """Records that may not follow the first so many batches of the named log."""
    first, second = CallId("run1-1-0"), CallId("run1-1-1")
    one = ToolSuccess(output=JsonText("1"))
    answer = AssistantMessage(text="a", reasoning="", calls=())
    settled = RunSettled(run=RunId("run1"), status="aborted", usage=UsageTotals(), turns=0, reason="cancelled")
    late = attrs.evolve(_RESPONSE, turn=2, message=answer)
    log = "cancelled in a call"
    return (
        (log, 0, _RESPONSE),
        (log, 1, settled),
        (log, 2, late),
        (log, 2, ToolSettled(call=first, outcome=one)),
        (log, 2, attrs.evolve(settled, status="completed", output=JsonText('"a"'), reason=None, finish="stop")),
        (log, 3, ToolSettled(call=second, outcome=one)),
        (log, 3, ToolPrepared(calls=(first,))),
        (log, 3, CallsDecided(turn=1, runnable=(RunnableCall(call=first, execution="readonly"),))),
        (log, 3, late),
        (log, 3, settled),
        (log, 3, AttemptStarted(epoch=Epoch(1))),
        (log, 4, ToolSettled(call=second, outcome=ToolRejected(reason="denied", detail="late"))),
    )


_RESPONSE: Final = ModelResponded(
    turn=1,
    attempt=1,
    model="scripted",
    message=AssistantMessage(text="a", reasoning="", calls=()),
    finish="stop",
    usage=Usage(),
)
