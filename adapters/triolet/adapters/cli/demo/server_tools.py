"""`triolet demo --mcp`: the demo's agent with the tools of an MCP server beside its own.

Decides what such an agent answers with: plain text, since nobody knows beforehand what a server's tools return. The
server's tools take the way of every other tool; which server it was is in the run's events. With `--scripted` plain
rules choose a tool from the request alone.
"""

import re
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Final, cast

import orjson
import trio

from triolet.adapters.cli.commands import CommandFailed
from triolet.adapters.cli.demo.agent import POLICY, SETTINGS
from triolet.adapters.cli.demo.folder import Folder
from triolet.adapters.cli.demo.interruption import listening
from triolet.adapters.cli.demo.json_lines import event_line
from triolet.adapters.cli.demo.tools import make_toolkit
from triolet.adapters.cli.mcp_target import Target
from triolet.adapters.mcp import McpPolicy, open_mcp
from triolet.adapters.memory import in_memory
from triolet.adapters.request_driven_model import NoMinimalValue, minimal_value
from triolet.adapters.scripted_model import ScriptedModel, Turn, call, text, turn
from triolet.kernel import Aborted, Agent, Completed, Failed, open_kernel
from triolet.ports.errors import TrioletError
from triolet.ports.identity import AgentId
from triolet.ports.language_model import LanguageModel, ModelRequest, ToolDeclaration
from triolet.ports.messages import ToolMessage
from triolet.ports.outcomes import outcome_text
from triolet.ports.strict_json import JsonValue

SOURCE: Final = "server"
QUESTION: Final = "What can you tell me?"
_SHOWN: Final = 400
_WORD: Final = re.compile(r"[a-z0-9]+")


async def run_server_demo(target: Target, folder: Folder, question: str, *, scripted: bool, as_json: bool) -> int:
    """Run the agent, show its events and its answer, and return 0. Raises `CommandFailed`."""
    report = _Lines() if as_json else _Page()
    with trio.CancelScope() as scope, listening(scope.cancel) as interruption:
        agent = Agent(
            id=AgentId("folder-and-server"),
            input=str,
            output=str,
            instructions="You answer questions with tools: some read a folder, the others are a server's.",
            toolkit=make_toolkit(folder),
            sources=(SOURCE,),
            policy=POLICY,
            settings=SETTINGS,
        )
        try:
            # What the server says of its tools is believed as far as it makes them no more than readonly.
            policy = McpPolicy(trust_hints=("*",))
            async with (
                open_mcp(target.server, name=SOURCE, policy=policy, secrets=target.secrets) as source,
                _open_model(question, scripted=scripted) as model,
                open_kernel(agents=[agent], capabilities=in_memory(model=model, tool_sources=(source,))) as kernel,
                kernel.stream(agent, question) as run,
            ):
                interruption.on_signal = run.cancel
                async for event in run.events():
                    report.event(event)
                result = await run.result()
        except TrioletError as problem:
            raise CommandFailed(problem.message) from problem
        match result:
            case Completed(output=said):
                report.end(question, said)
                return 0
            case Failed(error=error):
                raise CommandFailed(error.message)
            case Aborted() if interruption.number is not None:
                raise CommandFailed("interrupted; the run was settled as aborted", interruption.status)
            case _:
                raise CommandFailed("the run did not complete")
    raise CommandFailed("interrupted before the run began", interruption.status)


@asynccontextmanager
async def _open_model(question: str, *, scripted: bool) -> AsyncGenerator[LanguageModel]:
    if scripted:
        yield _scripted(question)
        return
    from triolet.adapters.local_model import LocalModelMissing, open_local_model
    from triolet.adapters.openai_compatible import JsonSchema

    try:
        async with open_local_model(protocol=JsonSchema()) as model:
            yield model
    except LocalModelMissing as error:
        raise CommandFailed(f"{error.message} (or see the demo without a model: --scripted)") from error


def _scripted(question: str) -> ScriptedModel:
    def act(request: ModelRequest) -> Turn:
        chosen = _chosen(question, [tool for tool in request.tools if tool.name.startswith(f"{SOURCE}__")])
        if chosen is None:
            return turn(text("The server has no tool that can be called without knowing more."), usage=None)
        tool, arguments = chosen
        return turn(call(tool.name, arguments), usage=None)

    def reply(request: ModelRequest) -> Turn:
        last = request.messages[-1]
        said = outcome_text(last.results[0].outcome) if isinstance(last, ToolMessage) else "There was no result."
        return turn(text(said[:_SHOWN], chunks=4), usage=None)

    return ScriptedModel((act, reply), remember=0)


def _chosen(question: str, tools: list[ToolDeclaration]) -> tuple[ToolDeclaration, dict[str, JsonValue]] | None:
    """The tool whose name and description share most words with the question, and the least it takes."""
    wanted = set(_WORD.findall(question.lower()))

    def shared(tool: ToolDeclaration) -> int:
        return len(wanted & set(_WORD.findall(f"{tool.name} {tool.description}".lower().replace("_", " "))))

    for tool in sorted(tools, key=lambda tool: (-shared(tool), tool.name)):
        try:
            least = minimal_value(tool.input_schema)
        except (NoMinimalValue, TrioletError):
            continue
        return tool, _with_question(cast("dict[str, JsonValue]", least), question)
    return None


def _with_question(arguments: dict[str, JsonValue], question: str) -> dict[str, JsonValue]:
    return {name: question if value == "" else value for name, value in arguments.items()}


class _Page:
    """For people, on standard output."""

    def __init__(self) -> None:
        from triolet.adapters.console import Timeline, open_page

        self._page = open_page(sys.stdout)
        self._timeline = Timeline(self._page)

    def event(self, event: Any) -> None:
        """An event of the run."""
        self._timeline.show(event)

    def end(self, question: str, said: str) -> None:
        """The answer was streamed already."""
        self._page.blank()


class _Lines:
    """For programs, on standard output and nothing else there; in UTF-8 whatever the terminal's encoding is."""

    def __init__(self) -> None:
        if reconfigure := getattr(sys.stdout, "reconfigure", None):
            reconfigure(encoding="utf-8")

    def event(self, event: Any) -> None:
        """An event of the run."""
        print(event_line(event), flush=True)

    def end(self, question: str, said: str) -> None:
        """The answer."""
        print(orjson.dumps({"kind": "result", "question": question, "answer": said}).decode(), flush=True)
