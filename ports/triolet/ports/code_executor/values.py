"""What is asked of a code executor and what it says: values, each with a codec.

Decides every bound of a pass and the form of what crosses into it and out of it. Nothing here can hold a handler, a
service, a client or a secret: the live side is the host, which is no value. (CAP-015, SEC-013, SEC-014)
"""

import re
from typing import Annotated, Any, Final, Literal

import attrs

from triolet.ports.schema import Ge, Gt, Le, MaxItems, MaxLength, Pattern
from triolet.ports.strict_json import JsonText, JsonValue

MAX_BINDINGS: Final = 256
"""Namespaces of one pass, and names in one namespace."""

_IDENTIFIER: Final = r"^[A-Za-z_][A-Za-z0-9_]{0,99}$"

LimitName = Literal[
    "source-bytes",
    "cpu-seconds",
    "wall-seconds",
    "memory-bytes",
    "output-bytes",
    "result-bytes",
    "calls",
    "argument-bytes",
    "call-result-bytes",
    "stack",
]
"""What a pass can run into. `stack` is the executor's own bound on recursion; the others are the request's."""


def _within(low: float, high: float) -> Any:
    return [attrs.validators.ge(low), attrs.validators.le(high)]


@attrs.frozen(kw_only=True, weakref_slot=False)
class CodeLimits:
    """The bounds of one pass. Each is kept by the executor, or refused by its `check` before anything starts.

    `cpu_seconds` is the processor time of the program, `wall_seconds` the whole pass with its tool calls.
    `memory_bytes` bounds all that the program can hold. `output_bytes` is what its logs may take (what is beyond is
    counted, not kept), `result_bytes` its value or what it threw, both in UTF-8. `calls` is how many tool calls it
    may make, `argument_bytes` and `call_result_bytes` bound each of them. Raises `ValueError` outside of these
    bounds; nothing is unlimited. (SEC-013)
    """

    source_bytes: Annotated[int, Ge(1), Le(1 << 20)] = attrs.field(default=64 * 1024, validator=_within(1, 1 << 20))
    cpu_seconds: Annotated[float, Gt(0), Le(600)] = attrs.field(default=2.0, validator=_within(0.001, 600))
    wall_seconds: Annotated[float, Gt(0), Le(86_400)] = attrs.field(default=60.0, validator=_within(0.001, 86_400))
    memory_bytes: Annotated[int, Ge(1), Le(1 << 31)] = attrs.field(default=64 << 20, validator=_within(1, 1 << 31))
    output_bytes: Annotated[int, Ge(0), Le(1 << 24)] = attrs.field(default=16 * 1024, validator=_within(0, 1 << 24))
    result_bytes: Annotated[int, Ge(4), Le(1 << 24)] = attrs.field(default=64 * 1024, validator=_within(4, 1 << 24))
    calls: Annotated[int, Ge(0), Le(100_000)] = attrs.field(default=100, validator=_within(0, 100_000))
    argument_bytes: Annotated[int, Ge(2), Le(1 << 24)] = attrs.field(default=64 * 1024, validator=_within(2, 1 << 24))
    call_result_bytes: Annotated[int, Ge(4), Le(1 << 24)] = attrs.field(
        default=256 * 1024, validator=_within(4, 1 << 24)
    )


def _check_names(_: object, field: "attrs.Attribute[Any]", value: str | tuple[str, ...]) -> None:
    names = (value,) if isinstance(value, str) else value
    if len(names) > MAX_BINDINGS or len(set(names)) < len(names):
        raise ValueError(f"{field.name}: at most {MAX_BINDINGS} distinct names")
    for name in names:
        if not re.fullmatch(_IDENTIFIER[1:-1], name):
            raise ValueError(f"{field.name}: a name is a letter or _, then up to 99 of A-Z a-z 0-9 _")


@attrs.frozen(kw_only=True, weakref_slot=False)
class Binding:
    """One global object of the program: a namespace and the names of the functions in it."""

    namespace: Annotated[str, Pattern(_IDENTIFIER)] = attrs.field(validator=_check_names)
    names: Annotated[tuple[Annotated[str, Pattern(_IDENTIFIER)], ...], MaxItems(MAX_BINDINGS)] = attrs.field(
        validator=_check_names
    )


def _check_bindings(_: object, __: object, bindings: tuple[Binding, ...]) -> None:
    namespaces = [binding.namespace for binding in bindings]
    if len(namespaces) > MAX_BINDINGS or len(set(namespaces)) < len(namespaces):
        raise ValueError(f"bindings: at most {MAX_BINDINGS} distinct namespaces")


@attrs.frozen(kw_only=True, weakref_slot=False)
class CodeExecutionRequest:
    """One pass: the program, what it may call, and its bounds.

    `source` is one async function expression in JavaScript; it is called without arguments. With `untrusted`, as
    for anything that a model wrote, only an executor that isolates may run it (SEC-010).
    """

    source: str
    bindings: Annotated[tuple[Binding, ...], MaxItems(MAX_BINDINGS)] = attrs.field(
        default=(), validator=_check_bindings
    )
    limits: CodeLimits = CodeLimits()
    untrusted: bool = True


@attrs.frozen(kw_only=True, weakref_slot=False)
class Spent:
    """What a pass used. Seconds; `calls` are the tool calls that reached the host."""

    calls: int = 0
    cpu_seconds: float = 0.0
    wall_seconds: float = 0.0


@attrs.frozen(kw_only=True, weakref_slot=False)
class Returned:
    """The program's promise was fulfilled. `value` is JSON; nothing at all counts as null."""

    kind: Literal["returned"] = "returned"
    value: JsonText


@attrs.frozen(kw_only=True, weakref_slot=False)
class Threw:
    """The program threw. `text` is how it describes itself: text that an untrusted program chose."""

    kind: Literal["threw"] = "threw"
    text: str


@attrs.frozen(kw_only=True, weakref_slot=False)
class CodeExecutionResult:
    """How a pass ended, what it logged, what it used, and which implementation says so.

    `dropped` counts the characters that its logs lost to their bound.
    """

    ending: Returned | Threw
    logs: str
    dropped: int
    spent: Spent
    implementation: str


@attrs.frozen(kw_only=True, weakref_slot=False)
class HostCall:
    """What a program wants: a bound name and an argument in JSON. Who calls and under which identity is the host's."""

    namespace: str
    name: str
    arguments: JsonText


@attrs.frozen(kw_only=True, weakref_slot=False)
class FailureEnvelope:
    """Why a call rejects inside the program. Never an exception, a traceback, a service or a secret.

    `tag` is the kind of the tool's outcome, or `refused` where the executor or the host would not make the call.
    `payload` is a declared failure's fields; `type` its name.
    """

    tag: Literal["rejected", "invalid-input", "failure", "defect", "unknown", "refused"]
    reason: Annotated[str, MaxLength(100)]
    message: Annotated[str, MaxLength(2_000)]
    type: Annotated[str, MaxLength(200)] | None = None
    payload: JsonValue = None


@attrs.frozen(kw_only=True, weakref_slot=False)
class HostResult:
    """The call succeeded; the program gets this value."""

    kind: Literal["result"] = "result"
    value: JsonText


@attrs.frozen(kw_only=True, weakref_slot=False)
class HostFailure:
    """The call rejects inside the program, which may catch it and go on."""

    kind: Literal["failure"] = "failure"
    envelope: FailureEnvelope


HostReply = HostResult | HostFailure
