"""Values of secrets are taken out of output while it is read.

Decides that no exact copy of a value that a program was given gets into what is captured, shown live or collected. It
cannot know a value that the program has changed. (SEC-006)
"""

from collections.abc import Iterable
from typing import Final

from triolet.ports.secrets import Secret

_SHORTEST: Final = 4
"""Shorter values are not looked for: they would tear holes into any text, and protect nothing."""


class Scrubber:
    """Replaces values in one stream, also where a value arrives in pieces."""

    def __init__(self, secrets: Iterable[Secret]) -> None:
        values = [(secret.reveal().encode(), f"[secret {secret.handle.name}]".encode()) for secret in secrets]
        # Longest first, so that a value which contains another one goes whole.
        self._values = sorted((pair for pair in values if len(pair[0]) >= _SHORTEST), key=lambda pair: -len(pair[0]))
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        """`data` without the values; an end that may begin one is held back."""
        if not self._values:
            return data
        text = self._replaced(self._held + data)
        keep = max((_overlap(text, value) for value, _ in self._values), default=0)
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep]

    def rest(self) -> bytes:
        """What was held back, at the end of the stream."""
        held, self._held = self._held, b""
        return held

    def finds(self, payload: bytes) -> bool:
        """Whether `payload` holds one of the values."""
        return any(value in payload for value, _ in self._values)

    def _replaced(self, text: bytes) -> bytes:
        for value, name in self._values:
            text = text.replace(value, name)
        return text


def _overlap(text: bytes, value: bytes) -> int:
    """How many bytes at the end of `text` begin `value`."""
    for length in range(min(len(text), len(value) - 1), 0, -1):
        if value.startswith(text[-length:]):
            return length
    return 0
