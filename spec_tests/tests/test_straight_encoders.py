"""A straight encoder says what the exact one says, of good records and of spoilt ones (CAP-004, STORE-005)."""

from typing import Any, Final

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.record_values import values_of
from triolet.ports.records import RECORD_TYPES
from triolet.ports.schema import encoding
from triolet.ports.schema.encoding import Encoders
from triolet.ports.schema.misfit import Misfit
from triolet.ports.schema.reading import read
from triolet.ports.schema.straight import Encoder
from triolet.ports.strict_json import MAX_INTEGER


class _Text(str):
    __slots__ = ()


_FOREIGN: Final[tuple[Any, ...]] = (
    None,
    True,
    1.0,
    -1,
    MAX_INTEGER + 1,
    "\ud800",
    "é",
    _Text("x"),
    b"x",
    [],
    (),
    (1,),
    {},
    {"a": 1},
    object(),
)


def encoders_of(family: Any) -> tuple[Encoder, Encoder]:
    """The straight encoder, and the exact one with exact ones in it."""
    quick = Encoders().of(read(family))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encoding, "straight", lambda _, __, exact: exact)
        return quick, Encoders().of(read(family))


_ENCODERS: Final = {family: encoders_of(family) for family in RECORD_TYPES}


def said(encode: Encoder, value: object) -> object:
    try:
        return encode(value)
    except Misfit as misfit:
        return misfit.pointer, misfit.problem


@pytest.mark.parametrize("family", RECORD_TYPES, ids=lambda family: family.__name__)
@settings(max_examples=40)
@given(data=st.data())
def test_straight_is_exact(family: Any, data: st.DataObject) -> None:
    quick, exact = _ENCODERS[family]
    record: Any = data.draw(values_of(family))
    assert quick(record) == exact(record)
    field = data.draw(st.sampled_from([field.name for field in attrs.fields(family)]))
    spoilt = attrs.evolve(record, **{field: data.draw(st.sampled_from(_FOREIGN))})
    # By their spelling: True is not 1, though Python finds them equal.
    assert repr(said(quick, spoilt)) == repr(said(exact, spoilt))


def test_another_class_is_refused_alike() -> None:
    for quick, exact in _ENCODERS.values():
        assert said(quick, object()) == said(exact, object())
        assert isinstance(said(quick, object()), tuple)
