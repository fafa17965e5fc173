"""The tool pipeline, one module a stage: judge, permits, handler, settle.

Reduction comes before it and lies in the machine; the order of stages is the plan's, and the commits between
them are the interpreter's. Direct calls, delegation and programmatic calls all pass through here (CAP-003).
"""
