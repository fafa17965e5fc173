"""The rules by which the request-driven model answers: everything from the request, nothing from memory.

Decides, in this order:

1. A request that a provider would refuse is refused (`request_problem`).
2. The next line in which the user asks for a call to an offered tool is answered with its calls. What is offered and
   what `tool_choice` allows bounds what is called; what is asked for beyond that is passed over.
3. Where `tool_choice` demands a call and no line asks for one, one is made up, with the smallest valid input.
4. Otherwise the answer is final: a value by the output schema where one is shown, else the report (`what_was_shown`)
   as JSON. With an output schema the report is the reasoning.

It reads neither the run nor the turn nor the settings: nothing that a provider would not see. (CONF-003)
"""

from collections.abc import Mapping
from typing import Final

from triolet.adapters.request_driven_model.call_lines import Asked, open_lines
from triolet.adapters.request_driven_model.minimal_value import minimal_value
from triolet.adapters.request_driven_model.shown import characters_shown, request_problem, what_was_shown
from triolet.adapters.scripted_model import Turn, call, interleaved, reasoning, text, turn
from triolet.ports.canonical import encode_text
from triolet.ports.errors import Misuse
from triolet.ports.language_model import ModelRefused, ModelRequest, OneTool
from triolet.ports.strict_json import JsonText
from triolet.ports.usage import Usage

MODEL_NAME: Final = "request-driven"


def answer_to(request: ModelRequest) -> Turn:
    """The one answer to this request. Raises `ModelRefused` where a provider would refuse it."""
    problem = request_problem(request)
    if problem is not None:
        raise _refused(problem)
    calls = _wanted_calls(request)
    if calls:
        pieces = [call(name, arguments, chunks=min(2, len(arguments))) for name, arguments in calls]
        written = sum(len(name) + len(arguments) for name, arguments in calls)
        return turn(interleaved(*pieces), usage=_usage(request, written))
    report = encode_text(what_was_shown(request))
    if request.output is None:
        return turn(text(report, chunks=3), usage=_usage(request, len(report)))
    answer = _derived(request.output.schema)
    return turn(reasoning(report), text(answer), usage=_usage(request, len(report) + len(answer)))


def _wanted_calls(request: ModelRequest) -> list[Asked]:
    choice = request.tool_choice
    if choice == "none":
        return []
    offered = {tool.name: tool.input_schema for tool in request.tools}
    allowed = {choice.name} if isinstance(choice, OneTool) else offered.keys()
    for line in open_lines(request.messages):
        calls = [asked for asked in line if asked[0] in allowed]
        if calls:
            return calls
    if choice == "auto":
        return []
    name = choice.name if isinstance(choice, OneTool) else request.tools[0].name
    return [(name, _derived(offered[name]))]


def _derived(schema: Mapping[str, object]) -> JsonText:
    try:
        return encode_text(minimal_value(schema))
    except Misuse as error:
        raise _refused(error.message) from error


def _refused(detail: str) -> ModelRefused:
    return ModelRefused(model=MODEL_NAME, reason="bad-request", detail=detail)


def _usage(request: ModelRequest, written: int) -> Usage:
    # Four characters a token, as an estimator would have it; never nothing.
    return Usage(input_tokens=1 + characters_shown(request) // 4, output_tokens=1 + written // 4)
