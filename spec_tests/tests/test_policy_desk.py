"""The policy desk: which rule speaks, what it says, and what is left to the next desk."""

from typing import Any

import attrs
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from tests.desk_samples import ACME, ANN, BOB, REQUEST, request
from triolet.adapters.approval_desks import ApprovalRule, Calls, HeldDesk, InvalidRule, PolicyDesk
from triolet.adapters.approval_desks.policy_desk import Outcome
from triolet.adapters.call_rules import fits
from triolet.ports.approval import PENDING, Approval, ApprovalRequest, ApprovalUnavailable, Decision
from triolet.ports.identity import Principal, TenantId

ANY: Any = object()
OTHER = TenantId("other")


def rule(when: Calls, then: Outcome = "approve", name: str = "the rule") -> ApprovalRule:
    return ApprovalRule(name=name, when=when, then=then)


async def said(desk: Approval, asked: ApprovalRequest) -> str:
    answer = await desk.request(asked, patience=0)
    return f"{answer.verdict}: {answer.reason}" if isinstance(answer, Decision) else "pending"


async def holds(when: Calls, asked: ApprovalRequest) -> bool:
    """Whether the condition holds, as seen through a desk for which either answer is possible."""
    narrow = not when.any_target and when.risk_at_least is None
    desk = PolicyDesk([rule(when, "approve" if narrow else "deny")], otherwise="deny" if narrow else "approve")
    answer = await said(desk, asked)
    assert answer.endswith((": rule the rule", ": no rule speaks for it"))
    return answer.endswith("the rule")


async def test_the_first_rule_that_holds_speaks() -> None:
    desk = PolicyDesk(
        [
            rule(Calls(tools=("delete_*",)), "deny", "no deletions"),
            rule(Calls(risk_at_most="low"), "approve", "low risk"),
            rule(Calls(tools=("delete_x", "write_file")), "approve", "writing"),
        ]
    )
    assert await said(desk, request(tool="delete_x", risk="low")) == "denied: rule no deletions"
    assert await said(desk, request(tool="write_file", risk="low")) == "approved: rule low risk"
    assert await said(desk, request(tool="write_file", risk="high")) == "approved: rule writing"
    assert await said(desk, request(tool="other")) == "denied: no rule speaks for it"
    assert await said(PolicyDesk([], otherwise="approve"), REQUEST) == "approved: no rule speaks for it"


async def test_a_decision_says_who_and_is_bound_to_the_arguments() -> None:
    desk = PolicyDesk([rule(Calls(tools=("write_file",)))], name="house-rules")
    assert await desk.request(REQUEST, patience=0) == Decision(
        verdict="approved",
        by=Principal(name="house-rules", tenant=ACME),
        reason="rule the rule",
        arguments=REQUEST.arguments,
    )


async def test_what_no_rule_decides_goes_to_the_next_desk() -> None:
    held = HeldDesk()
    desk = PolicyDesk(
        [rule(Calls(tools=("read_*",))), rule(Calls(tools=("read_secret", "write_*")), "ask", "a person decides")],
        otherwise="deny",
        next_desk=held,
    )
    assert await said(desk, request(1, tool="read_secret")) == "approved: rule the rule"
    assert await said(desk, request(2, tool="other")) == "denied: no rule speaks for it"
    assert held.asked == 0
    asked = request(3, tool="write_file")
    assert await desk.request(asked, patience=0) == PENDING
    assert list(held.open) == [asked]
    held.approve(asked)
    answer = await desk.request(asked, patience=0)
    assert isinstance(answer, Decision)
    assert answer.by.name == "tester"
    await desk.withdraw(asked.id)
    assert held.withdrawn == [asked.id]
    held.fail("gone")
    with pytest.raises(ApprovalUnavailable):
        await desk.request(request(4, tool="write_file"), patience=0)
    assert await said(desk, request(1, tool="read_x")) == "approved: rule the rule"


async def test_patience_is_the_next_desks(autojump_clock: trio.testing.MockClock) -> None:
    desk = PolicyDesk([], otherwise="ask", next_desk=PolicyDesk([], otherwise="ask", next_desk=HeldDesk()))
    began = trio.current_time()
    assert await desk.request(REQUEST, patience=30) == PENDING
    assert trio.current_time() == began + 30
    assert autojump_clock.rate == 0


