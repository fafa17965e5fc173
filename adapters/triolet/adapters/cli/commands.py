"""The table of subcommands, and how a command line reaches one of them.

Decides the names under `triolet` and the line of help for each. A subcommand's module is imported only when it is
asked for, so that `triolet --help` costs no more than click. It runs nothing by itself.
"""

import importlib
from collections.abc import Sequence
from typing import Final

import click

SUBCOMMANDS: Final[dict[str, tuple[str, str]]] = {
    "demo": (
        "triolet.adapters.cli.demo.command:demo",
        "Run an agent on a real folder, with a model inside this machine.",
    ),
    "certify": (
        "triolet.adapters.cli.certify:certify",
        "Certify an adapter against the conformance suite.",
    ),
    "sandbox": (
        "triolet.adapters.cli.sandbox:sandbox",
        "Run a command under a policy, and see what is held.",
    ),
    "mcp": (
        "triolet.adapters.cli.mcp:mcp",
        "Show what an MCP server offers, and call a tool.",
    ),
    "requirements": (
        "triolet.adapters.cli.requirements:requirements",
        "List the requirements and the cases for each.",
    ),
}
"""Name: where its click command is, and its line of help."""


class CommandFailed(Exception):
    """A subcommand cannot do what was asked. `line` is all that its user is told; `status` is the exit status."""

    def __init__(self, line: str, status: int = 1) -> None:
        super().__init__(line)
        self.line = " ".join(line.split())
        self.status = status


class _Subcommands(click.Group):
    """Finds subcommands in the table."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(SUBCOMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in SUBCOMMANDS:
            return None
        module, _, name = SUBCOMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(importlib.import_module(module), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in SUBCOMMANDS.items()])


def _show_version(ctx: click.Context, _: click.Parameter, asked: bool) -> None:
    if asked and not ctx.resilient_parsing:
        from importlib.metadata import version

        click.echo(f"triolet {version('triolet')}")
        ctx.exit()


@click.group(
    name="triolet",
    cls=_Subcommands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_show_version, help="Show the version."
)
def triolet() -> None:
    """An agent kernel for Trio."""


def run_command(arguments: Sequence[str]) -> int:
    """Run the subcommand that `arguments` name and return its exit status.

    Raises `CommandFailed`, also for a command line that is wrong.
    """
    given = list(arguments)
    try:
        # Not Group.main, which would treat a broken pipe in its own way.
        with triolet.make_context("triolet", given) as context:
            status: object = triolet.invoke(context)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.ctx.get_help(), err=True)
        return 2
    except click.exceptions.Exit as leaving:
        return leaving.exit_code
    except click.UsageError as error:
        named = [name for name in arguments if name in SUBCOMMANDS][:1]
        raise CommandFailed(f"{error.format_message()} See: {' '.join(['triolet', *named])} --help", 2) from error
    except click.ClickException as error:
        raise CommandFailed(error.format_message(), error.exit_code) from error
    except click.Abort as error:
        raise KeyboardInterrupt from error
    # A subcommand that returns nothing has done what it was asked to.
    return status if isinstance(status, int) else 0
