"""Generated records: any value that a record's own annotations allow, whether or not it makes sense."""

import types
from functools import cache
from typing import Annotated, Any, Literal, NewType, Union, cast, get_args, get_origin, get_type_hints

import attrs
from hypothesis import strategies as st

from triolet.ports.batch import Batch
from triolet.ports.identity import BatchId, Epoch, Instant, RunId
from triolet.ports.records import RECORD_TYPES, Record
from triolet.ports.schema import Ge
from triolet.ports.strict_json import MAX_INTEGER

TEXTS = st.text(max_size=8)
INTEGERS = st.integers(-MAX_INTEGER, MAX_INTEGER) | st.sampled_from([0, 1, -1, MAX_INTEGER, -MAX_INTEGER])


@cache
def values_of(hint: Any) -> st.SearchStrategy[Any]:
    """Values of an annotation as records use them; fails for an annotation that no record has yet."""
    if isinstance(hint, NewType):
        return values_of(hint.__supertype__)
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        [least] = [note.value for note in arguments[1:] if isinstance(note, Ge)]
        return st.integers(int(least), MAX_INTEGER)
    if origin is Literal:
        return st.sampled_from(arguments)
    if origin in (Union, types.UnionType):
        return st.one_of(*(values_of(argument) for argument in arguments))
    if origin is tuple:
        assert arguments[1:] == (...,)
        return st.lists(values_of(arguments[0]), max_size=3).map(tuple)
    if attrs.has(hint):
        hints = get_type_hints(hint, include_extras=True)
        return st.builds(hint, **{field.name: values_of(hints[field.name]) for field in attrs.fields(hint)})
    plain: dict[Any, st.SearchStrategy[Any]] = {
        str: TEXTS,
        int: INTEGERS,
        bool: st.booleans(),
        types.NoneType: st.none(),
    }
    return plain[hint]


def records() -> st.SearchStrategy[Record]:
    """A record of any family."""
    return st.sampled_from(RECORD_TYPES).flatmap(lambda family: cast("Any", values_of)(family))  # noqa: PLW0108 -- a cached function has no signature


def batches(of: st.SearchStrategy[Record] | None = None, *, most: int = 4) -> st.SearchStrategy[Batch]:
    """A batch of such records."""
    return st.builds(
        Batch,
        id=st.text(min_size=1, max_size=12).map(BatchId),
        run=st.none() | st.text(min_size=1, max_size=12).map(RunId),
        epoch=st.integers(0, MAX_INTEGER).map(Epoch),
        at=INTEGERS.map(Instant),
        records=st.lists(of or records(), min_size=1, max_size=most).map(tuple),
    )
