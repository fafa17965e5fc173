"""Programs in QuickJS inside WebAssembly inside a process under bubblewrap. Needs the extra ``code`` and ``bwrap``."""

from triolet.adapters.quickjs_wasm_sandboxed.executor import QuickJsWasmSandboxed, open_quickjs_wasm_sandboxed

__all__ = ["QuickJsWasmSandboxed", "open_quickjs_wasm_sandboxed"]
