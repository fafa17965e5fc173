"""A language model that derives its answers from the request alone, and so tells what a kernel has shown it."""

from triolet.adapters.request_driven_model.minimal_value import minimal_value
from triolet.adapters.request_driven_model.model import RequestDrivenModel
from triolet.adapters.request_driven_model.scalar_values import NoMinimalValue
from triolet.adapters.request_driven_model.shown import history_problem, instructions_digest, what_was_shown

__all__ = [
    "NoMinimalValue",
    "RequestDrivenModel",
    "history_problem",
    "instructions_digest",
    "minimal_value",
    "what_was_shown",
]
