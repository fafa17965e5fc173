"""What the kernel does with the stores above a run: whole results, and budgets that runs share.

RUN-022, STORE-009, SEC-002, SEC-012.
"""

import hashlib
from collections.abc import AsyncIterable
from typing import Any, cast

from triolet.adapters.estimators import ByteEstimator
from triolet.adapters.memory import MemoryArtifacts, MemoryBudgets
from triolet.adapters.scripted_model import ScriptItem, call, text, turn
from triolet.kernel import BudgetExhaustedError, Completed, Failed, Policy, RetryPolicy, Tool, tool
from triolet.ports.artifact_store import ArtifactHandle, ArtifactsUnavailable
from triolet.ports.budget import Amounts, NodeId
from triolet.ports.canonical import Digest
from triolet.ports.identity import Principal, TenantId
from triolet.ports.outcomes import ToolRejected, ToolSuccess
from triolet.ports.records import BudgetReached, BudgetWarned
from triolet.ports.strict_json import parse
from triolet.ports.usage import Usage
from triolet.spec_tests.cases.kernel.setting import Bench, KernelSubject, open_bench, text_agent
from triolet.spec_tests.claims import SpecViolation, ensure, ensure_equal
from triolet.spec_tests.definition import case

_LIMIT = 1_000
_ONCE = RetryPolicy(tries=1)
_SECRET = "not-for-anybody"
_MIDDLE = "middle-of-it"
_WHOLE = f"head {'é' * 3_000}{_MIDDLE}{'é' * 3_000} tail"


def _telling() -> Tool[Any, Any]:
    @tool(execution="readonly", redact=lambda value: cast("str", value).replace(_SECRET, "[removed]"))
    async def tell() -> str:
        return _WHOLE + _SECRET

    return tell


def _envelope(bench: Bench) -> dict[str, Any]:
    [outcome] = bench.outcomes
    if not isinstance(outcome, ToolSuccess):
        raise SpecViolation(problem=f"an oversized result is a {type(outcome).__name__}")
    ensure(len(outcome.output.encode()) <= _LIMIT, "an oversized result is beyond the bound in the end")
    return cast("dict[str, Any]", parse(outcome.output))


@case("RUN-022", "STORE-009")
async def the_whole_of_an_oversized_result_is_kept(subject: KernelSubject) -> None:
    """With a store of artifacts bound, the envelope has the handle of the whole result, redacted as it is."""
    store, agent = MemoryArtifacts(), text_agent(_telling(), policy=Policy(result_bytes=_LIMIT, retry=_ONCE))
    async with open_bench(subject, [turn(call("tell")), turn("done")], agent, ports={"artifacts": store}) as bench:
        await bench.run()
    handle = _envelope(bench).get("artifact")
    if not isinstance(handle, dict):
        raise SpecViolation(problem="the envelope has no handle of the whole")
    named = cast("dict[str, Any]", handle)
    digest = Digest(str(named.get("digest")))
    kept = await store.get(digest, tenant=TenantId("default"))
    ensure(digest == "sha256:" + hashlib.sha256(kept).hexdigest(), "the whole is not called by its digest")
    due = _telling().output.encode_text(_WHOLE + "[removed]")
    ensure_equal(kept.decode(), due, "the whole result")
    ensure_equal(
        (named.get("size"), named.get("content_type")), (len(kept), "application/json"), "what it is said to be"
    )
    ensure(_MIDDLE not in bench.stored_text, "the whole is on record as well")
    ensure(str(digest) in bench.shown(1), "the model is not shown the handle")


class _Broken(MemoryArtifacts):
    async def put(
        self, payload: bytes | AsyncIterable[bytes], *, tenant: TenantId, content_type: str
    ) -> ArtifactHandle:
        raise ArtifactsUnavailable(problem="full")


@case("RUN-022")
async def a_result_that_nobody_keeps_says_so(subject: KernelSubject) -> None:
    """Without a store, or with one that fails, a call keeps its outcome and the envelope says that the rest is gone."""
    agent = text_agent(_telling(), policy=Policy(result_bytes=_LIMIT, retry=_ONCE))
    for ports in ({}, {"artifacts": _Broken()}):
        async with open_bench(subject, [turn(call("tell")), turn("done")], agent, ports=ports) as bench:
            result = await bench.run()
        ensure(isinstance(result, Completed), "a run whose result nobody keeps does not go on")
        envelope = _envelope(bench)
        ensure(
            "artifact" in envelope and envelope["artifact"] is None, "the envelope does not say that the rest is gone"
        )
        size = len(_telling().output.encode_text(_WHOLE + "[removed]").encode())
        ensure_equal(envelope.get("size"), size, "the size of the whole")


