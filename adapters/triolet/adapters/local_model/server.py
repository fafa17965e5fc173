"""The program of the process that serves the local model. Run as a script, by `process`; never imported.

It reads one line of JSON from standard input (the configuration, with a secret that must not show in a command line),
writes one line to standard output when the model can be asked (its address), and lives until standard input ends. That
end comes when the parent closes it or is gone, however the parent died; there is no other way to stop this server. It
listens on the loopback interface only and reaches for no network.
"""

import importlib
import json
import os
import signal
import sys
import threading
from typing import Any


def main() -> None:
    """Serve until standard input ends. What fails before that ends the process with a traceback."""
    # Ctrl-C reaches the whole terminal; when to stop is the parent's decision.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    config = json.loads(sys.stdin.buffer.readline())
    # Whatever else writes to standard output, its only reader must find nothing but the address there.
    announcement = os.dup(1)
    os.dup2(2, 1)
    watcher = threading.Thread(target=_leave_with_parent, daemon=True)
    watcher.start()
    server = _start(config)
    os.write(announcement, server.listening_address.encode() + b"\n")
    os.close(announcement)
    # The log was for failures of the start; nobody reads on, so it must not grow.
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    watcher.join()


def _start(config: "dict[str, Any]") -> Any:
    """Load the model, and serve it from threads of the library's own, which live as long as what is returned."""
    xllamacpp: Any = importlib.import_module("xllamacpp")  # it has no types
    params = xllamacpp.CommonParams()
    params.model.path = config["weights"]
    params.model_alias = [config["name"]]
    params.n_ctx = config["context_tokens"]
    params.cpuparams.n_threads = config["threads"]
    params.n_parallel = 1
    params.cache_ram_mib = config["cache_mib"]
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [config["key"]]
    params.use_jinja = True
    params.ui = False
    params.endpoint_slots = False
    params.verbosity = 1
    return xllamacpp.Server(params)


def _leave_with_parent() -> None:
    while os.read(0, 4096):
        pass
    os._exit(0)


if __name__ == "__main__":
    main()
