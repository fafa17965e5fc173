"""A resolver that knows one secret.

Decides nothing else.
"""

import trio

from triolet.ports.secrets import Secret, SecretHandle, SecretMissing


class OneSecret:
    """Implements `triolet.ports.secrets.SecretResolver`."""

    def __init__(self, handle: SecretHandle, value: str) -> None:
        self._handle = handle
        self._value = value

    async def resolve(self, handle: SecretHandle) -> Secret:
        """The one, or `SecretMissing`."""
        await trio.lowlevel.checkpoint()
        if handle != self._handle:
            raise SecretMissing(handle=handle)
        return Secret(handle, self._value)
