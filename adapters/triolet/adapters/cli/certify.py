"""`triolet certify`: a certificate for somebody's adapter, in a process that can be killed.

Decides what is shown while it runs, where the certificate goes, and which exit status stands for which verdict: 0 only
if something was executed and all of it passed. It judges nothing; the suite does.
"""

from functools import partial
from pathlib import Path
from typing import Final

import click
import trio

from triolet.adapters.cli.commands import CommandFailed
from triolet.spec_tests import (
    LIMIT_SECONDS,
    SUITES,
    BadTarget,
    Certificate,
    InvalidSelection,
    Row,
    certify_target,
    page,
    row_line,
)

MISUSED: Final = 2

_PORTS: Final = click.Choice(sorted(SUITES))


@click.command()
@click.argument("target", metavar="PACKAGE.MODULE:OPEN")
@click.option("--port", type=_PORTS, required=True, help="The port that the target opens.")
@click.option(
    "--json", "file", type=click.Path(dir_okay=False, writable=True, path_type=Path), help="Write it here too."
)
@click.option("--limit", type=float, default=LIMIT_SECONDS, show_default=True, help="Seconds that a case may take.")
@click.option("--only", multiple=True, metavar="CASE", help="Run this case only; may be repeated.")
@click.option("--quiet", is_flag=True, help="Show no progress, only the page at the end.")
def certify(target: str, port: str, file: Path | None, limit: float, only: tuple[str, ...], quiet: bool) -> int:
    """Certify an adapter against the conformance suite.

    OPEN is called without arguments, once for each case, and gives an async context manager of the adapter, or of a
    Subject with levers. The module is found from the working directory or where it is installed. Cases run one after
    the other in a process of their own; one that hangs, exits or crashes is a failed row, and the rest still runs.

    Exit status: 0 if something was executed and all of it passed, 1 if not, 2 if the command line is wrong.
    """
    certificate = _run(target, port, limit, only, quiet=quiet)
    if file is not None:
        try:
            file.write_text(certificate.to_json(), encoding="utf-8")
        except OSError as error:
            click.echo(page(certificate), nl=False)
            raise CommandFailed(f"the certificate could not be written to {file}: {error.strerror}") from error
    click.echo(page(certificate), nl=False)
    return 0 if certificate.conforms else 1


def _run(target: str, port: str, limit: float, only: tuple[str, ...], *, quiet: bool) -> Certificate:
    due = (len(only) if only else len(SUITES[port].cases)) + 2
    count = 0

    def show(row: Row) -> None:
        nonlocal count
        count += 1
        if not quiet and row.status not in ("not-exercised", "not-applicable"):
            # On standard error, so that the page can be piped; a line each, since a terminal is not always there.
            click.echo(f"[{count:>3}/{due}] {row_line(row)}", err=True)

    try:
        return trio.run(partial(certify_target, target, port=port, limit=limit, only=only or None, progress=show))
    except (BadTarget, InvalidSelection) as error:
        raise CommandFailed(error.message, MISUSED) from error
