"""The suite of the ConversationStore port."""

from typing import Final

from triolet.spec_tests.cases.conversation_store.appending import APPENDING
from triolet.spec_tests.cases.conversation_store.owning import OWNING
from triolet.spec_tests.cases.conversation_store.reading import READING
from triolet.spec_tests.cases.conversation_store.setting import StoreSubject
from triolet.spec_tests.suite import Suite

__all__ = ["CONVERSATION_STORE", "StoreSubject"]

CONVERSATION_STORE: Final = Suite(
    port="conversation-store",
    version=1,
    subject=StoreSubject,
    verbs=(
        "append",
        "create",
        "delete",
        "inspect_tail",
        "list",
        "load_checkpoint",
        "open_writer",
        "read",
        "save_checkpoint",
    ),
    cases=(*APPENDING, *OWNING, *READING),
)
