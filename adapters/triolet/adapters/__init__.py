"""The adapters: each implements ports with one outside thing."""