async def test_a_cancelled_call_says_nothing() -> None:
    held = HeldDesk()
    desk = PolicyDesk([], otherwise="ask", next_desk=held)
    with trio.CancelScope() as scope:
        scope.cancel()
        await desk.request(REQUEST, patience=0)
    assert scope.cancelled_caught
    with trio.CancelScope() as scope:
        scope.cancel()
        await desk.withdraw(REQUEST.id)
    assert scope.cancelled_caught
    assert (held.asked, held.withdrawn) == (0, [])
    await PolicyDesk([]).withdraw(REQUEST.id)


# --- conditions ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("patterns", "name", "fit"),
    [
        (("read_file",), "read_file", True),
        (("read_file",), "read_file2", False),
        (("read_file",), "Read_file", False),
        (("read_*", "list"), "read_", True),
        (("read_*", "list"), "list", True),
        (("*",), "anything", True),
        (("fs_*_?",), "fs_write_a", True),
        (("fs_*_?",), "fs_write_ab", False),
        (("[ab]x",), "bx", True),
        (("[ab]x",), "cx", False),
        (("x.y",), "xzy", False),
    ],
)
async def test_tools_by_name_or_pattern(patterns: tuple[str, ...], name: str, fit: bool) -> None:
    assert await holds(Calls(tools=patterns), request(tool=name)) is fit


@pytest.mark.parametrize(
    ("risk", "at_most", "at_least"),
    [("low", [True, True, True], [True, False, False]), ("high", [False, False, True], [True, True, True])],
)
async def test_risk_in_both_directions(risk: str, at_most: list[bool], at_least: list[bool]) -> None:
    asked = request(risk=risk)
    assert [await holds(Calls(risk_at_most=bound), asked) for bound in ("low", "medium", "high")] == at_most
    assert [await holds(Calls(risk_at_least=bound), asked) for bound in ("low", "medium", "high")] == at_least


@pytest.mark.parametrize(
    ("targets", "every", "some"),
    [
        (("docs/a",), True, True),
        (("docs/a/b/c", "docs/x"), True, True),
        (("docs/a", "etc/passwd"), False, True),
        (("etc/passwd",), False, False),
        # Nothing is known of a call that names no target.
        ((), False, False),
        (("docs",), False, False),
        (("docs2/a",), False, False),
        (("/docs/a",), False, False),
        # A dot segment may lead anywhere.
        (("docs/../etc/passwd",), False, True),
        (("etc/../docs/a",), False, True),
        (("docs\\..\\etc",), False, True),
        (("etc/.",), False, True),
        (("docs/..a", "docs/.b"), True, True),
    ],
)
async def test_targets(targets: tuple[str, ...], every: bool, some: bool) -> None:
    asked = request(targets=targets)
    assert await holds(Calls(every_target=("docs/**",)), asked) is every
    assert await holds(Calls(any_target=("docs/**",)), asked) is some


@pytest.mark.parametrize(
    ("pattern", "inside", "outside"),
    [
        ("docs/*", ["docs/a", "docs/"], ["docs", "docs/a/b"]),
        ("docs/*.md", ["docs/a.md"], ["docs/a.txt", "docs/x/a.md"]),
        ("https://example.com/**", ["https://example.com/", "https://example.com/a/b"], ["https://example.com.evil/a"]),
        (
            "https://*.example.com/**",
            ["https://a.example.com/x"],
            ["https://evil/.example.com/x", "https://example.com/x"],
        ),
        ("**", ["a", "a/b", "/a"], []),
        ("mail:*@example.com", ["mail:a@example.com"], ["mail:a@example.com.evil"]),
    ],
)
async def test_patterns_keep_within_their_segments(pattern: str, inside: list[str], outside: list[str]) -> None:
    when = Calls(every_target=(pattern,))
    assert [target for target in inside if not await holds(when, request(targets=(target,)))] == []
    assert [target for target in outside if await holds(when, request(targets=(target,)))] == []


async def test_principals_are_exact_and_tenants_theirs() -> None:
    stranger = attrs.evolve(ANN, tenant=OTHER)
    assert await holds(Calls(principals=(ANN,)), request(principal=ANN))
    assert not await holds(Calls(principals=(ANN,)), request(principal=BOB))
    assert not await holds(Calls(principals=(ANN,)), request(principal=stranger))
    assert await holds(Calls(tenants=(ACME,)), request(principal=BOB))
    assert not await holds(Calls(tenants=(ACME,)), request(principal=stranger))


