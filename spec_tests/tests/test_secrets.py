"""Secrets: where they come from, and all the ways in which one does not get out by accident."""

import copy
import io
import json
import logging
import os
import pickle
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import orjson
import pytest
import trio

from triolet.adapters.secrets import EnvironmentSecrets, SecretFiles
from triolet.ports.canonical import encode_text
from triolet.ports.errors import TrioletError
from triolet.ports.schema import codec_for
from triolet.ports.secrets import MAX_SECRET, Secret, SecretHandle, SecretMissing, SecretRefused, SecretsUnavailable

VALUE = "p4ss-w0rd-of-nobody"
HANDLE = SecretHandle(name="token")
SECRET = Secret(HANDLE, VALUE)


@attrs.frozen
class Login:
    """Something that holds a secret."""

    user: str
    secret: Secret


LOGIN = Login("ann", SECRET)


def _logged(value: object) -> str:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    logger = logging.getLogger("tests.secrets")
    logger.propagate = False
    logger.handlers[:] = [handler]
    logger.warning("%s %r", value, value, extra={"held": value})
    logger.warning({"held": value})
    return stream.getvalue()


def _traceback(value: object) -> str:
    try:
        held = [value]
        raise RuntimeError(held)
    except RuntimeError as error:
        return "".join(traceback.TracebackException.from_exception(error, capture_locals=True).format())


@pytest.mark.parametrize(
    "show",
    [
        repr,
        str,
        format,
        ascii,
        "{0} {0!r}".format,
        lambda value: "%s %r" % (value, value),  # noqa: UP031 -- that spelling too
        _logged,
        _traceback,
        lambda value: json.dumps(value, default=str),
        lambda value: orjson.dumps(value, default=repr).decode(),
        lambda value: repr(attrs.asdict(value)) if attrs.has(type(value)) else repr(value),
        lambda value: repr(dir(value)),
        lambda value: repr(copy.copy([value])),
    ],
)
def test_text_of_a_secret_is_its_handle(show: Callable[[Any], str]) -> None:
    for value in (SECRET, LOGIN, {"deep": [LOGIN]}):
        assert VALUE not in show(value)


def test_a_width_changes_nothing() -> None:
    assert f"{SECRET:>60}" == "Secret('token')"


@pytest.mark.parametrize(
    "encode",
    [
        pickle.dumps,
        copy.deepcopy,
        json.dumps,
        orjson.dumps,
        encode_text,
        lambda value: orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_PASSTHROUGH_SUBCLASS),
        lambda value: json.dumps(value, default=vars),
        lambda value: json.dumps(value, default=lambda held: held.__getstate__()),
        lambda value: json.dumps(value, default=lambda held: held.__dict__),
        lambda value: pickle.dumps(value, protocol=0),
    ],
)
def test_a_secret_is_not_serialised(encode: Callable[[Any], object]) -> None:
    for value in (SECRET, [SECRET]):
        with pytest.raises((TypeError, AttributeError, TrioletError)) as caught:
            encode(value)
        assert VALUE not in f"{caught.value!r}"


def test_a_secret_is_no_part_of_a_schema() -> None:
    """A tool that takes or gives a secret cannot be made."""
    with pytest.raises(TrioletError):
        codec_for(Login)


def test_secrets_compare_by_what_they_are_and_not_by_value() -> None:
    other = Secret(HANDLE, VALUE)
    held: list[object] = [SECRET, other, VALUE]
    assert [held.index(each) for each in held] == [0, 1, 2]
    assert len({SECRET, other}) == 2
    with pytest.raises(TypeError):
        sorted([SECRET, other])  # type: ignore[type-var] # pyright: ignore -- that it does not work is the point


def test_a_value_that_is_too_long_is_in_no_traceback() -> None:
    try:
        Secret(HANDLE, VALUE * 10_000)
    except ValueError as error:
        frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)][1:]
        assert frames
        assert not any(VALUE in repr(frame.f_locals) for frame in frames)
    else:
        pytest.fail("it was taken")


