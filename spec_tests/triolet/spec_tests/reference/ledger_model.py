"""A ledger as a list of rows and a page of rules: slow, and easy to believe.

Decides what each command leads to, by looking at everything each time. Nothing of it is shared with an adapter, so that
the two can only agree by being right. It knows no image, no index and no wake-up. (STORE-013, DUR-002, DUR-005)
"""

from typing import Any, Final, Literal

import attrs

Refusal = Literal["conflict", "fenced", "misuse"]
"""The family of the error that a command meets."""

WAITS: Final = ("approval", "unknown", "operator")


@attrs.define(kw_only=True)
class Row:
    """A submission."""

    name: str
    lane: str
    kind: str
    key: str
    content: str
    status: str = "admitted"
    since: int = 0
    epoch: int = 0
    attempts: int = 0
    not_before: int | None = None
    until: int | None = None
    wait: str | None = None
    lease_until: int | None = None
    host: str | None = None
    end: int | None = None
    reserved: bytes | None = None
    commands: dict[str, tuple[str, bool]] = attrs.field(factory=dict[str, tuple[str, bool]])

    @property
    def due(self) -> int | None:
        """From when on it may be claimed, if it is its turn."""
        match self.status:
            case "ready":
                return self.since if self.not_before is None else max(self.since, self.not_before)
            case "claimed":
                return self.lease_until
            case "suspended":
                return self.until
            case _:
                return None

    def becomes(self, status: str, now: int, **fields: Any) -> None:
        """Another status, from now on."""
        if status != self.status:
            self.since = now
        self.status = status
        for name, value in fields.items():
            setattr(self, name, value)


class Refused(Exception):
    """A command is refused, and changes nothing."""

    def __init__(self, family: Refusal) -> None:
        super().__init__(family)
        self.family = family


