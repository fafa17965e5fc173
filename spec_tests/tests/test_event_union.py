"""The union of events is closed: every event is in it once, of one sort, under a kind of its own, behind one header."""

import inspect
from typing import Any, get_args

import attrs

from triolet.ports import events
from triolet.ports.events import EVENT_VERSION, Event, Gap, LiveEvent, RunEvent, SemanticEvent, TerminalEvent, Trace


def every_event() -> set[type[Any]]:
    classes = {value for value in vars(events).values() if inspect.isclass(value) and issubclass(value, RunEvent)}
    return classes - {RunEvent}


def test_every_event_is_of_exactly_one_sort() -> None:
    sorts = [set(get_args(sort)) for sort in (SemanticEvent, LiveEvent, TerminalEvent)] + [{Gap}]
    assert sum(len(sort) for sort in sorts) == len(every_event())
    assert set().union(*sorts) == every_event() == set(get_args(Event))


def test_every_event_has_the_header_and_a_kind_of_its_own() -> None:
    kinds: list[str] = []
    for event in every_event():
        names = [field.name for field in attrs.fields(event)]
        assert names[:3] == ["trace", "sequence", "at"], event
        kinds.append(str(attrs.fields_dict(event)["kind"].default))
    assert len(set(kinds)) == len(kinds)
    assert [field.name for field in attrs.fields(Trace)] == ["version", "run", "conversation", "agent"]
    assert attrs.fields_dict(Trace)["version"].default == EVENT_VERSION


def test_live_events_say_which_turn() -> None:
    for event in get_args(LiveEvent):
        assert "turn" in attrs.fields_dict(event) or event.__name__.startswith("Budget"), event
