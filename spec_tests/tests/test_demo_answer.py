"""What the demo vouches for: file names in questions, when an answer is sure, and what its tools can reach."""

import os
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from triolet.adapters.cli.demo.answer import Ledger, Made, Reply, answer_from, read_reply, reply_codec
from triolet.adapters.cli.demo.folder import FileUnavailable, Folder, UnusableFolder, open_folder
from triolet.adapters.cli.demo.mentions import mentions
from triolet.adapters.cli.demo.tools import find_text, make_toolkit
from triolet.ports.errors import InvalidValue
from triolet.ports.events import CallEnded, Trace, TurnEnded
from triolet.ports.identity import AgentId, CallId, ConversationId, Instant, RunId
from triolet.ports.messages import ToolCall
from triolet.ports.outcomes import Outcome, ToolFailure, ToolSuccess
from triolet.ports.strict_json import JsonText
from triolet.ports.usage import Usage

_NAMES = ("0", "PLAN.md", "a b.md", "deep/notes.md", "deep/x.md", "notes.txt", "plan.md", "x.md")


@pytest.mark.parametrize(
    ("question", "names", "rest", "marked"),
    [
        ("How long is notes.txt?", ["notes.txt"], "How long is  ?", 'How long is "notes.txt"?'),
        ('Read "notes.txt".', ["notes.txt"], "Read  .", 'Read "notes.txt".'),
        ("Read 'a b.md' and x.md", ["a b.md", "x.md"], "Read   and  ", 'Read "a b.md" and "x.md"'),
        ("x.md or deep/x.md", ["x.md", "deep/x.md"], "  or  ", '"x.md" or "deep/x.md"'),
        ("What is in NOTES.MD?", ["deep/notes.md"], "What is in  ?", 'What is in "deep/notes.md"?'),
        ("plan.md, then PLAN.md", ["plan.md", "PLAN.md"], " , then  ", '"plan.md", then "PLAN.md"'),
        ("x.md.old, my-x.md, /x.md, x.mdx", [], "x.md.old, my-x.md, /x.md, x.mdx", "x.md.old, my-x.md, /x.md, x.mdx"),
        ("Nothing here", [], "Nothing here", "Nothing here"),
        ("x.md\ue000 and 0", ["x.md", "0"], "   and  ", '"x.md"  and "0"'),
    ],
)
def test_mentions(question: str, names: list[str], rest: str, marked: str) -> None:
    found = mentions(question, _NAMES)
    assert (list(found.names), found.rest, found.marked) == (names, rest, marked)


_NAME = st.text("ab.-_ /\"'\\(", min_size=1, max_size=6).map(lambda name: f"f{name.strip('/ ')}f")


@given(st.lists(_NAME, min_size=1, max_size=5, unique=True), st.data())
def test_every_name_can_be_mentioned(names: list[str], data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(names))
    found = mentions(f"How many words are in {name}?", names)
    assert found.names == (name,)
    # Marking is stable, so that a marked question may be read like one that was not.
    assert mentions(found.marked, names) == attrs.evolve(found, rest=mentions(found.marked, names).rest)


@given(st.text(), st.lists(st.text(min_size=1), max_size=5))
def test_any_question_can_be_read(question: str, names: list[str]) -> None:
    found = mentions(question, names)
    assert set(found.names) <= set(names)
    assert "\ue000" not in found.rest + found.marked
    if not found.names:
        assert found.rest == found.marked


# --- sure or not ---------------------------------------------------------------------------------------------------


def _folder(*names: str) -> Folder:
    return Folder(root=Path("/nowhere"), names=names, left_out={})


_FOLDER = _folder("apples.md", "pears.txt")
_COUNTED = Made(tool="count_words", arguments={"file": "apples.md"}, returned={"file": "apples.md", "words": 8})
_LISTED = Made(tool="list_files", arguments={}, returned={"files": 2, "names": ["apples.md", "pears.txt"]})
_FOUND = Made(
    tool="search",
    arguments={"text": "green ones"},
    returned={"text": "green ones", "files": 1, "names": ["apples.md"], "passage": "and green ones are sour."},
)
_READ = Made(
    tool="read_passage",
    arguments={"file": "apples.md", "line": 1},
    returned={"file": "apples.md", "passage": "Apples are red,\nand green ones are sour."},
)
_FAILED = Made(tool="count_words", arguments={"file": "apples.md"}, returned=None)


_WORDS = Reply(by="count_words", file="apples.md", words=8)
_FILES = Reply(by="list_files", files=2)
_FILE = Reply(by="search", file="apples.md")
_PASSAGE = Reply(by="read_passage", file="apples.md", passage="Apples are red,")


