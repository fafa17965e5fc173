"""The bounded reader of server-sent events: the same events however the bytes are cut, and nothing beyond a bound."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triolet.adapters.openai_compatible.bounds import InvalidOption, Limits, Timeouts
from triolet.adapters.openai_compatible.clean_text import CleanText
from triolet.adapters.openai_compatible.sse import Event, EventParser
from triolet.ports.language_model import MalformedResponse
from triolet.ports.text import repair

SMALL = Limits(line_bytes=64, event_bytes=100, response_bytes=1000)

pieces_of_streams = st.lists(
    st.one_of(
        st.sampled_from(
            [b"data: ", b"data:", b"event: ", b": ", b"id: 1", b"retry: 5", b"\n", b"\r\n", b"\r", b"\n\n", b"{}"]
        ),
        st.binary(max_size=6),
        st.text(max_size=6).map(str.encode),
    ),
    max_size=30,
).map(b"".join)


def events_of(*chunks: bytes, limits: Limits | None = None) -> list[Event]:
    parser = EventParser(limits or Limits())
    return [event for chunk in chunks for event in parser.feed(chunk)]


def said(*data: str) -> list[Event]:
    return [Event(name="message", data=each) for each in data]


def naive_events(stream: bytes) -> list[Event]:
    """The standard's algorithm on a whole stream, written without regard to cost."""
    events: list[Event] = []
    name, data = "", list[str]()
    text = stream.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace").replace("\0", "\ufffd")
    for line in re.split("\r\n|\n|\r", text)[:-1]:
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if not line:
            if data:
                events.append(Event(name=name or "message", data="\n".join(data)))
            name, data = "", []
        elif field == "data":
            data.append(value)
        elif field == "event":
            name = value
    return events


@given(pieces_of_streams, st.lists(st.integers(0, 200)))
def test_it_reads_what_the_standard_says_however_the_stream_is_cut(stream: bytes, cuts: list[int]) -> None:
    places = sorted({min(cut, len(stream)) for cut in cuts})
    chunks = [stream[start:end] for start, end in zip([0, *places], [*places, len(stream)], strict=True)]
    assert events_of(*chunks) == naive_events(stream)


def test_every_cut_of_a_stream_with_all_line_ends() -> None:
    stream = "data: ä\r\ndata: €\r\r\n: ping\n\nevent: x\rdata: 😀\n\r\ndata: last\n\n".encode()
    whole = [*said("ä\n€"), Event(name="x", data="😀"), *said("last")]
    assert events_of(stream) == whole
    for cut in range(len(stream)):
        assert events_of(stream[:cut], stream[cut:]) == whole
    assert events_of(*(bytes([byte]) for byte in stream)) == whole


@pytest.mark.parametrize(
    ("stream", "events"),
    [
        (b"data: a\n\n", said("a")),
        (b"data:a\n\n", said("a")),
        (b"data:  a\n\n", said(" a")),
        (b"data: a\ndata: b\n\n", said("a\nb")),
        (b"data\n\n", said("")),
        (b": comment\n\n", []),
        (b"event: x\n\n", []),
        (b"id: 7\nretry: 9\ndata: a\n\n", said("a")),
        (b"unknown: a\n\n", []),
        (b"\xef\xbb\xbfdata: a\n\n", said("a")),
        (b"error: {}\n\n", [Event(name="error", data="{}")]),
        (b"data: \xff\xc3(\n\n", said("\ufffd\ufffd(")),
        (b"data: a\x00b\n\n", said("a\ufffdb")),
        (b"data: cut off\n", []),
        (b"data: cut off", []),
        (b"", []),
    ],
)
def test_fields(stream: bytes, events: list[Event]) -> None:
    assert events_of(stream) == events


def test_a_line_an_event_and_a_stream_are_bounded() -> None:
    assert events_of(b"data: " + b"x" * 58 + b"\n\n", limits=SMALL) == said("x" * 58)
    with pytest.raises(MalformedResponse, match="a line is longer than 64 bytes"):
        events_of(b"data: " + b"x" * 59 + b"\n\n", limits=SMALL)
    with pytest.raises(MalformedResponse, match="an event is longer than 100 bytes"):
        events_of(b"data: xxxxxxxxxx\n" * 10, limits=SMALL)
    with pytest.raises(MalformedResponse, match="the stream is longer than 1000 bytes"):
        events_of(*[b": ping\n"] * 143, limits=SMALL)


def test_an_endless_line_is_refused_when_it_passes_the_bound_and_not_later() -> None:
    parser = EventParser(SMALL)
    for _ in range(64):
        assert parser.feed(b"x") == []
    with pytest.raises(MalformedResponse):
        parser.feed(b"x")


def test_only_whole_lines_count_as_life() -> None:
    parser = EventParser(Limits())
    counted: list[int] = []
    for chunk in (b": pi", b"ng", b"\n", b"data: x", b"\r", b"\n", b"\n"):
        parser.feed(chunk)
        counted.append(parser.lines)
    assert counted == [0, 0, 1, 1, 2, 2, 3]


@given(st.lists(st.text(alphabet=st.characters(), max_size=4) | st.sampled_from(["\ud83d", "\ude00", "\0"])))
def test_text_is_clean_however_a_character_is_cut(pieces: list[str]) -> None:
    cleaner = CleanText()
    clean = [cleaner.feed(piece) for piece in pieces] + [cleaner.finish()]
    assert "".join(clean) == repair("".join(pieces))
    assert all(piece == repair(piece) for piece in clean)


@pytest.mark.parametrize("value", [0.0, -1.0, float("inf"), float("nan")])
def test_timeouts_are_positive_and_finite(value: float) -> None:
    with pytest.raises(InvalidOption, match="invalid option idle: it is a positive, finite number of seconds"):
        Timeouts(idle=value)


def test_limits_are_at_least_one() -> None:
    with pytest.raises(InvalidOption, match="invalid option calls: it is at least 1"):
        Limits(calls=0)
