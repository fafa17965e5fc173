"""The tool `run_command`: what it demands at assembly, and what a model gets to see."""

import json
from typing import Any

import attrs
import pytest
import trio

from tests.kernel_world import World, script, talker, world
from tests.sandbox_stand_ins import Claims
from triolet.adapters.local_runner import TRUSTED_LIMITS, TRUSTED_POLICY, LocalRunner
from triolet.adapters.run_command import run_command
from triolet.adapters.scripted_model import call, turn
from triolet.kernel import Completed, MissingCapabilities
from triolet.ports.outcomes import ToolFailure, ToolSuccess
from triolet.ports.sandbox import Limits, Policy
from triolet.spec_tests.cases.sandbox.setting import alive

__all__ = ["world"]

TRUSTED = run_command(policy=TRUSTED_POLICY, limits=TRUSTED_LIMITS, isolation="none")


async def _missing(world: World, tool: Any) -> list[str]:
    with pytest.raises(MissingCapabilities) as caught:
        async with world.kernel(talker(tool), model=script()):
            pass
    return [port for port, by in caught.value.missing if by == "tool run_command"]


async def _refused(world: World, tool: Any) -> str:
    return " ".join(await _missing(world, tool))


async def test_without_a_sandbox_the_kernel_does_not_open(world: World) -> None:
    assert await _missing(world, TRUSTED) == ["sandbox"]


async def test_a_demand_for_isolation_refuses_an_unisolated_runner(world: World) -> None:
    world.ports["sandbox"] = LocalRunner()
    problem = await _refused(world, run_command(policy=TRUSTED_POLICY, limits=TRUSTED_LIMITS))
    assert "isolation: local-runner is unisolated (filesystem, network, processes)" in problem


async def test_a_demand_for_isolation_refuses_a_policy_that_opens_the_network(world: World) -> None:
    world.ports["sandbox"] = Claims()
    assert "isolation" in await _refused(world, run_command(policy=Policy(network="host"), limits=Limits()))
    async with world.kernel(talker(run_command(policy=Policy(), limits=Limits())), model=script()):
        pass


async def test_what_cannot_be_enforced_is_named_at_assembly_all_at_once(world: World) -> None:
    world.ports["sandbox"] = LocalRunner()
    problem = await _refused(world, run_command(policy=Policy(), limits=Limits(), isolation="none"))
    for subject in ("policy.filesystem", "policy.network", "limits.memory_bytes", "limits.processes"):
        assert subject in problem


async def test_a_model_sees_status_output_and_what_isolation_there_was(world: World) -> None:
    world.ports["sandbox"] = LocalRunner()
    wanted = call("run_command", {"program": "sh", "arguments": ["-c", "echo $0; exit 3", "a b"]})
    agent = talker(TRUSTED)
    async with world.kernel(agent, model=script(turn(wanted), turn("done"))) as kernel:
        assert isinstance(await kernel.run(agent, "go"), Completed)
    [outcome] = world.outcomes()
    assert isinstance(outcome, ToolSuccess)
    assert json.loads(outcome.output) == {
        "status": 3,
        "signal": None,
        "stopped": None,
        "stdout": "a b\n",
        "stderr": "",
        "left_out_bytes": 0,
        "artifacts": [],
        "isolation": "unisolated",
    }


async def test_a_program_that_is_not_there_is_a_declared_failure(world: World) -> None:
    world.ports["sandbox"] = LocalRunner()
    wanted = call("run_command", {"program": "/not/there"})
    agent = talker(TRUSTED)
    async with world.kernel(agent, model=script(turn(wanted), turn("done"))) as kernel:
        assert isinstance(await kernel.run(agent, "go"), Completed)
    [outcome] = world.outcomes()
    assert isinstance(outcome, ToolFailure)
    assert (outcome.type, "No such file" in outcome.payload) == ("CommandRefused", True)


async def test_cancelling_the_run_ends_the_command(world: World, tmp_path: Any) -> None:
    world.ports["sandbox"] = LocalRunner()
    world.open_runs_are_fine = True
    started = tmp_path / "started"
    line = f"touch {started}; exec sleep 64.000{abs(hash(str(tmp_path))) % 10**9}"
    wanted = call("run_command", {"program": "sh", "arguments": ["-c", line]})
    agent = talker(TRUSTED)
    async with world.kernel(agent, model=script(turn(wanted), turn("done"))) as kernel:
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:

                async def stop() -> None:
                    while not started.exists():  # noqa: ASYNC110 -- a process of the system tells nobody
                        await trio.sleep(0.01)
                    scope.cancel()

                nursery.start_soon(stop)
                await kernel.run(agent, "go")
        assert scope.cancelled_caught
    assert alive(line.rsplit(maxsplit=1)[-1]) == []


def test_the_policy_is_the_authors_and_no_field_of_the_input() -> None:
    properties: Any = TRUSTED.input.schema["properties"]
    assert set(properties) == {"program", "arguments"}
    assert attrs.evolve(TRUSTED, risk="low").execution == "uncertain"
