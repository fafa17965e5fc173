# `make demo` and `make test` are complete by themselves: each sets up what it needs first.
# ARGS goes to the command that a target runs: make demo ARGS='--scripted'

PYTHON ?= $(shell command -v python3.11 || command -v python3)
ARGS ?=
SECONDS ?= 600
SEED ?=

.DEFAULT_GOAL := help
.PHONY: help venv demo test integration mutants soak sweep bench eval docs check clean

help:
	@echo "make demo    run an agent on a real folder, with a language model inside this machine"
	@echo "make test    run the tests"
	@echo "make integration  try it against servers that others wrote: sets up Node and npm packages in .node first"
	@echo "make mutants show which requirement is held by which deliberately wrong adapter or kernel"
	@echo "make bench   what things cost, beside what they may cost: a line of JSON a row (ARGS='--rows 1,3')"
	@echo "make eval    how much a summary keeps of what matters, by the model inside this machine (minutes)"
	@echo "make sweep   cancel work at every await of the kernel, and say how many there are (ARGS=--write pins them)"
	@echo "make soak    stop workers at random moments, over memory and real files, for a while (SECONDS=600 SEED=...)"
	@echo "make docs    write the generated files anew: coverage table, certificate schema, vectors"
	@echo "make check   format, lint, types (mypy, pyright), import layers, code blocks of the docs"
	@echo "make venv    only set up .venv (the targets above do it by themselves)"
	@echo "make clean   remove .venv and everything that the tools left"
	@echo "ARGS='...'   is handed on: make test ARGS='-k reducer -x'"

venv:
	@test -n "$(PYTHON)" || { echo "Python 3.11 is missing. Run: sudo apt-get install -y python3 python3-venv" >&2; exit 1; }
	@$(PYTHON) tools/make_venv.py

demo: venv
	@.venv/bin/triolet demo $(ARGS)

test: venv
	@.venv/bin/python -m pytest $(ARGS)

integration: venv
	@.venv/bin/python tools/make_node.py
	@.venv/bin/python -m pytest spec_tests/integration $(ARGS)

mutants: venv
	@.venv/bin/python -W error -m tests.mutants $(ARGS)

bench: venv
	@cd spec_tests && ../.venv/bin/python -m bench $(ARGS)

eval: venv
	@.venv/bin/python spec_tests/evaluation/compaction_quality.py $(ARGS)

# SECONDS of each kind; a seed that is printed can be given again.
soak: venv
	@cd spec_tests && ../.venv/bin/python -W error -m tests.durable_sweep --soak $(SECONDS) $(SEED)
	@cd spec_tests && ../.venv/bin/python -W error -m tests.sqlite_soak $(SECONDS) $(SEED)

sweep: venv
	@.venv/bin/python -W error -m tests.await_sweep $(ARGS)

docs: venv
	@.venv/bin/python tools/make_generated.py $(ARGS)

check: venv
	@.venv/bin/python tools/check.py $(ARGS)

clean:
	rm -rf .venv .node dist build __pycache__ .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find ports kernel adapters spec_tests tools -name __pycache__ -type d -prune -exec rm -rf {} +
