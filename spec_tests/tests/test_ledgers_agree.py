"""Two ledgers, in memory and in a file, are told the same things in any order, and must agree on all they answer.

Commands are drawn at random, valid and not; the clock jumps, and both are closed and opened again in between. Every
answer and every refusal is compared, and then everything that can be seen from outside. The file is verified, too.
"""

import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import attrs
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.ledgers import ANN, KINDS, TENANT, HandClock, Stores, command, end_batch, end_of, open_stores, submission
from tests.test_ledgers import CALL, DEAD, UNKNOWN, YES, approval
from triolet.adapters.sqlite import open_sqlite
from triolet.ports.conversation_store import Address, Tail, Writer
from triolet.ports.errors import TrioletError
from triolet.ports.identity import AgentId, ConversationId, Epoch, SubmissionId, after
from triolet.ports.ledger import Abort, Claim, Renewed, Resolve, Retry
from triolet.ports.outcomes import ToolSuccess
from triolet.ports.strict_json import JsonText
from triolet.spec_tests.cases.conversation_store.setting import a_batch, first_batch

NAMES = ("s0", "s1", "s2", "s3", "s4")
PLACES = ("a", "b")
AGENTS = ("x", "y")
WAITS = (approval(), approval(steerable=True), UNKNOWN, DEAD)
ACTS = (Abort(), Retry(), YES, Resolve(call=CALL, outcome=None))
OUTCOMES = (ToolSuccess(output=JsonText("1")), ToolSuccess(output=JsonText("2")))

name = st.sampled_from(NAMES)
number = st.integers(0, 5)
steps = st.one_of(
    st.tuples(st.just("admit"), name, st.sampled_from(PLACES), st.sampled_from(AGENTS)),
    st.tuples(st.just("input"), name, st.sampled_from(PLACES), st.sampled_from(("steering", "follow-up"))),
    st.tuples(st.just("ready"), name),
    st.tuples(st.just("submit"), name, st.sampled_from(PLACES)),
    st.tuples(st.just("post"), name, st.sampled_from(("k1", "k2")), st.sampled_from(ACTS)),
    st.tuples(st.just("claim"), st.sampled_from((None, frozenset(("x",)), frozenset(("y", "z"))))),
    st.tuples(st.just("claim"), st.none()),
    st.tuples(st.just("claim_writer")),
    st.tuples(st.just("renew"), number, st.sampled_from((None, 3, 9))),
    st.tuples(st.just("release"), number, st.sampled_from((None, 5, 50)), st.booleans()),
    st.tuples(st.just("suspend"), number, st.sampled_from(WAITS), st.sampled_from((None, 20))),
    st.tuples(st.just("stash"), number, st.sampled_from(OUTCOMES)),
    st.tuples(st.just("take"), number, st.sampled_from((("k1",), ("k1", "k2")))),
    st.tuples(st.just("claim_joining"), number, st.sampled_from(("steering", "follow-up")), st.integers(1, 3)),
    st.tuples(st.just("mark_joined"), number, name),
    st.tuples(st.just("revert"), number),
    st.tuples(st.just("reserve"), number, st.sampled_from((b"one", b"two"))),
    st.tuples(st.just("finalize"), number, st.sampled_from(("completed", "completed", "aborted"))),
    st.tuples(st.just("settle"), number),
    st.tuples(st.just("append"), number),
    st.tuples(st.just("forget"), st.sampled_from(PLACES)),
    st.tuples(st.just("wait"), st.sampled_from((1, 15, 100))),
    st.tuples(st.just("reopen")),
)


