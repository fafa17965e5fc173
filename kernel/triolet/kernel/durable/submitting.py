"""Submitting: from an application's wish to a receipt, and from a receipt to a result.

Decides what is accepted, and that a receipt is given only for what is durable and ready (DUR-001). Waiting for a
settlement is only waiting: whoever stops waiting aborts nothing. It runs nothing.
"""

from math import inf
from typing import Any

import trio

from triolet.kernel.agent import Agent
from triolet.kernel.conversation_opening import first_batch
from triolet.kernel.durable.verbs import DurableVerbs
from triolet.kernel.machine.projection import terminal_of
from triolet.kernel.policy import Allowance
from triolet.kernel.results import Owner, RunResult, result_of
from triolet.kernel.run_request import input_text
from triolet.kernel.runtime import Runtime
from triolet.ports.conversation_store import Address
from triolet.ports.errors import InvalidValue
from triolet.ports.events import Trace
from triolet.ports.identity import ConversationId, Principal, SubmissionId
from triolet.ports.ledger import Receipt, Settlement, Standing, Submission, SubmissionKind
from triolet.ports.messages import Text
from triolet.ports.schema import codec_for
from triolet.ports.text import require_clean
from triolet.ports.wakeups import settled_topic


async def submit(
    runtime: Runtime,
    verbs: DurableVerbs,
    agent: Agent[Any, Any],
    value: Any,
    *,
    address: Address,
    kind: SubmissionKind,
    key: str | None,
    principal: Principal,
    author: str | None,
    allowance: Allowance,
) -> Receipt:
    """Accept work. Raises what is wrong with it, with nothing kept, and what the ledger raises."""
    runtime.check_known(agent)
    who = require_clean(principal.name, "principal")
    text = input_text(agent, value)
    id_ = SubmissionId(runtime.ids.new("submission"))
    name = id_ if key is None else require_clean(key, "key")
    if not 0 < len(name) <= 200:
        raise InvalidValue(subject="key", violations=(("", "a key has 1 to 200 characters"),))
    submission = Submission(
        id=id_,
        address=address,
        kind=kind,
        key=name,
        principal=principal,
        author=who if author is None else require_clean(author, "author"),
        offered_at=runtime.clock.now(),
        agent=agent.id,
        parts=(Text(text=text),),
        allowance=codec_for(Allowance).encode_text(allowance),
    )
    return receipt_of(await verbs.submit(submission, first_batch(runtime, address)))


def receipt_of(standing: Standing) -> Receipt:
    """The receipt of what was accepted, the same however often it is asked for."""
    work = standing.submission
    return Receipt(
        submission=work.id,
        tenant=work.address.tenant,
        conversation=ConversationId(work.address.conversation),
        sequence=standing.sequence,
    )


async def settlement_of(runtime: Runtime, verbs: DurableVerbs, receipt: Receipt) -> RunResult[Any]:
    """Wait for the end of accepted work. A wake-up is only a hint: the ledger is read again before it counts."""
    ledger = verbs.ledger
    async with ledger.watch(settled_topic(receipt.submission)) as watch:
        while True:
            standing = await ledger.lookup(receipt.tenant, receipt.submission)
            if standing.settlement is not None:
                return await _result(runtime, verbs, standing, standing.settlement)
            with trio.move_on_after(inf if ledger.scan_seconds is None else ledger.scan_seconds):
                await watch.wait()


async def _result(runtime: Runtime, verbs: DurableVerbs, standing: Standing, settlement: Settlement) -> RunResult[Any]:
    # Input that joined a run ended with it, and the answer is that run's agent's.
    host = SubmissionId(settlement.run)
    owner = standing
    if host != standing.submission.id:
        owner = await verbs.ledger.lookup(standing.submission.address.tenant, host)
    agent = runtime.known(owner.submission.agent)
    trace = Trace(run=settlement.run, conversation=standing.submission.address.conversation, agent=agent.id)
    ending = terminal_of(settlement.settled, trace, 1, settlement.at)
    return result_of(
        ending,
        agent,
        Owner(tenant=standing.submission.address.tenant, epoch=owner.epoch, one_shot=False),
    )
