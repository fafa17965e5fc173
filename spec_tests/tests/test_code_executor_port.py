"""Requests, results, limits and errors of the CodeExecutor port are values with codecs (CAP-015)."""

import pickle
from typing import Any, cast

import attrs
import pytest

from triolet.adapters.code_pass.text import storable
from triolet.ports.code_executor import (
    MAX_BINDINGS,
    Binding,
    CannotKeep,
    CodeExecutionRequest,
    CodeExecutionResult,
    CodeLimits,
    ExecutorUnavailable,
    FailureEnvelope,
    HostCall,
    HostFailure,
    HostResult,
    LimitExceeded,
    ProgramInvalid,
    ProgramUnsettled,
    ResultUnusable,
    Returned,
    Spent,
    Threw,
)
from triolet.ports.errors import Misuse, TrioletError, Unavailable
from triolet.ports.schema import codec_for
from triolet.ports.strict_json import JsonText

SPENT = Spent(calls=2, cpu_seconds=0.5, wall_seconds=1.5)
ENVELOPE = FailureEnvelope(tag="failure", reason="declared", message="no", type="Gone", payload={"a": [1, None]})
VALUES: tuple[Any, ...] = (
    CodeLimits(),
    Binding(namespace="files", names=("read", "list")),
    CodeExecutionRequest(source="async () => 1", bindings=(Binding(namespace="a", names=("b",)),), untrusted=False),
    CodeExecutionResult(
        ending=Returned(value=JsonText("[1]")), logs="a\n", dropped=3, spent=SPENT, implementation="quickjs-wasm"
    ),
    CodeExecutionResult(ending=Threw(text="Error: é"), logs="", dropped=0, spent=SPENT, implementation="x"),
    HostCall(namespace="a", name="b", arguments=JsonText("{}")),
    HostResult(value=JsonText("null")),
    HostFailure(envelope=ENVELOPE),
)
ERRORS: tuple[TrioletError, ...] = (
    CannotKeep(implementation="x", problems=("memory",)),
    ProgramInvalid(problem="syntax", detail="unexpected"),
    LimitExceeded(limit="cpu-seconds", spent=SPENT, logs="a", dropped=1),
    ProgramUnsettled(spent=SPENT),
    ResultUnusable(detail="a cycle", spent=SPENT),
    ExecutorUnavailable(implementation="x", problem="missing"),
)


@pytest.mark.parametrize("value", [*VALUES, *ERRORS], ids=lambda value: type(value).__name__)
def test_values_go_through_their_codec(value: Any) -> None:
    codec = codec_for(type(value))
    text = codec.encode_text(value)
    again = codec.decode_text(text)
    assert codec.encode_text(again) == text
    assert attrs.asdict(again) == attrs.asdict(value)


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_errors_have_a_family_and_survive_pickling(error: TrioletError) -> None:
    assert isinstance(error, Misuse | Unavailable)
    assert attrs.asdict(pickle.loads(pickle.dumps(error))) == attrs.asdict(error)
    assert error.message


@pytest.mark.parametrize("field", [field.name for field in attrs.fields(CodeLimits)])
@pytest.mark.parametrize("wrong", [-1, 1e12, float("inf"), float("nan")])
def test_sec_013_no_limit_is_out_of_bounds(field: str, wrong: float) -> None:
    with pytest.raises(ValueError, match=field):
        attrs.evolve(CodeLimits(), **cast("dict[str, Any]", {field: wrong}))


@pytest.mark.parametrize("name", ["", "a-b", "1a", "a.b", "é", "a" * 101, "a b", "a\n"])
def test_a_binding_has_plain_names(name: str) -> None:
    with pytest.raises(ValueError, match="a name is"):
        Binding(namespace=name, names=())
    with pytest.raises(ValueError, match="a name is"):
        Binding(namespace="a", names=(name,))


def test_bindings_are_distinct_and_bounded() -> None:
    with pytest.raises(ValueError, match="distinct"):
        Binding(namespace="a", names=("b", "b"))
    with pytest.raises(ValueError, match="distinct"):
        Binding(namespace="a", names=tuple(f"n{n}" for n in range(MAX_BINDINGS + 1)))
    with pytest.raises(ValueError, match="distinct"):
        CodeExecutionRequest(source="", bindings=(Binding(namespace="a", names=()),) * 2)


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ('"a"', '"a"'),
        (r'"\ud800"', '"\ufffd"'),
        (r'"\\ud800"', r'"\\ud800"'),
        (r'"\\\udfff"', '"\\\\\ufffd"'),
        (r'"\u0000\u0001"', '"\ufffd\\u0001"'),
        (r'"\ud800\ud801"', '"\ufffd\ufffd"'),
    ],
)
def test_text_of_a_program_is_made_storable(text: str, stored: str) -> None:
    assert storable(text) == stored
