"""Every operation of every bound port, observed by one wrapper.

Decides, from the fields of `Capabilities` and the protocols that they name, which operations there are: each coroutine
of a port, and each scope that one opens. Operations that cannot wait (a clock's, a price's) are not observed. The
wrapper changes no argument, no result and no error; whatever else an adapter offers is reached through it.
"""

import inspect
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from functools import cache
from types import TracebackType
from typing import Any, Final, Literal, get_args, get_origin, get_type_hints

import attrs

from triolet.kernel.telemetry.described import (
    CONVERSATION,
    RESOURCE,
    TENANT,
    content_of,
    told_of_argument,
    told_of_result,
)
from triolet.kernel.telemetry.endings import WELL, ending_of
from triolet.kernel.telemetry.otel import Attributes, Backend, Current, OpenSpan
from triolet.kernel.telemetry.scope import scope_attributes
from triolet.ports.capabilities import Capabilities
from triolet.ports.language_model import LanguageModel

VERSIONS: Final[Mapping[str, int]] = {}
"""The version of a port's contract where it is not 1."""

TRIED: Final = 1_000
"""Resources whose failed operations are remembered, so that a retry can be told as one."""


@attrs.frozen(weakref_slot=False)
class Operation:
    """One operation of one port, as telemetry names it."""

    capability: str
    port: str
    name: str
    kind: Literal["call", "scope"]
    parameters: tuple[str, ...]

    @property
    def span(self) -> str:
        """The span's name."""
        return f"triolet.{self.capability}.{self.name}"

    @property
    def labels(self) -> Attributes:
        """What metrics say of it, and spans too."""
        return {"triolet.operation.name": f"{self.port}.{self.name}"}

    @property
    def version(self) -> int:
        """The version of the port's contract."""
        return VERSIONS.get(self.port, 1)


class _Tries:
    """How often operations on a resource were begun and did not end well: the next one is that retry."""

    __slots__ = ("_counts",)

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def before(self, key: str | None) -> int:
        """How many tries there were already."""
        return 0 if key is None else self._counts.get(key, 0)

    def ended(self, key: str | None, *, well: bool) -> None:
        """Note how one ended. Only the last `TRIED` resources are remembered."""
        if key is None:
            return
        count = self._counts.pop(key, 0)
        if not well:
            self._counts[key] = count + 1
            if len(self._counts) > TRIED:
                del self._counts[next(iter(self._counts))]


@attrs.frozen(eq=False, weakref_slot=False)
class Observed:
    """One operation under way."""

    operation: Operation
    backend: Backend
    span: OpenSpan
    content_limit: int | None
    tries: "_Tries"
    key: str | None

    @property
    def current(self) -> Current:
        """The scope in which the adapter works."""
        return self.span.current

    def returned(self, result: object) -> None:
        """Tell what came of it, and end."""
        if self.span.recording:
            self.span.tell(told_of_result(result))
            if self.content_limit is not None:
                self.span.tell(content_of(result, self.content_limit))
        self.ended(None)

    def ended(self, error: BaseException | None) -> None:
        """End, by this exception if there is one."""
        ending = ending_of(error)
        self.tries.ended(self.key, well=ending is WELL)
        seconds = self.span.end(ending)
        labels = self.operation.labels | ending.labels
        self.backend.seconds.record(seconds, labels)
        if ending.outcome == "failed":
            self.backend.failures.add(1, labels)


