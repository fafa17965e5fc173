"""Text that enters is storable: repaired where it comes from outside, refused where the application can fix it."""

import sqlite3

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from triolet.ports.errors import BrokenText
from triolet.ports.text import decode, repair, require_clean

_any_text = st.text(st.characters(exclude_categories=()) | st.sampled_from("\0\ud800\udbff\udc00\udfff\U0001f600"))


def is_storable(text: str) -> bool:
    """Whether text comes back unchanged from UTF-8, and holds no NUL."""
    return "\0" not in text and text.encode("utf-8", "replace").decode() == text


@given(_any_text)
@example("\ud83d\ude00")
def test_repaired_text_is_storable_everywhere(text: str) -> None:
    repaired = repair(text)
    assert is_storable(repaired)
    assert repair(repaired) is repaired
    with sqlite3.connect(":memory:") as connection:
        assert connection.execute("select ?", (repaired,)).fetchone() == (repaired,)
    connection.close()


@given(_any_text)
def test_only_what_is_broken_changes(text: str) -> None:
    if is_storable(text):
        assert repair(text) is text
    else:
        kept = [letter for letter in text if letter != "\0" and not "\ud800" <= letter <= "\udfff"]
        survivors = iter(repair(text))
        assert all(any(letter == other for other in survivors) for letter in kept)


@pytest.mark.parametrize(
    ("broken", "repaired"),
    [
        ("a\ud800b", "a\ufffdb"),
        ("\udc00\ud800", "\ufffd\ufffd"),
        ("\ud83d\ude00", "😀"),
        ("\ud800\ud83d\ude00", "\ufffd😀"),
        ("nul\0", "nul\ufffd"),
        ("\ufffe\uffff\u2028\x01", "\ufffe\uffff\u2028\x01"),
    ],
)
def test_repairs(broken: str, repaired: str) -> None:
    assert repair(broken) == repaired


@given(_any_text)
def test_application_text_is_refused_exactly_when_it_needs_repair(text: str) -> None:
    if is_storable(text):
        assert require_clean(text, "run.input") is text
    else:
        with pytest.raises(BrokenText) as caught:
            require_clean(text, "run.input")
        assert is_storable(text[: caught.value.index])
        assert not is_storable(text[: caught.value.index + 1])
        assert caught.value.place == "run.input"


def test_the_refusal_says_where_and_why_without_the_text() -> None:
    with pytest.raises(BrokenText) as caught:
        require_clean("marker\0", "run.input")
    assert str(caught.value) == "run.input: U+0000 at character 6"


@given(st.binary())
def test_any_bytes_decode_to_storable_text(data: bytes) -> None:
    assert is_storable(decode(data))


@given(st.text().filter(is_storable))
def test_utf_8_decodes_as_it_is(text: str) -> None:
    assert decode(text.encode()) == text