async def test_all_that_is_said_must_hold() -> None:
    when = Calls(
        tools=("write_*",), risk_at_most="medium", every_target=("docs/**",), principals=(ANN,), tenants=(ACME,)
    )
    assert await holds(when, REQUEST)
    misses: list[dict[str, Any]] = [
        {"tool": "read"},
        {"risk": "high"},
        {"targets": ("etc/a",)},
        {"principal": BOB},
        {"principal": attrs.evolve(ANN, tenant=OTHER)},
    ]
    assert [miss for miss in misses if await holds(when, request(**miss))] == []


SEGMENTS = st.text("ab*?", max_size=4)


def plainly(pattern: str, text: str) -> bool:
    """Wildcards within one segment, by plain recursion."""
    if not pattern:
        return not text
    if pattern[0] == "*":
        return plainly(pattern[1:], text) or (bool(text) and plainly(pattern, text[1:]))
    return bool(text) and pattern[0] in ("?", text[0]) and plainly(pattern[1:], text[1:])


@given(
    pattern=st.lists(SEGMENTS, min_size=1, max_size=3),
    rest=st.booleans(),
    text=st.lists(st.text("ab", max_size=4), min_size=1, max_size=4),
)
def test_patterns_match_segment_by_segment(pattern: list[str], rest: bool, text: list[str]) -> None:
    pattern = [segment.replace("**", "*") for segment in pattern]
    same = all(map(plainly, pattern, text))
    expected = same and (len(text) > len(pattern) if rest else len(text) == len(pattern))
    assert fits("/".join(text), ("/".join([*pattern, "**"] if rest else pattern),)) is expected


async def test_a_long_hostile_target_costs_little() -> None:
    when = Calls(every_target=("*a*a*a*a*a*a*a*a*b",))
    assert not await holds(when, request(targets=("a" * 20_000,)))


# --- rules that say less than they seem to ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("bad", "problem"),
    [
        (rule(Calls()), "says nothing about calls; use `otherwise`"),
        (rule(Calls(any_target=("a",))), "what allows says every_target and risk_at_most"),
        (rule(Calls(risk_at_least="low")), "what allows says every_target and risk_at_most"),
        (rule(Calls(every_target=("a",)), "deny"), "what denies says any_target and risk_at_least"),
        (rule(Calls(risk_at_most="low"), "deny"), "what denies says any_target and risk_at_least"),
        (rule(Calls(tools=ANY)), "tools is no tuple"),
        (rule(Calls(tools=("",))), "tools is no tuple of texts that are not empty"),
        (rule(Calls(every_target=("a/**/b",))), r"in every_target, \*\* is only ever a whole last segment"),
        (rule(Calls(any_target=("a**",)), "deny"), r"in any_target, \*\* is only ever"),
        (rule(Calls(tenants=ANY)), "tenants is no tuple"),
        (rule(Calls(principals=ANY)), "principals is no tuple"),
        (rule(Calls(risk_at_most=ANY)), "a risk is low, medium or high"),
        (rule(Calls(tools=("a",)), ANY), "what follows is approve, deny or ask"),
        (rule(Calls(tools=("a",)), "ask"), "asks, and there is no next desk"),
        (rule(Calls(tools=("a",)), name=""), "a name has 1 to 100 printable characters"),
        (rule(Calls(tools=("a",)), name="a\nb"), "a name has 1 to 100 printable characters"),
    ],
)
def test_misleading_rules_are_refused(bad: ApprovalRule, problem: str) -> None:
    with pytest.raises(InvalidRule, match=problem):
        PolicyDesk([bad])


def test_a_text_is_no_tuple_of_texts() -> None:
    text: Any = "read_*"
    with pytest.raises(InvalidRule, match="tools is no tuple"):
        PolicyDesk([rule(Calls(tools=text))])


def test_desks_that_contradict_themselves_are_refused() -> None:
    twice = rule(Calls(tools=("a",)))
    with pytest.raises(InvalidRule, match="two rules share a name"):
        PolicyDesk([twice, twice])
    with pytest.raises(InvalidRule, match="asks, and there is no next desk"):
        PolicyDesk([], otherwise="ask")
    with pytest.raises(InvalidRule, match="is approve, deny or ask"):
        PolicyDesk([], otherwise=ANY)
