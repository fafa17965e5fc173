"""Worked examples: whole little conversations that show a small model how a tool is used and an answer written.

Decides only their shape; `turns` renders them exactly as it renders real history.
"""

from collections.abc import Mapping

import attrs

from triolet.ports.strict_json import JsonValue


@attrs.frozen(kw_only=True, weakref_slot=False)
class WorkedCall:
    """One call of an example: the tool's name, its arguments, and what it returned.

    Arguments are shown in the order given, which should be the order of the tool's schema. A `result` that is text
    is shown as it is (a failure, say), any other value as JSON.
    """

    tool: str
    arguments: Mapping[str, JsonValue]
    result: JsonValue


@attrs.frozen(kw_only=True, weakref_slot=False)
class WorkedExample:
    """A question, the calls that lead to its answer, and the answer: text, or a value of the output schema.

    An example is shown only to requests that declare every tool it calls.
    """

    question: str
    calls: tuple[WorkedCall, ...]
    answer: JsonValue
