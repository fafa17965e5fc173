"""The process that holds the subject: it runs the cases that it is told to, one Trio run each, and reports each.

Decides that the channel to the parent is nobody else's: before anything of the subject is imported, standard output
becomes standard error and standard input becomes empty, so that what an adapter prints or reads disturbs nothing.
It judges nothing by itself and has no clean-up that a kill would miss.

    python -m triolet.spec_tests.isolation.child PORT LIMIT PACKAGE.MODULE:OPEN

"""

import os
import sys
import traceback
from functools import partial
from typing import Any, BinaryIO

import trio

from triolet.ports.text import repair
from triolet.spec_tests.certificate import MAX_DETAIL
from triolet.spec_tests.isolation.messages import MESSAGE, Ended, Loaded, Message, Unloadable
from triolet.spec_tests.isolation.target import BadTarget, load_maker
from triolet.spec_tests.running import run_case, run_smoke
from triolet.spec_tests.subject import Maker
from triolet.spec_tests.suite import SMOKE, Suite
from triolet.spec_tests.suites import SUITES


def main(port: str, limit: str, target: str) -> None:
    """Report that the target was loaded, then run each case whose name comes in, until no more come."""
    names, reports = _private_channel()
    try:
        maker = load_maker(target)
    except BadTarget as error:
        detail = repair("".join(traceback.format_exception(error.__cause__ or error)))[-MAX_DETAIL:]
        _send(reports, Unloadable(problem=repair(error.message), detail=detail))
        return
    _send(reports, Loaded())
    suite = SUITES[port]
    for line in names:
        _send(reports, _run(suite, maker, line.decode().strip(), float(limit)))


def _run(suite: Suite[Any], maker: Maker, name: str, limit: float) -> Ended:
    if name == SMOKE:
        return Ended(run=trio.run(partial(run_smoke, suite, maker, limit=limit)))
    case = suite.find(name)
    if case is None:
        raise AssertionError("the parent names cases of the suite only")
    return Ended(run=trio.run(partial(run_case, suite, case, maker, limit=limit)))


def _private_channel() -> tuple[BinaryIO, BinaryIO]:
    names, reports = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    os.dup2(2, 1)
    return names, reports


def _send(reports: BinaryIO, message: Message) -> None:
    reports.write(MESSAGE.encode_text(message).encode() + b"\n")
    reports.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
