"""The acts that a stand-in provider has been told to do next.

Decides what it does when it was told nothing: it says hello, so that a case which needs no particular answer gets one.
"""

from collections import deque
from typing import Final

from triolet.spec_tests.cases.language_model import Act, Says

HELLO: Final = Says(text=("Hello ", "there."))


class Acts:
    """A queue of acts, one for each request."""

    def __init__(self) -> None:
        self._queue = deque[Act]()

    def add(self, *acts: Act) -> None:
        """Do these next."""
        self._queue.extend(acts)

    def next(self) -> Act:
        """What to do with the request that has just arrived."""
        return self._queue.popleft() if self._queue else HELLO
