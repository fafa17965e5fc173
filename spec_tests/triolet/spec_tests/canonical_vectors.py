"""Makes the golden vectors of canonical JSON, its digests and the digest chain: `vectors/canonical.json`.

Decides the cases. The results come from the `rfc8785` package and from `hashlib` used as the vectors' own notes
say, not from Triolet, so that they check it. An implementation in another language reads the file alone. Run as
``python -m triolet.spec_tests.canonical_vectors`` to write the file anew. (STORE-005)
"""

import hashlib
import json
from pathlib import Path
from typing import Any, Final

import rfc8785

PATH: Final = Path(__file__).parent / "vectors" / "canonical.json"

TAG: Final = "triolet/vector/1"

_NUMBERS: Final = (
    "[0, -0, -0.0, 1.0, 1e2, 0.1, -0.5, 4.50, 2e-3, 0.000001, 1e-7, 1e-27, 1E30, 1e21,"
    " 5e-324, 1.7976931348623157e308, 333333333.33333329, 9007199254740991, -9007199254740991]"
)

_ACCEPTED: Final = {
    "null": "null",
    "true": " true ",
    "empty object": "{ }",
    "empty list": "[\n]",
    "the example of RFC 8785, section 3.2.2": (
        '{\n  "numbers": [333333333.33333329, 1E30, 4.50,\n              2e-3, 0.000000000000000000000000001],\n'
        '  "string": "\\u20ac$\\u000F\\u000aA\'\\u0042\\u0022\\u005c\\\\\\"\\/",\n  "literals": [null, true, false]\n}'
    ),
    "the keys of RFC 8785, section 3.2.3": (
        '{"\\u20ac": "Euro Sign", "\\r": "Carriage Return", "\\ufb33": "Hebrew Letter Dalet With Dagesh",'
        ' "1": "One", "\\ud83d\\ude00": "Emoji: Grinning Face", "\\u0080": "Control",'
        ' "\\u00f6": "Latin Small Letter O With Diaeresis"}'
    ),
    "keys that UTF-8 and UTF-16 order differently": '{"\\uffff": 1, "\\ud800\\udc00": 2, "\\ue000": 3, "z": 4}',
    "keys whose order is by character, not by language": '{"b": 1, "B": 2, "a": 3, "": 4, "aa": 5, "é": 6, "e": 7}',
    "numbers": _NUMBERS,
    "every control character": '"' + "".join(f"\\u{code:04x}" for code in range(0x20)) + '\\u007f\\u2028"',
    "no normalisation": '["\\u0041\\u030a", "\\u00c5"]',
    "nesting": '{"b": [{"z": {}, "a": [[], [1, [2]]]}], "a": {"b": null, "a": false}}',
    "a record": '{"kind": "tool_settled", "turn": 3, "schema_version": 1, "call": "run-1/3/0", "ok": true}',
}

_REFUSED: Final = {
    "NaN": ('{"a": [1, NaN]}', "/a/1"),
    "infinity": ('{"a": -Infinity}', "/a"),
    "a number beyond a double": ("[1e400]", "/0"),
    "2^53": ('{"n": 9007199254740992}', "/n"),
    "-2^53": ("[-9007199254740992]", "/0"),
    "twenty digits": ('{"a": {"b": 12345678901234567890}}', "/a/b"),
    "thirty digits": ("[0, 123456789012345678901234567890]", "/1"),
    "2^53 as a float": ('{"n": 9007199254740992.0}', "/n"),
    "a whole number below 10^21": ("[0.5, 1e20]", "/1"),
    "a duplicate key": ('{"a": {"x": 1, "x": 2}}', "/a/x"),
    "a duplicate key behind an escape": ('{"a": 1, "\\u0061": "\\u003a"}', "/a"),
    "a lone high surrogate": ('["\\ud800"]', "/0"),
    "a lone low surrogate in a key": ('{"\\udc00": 1}', ""),
    "a trailing comma": ("[1, ]", "/1"),
    "content after the end": ("{} {}", ""),
    "a leading zero": ("[01]", "/0"),
    "single quotes": ("{'a': 1}", ""),
    "a raw control character": ('["\u0001"]', "/0"),
    "nothing": ("", ""),
}

_NOTES: Final = [
    "canonical: the RFC 8785 encoding of input, which is strict JSON.",
    "digest: 'sha256:' + hex(SHA-256('triolet' NUL tag NUL canonical)), all text as UTF-8.",
    "refused: input is not strict JSON; pointer (RFC 6901) names the first fault.",
    "chain: link = 'sha256:' + hex(SHA-256('triolet' NUL 'triolet/chain/1' NUL previous NUL sequence length body)).",
    "sequence, length (of body): unsigned 64-bit big-endian. previous: the link before as text; genesis is the first.",
    "genesis: the digest of no bytes under the tag 'triolet/genesis/1'.",
]


def build() -> dict[str, Any]:
    """The content of the file."""
    accepted: list[dict[str, str]] = []
    for name, text in _ACCEPTED.items():
        canonical = rfc8785.dumps(json.loads(text))
        accepted.append(
            {"name": name, "input": text, "canonical": canonical.decode(), "digest": _digest(TAG, canonical)}
        )
    genesis = _digest("triolet/genesis/1", b"")
    return {
        "notes": _NOTES,
        "tag": TAG,
        "accepted": accepted,
        "refused": [{"name": name, "input": text, "pointer": place} for name, (text, place) in _REFUSED.items()],
        "genesis": genesis,
        "chain": _chain(genesis, [case["canonical"] for case in accepted]),
    }


def rendered() -> str:
    """The file's text: escaped to ASCII, so that no editor or checkout changes it."""
    return json.dumps(build(), indent=1, ensure_ascii=True) + "\n"


def _digest(tag: str, body: bytes) -> str:
    return "sha256:" + hashlib.sha256(b"triolet\0" + tag.encode("ascii") + b"\0" + body).hexdigest()


def _chain(previous: str, bodies: list[str]) -> list[dict[str, Any]]:
    links: list[dict[str, Any]] = []
    for sequence, body in enumerate(bodies):
        raw = body.encode()
        place = previous.encode() + b"\0" + sequence.to_bytes(8, "big") + len(raw).to_bytes(8, "big")
        previous = _digest("triolet/chain/1", place + raw)
        links.append({"sequence": sequence, "body": body, "link": previous})
    return links


if __name__ == "__main__":
    PATH.write_text(rendered(), encoding="ascii")
