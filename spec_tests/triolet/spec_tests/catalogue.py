"""The catalogue: every requirement by its stable ID, one line each, and where what is not checked yet will be.

Decides which IDs exist and how they are called; certificates, cases, tests and documents cite them and nothing
else. `static` names the check of an ID, or of the part of it, that only a look at the source can hold. `milestone`
names the work that brings the cases of an ID that has none. `later` says which part of an ID with cases is still to
come, and with which milestone. How many cases there are is counted, not written here (`coverage`). (CONF-001)
"""

from collections.abc import Iterable, Mapping
from typing import Final

import attrs

MILESTONES: Final = (
    "events",
    "stores",
    "durable",
    "operations",
    "skills",
    "state",
    "subagents",
)


@attrs.frozen(weakref_slot=False)
class Requirement:
    """One requirement. `title` is a reminder of it, not its text."""

    id: str
    title: str
    milestone: str | None = attrs.field(default=None, kw_only=True)
    static: str | None = attrs.field(default=None, kw_only=True)
    later: str | None = attrs.field(default=None, kw_only=True)


_R = Requirement

_CONTRACTS: Final = "spec_tests/tests/test_kit_static.py::test_every_port_states_its_contract"
_LAYERS: Final = "spec_tests/tests/test_layers.py::test_contracts_see_a_violation"
_AWAITS: Final = "spec_tests/tests/test_await_points.py::test_every_await_of_the_kernel_is_visited"
_DECLARATIONS: Final = "spec_tests/tests/test_kit_static.py::test_a_tool_declares_risk_retry_interruption_and_redaction"
_MATRIX: Final = "spec_tests/tests/test_kit_mutants.py::test_the_matrix_has_no_gap"
_STATUSES: Final = "spec_tests/tests/test_kit_certificate.py::test_only_executed_checks_count"
_ATTACKS: Final = "spec_tests/tests/test_sandbox_attacks.py::test_every_attack_succeeds_without_protection"
_SUBSTITUTE: Final = "spec_tests/tests/test_request_driven_model.py"

