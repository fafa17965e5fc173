"""What a host makes of a server's tools: which it offers, and how far it believes what the server says of them.

Decides by patterns over a tool's own name. What a server says about itself counts only where the host trusts it: a tool
is `uncertain` unless its annotations *and* this policy say otherwise (CAP-009). It decides no call: that is for the
kernel's authorizer and approver.
"""

from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Any, Final

import attrs

from triolet.adapters.mcp.errors import InvalidMcpServer
from triolet.ports.strict_json import JsonValue
from triolet.ports.tools import ExecutionClass, Risk


def _check_patterns(_: object, attribute: "attrs.Attribute[Any]", patterns: tuple[str, ...]) -> None:
    if isinstance(patterns, str) or not all(isinstance(pattern, str) and pattern for pattern in patterns):
        raise InvalidMcpServer(problem=f"{attribute.name} is a tuple of patterns that are not empty")


@attrs.frozen(kw_only=True, weakref_slot=False)
class McpPolicy:
    """A host's word on one server's tools, by patterns (``*``, ``?``, ``[ab]``) over their own names.

    Offered is what `allow` names and `deny` does not; the others are set aside. Of tools in `trust_hints` the server's
    annotations are believed: one that says that it only reads is `readonly`, one that says that it may be repeated is
    `idempotent`. `ask` needs an approval for each call. `risk` is what an approver is told of a tool that is not
    readonly. `group` is a concurrency group of the host's; `redact` maps arguments and results to what may be recorded.
    """

    allow: tuple[str, ...] = attrs.field(default=("*",), validator=_check_patterns)
    deny: tuple[str, ...] = attrs.field(default=(), validator=_check_patterns)
    trust_hints: tuple[str, ...] = attrs.field(default=(), validator=_check_patterns)
    ask: tuple[str, ...] = attrs.field(default=(), validator=_check_patterns)
    risk: Risk = "medium"
    group: str | None = None
    redact: Callable[[JsonValue], JsonValue] | None = None

    @property
    def requires(self) -> frozenset[str]:
        """The capabilities that tools under this policy may need (CAP-002)."""
        asking = {"approval", "inbox"} if self.ask else set[str]()
        return frozenset(asking if self.group is None else asking | {f"group {self.group}"})

    def offers(self, name: str) -> bool:
        """Whether the host offers this tool at all."""
        return _fits(name, self.allow) and not _fits(name, self.deny)

    def asks(self, name: str) -> bool:
        """Whether each call of this tool needs an approval."""
        return _fits(name, self.ask)

    def execution(self, name: str, annotations: dict[str, object]) -> ExecutionClass:
        """What repeating a call may do, as far as anybody who is believed has said so."""
        if not _fits(name, self.trust_hints):
            return "uncertain"
        if annotations.get("readOnlyHint") is True:
            return "readonly"
        return "idempotent" if annotations.get("idempotentHint") is True else "uncertain"


DEFAULT_POLICY: Final = McpPolicy()


def _fits(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
