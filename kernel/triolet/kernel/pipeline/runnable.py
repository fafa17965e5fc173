"""A call that was understood: what all stages after judging work on."""

from typing import Any

import attrs

from triolet.ports.messages import ToolCall
from triolet.ports.tools import Tool


@attrs.frozen(kw_only=True, weakref_slot=False)
class Runnable:
    """A call, its tool, and the decoded input that its handler will get (RUN-003)."""

    call: ToolCall
    tool: Tool[Any, Any]
    input: Any
