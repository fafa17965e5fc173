"""What a tool demands of the sandbox that its handler uses, so that preflight can compare.

Decides when a bound sandbox is good enough, from its posture and its `check` alone. It starts nothing.
(CAP-002, CAP-010, SEC-010)
"""

from typing import Literal

import attrs

from triolet.ports.sandbox.policy import Limits, Policy, Refusal
from triolet.ports.sandbox.port import Sandbox


@attrs.frozen(kw_only=True, weakref_slot=False)
class SandboxDemand:
    """A policy and limits that have to hold. With `isolation` ``required``, on an isolated sandbox only."""

    policy: Policy
    limits: Limits
    isolation: Literal["none", "required"] = "required"

    def refusals(self, sandbox: Sandbox) -> tuple[Refusal, ...]:
        """Why this sandbox does not do; empty if it does."""
        implementation = sandbox.implementation
        found: list[Refusal] = []
        if self.isolation == "required":
            if not implementation.isolated:
                opened = ", ".join(implementation.posture.open_dimensions)
                found.append(Refusal(subject="isolation", reason=f"{implementation.name} is unisolated ({opened})"))
            if self.policy.network == "host" or self.policy.filesystem == "host":
                found.append(Refusal(subject="isolation", reason="the policy itself opens the network or the files"))
        return (*found, *sandbox.check(self.policy, self.limits))
