"""What decoders and encoders raise while they are inside a value.

Decides how the way to a fault is collected: from the inside out, as the error unwinds, so that the ordinary path
pays nothing for it. Never leaves this package: a codec turns it into `InvalidValue`. (CAP-004)
"""

from triolet.ports.json_pointer import pointer


class Misfit(Exception):
    """A value that its shape does not allow.

    `problem` says why, without the value. `below` is a pointer from the innermost step on, if that is known
    already.
    """

    def __init__(self, problem: str, below: str = "") -> None:
        super().__init__(problem)
        self.problem = problem
        self.below = below
        self.steps: list[str | int] = []

    @property
    def pointer(self) -> str:
        """The JSON Pointer to the value."""
        return pointer(self.steps[::-1]) + self.below
