"""Wake-ups within one process: topics, and the places of those who wait for them.

Decides that a wake-up which comes between opening a place and waiting is not lost (STORE-014). It keeps nothing for
topics that nobody watches.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import trio

from triolet.ports.wakeups import Topic


class _Place:
    """One waiter."""

    __slots__ = ("_event",)

    def __init__(self) -> None:
        self._event = trio.Event()

    def wake(self) -> None:
        self._event.set()

    async def wait(self) -> None:
        """See `Watch.wait`."""
        await self._event.wait()
        self._event = trio.Event()


class WakeupBoard:
    """Everybody in this process who waits."""

    __slots__ = ("_places",)

    def __init__(self) -> None:
        self._places: dict[Topic, list[_Place]] = {}

    @asynccontextmanager
    async def watch(self, topic: Topic) -> AsyncGenerator[_Place]:
        """See `Wakeups.watch`."""
        place = _Place()
        self._places.setdefault(topic, []).append(place)
        try:
            yield place
        finally:
            here = self._places[topic]
            here.remove(place)
            if not here:
                del self._places[topic]

    def wake(self, topic: Topic) -> None:
        """Wake whoever watches this topic."""
        for place in self._places.get(topic, ()):
            place.wake()
