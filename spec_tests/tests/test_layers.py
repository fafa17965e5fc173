"""The import contracts hold for what they claim to: each of them is shown a violation here.

`make check` runs the contracts over the source itself. These tests run them over a small copy of the four
roots into which one forbidden import is written. The last tests hold what a contract cannot say: the
third-party modules that ports and kernel may import are a list of allowed ones.
"""

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

_ROOT = Path(__file__).resolve().parents[2]
_PARTS = ("ports", "kernel", "adapters", "spec_tests")
_LINES_AT_MOST = 400

_SOUND = {
    "ports/triolet/ports/words.py": "import attrs, orjson, jsonschema_rs, rfc8785\n",
    "kernel/triolet/kernel/_loop.py": "import trio, opentelemetry.trace, triolet.ports.words\n",
    "adapters/triolet/adapters/memory/__init__.py": "import triolet.ports.words\n",
    "adapters/triolet/adapters/cli/__init__.py": "",
    "adapters/triolet/adapters/cli/show.py": "import rich, triolet.adapters.memory\n",
    "adapters/triolet/adapters/cli/main.py": (
        "import click, triolet.adapters.cli.show\n"
        "from triolet.kernel import open_kernel\n"
        "from triolet.spec_tests import certify\n"
    ),
    "spec_tests/triolet/spec_tests/cases.py": "import triolet.kernel._loop, triolet.adapters.memory\n",
}

_VIOLATIONS = [
    ("The ports import nothing else", "ports/triolet/ports/bad.py", "import triolet.kernel"),
    ("The ports import nothing else", "ports/triolet/ports/bad.py", "from triolet.adapters.memory import x"),
    ("The kernel imports the ports only", "kernel/triolet/kernel/bad.py", "from triolet import adapters"),
    ("The kernel imports the ports only", "kernel/triolet/kernel/bad.py", "import triolet.spec_tests"),
    ("A driven adapter imports", "adapters/triolet/adapters/bad.py", "import triolet.kernel"),
    ("A driven adapter imports", "adapters/triolet/adapters/memory/bad.py", "import triolet.kernel._loop"),
    (
        "A driven adapter imports",
        "adapters/triolet/adapters/memory/bad.py",
        "import triolet.spec_tests.cases",
    ),
    ("A driven adapter imports", "adapters/triolet/adapters/cli/bad.py", "import triolet.kernel._loop"),
    (
        "Nothing imports the command line",
        "adapters/triolet/adapters/memory/bad.py",
        "import triolet.adapters.cli",
    ),
    (
        "Nothing imports the command line",
        "spec_tests/triolet/spec_tests/bad.py",
        "import triolet.adapters.cli.show",
    ),
    ("Ports and kernel reach nothing", "ports/triolet/ports/bad.py", "from time import monotonic"),
    ("Ports and kernel reach nothing", "kernel/triolet/kernel/bad.py", "def f():\n    import asyncio"),
    ("Ports and kernel reach nothing", "kernel/triolet/kernel/bad.py", "import httpx2"),
    (
        "The ports know no OpenTelemetry",
        "ports/triolet/ports/bad.py",
        "from opentelemetry import trace",
    ),
    ("No adapter and no case runs", "adapters/triolet/adapters/memory/bad.py", "import asyncio.events"),
]

_MAY_IMPORT = {
    "ports": {
        "attrs",
        "jsonschema_rs",
        "orjson",
        "rfc8785",
        "trio",
        "triolet",
        "typing_extensions",
    },
    "kernel": {"attrs", "opentelemetry", "trio", "triolet"},
}


@pytest.fixture
def miniature(tmp_path: Path) -> Path:
    """The four roots with one small module or two each, under the project's own contracts."""
    (tmp_path / "pyproject.toml").write_bytes((_ROOT / "pyproject.toml").read_bytes())
    for part in _PARTS:
        _write(tmp_path / part / "triolet" / part / "__init__.py", "")
    for name, code in _SOUND.items():
        _write(tmp_path / name, code)
    return tmp_path


def test_contracts_allow_the_intended_imports(miniature: Path) -> None:
    status, report = _lint_imports(miniature)
    assert status == 0, report


@pytest.mark.parametrize(("contract", "name", "code"), _VIOLATIONS)
def test_contracts_see_a_violation(miniature: Path, contract: str, name: str, code: str) -> None:
    _write(miniature / name, code + "\n")
    status, report = _lint_imports(miniature)
    assert status == 1, report
    broken = [line for line in report.splitlines() if line.endswith("BROKEN") or "BROKEN (" in line]
    assert len(broken) == 1, report
    assert broken[0].startswith(contract), report


@pytest.mark.parametrize("part", sorted(_MAY_IMPORT))
def test_third_party_imports_are_on_the_list(part: str) -> None:
    strangers = [
        f"{path.relative_to(_ROOT)}:{line}: {module}"
        for path in _modules(part)
        for line, module in _imports(path)
        if module.split(".")[0] not in _MAY_IMPORT[part] | sys.stdlib_module_names
    ]
    assert strangers == []


def test_one_kernel_module_knows_opentelemetry() -> None:
    users = {
        path.name
        for path in _modules("kernel")
        for _, module in _imports(path)
        if module.split(".")[0] == "opentelemetry"
    }
    assert len(users) <= 1, users


@pytest.mark.parametrize("part", _PARTS)
def test_no_module_outgrows_a_reader(part: str) -> None:
    long = {
        str(path.relative_to(_ROOT)): lines
        for path in _modules(part)
        if (lines := len(path.read_text(encoding="utf-8").splitlines())) > _LINES_AT_MOST
    }
    assert long == {}


def _write(path: Path, code: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(code, encoding="utf-8")


def _lint_imports(folder: Path) -> tuple[int, str]:
    # The miniature's roots come before the editable install's on the child's path, so they win.
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(str(folder / part) for part in _PARTS),
        "NO_COLOR": "1",
    }
    command = [str(Path(sys.executable).parent / "lint-imports"), "--no-cache"]
    result = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    return result.returncode, result.stdout + result.stderr


def _modules(part: str) -> list[Path]:
    modules = sorted((_ROOT / part / "triolet" / part).rglob("*.py"))
    assert modules, f"no module found under {part}"
    return modules


def _imports(path: Path) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.lineno, node.module