@attrs.define(kw_only=True)
class Side:
    """One pair of stores, and the rights that were given by it."""

    stores: Stores
    claims: list[Claim] = attrs.field(factory=list[Claim])
    writers: list[tuple[Claim, Writer]] = attrs.field(factory=list[tuple[Claim, Writer]])
    appended: int = 0

    async def answer(self, step: tuple[Any, ...]) -> object:
        """What a step gives, or how it is refused."""
        verb: Callable[..., Awaitable[object]] = getattr(self, f"_{step[0]}")
        try:
            return await verb(*step[1:])
        except TrioletError as error:
            return type(error), error.message

    async def seen(self) -> object:
        """Everything that can be looked at from outside."""
        ledger = self.stores.ledger
        standings = await ledger.scan(unsettled=False)
        return (
            standings,
            await ledger.scan(),
            await ledger.scan(tenant=TENANT, conversation=ConversationId("b")),
            attrs.evolve(await ledger.figures(), fenced=0),
            [await ledger.commands(TENANT, each.submission.id) for each in standings],
            [await ledger.find(ANN, name) for name in NAMES],
            [each.tail for each in await self.stores.conversations.list(TENANT)],
        )

    def _claim_of(self, index: int) -> Claim:
        return self.claims[index % len(self.claims)] if self.claims else NOBODY

    async def _admit(self, name: str, place: str, agent: str) -> object:
        return await self.stores.ledger.admit(submission(name, place, agent=AgentId(agent)))

    async def _input(self, name: str, place: str, kind: Any) -> object:
        return await self.stores.ledger.admit(submission(name, place, kind=kind))

    async def _ready(self, name: str) -> object:
        return await self.stores.ledger.mark_ready(TENANT, SubmissionId(name))

    async def _submit(self, name: str, place: str) -> object:
        assert self.stores.ledger.shared is not None
        work = submission(name, place)
        return await self.stores.ledger.shared.submit(work, first_batch(work.address))

    async def _post(self, name: str, key: str, act: Any) -> object:
        return await self.stores.ledger.post(TENANT, SubmissionId(name), command(key, act))

    async def _claim(self, agents: frozenset[AgentId] | None) -> object:
        found = await self.stores.ledger.claim("worker", agents=agents, lease_seconds=10)
        if isinstance(found, Claim):
            self.claims.append(found)
        return found

    async def _claim_writer(self) -> object:
        assert self.stores.ledger.shared is not None
        found = await self.stores.ledger.shared.claim_writer("worker", agents=None, lease_seconds=10)
        if isinstance(found, tuple):
            self.claims.append(found[0])
            if found[1] is not None:
                self.writers.append((found[0], found[1]))
        return found

    async def _renew(self, index: int, at_least: int | None) -> object:
        epoch = None if at_least is None else Epoch(at_least)
        found: Renewed = await self.stores.ledger.renew(self._claim_of(index), lease_seconds=10, at_least=epoch)
        self.claims.append(found.claim)
        return found

    async def _release(self, index: int, seconds: float | None, failed: bool) -> None:
        later = None if seconds is None else after(self.stores.clock.now(), seconds)
        await self.stores.ledger.release(self._claim_of(index), not_before=later, failed=failed)

    async def _suspend(self, index: int, wait: Any, seconds: float | None) -> None:
        until = None if seconds is None else after(self.stores.clock.now(), seconds)
        await self.stores.ledger.suspend(self._claim_of(index), (wait,), until=until)

    async def _stash(self, index: int, outcome: Any) -> None:
        await self.stores.ledger.stash(self._claim_of(index), CALL, outcome)

    async def _take(self, index: int, keys: tuple[str, ...]) -> None:
        await self.stores.ledger.take(self._claim_of(index), keys)

    async def _claim_joining(self, index: int, kind: Any, limit: int) -> object:
        return await self.stores.ledger.claim_joining(self._claim_of(index), kind, limit)

    async def _mark_joined(self, index: int, name: str) -> None:
        await self.stores.ledger.mark_joined(self._claim_of(index), (SubmissionId(name),))

    async def _revert(self, index: int) -> None:
        await self.stores.ledger.revert(self._claim_of(index))

    async def _reserve(self, index: int, batch: bytes) -> None:
        await self.stores.ledger.reserve(self._claim_of(index), batch)

    async def _finalize(self, index: int, status: Any) -> object:
        claim = self._claim_of(index)
        return await self.stores.ledger.finalize(claim, end_of(claim.submission, status))

    async def _settle(self, index: int) -> object:
        if not self.writers:
            return None
        assert self.stores.ledger.shared is not None
        claim, writer = self.writers[index % len(self.writers)]
        settled = end_of(claim.submission)
        expected = await self._tail(writer)
        return await self.stores.ledger.shared.settle(
            claim, writer, end_batch(claim, settled), expected=expected, settled=settled
        )

    async def _append(self, index: int) -> object:
        if not self.writers:
            return None
        _, writer = self.writers[index % len(self.writers)]
        self.appended += 1
        batch = a_batch(f"b{self.appended}")
        return await self.stores.conversations.append(writer, batch, expected=await self._tail(writer))

    async def _tail(self, writer: Writer) -> Tail:
        return await self.stores.conversations.inspect_tail(writer.address)

    async def _forget(self, place: str) -> object:
        return await self.stores.ledger.forget(Address(tenant=TENANT, conversation=ConversationId(place)))


NOBODY = Claim(
    submission=submission("nobody"),
    epoch=Epoch(1),
    worker="w",
    lease_until=HandClock().now(),
    attempts=1,
    resumed=False,
)


async def compare(commands: list[tuple[Any, ...]], folder: Path) -> None:
    clock = HandClock()
    places = {"memory": folder / "memory", "sqlite": folder / "sqlite"}
    for place in places.values():
        place.mkdir()
    rest = list(commands)
    sides: list[Side] = []
    told = ["(begun)"]
    while True:
        async with AsyncExitStack() as stack:
            opened = [
                await stack.enter_async_context(open_stores(kind, places[kind], clock, waiting_limit=4))
                for kind in KINDS
            ]
            if not sides:
                sides = [Side(stores=stores) for stores in opened]
            for side, stores in zip(sides, opened, strict=True):
                side.stores = stores
            seen = [await side.seen() for side in sides]
            assert seen[0] == seen[1], f"seen otherwise after {told[-1]} and reopening"
            while rest and rest[0] != ("reopen",):
                step = rest.pop(0)
                told.append(repr(step))
                if step[0] == "wait":
                    clock.move(step[1])
                    continue
                answers = [await side.answer(step) for side in sides]
                assert answers[0] == answers[1], f"answered otherwise: {told[-1]}"
                seen = [await side.seen() for side in sides]
                assert seen[0] == seen[1], f"seen otherwise after {told[-1]}"
                await never_two_at_once(sides[0].stores)
        if not rest:
            break
        rest.pop(0)
    async with open_sqlite(places["sqlite"] / "store.db", clock=clock) as store:
        # Claims are made without a log here, which a kernel never does.
        problems = [each.problem for each in await store.verify()]
        assert not [each for each in problems if "log that is not there" not in each and "than its run" not in each]


async def never_two_at_once(stores: Stores) -> None:
    """DUR-005: of each conversation at most one run has begun and not ended. Nothing of the rules is asked here."""
    begun = Counter(each.submission.address for each in await stores.ledger.scan() if each.epoch > 0)
    assert all(count == 1 for count in begun.values()), begun


@settings(max_examples=60, deadline=None)
@given(st.lists(steps, min_size=5, max_size=40))
def test_both_ledgers_answer_alike(commands: list[tuple[Any, ...]]) -> None:
    with tempfile.TemporaryDirectory(prefix="triolet-") as folder:
        trio.run(compare, commands, Path(folder))
