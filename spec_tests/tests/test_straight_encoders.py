"""What a straight encoder encodes is what the exact one and the schema say; it gives up on anything else (CAP-004)."""

from typing import Annotated, Any, Final

import attrs
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.record_values import values_of
from triolet.ports.errors import InvalidValue
from triolet.ports.records import RECORD_TYPES, ModelInterrupted
from triolet.ports.schema import Ge, MinLength, codec_for
from triolet.ports.schema.misfit import Misfit
from triolet.ports.schema.reading import read
from triolet.ports.schema.straight import Encoder, straight
from triolet.ports.strict_json import MAX_INTEGER


class _Text(str):
    __slots__ = ()


_FOREIGN: Final[tuple[Any, ...]] = (
    *(None, True, 1.0, 0, -1, MAX_INTEGER, MAX_INTEGER + 1, "", "\ud800", "é", _Text("x"), b"x"),
    *([], (), (1,), {}, {"a": 1}, object()),
)


def straight_of(family: Any) -> Encoder:
    made = straight(read(family))
    assert made is not None, "every record is encoded straight"
    return made


# A reason out of two closed lists would have to be tried in both.
_STRAIGHT: Final[dict[Any, Encoder]] = {
    family: straight_of(family) for family in RECORD_TYPES if family is not ModelInterrupted
}


def said(family: Any, value: Any, *, exactly: bool) -> object:
    """What the codec says, by its own choice or by the exact way."""
    codec: Any = codec_for(family)
    try:
        return codec._encode_exactly(value) if exactly else codec.encode(value)
    except InvalidValue as refusal:
        return refusal.violations


@pytest.mark.parametrize("family", RECORD_TYPES, ids=lambda family: family.__name__)
@settings(max_examples=40)
@given(data=st.data())
def test_a_codec_says_the_same_by_either_way(family: Any, data: st.DataObject) -> None:
    record: Any = data.draw(values_of(family))
    assert said(family, record, exactly=False) == said(family, record, exactly=True)
    field = data.draw(st.sampled_from([field.name for field in attrs.fields(family)]))
    spoilt = attrs.evolve(record, **{field: data.draw(st.sampled_from(_FOREIGN))})
    # By their spelling: True is not 1, though Python finds them equal.
    assert repr(said(family, spoilt, exactly=False)) == repr(said(family, spoilt, exactly=True))


@pytest.mark.parametrize("family", _STRAIGHT, ids=lambda family: family.__name__)
@settings(max_examples=20)
@given(data=st.data())
def test_plain_records_go_straight_and_no_others(family: Any, data: st.DataObject) -> None:
    """If plain ones did not, everything would still be right, and slow."""
    record = data.draw(values_of(family))
    encoded = said(family, record, exactly=True)
    if orjson.dumps(encoded).isascii():
        assert _STRAIGHT[family](record) == encoded
    else:
        with pytest.raises(Misfit):
            _STRAIGHT[family](record)


def test_another_class_is_given_up_on() -> None:
    for encode in _STRAIGHT.values():
        with pytest.raises(Misfit):
            encode(object())


@attrs.frozen
class Counted:
    few: Annotated[int, Ge(1)] | None
    texts: tuple[str, ...] = ()


@attrs.frozen
class Named:
    name: Annotated[str, MinLength(1)]


@attrs.frozen
class Nested:
    within: "Nested | None" = None


@attrs.frozen
class Floating:
    number: float = 0.0


def test_bounds_are_kept() -> None:
    encode = straight_of(Counted)
    assert encode(Counted(few=1, texts=("a",))) == {"few": 1, "texts": ["a"]}
    assert encode(Counted(few=None)) == {"few": None, "texts": []}
    for spoilt in (Counted(few=0), Counted(few=MAX_INTEGER + 1), Counted(few=1, texts=("é",)), Counted(few=True)):
        with pytest.raises(Misfit):
            encode(spoilt)


@pytest.mark.parametrize("kind", [Named, Nested, Floating, dict[str, int], float])
def test_what_needs_the_schema_or_a_second_look_has_none(kind: Any) -> None:
    assert straight(read(kind)) is None
