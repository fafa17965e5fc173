"""The Sandbox port: commands that run under a policy and limits, and what is known afterwards.

What is asked for is in `policy` and `request`, what comes back in `result`, the contract and its errors in `port`.
"""

from triolet.ports.sandbox.demand import SandboxDemand
from triolet.ports.sandbox.policy import (
    MAX_OUTPUT,
    AllowHosts,
    Limits,
    Mount,
    NetworkPolicy,
    Policy,
    Refusal,
)
from triolet.ports.sandbox.port import (
    CommandNotStarted,
    Sandbox,
    SandboxRefused,
    SandboxUnavailable,
    run_to_end,
)
from triolet.ports.sandbox.request import SandboxRequest, SecretVariable, request_refusals
from triolet.ports.sandbox.result import (
    Artifact,
    ArtifactCollected,
    ArtifactRefused,
    Captured,
    Finished,
    Output,
    ResourceUse,
    SandboxEvent,
    SandboxResult,
    Started,
    StopReason,
    StreamName,
)

__all__ = [
    "MAX_OUTPUT",
    "AllowHosts",
    "Artifact",
    "ArtifactCollected",
    "ArtifactRefused",
    "Captured",
    "CommandNotStarted",
    "Finished",
    "Limits",
    "Mount",
    "NetworkPolicy",
    "Output",
    "Policy",
    "Refusal",
    "ResourceUse",
    "Sandbox",
    "SandboxDemand",
    "SandboxEvent",
    "SandboxRefused",
    "SandboxRequest",
    "SandboxResult",
    "SandboxUnavailable",
    "SecretVariable",
    "Started",
    "StopReason",
    "StreamName",
    "request_refusals",
    "run_to_end",
]
