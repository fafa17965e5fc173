"""Runs that go wrong in every way there is, with a marker in everything that anybody says.

Decides nothing that is judged: these are the scenes that the cases about telemetry play, and the channels that are
written to in them. CAP-013, SEC-006.
"""

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, cast

import attrs
import trio

from triolet.adapters.scripted_model import ScriptItem, Turn, call, text, turn
from triolet.kernel import ApprovalPolicy, Policy, RetryPolicy, Telemetry, Tool, ToolContext, tool
from triolet.ports.approval import ApprovalRequest, Decision
from triolet.ports.authorizer import Allow, CallTool, Deny, Verdict
from triolet.ports.batch import Batch
from triolet.ports.language_model import MalformedResponse, ModelRefused, ModelRequest, ModelUnavailable
from triolet.ports.secrets import Secret, SecretHandle, SecretResolver
from triolet.ports.strict_json import JsonValue
from triolet.spec_tests.cases.kernel.asking import BOSS, Desk, Rules, open_office, yes
from triolet.spec_tests.cases.kernel.setting import Bench, KeepingStore, KernelSubject, text_agent
from triolet.spec_tests.markers import Markers

MAY_BE_TOLD: Final[Mapping[str, str]] = {
    "prompt": "gen_ai.input.messages",
    "instructions": "gen_ai.system_instructions",
    "answer": "gen_ai.output.messages",
    "tool-input": "gen_ai.tool.call.arguments",
    "tool-output": "gen_ai.tool.call.result",
    "declared-failure": "gen_ai.tool.call.result",
    "invalid-input": "gen_ai.output.messages",
    "unknown-tool": "gen_ai.output.messages",
    "no-json": "gen_ai.output.messages",
    "invalid-answer": "gen_ai.output.messages",
    "cut-answer": "gen_ai.output.messages",
    "steering": "gen_ai.input.messages",
    "denial": "triolet.approval.reason",
    "consent": "triolet.approval.reason",
    "previewed": "triolet.approval.preview",
    "forbidden": "triolet.authorization.reason",
}
"""With content, each of these channels is found in this attribute."""
NEVER_TOLD: Final = (
    "exception",
    "cause",
    "note",
    "bad-output",
    "progress",
    "step",
    "hidden-input",
    "hidden-output",
    "secret",
    "model-detail",
    "model-exception",
    "malformed",
    "store-exception",
    "store-cause",
    "author",
)
"""These are told never: errors carry text that nobody chose, and what a tool redacts stays redacted."""
CHANNELS: Final = (*MAY_BE_TOLD, *NEVER_TOLD)
CONTENT: Final = frozenset({*MAY_BE_TOLD.values()})
"""The attributes that may hold content."""

ONCE: Final = Policy(retry=RetryPolicy(tries=1))


class _Vault:
    """A resolver whose only secret is a marker."""

    def __init__(self, markers: Markers) -> None:
        self._markers = markers

    async def resolve(self, handle: SecretHandle) -> Secret:
        """Resolve whatever is asked for."""
        await trio.lowlevel.checkpoint()
        return Secret(handle, self._markers.passes("secret"))


@attrs.define(kw_only=True)
class SoldOut(Exception):
    """A declared failure."""

    item: str


