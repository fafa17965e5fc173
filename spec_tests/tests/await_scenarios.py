"""The scenarios of the await-point sweep: small pieces of a host's work that together pass every await of the kernel.

A new capability adds a row here, and what it does to `await_plays`: a row's `play` is done under the scope that is
cancelled, its `prepare` before it.
"""

from collections.abc import Callable
from typing import Any, Final

import attrs

from tests import await_budget_plays as budgets
from tests import await_plays as plays
from tests.approval_world import Deaf
from tests.await_plays import DONE, Play, Stage
from tests.kernel_world import Paced, script
from triolet.adapters.memory import MemoryInputs
from triolet.adapters.scripted_model import Turn, call, text, turn
from triolet.kernel import Agent
from triolet.kernel.listening import PARTS_BETWEEN_YIELDS
from triolet.ports.language_model import LanguageModel, ModelRequest


@attrs.frozen(kw_only=True, eq=False)
class Scenario:
    """`threaded` ones run real threads, which no clock and no seed rules: what they pass is not always the same."""

    name: str
    agent: Callable[[Stage], Agent[Any, Any]]
    turns: tuple[Turn | Callable[[ModelRequest], Turn], ...]
    play: Play
    prepare: Play = plays.nothing
    model: Callable[..., LanguageModel] = Paced
    threaded: bool = False


def _deaf(_: Stage) -> MemoryInputs:
    return Deaf(1, hangs=False)


_LONG: Final = turn(text("x" * 2 * PARTS_BETWEEN_YIELDS, chunks=2 * PARTS_BETWEEN_YIELDS))
_PLAY: Final = turn(call("play"))
_SAY: Final = turn(call("say"))
_PAY: Final = (turn(call("pay")), DONE, DONE)
_ALL: Final = turn("Let me.", call("look"), call("act"), call("work"), call("nope"), call("act"), call("look"))

SCENARIOS: Final = (
    Scenario(name="an answer", agent=plays.talking(), turns=(DONE,), play=plays.run),
    Scenario(name="a long answer", agent=plays.talking(), turns=(_LONG,), play=plays.run, model=script),
    Scenario(name="instructions", agent=plays.instructed, turns=(DONE, DONE), play=plays.run_and_stream),
    Scenario(
        name="parallel tools",
        agent=plays.talking(plays.look, plays.act, plays.work),
        turns=(_ALL, DONE),
        play=plays.run,
    ),
    Scenario(
        name="an observed run", agent=plays.talking(plays.look), turns=(turn(call("look")), DONE), play=plays.stream
    ),
    Scenario(name="runs of their own", agent=plays.talking(), turns=(DONE, DONE), play=plays.one_shot),
    Scenario(name="runs in line", agent=plays.talking(), turns=(DONE, DONE), play=plays.in_line),
    Scenario(name="approval at the desk", agent=plays.asking(), turns=_PAY, play=plays.answered_at_the_desk),
    Scenario(
        name="approval after a suspension",
        agent=plays.asking(seconds=5, silence="wait"),
        turns=_PAY,
        prepare=plays.suspend,
        play=plays.answer_and_resume,
    ),
    Scenario(
        name="a suspended run of its own",
        agent=plays.asking(seconds=5, silence="wait"),
        turns=_PAY,
        play=plays.suspend_and_resume_alone,
    ),
    Scenario(name="steering", agent=plays.speaking("steer"), turns=(_SAY, DONE), play=plays.stream),
    Scenario(name="a follow-up", agent=plays.speaking("follow_up"), turns=(_SAY, DONE, DONE), play=plays.stream),
    Scenario(
        name="a follow-up that comes late", agent=plays.talking(), turns=(DONE, DONE), play=plays.say_something_late
    ),
    Scenario(name="a deaf queue", agent=plays.speaking("steer"), turns=(_SAY, DONE), play=plays.through(_deaf)),
    Scenario(
        name="a stop in a claim",
        agent=plays.speaking("steer"),
        turns=(_SAY, DONE),
        play=plays.through(plays.StopsItself),
    ),
    Scenario(name="a stop in a write", agent=plays.talking(), turns=(DONE,), play=plays.stop_while_writing),
    Scenario(name="a stop in a tool", agent=plays.talking(plays.act), turns=(turn(call("act")),), play=plays.stop),
    Scenario(name="a stop at the desk", agent=plays.asking(), turns=_PAY, play=plays.stop),
    Scenario(name="a denial", agent=plays.asking(denial="terminal"), turns=_PAY, play=plays.denied_at_the_desk),
    Scenario(
        name="a denial while looking for steering",
        agent=plays.asking(steered="deny", denial="terminal"),
        turns=_PAY,
        play=plays.denied_while_looking,
    ),
    Scenario(
        name="steering instead of an answer",
        agent=plays.asking(steered="deny", denial="recoverable"),
        turns=_PAY,
        play=plays.steered_while_asking,
    ),
    Scenario(
        name="steering that ends a run",
        agent=plays.asking(steered="deny", denial="terminal"),
        turns=_PAY,
        play=plays.steered_while_asking,
    ),
    Scenario(
        name="steering of a suspended run",
        agent=plays.asking(seconds=5, silence="wait", steered="deny"),
        turns=_PAY,
        prepare=plays.suspend,
        play=plays.steer_and_resume,
    ),
    Scenario(name="a grant taken back", agent=plays.asking(), turns=_PAY, prepare=plays.get_a_grant, play=plays.revoke),
    Scenario(
        name="a line behind a run",
        agent=plays.asking(),
        turns=(*_PAY, DONE),
        prepare=plays.get_a_grant,
        play=plays.revoke_and_stream_in_line,
    ),
    Scenario(name="a call from within a tool", agent=budgets.programmer, turns=(_PLAY, DONE), play=plays.run),
    Scenario(
        name="budgets above a run, and results too long for it",
        agent=budgets.budgeted,
        turns=(turn(call("read", {"n": 1}), call("overflow"), call("play")), DONE),
        play=plays.run,
    ),
    Scenario(
        name="a program over tools",
        agent=budgets.scripting,
        turns=(turn(call("run_program", {"code": "p"})), DONE),
        play=plays.run,
    ),
    Scenario(name="tools of a source", agent=plays.talking(), turns=(DONE,), play=plays.open_with_a_source),
    Scenario(name="a second try", agent=budgets.retrying, turns=(budgets.DOWN, DONE), play=plays.run),
    Scenario(name="a crowded context", agent=budgets.crowded, turns=(budgets.reads_on,) * 12, play=plays.run),
    Scenario(
        name="a summary",
        agent=plays.talking(),
        turns=(DONE, DONE, DONE),
        prepare=budgets.two_runs,
        play=budgets.compact,
    ),
    Scenario(
        name="a summary by the host",
        agent=budgets.hosted,
        turns=(DONE, DONE),
        prepare=budgets.two_runs,
        play=budgets.compact,
    ),
    Scenario(
        name="a summary behind a run",
        agent=plays.talking(),
        turns=(DONE,) * 4,
        prepare=budgets.two_runs,
        play=budgets.compact_in_line,
    ),
    Scenario(
        name="opening conversations",
        agent=plays.talking(),
        turns=(DONE,),
        prepare=plays.lose_a_run,
        play=plays.open_conversations,
    ),
    Scenario(
        name="a thread",
        agent=plays.talking(plays.block),
        turns=(turn(call("block")), DONE),
        play=plays.run,
        threaded=True,
    ),
    Scenario(
        name="a thread left behind", agent=plays.talking(), turns=(DONE,), play=plays.leave_a_thread, threaded=True
    ),
)
