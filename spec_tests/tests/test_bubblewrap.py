# ruff: noqa: ASYNC240 -- small files of a test
"""Bubblewrap beyond the suite: what it says where something is missing, mounts, users, and its filter of calls."""

import os
import struct
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio

from tests.test_sandbox_suite import needs_bwrap
from triolet.adapters.bubblewrap import open_bubblewrap, sandbox
from triolet.adapters.bubblewrap.control_groups import ControlGroups
from triolet.adapters.bubblewrap.seccomp import filter_program
from triolet.ports.isolation import UNISOLATED
from triolet.ports.sandbox import Limits, Mount, Policy, SandboxRefused, SandboxRequest, SandboxUnavailable, run_to_end
from triolet.spec_tests.cases.sandbox.footprint import footprint

UNMEASURED = Limits(memory_bytes=None, processes=None, cpu_seconds=None)


async def test_without_the_program_it_says_what_to_install() -> None:
    with pytest.raises(SandboxUnavailable, match="cannot be run"):
        async with open_bubblewrap(program="/not/there/bwrap"):
            pass


async def test_a_program_that_does_not_work_is_found_out_by_running_it(tmp_path: Path) -> None:
    broken = tmp_path / "bwrap"
    broken.write_text('#!/bin/sh\n[ "$1" = --version ] && { echo bubblewrap 9; exit; }\necho not allowed >&2\nexit 1\n')
    broken.chmod(0o755)
    tmp_path.chmod(0o755)
    with pytest.raises(SandboxUnavailable) as caught:
        async with open_bubblewrap(program=str(broken), user=os.getuid() or None):
            pass
    assert caught.value.implementation == "bubblewrap"


@needs_bwrap
async def test_without_control_groups_their_limits_are_refused_and_measurements_are_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sandbox, "find_control_groups", lambda: ControlGroups(bases={}))
    async with open_bubblewrap() as port:
        assert port.implementation.isolated
        assert (port.implementation.posture.memory, port.implementation.posture.cpu) == ("none", "none")
        refused = {refusal.subject for refusal in port.check(Policy(), Limits())}
        assert refused == {"limits.memory_bytes", "limits.processes", "limits.cpu_seconds"}
        result = await run_to_end(port, SandboxRequest(argv=("true",), policy=Policy(), limits=UNMEASURED))
        assert result.succeeded
        assert (result.usage.cpu_seconds, result.usage.peak_memory_bytes) == (None, None)


@needs_bwrap
async def test_a_folder_that_the_programs_user_cannot_write_is_refused(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("not exercised: only root gives commands another user")
    policy = Policy(mounts=(Mount(source=str(tmp_path), target="/out", access="write"),))
    async with open_bubblewrap() as port:
        request = SandboxRequest(argv=("true",), policy=policy, limits=UNMEASURED)
        with pytest.raises(SandboxRefused, match="cannot be written by user 65534"):
            await run_to_end(port, request)


@needs_bwrap
async def test_files_in_a_writable_mount_belong_to_the_programs_user(tmp_path: Path) -> None:
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o755)
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    policy = Policy(mounts=(Mount(source=str(shared), target="/out", access="write"),))
    async with open_bubblewrap() as port:
        argv = ("sh", "-c", "id -u; echo made > /out/file; echo own > own; ls /")
        result = await run_to_end(port, SandboxRequest(argv=argv, policy=policy, limits=UNMEASURED))
    assert result.succeeded, result.stderr
    assert (shared / "file").read_text() == "made\n"
    assert (shared / "file").stat().st_uid == (65534 if os.geteuid() == 0 else os.geteuid())
    assert "65534" in result.stdout.text


@needs_bwrap
async def test_the_work_folder_is_bounded_and_leaves_no_file_behind() -> None:
    limits = attrs.evolve(UNMEASURED, work_bytes=1024 * 1024)
    argv = ("sh", "-c", "head -c 3000000 /dev/zero > big; stat -c %s big")
    async with open_bubblewrap() as port:
        result = await run_to_end(port, SandboxRequest(argv=argv, policy=Policy(), limits=limits))
    assert int(result.stdout.text) <= 1024 * 1024
    assert "No space left" in result.stderr.text


