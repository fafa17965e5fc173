"""A language model inside this machine: SmolLM2-135M, served by llama.cpp in a child process.

Decides how the small model is set up: the json-schema protocol, because the server enforces schemas and the model knows
no tool calls; temperature 0 and a bounded answer, because it repeats itself otherwise. The shape of what it says is
guaranteed, its wisdom is not. At run time there is no network but the loopback interface, and no key to bring.
"""

import secrets
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from triolet.adapters.local_model.installed import WEIGHTS_NAME, find_weights, require_file, require_packages
from triolet.adapters.local_model.process import serving
from triolet.ports.language_model import LanguageModel, ModelSettings

if TYPE_CHECKING:
    from triolet.adapters.openai_compatible import JsonSchema

CAREFUL: Final = ModelSettings(temperature=0.0, max_output_tokens=512)
"""What a request's open settings mean here."""

_CACHE_MIB: Final = 64
"""Room for prompts beside the one in the context; the library's own default would take gigabytes."""


@asynccontextmanager
async def open_local_model(
    *,
    protocol: "JsonSchema | None" = None,
    defaults: ModelSettings = CAREFUL,
    weights: Path | None = None,
    context_tokens: int = 8192,
    threads: int = 2,
    start_timeout: float = 120.0,
) -> AsyncGenerator[LanguageModel, None]:
    """Start the model, and yield it once it can be asked: some seconds, and about 0.4 GB of memory.

    `protocol` carries worked examples, which a model this small needs in order to use tools sensibly. `weights` is
    another GGUF file in place of the installed one. `context_tokens` bounds prompt and answer together (SmolLM2 was
    trained for 8192). `threads` is how many processors it may keep busy. `start_timeout` is in seconds. The server
    answers one request at a time; others wait.

    Lifetime: one child process, ended on leaving and when this process dies. Emits nothing. Cancelling a stream stops
    the generation. Raises `LocalModelMissing` where something is not installed, with the command that installs it, and
    `LocalModelFailed` where the server does not start; otherwise as `LanguageModel`.
    """
    require_packages()
    file = find_weights() if weights is None else require_file(weights)
    # Not at the top: what is missing shall be said in one line, not by a failed import.
    from triolet.adapters.openai_compatible import JsonSchema, open_openai_compatible

    name = WEIGHTS_NAME if weights is None else weights.stem
    key = secrets.token_urlsafe(24)  # other users of this machine can reach the port, too
    config = {
        "weights": str(file),
        "name": name,
        "context_tokens": context_tokens,
        "threads": threads,
        "cache_mib": _CACHE_MIB,
        "key": key,
    }
    async with (
        serving(config, patience=start_timeout) as address,
        open_openai_compatible(
            base_url=f"{address}/v1",
            model=name,
            api_key=key,
            provider="local",
            protocol=JsonSchema() if protocol is None else protocol,
            defaults=defaults,
            use_environment=False,
        ) as model,
    ):
        yield model
