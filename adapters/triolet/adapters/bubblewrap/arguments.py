"""What bwrap is told about one request: the namespaces, the view of the files, the environment.

Decides what the program can see, and that nothing of the host is in it but the runtime (its programs and libraries,
unchangeable), the mounts that the policy names, and a work folder in memory. All of it goes through a descriptor, since
a command line can be read from inside. (SEC-006, SEC-010)
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from triolet.ports.sandbox import SandboxRequest
from triolet.ports.secrets import Secret

WORK: Final = "/work"
USER: Final = 65534
"""Who the program is inside, and outside too where the host is root: the user that owns nothing."""

_TMP_BYTES: Final = 16 * 1024 * 1024
_RUNTIME: Final = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_SETTINGS: Final = ("/etc/alternatives", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d")
_RESOLVING: Final = ("/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf", "/etc/ssl/certs")


def bwrap_arguments(
    request: SandboxRequest, secrets: Mapping[str, Secret], *, status: int, block: int, seccomp: int | None, marker: str
) -> bytes:
    """The arguments as `bwrap --args` reads them. `marker` is a folder that tells that the view is complete."""
    words = [
        *_apart(request),
        *("--json-status-fd", str(status), "--block-fd", str(block)),
        *(() if seccomp is None else ("--seccomp", str(seccomp))),
        *_files(request),
        *("--dir", marker, "--remount-ro", "/"),
        *("--chdir", str(Path(WORK, request.directory or "."))),
        *_environment(request, secrets),
    ]
    return b"".join(os.fsencode(word) + b"\0" for word in words)


def _apart(request: SandboxRequest) -> Iterator[str]:
    yield from ("--unshare-all", "--unshare-user", "--disable-userns", "--die-with-parent", "--new-session")
    if request.policy.network == "host":
        yield "--share-net"
    yield from ("--uid", str(USER), "--gid", str(USER), "--hostname", "sandbox", "--cap-drop", "ALL")


def _files(request: SandboxRequest) -> Iterator[str]:
    yield from ("--ro-bind", "/usr", "/usr")
    for folder in map(Path, _RUNTIME):
        if folder.is_symlink():
            yield from ("--symlink", str(folder.readlink()), str(folder))
        elif folder.is_dir():
            yield from ("--ro-bind", str(folder), str(folder))
    for path in (*_SETTINGS, *(_RESOLVING if request.policy.network == "host" else ())):
        yield from ("--ro-bind-try", path, path)
    yield from ("--proc", "/proc", "--dev", "/dev")
    yield from ("--perms", "1777", "--size", str(_TMP_BYTES), "--tmpfs", "/tmp")
    yield from ("--perms", "1777", "--size", str(_TMP_BYTES), "--tmpfs", "/dev/shm")
    size = request.limits.work_bytes
    yield from ("--perms", "0700", *(() if size is None else ("--size", str(size))), "--tmpfs", WORK)
    # Every file system that can be written to is bounded; what is not meant for writing is closed.
    yield from ("--remount-ro", "/dev")
    for mount in request.policy.mounts:
        yield from ("--bind" if mount.access == "write" else "--ro-bind", mount.source, mount.target)


def _environment(request: SandboxRequest, secrets: Mapping[str, Secret]) -> Iterator[str]:
    given = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": WORK, "TMPDIR": "/tmp", "LANG": "C.UTF-8"}
    given.update(request.environment)
    given.update((name, secret.reveal()) for name, secret in secrets.items())
    yield "--clearenv"
    for name, value in given.items():
        yield from ("--setenv", name, value)