@needs_bwrap
async def test_bwraps_own_command_line_and_environment_tell_nothing() -> None:
    os.environ["TRIOLET_TEST_MARK"] = "mark-of-the-host"
    try:
        policy = Policy(environment=frozenset({"SECRET"}), mounts=(Mount(source="/etc/hostname", target="/n"),))
        argv = ("sh", "-c", "cat /proc/1/environ /proc/1/cmdline /proc/*/environ | tr '\\0' '\\n'; ls -l /proc/self/fd")
        request = SandboxRequest(argv=argv, policy=policy, limits=UNMEASURED, environment={"SECRET": "given-value"})
        async with open_bubblewrap() as port:
            text = (await run_to_end(port, request)).stdout.text
    finally:
        del os.environ["TRIOLET_TEST_MARK"]
    assert "mark-of-the-host" not in text
    assert "/etc/hostname" not in text
    # Its own environment has it, the first process's command line and environment do not.
    assert text.partition("cat /proc/1/environ")[0].count("given-value") == 0
    assert len([line for line in text.splitlines() if "->" in line]) == 4, text


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_filter_refuses_what_it_names_and_nothing_else(machine: str) -> None:
    program = filter_program(machine)
    assert program is not None
    architecture = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}[machine]
    ptrace, read, ioctl, clone = {"x86_64": (101, 0, 16, 56), "aarch64": (117, 63, 29, 220)}[machine]
    allow, eperm = 0x7FFF0000, 0x00050001
    assert _filtered(program, architecture, ptrace) == eperm
    assert _filtered(program, architecture, read) == allow
    assert _filtered(program, architecture, ioctl, 0, 0x5412) == eperm
    assert _filtered(program, architecture, ioctl, 0, 0x5401) == allow
    assert _filtered(program, architecture, clone, 0x10000000) == eperm
    assert _filtered(program, architecture, clone, 0x1200011) == allow
    assert _filtered(program, architecture, 435) == 0x00050026
    assert _filtered(program, 0x40000003, read) == 0x80000000
    if machine == "x86_64":
        assert _filtered(program, architecture, 0x40000000 | 0) == eperm


def test_a_machine_that_is_not_known_has_no_filter() -> None:
    assert filter_program("vax") is None


def _filtered(program: bytes, architecture: int, number: int, *arguments: int) -> int:
    """What the kernel would answer: an interpreter of the few instructions that the filter is made of."""
    data = struct.pack("=iIQ6Q", number, architecture, 0, *arguments, *[0] * (6 - len(arguments)))
    rows: list[Any] = list(struct.iter_unpack("=HBBI", program))
    at = loaded = 0
    for _ in range(1_000):
        code, if_true, if_false, value = rows[at]
        at += 1
        match code:
            case 0x20:
                loaded = struct.unpack_from("=I", data, value)[0]
            case 0x15:
                at += if_true if loaded == value else if_false
            case 0x35:
                at += if_true if loaded >= value else if_false
            case 0x45:
                at += if_true if loaded & value else if_false
            case 0x06:
                return int(value)
            case _:
                raise AssertionError(f"unknown instruction {code:#x}")
    raise AssertionError("the filter does not end")


def test_nothing_but_a_posture_makes_something_isolated() -> None:
    assert UNISOLATED.open_dimensions == ("filesystem", "network", "processes")
    for dimension in ("filesystem", "network", "processes"):
        whole = attrs.evolve(UNISOLATED, filesystem="enforced", network="enforced", processes="enforced")
        assert whole.isolated
        weaker: dict[str, Any] = {dimension: "partial"}
        assert not attrs.evolve(whole, **weaker).isolated


@needs_bwrap
async def test_many_at_once_are_kept_apart() -> None:
    async with open_bubblewrap() as port, trio.open_nursery() as nursery:

        async def one(number: int) -> None:
            argv = ("sh", "-c", f"echo {number} > mine; sleep 0.05; cat *; ls /proc | grep -c '^[0-9]'")
            result = await run_to_end(port, SandboxRequest(argv=argv, policy=Policy(), limits=UNMEASURED))
            assert result.stdout.text.split()[0] == str(number)
            assert int(result.stdout.text.split()[1]) < 6

        for number in range(12):
            nursery.start_soon(one, number)


@needs_bwrap
@pytest.mark.parametrize("moment", [0.0, 0.001, 0.003, 0.006, 0.01, 0.02])
async def test_cancelling_while_it_is_built_leaves_nothing(moment: float, tmp_path: Path) -> None:
    async with open_bubblewrap() as port:
        before = footprint(tmp_path)
        for _ in range(5):
            with trio.move_on_after(moment):
                await run_to_end(port, SandboxRequest(argv=("sleep", "20"), policy=Policy(), limits=UNMEASURED))
        after = footprint(tmp_path)
    assert (after.children, after.descriptors, after.files) == (before.children, before.descriptors, before.files)
