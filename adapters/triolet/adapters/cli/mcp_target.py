"""How a command line says where an MCP server is.

Decides that what begins like a URL is one and that anything else is a program with its arguments; and that a secret is
named by the environment variable that holds it, so that its value is in no command line (SEC-006). It opens nothing.
"""

import shlex
from collections.abc import Sequence

import attrs

from triolet.adapters.cli.commands import CommandFailed
from triolet.adapters.mcp import HttpServer, InvalidMcpServer, McpServer, StdioServer, WebSocketServer
from triolet.adapters.secrets import EnvironmentSecrets
from triolet.ports.secrets import SecretHandle

MISUSED = 2


@attrs.frozen(kw_only=True, weakref_slot=False)
class Target:
    """A server, and who resolves the secrets that it names."""

    server: McpServer
    secrets: EnvironmentSecrets


def read_target(words: Sequence[str], headers: Sequence[str] = (), env: Sequence[str] = ()) -> Target:
    """The target in these words. Raises `CommandFailed`."""
    if len(words) == 1 and " " in words[0]:
        words = _split(words[0])
    url = words[0] if words else ""
    scheme = url.partition("://")[0].lower() if "://" in url else ""
    given = dict(_pair(text, "--header") for text in headers)
    variables = dict(_pair(text, "--env") for text in env)
    secrets = {value.name: value.name for value in (*given.values(), *variables.values()) if not isinstance(value, str)}
    try:
        if scheme in ("http", "https", "ws", "wss"):
            _refuse(len(words) > 1, "a URL stands alone")
            _refuse(bool(env), "--env goes with a program, not with a URL")
            made: McpServer = (
                HttpServer(url=url, headers=given) if "http" in scheme else WebSocketServer(url=url, headers=given)
            )
        else:
            _refuse(bool(headers), "--header goes with a URL, not with a program")
            made = StdioServer(command=tuple(words), env=variables)
    except InvalidMcpServer as error:
        raise CommandFailed(error.message, MISUSED) from error
    return Target(server=made, secrets=EnvironmentSecrets(secrets))


def _split(line: str) -> list[str]:
    try:
        return shlex.split(line)
    except ValueError as error:
        raise CommandFailed(f"the command cannot be read: {error}", MISUSED) from error


def _pair(text: str, option: str) -> tuple[str, str | SecretHandle]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise CommandFailed(f"{option} takes NAME=VALUE, or NAME=$VARIABLE for a secret", MISUSED)
    if value.startswith("$") and len(value) > 1:
        try:
            return name, SecretHandle(name=value[1:])
        except ValueError as error:
            raise CommandFailed(f"{option}: {error}", MISUSED) from error
    return name, value


def _refuse(wrong: bool, line: str) -> None:
    if wrong:
        raise CommandFailed(line, MISUSED)