@pytest.mark.parametrize(
    ("question", "made", "reply"),
    [
        ("How many words are in apples.md?", [_COUNTED], _WORDS),
        ("how many words does APPLES.MD have", [_LISTED, _COUNTED], _WORDS),
        ("Please count the words of the file apples.md", [_COUNTED], _WORDS),
        ("What is the word count of apples.md?", [_COUNTED], _WORDS),
        ("How many files are there?", [_LISTED], _FILES),
        ("Which file mentions green ones?", [_FOUND], _FILE),
        ("What file contains 'green ones'?", [_FOUND], _FILE),
        ("What does apples.md say?", [_READ], _PASSAGE),
        ("How does apples.md begin?", [_COUNTED, _READ], _PASSAGE),
    ],
)
def test_an_answer_that_a_tool_returned_is_sure(question: str, made: list[Made], reply: Reply) -> None:
    answer = answer_from(reply, question, _FOLDER, made)
    assert answer.sure, answer.why
    assert answer.why == f"{made[-1]} returned it"
    assert answer.tried == tuple(str(call) for call in made)
    assert attrs.asdict(answer).items() >= attrs.asdict(reply).items()


@pytest.mark.parametrize(
    ("question", "made", "reply", "why"),
    [
        ("How many words are in apples.md?", [_COUNTED], Reply(by="nothing"), "it claims nothing"),
        ("How many words are in apples.md?", [], _WORDS, "no call"),
        ("How many words are in apples.md?", [_FAILED], _WORDS, "no call"),
        ("How many words are in apples.md?", [_LISTED], _WORDS, "no call"),
        ("How many words are in apples.md?", [_COUNTED], attrs.evolve(_WORDS, words=9), "no call"),
        ("How many words are in apples.md?", [_COUNTED], attrs.evolve(_WORDS, file="pears.txt"), "no call"),
        ("How many words are in pears.txt?", [_COUNTED], _WORDS, "the files"),
        ("How many words are in apples.md and pears.txt?", [_COUNTED], _WORDS, "the files"),
        ("How many words are there?", [_COUNTED], _WORDS, "names no file"),
        ("How many words are in other.md?", [_COUNTED], _WORDS, "names no file"),
        ("Who wrote apples.md?", [_COUNTED], _WORDS, "what the question asks for"),
        ("How many words are not in apples.md?", [_COUNTED], _WORDS, "'not'"),
        ("How many words in apples.md start with b?", [_COUNTED], _WORDS, "'start'"),
        ("How many files are there?", [_LISTED], attrs.evolve(_FILES, files=3), "no call"),
        ("How many files are longer than a page?", [_LISTED], _FILES, "'longer'"),
        ("Which files are there?", [_LISTED], _FILES, "what the question asks for"),
        ("What is the capital of France?", [_LISTED], _FILES, "what the question asks for"),
        ("Which file mentions red ones?", [_FOUND], _FILE, "the text that was searched for"),
        ("Which file mentions green ones and blue?", [_FOUND], _FILE, "'and'"),
        ("Which files mention green ones?", [_FOUND], _FILE, "what the question asks for"),
        ("Which file mentions green ones?", [_FOUND], attrs.evolve(_FILE, file="pears.txt"), "no call"),
        ("What does apples.md say?", [_READ], attrs.evolve(_PASSAGE, passage="Apples are blue"), "no call"),
        ("What does apples.md say about pears?", [_READ], _PASSAGE, "'about'"),
        (
            "What does apples.md say?",
            [attrs.evolve(_READ, arguments={"file": "apples.md", "line": 2})],
            _PASSAGE,
            "where the question begins to read",
        ),
    ],
)
def test_what_no_rule_covers_is_not_sure(question: str, made: list[Made], reply: Reply, why: str) -> None:
    answer = answer_from(reply, question, _FOLDER, made)
    assert not answer.sure
    assert why in answer.why


@pytest.mark.parametrize("reply", [_WORDS, _FILES, _FILE, _PASSAGE, Reply(by="nothing")])
def test_a_reply_is_read_from_the_fields_of_its_tool(reply: Reply) -> None:
    codec = reply_codec(_FOLDER)
    said = {name: value for name, value in attrs.asdict(reply).items() if value is not None}
    assert read_reply(codec.decode(said)) == reply
    for wrong in ({**said, "by": "guessing"}, {**said, "more": 1}, {**said, "file": "other.md"}):
        with pytest.raises(InvalidValue):
            codec.decode(wrong)


def test_calls_read_like_calls() -> None:
    assert str(_COUNTED) == "count_words(file='apples.md')"
    assert str(_FAILED) == "count_words(file='apples.md') failed"
    assert str(_LISTED) == "list_files()"


