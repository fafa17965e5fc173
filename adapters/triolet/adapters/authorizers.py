"""Authorizers inside this process: by ordered rules, and one that a test scripts.

Decides which rule speaks for an action: the first one that means it, else what the host said for all others. It
remembers nothing, so a change of rules counts from the next question on. (SEC-002, SEC-003, RUN-031)
"""

from collections.abc import Callable
from typing import Final, Literal, get_args

import attrs
import trio

from triolet.adapters.call_rules import Calls, InvalidRule, check_rule, check_texts, fits, meant
from triolet.ports.authorizer import (
    Action,
    Allow,
    AuthorizerUnavailable,
    CallTool,
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
from triolet.ports.identity import Principal, TenantId

ActionKind = Literal["call-tool", "load-skill", "connect-mcp", "resolve-secret", "open-sandbox", "delegate", "operate"]

_KINDS: Final[frozenset[str]] = frozenset(get_args(ActionKind))
_EFFECTS: Final[dict[str, Literal["allows", "denies", "asks"]]] = {"allow": "allows", "deny": "denies", "ask": "asks"}


@attrs.frozen(kw_only=True, weakref_slot=False)
class Actions:
    """Actions of any kind for which all that is said here holds. What is left out says nothing.

    `names` are patterns as in `Calls`, for what the action is about: the tool, the skill, the server, the secret's
    handle, the image, the child agent, or what an operator does.
    """

    kinds: tuple[ActionKind, ...] = ()
    names: tuple[str, ...] = ()
    principals: tuple[Principal, ...] = ()
    tenants: tuple[TenantId, ...] = ()

    def match(self, action: Action, principal: Principal) -> bool:
        """Whether this principal's action is meant."""
        if self.kinds and action.kind not in self.kinds:
            return False
        if self.names and not fits(_name(action), self.names):
            return False
        return meant(principal, self.principals, self.tenants)


@attrs.frozen(kw_only=True, weakref_slot=False)
class AuthorityRule:
    """One rule: `then` is what follows for what `when` means. `name` becomes the reason.

    A denial may be `recoverable`: then it is the call's visible result, and the run goes on.
    """

    name: str
    when: Calls | Actions
    then: Literal["allow", "deny", "ask"]
    recoverable: bool = False


class RuleAuthorizer:
    """Authority by ordered rules; `otherwise` speaks where none does.

    Lifetime: a plain value, safe for many tasks. Emits: nothing. Raises `InvalidRule` when it is made.
    """

    __slots__ = ("_otherwise", "_rules")

    def __init__(self, rules: tuple[AuthorityRule, ...], *, otherwise: Literal["allow", "deny", "ask"]) -> None:
        if otherwise not in _EFFECTS:
            raise InvalidRule(rule="otherwise", problem="is allow, deny or ask")
        for rule in rules:
            _check(rule)
        if len({rule.name for rule in rules}) < len(rules):
            raise InvalidRule(rule="", problem="two rules share a name")
        self._rules = tuple(rules)
        self._otherwise: Literal["allow", "deny", "ask"] = otherwise

    async def authorize(self, action: Action, principal: Principal) -> Verdict:
        """See `Authorizer.authorize`. Never waits."""
        await trio.lowlevel.checkpoint_if_cancelled()
        for rule in self._rules:
            if _means(rule, action, principal):
                return _verdict(rule.then, f"rule {rule.name}", recoverable=rule.recoverable)
        return _verdict(self._otherwise, "no rule speaks for it", recoverable=False)


class RecordingAuthorizer:
    """A test's authorizer: notes what it was asked and answers as a function says (all is allowed, if it has none).

    `problem` may be set at any time: while it is, each question raises `AuthorizerUnavailable`, and is noted still.
    """

    def __init__(self, answer: Callable[[Action, Principal], Verdict] | None = None) -> None:
        self.asked: list[tuple[Action, Principal]] = []
        self.answer = answer
        self.problem: str | None = None

    async def authorize(self, action: Action, principal: Principal) -> Verdict:
        """See `Authorizer.authorize`."""
        await trio.lowlevel.checkpoint_if_cancelled()
        self.asked.append((action, principal))
        if self.problem is not None:
            raise AuthorizerUnavailable(problem=self.problem)
        return Allow() if self.answer is None else self.answer(action, principal)


def _check(rule: AuthorityRule) -> None:
    if rule.then not in _EFFECTS:
        raise InvalidRule(rule=rule.name, problem="what follows is allow, deny or ask")
    if rule.recoverable and rule.then != "deny":
        raise InvalidRule(rule=rule.name, problem="only a denial can be recoverable")
    if isinstance(rule.when, Calls):
        check_rule(rule.name, rule.when, _EFFECTS[rule.then])
        return
    # The name and the shared fields have the same rules.
    whose = Calls(tools=("*",), principals=rule.when.principals, tenants=rule.when.tenants)
    check_rule(rule.name, whose, _EFFECTS[rule.then])
    check_texts(rule.name, "names", rule.when.names)
    check_texts(rule.name, "kinds", rule.when.kinds)
    if not _KINDS.issuperset(rule.when.kinds):
        raise InvalidRule(rule=rule.name, problem=f"a kind is one of {', '.join(sorted(_KINDS))}")
    if rule.when == Actions():
        raise InvalidRule(rule=rule.name, problem="says nothing about actions; use `otherwise`")


def _means(rule: AuthorityRule, action: Action, principal: Principal) -> bool:
    if isinstance(rule.when, Actions):
        return rule.when.match(action, principal)
    if not isinstance(action, CallTool):
        return False
    return rule.when.match(tool=action.tool, risk=action.risk, targets=action.targets, principal=principal)


def _verdict(then: Literal["allow", "deny", "ask"], reason: str, *, recoverable: bool) -> Verdict:
    match then:
        case "allow":
            return Allow()
        case "deny":
            return Deny(reason=reason, recoverable=recoverable)
        case "ask":
            return NeedsApproval(reason=reason)


def _name(action: Action) -> str:
    match action:
        case CallTool(tool=name) | LoadSkill(skill=name) | ConnectMcp(server=name):
            return name
        case ResolveSecret(handle=name) | OpenSandbox(image=name) | Operate(action=name):
            return name
        case Delegate(agent=agent):
            return agent
