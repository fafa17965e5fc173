"""PolicyDesk: ordered rules that say yes or no at once, or leave a request to another desk.

Decides which rule speaks for a request: the first whose condition holds, else what the host said for all others. Every
answer names its rule and is bound to the arguments that were shown. It never waits by itself and remembers nothing.
(APPR-001, APPR-003)
"""

from collections.abc import Iterable
from typing import Final, Literal

import attrs
import trio

from triolet.adapters.call_rules import Calls, InvalidRule, check_rule
from triolet.ports.approval import Approval, ApprovalRequest, Decision, Pending
from triolet.ports.identity import Principal, RequestId

Outcome = Literal["approve", "deny", "ask"]
"""What a rule says: yes, no, or that the next desk decides."""

_EFFECTS: Final[dict[str, Literal["allows", "denies", "asks"]]] = {"approve": "allows", "deny": "denies", "ask": "asks"}


@attrs.frozen(kw_only=True, weakref_slot=False)
class ApprovalRule:
    """One rule: `then` is what follows for requests that `when` means. `name` becomes the answer's reason."""

    name: str
    when: Calls
    then: Outcome


class PolicyDesk:
    """A desk by rules; `otherwise` speaks where none does, and `next_desk` answers what is to be asked.

    `name` is the principal in whose name it answers, in the tenant of whoever asks. Another PolicyDesk may be the
    next one.

    Lifetime: a plain value, safe for many tasks; the next desk is the host's to close. Emits: nothing. Idempotency:
    the same rules say the same again. Cancellation, and `ApprovalUnavailable`: as the next desk does. Raises
    `InvalidRule` when it is made, also if something is to be asked and there is no next desk.
    """

    __slots__ = ("_name", "_next", "_otherwise", "_rules")

    def __init__(
        self,
        rules: Iterable[ApprovalRule],
        *,
        otherwise: Outcome = "deny",
        next_desk: Approval | None = None,
        name: str = "policy",
    ) -> None:
        self._rules = tuple(rules)
        self._otherwise: Outcome = otherwise
        self._next = next_desk
        self._name = name
        if otherwise not in _EFFECTS:
            raise InvalidRule(rule="otherwise", problem="is approve, deny or ask")
        for rule in self._rules:
            if rule.then not in _EFFECTS:
                raise InvalidRule(rule=rule.name, problem="what follows is approve, deny or ask")
            check_rule(rule.name, rule.when, _EFFECTS[rule.then])
            if rule.then == "ask" and next_desk is None:
                raise InvalidRule(rule=rule.name, problem="asks, and there is no next desk")
        if len({rule.name for rule in self._rules}) < len(self._rules):
            raise InvalidRule(rule="", problem="two rules share a name")
        if otherwise == "ask" and next_desk is None:
            raise InvalidRule(rule="otherwise", problem="asks, and there is no next desk")

    async def request(self, request: ApprovalRequest, *, patience: float) -> Decision | Pending:
        """See `Approval.request`. What a rule decides is decided whatever the patience."""
        await trio.lowlevel.checkpoint_if_cancelled()
        outcome, reason = self._judge(request)
        if outcome == "ask" and self._next is not None:
            return await self._next.request(request, patience=patience)
        return Decision(
            verdict="approved" if outcome == "approve" else "denied",
            by=Principal(name=self._name, tenant=request.principal.tenant),
            reason=reason,
            arguments=request.arguments,
        )

    async def withdraw(self, request: RequestId) -> None:
        """See `Approval.withdraw`. Only the next desk can hold a request."""
        await trio.lowlevel.checkpoint_if_cancelled()
        if self._next is not None:
            await self._next.withdraw(request)

    def _judge(self, request: ApprovalRequest) -> tuple[Outcome, str]:
        for rule in self._rules:
            if rule.when.match(
                tool=request.tool, risk=request.risk, targets=request.targets, principal=request.principal
            ):
                return rule.then, f"rule {rule.name}"
        return self._otherwise, "no rule speaks for it"
