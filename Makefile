# Everything that can be done here; each target does its own set-up in .venv.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check --quiet
JOBS   ?= 2

.DEFAULT_GOAL := help
.PHONY: help demo run test lint format proto proto-check matrix bench bench-smoke ci clean

help:  ## list the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(VENV)/.demo  ## a router on an embedded NATS server, requests, decisions, a dead letter
	$(BIN)/router demo

run: $(VENV)/.demo  ## serve on an embedded NATS server until Ctrl-C
	$(BIN)/router serve --embedded

test: $(VENV)/.dev  ## every test, on real servers that the tests start themselves
	$(BIN)/python -m pytest -n $(JOBS) --dist loadgroup

lint: $(VENV)/.dev proto-check  ## ruff, mypy --strict, import-linter, generated code is fresh
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

format: $(VENV)/.dev  ## let ruff write the code's form
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

proto: $(VENV)/.dev  ## generate router/contracts/pb from proto/
	$(BIN)/python proto/generate.py

proto-check: $(VENV)/.dev
	$(BIN)/python proto/generate.py --check

matrix: $(VENV)/.dev  ## the long kill tables
	$(BIN)/python -m pytest -n $(JOBS) -m matrix --override-ini timeout=900

bench: $(VENV)/.bench  ## throughput, latency and memory beside their yardsticks, in one run
	$(BIN)/python -m bench

bench-smoke: $(VENV)/.bench  ## one short round of the bench
	$(BIN)/python -m bench --smoke

ci: lint test  ## what CI runs

clean:  ## remove what the other targets made (not .router, the store of `make run`)
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis

# Each stamp is one set of extras, installed at the versions of constraints.txt.
$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) install -c constraints.txt -e '.[embedded]'
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) install -c constraints.txt -e '.[dev]'
	@touch $@

$(VENV)/.bench: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) install -c constraints.txt -e '.[bench]'
	@touch $@
