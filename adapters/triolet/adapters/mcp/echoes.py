"""Echoes of secrets: values that went to a server are taken out of what it says.

Decides that no exact copy of a value, or of a longer word of it, gets into results, errors, progress or samples. It
cannot know a value that the server has changed. (SEC-006)
"""

from collections.abc import Iterable
from typing import Final

from triolet.ports.secrets import Secret
from triolet.ports.strict_json import JsonValue

_SHORTEST: Final = 4
"""Shorter values are not looked for: they would tear holes into any text, and protect nothing."""
_SHORTEST_WORD: Final = 8
"""A value such as ``Bearer 123…`` is echoed in part, too."""


class Echoes:
    """What is looked for, and what stands in its place."""

    def __init__(self, secrets: Iterable[Secret] = ()) -> None:
        found: dict[str, str] = {}
        for secret in secrets:
            shown, value = f"[secret {secret.handle.name}]", secret.reveal()
            words = [word for word in value.split() if len(word) >= _SHORTEST_WORD]
            found.update((each, shown) for each in (value, *words) if len(each) >= _SHORTEST)
        # Longest first, so that a value which contains another one goes whole.
        self._found = sorted(found.items(), key=lambda pair: -len(pair[0]))

    def text(self, text: str) -> str:
        """`text` without the values."""
        for value, shown in self._found:
            text = text.replace(value, shown)
        return text

    def json(self, value: JsonValue) -> JsonValue:
        """`value` with none of the values in its texts, keys included."""
        if not self._found:
            return value
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self.json(item) for item in value]
        if isinstance(value, dict):
            return {self.text(key): self.json(item) for key, item in value.items()}
        return value
