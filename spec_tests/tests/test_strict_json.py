"""Strict JSON accepts exactly what an independent, slower reader accepts, and every refusal names its place."""

import json
import math
from collections.abc import Callable
from typing import Any

import attrs
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from triolet.ports.errors import InvalidJson
from triolet.ports.json_place import MAX_TOKENS
from triolet.ports.json_pointer import MAX_TOKEN, pointer
from triolet.ports.strict_json import (
    DEEPEST,
    MAX_INTEGER,
    JsonLimits,
    JsonValue,
    check,
    parse,
    parse_text,
)

Path = tuple[str | int, ...]

_scalars = (
    st.none()
    | st.booleans()
    | st.integers(-MAX_INTEGER, MAX_INTEGER)
    | st.floats(-1e15, 1e15)
    | st.text()
    # What the quick look could take for something else.
    | st.sampled_from([":", '":', '"\\', "\\u003a", "12345678901234567890", "3e8", "[{[{", "http://a:1/"])
)
_keys = st.text(max_size=3) | st.sampled_from(["a", "b", ":", '"', "a/b", "~"])
_documents = st.recursive(
    _scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_keys, inner, max_size=4), max_leaves=15
)


class NotStrict(Exception):
    """The independent reader's refusal."""


def slow_reader(data: bytes, limits: JsonLimits) -> Any:
    """Strict JSON by the standard library alone: every rule checked on every value, no short cut."""

    def integer(digits: str) -> int:
        if len(digits) > 20 or abs(int(digits)) > MAX_INTEGER:
            raise NotStrict("integer")
        return int(digits)

    def number(digits: str) -> float:
        value = float(digits)
        if math.isinf(value) or (value.is_integer() and MAX_INTEGER < abs(value) < 1e21):
            raise NotStrict("number")
        return value

    def constant(name: str) -> None:
        raise NotStrict(name)

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len({key for key, _ in pairs}) < len(pairs):
            raise NotStrict("duplicate")
        return dict(pairs)

    def walk(value: Any, depth: int) -> None:
        if isinstance(value, str):
            value.encode()
        elif isinstance(value, dict | list):
            if depth == limits.max_depth:
                raise NotStrict("depth")
            for key, child in value.items() if isinstance(value, dict) else enumerate(value):
                walk(key, depth + 1)
                walk(child, depth + 1)

    if len(data) > limits.max_bytes:
        raise NotStrict("size")
    try:
        value = json.loads(
            data.decode(), parse_int=integer, parse_float=number, parse_constant=constant, object_pairs_hook=unique
        )
        walk(value, 0)
    except (ValueError, RecursionError) as error:
        raise NotStrict(str(error)) from error
    return value


def same(one: object, other: object) -> bool:
    """Equal, and of the same types all the way down."""
    return repr(one) == repr(other)


def refusal(data: bytes | str, limits: JsonLimits | None = None) -> InvalidJson:
    with pytest.raises(InvalidJson) as caught:
        parse(data, limits or JsonLimits())
    return caught.value


_SCRAPS = [
    *(b"", b'"', b"\\", b",", b":", b"{", b"}", b"[", b"]", b"1", b"0", b"-", b"e9", b".", b" ", b"NaN", b"Infinity"),
    *(b"\\ud800", b"\\udc00", b"\\u003a", b"\x00", b"\xff", b"\xed\xa0\x80", b"9007199254740992", b"1e400", b'"a":1,'),
]


@st.composite
def texts(draw: st.DrawFn) -> bytes:
    """JSON in some layout, or what a few random edits leave of it."""
    text = json.dumps(
        draw(_documents),
        ensure_ascii=draw(st.booleans()),
        indent=draw(st.sampled_from([None, 1])),
        separators=draw(st.sampled_from([(",", ":"), (", ", ": "), (" ,", " :\t")])),
    ).encode("utf-8", "surrogatepass")
    scraps = st.sampled_from(_SCRAPS)
    for _ in range(draw(st.integers(0, 3))):
        start = draw(st.integers(0, len(text)))
        kept = draw(st.integers(start, min(len(text), start + 4)))
        text = text[:start] + draw(scraps) + text[kept:]
    return text


