"""The rule authorizer, and the one that records what it is asked."""

from typing import Any

import attrs
import pytest
import trio

from tests.desk_samples import ACME, ANN, BOB, REQUEST, call_tool
from triolet.adapters.authorizers import Actions, AuthorityRule, RecordingAuthorizer, RuleAuthorizer
from triolet.adapters.call_rules import Calls, InvalidRule
from triolet.ports.authorizer import (
    Action,
    Allow,
    Authorizer,
    AuthorizerUnavailable,
    ConnectMcp,
    Delegate,
    Deny,
    LoadSkill,
    NeedsApproval,
    OpenSandbox,
    Operate,
    ResolveSecret,
    Verdict,
)
from triolet.ports.identity import AgentId, Principal, TenantId

ANY: Any = object()
ACTIONS: dict[str, Action] = {
    "write_file": call_tool(),
    "report": LoadSkill(skill="report", version="1", digest=REQUEST.arguments),
    "issues": ConnectMcp(server="issues", transport="stdio"),
    "token": ResolveSecret(handle="token"),
    "python": OpenSandbox(image="python", mounts=(), network="none"),
    "child": Delegate(agent=AgentId("child"), definition=REQUEST.arguments),
    "abort": Operate(action="abort", target="run1"),
}


def only(when: Calls | Actions) -> RuleAuthorizer:
    return RuleAuthorizer((AuthorityRule(name="only", when=when, then="allow"),), otherwise="deny")


async def allowed(authorizer: Authorizer, principal: Principal = ANN) -> list[str]:
    return [name for name, action in ACTIONS.items() if await authorizer.authorize(action, principal) == Allow()]


async def test_the_first_rule_that_holds_speaks() -> None:
    authorizer = RuleAuthorizer(
        (
            AuthorityRule(name="secrets", when=Calls(any_target=("secrets/**",)), then="deny"),
            AuthorityRule(name="risky", when=Calls(risk_at_least="high"), then="ask"),
            AuthorityRule(name="rm", when=Calls(tools=("rm*",)), then="deny", recoverable=True),
            AuthorityRule(name="calls", when=Actions(kinds=("call-tool",)), then="allow"),
        ),
        otherwise="deny",
    )
    expected: list[tuple[Action, Verdict]] = [
        (call_tool(targets=("docs/a", "secrets/b")), Deny(reason="rule secrets")),
        (call_tool(tool="rm", risk="high"), NeedsApproval(reason="rule risky")),
        (call_tool(tool="rm_all"), Deny(reason="rule rm", recoverable=True)),
        (call_tool(), Allow()),
        (ACTIONS["token"], Deny(reason="no rule speaks for it")),
    ]
    for action, verdict in expected:
        assert await authorizer.authorize(action, ANN) == verdict


async def test_what_the_host_says_of_all_others() -> None:
    assert await allowed(RuleAuthorizer((), otherwise="allow")) == list(ACTIONS)
    assert await allowed(RuleAuthorizer((), otherwise="deny")) == []
    asked = RuleAuthorizer((), otherwise="ask")
    assert await asked.authorize(ACTIONS["abort"], ANN) == NeedsApproval(reason="no rule speaks for it")


@pytest.mark.parametrize("name", ACTIONS)
async def test_each_kind_of_action_by_kind_and_by_name(name: str) -> None:
    assert await allowed(only(Actions(kinds=(ACTIONS[name].kind,)))) == [name]
    assert await allowed(only(Actions(names=(name,)))) == [name]
    assert await allowed(only(Actions(names=(name[:-1],)))) == []
    assert await allowed(only(Actions(names=(name[:3] + "*",), kinds=("operate",)))) == [name] * (name == "abort")


async def test_conditions_on_calls_mean_calls_only() -> None:
    assert await allowed(only(Calls(tools=("*",)))) == ["write_file"]
    assert await allowed(only(Calls(risk_at_most="low"))) == []
    assert await allowed(only(Calls(every_target=("docs/**",)))) == ["write_file"]
    assert await allowed(only(Calls(principals=(BOB,)))) == []


async def test_principals_and_tenants() -> None:
    stranger = attrs.evolve(ANN, tenant=TenantId("other"))
    assert await allowed(only(Actions(tenants=(ACME,)))) == list(ACTIONS)
    assert await allowed(only(Actions(tenants=(ACME,))), stranger) == []
    assert await allowed(only(Actions(principals=(ANN,)))) == list(ACTIONS)
    assert await allowed(only(Actions(principals=(ANN,))), stranger) == []
    assert await allowed(only(Actions(principals=(ANN,))), BOB) == []


@pytest.mark.parametrize(
    ("bad", "problem"),
    [
        (AuthorityRule(name="r", when=Actions(), then="deny"), "says nothing about actions; use `otherwise`"),
        (AuthorityRule(name="r", when=Calls(), then="deny"), "says nothing about calls"),
        (AuthorityRule(name="r", when=Calls(any_target=("a",)), then="allow"), "what allows says every_target"),
        (AuthorityRule(name="r", when=Calls(risk_at_most="low"), then="deny"), "what denies says any_target"),
        (AuthorityRule(name="r", when=Actions(names=("a",)), then=ANY), "what follows is allow, deny or ask"),
        (AuthorityRule(name="r", when=Actions(names=("a",)), then="ask", recoverable=True), "only a denial"),
        (AuthorityRule(name="r", when=Actions(kinds=(ANY,)), then="deny"), "kinds is no tuple"),
        (AuthorityRule(name="r", when=Actions(names=ANY), then="deny"), "names is no tuple"),
        (AuthorityRule(name="r", when=Actions(tenants=ANY), then="deny"), "tenants is no tuple"),
        (AuthorityRule(name="", when=Actions(names=("a",)), then="deny"), "a name has 1 to 100"),
    ],
)
def test_misleading_rules_are_refused(bad: AuthorityRule, problem: str) -> None:
    with pytest.raises(InvalidRule, match=problem):
        RuleAuthorizer((bad,), otherwise="deny")


def test_more_misleading_rules_are_refused() -> None:
    unknown: Any = ("call-tools",)
    with pytest.raises(InvalidRule, match="a kind is one of call-tool, connect-mcp"):
        only(Actions(kinds=unknown))
    twice = AuthorityRule(name="r", when=Actions(names=("a",)), then="deny")
    with pytest.raises(InvalidRule, match="two rules share a name"):
        RuleAuthorizer((twice, twice), otherwise="deny")
    with pytest.raises(InvalidRule, match="is allow, deny or ask"):
        RuleAuthorizer((), otherwise=ANY)


async def test_the_recording_authorizer_notes_and_answers() -> None:
    authorizer = RecordingAuthorizer()
    assert await authorizer.authorize(call_tool(), ANN) == Allow()
    authorizer.answer = lambda action, principal: Deny(reason=f"{action.kind} by {principal.name}")
    assert await authorizer.authorize(ACTIONS["token"], BOB) == Deny(reason="resolve-secret by bob")
    authorizer.problem = "on fire"
    with pytest.raises(AuthorizerUnavailable, match="the authorizer is unavailable: on fire"):
        await authorizer.authorize(ACTIONS["abort"], ANN)
    assert authorizer.asked == [(call_tool(), ANN), (ACTIONS["token"], BOB), (ACTIONS["abort"], ANN)]


async def test_a_cancelled_question_is_none() -> None:
    recording = RecordingAuthorizer()
    for authorizer in (recording, only(Actions(names=("a",)))):
        with trio.CancelScope() as scope:
            scope.cancel()
            await authorizer.authorize(call_tool(), ANN)
        assert scope.cancelled_caught
    assert recording.asked == []
