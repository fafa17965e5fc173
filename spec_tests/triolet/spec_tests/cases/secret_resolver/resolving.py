"""Handles become values that only `reveal` gives away. SEC-006, SEC-013."""

import copy
import json
import logging
import pickle
from collections.abc import Callable
from typing import Any

from triolet.ports.secrets import MAX_SECRET, Secret, SecretHandle, SecretMissing, SecretRefused
from triolet.spec_tests.cases.secret_resolver.setting import SecretSubject, ensure_unseen
from triolet.spec_tests.claims import SpecViolation, ensure, ensure_equal, ensure_raises, lever
from triolet.spec_tests.definition import case

_VALUE = "p4ss-w0rd-of-nobody"


@case("SEC-006", needs=("bind",))
async def a_handle_becomes_its_value(subject: SecretSubject) -> None:
    """`resolve` gives what stands behind the handle, to the letter, and says which handle it was."""
    bind = lever(subject.bind, "bind")
    values = {"plain": _VALUE, "spaced": "  two\n lines\t", "wide": "pässwörd \N{KEY}", "empty": ""}
    for name, value in values.items():
        handle = await bind(name, value.encode())
        secret = await subject.port.resolve(handle)
        ensure_equal(secret.handle, handle, "the handle of a secret")
        # Compared without being shown: a violation's text is no place for a value either.
        ensure(secret.reveal() == value, f"the value of {name!r} is another")


@case("SEC-006", needs=("bind",))
async def a_changed_value_is_seen(subject: SecretSubject) -> None:
    """A value that was replaced is what `resolve` gives from then on."""
    bind = lever(subject.bind, "bind")
    handle = await bind("changing", b"old")
    ensure((await subject.port.resolve(handle)).reveal() == "old", "the first value is another")
    await bind("changing", b"new")
    ensure((await subject.port.resolve(handle)).reveal() == "new", "a value that was replaced is still given")


@case("SEC-006")
async def what_is_not_bound_is_missing(subject: SecretSubject) -> None:
    """A handle that nothing is bound to is `SecretMissing`, also where its name looks like something else."""
    for name in ("nothing", "PATH", "HOME", "/etc/hostname", "../hostname", ".", "..", "a/b", "$PATH", "*"):
        handle = SecretHandle(name=name)
        with ensure_raises(SecretMissing, f"`resolve` of {name!r}") as caught:
            await subject.port.resolve(handle)
        ensure_equal(caught.error.handle, handle, "the handle that is said to be missing")


@case("SEC-006", needs=("bind",))
async def a_secret_shows_itself_to_nobody(subject: SecretSubject) -> None:
    """What `resolve` gives cannot be printed, formatted, logged, pickled, copied or serialised into its value."""
    secret = await subject.port.resolve(await lever(subject.bind, "bind")("shown", _VALUE.encode()))
    record = logging.LogRecord("any", logging.INFO, __file__, 1, "got %s %r", (secret, secret), None)
    shown = [
        repr(secret),
        str(secret),
        f"{secret}",
        f"{secret:>40}",
        f"{secret!r}",
        repr([secret]),
        record.getMessage(),
    ]
    ensure(not any(_VALUE in text for text in shown), "its text shows the value")
    ensure(not hasattr(secret, "__dict__"), "its attributes are there for everybody to list")
    attempts: tuple[Callable[[Any], object], ...] = (
        pickle.dumps, copy.copy, copy.deepcopy, json.dumps, bytes, iter, len,
    )  # fmt: skip
    for attempt in attempts:
        try:
            attempt(secret)
        except TypeError as error:
            ensure_unseen(error, _VALUE)
        else:
            raise SpecViolation(problem=f"{attempt.__name__} takes a secret")
    ensure(not _equal(secret, _VALUE), "a secret is equal to its value")


def _equal(left: object, right: object) -> bool:
    return left == right or right == left


@case("SEC-006", needs=("bind",))
async def what_is_no_text_is_refused_unseen(subject: SecretSubject) -> None:
    """Bytes that are no UTF-8 are `SecretRefused`, and no error holds them."""
    handle = await lever(subject.bind, "bind")("broken", _VALUE.encode() + b"\xff\xfe")
    with ensure_raises(SecretRefused, "`resolve` of bytes that are no text") as caught:
        await subject.port.resolve(handle)
    ensure_unseen(caught.error, _VALUE)


@case("SEC-013", "SEC-006", needs=("bind",))
async def what_is_too_long_is_refused_unseen(subject: SecretSubject) -> None:
    """A value of more than the bound in bytes is `SecretRefused`, and no error holds it; one of the bound is given."""
    bind = lever(subject.bind, "bind")
    wide = "é" * (MAX_SECRET // 2)
    ensure((await subject.port.resolve(await bind("longest", wide.encode()))).reveal() == wide, "it is another value")
    for size in (MAX_SECRET + 1, MAX_SECRET + 2, MAX_SECRET + 5_000):
        value = _VALUE + "x" * (size - len(_VALUE))
        handle = await bind("long", value.encode())
        with ensure_raises(SecretRefused, f"`resolve` of a value of {size} bytes") as caught:
            await subject.port.resolve(handle)
        ensure_unseen(caught.error, _VALUE)


@case("SEC-006", needs=("bind",))
async def each_resolution_is_a_secret(subject: SecretSubject) -> None:
    """What `resolve` gives is a `Secret`, and two of them are told apart only by their values being revealed."""
    handle = await lever(subject.bind, "bind")("twice", _VALUE.encode())
    first, second = await subject.port.resolve(handle), await subject.port.resolve(handle)
    ensure(all(isinstance(each, Secret) for each in (first, second)), "it is no `Secret`")
    ensure(first != second and first.reveal() == second.reveal(), "comparing two secrets tells whether they are equal")


RESOLVING = (
    a_handle_becomes_its_value,
    a_changed_value_is_seen,
    what_is_not_bound_is_missing,
    a_secret_shows_itself_to_nobody,
    what_is_no_text_is_refused_unseen,
    what_is_too_long_is_refused_unseen,
    each_resolution_is_a_secret,
)
