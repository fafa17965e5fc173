"""@tool: a Tool made from a function's signature and docstring.

Decides how a function is read: its parameters are the input's fields, or its one attrs parameter is the input; the
return annotation is the output; the docstring is the description; a parameter annotated `ToolContext` gets the
context. It runs nothing, and refuses at decoration what it cannot read.
"""

import inspect
from collections.abc import Callable, Iterable
from typing import Any, get_type_hints, overload

import attrs

from triolet.ports.schema import Codec, codec_for
from triolet.ports.strict_json import JsonValue
from triolet.ports.tool_context import ToolContext
from triolet.ports.tools import ExecutionClass, InvalidTool, Risk, Tool


@overload
def tool(function: Callable[..., Any], /) -> Tool[Any, Any]: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    execution: ExecutionClass = "uncertain",
    risk: Risk = "medium",
    failures: Iterable[type[Exception]] = (),
    needs_approval: bool | Callable[[Any], bool] = False,
    targets: Callable[[Any], tuple[str, ...]] | None = None,
    timeout: float | None = None,
    group: str | None = None,
    redact: Callable[[JsonValue], JsonValue] | None = None,
    requires: Iterable[str] = (),
) -> Callable[[Callable[..., Any]], Tool[Any, Any]]: ...
def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    execution: ExecutionClass = "uncertain",
    risk: Risk = "medium",
    failures: Iterable[type[Exception]] = (),
    needs_approval: bool | Callable[[Any], bool] = False,
    targets: Callable[[Any], tuple[str, ...]] | None = None,
    timeout: float | None = None,
    group: str | None = None,
    redact: Callable[[JsonValue], JsonValue] | None = None,
    requires: Iterable[str] = (),
) -> Tool[Any, Any] | Callable[[Callable[..., Any]], Tool[Any, Any]]:
    """Make a tool of a function, plain (run in a bounded thread) or async (run in a task of the run).

    With one parameter whose type is an attrs class, that class is the input. Otherwise every parameter is a field of
    the input, with its annotation, default and `Annotated` constraints. A parameter annotated `ToolContext` is not
    part of the input. Unannotated or variadic parameters, and a missing return annotation, are refused. `failures`
    are attrs exception classes that the handler may raise as part of its contract. The other arguments are those of
    `Tool`. Raises `InvalidTool`, `UnrenderableSchema` (CAP-004, SEC-005).
    """

    def decorate(decorated: Callable[..., Any]) -> Tool[Any, Any]:
        own = name or decorated.__name__
        signature = _read(own, decorated)
        return Tool(
            name=own,
            description=inspect.getdoc(decorated) or "" if description is None else description,
            input=signature.input,
            output=signature.output,
            handler=signature.handler,
            threaded=not inspect.iscoroutinefunction(decorated),
            failures={failure: _failure_codec(own, failure) for failure in failures},
            execution=execution,
            risk=risk,
            needs_approval=needs_approval,
            targets=targets,
            timeout=timeout,
            group=group,
            redact=redact,
            requires=frozenset(requires),
        )

    return decorate if function is None else decorate(function)


@attrs.frozen(kw_only=True, weakref_slot=False)
class _Signature:
    input: Codec[Any]
    output: Codec[Any]
    handler: Callable[[Any, ToolContext], Any]


def _read(name: str, function: Callable[..., Any]) -> _Signature:
    if inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
        raise InvalidTool(tool=name, problem="a generator function is no tool; return the whole result")
    hints = get_type_hints(function, include_extras=True)
    if "return" not in hints:
        raise InvalidTool(tool=name, problem="its return type is not annotated")
    context: str | None = None
    fields: dict[str, inspect.Parameter] = {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise InvalidTool(tool=name, problem=f"parameter {parameter.name!r} cannot be passed by name")
        if parameter.name not in hints:
            raise InvalidTool(tool=name, problem=f"parameter {parameter.name!r} is not annotated")
        if hints[parameter.name] is ToolContext:
            if context is not None:
                raise InvalidTool(tool=name, problem="two parameters want the context")
            context = parameter.name
        else:
            fields[parameter.name] = parameter
    output = codec_for(hints["return"])
    sole = next(iter(fields)) if len(fields) == 1 else None
    if sole is not None and attrs.has(hints[sole]):
        return _Signature(input=codec_for(hints[sole]), output=output, handler=_by_value(function, sole, context))
    record = attrs.make_class(
        f"{name}_input",
        {
            field: attrs.field(
                type=hints[field],
                default=attrs.NOTHING if parameter.default is parameter.empty else parameter.default,
            )
            for field, parameter in fields.items()
        },
        frozen=True,
        kw_only=True,
        slots=True,
    )
    return _Signature(input=codec_for(record), output=output, handler=_by_fields(function, tuple(fields), context))


def _by_value(function: Callable[..., Any], sole: str, context: str | None) -> Callable[[Any, ToolContext], Any]:
    def handler(value: Any, given: ToolContext) -> Any:
        arguments = {sole: value}
        if context is not None:
            arguments[context] = given
        return function(**arguments)

    return handler


def _by_fields(
    function: Callable[..., Any], fields: tuple[str, ...], context: str | None
) -> Callable[[Any, ToolContext], Any]:
    def handler(value: Any, given: ToolContext) -> Any:
        arguments: dict[str, Any] = {field: getattr(value, field) for field in fields}
        if context is not None:
            arguments[context] = given
        return function(**arguments)

    return handler


def _failure_codec(name: str, failure: type[Exception]) -> Codec[Any]:
    if not (isinstance(failure, type) and issubclass(failure, Exception) and attrs.has(failure)):
        raise InvalidTool(tool=name, problem="a declared failure is an attrs class that derives from Exception")
    return codec_for(failure)
