"""Every port is observed by one wrapper, made from its protocol; and one module knows OpenTelemetry.

(CAP-001, CAP-013)
"""

import ast
import inspect
import json
from collections.abc import AsyncGenerator, AsyncIterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

import attrs
import pytest
import trio
from opentelemetry import trace

from tests.telemetry_world import Exported, is_error, told
from triolet.kernel.telemetry.content import request_content
from triolet.kernel.telemetry.otel import Backend, connect
from triolet.kernel.telemetry.ports import observe, observed_port, operations_of, ports_of
from triolet.ports.artifact_store import ArtifactHandle, ArtifactMissing, ArtifactStore
from triolet.ports.canonical import Digest
from triolet.ports.capabilities import CAPABILITY_NAMES, Capabilities
from triolet.ports.identity import RunId, TenantId
from triolet.ports.language_model import ModelRequest
from triolet.ports.messages import user_text
from triolet.ports.secrets import Secret, SecretHandle, SecretMissing, SecretResolver
from triolet.ports.tools import Toolkit

_KERNEL = Path(__file__).resolve().parents[2] / "kernel" / "triolet" / "kernel"


@pytest.fixture
def exported() -> Exported:
    return Exported()


def _backend(exported: Exported) -> Backend:
    backend = connect(exported.tracers, exported.meters)
    assert backend is not None
    return backend


def _modules() -> list[tuple[str, ast.AST]]:
    return [(str(p.relative_to(_KERNEL)), ast.parse(p.read_text(encoding="utf-8"))) for p in _KERNEL.rglob("*.py")]


def test_one_module_of_the_kernel_knows_opentelemetry() -> None:
    knowing = {
        name
        for name, tree in _modules()
        for node in ast.walk(tree)
        if (isinstance(node, ast.ImportFrom) and (node.module or "").startswith("opentelemetry"))
        or (isinstance(node, ast.Import) and any(each.name.startswith("opentelemetry") for each in node.names))
    }
    assert knowing == {"telemetry/otel.py"}


def test_nobody_hands_an_exception_or_a_description_to_the_api() -> None:
    """Its recording of exceptions is off where spans are begun, and a status has no text."""
    named = [node for _, tree in _modules() for node in ast.walk(tree) if isinstance(node, ast.keyword)]
    off = [node for node in named if node.arg in ("record_exception", "set_status_on_exception")]
    assert len(off) == 2
    assert all(isinstance(node.value, ast.Constant) and node.value.value is False for node in off)
    called = [node for _, tree in _modules() for node in ast.walk(tree) if isinstance(node, ast.Call)]
    assert not [c for c in called if isinstance(c.func, ast.Attribute) and c.func.attr == "record_exception"]
    statuses = [c for c in called if isinstance(c.func, ast.Name) and c.func.id == "Status"]
    assert [len(c.args) + len(c.keywords) for c in statuses] == [1]


def test_every_operation_that_can_wait_is_observed() -> None:
    """Of each port by its protocol; what is left out cannot wait, or says so here."""
    assert set(ports_of(Capabilities)) == set(CAPABILITY_NAMES)
    left_out: set[str] = set()
    for capability, protocol in ports_of(Capabilities).items():
        seen = {operation.name for operation in operations_of(capability, protocol)}
        members = {name for name, _ in inspect.getmembers(protocol, inspect.isfunction) if not name.startswith("_")}
        left_out |= {f"{capability}.{name}" for name in members - seen}
    pure = ("clock", "ids", "estimator", "prices")
    looks = ("check", "changed")
    waits = [name for name in left_out if name.partition(".")[0] not in pure and name.partition(".")[2] not in looks]
    assert waits == []
    assert {"clock.now", "ids.new", "tool_sources.changed"} <= left_out


class Vault:
    """Secrets in a dictionary, and something that the port does not know of."""

    rotations = 3

    async def resolve(self, handle: SecretHandle) -> Secret:
        await trio.lowlevel.checkpoint()
        if handle.name != "token":
            raise SecretMissing(handle=handle)
        return Secret(handle, "Zq-the-value-itself-qZ")


async def test_a_secret_s_value_is_never_told(exported: Exported) -> None:
    vault: SecretResolver = observed_port("secrets", SecretResolver, Vault(), _backend(exported), 10_000)
    secret = await vault.resolve(SecretHandle(name="token"))
    assert secret.reveal() == "Zq-the-value-itself-qZ"
    with pytest.raises(SecretMissing):
        await vault.resolve(SecretHandle(name="other"))
    fine, missing = exported.named("triolet.secrets.resolve")
    assert told(fine, "triolet.resource.id") == "token"
    assert told(fine, "triolet.operation.name") == "SecretResolver.resolve"
    assert (is_error(missing), told(missing, "error.type"), told(missing, "triolet.error.family")) == (
        True,
        "SecretMissing",
        "misuse",
    )
    assert not [where for where, text in exported.texts() if "the-value" in text]
    other: Any = vault
    assert other.rotations == 3  # what the port does not name is reached as it is


