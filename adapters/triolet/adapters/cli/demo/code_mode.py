"""`triolet demo --code`: one program over the folder's tools, in a cage, and everything that can be seen of it.

Decides the program, which is written here: a model this small writes none. A substitute hands it to the kernel as a
model would; from there on nothing is played: the program is decoded, runs in WebAssembly, and each of its calls takes
the way of a direct one.
"""

import json
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any, Final

import attrs
import trio

from triolet.adapters.cli.commands import CommandFailed
from triolet.adapters.cli.demo.code_report import CodeReport
from triolet.adapters.cli.demo.folder import Folder
from triolet.adapters.cli.demo.interruption import listening
from triolet.adapters.cli.demo.tools import make_toolkit
from triolet.adapters.memory import in_memory
from triolet.adapters.scripted_model import ScriptedModel, Turn, call, text, turn
from triolet.kernel import Aborted, Agent, Completed, Failed, Policy, Tool, Toolkit, code_mode, open_kernel
from triolet.ports.code_executor import CodeExecutor, CodeLimits, ExecutorUnavailable
from triolet.ports.errors import TrioletError
from triolet.ports.identity import AgentId
from triolet.ports.language_model import ModelRequest
from triolet.ports.messages import ToolMessage
from triolet.ports.outcomes import ToolSuccess
from triolet.ports.strict_json import parse
from triolet.ports.tool_context import ToolContext

TOOL: Final = "run_program"
PROGRAM: Final = """\
async () => {
  const { files, names } = await folder.list_files({});
  const counted = [];
  for (const file of names) {
    try {
      counted.push(await folder.count_words({ file }));
    } catch (error) {
      console.log(`${file}: ${error.tag}`);
    }
  }
  const words = counted.reduce((sum, each) => sum + each.words, 0);
  console.log(`${counted.length} of ${files} files counted`);
  counted.sort((a, b) => b.words - a.words);
  return { words, longest: counted.slice(0, 3) };
}"""

_CALLS: Final = 250
_POLICY: Final = Policy(max_turns=3, max_tool_calls=_CALLS + 10, max_seconds=600.0)
_LIMITS: Final = CodeLimits(calls=_CALLS, wall_seconds=300.0)


async def run_code_demo(folder: Folder, shown_folder: str, report: CodeReport) -> int:
    """Run the program over `folder`, report everything, and return 0. Raises `CommandFailed`."""
    report.opening(folder, shown_folder)
    with trio.CancelScope() as scope, listening(scope.cancel) as interruption:
        try:
            async with _open_executor() as executor:
                report.program(PROGRAM, executor.implementation)
                agent = _agent(folder, report.called)
                capabilities = attrs.evolve(in_memory(model=_model()), code=executor)
                async with (
                    open_kernel(agents=[agent], capabilities=capabilities) as kernel,
                    kernel.stream(agent, "What is in this folder?") as run,
                ):
                    interruption.on_signal = run.cancel
                    async for event in run.events():
                        report.event(event)
                    result = await run.result()
        except TrioletError as problem:
            raise CommandFailed(problem.message) from problem
        match result:
            case Completed(output=said):
                report.end(said)
                return 0
            case Failed(error=error):
                raise CommandFailed(error.message)
            case Aborted() if interruption.number is not None:
                raise CommandFailed("interrupted; the run was settled as aborted", interruption.status)
            case _:
                raise CommandFailed("the run did not complete")
    raise CommandFailed("interrupted before the run began", interruption.status)


@asynccontextmanager
async def _open_executor() -> AsyncGenerator[CodeExecutor]:
    try:
        from triolet.adapters.quickjs_wasm import open_quickjs_wasm
    except ModuleNotFoundError as error:
        if error.name != "wasmtime":
            raise
        raise CommandFailed("wasmtime is not installed. Run: pip install 'triolet[code]'") from error
    try:
        async with open_quickjs_wasm() as executor:
            yield executor
    except ExecutorUnavailable as error:
        raise CommandFailed(error.message) from error


def _agent(folder: Folder, called: Callable[[str, Any], None]) -> Agent[str, str]:
    listed = list(_watched(make_toolkit(folder), called))
    return Agent(
        id=AgentId("program-runner"),
        input=str,
        output=str,
        instructions="You answer questions about the files in a folder by running programs.",
        toolkit=Toolkit([code_mode(TOOL, {"folder": listed}, limits=_LIMITS)]),
        policy=_POLICY,
    )


def _watched(toolkit: Toolkit, called: Callable[[str, Any], None]) -> Iterator[Tool[Any, Any]]:
    for tool in toolkit:
        # Inner calls leave no record and no event of their own, so the demo looks at the handlers.
        def handler(asked: Any, context: ToolContext, tool: Tool[Any, Any] = tool) -> Any:
            trio.from_thread.run_sync(called, tool.name, attrs.asdict(asked))
            return tool.handler(asked, context)

        yield attrs.evolve(tool, handler=handler)


def _model() -> ScriptedModel:
    def answer(request: ModelRequest) -> Turn:
        last = request.messages[-1]
        outcome = last.results[0].outcome if isinstance(last, ToolMessage) else None
        if not isinstance(outcome, ToolSuccess):
            return turn(text("The program did not return."), usage=None)
        told: Any = parse(outcome.output)
        value, calls = told["result"], told["calls"]
        longest = value["longest"][0]["file"] if value["longest"] else "nothing"
        said = f"{value['words']} words, by {calls} calls of one program; most are in {json.dumps(longest)}."
        return turn(text(said), usage=None)

    return ScriptedModel((turn(call(TOOL, {"code": PROGRAM}), usage=None), answer), remember=0)
