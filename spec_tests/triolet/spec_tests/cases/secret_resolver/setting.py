"""What the cases of the SecretResolver share: the subject, and a search for a value where it must not be.

Decides where a value could show by accident, never what is right.
"""

import traceback
from collections.abc import Awaitable, Callable, Iterator
from typing import cast

import attrs

from triolet.ports.secrets import SecretHandle, SecretResolver
from triolet.spec_tests.claims import ensure
from triolet.spec_tests.subject import Subject

Bind = Callable[[str, bytes], Awaitable[SecretHandle]]


@attrs.frozen(kw_only=True, eq=False, weakref_slot=False)
class SecretSubject(Subject[SecretResolver]):
    """A resolver under test.

    `bind` puts these bytes behind a name, in the place of what stood there, and gives the handle. The name is of small
    letters; the bytes hold no NUL and do not end with a newline.
    """

    bind: Bind | None = None


def ensure_unseen(error: BaseException, value: str) -> None:
    """Neither the error, nor what it came from, nor the variables of the code that raised it, show the value."""
    for each in _family(error):
        held = [repr(each), str(each), repr(each.args), repr(getattr(each, "__notes__", ())), *_locals(each)]
        if isinstance(each, UnicodeError):
            held.append(repr(cast("object", getattr(each, "object", None))))
        ensure(not any(value in text for text in held), f"a {type(each).__name__} shows the value")


def _family(error: BaseException) -> Iterator[BaseException]:
    # The context as well, where `from None` hides it from a traceback: whoever reports errors can still read it.
    yield error
    for each in (error.__cause__, error.__context__):
        if each is not None:
            yield from _family(each)


def _locals(error: BaseException) -> Iterator[str]:
    for frame, _ in traceback.walk_tb(error.__traceback__):
        # The cases know the value; nobody else has to have it when something is raised.
        if not str(frame.f_globals.get("__name__")).startswith("triolet.spec_tests."):
            yield repr(dict(frame.f_locals))
