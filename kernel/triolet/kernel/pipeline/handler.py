"""Running one handler to its outcome, within its deadline and its bound.

Decides how a handler's ending becomes an outcome: returned, raised, or out of time. Cancellation from outside is
not an outcome here; it propagates, and whoever seals the run says what became of the call.
"""

from collections.abc import Callable
from typing import Any, cast

import trio

from triolet.kernel.machine.outcome_table import stopped
from triolet.kernel.pipeline.bound import Keep, bounded
from triolet.kernel.pipeline.runnable import Runnable
from triolet.kernel.pipeline.settle import settle_exception, settle_output
from triolet.kernel.threads import Threads
from triolet.ports.outcomes import Outcome
from triolet.ports.tool_context import ToolContext


async def run_handler(
    runnable: Runnable,
    context: ToolContext,
    *,
    seconds: float,
    result_bytes: int,
    keep: Keep,
    threads: Threads,
    began: Callable[[], None],
) -> Outcome:
    """Call the tool's handler and give the outcome. `seconds` bounds it, and the wait for a thread before it.

    A result of more than `result_bytes` is cut, and kept whole by `keep`. `began` is called just before the handler is:
    one that waits for a thread in vain has surely had no effect.
    """
    outcome = await _ended(runnable, context, seconds, threads, began)
    return await bounded(outcome, result_bytes, keep)


async def _ended(
    runnable: Runnable,
    context: ToolContext,
    seconds: float,
    threads: Threads,
    began: Callable[[], None],
) -> Outcome:
    tool = runnable.tool
    started = False

    def begin() -> None:
        nonlocal started
        started = True
        began()

    try:
        with trio.CancelScope(deadline=trio.current_time() + seconds) as scope:
            if tool.threaded:
                output: Any = await threads.run(
                    tool.handler,
                    runnable.input,
                    context,
                    tool=tool.name,
                    call=runnable.call.id,
                    run=context.run,
                    began=begin,
                )
            else:
                begin()
                output = await cast("Any", tool.handler)(runnable.input, context)
            return settle_output(tool, output)
    except Exception as error:  # noqa: BLE001 -- the boundary of a handler's contract
        # Whatever a handler raises is this call's result, and its siblings keep theirs (F-002). Cancellation is no
        # Exception and passes.
        return settle_exception(tool, error)
    except BaseExceptionGroup as group:
        # A handler's own nursery hands up what broke while it was cancelled, together with the cancellation.
        cancelled, rest = group.split(trio.Cancelled)
        if cancelled is not None and (rest is None or isinstance(rest, ExceptionGroup)):
            raise cancelled from None
        raise
    if not scope.cancelled_caught:
        raise AssertionError("a handler ends by returning, raising, or its deadline")
    return stopped("timeout", tool.execution, started=started)
