"""Policy and Allowance: the limits of an agent's runs, and what a caller may take off them.

Decides the bounds of every limit, and that an allowance only tightens (RUN-021). Checked when made; it enforces
nothing: that is the machine's, on the values that a run started with.
"""

from collections.abc import Iterable
from functools import cached_property
from typing import Final, Literal, Self

import attrs

from triolet.ports.approval import Denial
from triolet.ports.errors import Misuse
from triolet.ports.identity import MICROSECONDS
from triolet.ports.records import ApprovalRules, Exhaustion, Limits, RetryRules, Summarise


@attrs.define(kw_only=True)
class InvalidAgent(Misuse):
    """An agent or policy that contradicts itself. Found when it is made."""

    agent: str
    problem: str

    @property
    def message(self) -> str:
        """Which agent and what is wrong with it."""
        return f"agent {self.agent!r}: {self.problem}"


_OPTIONAL: Final = ("max_tokens", "max_cost", "max_failures", "max_result_bytes", "context_tokens")


def _is_count_or_none(value: object) -> bool:
    return value is None or (type(value) is int and 1 <= value <= 10**12)


def _check(subject: str, checks: Iterable[tuple[str, bool]]) -> None:
    for name, fine in checks:
        if not fine:
            raise InvalidAgent(agent=subject, problem=f"{name} is out of its bounds")


@attrs.frozen(kw_only=True, weakref_slot=False)
class ApprovalPolicy:
    """What an agent's runs do about approval (APPR-001, APPR-002).

    `seconds` is how long a request stays open; None says that it has no time of its own. `silence` is what a request
    becomes whose time is up or whose desk fails: ``deny``, ``wait`` (the run is suspended) or ``approve`` (recorded as
    the policy's own). `denial` is ``terminal`` (the run fails) or ``recoverable`` (the model reads the reason).
    `steered` says whether newer input waits for an open request or counts as a recoverable denial of it.
    """

    seconds: float | None = 300.0
    silence: Literal["deny", "wait", "approve"] = "deny"
    denial: Denial = "terminal"
    steered: Literal["wait", "deny"] = "wait"

    def __attrs_post_init__(self) -> None:
        checks = (
            ("seconds", self.seconds is None or 0 < self.seconds < float("inf")),
            ("silence", self.silence in ("deny", "wait", "approve")),
            ("denial", self.denial in ("terminal", "recoverable")),
            ("steered", self.steered in ("wait", "deny")),
        )
        _check("(approval policy)", checks)

    @cached_property
    def rules(self) -> ApprovalRules:
        """What of this policy the machine enforces."""
        return ApprovalRules(silence=self.silence, steered=self.steered)


ASK_AND_DENY: Final = ApprovalPolicy()


@attrs.frozen(kw_only=True, weakref_slot=False)
class RetryPolicy:
    """How often a model is asked for one turn, and how long to wait in between (F-053).

    `tries` (1 to 100) counts the first one. Only what may pass is tried again: an unavailable model, or a response that
    broke off. `seconds` (0 to 3,600) is the first wait; each further one is twice as long, up to `most_seconds`, and
    shortened by up to a half. This is the only place that retries: adapters do not (RUN-013).
    """

    tries: int = 3
    seconds: float = 0.5
    most_seconds: float = 30.0

    def __attrs_post_init__(self) -> None:
        checks = (
            ("tries", type(self.tries) is int and 1 <= self.tries <= 100),
            ("seconds", 0 <= self.seconds <= 3_600),
            ("most_seconds", self.seconds <= self.most_seconds <= 3_600),
        )
        _check("(retry policy)", checks)

    @cached_property
    def rules(self) -> RetryRules:
        """What of this policy the machine enforces."""
        return RetryRules(
            tries=self.tries,
            first_wait=int(self.seconds * MICROSECONDS),
            longest_wait=int(self.most_seconds * MICROSECONDS),
        )


DEFAULT_RETRY: Final = RetryPolicy()


