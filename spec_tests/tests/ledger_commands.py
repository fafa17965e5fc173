"""Commands for a ledger and its reference model: the same to both, and what both answer."""

from typing import Any, Final

from hypothesis import strategies as st

from triolet.ports.errors import Conflict, Fenced, Misuse, TrioletError
from triolet.ports.identity import Instant, SubmissionId
from triolet.ports.ledger import Abort, Claim, Ledger, Resolve, Retry
from triolet.spec_tests.cases.ledger.setting import (
    CALL,
    TENANT,
    TROUBLE,
    UNKNOWN,
    LedgerSubject,
    at,
    ending,
    told,
    work,
)
from triolet.spec_tests.reference.ledger_model import LedgerModel, Refused

ACTS: Final[dict[str, Any]] = {"abort": Abort(), "resolve": Resolve(call=CALL, outcome=None), "retry": Retry()}
NAMES: Final = (
    "admit",
    "admit",
    "mark_ready",
    "mark_ready",
    "claim",
    "claim",
    "renew",
    "release",
    "suspend",
    "post",
    "take",
    "claim_joining",
    "mark_joined",
    "revert",
    "finalize",
    "pass",
)
COMMANDS: Final = st.tuples(
    st.sampled_from(NAMES),
    st.fixed_dictionaries({name: st.integers(0, 5) for name in ("which", "lane", "kind", "key", "more")}),
)
_SECOND: Final = 1_000_000


