"""Records of what the host brought into a run: skills, tool catalogues, state, children, operators.

Decides how each outside thing is identified so that a run can be understood without it: by identity, version
and digest. Content of skills, state and children's transcripts is not copied here (CAP-008, CAP-012, SUB-015).
"""

from typing import Annotated, ClassVar, Literal

import attrs

from triolet.ports.canonical import Digest
from triolet.ports.identity import AgentId, CallId, ConversationId, Principal, RunId, SubmissionId
from triolet.ports.outcomes import Outcome
from triolet.ports.records.run import SkillReference
from triolet.ports.schema import Ge
from triolet.ports.usage import UsageTotals


@attrs.frozen(kw_only=True, weakref_slot=False)
class SkillActivated:
    """From here on the run's context holds this skill."""

    kind: ClassVar[str] = "skill_activated"
    version: ClassVar[int] = 1
    skill: SkillReference
    trust: str


@attrs.frozen(kw_only=True, weakref_slot=False)
class ToolCatalogueChanged:
    """A tool source offers another set of tools from here on (CAP-009). `digest` covers names and schemas.

    `source` is the host's name for it; `server`, `source_version`, `protocol`, `transport` and `capabilities` are what
    was found there. `tools` are public names, sorted; `set_aside` counts those that cannot be offered.
    """

    kind: ClassVar[str] = "tool_catalogue_changed"
    version: ClassVar[int] = 1
    source: str
    source_version: str
    digest: Digest
    tools: tuple[str, ...]
    server: str = ""
    protocol: str = ""
    transport: str = ""
    capabilities: tuple[str, ...] = ()
    set_aside: Annotated[int, Ge(0)] = 0


@attrs.frozen(kw_only=True, weakref_slot=False)
class StateWritten:
    """Agent state changed together with this batch. The value is in the state store."""

    kind: ClassVar[str] = "state_written"
    version: ClassVar[int] = 1
    namespace: str
    key: str
    write_class: Literal["run-local", "transactional", "compensatable", "uncertain"]
    revision: int
    digest: Digest | None


@attrs.frozen(kw_only=True, weakref_slot=False)
class SubagentRequested:
    """A call delegates to a child under exactly this definition (SUB-001, SUB-023)."""

    kind: ClassVar[str] = "subagent_requested"
    version: ClassVar[int] = 1
    call: CallId
    agent: AgentId
    definition: Digest
    child: ConversationId


@attrs.frozen(kw_only=True, weakref_slot=False)
class SubagentStarted:
    """The one child of this call exists; a durable one has its receipt (SUB-017)."""

    kind: ClassVar[str] = "subagent_started"
    version: ClassVar[int] = 1
    call: CallId
    child: ConversationId
    run: RunId
    submission: SubmissionId | None


@attrs.frozen(kw_only=True, weakref_slot=False)
class SubagentJoined:
    """The child settled and its verified end became the call's outcome (SUB-019)."""

    kind: ClassVar[str] = "subagent_joined"
    version: ClassVar[int] = 1
    call: CallId
    child: ConversationId
    settlement: Digest
    outcome: Outcome
    usage: UsageTotals


@attrs.frozen(kw_only=True, weakref_slot=False)
class OperatorActed:
    """A person intervened: who, why, before and after (SEC-011)."""

    kind: ClassVar[str] = "operator_acted"
    version: ClassVar[int] = 1
    action: str
    key: str
    by: Principal
    reason: str
    before: str
    after: str
