"""Secrets from environment variables.

Decides that only what the host lists can be resolved: a handle is never taken as the name of a variable. It reads a
variable each time, and keeps nothing.
"""

import os
from collections.abc import Mapping

import trio

from triolet.ports.secrets import MAX_SECRET, Secret, SecretHandle, SecretMissing, SecretRefused


class EnvironmentSecrets:
    """Secrets by handle: `variables` says which variable stands for which handle's name."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        self._variables = {SecretHandle(name=name): variable for name, variable in variables.items()}

    async def resolve(self, handle: SecretHandle) -> Secret:
        """Read the variable that stands for `handle`."""
        await trio.lowlevel.checkpoint_if_cancelled()
        variable = self._variables.get(handle)
        value = None if variable is None else os.environ.get(variable)
        if value is None:
            raise SecretMissing(handle=handle)
        if len(value.encode("utf-8", "surrogateescape")) > MAX_SECRET:
            raise SecretRefused(handle=handle, problem=f"is longer than {MAX_SECRET} bytes")
        try:
            value.encode()
        except UnicodeEncodeError:
            # Not chained: the error would carry the value.
            raise SecretRefused(handle=handle, problem="is no UTF-8 text") from None
        return Secret(handle, value)
