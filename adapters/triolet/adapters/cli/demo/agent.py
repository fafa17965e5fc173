"""The demo's agent, and what a small model is shown so that it can play it.

Decides instructions, limits and worked examples. The examples are about files that do not exist; they show how each
tool is called and how its result becomes an answer, and are given to the model's adapter, not to the agent: a larger
model needs none.
"""

from typing import Any, Final

from triolet.adapters.cli.demo.answer import reply_codec
from triolet.adapters.cli.demo.folder import Folder
from triolet.adapters.cli.demo.tools import make_toolkit
from triolet.kernel import Agent, ApprovalPolicy, Policy
from triolet.ports.identity import AgentId
from triolet.ports.language_model import ModelSettings, ToolChoice

INSTRUCTIONS: Final = "You answer questions about the files in a folder."
MAX_QUESTION: Final = 500
"""Characters of a question: a small model's context is small."""

POLICY: Final = Policy(
    max_turns=5,
    max_tool_calls=8,
    max_seconds=600.0,
    exhaustion="final-answer",
    result_bytes=1_500,
    approval=ApprovalPolicy(denial="recoverable"),
)
SETTINGS: Final = ModelSettings(temperature=0.0, max_output_tokens=512)


def make_agent(folder: Folder, *, ask_before_reading: bool = False) -> Agent[str, Any]:
    """The agent that answers questions about `folder`; a file that may not be read is a result it can live with."""
    return Agent(
        id=AgentId("folder-reader"),
        input=str,
        output=reply_codec(folder),
        instructions=INSTRUCTIONS,
        toolkit=make_toolkit(folder, ask_before_reading=ask_before_reading),
        policy=POLICY,
        tool_choice=_choice,
        settings=SETTINGS,
    )


def _choice(turn: int) -> ToolChoice:
    # Without a look at the folder nothing can be said about it; after that the model decides when to answer.
    return "required" if turn == 1 else "auto"
