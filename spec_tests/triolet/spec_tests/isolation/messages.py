"""What the certifying process and the one that holds the subject tell each other: a line of JSON each.

Decides the vocabulary only. The parent sends the names of cases, one a line; everything here is what comes back.
"""

from typing import Final, Literal

import attrs

from triolet.ports.schema import Codec, codec_for
from triolet.spec_tests.running import CaseRun


@attrs.frozen(kw_only=True, weakref_slot=False)
class Loaded:
    """The subject's maker was found, and nothing of it has been called."""

    kind: Literal["loaded"] = "loaded"


@attrs.frozen(kw_only=True, weakref_slot=False)
class Unloadable:
    """There is no such maker, or its module cannot be imported."""

    kind: Literal["unloadable"] = "unloadable"
    problem: str
    detail: str


@attrs.frozen(kw_only=True, weakref_slot=False)
class Ended:
    """A case has ended, however it did."""

    kind: Literal["ended"] = "ended"
    run: CaseRun


Message = Loaded | Unloadable | Ended

MESSAGE: Final[Codec[Message]] = codec_for(Message)

MAX_LINE: Final = 1024 * 1024
"""The longest line that the parent reads. What is longer was not written by this suite."""
