"""QuickJS inside WebAssembly: the guest and how it is driven, step by step, in one thread.

Imports the standard library and wasmtime and nothing else, so that the same code runs in this process and in a
child process that can see nothing else.
"""
