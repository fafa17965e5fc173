"""Everything a kernel needs, inside this process: the memory ConversationStore, and a host's one-line assembly."""

from typing import TypedDict, Unpack

from triolet.adapters.clocks import SystemClock
from triolet.adapters.ids import RandomIds
from triolet.adapters.memory.conversations import MemoryConversations
from triolet.ports.capabilities import Capabilities
from triolet.ports.conversation_store import ConversationStore
from triolet.ports.language_model import LanguageModel
from triolet.ports.sources import Clock, IdGenerator

__all__ = ["MemoryConversations", "Overrides", "in_memory"]


class Overrides(TypedDict, total=False):
    """What a host may bind otherwise than `in_memory` does; None leaves the port absent."""

    conversations: ConversationStore | None
    clock: Clock | None
    ids: IdGenerator | None


def in_memory(*, model: LanguageModel | None, **overrides: Unpack[Overrides]) -> Capabilities:
    """Capabilities that need nothing outside: memory conversations, the system clock, random identifiers.

    Plain values, so there is nothing to open or close but the model. Each call makes a new, empty store.
    """
    ports: Overrides = {"conversations": MemoryConversations(), "clock": SystemClock(), "ids": RandomIds()}
    return Capabilities(model=model, **(ports | overrides))
