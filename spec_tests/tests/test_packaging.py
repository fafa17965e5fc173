"""What an application gets: the wheel's contents, a closed namespace, and a cheap, quiet import.

Everything here is tried in processes of their own, since this one has imported half the world already.
"""

import ast
import json
import os
import re
import statistics
import subprocess
import sys
import zipfile
from email.parser import BytesParser
from pathlib import Path

import pytest

_ROOT = Path(__file__).resolve().parents[2]
_PARTS = ("ports", "kernel", "adapters", "spec_tests")
_CORE = {"attrs", "jsonschema-rs", "opentelemetry-api", "orjson", "rfc8785", "trio", "typing-extensions"}

# What `import triolet.kernel` must not load: other event loops, servers, clients, databases, providers.
_UNWANTED = {
    "anthropic",
    "anyio",
    "apsw",
    "asyncio",
    "click",
    "http",
    "httpx",
    "httpx2",
    "mcp",
    "multiprocessing",
    "openai",
    "opentelemetry.sdk",
    "psycopg",
    "requests",
    "rich",
    "socketserver",
    "sqlite3",
    "triolet.adapters",
    "triolet.spec_tests",
    "trio_websocket",
    "urllib.request",
    "wasmtime",
    "wsgiref",
    "xllamacpp",
    "xmlrpc",
}

_IMPORTS_PER_SIDE = 10
_IMPORT_TIME_AT_MOST = 1.25  # times the import of the same dependencies without Triolet


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that holds the installed wheel and nothing else."""
    folder = tmp_path_factory.mktemp("installed")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input"]
    _run([*pip, "install", "--quiet", "--no-deps", "--no-index", "--target", str(folder), str(wheel)])
    return folder


def test_wheel_holds_the_sources_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if not name.startswith("triolet-0.1.0.dist-info/")}
    expected = {
        str(path.relative_to(_ROOT / part))
        for part in _PARTS
        for path in (_ROOT / part / "triolet").rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    assert names == expected | {"triolet/__init__.py"}
    assert {f"triolet/{part}/py.typed" for part in _PARTS} <= names


def test_wheel_closes_the_namespace_with_a_docstring_only(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        module = ast.parse(archive.read("triolet/__init__.py"))
    assert ast.get_docstring(module)
    assert len(module.body) == 1


def test_source_tree_leaves_the_namespace_open() -> None:
    assert [part for part in _PARTS if (_ROOT / part / "triolet" / "__init__.py").exists()] == []


def test_wheel_requires_the_core_and_no_more(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        metadata = BytesParser().parsebytes(archive.read("triolet-0.1.0.dist-info/METADATA"))
        scripts = archive.read("triolet-0.1.0.dist-info/entry_points.txt").decode()
    plain = [line for line in metadata.get_all("Requires-Dist", []) if "extra ==" not in line]
    assert {re.split(r"[^A-Za-z0-9-]", line)[0] for line in plain} == _CORE
    assert set(metadata.get_all("Provides-Extra", [])) >= {"cli", "local", "openai"}
    assert "triolet = triolet.adapters.cli.main:main" in scripts


def test_installed_parts_come_from_the_one_folder(installed: Path) -> None:
    code = "import importlib, json; print(json.dumps([importlib.import_module(n).__file__ for n in {names!r}]))"
    names = ["triolet", *(f"triolet.{part}" for part in _PARTS)]
    files = json.loads(_run([sys.executable, "-c", code.format(names=names)], PYTHONPATH=str(installed)))
    assert [Path(file).is_relative_to(installed) for file in files] == [True] * len(names)


def test_pytest_prepend_mode_keeps_the_namespace_whole(installed: Path, tmp_path: Path) -> None:
    """Collecting an installed part must not put its `triolet` folder itself on the path."""
    spy = "import sys\n\ndef pytest_unconfigure():\n    for entry in sys.path: print('PATH', entry)\n"
    (tmp_path / "spy.py").write_text(spy, encoding="utf-8")
    imports = "\n".join(f"import triolet.{part}" for part in _PARTS)
    (tmp_path / "test_user.py").write_text(f"{imports}\n\ndef test_it():\n    pass\n", encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "--import-mode=prepend", "-p", "spy", "-p", "no:cacheprovider"]
    command += ["--doctest-modules", str(installed / "triolet" / "ports" / "__init__.py"), "test_user.py"]
    output = _run(command, cwd=tmp_path, PYTHONPATH=os.pathsep.join([str(installed), str(tmp_path)]))
    path = [line.removeprefix("PATH ") for line in output.splitlines() if line.startswith("PATH ")]
    assert "1 passed" in output
    assert str(installed) in path
    assert str(installed / "triolet") not in path


def test_kernel_import_is_quiet() -> None:
    code = "import json, sys, triolet.kernel; print(json.dumps(sorted(sys.modules)))"
    loaded = set(json.loads(_run([sys.executable, "-I", "-W", "error", "-c", code])))
    assert "triolet.kernel" in loaded
    assert loaded & _UNWANTED == set()


def test_kernel_import_costs_little_more_than_its_dependencies(capsys: pytest.CaptureFixture[str]) -> None:
    """Against everything of third parties that the whole kernel loads; and what loading the whole kernel adds."""
    dependencies = _third_party_modules_of_the_kernel()
    assert {"trio", "attr", "orjson", "jsonschema_rs"} <= set(dependencies)
    package = f"importlib.import_module({'triolet.kernel'!r})"
    everything = f"k = {package}; [getattr(k, name) for name in k.__all__]"
    sides: dict[str, list[float]] = {"dependencies": [], "package": [], "everything": []}
    for _ in range(_IMPORTS_PER_SIDE):
        sides["dependencies"].append(_seconds(f"for name in {dependencies!r}: importlib.import_module(name)"))
        sides["package"].append(_seconds(package))
        sides["everything"].append(_seconds(everything))
    base, whole, full = (statistics.median(sides[side]) for side in ("dependencies", "package", "everything"))
    with capsys.disabled():
        print(
            f" [import {whole * 1000:.0f} ms; every name of it {full * 1000:.0f} ms;"
            f" dependencies {base * 1000:.0f} ms] ",
            end="",
        )
    assert whole <= _IMPORT_TIME_AT_MOST * base, f"{whole:.3f} s against {base:.3f} s for {dependencies}"


def _third_party_modules_of_the_kernel() -> list[str]:
    code = (
        "import json, sys\nbare = set(sys.modules)\nimport triolet.kernel as k\n"
        "[getattr(k, name) for name in k.__all__]\n"
        "own = sys.stdlib_module_names | {'triolet'}\n"
        "names = [n for n in sys.modules if n not in bare and n.split('.')[0] not in own]\n"
        # A module that is no file (cython_runtime and its like) cannot be imported by name.
        "specs = [(n, getattr(sys.modules[n], '__spec__', None)) for n in names]\n"
        "print(json.dumps([n for n, spec in specs if spec and spec.origin]))"
    )
    modules: list[str] = json.loads(_run([sys.executable, "-I", "-c", code]))
    return modules


def _seconds(statement: str) -> float:
    code = f"import importlib, time\nstarted = time.perf_counter()\n{statement}\nprint(time.perf_counter() - started)"
    return float(_run([sys.executable, "-I", "-c", code]))


def _run(command: list[str], cwd: Path = _ROOT, **variables: str) -> str:
    env = {**os.environ, **variables}
    result = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)
    assert result.returncode == 0, f"{command}\n{result.stdout}\n{result.stderr}"
    return result.stdout
