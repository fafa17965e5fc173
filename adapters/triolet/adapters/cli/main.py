"""The entry point of the `triolet` command.

Decides which exit status and which single line on standard error stand for each way in which a subcommand can end. It
imports nothing that a broken installation may lack before it can say so, and knows no subcommand.

Exit status: 0 done, 1 the subcommand failed, 2 the command line is wrong, 130 and 143 interrupted by a signal, 141
whoever read the output has gone.
"""

import os
import sys
from collections.abc import Sequence
from typing import Final

EXTRAS: Final = {"click": "cli", "rich": "cli", "mcp": "mcp", "mcp_types": "mcp", "trio_websocket": "mcp"}
"""Which extra brings which package."""
FAILED: Final = 1
MISUSED: Final = 2
INTERRUPTED: Final = 130
READER_GONE: Final = 141


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line `arguments` (default: the process's own) and return the exit status."""
    for stream in (sys.stdout, sys.stderr):
        # A character that the terminal's encoding lacks is shown by its number; it must not end the program.
        if reconfigure := getattr(stream, "reconfigure", None):
            reconfigure(errors="backslashreplace")
    try:
        status = _run(sys.argv[1:] if arguments is None else list(arguments))
        sys.stdout.flush()
    except BrokenPipeError:
        _abandon_output()
        return READER_GONE
    return status


def _run(arguments: Sequence[str]) -> int:
    try:
        from triolet.adapters.cli.commands import CommandFailed, run_command
    except ModuleNotFoundError as error:
        return _missing(error)
    try:
        return run_command(arguments)
    except CommandFailed as error:
        return _complain(error.line, error.status)
    except ModuleNotFoundError as error:
        return _missing(error)
    except KeyboardInterrupt:
        return _complain("interrupted", INTERRUPTED)
    except BaseExceptionGroup as group:
        if group.split(KeyboardInterrupt)[1] is not None:
            raise
        return _complain("interrupted", INTERRUPTED)


def _missing(error: ModuleNotFoundError) -> int:
    package = (error.name or "").partition(".")[0]
    if package not in EXTRAS:
        raise error
    return _complain(f"{package} is not installed. Run: pip install 'triolet[{EXTRAS[package]}]'", FAILED)


def _complain(line: str, status: int) -> int:
    print(f"triolet: {line}", file=sys.stderr)
    return status


def _abandon_output() -> None:
    """Point standard output at nothing, so that flushing it at exit does not fail once more."""
    try:
        descriptor = sys.stdout.fileno()
    except OSError:
        return
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, descriptor)
    os.close(nothing)


if __name__ == "__main__":
    sys.exit(main())
