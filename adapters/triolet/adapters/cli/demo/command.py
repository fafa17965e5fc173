"""`triolet demo`: the command and its flags.

Decides what a command line asks for, and refuses in one line what cannot be done. The run is `running`'s.
"""

from pathlib import Path
from typing import Final

import click

from triolet.adapters.cli.commands import CommandFailed

DEFAULT_FOLDER: Final = Path("docs")


@click.command(short_help="Run an agent on a real folder.")
@click.argument("folder", required=False)
@click.option(
    "--ask", metavar="QUESTION", help="What to ask. Default: how many words the folder's readme, or first file, has."
)
@click.option("--scripted", is_flag=True, help="Play it without a model: plain rules choose the same real tools.")
@click.option("--json", "as_json", is_flag=True, help="Print events and, last, the result as JSON lines.")
@click.option("--approve", is_flag=True, help="Ask you, at this terminal, before a file is read.")
@click.option("--code", is_flag=True, help="Run one program over the tools, in a cage; no model is asked.")
@click.option("--mcp", "server", metavar="URL|COMMAND", help="Give the agent the tools of this MCP server, too.")
def demo(
    folder: str | None, ask: str | None, scripted: bool, as_json: bool, approve: bool, code: bool, server: str | None
) -> int:
    """Run an agent on FOLDER, with a language model inside this machine.

    The agent's tools list FOLDER's files, count their words, search them and read from them. You see the timeline as it
    happens, then the answer: decoded by its schema, and checked against what the tools returned.

    FOLDER is ./docs if it is not given. Nothing is written, and nothing leaves this machine.
    """
    import trio

    from triolet.adapters.cli.demo.agent import MAX_QUESTION
    from triolet.adapters.cli.demo.folder import UnusableFolder, open_folder
    from triolet.adapters.cli.demo.running import run_demo

    if code and (ask is not None or approve):
        raise CommandFailed("--code plays a program of its own: --ask and --approve do not go with it", 2)
    if server is not None and (code or approve):
        raise CommandFailed("--mcp goes neither with --code nor with --approve", 2)
    if folder is None:
        if not DEFAULT_FOLDER.is_dir():
            raise CommandFailed("there is no ./docs here. Name a folder: triolet demo FOLDER", 2)
        folder = str(DEFAULT_FOLDER)
    if ask is not None:
        ask = ask.strip()
        if not ask or len(ask) > MAX_QUESTION:
            raise CommandFailed(f"a question has 1 to {MAX_QUESTION} characters, this one {len(ask)}", 2)
        if not ask.isprintable() and any(not (char.isprintable() or char.isspace()) for char in ask):
            raise CommandFailed("the question holds characters that are no printable text", 2)
    try:
        opened = open_folder(Path(folder), ask)
    except UnusableFolder as error:
        raise CommandFailed(str(error)) from error
    if code:
        from triolet.adapters.cli.demo.code_mode import run_code_demo
        from triolet.adapters.cli.demo.code_report import CodeLines, CodePage

        return trio.run(run_code_demo, opened, folder, CodeLines() if as_json else CodePage())
    if server is not None:
        from triolet.adapters.cli.demo.server_tools import QUESTION, run_server_demo
        from triolet.adapters.cli.mcp_target import read_target

        target, wanted = read_target([server]), ask or QUESTION
        return trio.run(lambda: run_server_demo(target, opened, wanted, scripted=scripted, as_json=as_json))
    question = ask or f"How many words are in {opened.default_name}?"
    return trio.run(lambda: run_demo(opened, folder, question, scripted=scripted, as_json=as_json, approve=approve))
