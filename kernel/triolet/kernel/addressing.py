"""Which conversation a caller means: the one that is named, within the principal's tenant, or a new one.

Decides the bounds of a name. Whether there is such a conversation is the store's to say (SEC-002).
"""

import attrs

from triolet.kernel.runtime import Runtime
from triolet.ports.conversation_store import Address
from triolet.ports.errors import Misuse
from triolet.ports.identity import ConversationId, Principal


@attrs.define(kw_only=True)
class InvalidConversationId(Misuse):
    """A conversation's id has 1 to 200 characters."""

    length: int

    @property
    def message(self) -> str:
        """How long it is."""
        return f"a conversation's id has 1 to 200 characters, not {self.length}"


def address_for(runtime: Runtime, conversation: ConversationId | str | None, principal: Principal) -> Address:
    """The address of this conversation, or of a new one. Raises `InvalidConversationId`."""
    name = ConversationId(runtime.ids.new("conversation") if conversation is None else conversation)
    if not 0 < len(name) <= 200:
        raise InvalidConversationId(length=len(name))
    return Address(tenant=principal.tenant, conversation=name)
