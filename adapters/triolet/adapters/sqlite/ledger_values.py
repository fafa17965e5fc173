"""What of a ledger entry is one JSON value: written canonically, read strictly.

Decides the spelling of an entry's two values; which columns stand beside them is the schema's. (STORE-005, STORE-006)
"""

from functools import lru_cache
from typing import Final

import attrs

from triolet.adapters.store_rules.book import Entry
from triolet.ports.errors import InvalidJson, InvalidValue
from triolet.ports.identity import CallId, Epoch, Instant, SequenceNumber, SubmissionId
from triolet.ports.ledger import CorruptLedger, Kept, Settlement, Standing, Status, Submission, Wait
from triolet.ports.outcomes import Outcome
from triolet.ports.schema import codec_for
from triolet.ports.strict_json import JsonLimits

_LIMITS: Final = JsonLimits(max_bytes=256 * 1024 * 1024, max_depth=32)
_REMEMBERED: Final = 4_096
_REMEMBERED_BYTES: Final = 4_096
"""How many values are remembered as they were read, and how long the bytes of one may be: 16 MiB of them at most."""


@attrs.frozen(kw_only=True, weakref_slot=False)
class _Stashed:
    call: CallId
    outcome: Outcome


@attrs.frozen(kw_only=True, weakref_slot=False)
class State:
    """Everything about a submission that changes, but its reservation."""

    status: Status
    admitted_at: Instant
    since: Instant
    epoch: Epoch
    attempts: int
    not_before: Instant | None
    until: Instant | None
    waits: tuple[Wait, ...]
    worker: str | None
    lease_until: Instant | None
    host: SubmissionId | None
    settlement: Settlement | None
    stash: tuple[_Stashed, ...]
    kept: tuple[Kept, ...]


def written_submission(submission: Submission) -> bytes:
    """A submission's value."""
    return codec_for(Submission).encode_text(submission).encode()


def written_state(entry: Entry) -> bytes:
    """The value of where an entry stands."""
    standing = entry.standing
    state = State(
        status=standing.status,
        admitted_at=standing.admitted_at,
        since=entry.since,
        epoch=standing.epoch,
        attempts=standing.attempts,
        not_before=standing.not_before,
        until=standing.until,
        waits=standing.waits,
        worker=standing.worker,
        lease_until=standing.lease_until,
        host=standing.host,
        settlement=standing.settlement,
        stash=tuple(_Stashed(call=call, outcome=outcome) for call, outcome in entry.stash.items()),
        kept=tuple(entry.kept.values()),
    )
    return codec_for(State).encode_text(state).encode()


def read_entry(sequence: int, body: bytes, state: bytes, reserved: bytes | None) -> Entry:
    """The entry that a row spells. Raises `CorruptLedger`."""
    try:
        submission = _submission(body) if len(body) <= _REMEMBERED_BYTES else _read_submission(body)
        read = _state(state) if len(state) <= _REMEMBERED_BYTES else _read_state(state)
    except (InvalidJson, InvalidValue) as error:
        raise CorruptLedger(problem=f"submission {sequence} does not read as its schema says") from error
    standing = Standing(
        submission=submission,
        sequence=SequenceNumber(sequence),
        status=read.status,
        admitted_at=read.admitted_at,
        epoch=read.epoch,
        attempts=read.attempts,
        not_before=read.not_before,
        until=read.until,
        waits=read.waits,
        worker=read.worker,
        lease_until=read.lease_until,
        host=read.host,
        settlement=read.settlement,
    )
    return Entry(
        standing=standing,
        since=read.since,
        reserved=reserved,
        stash={each.call: each.outcome for each in read.stash},
        kept={each.command.key: each for each in read.kept},
    )


def _read_submission(body: bytes) -> Submission:
    return codec_for(Submission).decode_text(body, _LIMITS)


def _read_state(state: bytes) -> State:
    return codec_for(State).decode_text(state, _LIMITS)


# Everybody who waits in a lane is looked at by each verb on it. What their bytes spell never changes, and is frozen.
_submission = lru_cache(_REMEMBERED)(_read_submission)
_state = lru_cache(_REMEMBERED)(_read_state)
