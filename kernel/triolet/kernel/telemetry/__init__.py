"""Telemetry: what a host's OpenTelemetry sees of a kernel, and what it never does (CAP-013, SEC-002, SEC-006).

`otel` alone imports the OpenTelemetry API. `ports` observes every operation of a bound port and `model` a model's
responses; `watch` observes runs, turns, calls and compactions; `described` and `content` say what is told of a value.
"""
