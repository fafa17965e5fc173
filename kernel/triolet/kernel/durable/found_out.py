"""What is known, outside the log, about calls that an earlier attempt prepared.

Decides whose word goes first: an outcome that was kept aside, then an operator's, then proof. It never concludes
anything from silence, and puts nothing on record: that is the machine's. (DUR-009, DUR-013, DUR-017)
"""

from collections.abc import Mapping
from typing import Final

import trio

from triolet.kernel.machine.observations import Resolution
from triolet.kernel.machine.recovery import uncertain
from triolet.kernel.machine.state import CallBatch, RunState
from triolet.ports.identity import CallId, Principal
from triolet.ports.ledger import Claim, Resolve
from triolet.ports.messages import ToolCall
from triolet.ports.outcomes import ToolUnknownOutcome
from triolet.ports.reconciler import (
    CANNOT_TELL,
    CompletedWith,
    NeverStarted,
    Proof,
    Reconciler,
    SafeToRepeat,
    UncertainCall,
)
from triolet.ports.text import repair

RECONCILE_SECONDS: Final = 60.0
"""How long proof about one call is waited for."""
LEDGER: Final = Principal(name="ledger")
"""Who vouches for an outcome that was kept aside."""
RECONCILER: Final = Principal(name="reconciler")
"""Who vouches for what was proven."""


async def resolutions_of(reconciler: Reconciler | None, claim: Claim, run: RunState) -> Mapping[CallId, Resolution]:
    """What is known about the prepared calls of the open batch."""
    batch = run.batch
    if batch is None:
        return {}
    known: dict[CallId, Resolution] = {}
    for command in reversed(claim.commands):
        if isinstance(command.act, Resolve) and not isinstance(command.act.outcome, ToolUnknownOutcome):
            known[command.act.call] = Resolution(outcome=command.act.outcome, by=command.by, reason=command.reason)
    for call, outcome in claim.stash.items():
        known[call] = Resolution(outcome=outcome, by=LEDGER, reason="it finished behind a slower call")
    if reconciler is not None:
        for asked in _unsaid(batch, known):
            proof = await _proof(reconciler, _described(claim, run, asked))
            if proof is not None:
                known[asked.id] = proof
    return known


def _unsaid(batch: CallBatch, known: Mapping[CallId, Resolution]) -> list[ToolCall]:
    return [call for call in batch.open if call.id in uncertain(batch) and call.id not in known]


async def _proof(reconciler: Reconciler, call: UncertainCall) -> Resolution | None:
    proof: Proof = CANNOT_TELL
    try:
        with trio.move_on_after(RECONCILE_SECONDS):
            proof = await reconciler.reconcile(call)
    except Exception:  # noqa: BLE001 -- whoever cannot find out proves nothing, and the call waits for an operator
        return None
    match proof:
        case CompletedWith(outcome=outcome, how=how):
            return Resolution(outcome=outcome, by=RECONCILER, reason=repair(how))
        case NeverStarted(how=how) | SafeToRepeat(how=how):
            return Resolution(outcome=None, by=RECONCILER, reason=repair(how))
        case _:
            return None


def _described(claim: Claim, run: RunState, call: ToolCall) -> UncertainCall:
    answer = None if run.batch is None else run.batch.answers.get(call.id)
    edited = None if answer is None else answer.edited
    return UncertainCall(
        address=claim.submission.address,
        run=run.started.run,
        call=call.id,
        tool=call.name,
        arguments=edited or call.arguments,
        operation_key=call.id,
        principal=run.started.principal,
        deadline=run.started.deadline,
    )
