"""The command line under which a guest's process runs.

Decides what that process can see: an interpreter, the libraries it links, wasmtime and the guest's driver, all
read-only; namespaces of its own for users, processes, network, hosts and messages; no capability and no environment.
"""

import os
import shutil
import sys
from pathlib import Path
from typing import Final

import wasmtime

import triolet.adapters.quickjs_guest as guest_package

PROGRAM: Final = "bwrap"
_APP: Final = "/app"
_LIBRARIES: Final = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/etc/ld.so.cache")
_START: Final = (
    "import sys; sys.path.insert(0, '{app}'); from triolet.adapters.quickjs_guest.serve import main; main({descriptor})"
)


def find_program() -> str | None:
    """Where bubblewrap is, or None."""
    return shutil.which(PROGRAM)


def child_command(program: str, descriptor: int) -> list[str]:
    """The command of one child; the compiled guest is open at `descriptor`."""
    prefix = str(Path(sys.base_prefix).resolve())
    shown = dict.fromkeys([*(path for path in _LIBRARIES if Path(path).exists()), prefix])
    binds = [part for path in shown for part in ("--ro-bind", path, path)]
    interpreter = Path(sys.executable).resolve()
    if not interpreter.is_relative_to(prefix):
        binds += ["--ro-bind", str(interpreter), str(interpreter)]
    (driver,) = guest_package.__path__
    engine = str(Path(wasmtime.__file__).parent)
    return [
        program,
        "--unshare-all",
        "--die-with-parent",
        "--new-session",
        "--cap-drop",
        "ALL",
        "--clearenv",
        *binds,
        *("--ro-bind", engine, f"{_APP}/wasmtime"),
        *("--ro-bind", os.path.realpath(driver), f"{_APP}/triolet/adapters/quickjs_guest"),
        *("--proc", "/proc"),
        *("--dev", "/dev"),
        *("--chdir", _APP),
        *("--remount-ro", "/"),
        "--",
        str(interpreter),
        *("-I", "-S", "-B", "-c", _START.format(app=_APP, descriptor=descriptor)),
    ]
