"""Wrong resolvers of secrets, each right but for one thing."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import trio

from tests.mutants.mutant import Mutant
from triolet.ports.secrets import MAX_SECRET, Secret, SecretHandle, SecretMissing, SecretRefused
from triolet.spec_tests.cases.secret_resolver import SECRET_RESOLVER, SecretSubject
from triolet.spec_tests.subject import Maker

SECRET_MUTANTS: list[Mutant] = []


class Drawer:
    """Secrets in a dictionary."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}

    async def bind(self, name: str, value: bytes) -> SecretHandle:
        """Keep a value."""
        self.kept[name] = value
        return SecretHandle(name=name)

    async def resolve(self, handle: SecretHandle) -> Secret:
        """Give it out."""
        data = self.kept.get(handle.name)
        if data is None:
            raise SecretMissing(handle=handle)
        made = self.secret(handle, data)
        del data
        if isinstance(made, str):
            raise SecretRefused(handle=handle, problem=made)
        return made

    def secret(self, handle: SecretHandle, data: bytes) -> Secret | str:
        """The secret, or what is wrong with it."""
        if len(data) > MAX_SECRET:
            return "too long"
        try:
            return Secret(handle, data.decode())
        except UnicodeDecodeError:
            return "no text"

    def __repr__(self) -> str:
        return "Drawer"


def secret_maker_of(resolver: type[Drawer]) -> Maker:
    """A maker of such resolvers, with every lever."""

    @asynccontextmanager
    async def maker() -> AsyncGenerator[SecretSubject]:
        opened = resolver()
        yield SecretSubject(port=opened, bind=opened.bind)

    return maker


def _breaks(*violates: str) -> Any:
    def decorate(resolver: type[Drawer]) -> type[Drawer]:
        why = (resolver.__doc__ or "").partition("\n")[0].rstrip(".")
        SECRET_MUTANTS.append(
            Mutant(
                name=resolver.__name__,
                why=why,
                violates=violates,
                suite=SECRET_RESOLVER,
                open=secret_maker_of(resolver),
            )
        )
        return resolver

    return decorate


@_breaks("SEC-006")
class TidiesValues(Drawer):
    """White space around a value is no part of it."""

    def secret(self, handle: SecretHandle, data: bytes) -> Secret | str:
        return super().secret(handle, data.strip())


@_breaks("SEC-006")
class RemembersValues(Drawer):
    """A value is what it was when it was asked for first."""

    def __init__(self) -> None:
        super().__init__()
        self._known: dict[SecretHandle, Secret] = {}

    async def resolve(self, handle: SecretHandle) -> Secret:
        if handle not in self._known:
            self._known[handle] = await super().resolve(handle)
        return self._known[handle]


@_breaks("SEC-006")
class GuessesNothing(Drawer):
    """What is not bound is empty."""

    async def resolve(self, handle: SecretHandle) -> Secret:
        return await super().resolve(handle) if handle.name in self.kept else Secret(handle, "")


class _Talkative(Secret):
    __slots__ = ()

    def __repr__(self) -> str:
        return f"Secret({self.reveal()!r})"


@_breaks("SEC-006")
class PrintsValues(Drawer):
    """A secret's text is its value."""

    def secret(self, handle: SecretHandle, data: bytes) -> Secret | str:
        made = super().secret(handle, data)
        return made if isinstance(made, str) else _Talkative(handle, made.reveal())


class _Copied(Secret):
    __slots__ = ()

    def __deepcopy__(self, _: object) -> Secret:
        return Secret(self.handle, self.reveal())


@_breaks("SEC-006")
class LetsCopy(Drawer):
    """A secret can be copied with what holds it."""

    def secret(self, handle: SecretHandle, data: bytes) -> Secret | str:
        made = super().secret(handle, data)
        return made if isinstance(made, str) else _Copied(handle, made.reveal())


@_breaks("SEC-006")
class ReplacesWhatIsNoText(Drawer):
    """Bytes that are no text become question marks."""

    def secret(self, handle: SecretHandle, data: bytes) -> Secret | str:
        return super().secret(handle, data.decode(errors="replace").encode())


@_breaks("SEC-006")
class QuotesWhatIsNoText(Drawer):
    """A refusal comes out of the error that holds the bytes."""

    async def resolve(self, handle: SecretHandle) -> Secret:
        try:
            self.kept.get(handle.name, b"").decode()
        except UnicodeDecodeError:
            raise SecretRefused(handle=handle, problem="no text") from None
        return await super().resolve(handle)


@_breaks("SEC-006", "SEC-013")
class CutsLongValues(Drawer):
    """A value that is too long is cut, without a word."""

    def secret(self, handle: SecretHandle, data: bytes) -> Secret | str:
        return super().secret(handle, data[:MAX_SECRET])


@_breaks("SEC-006")
class ShowsLongValues(Drawer):
    """What is refused is still in a variable of the code that refuses it."""

    async def resolve(self, handle: SecretHandle) -> Secret:
        refused = self.kept.get(handle.name, b"")
        if len(refused) > MAX_SECRET:
            raise SecretRefused(handle=handle, problem="too long")
        return await super().resolve(handle)


class _Comparable(Secret):
    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other.reveal() == self.reveal()

    def __hash__(self) -> int:
        return hash(self.reveal())


@_breaks("SEC-006")
class ComparesValues(Drawer):
    """Two secrets of one value are equal."""

    def secret(self, handle: SecretHandle, data: bytes) -> Secret | str:
        made = super().secret(handle, data)
        return made if isinstance(made, str) else _Comparable(handle, made.reveal())


@_breaks("CAP-001")
class LeavesSecretTasks(Drawer):
    """Every resolution starts a task that outlives the resolver."""

    async def resolve(self, handle: SecretHandle) -> Secret:
        trio.lowlevel.spawn_system_task(trio.sleep_forever)
        return await super().resolve(handle)
