"""A TokenEstimator that looks at bytes only.

Decides by UTF-8 length: English prose has about four bytes a token, code, JSON and other scripts fewer, so it counts
one token for three bytes and a fixed frame for each message and call. It knows no tokenizer: on prose it is about a
third too high, on dense text about right.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import orjson

from triolet.ports.language_model import ToolDeclaration
from triolet.ports.messages import AssistantMessage, Media, Message, Text, ToolMessage
from triolet.ports.outcomes import outcome_text

BYTES_PER_TOKEN: Final = 3
FRAME: Final = 8
"""Tokens of a role, a call's name and what stands between messages."""
MEDIA_TOKENS: Final = 1_600
"""About what providers charge for an image; other media are counted by size where that is more."""
_MEDIA_BYTES_PER_TOKEN: Final = 64


class ByteEstimator:
    """Counts bytes. Stateless."""

    def message(self, message: Message) -> int:
        """Tokens of one message."""
        if isinstance(message, ToolMessage):
            return sum(FRAME + self.text(outcome_text(result.outcome)) for result in message.results)
        if isinstance(message, AssistantMessage):
            calls = sum(FRAME + self.text(call.name) + self.text(call.arguments) for call in message.calls)
            return FRAME + self.text(message.text) + calls
        return FRAME + sum(self._part(part) for part in message.parts)

    def text(self, text: str) -> int:
        """Tokens of a text, rounded up."""
        size = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
        return -(-size // BYTES_PER_TOKEN)

    def tools(self, declarations: Sequence[ToolDeclaration]) -> int:
        """Tokens of tool declarations."""
        return sum(
            FRAME
            + self.text(declaration.name)
            + self.text(declaration.description)
            + self.schema(declaration.input_schema)
            for declaration in declarations
        )

    def schema(self, schema: Mapping[str, object]) -> int:
        """Tokens of a schema, as compact JSON."""
        return -(-len(orjson.dumps(dict(schema))) // BYTES_PER_TOKEN)

    def _part(self, part: Text | Media) -> int:
        if isinstance(part, Text):
            return self.text(part.text)
        return max(MEDIA_TOKENS, len(part.base64) // _MEDIA_BYTES_PER_TOKEN)
