"""One command to run, and what is wrong with a request whatever runs it.

Decides which requests are well-formed: the command and its arguments apart, bounded, and only variables that the policy
lists. It resolves no secret and looks at no file. (SEC-006, SEC-013)
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final

import attrs

from triolet.ports.identity import DEFAULT_TENANT, TenantId
from triolet.ports.sandbox.policy import Limits, Policy, Refusal
from triolet.ports.secrets import SecretHandle

MAX_ARGUMENTS: Final = 1_000
MAX_ARGUMENT_BYTES: Final = 100_000
"""All arguments together, in bytes of UTF-8; Linux takes at most 131,072 in one of them."""
MAX_VARIABLES: Final = 200
MAX_PATTERNS: Final = 100

_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}\Z")


@attrs.frozen(kw_only=True, weakref_slot=False)
class SecretVariable:
    """Put the value behind `handle` into the environment variable `variable` of the program, and nowhere else."""

    variable: str
    handle: SecretHandle


@attrs.frozen(kw_only=True, weakref_slot=False)
class SandboxRequest:
    """A command under a policy and limits.

    `argv` is the program and its arguments, never a shell's line. `directory` is where it starts: None for its work
    folder, a relative path below that, or an absolute path. `artifacts` are patterns (``*.csv``, ``out/*``) of plain
    files in the work folder that are collected when the command has ended. Standard input is empty.
    """

    argv: tuple[str, ...]
    policy: Policy
    limits: Limits
    directory: str | None = None
    environment: Mapping[str, str] = attrs.field(factory=dict[str, str])
    secrets: tuple[SecretVariable, ...] = ()
    artifacts: tuple[str, ...] = ()
    tenant: TenantId = DEFAULT_TENANT


def request_refusals(request: SandboxRequest, *, artifacts: bool, secrets: bool) -> Iterator[Refusal]:
    """What no implementation runs. `artifacts` and `secrets` say whether a store and a resolver are bound."""
    if not request.argv or not request.argv[0]:
        yield Refusal(subject="argv", reason="there is no program to run")
    if len(request.argv) > MAX_ARGUMENTS or sum(map(_size, request.argv)) > MAX_ARGUMENT_BYTES:
        yield Refusal(
            subject="argv", reason=f"at most {MAX_ARGUMENTS} arguments with {MAX_ARGUMENT_BYTES} bytes together"
        )
    variables = [*request.environment, *(each.variable for each in request.secrets)]
    if len(variables) > MAX_VARIABLES or sum(map(_size, request.environment.values())) > MAX_ARGUMENT_BYTES:
        yield Refusal(subject="environment", reason="too many variables, or too much in them")
    for variable in variables:
        if not _VARIABLE.match(variable):
            yield Refusal(subject="environment", reason="a variable's name is a letter or _, then letters, digits, _")
        elif variable not in request.policy.environment:
            yield Refusal(subject="environment", reason=f"{variable} is not on the policy's list")
    if len(set(variables)) < len(variables):
        yield Refusal(subject="environment", reason="a variable is set twice")
    if any(not _is_plain(text) for text in (*request.argv, *request.environment.values(), request.directory or "")):
        yield Refusal(subject="argv", reason="arguments, values and paths are valid Unicode without U+0000")
    if request.directory is not None and ".." in request.directory.split("/"):
        yield Refusal(subject="directory", reason="a directory has no '..' in it")
    if request.artifacts and not artifacts:
        yield Refusal(subject="artifacts", reason="no artifact store is bound to this sandbox")
    if len(request.artifacts) > MAX_PATTERNS or any(not _is_inside(pattern) for pattern in request.artifacts):
        yield Refusal(
            subject="artifacts", reason=f"at most {MAX_PATTERNS} patterns, relative to the work folder, without '..'"
        )
    if request.secrets and not secrets:
        yield Refusal(subject="secrets", reason="no secret resolver is bound to this sandbox")


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def _is_plain(text: str) -> bool:
    return "\0" not in text and not any("\ud800" <= character <= "\udfff" for character in text)


def _is_inside(pattern: str) -> bool:
    return bool(pattern) and not pattern.startswith("/") and ".." not in pattern.split("/") and len(pattern) <= 1_000
