"""Model text made clean piece by piece.

Decides nothing but where a piece may be cut: a character beyond U+FFFF that a server split between two deltas, as half
a surrogate pair each, is put together again before `text.repair` looks at it. (CAP-004)
"""

from triolet.ports.text import repair


class CleanText:
    """One stream of text. What `feed` and `finish` return is clean, and together it is all that was fed."""

    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held = ""

    def feed(self, piece: str) -> str:
        """`piece` made clean, without a last half character, which waits for the next piece."""
        piece = self._held + piece
        self._held = ""
        if "\ud800" <= piece[-1:] <= "\udbff":
            self._held, piece = piece[-1], piece[:-1]
        return repair(piece)

    def finish(self) -> str:
        """What is still waiting, made clean."""
        held, self._held = self._held, ""
        return repair(held)
