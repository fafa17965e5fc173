"""The certificate as a page that a person can read: plain text, one line a case, the verdict last.

Decides the layout only. It shows nothing that is not in the certificate. Every executed case has its line; neighbours
that were not executed for one and the same reason share one.
"""

import textwrap
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Final

from triolet.spec_tests.certificate import Certificate, Row

_WIDTH: Final = 120
_MARKS: Final = {
    "passed": "passed",
    "failed": "FAILED",
    "not-applicable": "n/a",
    "not-exercised": "not exercised",
    "not-triggered": "not triggered",
}
_EXECUTED: Final = ("passed", "failed")
_SHARED_FROM: Final = 3
_DETAIL_LINES: Final = 6
_VERDICTS: Final = {
    "conforms": "CONFORMS: every executed check passed",
    "violates": "VIOLATES the requirements named above",
    "harness-broken": "NO VERDICT: the subject could not be set up, so this says nothing about the adapter",
    "nothing-executed": "NO VERDICT: nothing was executed",
}


def page(certificate: Certificate) -> str:
    """The page, ending in a line feed."""
    return "\n".join(_lines(certificate)) + "\n"


def row_line(row: Row) -> str:
    """One case on one line."""
    cited = ", ".join(row.requirements)
    line = f"{_MARKS[row.status]:<13}  {row.duration_ms:>6} ms  {row.case:<40}  {cited}"
    return line.rstrip()


def _lines(certificate: Certificate) -> Iterator[str]:
    suite, subject = certificate.suite, certificate.subject
    yield f"Certificate for port {suite.port} (suite version {suite.version}, triolet {suite.distribution})"
    yield f"target       {certificate.target}"
    if subject is not None:
        yield f"subject      {subject.name} {subject.version}"
        yield f"levers       {', '.join(subject.levers) or 'none'}"
        for trait, reason in subject.declines.items():
            yield f"declines     {trait}: {reason}"
        for name, value in subject.posture.items():
            yield f"posture      {name}: {value}"
    where = "in a process of its own" if certificate.isolated else "in the caller's process"
    environment = certificate.environment
    yield f"ran          {where}, at most {certificate.limit_seconds} s a case,"
    yield f"             Python {environment.python}, Trio {environment.trio}, {environment.platform}"
    yield ""
    yield from _rows(certificate.rows)
    yield ""
    yield from _list("shown", certificate.shown)
    yield from _list("broken", certificate.broken)
    yield from _list("open", certificate.open)
    counts = ", ".join(f"{count} {status}" for status, count in certificate.counts.items() if count)
    yield f"{'rows':<12} {counts}"
    yield _VERDICTS[certificate.verdict]


def _rows(rows: Iterable[Row]) -> Iterator[str]:
    for reason, group in groupby(rows, key=lambda row: "" if row.status in _EXECUTED else row.reason):
        together = list(group)
        if reason and len(together) > _SHARED_FROM:
            yield f"{_MARKS[together[0].status]:<13}  {len(together)} cases, {together[0].case} to {together[-1].case}"
            yield from _indented(reason)
            continue
        for row in together:
            yield row_line(row)
            yield from _indented(row.reason)
            # The end of a traceback is where the fault is; a broken promise needs none.
            if row.fault not in (None, "violation", "leak", "limit"):
                yield from (f"{' ' * 15}| {line[: _WIDTH - 17]}" for line in row.detail.splitlines()[-_DETAIL_LINES:])


def _indented(text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent=" " * 15, subsequent_indent=" " * 15)


def _list(title: str, ids: tuple[str, ...]) -> list[str]:
    text = ", ".join(ids) or "none"
    return textwrap.wrap(text, _WIDTH, initial_indent=f"{title:<12} ", subsequent_indent=" " * 13)