@attrs.frozen(kw_only=True, eq=False)
class Scenes:
    """Everything that a scene needs. `secret` is a value that a handler has resolved."""

    subject: KernelSubject
    telemetry: Telemetry
    markers: Markers
    stored: list[str] = attrs.field(factory=list[str])

    async def play(self) -> None:
        """Play them all."""
        for scene in (self._tools, self._asking, self._models, self._stores, self._answers, self._stops):
            await scene()

    @asynccontextmanager
    async def _open(self, script: list[ScriptItem], agent: Any, **ports: Any) -> AsyncGenerator[Bench]:
        async with open_office(self.subject, script, agent, telemetry=self.telemetry, **ports) as bench:
            yield bench
            self.stored.append(bench.stored_text)

    def _heard(self, *channels: str) -> Callable[[ModelRequest], Any]:
        """A turn of the script: the model ends the run, having been shown these."""

        def answer(request: ModelRequest) -> Any:
            self.markers.look_for(channels, f"{request.instructions} {tuple(request.messages)!r}")
            return turn(self.markers.passes("answer"))

        return answer

    async def _tools(self) -> None:
        """Every way in which a call can end but by approval."""
        mark = self.markers
        calls = turn(
            call("look", {"text": mark.of("tool-input")}),
            call("buy", {"text": "x"}),
            call("crash", {"text": "x"}),
            call("garble", {"text": "x"}),
            call("work", {"text": "x"}),
            call("hush", {"text": mark.passes("hidden-input")}),
            call("look", {"text": "x", "more": mark.passes("invalid-input")}),
            call("look", mark.passes("no-json")),
            call(mark.passes("unknown-tool"), {"text": "x"}),
        )
        agent = text_agent(*self._all_tools(), policy=ONCE, instructions=f"Heed {mark.of('instructions')}.")
        script: list[ScriptItem] = [
            calls,
            self._heard("prompt", "instructions", "tool-output", "declared-failure"),
        ]
        async with (
            self._open(script, agent, secrets=_Vault(mark)) as bench,
            bench.kernel.conversation("c") as conversation,
        ):
            await conversation.run(agent, mark.of("prompt"), author=mark.passes("author"))

    def _all_tools(self) -> tuple[Tool[Any, Any], ...]:
        mark = self.markers

        @tool(execution="readonly")
        async def look(text: str, context: ToolContext) -> str:
            mark.look_for(["tool-input"], text)
            context.progress(mark.passes("progress"))
            return mark.of("tool-output")

        @tool(failures=(SoldOut,))
        async def buy(text: str) -> str:
            raise SoldOut(item=mark.of("declared-failure"))

        @tool(requires=["secrets"])
        async def crash(text: str, context: ToolContext) -> str:
            secrets = cast("SecretResolver", context.port("secrets"))
            token = await secrets.resolve(SecretHandle(name="token"))
            try:
                raise KeyError(mark.passes("cause"))
            except KeyError as cause:
                error = RuntimeError(mark.passes("exception"), f"token {token.reveal()}")
                error.add_note(mark.passes("note"))
                raise error from cause

        @tool
        async def garble(text: str) -> int:
            wrong: Any = mark.passes("bad-output")
            return wrong  # type: ignore[no-any-return]  # it breaks its schema on purpose

        @tool(execution="durable")
        async def work(text: str, context: ToolContext) -> str:
            async def step() -> JsonValue:
                return mark.passes("step")

            await context.step("one", step)
            return "worked"

        @tool(redact=_without_text)
        async def hush(text: str) -> str:
            return mark.passes("hidden-output")

        return look, buy, crash, garble, work, hush

    async def _asking(self) -> None:
        """Approvers and authorities who give reasons."""
        mark = self.markers

        def answer(request: ApprovalRequest) -> Decision:
            if mark.of("previewed") in request.preview:
                mark.passes("previewed")
                return attrs.evolve(yes(request), reason=mark.passes("consent"))
            return Decision(verdict="denied", by=BOSS, reason=mark.passes("denial"), arguments=request.arguments)

        def judge(action: CallTool) -> Verdict:
            if action.tool == "barred":
                return Deny(reason=mark.passes("forbidden"), recoverable=True)
            return Allow()

        @tool(needs_approval=True)
        async def pay(text: str) -> str:
            return "paid"

        @tool
        async def barred(text: str) -> str:
            return "never"

        policy = Policy(approval=ApprovalPolicy(denial="recoverable"), retry=RetryPolicy(tries=1))
        agent = text_agent(pay, barred, policy=policy)
        calls = turn(
            call("pay", {"text": mark.of("previewed")}), call("pay", {"text": "y"}), call("barred", {"text": "z"})
        )
        async with self._open([calls, self._heard()], agent, desk=Desk(answer), authorizer=Rules(judge)) as bench:
            await bench.run()
        # And once more with a no that ends the run.
        terminal = text_agent(pay, policy=Policy(retry=RetryPolicy(tries=1)))
        async with self._open([turn(call("pay", {"text": "y"}))], terminal, desk=Desk(answer)) as bench:
            await bench.run()

    async def _models(self) -> None:
        """A model that fails, in its own words."""
        mark = self.markers
        failures = (
            ModelRefused(model="scripted", reason="bad-request", detail=mark.passes("model-detail")),
            MalformedResponse(problem=mark.passes("malformed")),
            ModelUnavailable(model="scripted", reason="timeout"),
            RuntimeError(mark.passes("model-exception")),
        )
        for failure in failures:
            agent = text_agent(policy=ONCE)
            script: list[ScriptItem] = [turn(text(mark.passes("cut-answer"), chunks=1)).failing(failure, after=1)]
            with suppress(RuntimeError):
                async with self._open(script, agent) as bench:
                    await bench.run()

    async def _stores(self) -> None:
        """A store that breaks down while a run is under way."""
        mark = self.markers
        store = KeepingStore()

        async def fail(batch: Batch) -> None:
            if batch.run is not None:
                raise RuntimeError(mark.passes("store-exception")) from KeyError(mark.passes("store-cause"))

        store.before = fail
        agent = text_agent(policy=ONCE)
        with suppress(RuntimeError):
            async with self._open([turn("never")], agent, store=store) as bench:
                await bench.run()

    async def _answers(self) -> None:
        """An answer that is none, steering, and the correction that the kernel asks for."""
        mark = self.markers
        steered = trio.Event()
        asked = trio.Event()

        @tool
        async def pause() -> str:
            asked.set()
            await steered.wait()
            return "on"

        agent = text_agent(pause, policy=Policy(retry=RetryPolicy(tries=1), max_turns=4), output=int)

        def last(request: ModelRequest) -> Any:
            mark.look_for(["steering"], repr(tuple(request.messages)))
            return turn("7")

        script: list[ScriptItem] = [turn(call("pause")), turn(mark.passes("invalid-answer")), last]
        async with (
            self._open(script, agent) as bench,
            bench.kernel.conversation("c") as conversation,
            conversation.stream(agent, "go") as handle,
        ):
            await asked.wait()
            await handle.steer(mark.of("steering"))
            steered.set()
            await handle.result()

    async def _stops(self) -> None:
        """A run that is cancelled in its model, and one that is in its tool."""

        @tool
        async def hang(text: str) -> str:
            began.set()
            await trio.sleep_forever()
            return ""

        turns: tuple[Callable[[trio.Event], Turn], ...] = (
            lambda event: turn(text(self.markers.passes("cut-answer"), chunks=1)).hanging(event, after=1),
            lambda _: turn(call("hang", {"text": self.markers.of("tool-input")})),
        )
        for make in turns:
            began = trio.Event()
            script: list[ScriptItem] = [make(began)]
            agent = text_agent(hang, policy=ONCE)
            async with self._open(script, agent) as bench, trio.open_nursery() as nursery:
                nursery.start_soon(bench.run)
                await began.wait()
                nursery.cancel_scope.cancel()


def _without_text(value: JsonValue) -> JsonValue:
    return {**value, "text": "***"} if isinstance(value, dict) else "***"
