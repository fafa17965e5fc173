"""The golden vectors are up to date, and say what they claim to an implementation that reads only the files."""

import json
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from triolet.kernel.machine.advance import fold
from triolet.kernel.machine.state import NEW
from triolet.kernel.machine.table import legal
from triolet.ports.batch import decode_batch, encode_batch
from triolet.ports.conversation_store import Tail, tail_after
from triolet.ports.errors import InvalidJson, InvalidValue
from triolet.ports.schema import codec_for
from triolet.spec_tests import log_vectors, reduction_vectors, schema_vectors


def loaded(path: Path) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(path.read_text(encoding="ascii"))
    return read


@pytest.mark.parametrize(
    "vectors", [reduction_vectors, schema_vectors, log_vectors], ids=lambda module: module.__name__
)
def test_vectors_are_up_to_date(vectors: Any) -> None:
    """If this fails on purpose: `python tools/make_generated.py`. A change of meaning is a new version of a family."""
    assert vectors.PATH.read_text(encoding="ascii") == vectors.rendered()


def test_schemas_accept_and_refuse_what_they_say() -> None:
    """Both by the project's codec and by a validator that knows the schema alone."""
    types = schema_vectors.types()
    for vector in loaded(schema_vectors.PATH)["schemas"]:
        codec = codec_for(types[vector["type"]])
        alone = jsonschema_rs.validator_for(vector["schema"])
        for accepted in vector["accepted"]:
            assert alone.is_valid(accepted["document"]), vector["type"]
            decoded = codec.decode(accepted["document"])
            assert codec.encode_text(decoded) == accepted["canonical"], vector["type"]
            assert codec.decode_text(accepted["canonical"]) == decoded, vector["type"]
        for document in vector["refused"]:
            assert not alone.is_valid(document), (vector["type"], document)
            with pytest.raises((InvalidValue, InvalidJson)):
                codec.decode(document)


def test_logs_fold_from_their_bytes() -> None:
    """Only the bytes are taken from the file; chain, state and what may happen next have to follow."""
    content = loaded(log_vectors.PATH)
    assert len(content["logs"]) >= 10
    for log in content["logs"]:
        state, tail = NEW, Tail()
        for row in log["batches"]:
            body = row["bytes"].encode()
            batch = decode_batch(body)
            assert encode_batch(batch) == body
            state, tail = fold(batch.records, state), tail_after(tail, body, len(batch.records))
            assert log_vectors.waits(state) == row["waits"]
            assert {"sequence": tail.sequence, "digest": tail.digest} == row["tail"]
            assert log_vectors.summary(state) == row["state"], log["name"]
            assert log_vectors.actions(state) == row["next"], log["name"]


def test_illegal_records_are_refused_where_the_file_says() -> None:
    content = loaded(log_vectors.PATH)
    logs = {log["name"]: log["batches"] for log in content["logs"]}
    assert content["refused"]
    for refusal in content["refused"]:
        before = [decode_batch(row["bytes"].encode()) for row in logs[refusal["log"]][: refusal["after"]]]
        state = fold(record for batch in before for record in batch.records)
        spelt = {"at": 0, "epoch": 1, "id": "probe", "run": None, "records": [refusal["record"]]}
        (record,) = decode_batch(json.dumps(spelt).encode()).records
        assert legal(state, record) is not None, refusal


def test_reductions_cover_both_answers_and_refusals() -> None:
    vectors = loaded(reduction_vectors.PATH)["reductions"]
    malformed = [vector for vector in vectors if "malformed" in vector]
    assert malformed
    assert len(vectors) > 2 * len(malformed)
    assert {part["part"] for vector in vectors for part in vector["parts"]} == set(reduction_vectors._NAMES.values())
