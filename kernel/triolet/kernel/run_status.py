"""The run status: a few lines at the end of a request about what is left (RUN-024).

Decides what a model is told of its limits. It is derived from the run's state alone, stands outside the history, and is
never recorded.
"""

from triolet.kernel.machine.state import RunState


def run_status(run: RunState) -> str:
    """What the model is told before the coming turn."""
    limits = run.started.limits
    lines = [
        f"turn {run.turn + 1} of {limits.max_turns}",
        f"tool calls: {run.spent} of {limits.max_tool_calls} used",
    ]
    if limits.max_tokens is not None:
        lines.append(f"tokens: {run.usage.tokens} of {limits.max_tokens} used")
    if limits.max_failures is not None:
        lines.append(f"failed calls in a row: {run.failures} of {limits.max_failures}")
    if run.limit_reached is not None:
        lines.append("this is the last turn: answer now, without tools")
    return "[Run status]\n" + "\n".join(lines)
