"""The Ledger port: all of it, as one adapter implements it.

Decides only which parts there are. The parts are contracts of their own, cut by who uses them; the ledger is not the
log, even where both are in one database (STORE-001).
"""

from typing import Protocol

from triolet.ports.ledger.admissions import Admissions
from triolet.ports.ledger.commands import Commands
from triolet.ports.ledger.joins import Joins
from triolet.ports.ledger.ownership import Ownership
from triolet.ports.ledger.recovery import Recovery
from triolet.ports.ledger.settlements import Settlements
from triolet.ports.ledger.shared import SharedVerbs
from triolet.ports.wakeups import Wakeups


class Ledger(Admissions, Commands, Ownership, Joins, Settlements, Recovery, Wakeups, Protocol):
    """Accepted work, from admission to settlement.

    Lifetime: the host opens it (`async with open_…`) with the clock that its leases are measured on, binds it to
    kernels and closes it after them. One value serves many tasks. Emits: wake-ups, nothing else. Errors: the families
    of `triolet.ports.errors`; an adapter over an outside thing may raise `Unavailable` from any verb, and says in it
    whether the write happened. Every row carries its tenant, and no verb reaches into another one's (SEC-002). What
    waits for a topic is woken after the commit: `WORK` when something may have become claimable, and
    `settled_topic(…)` when a submission was settled. (CAP-001)
    """

    @property
    def shared(self) -> SharedVerbs | None:
        """The combined verbs, if the logs that the kernel uses are in the same database."""
        ...