class LedgerModel:
    """All rows, in the order in which they were admitted."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.now = 0
        self.epochs: dict[str, int] = {}

    def row(self, name: str) -> Row:
        """A submission by its name."""
        for row in self.rows:
            if row.name == name:
                return row
        raise Refused("misuse")

    def lane(self, lane: str) -> list[Row]:
        """What is open in a conversation."""
        return [row for row in self.rows if row.lane == lane and row.status != "settled"]

    def head(self, lane: str) -> Row | None:
        """Whose turn it is in a conversation: a run that has begun, whatever was accepted late, else the first."""
        line = [row for row in self.lane(lane) if row.status not in ("admitted", "joining", "joined")]
        return next((row for row in line if row.epoch), line[0] if line else None)

    def active(self, lane: str) -> Row | None:
        """The run that has begun."""
        head = self.head(lane)
        return head if head is not None and head.epoch else None

    def owned(self, name: str, epoch: int) -> Row:
        """The row of a claim."""
        row = self.row(name)
        if row.status != "claimed" or row.epoch != epoch:
            raise Refused("fenced")
        return row

    def admit(self, name: str, lane: str, kind: str, key: str, content: str) -> str:
        """The name under which the work is kept."""
        for row in self.rows:
            if row.key == key:
                if (row.lane, row.kind, row.content) != (lane, kind, content):
                    raise Refused("conflict")
                return row.name
        if kind == "steering" and self.active(lane) is None:
            raise Refused("conflict")
        self.rows.append(Row(name=name, lane=lane, kind=kind, key=key, content=content, since=self.now))
        return name

    def mark_ready(self, name: str) -> None:
        """Accept it."""
        row = self.row(name)
        if row.status == "admitted":
            row.becomes("ready", self.now)

    def claim(self, lease: int) -> tuple[str, int] | None:
        """Own the head that has been claimable longest."""
        due: list[tuple[int, int, Row]] = []
        for lane in sorted({row.lane for row in self.rows}):
            head = self.head(lane)
            if head is not None and head.due is not None and head.due <= self.now:
                due.append((head.due, self.rows.index(head), head))
        if not due:
            return None
        row = min(due)[2]
        epoch = self.epochs[row.lane] = self.epochs.get(row.lane, 0) + 1
        row.becomes(
            "claimed",
            self.now,
            epoch=epoch,
            attempts=row.attempts + 1,
            lease_until=self.now + lease,
            not_before=None,
            until=None,
            wait=None,
        )
        return row.name, epoch

    def renew(self, name: str, epoch: int, lease: int) -> None:
        """Keep it."""
        self.owned(name, epoch).lease_until = self.now + lease

    def release(self, name: str, epoch: int, *, failed: bool, later: int) -> None:
        """Give it back."""
        if (self.row(name).status, self.row(name).epoch) == ("ready", epoch):
            return
        row = self.owned(name, epoch)
        not_before = self.now + later if later else None
        attempts = row.attempts if failed else row.attempts - 1
        row.becomes("ready", self.now, attempts=attempts, not_before=not_before, lease_until=None)

    def suspend(self, name: str, epoch: int, wait: str, until: int | None) -> None:
        """Let it wait, unless word is there already."""
        row = self.row(name)
        if row.epoch == epoch and row.status in ("ready", "suspended"):
            return
        row = self.owned(name, epoch)
        attempts = row.attempts if wait == "operator" else 0
        if any(self.ends(act, wait) for act, taken in row.commands.values() if not taken):
            row.becomes("ready", self.now, attempts=attempts, lease_until=None)
        else:
            at = None if until is None else self.now + until
            row.becomes("suspended", self.now, attempts=attempts, lease_until=None, wait=wait, until=at)

    @staticmethod
    def ends(act: str, wait: str | None) -> bool:
        """Whether word of a kind ends a wait."""
        return act == "abort" or (act, wait) in (("resolve", "unknown"), ("retry", "operator"))

    def post(self, name: str, key: str, act: str) -> None:
        """Tell it something."""
        row = self.row(name)
        known = row.commands.get(key)
        if (known is not None and known[0] == act) or row.status == "settled":
            return
        if known is not None and not known[1]:
            raise Refused("conflict")
        row.commands.pop(key, None)
        row.commands[key] = (act, False)
        if row.status == "suspended" and self.ends(act, row.wait):
            attempts = 0 if act == "retry" else row.attempts
            row.becomes("ready", self.now, wait=None, until=None, attempts=attempts)
        elif row.status == "ready":
            row.not_before = None

    def take(self, name: str, epoch: int) -> None:
        """Everything it was told is dealt with."""
        row = self.owned(name, epoch)
        row.commands = {key: (act, True) for key, (act, _) in row.commands.items()}

    def claim_joining(self, name: str, epoch: int, kind: str, limit: int) -> list[str]:
        """Give it input."""
        host = self.owned(name, epoch)
        others = [row for row in self.lane(host.lane) if row.kind == kind and row is not host]
        given = [row for row in others if row.status == "joining"]
        given = (given + [row for row in others if row.status == "ready"])[:limit]
        for row in given:
            row.becomes("joining", self.now, host=name)
        return [row.name for row in given]

    def mark_joined(self, name: str, epoch: int, joined: str) -> None:
        """This input is on its record."""
        host = self.owned(name, epoch)
        for row in self.lane(host.lane):
            if row.name == joined and row.status in ("ready", "joining"):
                row.becomes("joined", self.now, host=name)

    def revert(self, name: str, epoch: int) -> None:
        """What was given and is on no record goes back."""
        self._revert(self.owned(name, epoch))

    def finalize(self, name: str, epoch: int, end: int) -> None:
        """It has ended, and what joined it."""
        if self.row(name).end is not None:
            if self.row(name).end != end:
                raise Refused("conflict")
            return
        host = self.owned(name, epoch)
        self._revert(host)
        for row in self.lane(host.lane):
            if row is host or (row.host == name and row.status == "joined"):
                row.commands = {key: told for key, told in row.commands.items() if told[1]}
                row.becomes("settled", self.now, end=end, lease_until=None)

    def _revert(self, host: Row) -> None:
        for row in self.lane(host.lane):
            if row.status == "joining" and row.host == host.name:
                row.becomes("ready", self.now, host=None)

    def told(self) -> list[tuple[Any, ...]]:
        """Everything that a listing shows."""
        return [
            (
                row.name,
                row.status,
                row.epoch,
                row.attempts,
                row.not_before,
                row.until,
                row.lease_until,
                row.host,
                row.end,
            )
            for row in self.rows
        ]
