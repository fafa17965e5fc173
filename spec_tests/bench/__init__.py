"""The bench: what things cost, beside what they may cost. `make bench` runs it."""
