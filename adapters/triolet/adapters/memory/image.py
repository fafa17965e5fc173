"""A whole memory store as bytes, and back.

Decides the layout: a magic line with the version; for each conversation a canonical JSON header line, the packed log
and the checkpoint's body, whose sizes the header states; last, the SHA-256 of everything before. Loading follows
every chain of digests and never repairs. Batches are decoded when somebody reads them, so one conversation that only a
newer program can read does not shut out the others.
"""

import hashlib
from collections.abc import Iterable
from typing import Final, cast

import attrs

from triolet.adapters.memory.log import MemoryLog, Packed
from triolet.ports.canonical import Digest, encode
from triolet.ports.conversation_store import Address, Checkpoint, CorruptLog, Tail
from triolet.ports.errors import InvalidJson
from triolet.ports.identity import ConversationId, Epoch, Instant, SequenceNumber, TenantId
from triolet.ports.strict_json import JsonValue, parse

_MAGIC: Final = b"triolet memory conversations 1\n"
_SEAL_BYTES: Final = 32


def write_image(logs: Iterable[MemoryLog]) -> bytes:
    """All of these logs as one value. Live logs stay live."""
    chunks = [_MAGIC]
    for log in logs:
        packed = log.packed()
        mark = log.checkpoint
        checkpoint: JsonValue = None
        if mark is not None:
            checkpoint = {**_tail_json(mark.tail), "machine_version": mark.machine_version, "bytes": len(mark.body)}
        header: JsonValue = {
            "bytes": len(packed.body),
            "checkpoint": checkpoint,
            "conversation": log.address.conversation,
            "created_at": log.created_at,
            "epoch": log.epoch,
            "size": packed.size,
            "tail": _tail_json(log.tail),
            "tenant": log.address.tenant,
        }
        chunks += [encode(header), b"\n", packed.body, b"" if mark is None else mark.body]
    content = b"".join(chunks)
    return content + hashlib.sha256(content).digest()


def read_image(image: bytes) -> list[MemoryLog]:
    """The logs in `image`, packed and verified. Raises `CorruptLog`."""
    content, seal = image[:-_SEAL_BYTES], image[-_SEAL_BYTES:]
    if not content.startswith(_MAGIC):
        raise _damaged("it does not begin as an image of this version does")
    if hashlib.sha256(content).digest() != seal:
        # Before anything is believed: a header's epoch, for one, is sealed by nothing else.
        raise _damaged("its digest is another")
    reader = _Reader(content=content, position=len(_MAGIC))
    logs: list[MemoryLog] = []
    while reader.position < len(content):
        log = _read_log(reader)
        log.verify()
        logs.append(log)
    return logs


@attrs.define(kw_only=True)
class _Reader:
    content: bytes
    position: int

    def take(self, size: int) -> bytes:
        end = self.position + size
        if not self.position <= end <= len(self.content):
            raise _damaged("it is shorter than a header states")
        taken = self.content[self.position : end]
        self.position = end
        return taken

    def line(self) -> bytes:
        end = self.content.find(b"\n", self.position)
        if end < 0:
            raise _damaged("a header has no end")
        return self.take(end + 1 - self.position)[:-1]


def _read_log(reader: _Reader) -> MemoryLog:
    try:
        header = parse(reader.line())
    except InvalidJson as error:
        raise _damaged("a header is not JSON") from error
    match header:
        case {
            "bytes": int(size_packed),
            "checkpoint": mark,
            "conversation": str(conversation),
            "created_at": int(created_at),
            "epoch": int(epoch),
            "size": int(size),
            "tail": {"sequence": int(sequence), "digest": str(digest)},
            "tenant": str(tenant),
        }:
            log = MemoryLog(
                address=Address(tenant=TenantId(tenant), conversation=ConversationId(conversation)),
                epoch=Epoch(epoch),
                created_at=Instant(created_at),
                tail=_tail(sequence, digest),
                packed=Packed(body=reader.take(size_packed), size=size),
            )
        case _:
            raise _damaged("a header lacks a field, or holds another type")
    match mark:
        case None:
            pass
        case {"sequence": int(at), "digest": str(seal), "machine_version": int(version), "bytes": int(length)}:
            body = reader.take(length)
            log.checkpoint = Checkpoint(tail=_tail(at, seal), machine_version=version, body=body)
        case _:
            raise _damaged("a checkpoint's header lacks a field, or holds another type")
    return log


def _tail_json(tail: Tail) -> dict[str, JsonValue]:
    return {"sequence": cast("int", tail.sequence), "digest": cast("str", tail.digest)}


def _tail(sequence: int, digest: str) -> Tail:
    return Tail(sequence=SequenceNumber(sequence), digest=Digest(digest))


def _damaged(problem: str) -> CorruptLog:
    return CorruptLog(conversation="", sequence=0, problem=f"the image is damaged: {problem}")