@case("SEC-002")
async def a_whole_result_is_its_tenants(subject: KernelSubject) -> None:
    """What a run of one tenant keeps is in the store under that tenant alone."""
    tenants: list[TenantId] = []

    class Watched(MemoryArtifacts):
        async def put(
            self, payload: bytes | AsyncIterable[bytes], *, tenant: TenantId, content_type: str
        ) -> ArtifactHandle:
            tenants.append(tenant)
            return await super().put(payload, tenant=tenant, content_type=content_type)

    agent = text_agent(_telling(), policy=Policy(result_bytes=_LIMIT, retry=_ONCE))
    script = [turn(call("tell")), turn("done")]
    async with open_bench(subject, script, agent, ports={"artifacts": Watched()}) as bench:
        acme = Principal(name="ann", tenant=TenantId("acme"))
        await bench.kernel.run(agent, "go", principal=acme)
    ensure_equal(tenants, [TenantId("acme")], "the tenants under which a result was kept")


def _spending(*parts: Any, tokens: int) -> ScriptItem:
    return turn(*parts, usage=Usage(input_tokens=tokens - 1, output_tokens=1))


def _budgets(**limits: Amounts) -> tuple[MemoryBudgets, dict[str, Any]]:
    nodes: dict[NodeId, Amounts] = {"global": limits["everything"]} if "everything" in limits else {}
    if "tenant" in limits:
        nodes["tenant:default"] = limits["tenant"]
    budgets = MemoryBudgets(nodes)
    return budgets, {"budgets": budgets, "estimator": ByteEstimator()}


@case("SEC-012")
async def a_node_above_binds_every_run_below(subject: KernelSubject) -> None:
    """Runs share what a node has; the run that finds nothing left asks nobody, and says which node and why."""
    budgets, ports = _budgets(tenant={"turns": 1})
    agent = text_agent(policy=Policy(retry=_ONCE))
    async with open_bench(subject, [turn("first"), turn("second")], agent, ports=ports) as bench:
        ensure(isinstance(await bench.run(), Completed), "the run that had a turn does not complete")
        second = await bench.run()
    ensure_equal(len(bench.requests), 1, "requests that one turn paid for")
    ensure(isinstance(second, Failed) and isinstance(second.error, BudgetExhaustedError), "the second run is not told")
    reached = [(each.node, each.dimension, each.limit) for each in bench.recorded(BudgetReached)]
    ensure_equal(reached, [("tenant:default", "turns", 1)], "the budget that is said to be used up")
    ensure_equal((await budgets.spent("tenant:default")).get("turns"), 1, "turns that are charged")


@case("SEC-012")
async def every_node_is_charged_what_was_used(subject: KernelSubject) -> None:
    """What the model reports, and each call that runs, is charged to the nodes above, whatever was estimated."""
    budgets, ports = _budgets()

    @tool(execution="readonly")
    async def work() -> int:
        return 1

    script = [_spending(call("work"), call("work"), tokens=5_000), _spending(text("done"), tokens=7)]
    async with open_bench(subject, script, text_agent(work), ports=ports) as bench:
        await bench.run()
    for node in ("global", "tenant:default", "agent:default/agent"):
        spent = {name: amount for name, amount in (await budgets.spent(node)).items() if amount}
        ensure_equal(spent, {"turns": 2, "tool-calls": 2, "tokens": 5_007}, f"what {node} has spent")


@case("SEC-012")
async def a_batch_that_a_node_cannot_pay_does_not_run(subject: KernelSubject) -> None:
    """Calls beyond what a node has left do not run, not even some of them, and each says why."""
    ran: list[int] = []

    @tool(execution="readonly")
    async def work() -> int:
        ran.append(1)
        return 1

    budgets, ports = _budgets(everything={"tool-calls": 2})
    script = [turn(*[call("work")] * 3), turn("enough")]
    async with open_bench(subject, script, text_agent(work), ports=ports) as bench:
        await bench.run()
    reasons = [each.reason if isinstance(each, ToolRejected) else type(each).__name__ for each in bench.outcomes]
    ensure_equal((ran, reasons), ([], ["budget"] * 3), "what ran, and how the calls ended")
    ensure_equal((await budgets.spent("global")).get("tool-calls"), 0, "calls that are charged")


@case("RUN-025", "SEC-012")
async def a_node_that_is_nearly_used_up_is_told(subject: KernelSubject) -> None:
    """Whoever takes a node past four fifths has it on record, once, also where charging did it and not reserving."""
    _, ports = _budgets(everything={"tokens": 100_000})

    @tool(execution="readonly")
    async def work() -> int:
        return 1

    script = [_spending(call("work"), tokens=85_000), _spending(call("work"), tokens=9), _spending("done", tokens=9)]
    async with open_bench(subject, script, text_agent(work), ports=ports) as bench:
        await bench.run()
    warned = [(each.node, each.dimension, each.used, each.limit) for each in bench.recorded(BudgetWarned)]
    ensure_equal(warned, [("global", "tokens", 85_000, 100_000)], "the warnings on record")


KEEPING = (
    the_whole_of_an_oversized_result_is_kept,
    a_result_that_nobody_keeps_says_so,
    a_whole_result_is_its_tenants,
    a_node_above_binds_every_run_below,
    every_node_is_charged_what_was_used,
    a_batch_that_a_node_cannot_pay_does_not_run,
    a_node_that_is_nearly_used_up_is_told,
)
