"""The page: rows of time, label and body on a terminal, in a pipe or in a file.

Decides the layout: how wide each column is, where a body breaks, how much of it is shown, and how text that arrives
piece by piece grows on one row. All text that reaches it is made visible first and is never read as markup. It knows
no event.
"""

import re
from collections.abc import Sequence
from typing import IO, Final

from rich.cells import cell_len, chop_cells
from rich.console import Console
from rich.text import Text

from triolet.adapters.console.visible import visible, visible_line

Part = tuple[str, str]
"""Text, and the rich style that it is shown in."""

LABEL_CELLS: Final = 9
TIME_CELLS: Final = 8
WIDE_ENOUGH_FOR_TIMES: Final = 64
WIDE_ENOUGH_FOR_LABELS: Final = 40
LEAST_BODY_CELLS: Final = 8
MOST_BODY_CELLS: Final = 200
"""However wide a terminal or how large COLUMNS is, no line of a body is longer than this."""
ROW_LINES: Final = 4
"""A row's lines unless it asks for more."""
STREAM_LINES: Final = 40
"""What is shown of text that arrives piece by piece; the characters beyond are counted."""

_PIECES: Final = re.compile(r"\n|[^\S\n]+|\S+")
# For terminals whose encoding has no such characters.
_ASCII: Final = {"…": "...", "·": "-", "✓": "ok", "✗": "x", "→": "->"}


class _LoudConsole(Console):
    """A console that lets its user hear of a broken pipe, instead of leaving the process."""

    def on_broken_pipe(self) -> None:
        raise  # noqa: PLE0704 -- rich calls this while it handles the BrokenPipeError


def open_page(file: IO[str] | None = None, *, width: int | None = None) -> "Page":
    """A page on `file` (standard output): with colours if it is a terminal, unless NO_COLOR is set.

    Nothing has to be closed. Writing raises `BrokenPipeError` where the reader has gone.
    """
    return Page(_LoudConsole(file=file, width=width, markup=False, emoji=False, highlight=False))


