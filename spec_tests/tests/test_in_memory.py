"""The host's one line: everything that a kernel needs, bound inside this process."""

from triolet.adapters.clocks import SystemClock
from triolet.adapters.ids import RandomIds, SequentialIds
from triolet.adapters.memory import MemoryConversations, Overrides, in_memory
from triolet.adapters.scripted_model import ScriptedModel
from triolet.ports.capabilities import CAPABILITY_NAMES


def test_in_memory_binds_everything_a_kernel_needs() -> None:
    model = ScriptedModel([])
    bound = in_memory(model=model)
    assert bound.model is model
    assert isinstance(bound.conversations, MemoryConversations)
    assert isinstance(bound.clock, SystemClock)
    assert isinstance(bound.ids, RandomIds)
    assert in_memory(model=model).conversations is not bound.conversations


def test_in_memory_takes_other_bindings_and_none() -> None:
    ids, store = SequentialIds(), MemoryConversations()
    bound = in_memory(model=None, ids=ids, conversations=store, clock=None)
    assert (bound.model, bound.ids, bound.conversations, bound.clock) == (None, ids, store, None)


def test_in_memory_knows_every_capability() -> None:
    assert set(Overrides.__annotations__) | {"model"} == CAPABILITY_NAMES
