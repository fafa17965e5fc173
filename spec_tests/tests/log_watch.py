"""What every test that drives a kernel is held to, whatever it looks at itself.

Watches the one place through which a kernel's records become true, in any store, and checks each time that the history
could be shown to a model, that no call has a second result and no run a second end. At the end of a test every run that
became true has its end, unless the test says that its store kept the end from being written.
"""

from collections.abc import Iterator

import attrs
import pytest

from triolet.kernel.journal import Journal
from triolet.kernel.machine.state import ConversationState
from triolet.kernel.machine.validity import history_problem
from triolet.ports.batch import Batch
from triolet.ports.conversation_store import Address, ConversationStore
from triolet.ports.identity import BatchId, CallId, RunId
from triolet.ports.messages import AssistantMessage
from triolet.ports.records import ModelResponded, RunSettled, RunStarted, ToolSettled


@attrs.define(kw_only=True)
class _Seen:
    store: ConversationStore
    address: Address
    batches: set[BatchId] = attrs.field(factory=set[BatchId])
    open_runs: set[RunId] = attrs.field(factory=set[RunId])
    settled: set[RunId] = attrs.field(factory=set[RunId])
    open_calls: list[CallId] = attrs.field(factory=list[CallId])
    history: int = 0


@attrs.define(kw_only=True)
class LogWatch:
    """Every log that a kernel of this test has written to. `open_runs_are_fine` is the test's own word."""

    open_runs_are_fine: bool = False
    appends: int = 0
    _logs: dict[tuple[int, Address], _Seen] = attrs.field(factory=dict[tuple[int, Address], _Seen])

    def saw(self, store: ConversationStore, address: Address, batch: Batch, after: ConversationState) -> None:
        """A store has answered that `batch` is on record; `after` is what the kernel makes of it."""
        self.appends += 1
        seen = self._logs.setdefault((id(store), address), _Seen(store=store, address=address))
        assert batch.id not in seen.batches, f"batch {batch.id} was put on record twice"
        seen.batches.add(batch.id)
        for record in batch.records:
            match record:
                case RunStarted(run=run):
                    assert run not in seen.settled | seen.open_runs, f"run {run} started twice"
                    seen.open_runs.add(run)
                case ModelResponded(message=message):
                    assert not seen.open_calls, "a model answered while calls had no result"
                    seen.open_calls = [call.id for call in message.calls]
                case ToolSettled(call=call):
                    # A lost run's calls may have become true without an answer to whoever wrote them.
                    assert not seen.open_calls or seen.open_calls[0] == call, "a result out of order"
                    seen.open_calls = seen.open_calls[1:]
                case RunSettled(run=run):
                    assert run not in seen.settled, f"run {run} settled twice"
                    assert not seen.open_calls, f"run {run} settled over calls without results"
                    seen.settled.add(run)
                    seen.open_runs.discard(run)
                case _:
                    pass
        if after.phase != "batch":
            assert history_problem(after.history) is None
            calls = [call.id for m in after.history if isinstance(m, AssistantMessage) for call in m.calls]
            assert len(calls) == len(set(calls)), "two calls of one history share an identity"
        assert len(after.history) >= seen.history, "a history became shorter"
        seen.history = len(after.history)

    def finish(self) -> None:
        """The test is over."""
        if self.open_runs_are_fine:
            return
        for seen in self._logs.values():
            assert not seen.open_runs, f"runs without an end in {seen.address.conversation}: {seen.open_runs}"


@pytest.fixture(autouse=True)
def log_watch(monkeypatch: pytest.MonkeyPatch) -> Iterator[LogWatch]:
    """Watch every kernel of the test."""
    watch = LogWatch()
    append = Journal.append

    async def watched(self: Journal, batch: Batch, after: ConversationState) -> None:
        await append(self, batch, after)
        watch.saw(self._store, self.address, batch, after)

    monkeypatch.setattr(Journal, "append", watched)
    yield watch
    watch.finish()
