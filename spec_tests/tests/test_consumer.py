"""A program that has only the wheel: it runs, and what it sees is what the README promises."""

import json
import os
import subprocess
import sys
from pathlib import Path

_PROGRAM = Path(__file__).parent.parent / "consumer" / "shop.py"


def test_a_program_on_the_wheel_alone(wheel: Path, tmp_path: Path) -> None:
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "install", "--quiet"]
    place = tmp_path / "site"
    subprocess.run([*pip, "--no-deps", "--no-index", "--target", str(place), str(wheel)], check=True)
    program = tmp_path / "shop.py"
    program.write_text(_PROGRAM.read_text(encoding="utf-8"), encoding="utf-8")
    where = "import json, triolet.kernel; print(json.dumps(triolet.kernel.__file__))"
    env = {**os.environ, "PYTHONPATH": str(place)}
    home = subprocess.run([sys.executable, "-c", where], env=env, cwd=tmp_path, capture_output=True, check=True)
    assert Path(json.loads(home.stdout)).is_relative_to(place)
    done = subprocess.run(
        [sys.executable, "-W", "error", str(program)],
        env=env,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["confirmed"] == {"article": "pen", "pieces": 2, "left": 1}
    assert report["calls"] == ["in_stock", "in_stock", "take"]
    assert json.loads(report["streamed"]) == report["confirmed"]
    assert report["terminal"] is True
    assert report["failed"] == "output-invalid"
    # order, 2 calls, results, call, result, answer; order, call, failure, then four answers with three corrections.
    assert report["messages"] == 6 + 3 + 4 + 3
