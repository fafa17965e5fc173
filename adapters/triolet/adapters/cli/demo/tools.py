"""The demo's tools: list, count words, search, read a passage.

Decides what a model may ask about a folder and in which shape the answers come. File names are an enumeration in every
schema, so a model whose answers follow the schema cannot name a file that is not there. All are `readonly` plain
functions, which the kernel runs in bounded threads.
"""

from collections.abc import Callable
from typing import Annotated, Any, Final, Literal

import attrs

from triolet.adapters.cli.demo.folder import FileUnavailable, Folder
from triolet.kernel import Tool, ToolContext, Toolkit
from triolet.ports.schema import Codec, Ge, Le, MaxLength, MinLength, codec_for

MAX_LISTED: Final = 25
"""Names that one listing holds; the number of files is that of all."""
MAX_FOUND: Final = 5
PASSAGE_CHARACTERS: Final = 200
AROUND_CHARACTERS: Final = 40
"""Characters that a search shows on either side of what it found."""
SEARCHED_BETWEEN_NOTES: Final = 50
"""Files between two notes of progress."""
TOOL_SECONDS: Final = 20.0


@attrs.frozen(kw_only=True, weakref_slot=False)
class Listing:
    """How many files there are, and the first of their names."""

    files: int
    names: tuple[str, ...]


@attrs.frozen(kw_only=True, weakref_slot=False)
class WordCount:
    """How many words one file has: runs of characters that are no white space."""

    file: str
    words: int


@attrs.frozen(kw_only=True, weakref_slot=False)
class Found:
    """The files that contain a text, in any case: how many, and the first of their names."""

    text: str
    files: int
    names: tuple[str, ...]
    passage: str
    """The line of the first find, bounded."""


@attrs.frozen(kw_only=True, weakref_slot=False)
class Passage:
    """Text of one file from a line on, bounded."""

    file: str
    passage: str


READING: Final = frozenset({"count_words", "read_passage"})
"""The tools that read one named file."""


def make_toolkit(folder: Folder, *, ask_before_reading: bool = False) -> Toolkit:
    """The tools over `folder`; on request somebody is asked before a file of somebody's choosing is read."""
    name = file_name_type(folder)
    text = Annotated[str, MinLength(1), MaxLength(60)]
    line = Annotated[int, Ge(1), Le(1_000_000)]

    def list_files(_: Any, context: ToolContext) -> Listing:
        return Listing(files=len(folder.names), names=folder.names[:MAX_LISTED])

    def count_words(asked: Any, context: ToolContext) -> WordCount:
        return WordCount(file=asked.file, words=len(folder.read(asked.file).split()))

    def search(asked: Any, context: ToolContext) -> Found:
        def searched(done: int) -> None:
            context.progress("searched", done=done, total=len(folder.names))

        return find_text(folder, asked.text, searched)

    def read_passage(asked: Any, context: ToolContext) -> Passage:
        lines = folder.read(asked.file).splitlines()[asked.line - 1 :]
        return Passage(file=asked.file, passage="\n".join(lines).strip()[:PASSAGE_CHARACTERS])

    tools = (
        _tool("list_files", "List the files in the folder.", {}, Listing, list_files),
        _tool("count_words", "Count the words of one file.", {"file": name}, WordCount, count_words),
        _tool("search", "Find the files that contain a text.", {"text": text}, Found, search),
        _tool("read_passage", "Read one file from a line on.", {"file": name, "line": line}, Passage, read_passage),
    )
    if not ask_before_reading:
        return Toolkit(tools)
    return Toolkit(
        attrs.evolve(tool, needs_approval=True, targets=_file_of) if tool.name in READING else tool for tool in tools
    )


def _file_of(asked: Any) -> tuple[str, ...]:
    return (asked.file,)


def file_name_type(folder: Folder) -> Any:
    """The type whose values are the names of the folder's files."""
    return Literal[folder.names]


def find_text(folder: Folder, text: str, searched: Callable[[int], None]) -> Found:
    """Search all files for `text`, in any case; a file that cannot be read is passed over.

    `searched` is told how many files are done, now and then.
    """
    wanted = text.casefold()
    names: list[str] = []
    passage = ""
    for place, name in enumerate(folder.names):
        if place and place % SEARCHED_BETWEEN_NOTES == 0:
            searched(place)
        try:
            content = folder.read(name)
        except FileUnavailable:
            continue
        if wanted in content.casefold():
            names.append(name)
            passage = passage or _around(content, wanted)
    return Found(text=text, files=len(names), names=tuple(names[:MAX_FOUND]), passage=passage)


def _around(content: str, wanted: str) -> str:
    for line in content.splitlines():
        at = line.casefold().find(wanted)
        if at >= 0:
            return line[max(0, at - AROUND_CHARACTERS) : at + len(wanted) + AROUND_CHARACTERS].strip()
    return ""


def _tool(
    name: str,
    description: str,
    fields: dict[str, Any],
    output: type[Any],
    handler: Callable[[Any, ToolContext], Any],
) -> Tool[Any, Any]:
    record = attrs.make_class(
        f"{name}_input",
        {field: attrs.field(type=type_) for field, type_ in fields.items()},
        frozen=True,
        kw_only=True,
    )
    given: Codec[Any] = codec_for(record)
    return Tool(
        name=name,
        description=description,
        input=given,
        output=codec_for(output),
        handler=handler,
        threaded=True,
        failures={FileUnavailable: codec_for(FileUnavailable)},
        execution="readonly",
        risk="low",
        timeout=TOOL_SECONDS,
    )
