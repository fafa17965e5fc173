"""How a schema's refusal is told.

Decides the words: each violation is a (JSON Pointer, problem) pair, and a problem speaks of the schema and of JSON
types, sizes and places, never of the value itself, so that it may be shown to a model and be logged. Of a union it
tells what is wrong with the member that was evidently meant. Never decides what is valid. (CAP-004, SEC-005)
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final

import orjson
from jsonschema_rs import ValidationError

from triolet.ports.errors import bounded
from triolet.ports.json_pointer import pointer

Violation = tuple[str, str]

TOLD: Final = 1000
"""How many violations are put into words; an `InvalidValue` lists fewer and counts these."""

_WORDS: Final[Mapping[str, str]] = {
    "contains": "lacks an item that it must contain",
    "exclusiveMaximum": "must be less than {limit}",
    "exclusiveMinimum": "must be greater than {limit}",
    "falseSchema": "holds what is not allowed",
    "format": "must have the format {format}",
    "maxItems": "must have at most {limit} items",
    "maxLength": "must have at most {limit} characters",
    "maxProperties": "must have at most {limit} fields",
    "maximum": "must be at most {limit}",
    "minItems": "must have at least {limit} items",
    "minLength": "must have at least {limit} characters",
    "minProperties": "must have at least {limit} fields",
    "minimum": "must be at least {limit}",
    "multipleOf": "must be a multiple of {multiple_of}",
    "pattern": "must match the pattern {pattern}",
    "uniqueItems": "must not repeat an item",
}

_TYPES: Final[Mapping[type, str]] = {
    type(None): "null",
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
}


def violations(errors: Iterable[ValidationError]) -> tuple[Violation, ...]:
    """What `errors` say, the first `TOLD` of it."""
    found: list[Violation] = []
    for error in errors:
        found.extend(islice(_told(error), TOLD - len(found)))
        if len(found) == TOLD:
            break
    return tuple(found)


def fault_of_schema(error: ValidationError) -> str:
    """Why a schema was refused when it was compiled."""
    facts = error.kind.as_dict()
    if error.kind.name == "$ref":
        return bounded(f"a reference that leads nowhere: {facts['error']}")
    if error.kind.name == "format" and facts.get("format") == "regex":
        return "not a pattern that can be matched in linear time"
    return "; ".join(problem for _, problem in violations([error])[:3])


def _told(error: ValidationError) -> Iterator[Violation]:
    name, facts, path = error.kind.name, error.kind.as_dict(), error.instance_path
    match name:
        case "required":
            yield pointer([*path, facts["property"]]), "is missing"
        case "additionalProperties" | "unevaluatedProperties":
            for key in facts["unexpected"]:
                yield pointer([*path, key]), "is not a known field"
        case "anyOf" | "oneOf" if "context" in facts:
            yield from _told_of_union(path, facts["context"])
        case _:
            yield pointer(path), _problem(name, facts, error)


def _problem(name: str, facts: Mapping[str, Any], error: ValidationError) -> str:
    if "message" in facts:  # a keyword of our own
        return bounded(facts["message"])
    if name == "type":
        return _type_problem(facts["types"], error)
    if name == "const":
        return f"must be {_shown(facts['expected_value'])}"
    if name == "enum":
        return _one_of(facts["options"])
    words = _WORDS.get(name, "breaks the schema's {name}")
    return bounded(words.format_map({**facts, "name": name}))


def _told_of_union(path: list[str | int], branches: list[list[ValidationError]]) -> Iterator[Violation]:
    possible = [branch for branch in branches if not any(_is_type(error, path) for error in branch)]
    if not possible:
        types = {
            name: None for branch in branches for error in branch for name in error.kind.as_dict().get("types", ())
        }
        yield pointer(path), _type_problem(list(types), branches[0][0])
        return
    meant = [branch for branch in possible if not any(_is_tag(error, path) for error in branch)]
    if len(possible) == 1 or len(meant) == 1:
        for error in possible[0] if len(possible) == 1 else meant[0]:
            yield from _told(error)
        return
    wanted = [error for branch in possible for error in branch if _is_tag(error, path)]
    if not meant and len({str(error.instance_path[-1]) for error in wanted}) == 1:
        yield pointer(wanted[0].instance_path), _one_of([option for error in wanted for option in _options(error)])
    else:
        yield pointer(path), f"is none of the {len(branches)} allowed forms"


def _is_type(error: ValidationError, path: list[str | int]) -> bool:
    return error.kind.name == "type" and error.instance_path == path


def _is_tag(error: ValidationError, path: list[str | int]) -> bool:
    return error.kind.name in ("const", "enum") and error.instance_path[:-1] == path != error.instance_path


def _options(error: ValidationError) -> list[Any]:
    facts = error.kind.as_dict()
    return facts["options"] if "options" in facts else [facts["expected_value"]]


def _type_problem(allowed: list[str], error: ValidationError) -> str:
    actual = _TYPES.get(type(error.instance), "a number")
    return f"must be {' or '.join(allowed)}, not {actual}"


def _one_of(options: list[Any]) -> str:
    if len(options) == 1:
        return f"must be {_shown(options[0])}"
    return bounded("must be one of " + ", ".join(_shown(option) for option in options))


def _shown(option: Any) -> str:
    # Options come from the schema, not from the value.
    return bounded(orjson.dumps(option).decode(), 60)
