"""What a command may touch and use: policy and limits, fixed when a host is assembled.

Decides the vocabulary only. Whether an implementation can hold a policy is that implementation's `check`, which is
pure and asked at assembly; nothing here is ever weakened to fit. (CAP-010, SEC-013)
"""

from typing import Final, Literal

import attrs

MAX_OUTPUT: Final = 16 * 1024 * 1024
"""The most bytes of each output stream that a request may ask to have kept."""

MAX_SECONDS: Final = 86_400.0
MIB: Final = 1024 * 1024


@attrs.frozen(kw_only=True, weakref_slot=False)
class Mount:
    """A folder or file of the host that the program sees at `target`, an absolute path inside."""

    source: str
    target: str
    access: Literal["read", "write"] = "read"

    def __attrs_post_init__(self) -> None:
        for path in (self.source, self.target):
            if not path.startswith("/") or "\0" in path or ".." in path.split("/"):
                raise ValueError("a mount's paths are absolute, without '..' and without U+0000")


@attrs.frozen(kw_only=True, weakref_slot=False)
class AllowHosts:
    """The program may reach these names and no others."""

    names: tuple[str, ...]


NetworkPolicy = Literal["none", "host"] | AllowHosts
"""`none`: nothing, not even the host's loopback. `host`: whatever the host reaches."""


@attrs.frozen(kw_only=True, weakref_slot=False)
class Policy:
    """What a command may touch.

    `runtime` says which programs there are: ``host`` for the host's own, unchangeable, or the identity of an image.
    `filesystem`: with ``private`` the program sees its runtime, its mounts and an empty work folder of its own; with
    ``host`` all that the host sees. `environment` lists the variables that a request may set, for values and secrets
    alike; no other variable of the host or of a request gets in.
    """

    runtime: str = "host"
    filesystem: Literal["private", "host"] = "private"
    mounts: tuple[Mount, ...] = ()
    network: NetworkPolicy = "none"
    environment: frozenset[str] = frozenset()


@attrs.frozen(kw_only=True, weakref_slot=False)
class Limits:
    """What a command, with all that it starts, may use.

    `wall_seconds` always holds, up to a day. `cpu_seconds` of processor time, `memory_bytes` of memory and `processes`
    (threads counted) are for the whole tree; None asks for no limit, and has to be written. `output_bytes` is kept of
    each stream, half from its beginning and half from its end, at most `MAX_OUTPUT`. `work_bytes` bounds the work
    folder where it is private. At most `artifact_count` artifacts with `artifact_bytes` together are collected.
    """

    wall_seconds: float = 60.0
    cpu_seconds: float | None = 60.0
    memory_bytes: int | None = 512 * MIB
    processes: int | None = 64
    output_bytes: int = 65_536
    work_bytes: int | None = 64 * MIB
    artifact_count: int = 64
    artifact_bytes: int = 16 * MIB

    def __attrs_post_init__(self) -> None:
        for field in attrs.fields(Limits):
            value: float | None = getattr(self, field.name)
            if value is not None and not 0 < value < float("inf"):
                raise ValueError(f"{field.name} is positive and finite")
        if self.output_bytes > MAX_OUTPUT:
            raise ValueError(f"output_bytes is at most {MAX_OUTPUT}")
        if self.wall_seconds > MAX_SECONDS:
            raise ValueError(f"wall_seconds is at most {MAX_SECONDS:g}")


@attrs.frozen(kw_only=True, weakref_slot=False)
class Refusal:
    """One thing that cannot be enforced. `subject` is the field that asked for it, such as ``limits.memory_bytes``."""

    subject: str
    reason: str

    def __str__(self) -> str:
        return f"{self.subject}: {self.reason}"
