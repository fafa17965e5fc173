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
from typing import Any, Literal, cast, get_args, get_origin, get_type_hints

import attrs

from triolet.kernel.telemetry.described import (
    CONVERSATION,
    RESOURCE,
    TENANT,
    content_of,
    told_of_argument,
)
from triolet.kernel.telemetry.observed import Observed, Operation, Tries
from triolet.kernel.telemetry.otel import Attributes, Backend
from triolet.kernel.telemetry.scope import scope_attributes
from triolet.ports.capabilities import Capabilities
from triolet.ports.language_model import LanguageModel


class ObservedPort:
    """An adapter, each of whose operations is observed. The classes for the ports are made from their protocols."""

    def __init__(self, adapter: object, backend: Backend, content_limit: int | None) -> None:
        self._adapter = adapter
        self._backend = backend
        self._content_limit = content_limit
        self._tries = Tries()

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
    observed: dict[str, Any] = {}
    for capability, protocol in ports_of(Capabilities).items():
        bound = getattr(capabilities, capability)
        if protocol is LanguageModel or bound is None:
            continue
        if isinstance(bound, tuple):
            several = cast("tuple[object, ...]", bound)
            observed[capability] = tuple(
                observed_port(capability, protocol, each, backend, content_limit) for each in several
            )
        else:
            observed[capability] = observed_port(capability, protocol, bound, backend, content_limit)
    return attrs.evolve(capabilities, **observed)


def observed_port(capability: str, protocol: type, adapter: object, backend: Backend, content_limit: int | None) -> Any:
    """`adapter`, observed as an adapter of `protocol`; itself where no operation of the port can wait."""
    if not operations_of(capability, protocol):
        return adapter
    return _observed_class(capability, protocol)(adapter, backend, content_limit)


@cache
def ports_of(capabilities: type) -> Mapping[str, type]:
    """The protocol behind each field, also where it takes several of a kind."""
    hints = get_type_hints(capabilities)
    found: dict[str, type] = {}
    for field in attrs.fields(capabilities):
        kind: Any = next(kind for kind in get_args(hints[field.name]) if kind is not type(None))
        found[field.name] = get_args(kind)[0] if get_origin(kind) is tuple else kind
    return found


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