def test_it_accepts_exactly_what_the_slow_reader_accepts() -> None:
    verdicts = {True: 0, False: 0}

    @given(texts(), st.integers(1, 6))
    @settings(max_examples=1500)
    @example(b'{"a":1,"a":"\\u003a"}', 3)
    @example(b'{"a":1,"\\u0061":":"}', 3)
    @example(b'{"a":":","a":1, "b":2}', 3)
    @example(b"18446744073709551616", 3)
    @example(b"9007199254740992.0", 3)
    @example(b"[90071992547409920e-1]", 3)
    @example(b"[1E20]", 3)
    @example(b"1e21", 3)
    @example(b"-0", 3)
    def agree(data: bytes, depth: int) -> None:
        limits = JsonLimits(max_depth=depth)
        try:
            expected = slow_reader(data, limits)
        except NotStrict:
            verdicts[False] += 1
            error = refusal(data, limits)
            assert error.pointer is not None or error.offset is not None
        else:
            verdicts[True] += 1
            value = parse(data, limits)
            assert same(value, expected)
            check(value, limits)
            assert same(parse(data.decode(), limits), value)

    agree()
    share = verdicts[False] / sum(verdicts.values())
    print(f"refused {share:.0%} of {sum(verdicts.values())} texts")
    assert 0.15 < share < 0.85


@given(st.lists(st.tuples(_keys, _documents), max_size=8), st.data())
def test_a_duplicate_key_never_passes(pairs: list[tuple[str, JsonValue]], data: st.DataObject) -> None:
    def written(key: str) -> str:
        return json.dumps(key, ensure_ascii=data.draw(st.booleans())).replace(
            ":", data.draw(st.sampled_from([":", "\\u003a", "\\u003A"]))
        )

    text = "{" + ", ".join(f"{written(key)} : {json.dumps(value)}" for key, value in pairs) + "}"
    keys = [key for key, _ in pairs]
    if len(set(keys)) == len(keys):
        assert same(parse(text), dict(pairs))
    else:
        again = next(key for i, key in enumerate(keys) if key in keys[:i])
        assert refusal(text).pointer == pointer([again])


@st.composite
def planted(draw: st.DrawFn, fault: object) -> tuple[Any, Path]:
    """A document with `fault` somewhere in it, and where."""
    document: Any = fault
    path: Path = ()
    for _ in range(draw(st.integers(0, 5))):
        step: str | int
        if draw(st.booleans()):
            before = draw(st.lists(_scalars, max_size=2))
            document, step = [*before, document, *draw(st.lists(_scalars, max_size=2))], len(before)
        else:
            step = draw(_keys)
            document = {**draw(st.dictionaries(_keys, _scalars, max_size=2)), step: document}
        path = (step, *path)
    return document, path


_FAULTS: list[tuple[object, str]] = [
    (math.nan, "NaN"),
    (math.inf, "Infinity"),
    (-math.inf, "-Infinity"),
    (2**53, "9007199254740992"),
    (-(2**53), "-9007199254740992"),
    (10**19, "10000000000000000000"),
    (10**20, "100000000000000000000"),
    (10**21, "1000000000000000000000"),
    (-(10**22), "-10000000000000000000000"),
    (10**40, "1" + "0" * 40),
    (2.0**53, "9007199254740992.0"),
    ("\ud800", '"\\ud800"'),
]


@pytest.mark.parametrize(("fault", "text"), _FAULTS, ids=[text[:24] for _, text in _FAULTS])
def test_a_planted_fault_is_found_where_it_is(fault: object, text: str) -> None:
    @given(planted(fault), st.sampled_from([None, 1]))
    @settings(max_examples=50)
    def found(case: tuple[Any, Path], indent: int | None) -> None:
        document, path = case
        with pytest.raises(InvalidJson) as caught:
            check(document)
        assert caught.value.pointer == pointer(path)
        written = json.dumps(document, indent=indent, allow_nan=True)
        assert text in written
        assert refusal(written).pointer == pointer(path)

    found()