class Page:
    """Writes rows. `console` is where; its width is asked anew for every row."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._stream: _Stream | None = None

    def row(self, seconds: float | None, label: str, *parts: Part, lines: int = ROW_LINES) -> None:
        """Write one row of at most that many lines; what is cut off shows as an ellipsis."""
        self.end_stream()
        frame = self._frame(seconds, label)
        body = Text()
        for content, style in parts:
            # Bounded before it is looked at, so that a result of megabytes costs no more than its beginning.
            body.append(self._encodable(visible(content[: lines * MOST_BODY_CELLS])), style)
        wrapped = body.wrap(self._console, frame.width, overflow="fold", tab_size=1)
        shown = list(wrapped[:lines])
        cut = len(wrapped) > lines or any(len(content) > lines * MOST_BODY_CELLS for content, _ in parts)
        if cut and shown:
            ellipsis = self._encodable("…")
            shown[-1].truncate(max(1, frame.width - cell_len(ellipsis)), overflow="crop")
            shown[-1].append(ellipsis, "dim")
        heads = [frame.head, *(Text(" " * frame.indent) for _ in shown)]
        for head, line in zip(heads, shown or [Text()], strict=False):
            whole = Text.assemble(head, line)
            whole.rstrip()
            self._write(whole, newline=True)

    def stream(self, seconds: float, label: str, content: str, style: str) -> None:
        """Write more text. Calls with the same label go on where the last one stopped, until a row comes between."""
        if self._stream is None or self._stream.label != label:
            self.end_stream()
            frame = self._frame(seconds, label)
            self._stream = _Stream(label, frame)
            self._write(frame.head, newline=False)
        written = self._stream.add(self._encodable(visible(content)))
        if written:
            self._write(Text(written, style), newline=False)

    def end_stream(self) -> None:
        """End the row that text was added to, if there is one."""
        if self._stream is None:
            return
        left_out, frame = self._stream.left_out, self._stream.frame
        self._stream = None
        self._write(Text(), newline=True)
        if left_out:
            rest = self._encodable(f"… ({left_out:,} more characters)")
            if cell_len(rest) > frame.width:
                rest = self._encodable("…")
            self._write(Text.assemble(" " * frame.indent, (rest, "dim")), newline=True)

    def blank(self) -> None:
        """Write an empty line."""
        self.end_stream()
        self._write(Text(), newline=True)

    def _frame(self, seconds: float | None, label: str) -> "_Frame":
        cells = self._console.width
        head = Text()
        if cells >= WIDE_ENOUGH_FOR_TIMES:
            stamp = "" if seconds is None else f"{seconds:.2f} s"
            head.append(f"{stamp:>{TIME_CELLS}}  ", "dim")
        shown = self._encodable(visible_line(label))
        if cells >= WIDE_ENOUGH_FOR_LABELS:
            head.append(f"{shown:<{LABEL_CELLS}} ", "bold")
            indent = cell_len(head.plain)
        else:
            head.append(f"{shown} " if shown else "  ", "bold")
            indent = 2
        width = cells - max(indent, cell_len(head.plain))
        if width < LEAST_BODY_CELLS:
            # No room beside the label, so the body stands below it.
            head.rstrip()
            head.truncate(cells)
            head.append("\n" + " " * indent)
            width = cells - indent
        return _Frame(head, indent, min(MOST_BODY_CELLS, max(LEAST_BODY_CELLS, width)))

    def _encodable(self, content: str) -> str:
        encoding = self._console.encoding
        if encoding.startswith("utf"):
            return content
        for fine, plain in _ASCII.items():
            content = content.replace(fine, plain)
        return content.encode(encoding, "backslashreplace").decode(encoding)

    def _write(self, line: Text, *, newline: bool) -> None:
        self._console.print(line, end="\n" if newline else "", soft_wrap=True)


class _Frame:
    """Where a row's body stands."""

    __slots__ = ("head", "indent", "width")

    def __init__(self, head: Text, indent: int, width: int) -> None:
        self.head = head
        self.indent = indent
        self.width = width


class _Stream:
    """A row that grows. It breaks lines itself, since nobody knows yet what will follow."""

    def __init__(self, label: str, frame: _Frame) -> None:
        self.label = label
        self.left_out = 0
        self.frame = frame
        self._column = 0
        self._lines = 1
        self._broken = False

    def add(self, content: str) -> str:
        """What has to be written for `content`."""
        written: list[str] = []
        for piece in _PIECES.findall(content):
            if self._lines > STREAM_LINES:
                self.left_out += len(piece)
            elif piece == "\n":
                self._break()
            elif piece.isspace():
                self._space(piece, written)
            else:
                self._word(piece, written)
        return "".join(written)

    def _space(self, piece: str, written: list[str]) -> None:
        # White space at a break that was made here would look like an indentation.
        if self._column and self._column + len(piece) < self.frame.width:
            self._put(piece, written)

    def _word(self, piece: str, written: list[str]) -> None:
        if self._column and self._column + cell_len(piece) > self.frame.width:
            self._break()
        for part in self._parts(piece):
            if self._lines > STREAM_LINES:
                self.left_out += len(part)
                continue
            if self._column and self._column + cell_len(part) > self.frame.width:
                self._break()
            if self._lines <= STREAM_LINES:
                self._put(part, written)
            else:
                self.left_out += len(part)

    def _parts(self, piece: str) -> Sequence[str]:
        return [piece] if cell_len(piece) <= self.frame.width else chop_cells(piece, self.frame.width)

    def _put(self, piece: str, written: list[str]) -> None:
        if self._broken:
            written.append("\n" + " " * self.frame.indent)
            self._broken = False
        written.append(piece)
        self._column += cell_len(piece)

    def _break(self) -> None:
        # Written only once something follows, so that no line ends in white space. Empty lines are not shown.
        if self._column:
            self._lines += 1
            self._broken = True
        self._column = 0
