"""Authority over one run's calls: who is asked, and what exactly they are shown.

Decides how a call is described to an authorizer and to an approver: normalized targets, a redacted and bounded preview,
the digest of the arguments, the expiry (APPR-001). It decides no answer, and remembers none (SEC-003).
"""

from collections.abc import Iterable
from typing import Any, Final, cast

import attrs

from triolet.kernel.agent import Agent
from triolet.kernel.pipeline.runnable import Runnable
from triolet.kernel.runtime import Runtime
from triolet.ports.approval import ApprovalRequest, request_id
from triolet.ports.authorizer import Allow, AuthorizerUnavailable, CallTool, Deny, Verdict
from triolet.ports.canonical import Digest, digest, encode, encode_text
from triolet.ports.errors import Misuse
from triolet.ports.identity import ConversationId, Instant, after
from triolet.ports.records import RunStarted
from triolet.ports.strict_json import check
from triolet.ports.text import repair
from triolet.ports.tools import Tool

MAX_PREVIEW: Final = 2_000
"""Characters of an input's preview."""
MAX_TARGETS: Final = 100
"""Targets of one call, of up to `MAX_TARGET` characters each."""
MAX_TARGET: Final = 1_000

_ALLOW: Final = Allow()


@attrs.define(kw_only=True)
class InvalidTargets(Misuse):
    """A tool's `targets` gave something that is no bounded set of texts. The call does not run."""

    tool: str

    @property
    def message(self) -> str:
        """Which tool."""
        return f"targets of tool {self.tool!r} must be at most {MAX_TARGETS} texts of up to {MAX_TARGET} characters"


class Authority:
    """Who has a say about the calls of one run."""

    def __init__(
        self, runtime: Runtime, agent: Agent[Any, Any], started: RunStarted, conversation: ConversationId
    ) -> None:
        self._runtime = runtime
        self._agent = agent
        self._started = started
        self._conversation = conversation

    async def authorize(self, call: Runnable) -> Verdict:
        """Ask the bound authorizer, if there is one, on the run's own authority."""
        authorizer = self._runtime.capabilities.authorizer
        if authorizer is None:
            return _ALLOW
        action = CallTool(
            run=self._started.run,
            conversation=self._conversation,
            agent=self._agent.id,
            call=call.call.id,
            tool=call.tool.name,
            execution=call.tool.execution,
            risk=call.tool.risk,
            targets=_targets(call),
            arguments=_arguments(call),
            origin=call.tool.origin,
        )
        try:
            return await authorizer.authorize(action, self._started.principal)
        except AuthorizerUnavailable as error:
            return Deny(reason=error.message)

    def must_ask(self, call: Runnable) -> bool:
        """Whether the tool itself wants a yes for this input."""
        needed = call.tool.needs_approval
        return needed(call.input) if callable(needed) else needed

    def request(self, call: Runnable) -> ApprovalRequest:
        """What an approver is shown of this call."""
        policy, now = self._agent.policy.approval, self._runtime.clock.now()
        own = None if policy.seconds is None else after(now, policy.seconds)
        return ApprovalRequest(
            id=request_id(call.call.id),
            run=self._started.run,
            conversation=self._conversation,
            agent=self._agent.id,
            call=call.call.id,
            tool=call.tool.name,
            principal=self._started.principal,
            summary=f"{self._agent.id} wants to run {call.tool.name}",
            targets=_targets(call),
            risk=call.tool.risk,
            preview=_preview(call),
            arguments=_arguments(call),
            expires_at=_earlier(own, self._started.deadline),
            denial=policy.denial,
        )


def may_need_a_say(runtime: Runtime, agent: Agent[Any, Any]) -> bool:
    """Whether anybody could have a say about any call of this agent; if not, judging needs no waiting."""
    return (
        runtime.capabilities.authorizer is not None
        or bool(agent.sources)
        or any(tool.needs_approval is not False for tool in agent.toolkit)
    )


def _targets(call: Runnable) -> tuple[str, ...]:
    tool: Tool[Any, Any] = call.tool
    if tool.targets is None:
        return ()
    given = cast("Iterable[object]", tool.targets(call.input))
    named = tuple(given)
    texts = sorted({repair(target) for target in named if isinstance(target, str) and len(target) <= MAX_TARGET})
    if (
        isinstance(given, str)
        or len(named) > MAX_TARGETS
        or not all(isinstance(target, str) and len(target) <= MAX_TARGET for target in named)
    ):
        raise InvalidTargets(tool=tool.name)
    return tuple(texts)


def _arguments(call: Runnable) -> Digest:
    # Of the decoded input: key order, spacing and defaults left out make no other arguments.
    return digest("triolet.arguments", encode(call.tool.input.encode(call.input)))


def _preview(call: Runnable) -> str:
    encoded = call.tool.input.encode(call.input)
    if call.tool.redact is not None:
        encoded = call.tool.redact(encoded)
        check(encoded)
    text = encode_text(encoded)
    return text if len(text) <= MAX_PREVIEW else f"{text[:MAX_PREVIEW]}… ({len(text)} characters)"


def _earlier(one: Instant | None, other: Instant | None) -> Instant | None:
    if one is None or other is None:
        return one if other is None else other
    return min(one, other)