class Text(str):
    __slots__ = ()


class Number(int):
    pass


@pytest.mark.parametrize(
    "foreign",
    [(), (1,), {1}, frozenset(), b"x", bytearray(), Text("x"), Number(1), 1j, object(), print, range(2), JsonLimits()],
    ids=lambda foreign: type(foreign).__name__,
)
def test_only_exact_built_in_types_are_json(foreign: object) -> None:
    with pytest.raises(InvalidJson) as caught:
        check({"a": [0, foreign]})
    assert caught.value.pointer == "/a/1"
    assert type(foreign).__name__ in caught.value.problem


@pytest.mark.parametrize("key", [1, None, True, 1.5, (), Text("x"), b"x", "\ud800"])
def test_keys_are_plain_text(key: Any) -> None:
    with pytest.raises(InvalidJson) as caught:
        check([{"a": {key: 1}}])
    assert caught.value.pointer == "/0/a"


def nested(depth: int, wrap: Callable[[Any], Any], core: Any = 0) -> Any:
    for _ in range(depth):
        core = wrap(core)
    return core


@pytest.mark.parametrize("wrap", [lambda core: [core], lambda core: {"a": core}], ids=["list", "object"])
def test_a_python_value_as_deep_as_you_like(wrap: Callable[[Any], Any]) -> None:
    check(nested(128, wrap))
    for depth in (129, 10_000, 100_000):
        deep = nested(depth, wrap)
        with pytest.raises(InvalidJson) as caught:
            check(deep)
        assert caught.value.pointer is not None
        assert caught.value.pointer.count("/") == 128
        while isinstance(deep, list | dict):  # CPython frees deep nesting recursively, given the chance
            (deep,) = deep if isinstance(deep, list) else deep.values()


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}"), ('[{"a" : ', "}]")])
def test_a_text_as_deep_as_you_like(opening: str, closing: str) -> None:
    levels = opening.count("[") + opening.count("{")
    fits = 128 // levels
    parse(opening * fits + "0" + closing * fits)
    for times in (fits + 1, 300, 10_000, 1_000_000):
        error = refusal(opening * times + "0" + closing * times)
        assert error.problem == "nested deeper than 128 levels"
        assert error.pointer is not None
        assert error.pointer.count("/") == 128


def test_brackets_in_strings_are_not_depth() -> None:
    text = json.dumps({"a": "[{" * 1000, "b": [[]] * 300})
    assert parse(text) == json.loads(text)
    assert refusal(text, JsonLimits(max_depth=2)).pointer == "/b/0"


def test_a_value_that_holds_itself_ends() -> None:
    loop: list[Any] = []
    loop.append({"a": loop})
    with pytest.raises(InvalidJson):
        check(loop)


def test_a_small_value_that_unfolds_into_a_huge_one_ends() -> None:
    bomb: Any = "x"
    for _ in range(22):
        bomb = [bomb, bomb]
    with pytest.raises(InvalidJson) as caught:
        check(bomb, JsonLimits(max_bytes=100_000))
    assert "more than the limit" in caught.value.problem
    shared = "x" * 1000
    check([shared] * 90, JsonLimits(max_bytes=100_000))
    with pytest.raises(InvalidJson):
        check([shared] * 110, JsonLimits(max_bytes=100_000))


@given(_documents)
def test_the_size_of_a_value_is_never_overestimated(value: JsonValue) -> None:
    check(
        value, JsonLimits(max_bytes=max(1, len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode())))
    )


def test_large_strings() -> None:
    large = "x" * 10_000_000
    assert parse(f'["{large}"]') == [large]
    check([large])
    assert refusal(f'{{"a": "{large}", "a": 1}}').pointer == "/a"
    assert refusal(f'{{"b": "{large}", "c": [NaN]}}').pointer == "/c/0"
    assert refusal(f'{{"{large}": NaN}}').pointer == "/" + "x" * MAX_TOKEN + "…"
    error = refusal(f'["{large}{large}"]')
    assert error.pointer == ""
    assert error.problem == "20000004 bytes, where 16777216 are allowed"
    assert len(str(error)) < 200


