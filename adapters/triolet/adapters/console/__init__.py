"""A console observer: a run's events as a live timeline, for people."""

from triolet.adapters.console.page import Page, open_page
from triolet.adapters.console.timeline import Timeline, show_timeline
from triolet.adapters.console.visible import visible, visible_line

__all__ = ["Page", "Timeline", "open_page", "show_timeline", "visible", "visible_line"]
