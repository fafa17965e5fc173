"""What a host's rule may say about tool calls and other actions: readable conditions, and how they match.

Decides the pattern language and that doubt never helps a rule which allows: a call without targets is within no
pattern, and neither is a target with a dot segment, which a rule that denies takes for any target instead. What follows
from a match is the business of whoever owns the rules. (SEC-003, SEC-005)
"""

import re
from fnmatch import translate
from functools import lru_cache
from typing import Final, Literal

import attrs

from triolet.ports.errors import Misuse, bounded
from triolet.ports.identity import Principal, TenantId
from triolet.ports.tools import Risk

RISKS: Final[tuple[Risk, ...]] = ("low", "medium", "high")

_SEPARATORS: Final = re.compile(r"[/\\]")


@attrs.define(kw_only=True)
class InvalidRule(Misuse):
    """A rule that contradicts itself, or that says less than it seems to. Found when the rules are made."""

    rule: str
    problem: str

    @property
    def message(self) -> str:
        """Which rule and what is wrong with it."""
        return f"rule {bounded(self.rule)!r}: {self.problem}"


@attrs.frozen(kw_only=True, weakref_slot=False)
class Calls:
    """Tool calls for which all that is said here holds. What is left out says nothing.

    `tools` are names or patterns; one must match. `every_target`: the call has targets, and each is within one of
    these patterns. `any_target`: at least one target is. `principals` are exact; `tenants` are their tenants.

    In a pattern ``*`` and ``?`` stand for characters of one segment between slashes, ``[ab]`` for one of these
    characters, and ``**`` as the last segment for one or more whole segments: ``docs/**`` is everything below docs.
    Case counts.
    """

    tools: tuple[str, ...] = ()
    risk_at_most: Risk | None = None
    risk_at_least: Risk | None = None
    every_target: tuple[str, ...] = ()
    any_target: tuple[str, ...] = ()
    principals: tuple[Principal, ...] = ()
    tenants: tuple[TenantId, ...] = ()

    def match(self, *, tool: str, risk: Risk, targets: tuple[str, ...], principal: Principal) -> bool:
        """Whether such a call is meant."""
        if self.tools and not fits(tool, self.tools):
            return False
        if self.risk_at_most is not None and RISKS.index(risk) > RISKS.index(self.risk_at_most):
            return False
        if self.risk_at_least is not None and RISKS.index(risk) < RISKS.index(self.risk_at_least):
            return False
        if self.every_target and not (targets and all(_within(target, self.every_target) for target in targets)):
            return False
        if self.any_target and not any(_touches(target, self.any_target) for target in targets):
            return False
        return meant(principal, self.principals, self.tenants)


def check_rule(name: str, calls: Calls, effect: Literal["allows", "denies", "asks"]) -> None:
    """Raises `InvalidRule` unless the rule has a name and conditions that suit its effect.

    What allows may not rest on *some* target or on a *least* risk, and what denies not on *every* target or on a
    *most*: such rules let more through than a reader expects.
    """
    if not name or not name.isprintable() or len(name) > 100:
        raise InvalidRule(rule=name, problem="a name has 1 to 100 printable characters")
    check_texts(name, "tools", calls.tools)
    check_texts(name, "every_target", calls.every_target)
    check_texts(name, "any_target", calls.any_target)
    check_texts(name, "tenants", calls.tenants)
    if not isinstance(calls.principals, tuple):
        raise InvalidRule(rule=name, problem="principals is no tuple")
    for risk in (calls.risk_at_most, calls.risk_at_least):
        if risk is not None and risk not in RISKS:
            raise InvalidRule(rule=name, problem="a risk is low, medium or high")
    if calls == Calls():
        raise InvalidRule(rule=name, problem="says nothing about calls; use `otherwise`")
    if effect == "allows" and (calls.any_target or calls.risk_at_least is not None):
        raise InvalidRule(rule=name, problem="what allows says every_target and risk_at_most")
    if effect == "denies" and (calls.every_target or calls.risk_at_most is not None):
        raise InvalidRule(rule=name, problem="what denies says any_target and risk_at_least")


def check_texts(rule: str, field: str, texts: tuple[str, ...]) -> None:
    """Raises `InvalidRule` unless these are a tuple of texts that are not empty, with ``**`` only where it may be."""
    if not isinstance(texts, tuple) or not all(isinstance(text, str) and text for text in texts):
        raise InvalidRule(rule=rule, problem=f"{field} is no tuple of texts that are not empty")
    for text in texts:
        *others, last = text.split("/")
        if any("**" in segment for segment in others) or ("**" in last and last != "**"):
            raise InvalidRule(rule=rule, problem=f"in {field}, ** is only ever a whole last segment")


def fits(text: str, patterns: tuple[str, ...]) -> bool:
    """Whether one of the patterns matches all of `text`."""
    segments = text.split("/")
    return any(_fits(segments, pattern.split("/")) for pattern in patterns)


def meant(principal: Principal, principals: tuple[Principal, ...], tenants: tuple[TenantId, ...]) -> bool:
    """Whether the principal is among those, and its tenant among these; none means any."""
    return (not principals or principal in principals) and (not tenants or principal.tenant in tenants)


def _fits(segments: list[str], patterns: list[str]) -> bool:
    if patterns[-1] == "**":
        patterns = patterns[:-1]
        if len(segments) <= len(patterns):
            return False
    elif len(segments) != len(patterns):
        return False
    return all(_compiled(pattern).match(segment) for pattern, segment in zip(patterns, segments, strict=False))


# The translation is linear in the text, however many stars a pattern has.
@lru_cache(maxsize=1_024)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(translate(pattern))


def _within(target: str, patterns: tuple[str, ...]) -> bool:
    return not _evasive(target) and fits(target, patterns)


def _touches(target: str, patterns: tuple[str, ...]) -> bool:
    return _evasive(target) or fits(target, patterns)


def _evasive(target: str) -> bool:
    """Whether the target may lie somewhere else than its text seems to say."""
    return not {".", ".."}.isdisjoint(_SEPARATORS.split(target))
