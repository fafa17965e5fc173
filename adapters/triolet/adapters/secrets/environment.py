"""Secrets from environment variables.

Decides that only what the host lists can be resolved: a handle is never taken as the name of a variable. It reads a
variable each time, and keeps nothing.
"""

import os
from collections.abc import Mapping

import trio

from triolet.adapters.secrets.refusals import NO_TEXT, TOO_LONG, text_of
from triolet.ports.secrets import MAX_SECRET, Secret, SecretHandle, SecretMissing, SecretRefused


class EnvironmentSecrets:
    """Secrets by handle: `variables` says which variable stands for which handle's name."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        self._variables = {SecretHandle(name=name): variable for name, variable in variables.items()}

    async def resolve(self, handle: SecretHandle) -> Secret:
        """Read the variable that stands for `handle`."""
        await trio.lowlevel.checkpoint_if_cancelled()
        variable = self._variables.get(handle)
        found = None if variable is None else _read(variable, handle)
        if found is None:
            raise SecretMissing(handle=handle)
        if isinstance(found, str):
            raise SecretRefused(handle=handle, problem=found)
        return found


def _read(variable: str, handle: SecretHandle) -> Secret | str | None:
    # Says what is wrong instead of raising it: a traceback that shows variables would show the value.
    value = os.environ.get(variable)
    if value is None:
        return None
    if len(os.fsencode(value)) > MAX_SECRET:
        return TOO_LONG
    return Secret(handle, value) if text_of(os.fsencode(value)) is not None else NO_TEXT