class Shelf:
    """An artifact store that has one artifact."""

    async def put(
        self, payload: bytes | AsyncIterable[bytes], *, tenant: TenantId, content_type: str
    ) -> ArtifactHandle:
        return ArtifactHandle(digest=Digest("sha256:0"), size=5, content_type=content_type)

    async def get(self, digest: Digest, *, tenant: TenantId) -> bytes:
        raise ArtifactMissing(digest=digest)


async def test_tenant_resource_and_size_are_told_by_parameter(exported: Exported) -> None:
    shelf: ArtifactStore = observed_port("artifacts", ArtifactStore, Shelf(), _backend(exported), None)
    await shelf.put(b"Zq-payload", tenant=TenantId("acme"), content_type="text/plain; note=Zq-type")
    for _ in range(2):
        with pytest.raises(ArtifactMissing):
            await shelf.get(Digest("sha256:0"), tenant=TenantId("acme"))
    put, first, again = exported.named("triolet.artifacts.put") + exported.named("triolet.artifacts.get")
    assert told(put, "triolet.size") == 5
    assert {told(span, "triolet.tenant") for span in (put, first, again)} == {"acme"}
    assert {told(span, "triolet.resource.id") for span in (put, first, again)} == {"sha256:0"}
    assert [told(span, "triolet.retry.count") for span in (first, again)] == [0, 1]
    assert not [where for where, text in exported.texts() if "Zq-" in text]


class Bell(Protocol):
    """A port with a scope, which none of the bound ones has but the model."""

    def watch(self, key: str) -> AbstractAsyncContextManager[str]:
        """Open it."""
        ...

    def ring(self) -> None:
        """Cannot wait."""
        ...


class Tower:
    """A bell whose scope notes which span is current in it."""

    def __init__(self) -> None:
        self.within: list[Any] = []

    @asynccontextmanager
    async def watch(self, key: str) -> AsyncGenerator[str]:
        self.within.append(trace.get_current_span())
        try:
            yield key
        finally:
            self.within.append(trace.get_current_span())

    def ring(self) -> None:
        self.within.append("ring")


@pytest.mark.parametrize("how", ["left", "broken", "cancelled"])
async def test_a_scope_s_span_is_current_in_the_adapter_alone(exported: Exported, how: str) -> None:
    tower = Tower()
    bell: Bell = observed_port("bell", Bell, tower, _backend(exported), None)
    bell.ring()
    before = trace.get_current_span()
    with trio.move_on_after(1) as scope:
        try:
            async with bell.watch("Zq-key") as key:
                assert (key, trace.get_current_span()) == ("Zq-key", before)
                if how == "broken":
                    raise ZeroDivisionError
                if how == "cancelled":
                    scope.cancel()
                    await trio.lowlevel.checkpoint()
        except ZeroDivisionError:
            assert how == "broken"
    span = exported.one("triolet.bell.watch")
    assert [each if each == "ring" else each.name for each in tower.within] == ["ring", span.name, span.name]
    assert told(span, "triolet.outcome") == {"left": "ok", "broken": "failed", "cancelled": "cancelled"}[how]
    assert exported.watch.open == {}


async def test_a_port_that_cannot_wait_is_left_as_it_is(exported: Exported) -> None:
    class Still:
        def now(self) -> int:
            return 0

    still: Any = Still()
    bound = Capabilities(clock=still)
    assert observe(bound, _backend(exported), None).clock is still
    assert attrs.evolve(bound) == bound
    await trio.lowlevel.checkpoint()


async def test_an_adapter_that_returns_anything_is_told_without_harm(exported: Exported) -> None:
    """What is not text or a number is left out, and the caller gets what the adapter gave."""

    class Odd:
        async def resolve(self, handle: SecretHandle) -> Any:
            return ArtifactHandle(digest=Digest(handle.name), size=nothing, content_type="x")

    nothing: Any = object()
    odd: Any = observed_port("secrets", SecretResolver, Odd(), _backend(exported), 1_000)
    assert (await odd.resolve(SecretHandle(name="token"))).size is nothing
    assert told(exported.one("triolet.secrets.resolve"), "triolet.size") is None
    assert exported.watch.open == {}


def test_what_does_not_fit_is_left_out_whole() -> None:
    messages = tuple(user_text(f"{n} " + "x" * 90) for n in range(100))
    request = ModelRequest(run=RunId("r"), turn=1, attempt=1, instructions="y" * 5_000, messages=messages)
    told_of_it: dict[str, Any] = request_content(request, Toolkit(), 1_000)
    shown = json.loads(told_of_it["gen_ai.input.messages"])
    assert [message["parts"][0]["content"].split()[0] for message in shown] == [str(n) for n in range(94, 100)]
    assert len(told_of_it["gen_ai.input.messages"]) <= 1_000
    (part,) = json.loads(told_of_it["gen_ai.system_instructions"])
    assert "(5000 characters)" in part["content"]
    alone = request_content(attrs.evolve(request, messages=(user_text("\\" * 900),)), Toolkit(), 256)
    assert all(len(str(value)) <= 256 for value in alone.values())
