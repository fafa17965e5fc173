"""What only a look at the source can hold: that ports are contracts, and that tools declare what they must."""

import inspect
import re
from typing import Any

import attrs
import pytest
from typing_extensions import get_protocol_members

from triolet.ports import (
    admission,
    approval,
    artifact_store,
    authorizer,
    budget,
    capabilities,
    code_executor,
    compactor,
    conversation_store,
    inbox,
    language_model,
    ledger,
    prices,
    reconciler,
    sandbox,
    secrets,
    session_store,
    sources,
    token_estimator,
    tool_source,
    wakeups,
)
from triolet.ports.errors import TrioletError
from triolet.ports.tools import Tool

_PORTS = {
    "model": language_model.LanguageModel,
    "conversations": conversation_store.ConversationStore,
    "clock": sources.Clock,
    "ids": sources.IdGenerator,
    "approval": approval.Approval,
    "code": code_executor.CodeExecutor,
    "authorizer": authorizer.Authorizer,
    "inbox": inbox.Inbox,
    "inputs": admission.InputQueue,
    "estimator": token_estimator.TokenEstimator,
    "prices": prices.Prices,
    "compactor": compactor.Compactor,
    "sandbox": sandbox.Sandbox,
    "artifacts": artifact_store.ArtifactStore,
    "secrets": secrets.SecretResolver,
    "budgets": budget.Budgets,
    "tool_sources": tool_source.ToolSource,
    "ledger": ledger.Ledger,
    "sessions": session_store.SessionStore,
    "reconciler": reconciler.Reconciler,
}
_PARTS: dict[str, Any] = {
    **{name: port for name, port in _PORTS.items() if name not in ("inputs", "ledger")},
    # One adapter implements both, and each says for itself what it promises.
    "inputs (admission)": admission.Admission,
    "inputs (joining)": admission.Joining,
    "ledger (admissions)": ledger.Admissions,
    "ledger (commands)": ledger.Commands,
    "ledger (ownership)": ledger.Ownership,
    "ledger (joins)": ledger.Joins,
    "ledger (settlements)": ledger.Settlements,
    "ledger (recovery)": ledger.Recovery,
    "ledger (wake-ups)": wakeups.Wakeups,
}
_CLAUSES = ("Does", "Atomicity", "Idempotency", "Ordering", "Cancellation", "Raises")


def test_every_capability_is_a_port_that_is_looked_at() -> None:
    assert set(_PORTS) == set(capabilities.CAPABILITY_NAMES)


@pytest.mark.parametrize("name", sorted(_PARTS))
def test_every_port_states_its_contract(name: str) -> None:
    """Lifetime and events in the port's docstring; every clause in each verb's (CAP-001)."""
    port: Any = _PARTS[name]
    described = inspect.getdoc(port) or ""
    assert [word for word in ("Lifetime:", "Emits:") if word not in described] == []
    verbs = [member for member in get_protocol_members(port) if inspect.isfunction(getattr(port, member))]
    assert verbs
    for verb in verbs:
        contract = inspect.getdoc(getattr(port, verb)) or ""
        missing = [clause for clause in _CLAUSES if not re.search(rf"\b{clause}\b[^:]*:", contract)]
        assert missing == [], f"{name}.{verb} says nothing about {missing}"


@pytest.mark.parametrize("name", sorted(_PARTS))
def test_every_error_that_a_port_names_has_a_family(name: str) -> None:
    port: Any = _PARTS[name]
    module = inspect.getmodule(port)
    text = " ".join(inspect.getdoc(getattr(port, member)) or "" for member in get_protocol_members(port))
    named = [word for word in re.findall(r"`([A-Z]\w+)`", text) if hasattr(module, word)]
    errors = [getattr(module, word) for word in named]
    raised = [each for each in errors if isinstance(each, type) and issubclass(each, Exception)]
    assert all(issubclass(each, TrioletError) for each in raised)


def test_a_tool_declares_risk_retry_interruption_and_redaction() -> None:
    """SEC-005: how risky it is, whether it may be repeated or stopped, and what of its result may be seen."""
    fields = {field.name: field for field in attrs.fields(Tool)}
    assert {"risk", "execution", "redact", "timeout"} <= fields.keys()
    assert (fields["risk"].default, fields["execution"].default) == ("medium", "uncertain")
    described = inspect.getdoc(inspect.getmodule(Tool)) or ""
    assert described
