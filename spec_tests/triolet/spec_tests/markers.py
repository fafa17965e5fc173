"""Markers: one string for each channel through which somebody's text enters, to be looked for where none may be.

Decides that a scan counts only if every channel was really written to, and which channels were found where. What may
be found where is the scan's caller's. (CAP-013)
"""

from collections.abc import Iterable, Mapping

from triolet.spec_tests.claims import SpecViolation


class Markers:
    """The markers of these channels."""

    def __init__(self, channels: Iterable[str]) -> None:
        self._markers = {channel: f"Zq{place:02}{channel.replace('-', '')}qZ" for place, channel in enumerate(channels)}
        self._arrived: set[str] = set()

    def of(self, channel: str) -> str:
        """The channel's marker. That it was handed out does not say that it went in."""
        return self._markers[channel]

    def passes(self, channel: str) -> str:
        """The channel's marker, at the very place where it goes in."""
        self._arrived.add(channel)
        return self._markers[channel]

    def look_for(self, channels: Iterable[str], text: str) -> None:
        """Note which of these channels' markers have arrived in `text`."""
        self._arrived.update(channel for channel in channels if self._markers[channel] in text)

    def scan(self, told: Iterable[tuple[str, str]]) -> Mapping[str, frozenset[str]]:
        """Which markers are in what was told: for each channel that was found, where.

        Raises `SpecViolation` if a channel was never written to, or if nothing was told at all: then not finding a
        marker says nothing.
        """
        silent = sorted(self._markers.keys() - self._arrived)
        if silent:
            raise SpecViolation(problem=f"the scan says nothing: nobody wrote to {', '.join(silent)}")
        found: dict[str, set[str]] = {}
        empty = True
        for where, text in told:
            empty = False
            for channel, marker in self._markers.items():
                if marker in text:
                    found.setdefault(channel, set()).add(where)
        if empty:
            raise SpecViolation(problem="the scan says nothing: nothing was told")
        return {channel: frozenset(places) for channel, places in found.items()}
