"""The memory inbox: each clause of the port."""

from collections.abc import Awaitable, Callable
from typing import Any

import attrs
import pytest
import trio

from tests.desk_samples import ANN, arguments
from triolet.adapters.memory import InboxFull, MemoryInbox, in_memory
from triolet.ports.approval import AlreadyAnswered, Decision, GrantTerms
from triolet.ports.errors import BrokenText, InvalidValue, Misuse, Unavailable
from triolet.ports.identity import Principal, RequestId
from triolet.ports.inbox import Inbox
from triolet.ports.strict_json import JsonText

ONE, TWO, THREE = (RequestId(f"run1-1-{number}-approval") for number in range(3))
YES = Decision(
    verdict="approved",
    by=ANN,
    reason="fine",
    arguments=arguments("a"),
    edited=JsonText('{"a": 1}'),
    grant=GrantTerms(scope="run", by_targets=True, seconds=1.5),
)
NO = Decision(verdict="denied", by=ANN)
ANY: Any = object()


def test_it_is_bound_unless_the_host_says_otherwise() -> None:
    inbox: Inbox | None = in_memory(model=None).inbox
    assert isinstance(inbox, MemoryInbox)
    assert in_memory(model=None, inbox=None).inbox is None


async def test_answers_are_read_and_stay() -> None:
    inbox = MemoryInbox()
    await inbox.post(TWO, NO)
    await inbox.post(ONE, YES)
    for _ in range(2):
        found = await inbox.take((ONE, THREE, TWO))
        assert list(found.items()) == [(ONE, YES), (TWO, NO)]
    assert await inbox.take((THREE,)) == {}
    assert await inbox.take(()) == {}


async def test_the_first_answer_stands() -> None:
    inbox = MemoryInbox()
    await inbox.post(ONE, YES)
    await inbox.post(ONE, attrs.evolve(YES))
    for other in (NO, attrs.evolve(YES, reason="other"), attrs.evolve(YES, edited=None)):
        with pytest.raises(AlreadyAnswered, match="run1-1-0-approval already has another answer"):
            await inbox.post(ONE, other)
    assert await inbox.take((ONE,)) == {ONE: YES}


async def test_discarded_answers_are_gone_and_may_come_again() -> None:
    inbox = MemoryInbox()
    await inbox.post(ONE, YES)
    await inbox.post(TWO, NO)
    for _ in range(2):
        await inbox.discard((ONE, THREE))
    assert await inbox.take((ONE, TWO, THREE)) == {TWO: NO}
    await inbox.post(ONE, NO)
    assert await inbox.take((ONE,)) == {ONE: NO}


async def test_the_bound_is_kept_and_said() -> None:
    inbox = MemoryInbox(limit=2)
    await inbox.post(ONE, YES)
    await inbox.post(TWO, YES)
    with pytest.raises(InboxFull, match="2 answers are already kept") as raised:
        await inbox.post(THREE, YES)
    assert isinstance(raised.value, Unavailable)
    # What is there already is no new answer.
    await inbox.post(ONE, YES)
    with pytest.raises(AlreadyAnswered):
        await inbox.post(ONE, NO)
    assert await inbox.take((ONE, TWO, THREE)) == {ONE: YES, TWO: YES}
    await inbox.discard((ONE,))
    await inbox.post(THREE, YES)
    with pytest.raises(Misuse, match="limit is at least 1, not 0"):
        MemoryInbox(limit=0)


@pytest.mark.parametrize(
    ("request_", "decision", "error"),
    [
        (RequestId("\ud800"), YES, BrokenText),
        (ONE, attrs.evolve(YES, reason="\ud800"), InvalidValue),
        (ONE, attrs.evolve(YES, verdict=ANY), InvalidValue),
        (ONE, attrs.evolve(YES, by=Principal(name=ANY)), InvalidValue),
        (ONE, ANY, InvalidValue),
    ],
)
async def test_what_no_store_could_keep_is_refused(request_: RequestId, decision: Decision, error: type) -> None:
    inbox = MemoryInbox()
    with pytest.raises(error):
        await inbox.post(request_, decision)
    assert await inbox.take((request_,)) == {}


async def test_a_cancelled_call_changes_nothing() -> None:
    inbox = MemoryInbox()
    await inbox.post(ONE, YES)
    verbs: list[Callable[[], Awaitable[object]]] = [
        lambda: inbox.post(TWO, YES),
        lambda: inbox.take((ONE,)),
        lambda: inbox.discard((ONE,)),
    ]
    for verb in verbs:
        with trio.CancelScope() as scope:
            scope.cancel()
            await verb()
        assert scope.cancelled_caught
    assert await inbox.take((ONE, TWO)) == {ONE: YES}
