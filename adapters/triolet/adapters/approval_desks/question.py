"""What a person is shown of a request, and what the person's line means.

Decides the words: everything that an answer depends on is on the sheet, what was left out is counted, and only a clear
yes is a yes. Text from outside is made visible and never read as markup. (APPR-001)
"""

from typing import Final, Literal

from triolet.adapters.console import Page, visible_line
from triolet.ports.approval import ApprovalRequest
from triolet.ports.identity import MICROSECONDS, Instant

Answer = Literal["yes", "again", "no", "reason"]

SHOWN_TARGETS: Final = 50
PREVIEW_LINES: Final = 100
"""More than a preview's 2,000 characters need at 40 columns."""
LONGEST_REASON: Final = 500

CHOICES: Final = (
    "y   yes, this once",
    "a   yes, and for the same input again in this conversation",
    "n   no",
    "r   no, and why",
)
PROMPT: Final = "y/a/n/r> "
REASON_PROMPT: Final = "why not> "

_ANSWERS: Final[dict[str, Answer]] = {
    "y": "yes",
    "yes": "yes",
    "a": "again",
    "again": "again",
    "n": "no",
    "no": "no",
    "r": "reason",
    "reason": "reason",
}
_STYLES: Final = {"low": "green", "medium": "yellow", "high": "bold red"}


def show_question(page: Page, request: ApprovalRequest, now: Instant, waiting: int) -> None:
    """Write everything about `request`, and how many others wait behind it."""
    page.blank()
    page.row(
        None,
        "approve?",
        (visible_line(request.tool), "bold"),
        (" · ", ""),
        (f"{request.risk} risk", _STYLES.get(request.risk, "bold red")),
        (f" · {waiting} more waiting" if waiting else "", "dim"),
    )
    page.row(None, "", (visible_line(request.summary) or "(no summary)", ""), lines=10)
    for number, target in enumerate(request.targets[:SHOWN_TARGETS]):
        page.row(None, "" if number else "touches", (visible_line(target), ""), lines=10)
    if not request.targets:
        page.row(None, "touches", ("nothing that it names", "dim"))
    if len(request.targets) > SHOWN_TARGETS:
        page.row(None, "", (f"and {len(request.targets) - SHOWN_TARGETS} more, not shown", "bold red"))
    page.row(None, "input", (request.preview, ""), lines=PREVIEW_LINES)
    asker = f"{request.principal.name} ({request.principal.tenant}), agent {request.agent}, run {request.run}"
    page.row(None, "for", (visible_line(asker), ""))
    page.row(None, "expires", (_expiry(request.expires_at, now), ""))
    consequence = "the run fails" if request.denial == "terminal" else "the model is told, and goes on"
    page.row(None, "if no", (consequence, ""))
    show_choices(page)


def show_choices(page: Page) -> None:
    """Write what can be typed."""
    for number, choice in enumerate(CHOICES):
        page.row(None, "" if number else "type", (choice, ""))


def answer_from(line: str) -> Answer | None:
    """What the line means; None where that is not clear."""
    return _ANSWERS.get(line.strip().casefold())


def reason_from(line: str) -> str:
    """The line as a reason on record: visible, on one line, at most 500 characters."""
    return visible_line(line)[:LONGEST_REASON]


def _expiry(expires_at: Instant | None, now: Instant) -> str:
    if expires_at is None:
        return "never"
    seconds = max(0, expires_at - now) // MICROSECONDS
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    parts = [(hours, "h"), (minutes, "min"), (seconds, "s")]
    return "in " + (" ".join(f"{amount} {unit}" for amount, unit in parts if amount) or "less than a second")