def test_the_ledger_keeps_what_whole_results_said() -> None:
    trace = Trace(run=RunId("r"), conversation=ConversationId("c"), agent=AgentId("a"))
    head: dict[str, Any] = {"trace": trace, "sequence": 1, "at": Instant(0), "turn": 1}
    ids = [CallId(f"r-1-{index}") for index in range(3)]
    calls = tuple(ToolCall(id=id_, name="count_words", arguments=JsonText('{"file":"x"}')) for id_ in ids)
    outcomes: tuple[Outcome, ...] = (
        ToolSuccess(output=JsonText('{"words":1}')),
        ToolSuccess(output=JsonText('{"cut":true}'), size=99_999),
        ToolFailure(type="FileUnavailable", payload=JsonText("{}")),
    )
    ledger = Ledger()
    ledger.note(TurnEnded(**head, text="", calls=calls, finish="tool-calls", usage=Usage()))
    for id_, outcome in zip(ids, outcomes, strict=True):
        ledger.note(CallEnded(**head, call=id_, tool="count_words", outcome=outcome))
    assert [made.returned for made in ledger.made] == [{"words": 1}, None, None]
    assert {made.tool for made in ledger.made} == {"count_words"}


# --- what the tools can reach --------------------------------------------------------------------------------------


def test_file_names_are_an_enumeration_in_every_schema() -> None:
    names = "'enum': ['apples.md', 'pears.txt']"
    assert str(reply_codec(_FOLDER).schema).count(names) == 3
    schemas = {tool.name: str(tool.input.schema) for tool in make_toolkit(_FOLDER)}
    assert names in schemas["count_words"]
    assert names in schemas["read_passage"]


def test_one_file_is_enough(tmp_path: Path) -> None:
    (tmp_path / "only.md").write_text("one two", encoding="utf-8")
    folder = open_folder(tmp_path)
    assert folder.default_name == "only.md"
    assert read_reply(reply_codec(folder).decode({"by": "search", "file": "only.md"})).file == "only.md"
    assert len(make_toolkit(folder)) == 4


def test_a_file_that_leaves_the_folder_later_is_not_read(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "sub").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    for place in (tmp_path / "outside", root / "sub", root):
        (place / "a.md").write_text("text", encoding="utf-8")
    folder = open_folder(root)
    assert folder.read("a.md") == folder.read("sub/a.md") == "text"
    (root / "a.md").unlink()
    (root / "a.md").symlink_to(tmp_path / "outside" / "a.md")
    (root / "sub" / "a.md").unlink()
    (root / "sub").rmdir()
    (root / "sub").symlink_to(tmp_path / "outside")
    for name in ("a.md", "sub/a.md"):
        with pytest.raises(FileUnavailable) as caught:
            folder.read(name)
        assert caught.value.problem == "links to outside"


def test_a_file_that_vanishes_grows_or_turns_into_something_else(tmp_path: Path) -> None:
    for name in ("gone.md", "grown.md", "fifo.md", "fine.md"):
        (tmp_path / name).write_text("copper", encoding="utf-8")
    folder = open_folder(tmp_path)
    (tmp_path / "gone.md").unlink()
    os.truncate(tmp_path / "grown.md", 5 * 1024 * 1024)
    (tmp_path / "fifo.md").unlink()
    os.mkfifo(tmp_path / "fifo.md")
    problems: dict[str, str] = {}
    for name in folder.names:
        try:
            folder.read(name)
        except FileUnavailable as error:
            problems[error.file] = error.problem
    assert problems == {"gone.md": "unreadable", "grown.md": "too large", "fifo.md": "not plain files"}
    # A search goes on without them.
    assert find_text(folder, "COPPER", _ignored).names == ("fine.md",)


def test_looking_at_a_folder_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("triolet.adapters.cli.demo.folder.MAX_ENTRIES", 10)
    monkeypatch.setattr("triolet.adapters.cli.demo.folder.MAX_FOLDER_BYTES", 50)
    for number in range(30):
        (tmp_path / f"{number:02}.md").write_text("ten bytes.", encoding="utf-8")
    folder = open_folder(tmp_path)
    assert len(folder.names) == 5
    assert folder.left_out == {"beyond the first 64 MiB": 5, "or more beyond 20,000 entries": 1}


def _ignored(_: int) -> None:
    pass


def test_results_are_bounded(tmp_path: Path) -> None:
    for number in range(60):
        (tmp_path / f"{number:02}.md").write_text(f"{'x' * 500} needle {'y' * 500}", encoding="utf-8")
    folder = open_folder(tmp_path)
    notes: list[int] = []
    found = find_text(folder, "needle", notes.append)
    assert notes == [50]
    assert (found.files, len(found.names)) == (60, 5)
    assert len(found.passage) < 100


def test_no_folder_is_said_so() -> None:
    with pytest.raises(UnusableFolder, match="there is no folder"):
        open_folder(Path("/nowhere/at/all"))
