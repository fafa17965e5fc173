"""Bodies of HTTP answers, read within bounds, and closed from the inside out.

Decides how much of a body is read. The client nests generators, and closing the outermost leaves the others to the
garbage collector, which Trio warns about: a read that is cancelled ends them all. (SEC-013)
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Final

import httpx2
import trio

_PATIENCE: Final = 2.0
"""Seconds that the beginning of an error's body may take; its status says enough."""


class BodyTooLong(Exception):
    """A body is longer than allowed."""


@asynccontextmanager
async def chunks_of(response: httpx2.Response) -> AsyncGenerator[AsyncGenerator[bytes, None], None]:
    """The bytes of the body. Leaving early ends the client's reading for good. Raises `httpx2.TransportError`."""
    chunks = response.aiter_raw()
    try:
        yield chunks
    finally:
        with trio.CancelScope() as scope, suppress(httpx2.HTTPError, httpx2.StreamError):
            scope.cancel()
            while await anext(chunks, None) is not None:
                pass


async def whole(response: httpx2.Response, limit: int) -> bytes:
    """All of the body. Raises `BodyTooLong` beyond `limit` bytes, `httpx2.TransportError` where it breaks off."""
    found = bytearray()
    async with chunks_of(response) as chunks:
        async for chunk in chunks:
            found += chunk
            if len(found) > limit:
                raise BodyTooLong
    return bytes(found)


async def beginning(response: httpx2.Response, limit: int) -> bytes:
    """The first `limit` bytes, or as many as come without trouble."""
    found = bytearray()
    with trio.move_on_after(_PATIENCE), suppress(httpx2.TransportError):
        async with chunks_of(response) as chunks:
            async for chunk in chunks:
                found += chunk
                if len(found) >= limit:
                    break
    return bytes(found[:limit])
