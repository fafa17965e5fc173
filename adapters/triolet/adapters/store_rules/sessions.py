"""The rules of sessions: what may be kept, and that a change knows the revision that it changes.

Decides it for every store alike; where sessions are kept is the stores'. (STORE-005)
"""

import attrs

from triolet.ports.errors import Corrupt, InvalidJson, InvalidValue
from triolet.ports.identity import Instant
from triolet.ports.schema import codec_for
from triolet.ports.session_store import (
    MAX_METADATA_BYTES,
    Revision,
    Session,
    SessionConflict,
    SessionCreate,
    SessionPatch,
)
from triolet.ports.strict_json import JsonText, parse
from triolet.ports.text import require_clean


@attrs.define(kw_only=True)
class CorruptSession(Corrupt):
    """A stored session does not read as its schema says. It is never repaired by guessing."""

    @property
    def message(self) -> str:
        """Says so."""
        return "a stored session does not read as its schema says"


def begun(session: SessionCreate, now: Instant, known: Session | None = None) -> Session:
    """The session at its first revision, or the known one if that is the very same. Raises `SessionConflict`."""
    codec_for(SessionCreate).encode(session)
    for text, place in ((session.tenant, "tenant"), (session.id, "session")):
        require_clean(text, place)
    _check_metadata(session.metadata)
    made = Session(
        id=session.id,
        tenant=session.tenant,
        revision=Revision(1),
        title=session.title,
        conversations=session.conversations,
        schema_version=session.schema_version,
        metadata=session.metadata,
        created_at=now,
        updated_at=now,
    )
    if known is not None and made != known:
        raise SessionConflict(session=session.id, expected=0, actual=known.revision)
    return made


def changed(known: Session, patch: SessionPatch, expected: Revision, now: Instant) -> Session:
    """The session at its next revision. Raises `SessionConflict` and what is wrong with the patch."""
    codec_for(SessionPatch).encode(patch)
    if patch.metadata is not None:
        _check_metadata(patch.metadata)
        if patch.schema_version is None:
            problem = "comes with the schema version that it is written by"
            raise InvalidValue(subject="session", violations=(("/metadata", problem),))
    if known.revision != expected:
        raise SessionConflict(session=known.id, expected=expected, actual=known.revision)
    given = {
        field.name: value for field in attrs.fields(SessionPatch) if (value := getattr(patch, field.name)) is not None
    }
    return attrs.evolve(known, revision=Revision(known.revision + 1), updated_at=now, **given)


def written_session(session: Session) -> str:
    """A session as it is kept."""
    return codec_for(Session).encode_text(session)


def read_session(body: str) -> Session:
    """The session that was kept. Raises `CorruptSession`."""
    try:
        return codec_for(Session).decode_text(body)
    except (InvalidJson, InvalidValue) as error:
        raise CorruptSession from error


def _check_metadata(metadata: JsonText) -> None:
    if len(metadata.encode()) > MAX_METADATA_BYTES:
        problem = f"has more than {MAX_METADATA_BYTES} bytes"
        raise InvalidValue(subject="session", violations=(("/metadata", problem),))
    if not isinstance(parse(metadata), dict):
        raise InvalidValue(subject="session", violations=(("/metadata", "is no JSON object"),))
