"""Wrong kernels: assembly, the interpreter's trace, sealing, tasks and permits."""

from typing import Any, Self

import attrs
import trio

from tests.mutants.mutant import Mutant, Patches, always, kernel_mutant
from triolet.kernel import MissingCapabilities
from triolet.ports.errors import TrioletError
from triolet.ports.events import Gap, TerminalEvent
from triolet.ports.language_model import CallChunk, CallOpened
from triolet.ports.messages import ToolMessage
from triolet.ports.usage import UsageTotals


@kernel_mutant("CAP-002")
def names_one_missing_port(patches: Patches) -> None:
    """Preflight stops at the first port that is missing."""

    def check(original: Any) -> Any:
        def first_only(*args: Any) -> None:
            try:
                original(*args)
            except MissingCapabilities as error:
                raise MissingCapabilities(missing=error.missing[:1]) from None

        return first_only

    patches.wrap("triolet.kernel.runtime.check_assembly", check)


@kernel_mutant("CAP-002")
def looks_when_it_needs(patches: Patches) -> None:
    """What is missing is found out when it is used."""
    patches.wrap("triolet.kernel.runtime.check_assembly", always(None))


@kernel_mutant("CAP-002")
def wants_a_model_for_all(patches: Patches) -> None:
    """An agent that brings its own model is said to lack one."""

    def needs(original: Any) -> Any:
        return lambda agent: (*original(agent), ("model", f"agent {agent.id}"))

    patches.wrap("triolet.kernel.preflight._needs", needs)


@kernel_mutant("CAP-002")
def runs_strangers(patches: Patches) -> None:
    """Any agent may run, whether the kernel was opened with it or not."""
    patches.wrap("triolet.kernel.runtime.Runtime.check_known", always(None))


@kernel_mutant("CAP-003")
def gives_tools_away(patches: Patches) -> None:
    """A model is given the tools themselves."""
    patches.wrap("triolet.ports.tools.Toolkit.declarations", lambda _: tuple)


@kernel_mutant("CAP-003", "RUN-004")
def runs_tools_while_streaming(patches: Patches) -> None:
    """A call runs as soon as its arguments are there, in the midst of the response."""

    def feed(original: Any) -> Any:
        names: dict[int, str] = {}

        def eager(self: Any, part: Any) -> None:
            original(self, part)
            if isinstance(part, CallOpened):
                names[part.index] = part.name
            if isinstance(part, CallChunk) and _EAGER:
                tool = _EAGER[-1].find(names[part.index])
                _start(tool.handler(tool.input.decode_text(part.text), None))

        return eager

    def ask(original: Any) -> Any:
        async def with_toolkit(self: Any, *args: Any) -> Any:
            _EAGER.append(self._agent.toolkit)
            return await original(self, *args)

        return with_toolkit

    _EAGER.clear()
    patches.wrap("triolet.kernel.machine.reduction.Reduction.feed", feed)
    patches.wrap("triolet.kernel.model_call.ModelCall.ask", ask)


_EAGER: list[Any] = []


def _start(handler: Any) -> None:
    try:
        handler.send(None)
    except StopIteration:
        return
    handler.close()


@kernel_mutant("CAP-003")
def runs_each_call_twice(patches: Patches) -> None:
    """A handler that went well is called once more."""

    def run(original: Any) -> Any:
        async def twice(*args: Any, **kwargs: Any) -> Any:
            await original(*args, **kwargs)
            return await original(*args, **kwargs)

        return twice

    patches.wrap("triolet.kernel.pipeline.calling.run_handler", run)


@kernel_mutant("RUN-001")
def has_a_second_loop(patches: Patches) -> None:
    """`run` knows nothing of usage, which `stream` shows."""

    def result(original: Any) -> Any:
        return lambda *args: attrs.evolve(original(*args), usage=UsageTotals())

    patches.wrap("triolet.kernel.conversation.result_of", result)


@kernel_mutant("RUN-001")
def has_its_result_from_elsewhere(patches: Patches) -> None:
    """A handle's result counts a turn more than its terminal event."""

    def result(original: Any) -> Any:
        def counted(*args: Any) -> Any:
            made = original(*args)
            return attrs.evolve(made, turns=made.turns + 1)

        return counted

    patches.wrap("triolet.kernel.run_handle.result_of", result)


@kernel_mutant("RUN-002")
def ends_twice(patches: Patches) -> None:
    """The terminal event is shown twice."""

    def record(original: Any) -> Any:
        def doubled(self: Any, *args: Any) -> None:
            original(self, *args)
            if isinstance(self.terminal, TerminalEvent):
                self._semantic.append(self.terminal)

        return doubled

    patches.wrap("triolet.kernel.trace.EventSource.record", record)


@kernel_mutant("RUN-010")
def goes_on_unwatched(patches: Patches) -> None:
    """Leaving the scope of a stream does not end its run."""
    patches.wrap("triolet.kernel.run_handle.RunHandle.cancel", always(None))


@kernel_mutant("RUN-010")
def waits_for_its_readers(patches: Patches) -> None:
    """A run goes on once every reader has read what there is."""
    readers: list[Any] = []

    def reader(original: Any) -> Any:
        def kept(self: Any) -> Any:
            readers.append(original(self))
            return readers[-1]

        return kept

    def flush(original: Any) -> Any:
        async def patient(self: Any) -> None:
            await original(self)
            while any(  # noqa: ASYNC110 -- nothing tells when a reader has read
                each._source is self._source and each.semantic < len(self._source._semantic) for each in readers
            ):
                await trio.sleep(0.01)

        return patient

    patches.wrap("triolet.kernel.trace.EventSource.reader", reader)
    patches.wrap("triolet.kernel.interpreter.Interpreter._flush", flush)


