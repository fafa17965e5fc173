"""What `Annotated` may say about a type: bounds, a description, another name in JSON.

Decides the vocabulary only; which of them fits which type is decided where types are read (`reading`). Each
constraint is one JSON Schema keyword and means exactly what JSON Schema 2020-12 says, since the rendered schema is
what a value is checked against. (CAP-004, RUN-028)
"""

from typing import ClassVar

import attrs


@attrs.frozen(weakref_slot=False)
class Constraint:
    """One JSON Schema keyword with its value. Use a subclass."""

    keyword: ClassVar[str]
    applies_to: ClassVar[frozenset[str]]
    value: int | float | str


@attrs.frozen(weakref_slot=False)
class Ge(Constraint):
    """A number of at least `value`."""

    keyword = "minimum"
    applies_to = frozenset({"integer", "number"})
    value: int | float


@attrs.frozen(weakref_slot=False)
class Gt(Constraint):
    """A number greater than `value`."""

    keyword = "exclusiveMinimum"
    applies_to = frozenset({"integer", "number"})
    value: int | float


@attrs.frozen(weakref_slot=False)
class Le(Constraint):
    """A number of at most `value`."""

    keyword = "maximum"
    applies_to = frozenset({"integer", "number"})
    value: int | float


@attrs.frozen(weakref_slot=False)
class Lt(Constraint):
    """A number less than `value`."""

    keyword = "exclusiveMaximum"
    applies_to = frozenset({"integer", "number"})
    value: int | float


@attrs.frozen(weakref_slot=False)
class MultipleOf(Constraint):
    """A number that is `value` (greater than 0) times an integer."""

    keyword = "multipleOf"
    applies_to = frozenset({"integer", "number"})
    value: int | float


@attrs.frozen(weakref_slot=False)
class MinLength(Constraint):
    """A string of at least `value` characters (Unicode code points)."""

    keyword = "minLength"
    applies_to = frozenset({"string"})
    value: int


@attrs.frozen(weakref_slot=False)
class MaxLength(Constraint):
    """A string of at most `value` characters (Unicode code points)."""

    keyword = "maxLength"
    applies_to = frozenset({"string"})
    value: int


@attrs.frozen(weakref_slot=False)
class Pattern(Constraint):
    """A string in which the regular expression `value` is found; anchor it (``^…$``) to match all of it.

    The expression is run by an engine that takes linear time: no look-around and no back-references.
    """

    keyword = "pattern"
    applies_to = frozenset({"string"})
    value: str


@attrs.frozen(weakref_slot=False)
class MinItems(Constraint):
    """A list, tuple of any length or frozenset with at least `value` items."""

    keyword = "minItems"
    applies_to = frozenset({"array"})
    value: int


@attrs.frozen(weakref_slot=False)
class MaxItems(Constraint):
    """A list, tuple of any length or frozenset with at most `value` items."""

    keyword = "maxItems"
    applies_to = frozenset({"array"})
    value: int


@attrs.frozen(weakref_slot=False)
class Description:
    """What the value means, for whoever fills it in (a model, mostly)."""

    text: str


@attrs.frozen(weakref_slot=False)
class Alias:
    """The field's name in JSON, where Python's name cannot or should not be used (``from``, ``x-id``)."""

    name: str