class Driver:
    """Plays commands on a ledger and on the model, and holds their answers against each other."""

    def __init__(self, subject: LedgerSubject) -> None:
        self.model = LedgerModel()
        self._subject = subject
        self.ledger: Ledger = subject.port
        self._claims: list[Claim] = []
        self._began: int | None = None
        self._drawn = 0

    async def play(self, name: str, choices: dict[str, int]) -> None:
        """One command."""
        if self._began is None:
            self._began = (await self.ledger.figures()).now
        if name == "pass":
            seconds = (1, 5, 20, 31, 40, 100)[choices["more"]]
            await self._subject.let_pass(seconds)
            self.model.now += seconds * _SECOND
            return
        if name in ("admit", "mark_ready", "claim", "post"):
            await getattr(self, f"_{name}")(choices)
        elif self._claims:
            claim = self._claims[choices["which"] % len(self._claims)]
            await getattr(self, f"_{name}")(claim, choices)

    async def found(self) -> list[tuple[Any, ...]]:
        """What a listing shows, as the model says it."""
        began = self._began or 0

        def since(instant: Instant | None) -> int | None:
            return None if instant is None else instant - began

        return [
            (
                row.submission.id,
                row.status,
                row.epoch,
                row.attempts,
                since(row.not_before),
                since(row.until),
                since(row.lease_until),
                row.host,
                None if row.settlement is None else row.settlement.settled.turns,
            )
            for row in await self.ledger.scan(unsettled=False, limit=1_000)
        ]

    async def _both(self, real: Any, modelled: Any) -> Any:
        try:
            expected, refusal = modelled(), None
        except Refused as error:
            expected, refusal = None, error.family
        try:
            answer, met = await real, None
        except TrioletError as error:
            answer, met = None, error
        families = {"conflict": Conflict, "fenced": Fenced, "misuse": Misuse}
        if refusal is None:
            assert met is None, f"refused, where the model does it: {met}"
        else:
            assert isinstance(met, families[refusal]), f"met {met!r}, where the model says {refusal}"
        return answer, expected

    async def _admit(self, choices: dict[str, int]) -> None:
        self._drawn += 1
        name, lane = f"s{self._drawn}", f"lane{choices['lane'] % 2}"
        kind: Any = ("run", "run", "run", "follow-up", "follow-up", "steering")[choices["kind"]]
        key = f"key{choices['key']}" if choices["more"] == 0 else name
        content = f"text{choices['which'] % 2}"
        submission = work(name, where=at(lane), kind=kind, key=key, text=content)
        standing, kept = await self._both(
            self.ledger.admit(submission), lambda: self.model.admit(name, lane, kind, key, content)
        )
        assert standing is None or standing.submission.id == kept

    async def _mark_ready(self, choices: dict[str, int]) -> None:
        name = self._name(choices["which"])
        await self._both(self.ledger.mark_ready(TENANT, SubmissionId(name)), lambda: self.model.mark_ready(name))

    async def _claim(self, _: dict[str, int]) -> None:
        lease = 30
        claim, expected = await self._both(
            self.ledger.claim("worker", agents=None, lease_seconds=lease), lambda: self.model.claim(lease * _SECOND)
        )
        found = (claim.submission.id, claim.epoch) if isinstance(claim, Claim) else None
        assert found == expected
        if isinstance(claim, Claim):
            self._claims.append(claim)

    async def _post(self, choices: dict[str, int]) -> None:
        name, key = self._name(choices["which"]), f"c{choices['key'] % 3}"
        act = ("abort", "resolve", "retry")[choices["more"] % 3]
        await self._both(
            self.ledger.post(TENANT, SubmissionId(name), told(key, ACTS[act])),
            lambda: self.model.post(name, key, act),
        )

    async def _renew(self, claim: Claim, _: dict[str, int]) -> None:
        await self._both(
            self.ledger.renew(claim, lease_seconds=30),
            lambda: self.model.renew(claim.submission.id, claim.epoch, 30 * _SECOND),
        )

    async def _release(self, claim: Claim, choices: dict[str, int]) -> None:
        failed, later = choices["more"] % 2 == 1, (choices["key"] % 3) * 10
        not_before = Instant((self._began or 0) + self.model.now + later * _SECOND) if later else None
        await self._both(
            self.ledger.release(claim, not_before=not_before, failed=failed),
            lambda: self.model.release(claim.submission.id, claim.epoch, failed=failed, later=later * _SECOND),
        )

    async def _suspend(self, claim: Claim, choices: dict[str, int]) -> None:
        kind, later = ("unknown", "operator")[choices["more"] % 2], (choices["key"] % 3) * 15
        until = Instant((self._began or 0) + self.model.now + later * _SECOND) if later else None
        wait = UNKNOWN if kind == "unknown" else TROUBLE
        await self._both(
            self.ledger.suspend(claim, (wait,), until=until),
            lambda: self.model.suspend(claim.submission.id, claim.epoch, kind, later * _SECOND if later else None),
        )

    async def _take(self, claim: Claim, _: dict[str, int]) -> None:
        keys = tuple(f"c{number}" for number in range(3))
        await self._both(self.ledger.take(claim, keys), lambda: self.model.take(claim.submission.id, claim.epoch))

    async def _claim_joining(self, claim: Claim, choices: dict[str, int]) -> None:
        kind: Any = ("follow-up", "steering")[choices["kind"] % 2]
        limit = 1 + choices["more"] % 3
        given, expected = await self._both(
            self.ledger.claim_joining(claim, kind, limit),
            lambda: self.model.claim_joining(claim.submission.id, claim.epoch, kind, limit),
        )
        assert given is None or [each.id for each in given] == expected

    async def _mark_joined(self, claim: Claim, choices: dict[str, int]) -> None:
        name = self._name(choices["more"])
        if name != claim.submission.id:
            await self._both(
                self.ledger.mark_joined(claim, (SubmissionId(name),)),
                lambda: self.model.mark_joined(claim.submission.id, claim.epoch, name),
            )

    async def _revert(self, claim: Claim, _: dict[str, int]) -> None:
        await self._both(self.ledger.revert(claim), lambda: self.model.revert(claim.submission.id, claim.epoch))

    async def _finalize(self, claim: Claim, choices: dict[str, int]) -> None:
        turns = 1 + choices["more"] % 2
        await self._both(
            self.ledger.finalize(claim, ending(claim.submission.id, turns)),
            lambda: self.model.finalize(claim.submission.id, claim.epoch, turns),
        )

    def _name(self, which: int) -> str:
        return f"s{max(1, self._drawn - which)}"