class ObservedPort:
    """An adapter, each of whose operations is observed. The classes for the ports are made from their protocols."""

    def __init__(self, adapter: object, backend: Backend, content_limit: int | None) -> None:
        self._adapter = adapter
        self._backend = backend
        self._content_limit = content_limit
        self._tries = _Tries()

    def __getattr__(self, attribute: str) -> object:
        # What the port does not name, or what cannot wait.
        return getattr(self._adapter, attribute)

    @classmethod
    def for_operations(cls, port: str, operations: tuple[Operation, ...]) -> type["ObservedPort"]:
        """The class that observes these operations."""
        members = {
            operation.name: cls._calling(operation) if operation.kind == "call" else cls._opening(operation)
            for operation in operations
        }
        return type(f"Observed{port}", (cls,), members)

    @staticmethod
    def _calling(operation: Operation) -> object:
        async def call(self: ObservedPort, *arguments: object, **named: object) -> object:
            observed = self._begin(operation, arguments, named)
            try:
                with observed.current:
                    result: object = await getattr(self._adapter, operation.name)(*arguments, **named)
            except BaseException as error:
                observed.ended(error)
                raise
            observed.returned(result)
            return result

        return call

    @staticmethod
    def _opening(operation: Operation) -> object:
        def open_scope(self: ObservedPort, *arguments: object, **named: object) -> object:
            opened = getattr(self._adapter, operation.name)(*arguments, **named)
            return _ObservedScope(lambda: self._begin(operation, arguments, named), opened)

        return open_scope

    def _begin(self, operation: Operation, arguments: tuple[object, ...], named: Mapping[str, object]) -> Observed:
        told: Attributes = {
            **operation.labels,
            "triolet.operation.version": operation.version,
            **scope_attributes(),
        }
        for parameter, value in (*zip(operation.parameters, arguments, strict=False), *named.items()):
            told |= told_of_argument(parameter, value)
            if self._content_limit is not None:
                told |= content_of(value, self._content_limit)
        resource = told.get(RESOURCE, told.get(CONVERSATION))
        key = None if resource is None else f"{operation.name} {told.get(TENANT)} {resource}"
        retries = told["triolet.retry.count"] = self._tries.before(key)
        if retries:
            self._backend.retries.add(1, operation.labels)
        span = self._backend.begin(operation.span, "internal", told)
        return Observed(operation, self._backend, span, self._content_limit, self._tries, key)


class _ObservedScope(AbstractAsyncContextManager[Any]):
    """A scope that an operation opens. Its body belongs to the caller: the span is current in the adapter only."""

    def __init__(self, begin: Callable[[], Observed], opened: AbstractAsyncContextManager[Any]) -> None:
        self._begin = begin
        self._opened = opened
        self._observed: Observed | None = None

    async def __aenter__(self) -> Any:
        self._observed = observed = self._begin()
        try:
            with observed.current:
                return await self._opened.__aenter__()
        except BaseException as error:
            observed.ended(error)
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        observed = self._observed
        if observed is None:
            raise AssertionError("a scope is entered before it is left")
        try:
            with observed.current:
                handled = await self._opened.__aexit__(kind, error, trace)
        except BaseException as raised:
            observed.ended(raised)
            raise
        observed.ended(None if handled else error)
        return handled


def observe(capabilities: Capabilities, backend: Backend, content_limit: int | None) -> Capabilities:
    """The same capabilities, observed; a model is not among them, since runs may bring their own."""
    observed = {
        capability: observed_port(capability, protocol, adapter, backend, content_limit)
        for capability, protocol in ports_of(Capabilities).items()
        if protocol is not LanguageModel and (adapter := getattr(capabilities, capability)) is not None
    }
    return attrs.evolve(capabilities, **observed)


def observed_port(capability: str, protocol: type, adapter: object, backend: Backend, content_limit: int | None) -> Any:
    """`adapter`, observed as an adapter of `protocol`; itself where no operation of the port can wait."""
    if not operations_of(capability, protocol):
        return adapter
    return _observed_class(capability, protocol)(adapter, backend, content_limit)


@cache
def ports_of(capabilities: type) -> Mapping[str, type]:
    """The protocol behind each field."""
    hints = get_type_hints(capabilities)
    return {
        field.name: next(kind for kind in get_args(hints[field.name]) if kind is not type(None))
        for field in attrs.fields(capabilities)
    }


@cache
def operations_of(capability: str, protocol: type) -> tuple[Operation, ...]:
    """The operations of a port that can wait."""
    found: list[Operation] = []
    for member, function in sorted(inspect.getmembers(protocol, inspect.isfunction)):
        if member.startswith("_"):
            continue
        kind = _kind_of(function)
        if kind is not None:
            parameters = tuple(inspect.signature(function).parameters)[1:]
            found.append(Operation(capability, protocol.__name__, member, kind, parameters))
    return tuple(found)


def _kind_of(function: Any) -> Literal["call", "scope"] | None:
    if inspect.iscoroutinefunction(function):
        return "call"
    returned = get_type_hints(function).get("return")
    return "scope" if get_origin(returned) is AbstractAsyncContextManager else None


@cache
def _observed_class(capability: str, protocol: type) -> type[ObservedPort]:
    return ObservedPort.for_operations(protocol.__name__, operations_of(capability, protocol))
