"""Bounded capture and scrubbing, on generated pieces."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triolet.adapters.commands.capture import Capture
from triolet.adapters.commands.feed import Feed
from triolet.adapters.commands.scrubbing import Scrubber
from triolet.ports.sandbox import Output
from triolet.ports.secrets import Secret, SecretHandle

TEXT = st.text(alphabet="aé€😀", max_size=60)


def _pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [data[start:end] for start, end in pairwise(edges)]


@given(text=TEXT, limit=st.integers(1, 80), cuts=st.lists(st.integers(0, 300), max_size=8))
def test_capture_keeps_both_ends_and_counts_the_rest(text: str, limit: int, cuts: list[int]) -> None:
    data = text.encode()
    capture = Capture(limit)
    shown = b"".join(capture.feed(piece) for piece in _pieces(data, cuts))
    kept = capture.captured()
    head, tail = kept.head.encode(), kept.tail.encode()
    assert len(head) + len(tail) <= limit
    assert len(head) + len(tail) + kept.dropped_bytes == kept.total_bytes == len(data)
    assert data.startswith(head)
    assert data.endswith(tail)
    assert data.startswith(shown)
    assert "\ufffd" not in kept.text
    if len(data) <= limit:
        assert kept.text == text


@given(text=TEXT, limit=st.integers(1, 40), first=st.lists(st.integers(0, 300), max_size=8))
def test_capture_does_not_depend_on_the_pieces(text: str, limit: int, first: list[int]) -> None:
    whole, apart = Capture(limit), Capture(limit)
    whole.feed(text.encode())
    for piece in _pieces(text.encode(), first):
        apart.feed(piece)
    assert whole.captured() == apart.captured()


def test_what_is_no_utf8_is_shown_as_such() -> None:
    capture = Capture(100)
    capture.feed(b"a\xffb\0c")
    assert capture.captured().text == "a\ufffdb\ufffdc"


@given(
    parts=st.lists(st.sampled_from(["abab", "ab", "x", "ababc", "ac"]), max_size=12),
    cuts=st.lists(st.integers(0, 100), max_size=8),
)
def test_a_value_never_comes_through_in_any_pieces(parts: list[str], cuts: list[int]) -> None:
    value = "ababc"
    scrubber = Scrubber([Secret(SecretHandle(name="n"), value)])
    data = "".join(parts).encode()
    out = b"".join(scrubber.feed(piece) for piece in _pieces(data, cuts)) + scrubber.rest()
    assert out == data.replace(value.encode(), b"[secret n]")


def test_the_longer_of_two_values_goes_whole() -> None:
    scrubber = Scrubber([Secret(SecretHandle(name="a"), "token"), Secret(SecretHandle(name="b"), "token-long")])
    assert scrubber.feed(b"<token-long><token>") + scrubber.rest() == b"<[secret b]><[secret a]>"


@pytest.mark.parametrize("value", ["", "abc"])
def test_very_short_values_are_left_alone(value: str) -> None:
    assert Scrubber([Secret(SecretHandle(name="a"), value)]).feed(b"abcabc") == b"abcabc"


async def test_live_output_comes_in_whole_characters() -> None:
    feed = Feed()
    data = "é€😀".encode()
    shown = ""
    for byte in data:
        feed.put_output("stdout", bytes([byte]))
    feed.put_output("stdout", b"\xe2\x82")  # the cut went through a character
    feed.put_output("stderr", b"\xff!")
    feed.close()
    async for event in feed:
        assert isinstance(event, Output)
        shown += event.text
    assert shown == "é€😀\ufffd!"
