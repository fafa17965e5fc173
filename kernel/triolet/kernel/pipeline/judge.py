"""Judging a call batch: may each call run, and on which decoded input?

Decides, for every call before any handler (TOOL-004), in this order: was it spoilt by its response, does its tool
exist, does its input decode, does authority allow it, does it need a yes that it does not have. It starts nothing, and
what an answer means is not decided here: a call with a yes on record is judged on the input that was approved.
"""

from collections.abc import Mapping

from triolet.kernel.machine.observations import Forbidden, Verdict
from triolet.kernel.machine.outcome_table import defective, denied, unknown_tool
from triolet.kernel.machine.plan import JudgeCalls
from triolet.kernel.near_names import near_names
from triolet.kernel.pipeline.authority import Authority
from triolet.kernel.pipeline.runnable import Runnable
from triolet.ports.approval import ApprovalRequest
from triolet.ports.authorizer import Allow, Deny, NeedsApproval
from triolet.ports.authorizer import Verdict as Authorization
from triolet.ports.errors import InvalidJson, InvalidValue
from triolet.ports.identity import CallId
from triolet.ports.messages import ToolCall
from triolet.ports.outcomes import Outcome, ToolDefect, ToolInvalidInput
from triolet.ports.records import ApprovalDecided
from triolet.ports.text import repair
from triolet.ports.tools import Toolkit

Judgement = Runnable | Outcome | ApprovalRequest | Forbidden


def judge_freely(toolkit: Toolkit, action: JudgeCalls) -> dict[CallId, Judgement]:
    """Judge a batch of an agent whose calls need nobody's word: nothing is asked, and nothing waited for."""
    return {call.id: _understood(toolkit, call, None) for call in action.calls}


async def judge_with_authority(toolkit: Toolkit, action: JudgeCalls, authority: Authority) -> dict[CallId, Judgement]:
    """Judge a batch, asking the authorizer about each call that is understood (RUN-031)."""
    judgements: dict[CallId, Judgement] = {}
    for call in action.calls:
        answer = action.answers.get(call.id)
        understood = _understood(toolkit, call, answer)
        if not isinstance(understood, Runnable):
            judgements[call.id] = understood
            continue
        try:
            authorization = await authority.authorize(understood)
            judgements[call.id] = _allowed(understood, answer, authorization, authority)
        except Exception as error:  # noqa: BLE001 -- a tool's own predicate or selector, or an authorizer's defect
            # Whoever had to judge broke down: the call does not run, and its siblings keep their judgements.
            judgements[call.id] = ToolDefect(reason="exception", type=type(error).__name__, effect_possible=False)
    return judgements


def verdicts(judgements: Mapping[CallId, Judgement]) -> dict[CallId, Verdict]:
    """What the machine needs to know of judgements: of what may run, only the class."""
    return {
        call: judgement.tool.execution if isinstance(judgement, Runnable) else judgement
        for call, judgement in judgements.items()
    }


def _understood(toolkit: Toolkit, call: ToolCall, answer: ApprovalDecided | None) -> Runnable | Outcome:
    spoilt = defective(call)
    if spoilt is not None:
        return spoilt
    tool = toolkit.find(call.name)
    if tool is None:
        return unknown_tool(call.name, near_names(call.name, toolkit.names))
    edited = None if answer is None else answer.edited
    try:
        return Runnable(call=call, tool=tool, input=tool.input.decode_text(edited or call.arguments))
    except (InvalidJson, InvalidValue) as error:
        origin = "the approver's edited input: " if edited else ""
        return ToolInvalidInput(reason="schema", detail=origin + error.message)


def _allowed(
    understood: Runnable, answer: ApprovalDecided | None, authorization: Authorization, authority: Authority
) -> Judgement:
    if isinstance(authorization, Deny):
        reason = repair(authorization.reason)
        return denied("denied", reason) if authorization.recoverable else Forbidden(reason=reason)
    if not isinstance(authorization, Allow | NeedsApproval):
        raise TypeError("an authorizer answers with Allow, Deny or NeedsApproval")
    if answer is None:
        needed = not isinstance(authorization, Allow) or authority.must_ask(understood)
        return authority.request(understood) if needed else understood
    if answer.verdict == "approved":
        return understood
    return denied("expired" if answer.verdict == "expired" else "denied", answer.reason)
