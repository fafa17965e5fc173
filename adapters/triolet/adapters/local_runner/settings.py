"""The policy and limits that a plain process can honestly be run under: everything open, time and output bounded.

Decides nothing else. Write them out where you use them, so that a reader sees what is given away.
"""

from typing import Final

from triolet.ports.sandbox import Limits, Policy

TRUSTED_POLICY: Final = Policy(filesystem="host", network="host")

TRUSTED_LIMITS: Final = Limits(cpu_seconds=None, memory_bytes=None, processes=None, work_bytes=None)
