"""Code Mode: a model writes one program over an explicit list of tools, and it runs in a code executor.

One module each for how tools are called in a program (`identifiers`), how they are declared to a model
(`declarations`), what a program's calls become (`host`), what leaves a pass (`report`), and the
tool itself (`code_mode`).
"""
