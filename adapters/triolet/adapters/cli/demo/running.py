"""The demo's run: folder, model, kernel and report put together.

Decides the order in which they are opened and what an interruption means at each point. What is asked and shown is
decided elsewhere.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import trio

from triolet.adapters.cli.commands import CommandFailed
from triolet.adapters.cli.demo.agent import make_agent
from triolet.adapters.cli.demo.answer import Answer, Ledger, answer_from, read_reply
from triolet.adapters.cli.demo.folder import Folder
from triolet.adapters.cli.demo.interruption import listening
from triolet.adapters.cli.demo.mentions import mentions
from triolet.adapters.cli.demo.report import JsonReport, Occasion, Report, TimelineReport
from triolet.adapters.memory import in_memory
from triolet.kernel import Aborted, Completed, Failed, Suspended, open_kernel
from triolet.ports.approval import Approval
from triolet.ports.errors import TrioletError
from triolet.ports.language_model import LanguageModel


async def run_demo(
    folder: Folder, shown_folder: str, question: str, *, scripted: bool, as_json: bool, approve: bool
) -> int:
    """Ask `question` about `folder`, report everything, and return 0. Raises `CommandFailed`."""
    report: Report = JsonReport() if as_json else TimelineReport()
    report.opening(folder, shown_folder)
    with trio.CancelScope() as scope, listening(scope.cancel) as interruption:
        agent = make_agent(folder, ask_before_reading=approve)
        ledger = Ledger()
        began = trio.current_time()
        try:
            async with _open_desk(approve=approve) as desk, _open_model(folder, scripted=scripted) as model:
                report.opened(model.identity, trio.current_time() - began)
                async with (
                    open_kernel(agents=[agent], capabilities=in_memory(model=model, approval=desk)) as kernel,
                    kernel.stream(agent, mentions(question, folder.names).marked) as run,
                ):
                    interruption.on_signal = run.cancel
                    async for event in run.events():
                        ledger.note(event)
                        report.event(event)
                    result = await run.result()
        except TrioletError as problem:
            raise CommandFailed(problem.message) from problem
        answer: Answer | None = None
        if isinstance(result, Completed):
            answer = answer_from(read_reply(result.output), question, folder, ledger.made)
        occasion = Occasion(folder=folder, shown_folder=shown_folder, question=question, model=model.identity)
        report.end(occasion, result, answer)
        match result:
            case Completed():
                return 0
            case Failed(error=error):
                raise CommandFailed(error.message)
            case Aborted() if interruption.number is not None:
                raise CommandFailed("interrupted; the run was settled as aborted", interruption.status)
            case Aborted(reason=reason):
                raise CommandFailed(f"the run was aborted ({reason})")
            case Suspended():
                raise CommandFailed("the run waits for an answer that nobody here can give")
    raise CommandFailed("interrupted before the run began", interruption.status)


@asynccontextmanager
async def _open_desk(*, approve: bool) -> AsyncGenerator[Approval | None]:
    if not approve:
        yield None
        return
    from triolet.adapters.approval_desks.terminal_desk import open_terminal_desk

    async with open_terminal_desk(person="you") as desk:
        yield desk


@asynccontextmanager
async def _open_model(folder: Folder, *, scripted: bool) -> AsyncGenerator[LanguageModel]:
    if scripted:
        from triolet.adapters.cli.demo.script import scripted_model

        yield scripted_model(folder)
        return
    from triolet.adapters.cli.demo.examples import EXAMPLES
    from triolet.adapters.local_model import LocalModelMissing, open_local_model
    from triolet.adapters.openai_compatible import JsonSchema

    try:
        async with open_local_model(protocol=JsonSchema(examples=EXAMPLES, show_schemas=False)) as model:
            yield model
    except LocalModelMissing as error:
        raise CommandFailed(f"{error.message} (or see the demo without a model: --scripted)") from error
