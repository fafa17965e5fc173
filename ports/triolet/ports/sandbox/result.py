"""What comes back from a command: events while it runs, and one result.

Decides their shape. What an implementation could not measure is None and never a guess; what was dropped is counted.
Output is sensitive: it belongs into no span and no log line. (SEC-013, CAP-013)
"""

from typing import Literal

import attrs

from triolet.ports.artifact_store import ArtifactHandle
from triolet.ports.isolation import Implementation

StreamName = Literal["stdout", "stderr"]

StopReason = Literal["wall-clock", "cpu", "memory"]
"""Which limit ended the command."""


@attrs.frozen(kw_only=True, weakref_slot=False)
class Captured:
    """What is kept of one stream: its beginning, and its end if something between was dropped.

    `total_bytes` were written while it was read, `dropped_bytes` of them are in neither part. Both parts are valid
    Unicode; a character that a cut went through is dropped whole.
    """

    head: str
    tail: str
    total_bytes: int
    dropped_bytes: int

    @property
    def text(self) -> str:
        """Both parts, with a line between that counts what is missing."""
        if not self.dropped_bytes:
            return self.head + self.tail
        return f"{self.head}\n[… {self.dropped_bytes} bytes left out …]\n{self.tail}"


@attrs.frozen(kw_only=True, weakref_slot=False)
class ResourceUse:
    """What the command and all that it started used. None where this implementation cannot measure the whole tree."""

    wall_seconds: float
    cpu_seconds: float | None = None
    peak_memory_bytes: int | None = None


@attrs.frozen(kw_only=True, weakref_slot=False)
class Artifact:
    """A collected file: its path in the work folder, and the handle by which the artifact store gives it back."""

    path: str
    handle: ArtifactHandle


@attrs.frozen(kw_only=True, weakref_slot=False)
class ArtifactRefused:
    """A file that a pattern names and that was not collected: a link, a device, too large, one too many."""

    path: str
    reason: str


@attrs.frozen(kw_only=True, weakref_slot=False)
class SandboxResult:
    """What became of a command.

    `status` is its exit status, `signal` what killed it; both are None if it had to be stopped before it ended.
    An implementation that learns of signals only by the shell's convention reports status 128 + signal. `stopped` is
    the limit that ended it. `cleanup` is ``complete`` if nothing that it started can still be running, and
    ``group-only`` if only its process group is known to be gone. `implementation` holds the posture of this one
    execution, which a policy may have opened further than the implementation's own.
    """

    status: int | None
    signal: int | None
    stopped: StopReason | None
    stdout: Captured
    stderr: Captured
    usage: ResourceUse
    artifacts: tuple[Artifact, ...]
    refused: tuple[ArtifactRefused, ...]
    cleanup: Literal["complete", "group-only"]
    implementation: Implementation

    @property
    def succeeded(self) -> bool:
        """It ended by itself, with status 0."""
        return self.status == 0 and self.stopped is None


@attrs.frozen(kw_only=True, weakref_slot=False)
class Started:
    """The command runs now. Always the first event."""

    implementation: Implementation


@attrs.frozen(kw_only=True, weakref_slot=False)
class Output:
    """More of a stream's beginning. What lies beyond the kept beginning is not shown live."""

    stream: StreamName
    text: str


@attrs.frozen(kw_only=True, weakref_slot=False)
class ArtifactCollected:
    """A file is in the artifact store."""

    artifact: Artifact


@attrs.frozen(kw_only=True, weakref_slot=False)
class Finished:
    """The command has ended and is cleaned up. Always the last event."""

    result: SandboxResult


SandboxEvent = Started | Output | ArtifactCollected | Finished
