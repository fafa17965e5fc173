"""Compacting between runs: because somebody asks for it, not because a request is too large.

Decides what is covered: every whole turn but the newest; and whether an earlier summary is built upon, or the whole is
built again from the log (CAP-007). It records nothing: what it makes is an observation.
"""

from typing import Any

import attrs

from triolet.kernel.agent import Agent
from triolet.kernel.catalogue import Catalogue
from triolet.kernel.machine.compaction import Summarize, whole_turns
from triolet.kernel.machine.observations import Summarized, SummaryFailed
from triolet.kernel.machine.shown import WHOLE
from triolet.kernel.machine.state import ConversationState
from triolet.kernel.measuring import Meter
from triolet.kernel.runtime import Runtime
from triolet.kernel.summary import Summarizer
from triolet.ports.conversation_store import Address
from triolet.ports.errors import Conflict
from triolet.ports.identity import RunId
from triolet.ports.language_model import LanguageModel
from triolet.ports.usage import Usage


@attrs.define(kw_only=True)
class NotCompacted(Conflict):
    """There is nothing to compact, or no summary came of it. The history, and what is shown of it, stand as they were.

    `usage` is what the attempt took; no run is charged for it.
    """

    conversation: str
    reason: str
    usage: Usage

    @property
    def message(self) -> str:
        """Which conversation, and why not."""
        return f"conversation {self.conversation!r} was not compacted: {self.reason}"


async def summary_between_runs(
    runtime: Runtime,
    agent: Agent[Any, Any],
    model: LanguageModel,
    address: Address,
    state: ConversationState,
    *,
    rebuild: bool,
) -> Summarized:
    """A summary of everything but the newest turn. Raises `NotCompacted`."""
    covered = whole_turns(state.history)
    if covered == 0 or (covered <= state.view.summarised and not rebuild):
        raise NotCompacted(conversation=address.conversation, reason="there is nothing to cover", usage=Usage())
    meter = Meter(agent, runtime.capabilities, model.identity, Catalogue(agent, runtime.capabilities))
    summarizer = Summarizer(agent, model, runtime.capabilities.compactor, meter, address)
    action = Summarize(
        turn=0,
        messages=covered,
        covers_through=state.history.completed_by(covered - 1),
        by="host" if agent.policy.summarise == "host" else "model",
    )
    run = RunId(runtime.ids.new("run"))
    with runtime.watch.compaction(agent, address, run, action, lambda: agent.toolkit) as work:
        made = await summarizer.make(state, action, run, WHOLE if rebuild else state.view)
        work.settled(made, made.reason if isinstance(made, SummaryFailed) else None)
    if isinstance(made, SummaryFailed):
        raise NotCompacted(conversation=address.conversation, reason=made.reason, usage=made.usage)
    return made