def test_size_is_counted_in_bytes() -> None:
    assert parse('"ééé"', JsonLimits(max_bytes=8)) == "ééé"
    assert refusal('"éééé"', JsonLimits(max_bytes=8)).problem.startswith("10 bytes")


def test_a_fault_behind_very_many_tokens_has_an_offset() -> None:
    data = b"[" + b"1," * MAX_TOKENS + b"x]"
    assert refusal(data).offset == data.index(b"x")
    wide = b"[" + "é,".encode() * 0 + b'"\xc3\xa9",' * MAX_TOKENS + b"x]"
    assert refusal(wide).offset == wide.index(b"x")


def test_a_lone_surrogate_in_a_str_has_an_offset() -> None:
    assert refusal('{"é": "\ud800"}').offset == len('{"é": "'.encode())


@pytest.mark.parametrize(
    ("text", "place", "problem"),
    [
        ("", "", "the document ends where a value is expected"),
        ("nul", "", "not a JSON value"),
        ("{'a': 1}", "", "a key in double quotes is missing"),
        ('{"a": 1,}', "", "a key in double quotes is missing"),
        ('{"a" 1}', "/a", "a colon is missing after the key"),
        ('{"a": [1 2]}', "/a", "a comma or the closing bracket is missing"),
        ('{"a": [1, 2', "/a", "a comma or the closing bracket is missing"),
        ('{"a": "b', "/a", "a string that does not end, or a bad escape or control character in it"),
        ('{"a": "\t"}', "/a", "a string that does not end, or a bad escape or control character in it"),
        ('{"a": "\\x"}', "/a", "a string that does not end, or a bad escape or control character in it"),
        ('{"a": 01}', "/a", "a malformed number"),
        ('{"a": 1.}', "/a", "a malformed number"),
        ('{"a": +1}', "/a", "not a JSON value"),
        ("[] []", "", "content after the end of the document"),
        ("\ufeff[]", "", "not a JSON value"),
        ('{"a/b~c": {"": [0, nan]}}', "/a~1b~0c//1", "not a JSON value"),
    ],
)
def test_problems_and_places(text: str, place: str, problem: str) -> None:
    error = refusal(text)
    assert (error.pointer, error.problem) == (place, problem)


def test_no_value_is_repeated_in_an_error() -> None:
    marker = "m4rk3r"
    texts = [f'["{marker}', f'"{marker}\\ud800"', f"[{marker}]", f'"{marker}" 1', f'{{"a": "{marker}", "a": 1}}']
    for text in texts:
        error = refusal(text)
        assert marker not in str(error) + repr(error)
        assert error.__cause__ is None
        assert error.__suppress_context__
    for value in ([marker + "\ud800"], {marker}, [Text(marker)]):
        with pytest.raises(InvalidJson) as caught:
            check(value)
        assert marker not in str(caught.value) + repr(caught.value)


def test_verified_text_is_kept_as_it_came() -> None:
    text = ' {"b": 1.0, "a": "\\u0041"}\n'
    assert parse_text(text) is text
    with pytest.raises(InvalidJson):
        parse_text("{")


@pytest.mark.parametrize(
    "make",
    [
        lambda: JsonLimits(max_bytes=0),
        lambda: JsonLimits(max_depth=0),
        lambda: JsonLimits(max_depth=DEEPEST + 1),
        lambda: attrs.evolve(JsonLimits(), max_depth=-1),
    ],
)
def test_limits_are_limited(make: Callable[[], JsonLimits]) -> None:
    with pytest.raises(ValueError, match="max_"):
        make()


@given(st.lists(st.text(st.characters(exclude_categories=()), max_size=8) | st.integers(0, 99), max_size=4))
def test_a_pointer_leads_back_to_its_path(path: list[str | int]) -> None:
    text = pointer(path)
    assert text.isprintable()
    if all(isinstance(step, int) or step.isprintable() for step in path):
        steps = [step.replace("~1", "/").replace("~0", "~") for step in text.split("/")[1:]]
        assert steps == [str(step) for step in path]
