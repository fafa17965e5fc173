"""Offers: what somebody wants to say to a conversation that is busy, and why it may not be heard.

Decides an offer's form and bounds; whether it is admitted is the conversation's and the queue's. It puts nothing into
any history.
"""

import attrs

from triolet.kernel.run_request import check_size
from triolet.kernel.runtime import Runtime
from triolet.ports.admission import InputKind, Offer
from triolet.ports.errors import InvalidValue
from triolet.ports.identity import InputId, Principal
from triolet.ports.messages import Text
from triolet.ports.text import require_clean


@attrs.frozen(kw_only=True, weakref_slot=False)
class InputRefused:
    """The offer was not admitted, and why (STEER-001). Offering it again later may succeed."""

    offer: Offer
    reason: str


def offered(
    runtime: Runtime, kind: InputKind, text: str, principal: Principal, author: str | None, id_: str | None
) -> Offer:
    """An offer of `text` made now. Raises `BrokenText` and `InvalidValue`."""
    if not isinstance(text, str):
        raise InvalidValue(subject=kind, violations=(("", f"is {type(text).__name__}, not text"),))
    check_size(require_clean(text, kind), kind)
    name = runtime.ids.new("input") if id_ is None else require_clean(id_, "id")
    if not 0 < len(name) <= 200:
        raise InvalidValue(subject="id", violations=(("", "an id has 1 to 200 characters"),))
    return Offer(
        id=InputId(name),
        kind=kind,
        principal=principal,
        author=principal.name if author is None else require_clean(author, "author"),
        offered_at=runtime.clock.now(),
        parts=(Text(text=text),),
    )
