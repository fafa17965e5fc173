"""Steps: what a guest says each time it comes to rest. Plain values, so that they cross a process boundary as JSON.

Decides nothing. Everything in a step comes from a program that nobody trusts: whoever gets one checks it.
"""

import json
from typing import Literal, NamedTuple

StepKind = Literal["call", "returned", "threw", "unsettled", "unusable", "invalid", "cpu", "memory", "stack", "broken"]
"""Why the guest came to rest.

`call`: it wants a tool. `returned`: the program's value as JSON. `threw`: what it threw, as text. `unsettled`: its
promise is pending, and nothing could ever settle it. `unusable`: its value has no JSON. `invalid`: the source is no
async function expression. `cpu`, `memory`, `stack`: it was stopped there. `broken`: the guest itself gave out.
"""


class Step(NamedTuple):
    """One rest. `call` is the bridge's number of a call and `tool` the wanted tool's index, for a `call` only."""

    kind: StepKind
    text: str = ""
    call: int = -1
    tool: int = -1


class Settings(NamedTuple):
    """What one guest is made with. Bytes; `source` is the program."""

    source: str
    namespaces: dict[str, list[str]]
    memory_bytes: int
    output_bytes: int
    message_bytes: int

    @property
    def manifest(self) -> str:
        """The namespaces as the bridge is told of them."""
        return json.dumps(self.namespaces)
