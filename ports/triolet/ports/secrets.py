"""The SecretResolver port: values that are never written down, and the handles that stand for them.

Decides that configuration, records and requests carry a `SecretHandle`, which is only a name, and that the value
behind it lives in a `Secret`, which shows itself to no one but the code that calls `reveal` (SEC-006). It decides not
who may resolve what: that is the authorizer's. Never caches, logs or compares a value.
"""

from typing import Final, NoReturn, Protocol

import attrs

from triolet.ports.errors import Misuse, Unavailable

MAX_SECRET: Final = 65_536
"""Longest value of a secret, in bytes of UTF-8."""


@attrs.frozen(kw_only=True, weakref_slot=False)
class SecretHandle:
    """The name of a secret: 1 to 200 printable ASCII characters, safe in records, logs and spans."""

    name: str

    def __attrs_post_init__(self) -> None:
        if not (0 < len(self.name) <= 200 and self.name.isascii() and self.name.isprintable()):
            raise ValueError("a secret's name is 1 to 200 printable ASCII characters")


class Secret:
    """A resolved value. Printing, formatting, comparing, copying, pickling or serialising it gives no value away.

    `reveal` is the one way to it, to be called where the value is used and nowhere else.
    """

    __slots__ = ("_handle", "_value")

    def __init__(self, handle: SecretHandle, value: str) -> None:
        """`value` is at most `MAX_SECRET` bytes; `ValueError` otherwise."""
        if len(value.encode("utf-8", "surrogatepass")) > MAX_SECRET:
            # A traceback that shows variables shows this one no more.
            del value
            raise ValueError(f"a secret is at most {MAX_SECRET} bytes")
        self._handle = handle
        self._value = value

    @property
    def handle(self) -> SecretHandle:
        """Which secret this is."""
        return self._handle

    def reveal(self) -> str:
        """The value itself."""
        return self._value

    def __repr__(self) -> str:
        return f"Secret({self._handle.name!r})"

    def __format__(self, specification: str) -> str:
        return repr(self)

    def __getstate__(self) -> NoReturn:
        raise TypeError("a secret has no state to be stored; resolve its handle again where it is needed")

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("a secret is not pickled or copied; resolve its handle again where it is needed")


@attrs.define(kw_only=True)
class SecretMissing(Misuse):
    """Nothing is bound to this handle here."""

    handle: SecretHandle

    @property
    def message(self) -> str:
        """Which handle."""
        return f"no secret is bound to {self.handle.name!r}"


@attrs.define(kw_only=True)
class SecretRefused(Misuse):
    """There is something, and it cannot serve: too long, not text, or open to other users of the machine."""

    handle: SecretHandle
    problem: str

    @property
    def message(self) -> str:
        """Which handle, and what is wrong, without the value."""
        return f"secret {self.handle.name!r}: {self.problem}"


@attrs.define(kw_only=True)
class SecretsUnavailable(Unavailable):
    """The source of secrets did not answer."""

    handle: SecretHandle
    problem: str

    @property
    def message(self) -> str:
        """Which handle, and what is wrong."""
        return f"secret {self.handle.name!r} cannot be resolved: {self.problem}"


class SecretResolver(Protocol):
    """Where secrets come from.

    Lifetime: opened and closed by the host; one value serves many runs. Emits: nothing; not even a handle's name.
    (CAP-001)
    """

    async def resolve(self, handle: SecretHandle) -> Secret:
        """Does: fetch the value that stands behind a handle, now; it may have changed since the last time.

        Atomicity: one whole value. Idempotency: reads. Ordering: none. Cancellation: nothing changed.
        Raises: `SecretMissing`, `SecretRefused`, `SecretsUnavailable`. (SEC-006, SEC-013)
        """
        ...
