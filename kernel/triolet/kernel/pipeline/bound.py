"""Bounding a result: what is larger than the run allows keeps its head, its tail, its size, and a way to the whole.

Decides the envelope that stands for an oversized result, once, where the call settles (RUN-022, SEC-013): a model
reads it, records and events hold it, and the whole value goes to the artifact store, redacted as it is. Whether the
store takes it or not, the call keeps its outcome. It looks into no value.
"""

from collections.abc import Awaitable, Callable
from typing import Final

import attrs
import trio

from triolet.ports.artifact_store import ArtifactHandle, ArtifactStore
from triolet.ports.canonical import encode_text
from triolet.ports.identity import TenantId
from triolet.ports.outcomes import Outcome, ToolFailure, ToolSuccess
from triolet.ports.strict_json import JsonText, JsonValue

KEEP_SECONDS: Final = 10.0
"""How long keeping a whole value may take; after that it is dropped, and the envelope says so."""
CONTENT_TYPE: Final = "application/json"

Keep = Callable[[JsonText], Awaitable[ArtifactHandle | None]]
"""Keeps a whole value, and says under which handle; None where it could not."""


def keeper(store: ArtifactStore | None, tenant: TenantId) -> Keep:
    """How whole values of this tenant are kept."""

    async def keep(text: JsonText) -> ArtifactHandle | None:
        if store is None:
            return None
        kept: ArtifactHandle | None = None
        # Shielded: the handler has done its work, and cancelling the run must not make that unknown.
        with trio.move_on_after(KEEP_SECONDS, shield=True):
            try:
                kept = await store.put(text.encode(), tenant=tenant, content_type=CONTENT_TYPE)
            except Exception:  # noqa: BLE001 -- the boundary of what a store may do to a call
                # The handler's effect has happened, and its outcome is not the store's to lose.
                return None
        return kept

    return keep


async def bounded(outcome: Outcome, limit: int, keep: Keep) -> Outcome:
    """The outcome with its value, or its failure's payload, in at most `limit` bytes."""
    if isinstance(outcome, ToolSuccess):
        size = _oversize(outcome.output, limit)
        if size is not None:
            return ToolSuccess(output=await _envelope(outcome.output, size, limit, keep), size=size)
    elif isinstance(outcome, ToolFailure):
        size = _oversize(outcome.payload, limit)
        if size is not None:
            return attrs.evolve(outcome, payload=await _envelope(outcome.payload, size, limit, keep))
    return outcome


def _oversize(text: JsonText, limit: int) -> int | None:
    if text.isascii():
        return len(text) if len(text) > limit else None
    # A character takes four bytes at most, so most texts need not be encoded to know that they fit.
    if 4 * len(text) <= limit:
        return None
    size = len(text.encode())
    return size if size > limit else None


async def _envelope(text: JsonText, size: int, limit: int, keep: Keep) -> JsonText:
    kept = await keep(text)
    envelope: dict[str, JsonValue] = {
        "cut": True,
        "head": "",
        "tail": "",
        "size": size,
        "artifact": None
        if kept is None
        # The type under which the same bytes were kept first may be any, and of any length: this one is known.
        else {"digest": kept.digest, "size": kept.size, "content_type": CONTENT_TYPE},
    }
    data = text.encode()
    # Escaping can double a byte inside the envelope, so each half gets a quarter of what is left.
    share = max(0, limit - len(encode_text(envelope))) // 4
    # Cutting inside a character drops that character, it never breaks it.
    envelope["head"] = data[:share].decode(errors="ignore")
    envelope["tail"] = data[len(data) - share :].decode(errors="ignore")
    return encode_text(envelope)
