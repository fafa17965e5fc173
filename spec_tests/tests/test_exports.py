"""What `triolet.kernel` exports: one list for readers, one for the loader, one for type checkers, all the same."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import triolet.kernel

_SOURCE = ast.parse(Path(triolet.kernel.__file__).read_text(encoding="utf-8"))


def _imported_for_type_checkers() -> dict[str, str]:
    guarded = next(node for node in _SOURCE.body if isinstance(node, ast.If))
    found: dict[str, str] = {}
    for node in guarded.body:
        assert isinstance(node, ast.ImportFrom)
        for alias in node.names:
            assert alias.name == alias.asname
            found[alias.name] = node.module or ""
    return found


def test_every_exported_name_is_what_its_module_says() -> None:
    for name, home in _imported_for_type_checkers().items():
        assert getattr(triolet.kernel, name) is getattr(sys.modules[home], name)


def test_the_lists_agree() -> None:
    assert sorted(triolet.kernel.__all__) == sorted(_imported_for_type_checkers())
    assert list(triolet.kernel.__all__) == sorted(triolet.kernel.__all__)
    assert set(triolet.kernel.__all__) <= set(dir(triolet.kernel))


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Kernal'"):
        _ = triolet.kernel.Kernal  # pyright: ignore[reportAttributeAccessIssue]


def test_importing_the_package_loads_nothing_of_it() -> None:
    code = "import sys, triolet.kernel; print([m for m in sys.modules if m.startswith('triolet.')])"
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['triolet.kernel']"
