"""Approval desks inside this process: policy rules, and one that a test controls.

The desk at which a person answers is `triolet.adapters.approval_desks.terminal_desk`; it is not imported here, since it
needs the `cli` extra.
"""

from triolet.adapters.approval_desks.board import NotOnTheDesk
from triolet.adapters.approval_desks.held_desk import HeldDesk
from triolet.adapters.approval_desks.policy_desk import ApprovalRule, PolicyDesk
from triolet.adapters.call_rules import Calls, InvalidRule

__all__ = ["ApprovalRule", "Calls", "HeldDesk", "InvalidRule", "NotOnTheDesk", "PolicyDesk"]