_ROWS: Final = (
    _R("CAP-001", "an optional capability is a port: contract, errors, lifetime, events", static=_CONTRACTS),
    _R("CAP-002", "what is missing is named at assembly, all of it at once", later="durable assemblies: durable"),
    _R("CAP-003", "a tool is defined once, and only the kernel runs it", static=_LAYERS, later="delegation: subagents"),
    _R("CAP-004", "tool input and output both pass a schema"),
    _R("CAP-005", "results commit in the order in which the calls were declared"),
    _R("CAP-006", "approval requests and decisions are records"),
    _R("CAP-007", "compaction leaves the canonical history alone"),
    _R("CAP-008", "a run records which skills it loaded", milestone="skills"),
    _R("CAP-009", "MCP keeps the server's identity and claims no exactly-once"),
    _R("CAP-010", "a runner without isolation is not called a sandbox"),
    _R("CAP-011", "subagents run by declared delegation, inside the parent's nursery", milestone="subagents"),
    _R("CAP-012", "agent state is apart from history, each write names its class", milestone="state"),
    _R("CAP-013", "telemetry is bounded and redacted unless told otherwise"),
    _R(
        "CAP-014",
        "Code Mode is a plain tool over a closed list that is checked when made",
        later="refused at preflight: durable",
    ),
    _R("CAP-015", "a code executor is scoped, typed, and honest about its isolation"),
    _R("CAP-016", "all that leaves a Code Mode pass shares one byte budget"),
    _R("CAP-017", "usage tells cache reads and writes apart and keeps the last call's figures"),
    _R("RUN-001", "one interpreter: what `run` gives is what `stream` shows", later="workers: durable"),
    _R("RUN-002", "a trace has one terminal event at most, a run one settlement"),
    _R("RUN-003", "a handler sees decoded input only"),
    _R("RUN-004", "nothing of a cut response runs, nor a call whose arguments are no JSON"),
    _R("RUN-005", "a model sees a whole call batch or none, one result a call", later="unknown as a wait: durable"),
    _R("RUN-006", "results stand on record in declaration order"),
    _R("RUN-007", "every task of a run lives in the run's nursery"),
    _R("RUN-008", "cancelling a run cancels what it started and waits for it", later="child agents: subagents"),
    _R("RUN-009", "concurrency is bounded for each run and each named group", later="children: subagents"),
    _R("RUN-010", "no observer holds up a run, and a late one misses nothing semantic"),
    _R("RUN-011", "exhaustion says so, and by which limit"),
    _R("RUN-012", "no provider's type gets into a record", static=_LAYERS),
    _R("RUN-013", "no retry repeats an uncertain effect"),
    _R("RUN-014", "steering enters before a model request and nowhere else"),
    _R("RUN-015", "a follow-up enters where the run would stop"),
    _R("RUN-016", "programmatic calls go through the broker, one at a time"),
    _R("RUN-017", "a programmatic call is paid for before it starts"),
    _R("RUN-018", "a batch beyond the call limit never runs, and each of its calls says why"),
    _R("RUN-019", "using up the turns gives exactly one more, without tools"),
    _R("RUN-020", "a call where tools are forbidden fails the run"),
    _R("RUN-021", "what a run is allowed only tightens the definition"),
    _R("RUN-022", "a result is bounded once, with head, tail, size, and a handle of the whole"),
    _R("RUN-023", "usage is accounted, and a wrong seed stops recovery early", later="crashed workers: durable"),
    _R("RUN-024", "a status message ends each request and is never recorded"),
    _R("RUN-025", "four fifths of a budget warn once; duration and cost are hard"),
    _R("RUN-026", "a context that grows too large is compacted before the turn"),
    _R("RUN-027", "a refusal for length is typed, and tried once more at most"),
    _R("RUN-028", "every request shows the output schema, outside the history"),
    _R("RUN-029", "an ordinary completion may carry a disposition"),
    _R("RUN-030", "one wall clock for the whole logical run", later="across attempts of workers: durable"),
    _R("RUN-031", "an authorizer decides the whole batch, and again on resuming"),
    _R("TOOL-001", "a call has the kernel's own identity, everywhere the same", later="approval, recovery: durable"),
    _R("TOOL-002", "what leaves a tool is redacted and bounded first", later="secrets: events"),
    _R("TOOL-003", "every call ends in one of six outcomes, by one table", later="approval, crashes: durable"),
    _R("TOOL-004", "no handler starts before its whole batch is decided"),
    _R("APPR-001", "a request says who, what, how risky, until when, and what denial means"),
    _R("APPR-002", "only a stored approval lets a call run"),
    _R("APPR-003", "a decision that is there commits with its request"),
    _R("APPR-004", "waiting for approval holds no worker and has no clock of its own", later="the workers: durable"),
    _R("APPR-005", "resuming records the decision first and asks no model again", later="workers: durable"),
    _R("STEER-001", "steering needs an active run and is a record before a model sees it"),
    _R("STEER-002", "follow-ups are admitted like submissions, first in first out", later="receipts: durable"),
    _R("DUR-001", "a receipt comes after admission is durable", later="the workers: durable"),
    _R("DUR-002", "accepted work settles exactly once", later="the workers: durable"),
    _R("DUR-003", "execution is at least once, and nobody claims more", milestone="durable"),
    _R("DUR-004", "a conversation's work runs in admitted order", later="the workers: durable"),
    _R("DUR-005", "one active submission a conversation", later="the workers: durable"),
    _R("DUR-006", "a stale owner's write is refused", later="ledger: stores"),
    _R("DUR-007", "a batch is appended whole and once", later="after a crash: stores"),
    _R("DUR-008", "partial arguments are never canonical", later="crashed workers: durable"),
    _R("DUR-009", "a prepared call without a result is unknown after a crash", later="the crash: durable"),
    _R("DUR-010", "a durable step is recorded once", milestone="durable"),
    _R("DUR-011", "a settlement is reserved, appended, finalized", later="the workers: durable"),
    _R("DUR-012", "abort is a record, idempotent, and rewrites nothing", later="the workers: durable"),
    _R("DUR-013", "recovery follows from stored state alone", milestone="durable"),
    _R("DUR-014", "used-up retries are never silent", later="the workers: durable"),
    _R("DUR-015", "the log rules, the ledger can be rebuilt", milestone="durable"),
    _R("DUR-016", "joined input is delivered once", later="crashed workers: durable"),
    _R("DUR-017", "unknown outcomes stay visible until somebody resolves them", milestone="durable"),
    _R("STORE-001", "log and ledger are separate contracts", milestone="stores"),
    _R("STORE-002", "each transition is atomic and idempotent", later="several processes: stores"),
    _R("STORE-003", "reads see every write that was acknowledged", later="several processes: stores"),
    _R("STORE-004", "an append is atomic, idempotent, conflict-checked and fenced", later="real loss: stores"),
    _R("STORE-005", "every record carries its schema version"),
    _R("STORE-006", "what does not fit its codec is neither written nor guessed", later="rows of databases: stores"),
    _R("STORE-007", "a checkpoint can be lost, and is bound to the log", later="use in recovery: durable"),
    _R("STORE-008", "projections come from the log alone", milestone="stores"),
    _R("STORE-009", "large payloads stand apart, named by digest"),
    _R("STORE-010", "durable adapters survive real kills", milestone="stores"),
    _R("STORE-011", "an unknown stored version stops before any write", milestone="stores"),
    _R("STORE-013", "every store passes the same cases", milestone="stores"),
    _R("STORE-014", "a wait misses no wake-up and polls nothing", later="several processes: stores"),
    _R("STORE-015", "a log is read once, in bounded pages, without gaps", later="the recovery pass: durable"),
    _R("SUB-001", "delegation is a plain tool from a fixed declaration", milestone="subagents"),
    _R("SUB-002", "model text chooses no agent, model, budget or authority", milestone="subagents"),
    _R("SUB-004", "each delegation has a fresh conversation with one parent", milestone="subagents"),
    _R("SUB-006", "a child inherits nothing that was not given", milestone="subagents"),
    _R("SUB-007", "a child starts after authorization and approval", milestone="subagents"),
    _R("SUB-008", "a child's authority has a fixed ceiling", milestone="subagents"),
    _R("SUB-009", "a child is finite in every dimension", milestone="subagents"),
    _R("SUB-010", "reservations conserve every budget", later="delegations: subagents"),
    _R("SUB-011", "an ephemeral child lives in its parent's nursery", milestone="subagents"),
    _R("SUB-013", "children end in any order, results keep theirs", milestone="subagents"),
    _R("SUB-015", "a child's transcript stays out of its parent's context", milestone="subagents"),
    _R("SUB-016", "one durable child for one parent call", milestone="subagents"),
    _R("SUB-017", "a durable child has its receipt first", milestone="subagents"),
    _R("SUB-018", "recovery reattaches the one child", milestone="subagents"),
    _R("SUB-019", "joining verifies the child and commits with the result", milestone="subagents"),
    _R("SUB-020", "parent and child are fenced apart", milestone="subagents"),
    _R("SUB-021", "an unknown outcome in a child blocks its parent", milestone="subagents"),
    _R("SUB-022", "closing a parent asks its children to end", milestone="subagents"),
    _R("SUB-023", "a durable child runs under its stored definition only", milestone="subagents"),
    _R("SUB-024", "a parent's observers see bounded summaries", milestone="subagents"),
    _R("SUB-026", "approval to delegate covers nothing that the child does", milestone="subagents"),
    _R("SUB-028", "a child's expected failure is the tool's declared failure", milestone="subagents"),
    _R("SUB-029", "nested delegation is refused at preflight", milestone="subagents"),
    _R("SUB-030", "waiting for a durable child holds nothing", milestone="subagents"),
    _R("SUB-031", "whether a child was admitted is asked, never assumed", milestone="subagents"),
    _R("SUB-033", "a returned child failure does not fail its parent's batch", milestone="subagents"),
    _R("SUB-034", "an allowance only tightens", milestone="subagents"),
    _R("SEC-002", "tenants are kept apart", later="authorization: events"),
    _R("SEC-003", "authorization is asked again when it counts"),
    _R("SEC-005", "a tool says how risky, repeatable and private it is", static=_DECLARATIONS),
    _R("SEC-006", "secrets are handles"),
    _R("SEC-010", "untrusted code needs real isolation"),
    _R("SEC-011", "what an operator does is idempotent and on record", later="the commands: operations"),
    _R("SEC-012", "budgets hold over the whole hierarchy"),
    _R("SEC-013", "every untrusted input and buffer is bounded"),
    _R("SEC-014", "a generated program can do only what is brokered"),
    _R("OPS-001", "the age of unsettled work can be measured", later="the commands: operations"),
    _R("OPS-002", "an unknown outcome raises a signal", later="the commands: operations"),
    _R("CONF-001", "a case counts if a mutant fails it and a conforming subject passes", static=_MATRIX),
    _R("CONF-002", "what was not exercised says so and is not counted as passed", static=_STATUSES),
    _R("CONF-003", "what a model is shown is tested by one that answers from it alone", static=_SUBSTITUTE),
    _R("CONF-004", "fail and await points are enumerated by the machine", static=_AWAITS, later="failpoints: durable"),
    _R("CONF-005", "an attack is first shown to succeed without the protection", static=_ATTACKS),
)


def _catalogue(rows: Iterable[Requirement]) -> Mapping[str, Requirement]:
    catalogue: dict[str, Requirement] = {}
    for row in rows:
        if row.id in catalogue:
            raise AssertionError(f"{row.id} is twice in the catalogue")
        if row.milestone is not None and row.milestone not in MILESTONES:
            raise AssertionError(f"{row.id} names a milestone that there is none of")
        catalogue[row.id] = row
    return catalogue


CATALOGUE: Final[Mapping[str, Requirement]] = _catalogue(_ROWS)
"""Every requirement, in the catalogue's order."""
