"""Judging a call batch: may each call run, and on which decoded input?

Decides, for every call before any handler (TOOL-004): was it spoilt by its response, does its tool exist, does
its input decode. Authorization and approval take their place at the end of this stage. It starts nothing.
"""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

import attrs

from triolet.kernel.machine.outcome_table import defective, unknown_tool
from triolet.ports.errors import InvalidJson, InvalidValue
from triolet.ports.identity import CallId
from triolet.ports.messages import ToolCall
from triolet.ports.outcomes import Outcome, ToolInvalidInput
from triolet.ports.tools import ExecutionClass, Tool, Toolkit

MAX_NEAR = 3
"""Near names that an unknown tool's result offers."""


@attrs.frozen(kw_only=True, weakref_slot=False)
class Runnable:
    """A call that may run: its tool, and the input that its handler will get (RUN-003)."""

    call: ToolCall
    tool: Tool[Any, Any]
    input: Any


Judgement = Runnable | Outcome


def judge(toolkit: Toolkit, calls: tuple[ToolCall, ...]) -> dict[CallId, Judgement]:
    """Judge every call; each either may run or has its outcome."""
    return {call.id: _judge(toolkit, call) for call in calls}


def verdicts(judgements: Mapping[CallId, Judgement]) -> dict[CallId, ExecutionClass | Outcome]:
    """What the machine needs to know of judgements: the class of what may run, the outcome of what may not."""
    return {
        call: judgement.tool.execution if isinstance(judgement, Runnable) else judgement
        for call, judgement in judgements.items()
    }


def _judge(toolkit: Toolkit, call: ToolCall) -> Judgement:
    spoilt = defective(call)
    if spoilt is not None:
        return spoilt
    tool = toolkit.find(call.name)
    if tool is None:
        return unknown_tool(call.name, near_names(call.name, toolkit.names))
    try:
        return Runnable(call=call, tool=tool, input=tool.input.decode_text(call.arguments))
    except (InvalidJson, InvalidValue) as error:
        return ToolInvalidInput(reason="schema", detail=error.message)


def near_names(name: str, names: tuple[str, ...]) -> tuple[str, ...]:
    """Up to `MAX_NEAR` of `names` that look like `name`, or all of them if they are so few (F-005)."""
    if len(names) <= MAX_NEAR:
        return names
    lowered = {candidate.lower(): candidate for candidate in names}
    found = get_close_matches(name[:80].lower(), list(lowered), n=MAX_NEAR, cutoff=0.4)
    return tuple(lowered[candidate] for candidate in found)