@pytest.mark.parametrize("name", ["", "x" * 201, "tökén", "a\nb", "a\0"])
def test_handles_are_short_and_plain(name: str) -> None:
    with pytest.raises(ValueError, match="name"):
        SecretHandle(name=name)


async def test_only_listed_variables_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_TOKEN", VALUE)
    resolver = EnvironmentSecrets({"token": "SOME_TOKEN", "unset": "SOME_OTHER_TOKEN"})
    assert (await resolver.resolve(HANDLE)).reveal() == VALUE
    for name in ("SOME_TOKEN", "unset", "PATH"):
        with pytest.raises(SecretMissing):
            await resolver.resolve(SecretHandle(name=name))
    assert VALUE not in repr(vars(resolver))


def _file(directory: Path, content: bytes, mode: int = 0o600) -> SecretFiles:
    path = directory / "token"
    path.touch(mode=0o600)
    path.write_bytes(content)
    path.chmod(mode)
    return SecretFiles(directory)


@pytest.mark.parametrize(
    ("content", "value"),
    [(b"a\n", "a"), (b"a\n\n", "a\n"), (b"a\r\n", "a\r"), (b"\n", ""), (b"", ""), (b" a ", " a "), (b"a\nb", "a\nb")],
)
async def test_one_newline_at_the_end_is_the_editors(tmp_path: Path, content: bytes, value: str) -> None:
    assert (await _file(tmp_path, content).resolve(HANDLE)).reveal() == value


async def test_the_bound_is_of_the_value_without_the_newline(tmp_path: Path) -> None:
    longest = "x" * MAX_SECRET
    assert (await _file(tmp_path, longest.encode() + b"\n").resolve(HANDLE)).reveal() == longest
    for content in (b"x" * (MAX_SECRET + 1), b"x" * MAX_SECRET + b"\n\n", b"x" * 10_000_000):
        with pytest.raises(SecretRefused, match="longer"):
            await _file(tmp_path, content).resolve(HANDLE)


@pytest.mark.parametrize("mode", [0o604, 0o602, 0o601, 0o644, 0o777])
async def test_a_file_that_everybody_can_open_is_refused(tmp_path: Path, mode: int) -> None:
    with pytest.raises(SecretRefused, match="every user"):
        await _file(tmp_path, VALUE.encode(), mode).resolve(HANDLE)


@pytest.mark.parametrize("mode", [0o400, 0o440, 0o640])
async def test_a_file_for_owner_and_group_is_read(tmp_path: Path, mode: int) -> None:
    assert (await _file(tmp_path, VALUE.encode(), mode).resolve(HANDLE)).reveal() == VALUE


async def test_links_are_refused_unless_the_host_trusts_them(tmp_path: Path) -> None:
    _file(tmp_path, VALUE.encode())
    (tmp_path / "linked").symlink_to("token")
    handle = SecretHandle(name="linked")
    with pytest.raises(SecretRefused, match="link"):
        await SecretFiles(tmp_path).resolve(handle)
    assert (await SecretFiles(tmp_path, links=True).resolve(handle)).reveal() == VALUE


@pytest.mark.parametrize("kind", ["fifo", "directory", "device"])
async def test_what_is_no_plain_file_is_refused(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "token"
    if kind == "fifo":
        os.mkfifo(path, mode=0o600)
    elif kind == "directory":
        path.mkdir(mode=0o700)
    else:
        path.symlink_to("/dev/zero")
    with trio.fail_after(30), pytest.raises(SecretRefused, match="plain"):
        await SecretFiles(tmp_path, links=True).resolve(HANDLE)


@pytest.mark.parametrize("name", ["../token", "/etc/hostname", ".", "..", ".token", "a/b", "none"])
async def test_names_are_no_paths(tmp_path: Path, name: str) -> None:
    _file(tmp_path, VALUE.encode())
    (tmp_path / "below").mkdir()
    with pytest.raises(SecretMissing):
        await SecretFiles(tmp_path / "below").resolve(SecretHandle(name=name))


async def test_a_directory_that_is_a_file_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "plain").touch()
    with pytest.raises(SecretsUnavailable):
        await SecretFiles(tmp_path / "plain").resolve(HANDLE)
