"""A filter of system calls that ordinary programs do not need and attacks on the kernel begin with.

Decides which calls fail with EPERM inside, on the two machines whose numbers are known here: tracing and reading other
processes, keys, BPF, performance counters, io_uring, userfaultfd, new and joined namespaces, mounting, modules, and
typing into a terminal (TIOCSTI). It is a second line behind the namespaces, never the only one. (SEC-010)
"""

import platform
import struct
from typing import Final

_ALLOW: Final = 0x7FFF0000
_EPERM: Final = 0x00050001
_KILL: Final = 0x80000000

_LOAD: Final = 0x20
_EQUAL: Final = 0x15
_AT_LEAST: Final = 0x35
_ANY_BIT: Final = 0x45
_RETURN: Final = 0x06

_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT, _SECOND_ARGUMENT = 0, 4, 16, 24
_TIOCSTI: Final = 0x5412
_NEW_NAMESPACES: Final = 0x7E020080
"""CLONE_NEWNS, -CGROUP, -UTS, -IPC, -USER, -PID, -NET and -TIME."""

_X32: Final = 0x40000000

_CALLS: Final[dict[str, tuple[int, dict[str, int]]]] = {
    "x86_64": (
        0xC000003E,
        {
            "ptrace": 101,
            "process_vm_readv": 310,
            "process_vm_writev": 311,
            "add_key": 248,
            "request_key": 249,
            "keyctl": 250,
            "bpf": 321,
            "perf_event_open": 298,
            "userfaultfd": 323,
            "io_uring_setup": 425,
            "io_uring_enter": 426,
            "io_uring_register": 427,
            "unshare": 272,
            "setns": 308,
            "mount": 165,
            "umount2": 166,
            "pivot_root": 155,
            "open_tree": 428,
            "move_mount": 429,
            "fsopen": 430,
            "fsmount": 432,
            "mount_setattr": 442,
            "init_module": 175,
            "finit_module": 313,
            "delete_module": 176,
            "kexec_load": 246,
            "clone": 56,
            "ioctl": 16,
            "clone3": 435,
        },
    ),
    "aarch64": (
        0xC00000B7,
        {
            "ptrace": 117,
            "process_vm_readv": 270,
            "process_vm_writev": 271,
            "add_key": 217,
            "request_key": 218,
            "keyctl": 219,
            "bpf": 280,
            "perf_event_open": 241,
            "userfaultfd": 282,
            "io_uring_setup": 425,
            "io_uring_enter": 426,
            "io_uring_register": 427,
            "unshare": 97,
            "setns": 268,
            "mount": 40,
            "umount2": 39,
            "pivot_root": 41,
            "open_tree": 428,
            "move_mount": 429,
            "fsopen": 430,
            "fsmount": 432,
            "mount_setattr": 442,
            "init_module": 105,
            "finit_module": 273,
            "delete_module": 106,
            "kexec_load": 104,
            "clone": 220,
            "ioctl": 29,
            "clone3": 435,
        },
    ),
}

_ENOSYS: Final = 0x00050026
"""For clone3, whose flags a filter cannot see: programs then fall back to clone."""


def filter_program(machine: str = platform.machine()) -> bytes | None:
    """The program as `bwrap --seccomp` reads it, or None on a machine whose numbers are not known."""
    if machine not in _CALLS:
        return None
    architecture, numbers = _CALLS[machine]
    rows = [
        _row(_LOAD, _ARCHITECTURE),
        _row(_EQUAL, architecture, 1, 0),
        _row(_RETURN, _KILL),
        _row(_LOAD, _NUMBER),
    ]
    if machine == "x86_64":
        # The second table of numbers, which would otherwise be a way around the first.
        rows += [_row(_AT_LEAST, _X32, 0, 1), _row(_RETURN, _EPERM)]
    for name, number in numbers.items():
        if name == "clone":
            refused = [_row(_LOAD, _FIRST_ARGUMENT), _row(_ANY_BIT, _NEW_NAMESPACES, 0, 1), _row(_RETURN, _EPERM)]
        elif name == "ioctl":
            refused = [_row(_LOAD, _SECOND_ARGUMENT), _row(_EQUAL, _TIOCSTI, 0, 1), _row(_RETURN, _EPERM)]
        else:
            refused = [_row(_RETURN, _ENOSYS if name == "clone3" else _EPERM)]
        if len(refused) > 1:
            refused.append(_row(_RETURN, _ALLOW))
        rows += [_row(_EQUAL, number, 0, len(refused)), *refused]
    rows.append(_row(_RETURN, _ALLOW))
    return b"".join(rows)


def _row(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)