@kernel_mutant("RUN-010")
def remembers_eight(patches: Patches) -> None:
    """Whoever falls eight deltas behind misses some."""
    patches.wrap("triolet.kernel.trace.RING", lambda _: 8)


@kernel_mutant("RUN-010")
def remembers_all(patches: Patches) -> None:
    """Every delta of every answer is kept for observers who may come."""
    patches.wrap("triolet.kernel.trace.RING", lambda _: 100_000)


@kernel_mutant("RUN-010")
def ends_with_its_reader(patches: Patches) -> None:
    """A reader that is cancelled takes the others' events along."""

    def arrival(original: Any) -> Any:
        async def fragile(self: Any) -> bool:
            try:
                more: bool = await original(self)
            except trio.Cancelled:
                self.end()
                raise
            return more

        return fragile

    patches.wrap("triolet.kernel.trace.EventSource.arrival", arrival)


@kernel_mutant("RUN-010")
def hides_what_was_missed(patches: Patches) -> None:
    """A reader that is too slow is not told so."""

    def next_for(original: Any) -> Any:
        def without_gaps(self: Any, reader: Any) -> Any:
            event = original(self, reader)
            return original(self, reader) if isinstance(event, Gap) else event

        return without_gaps

    patches.wrap("triolet.kernel.trace.EventSource.next_for", next_for)


@kernel_mutant("RUN-005")
def shows_half_a_batch(patches: Patches) -> None:
    """A request shows the first result of each call batch only."""

    def request(original: Any) -> Any:
        def halved(self: Any, *args: Any) -> Any:
            made = original(self, *args)
            messages = tuple(
                attrs.evolve(each, results=each.results[:-1]) if isinstance(each, ToolMessage) else each
                for each in made.messages
            )
            return attrs.evolve(made, messages=messages)

        return halved

    patches.wrap("triolet.kernel.model_call.ModelCall._request", request)


@kernel_mutant("RUN-005")
def seals_nothing(patches: Patches) -> None:
    """A run that is stopped just stops."""

    def seal(_: Any) -> Any:
        async def forget(self: Any, *args: Any) -> None:
            await trio.lowlevel.checkpoint_if_cancelled()

        return forget

    patches.wrap("triolet.kernel.interpreter.Interpreter._seal", seal)


@kernel_mutant("RUN-005")
def leaves_lost_runs(patches: Patches) -> None:
    """Who takes a conversation over finds the lost run open."""

    def settle(_: Any) -> Any:
        async def nothing(self: Any) -> None:
            await trio.lowlevel.checkpoint()

        return nothing

    patches.wrap("triolet.kernel.conversation.Conversation.settle_lost_run", settle)


@kernel_mutant("DUR-007")
def renames_repeated_batches(patches: Patches) -> None:
    """A batch whose append failed is appended again under another name."""

    def flush(original: Any) -> Any:
        async def forgetful(self: Any) -> None:
            try:
                await original(self)
            except TrioletError:
                self._unconfirmed = None
                raise

        return forgetful

    patches.wrap("triolet.kernel.interpreter.Interpreter._flush", flush)


@kernel_mutant("RUN-007", "RUN-008", "CAP-001")
def lets_handlers_go(patches: Patches) -> None:
    """Handlers run in tasks that belong to nobody."""

    class Nobody:
        def __init__(self) -> None:
            self.start_soon = trio.lowlevel.spawn_system_task

        async def __aenter__(self) -> Self:
            return self

        async def __aexit__(self, *_: object) -> None:
            await trio.lowlevel.checkpoint_if_cancelled()

    patches.wrap("triolet.kernel.call_batch.open_plain_nursery", lambda _: Nobody)


@kernel_mutant("RUN-008")
def keeps_the_model_talking(patches: Patches) -> None:
    """A model call that is under way is not cancelled with its run."""

    def stream(original: Any) -> Any:
        async def shielded(self: Any, *args: Any) -> None:
            with trio.CancelScope(shield=True, deadline=trio.current_time() + 60):
                await original(self, *args)

        return shielded

    patches.wrap("triolet.kernel.model_call.ModelCall._stream", stream)


@kernel_mutant("RUN-009")
def runs_all_at_once(patches: Patches) -> None:
    """The policy's concurrency is not looked at."""

    class Loose:
        def __init__(self, agent: Any) -> None:
            self.agent = agent
            self.policy = attrs.evolve(agent.policy, concurrency=1_000)

        def __getattr__(self, name: str) -> Any:
            return getattr(self.agent, name)

    def scope(original: Any) -> Any:
        return lambda runtime, agent, *rest: original(runtime, Loose(agent), *rest)

    patches.wrap("triolet.kernel.interpreter.BatchScope", scope)


@kernel_mutant("RUN-009")
def widens_groups(patches: Patches) -> None:
    """Groups have room for everybody."""

    def assemble(original: Any) -> Any:
        return lambda agents, capabilities, groups, *more: original(
            agents, capabilities, dict.fromkeys(groups, 1_000), *more
        )

    patches.wrap("triolet.kernel.kernel.assemble", assemble)


@kernel_mutant("RUN-009")
def keeps_permits(patches: Patches) -> None:
    """A permit of a group is never given back."""
    patches.wrap("triolet.kernel.call_batch._Call.give_back", always(None))


RUN_MUTANTS: list[Mutant] = [each for each in list(globals().values()) if isinstance(each, Mutant)]
