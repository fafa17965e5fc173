"""The TokenEstimator port: about how many tokens something will take, before anybody is asked.

Decides what is estimated, and in which pieces: message by message, so that a request is never counted from its
beginning again (RUN-025, RUN-026). It decides no limit, and an estimate is never a bill.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from triolet.ports.language_model import ToolDeclaration
from triolet.ports.messages import Message


class TokenEstimator(Protocol):
    """A pure estimate, rather too high than too low, in time proportional to its argument.

    Lifetime: none; one value serves many runs. Emits: nothing. (CAP-001)
    """

    def message(self, message: Message) -> int:
        """Does: estimate the tokens that one message adds to a request, its framing included; 0 or more.

        Atomicity, Idempotency, Ordering, Cancellation: synchronous and pure; the same value gives the same number.
        Raises: nothing. (RUN-025)
        """
        ...

    def text(self, text: str) -> int:
        """Does: estimate the tokens of instructions, or of an answer's text; 0 or more.

        Atomicity, Idempotency, Ordering, Cancellation: as `message`. Raises: nothing.
        """
        ...

    def tools(self, declarations: Sequence[ToolDeclaration]) -> int:
        """Does: estimate the tokens that these declarations add to a request; 0 or more.

        Atomicity, Idempotency, Ordering, Cancellation: as `message`. Raises: nothing.
        """
        ...

    def schema(self, schema: Mapping[str, object]) -> int:
        """Does: estimate the tokens that the schema of the final answer adds to a request; 0 or more.

        Atomicity, Idempotency, Ordering, Cancellation: as `message`. Raises: nothing.
        """
        ...
