"""Programs in QuickJS inside WebAssembly, in this process. Needs the extra ``code``."""

from triolet.adapters.quickjs_wasm.executor import QuickJsWasm, open_quickjs_wasm

__all__ = ["QuickJsWasm", "open_quickjs_wasm"]
