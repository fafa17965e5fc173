"""The local runner: a Sandbox in form, unisolated in fact."""

from triolet.adapters.local_runner.runner import LocalRunner
from triolet.adapters.local_runner.settings import TRUSTED_LIMITS, TRUSTED_POLICY

__all__ = ["TRUSTED_LIMITS", "TRUSTED_POLICY", "LocalRunner"]
