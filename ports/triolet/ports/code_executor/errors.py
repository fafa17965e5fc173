"""How a pass can fail: expected errors, each a value with a codec.

Decides what is told about a pass that gave no result. Each says whether the program may have made calls: what ran
before a failure ran. `logs` are bounded by the request; texts that the program chose are kept apart from messages.
(CAP-015)
"""

from typing import Literal

import attrs

from triolet.ports.code_executor.values import LimitName, Spent
from triolet.ports.errors import Misuse, Unavailable, bounded


@attrs.define(kw_only=True)
class CannotKeep(Misuse):
    """This executor cannot enforce what is asked. `problems` names all of it; nothing was started."""

    implementation: str
    problems: tuple[str, ...]

    @property
    def message(self) -> str:
        """Which executor, and what it cannot keep."""
        return f"{self.implementation} cannot keep this: {bounded('; '.join(self.problems))}"


@attrs.define(kw_only=True)
class ProgramInvalid(Misuse):
    """The source is no async function expression, or too long. Nothing of it ran.

    `detail` is what the engine says of it.
    """

    problem: Literal["syntax", "not-async-function", "too-long"]
    detail: str = ""

    @property
    def message(self) -> str:
        """What is wrong with it."""
        return f"the program was not started: {self.problem}"


@attrs.define(kw_only=True)
class LimitExceeded(Misuse):
    """The pass was stopped at one of its limits. Calls that it made before that were made."""

    limit: LimitName
    spent: Spent
    logs: str = ""
    dropped: int = 0

    @property
    def message(self) -> str:
        """Which limit."""
        return f"the program was stopped at its limit: {self.limit}"


@attrs.define(kw_only=True)
class ProgramUnsettled(Misuse):
    """The program waits for something that can never happen. Calls that it made before that were made."""

    spent: Spent
    logs: str = ""
    dropped: int = 0

    @property
    def message(self) -> str:
        """What it does."""
        return "the program waits for a promise that nothing will settle"


@attrs.define(kw_only=True)
class ResultUnusable(Misuse):
    """The program's value has no strict JSON. Calls that it made were made. `detail` says what is wrong with it."""

    detail: str
    spent: Spent
    logs: str = ""
    dropped: int = 0

    @property
    def message(self) -> str:
        """What is wrong."""
        return "the program's value cannot be written as JSON"


@attrs.define(kw_only=True)
class ExecutorUnavailable(Unavailable):
    """The executor is not installed, cannot start, or gave out during the pass. Calls may have been made."""

    implementation: str
    problem: str
    spent: Spent = attrs.field(factory=Spent)

    @property
    def message(self) -> str:
        """Which executor, and what is wrong."""
        return f"{self.implementation} is unavailable: {bounded(self.problem)}"


CodeExecutionError = (
    CannotKeep | ProgramInvalid | LimitExceeded | ProgramUnsettled | ResultUnusable | ExecutorUnavailable
)
"""Every error that `execute` may raise by itself."""
