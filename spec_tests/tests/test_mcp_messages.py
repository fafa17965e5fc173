"""Whatever bytes a server sends, reading them decides and never breaks (SEC-013)."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from triolet.adapters.mcp.correlator import Correlator
from triolet.adapters.mcp.limits import McpLimits
from triolet.adapters.mcp.messages import Diagnostics, decoded, encoded, size_of
from triolet.ports.text import require_clean

_SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=20)
_JSON: st.SearchStrategy[Any] = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
_MESSAGES = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.just("2.0") | _SCALARS,
        "id": st.integers(0, 3) | st.sampled_from(["1", "x", ""]) | _JSON,
        "method": st.sampled_from(["notifications/progress", "notifications/tools/list_changed", "ping"]) | _JSON,
        "params": _JSON | st.fixed_dictionaries({"progressToken": _JSON, "progress": _JSON, "total": _JSON}),
        "result": _JSON,
        "error": _JSON,
    },
)


@given(st.binary(max_size=200))
def test_any_bytes_are_messages_or_none(data: bytes) -> None:
    assert decoded(data) is None or data.strip()


@given(_MESSAGES, st.booleans())
def test_what_is_read_can_be_kept(message: dict[str, Any], ascii_only: bool) -> None:
    data = json.dumps(message, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    for each in decoded(data) or []:
        assert each["jsonrpc"] == "2.0"
        assert "\ufffd" in repr(each) or each.keys() == message.keys()
        for value in each.values():
            if isinstance(value, str) and "\x00" not in value:
                require_clean(value, "a message")


class _NoWire:
    async def send(self, message: Any, data: bytes) -> None:
        raise AssertionError

    async def receive(self) -> Any:
        raise AssertionError

    def agree(self, version: str) -> None:
        raise AssertionError


@given(st.lists(_MESSAGES, max_size=6))
def test_no_message_breaks_the_reader_and_every_request_ends_at_most_once(messages: list[dict[str, Any]]) -> None:
    noticed: list[str] = []
    diagnostics = Diagnostics()
    correlator = Correlator(_NoWire(), McpLimits(), diagnostics, noticed.append)
    told: list[object] = []
    asked = [correlator.ask("tools/call", {}, lambda *progress: told.append(progress)) for _ in range(3)]
    for message in messages:
        for each in decoded(json.dumps(message).encode()) or []:
            if "method" not in each:
                correlator._answered(each)
            elif "id" not in each:
                correlator._notified(each)
    ended = sum(each._done.is_set() for each in asked)
    assert ended + len(correlator._open) == 3
    assert all(isinstance(share, float) for progress in told for share in progress[:1])  # type: ignore[index]


@given(_JSON)
def test_sizes_are_those_of_what_is_sent(value: Any) -> None:
    try:
        size = size_of(value)
    except UnicodeEncodeError:
        return
    assert size is None or size == len(encoded({"a": value})) - len(b'{"a":}')


def test_a_batch_is_its_messages_and_one_bad_item_spoils_it() -> None:
    good = {"jsonrpc": "2.0", "method": "x"}
    assert decoded(json.dumps([good, good]).encode()) == [good, good]
    assert decoded(json.dumps([good, 7]).encode()) is None
    assert decoded(b"[]") is None
    assert size_of({"a": 1}) == 7
