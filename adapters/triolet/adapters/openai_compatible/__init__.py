"""Any language model behind a server with OpenAI's streaming ``/chat/completions``. Extra: ``triolet[openai]``."""

from triolet.adapters.openai_compatible.bounds import InvalidOption, Limits, Timeouts
from triolet.adapters.openai_compatible.examples import WorkedCall, WorkedExample
from triolet.adapters.openai_compatible.json_schema import JsonSchema
from triolet.adapters.openai_compatible.model import open_openai_compatible

__all__ = [
    "InvalidOption",
    "JsonSchema",
    "Limits",
    "Timeouts",
    "WorkedCall",
    "WorkedExample",
    "open_openai_compatible",
]