@attrs.frozen(kw_only=True, weakref_slot=False)
class Policy:
    """Limits of a run (RUN-009, RUN-011, RUN-018, RUN-019, RUN-022, RUN-025, RUN-026).

    `max_turns` (1 to 10,000) and `max_tool_calls` (0 to 100,000) are soft: `exhaustion` says what follows.
    `max_seconds` (at most 10^9) is one wall clock for the whole run and hard; None says explicitly that there is none.
    `concurrency` (1 to 1,000) bounds the calls of a run that run at once. `tool_seconds` (at most 10^9) bounds each
    call whose tool has no timeout of its own. `result_bytes` (256 to 250,000) bounds each encoded result: the results
    of as many calls as a response may hold, escaped once more, fit into one batch.
    `drain` says how much waiting steering enters at one seam.

    The following are None, for none, or 1 to 10^12. `max_tokens` counts input and output of all model calls and is
    soft. `max_cost` is in millionths of the host's currency and hard: no last turn is asked for. `max_failures` counts
    results in a row that are no success, `max_result_bytes` all results of the run; both are soft. `context_tokens`
    bounds one request: what would exceed it is compacted first, by clearing old results and then by a summary whose
    maker `summarise` names. `retry` says how often a turn is tried. With `run_status` each request ends with a few
    lines about turns and budgets, which are never recorded (RUN-024). `bounded` is the author's word that this agent's
    conversations stay within its model's context by themselves: accepted work wants that, or `context_tokens`.
    """

    max_turns: int = 10
    max_tool_calls: int = 64
    max_seconds: float | None = 600.0
    exhaustion: Exhaustion = "final-answer"
    concurrency: int = 8
    tool_seconds: float = 60.0
    result_bytes: int = 65_536
    drain: Literal["one", "all"] = "all"
    approval: ApprovalPolicy = ASK_AND_DENY
    max_tokens: int | None = None
    max_cost: int | None = None
    max_failures: int | None = None
    max_result_bytes: int | None = None
    context_tokens: int | None = None
    summarise: Summarise = "model"
    retry: RetryPolicy = DEFAULT_RETRY
    run_status: bool = False
    bounded: bool = False

    def __attrs_post_init__(self) -> None:
        counts = (
            ("max_turns", self.max_turns, 1, 10_000),
            ("max_tool_calls", self.max_tool_calls, 0, 100_000),
            ("concurrency", self.concurrency, 1, 1_000),
            ("result_bytes", self.result_bytes, 256, 250_000),
        )
        checks = (
            *((name, type(value) is int and least <= value <= most) for name, value, least, most in counts),
            # An instant so far ahead is still an exact JSON integer.
            ("max_seconds", self.max_seconds is None or 0 < self.max_seconds <= 1e9),
            ("tool_seconds", 0 < self.tool_seconds <= 1e9),
            ("exhaustion", self.exhaustion in ("final-answer", "fail")),
            ("drain", self.drain in ("one", "all")),
            ("summarise", self.summarise in ("model", "host", "never")),
            *((name, _is_count_or_none(getattr(self, name))) for name in _OPTIONAL),
        )
        _check("(policy)", checks)

    @cached_property
    def limits(self) -> Limits:
        """What of this policy the machine enforces."""
        return Limits(
            max_turns=self.max_turns,
            max_tool_calls=self.max_tool_calls,
            exhaustion=self.exhaustion,
            max_tokens=self.max_tokens,
            max_cost=self.max_cost,
            max_failures=self.max_failures,
            max_result_bytes=self.max_result_bytes,
            context_tokens=self.context_tokens,
        )

    def tightened(self, allowance: "Allowance") -> Self:
        """This policy with every limit at the lower of its own and the allowance's (RUN-021)."""
        if allowance is AS_DEFINED:
            return self
        lower = {
            name: given if own is None else min(own, given)
            for name, own, given in (
                (field.name, getattr(self, field.name), getattr(allowance, field.name))
                for field in attrs.fields(Allowance)
            )
            if given is not None
        }
        return attrs.evolve(self, **lower) if lower else self


DEFAULT_POLICY: Final = Policy()


@attrs.frozen(kw_only=True, weakref_slot=False)
class Allowance:
    """Less than an agent's policy allows, for one run. None leaves a limit as it is.

    A value above the policy's changes nothing: an allowance never loosens (RUN-021).
    """

    max_turns: int | None = None
    max_tool_calls: int | None = None
    max_seconds: float | None = None
    max_tokens: int | None = None
    max_cost: int | None = None
    max_failures: int | None = None
    max_result_bytes: int | None = None

    def __attrs_post_init__(self) -> None:
        checks = (
            ("max_turns", _is_count_or_none(self.max_turns)),
            ("max_tool_calls", self.max_tool_calls == 0 or _is_count_or_none(self.max_tool_calls)),
            ("max_seconds", self.max_seconds is None or 0 < self.max_seconds <= 1e9),
            *((name, _is_count_or_none(getattr(self, name))) for name in _OPTIONAL if name != "context_tokens"),
        )
        _check("(allowance)", checks)


AS_DEFINED: Final = Allowance()
