"""What `decide` answers: the records that an observation makes true, or why it can make none."""

import attrs

from triolet.ports.records import Record


@attrs.frozen(kw_only=True, weakref_slot=False)
class Refused:
    """The observation does not fit the state; nothing is to be written. `problem` holds no content."""

    problem: str


Decision = tuple[Record, ...] | Refused
"""No records at all is a decision too: the observation changes nothing."""
