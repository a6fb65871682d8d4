# Every target sets up what it needs in .venv and says what it does. No root, no other set-up.
# PENSTOCK_PURE=1 in the environment runs the record codec interpreted instead of compiled.

PYTHON ?= python3
BIN := .venv/bin
# Tests start hundreds of processes, and each would compile the same sources again.
unexport PYTHONDONTWRITEBYTECODE
# It tells on each run that there is a newer one.
export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1
# Of the user, like the tests' caches: a fresh clone is checked as fast as an old one.
CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/penstock-tests
export MYPY_CACHE_DIR := $(CACHE)/mypy
export RUFF_CACHE_DIR := $(CACHE)/ruff
# Processes that run tests. Most of the time of most system tests is waiting: three times the cores.
WORKERS ?= 6
PARALLEL := --numprocesses $(WORKERS) --dist loadscope --durations 10
# What the unit tests leave out: clusters, crashes and shared groups from seeds, a few of each.
SIMULATIONS := tests/simulation/test_delivery_checkers.py \
	'tests/simulation/test_cluster.py::test_every_promise_is_kept[0]' \
	'tests/simulation/test_shares.py::test_every_promise_is_kept[0]'
CODEC := .venv/.codec-built
COMPILED := $(addprefix src/penstock/records/, cursor.py codec.py builder.py column_decoder.py \
	column_encoder.py selection.py _cursor.pxd _builder.pxd)

.DEFAULT_GOAL := help
.PHONY: help setup demo run check lint quick test soak sim mutations format bench bench-peers proto docs clean

help:  ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.venv/.packages: pyproject.toml setup.py
	@echo "==> Setting up .venv (Python packages; a minute the first time)"
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

$(CODEC): .venv/.packages $(COMPILED)
	@echo "==> Building the compiled codec (skipped where there is no C compiler)"
	@$(BIN)/python setup.py --quiet build_ext --inplace
	@touch $@

setup: $(CODEC)  ## Make .venv with the packages and the compiled codec

demo: setup  ## Publish, kill the broker, see that nothing is lost; then totals and a report by Spark
	@$(BIN)/penstock demo

run: setup  ## Start a broker on 127.0.0.1:9092 with its data in ./penstock-data
	@$(BIN)/penstock up

check: setup  ## Format, lint, types, layers, tidy, unit tests, fast simulations: under a minute
	@$(MAKE) --no-print-directory --jobs 2 --output-sync=target lint quick

lint: setup  ## Format, lint, types and layers alone
	@echo "==> Format and lint"
	@$(BIN)/ruff format --check --quiet . && $(BIN)/ruff check --quiet .
	@echo "==> Types"
	@$(BIN)/mypy
	@$(BIN)/pyright --pythonpath $(BIN)/python
	@echo "==> Layers"
	@$(BIN)/lint-imports --no-cache > .venv/layers.txt || (cat .venv/layers.txt; false)

quick: setup
	@echo "==> Tidy, unit tests and fast simulations"
	@$(BIN)/pytest tests/tidy tests/unit $(SIMULATIONS) $(PARALLEL) --numprocesses 3

test: setup  ## Every test, and a fifth of the long ones; SLICE=n says which
	@echo "==> All tests"
	@$(BIN)/pytest tests $(PARALLEL)

soak: setup  ## Every test and all of the long ones, longer: hours
	@echo "==> All tests, all of the long ones"
	@SOAK=1 SHARE_SEEDS=2000 $(BIN)/pytest tests $(PARALLEL)
	@$(MAKE) --no-print-directory sim SEEDS=5000

# Clusters to simulate in `make sim`, from seed FIRST on.
SEEDS ?= 1000
FIRST ?= 0

sim: setup  ## Simulate SEEDS=n clusters, each from a seed, and check what must hold
	@echo "==> $(SEEDS) simulated clusters"
	@$(BIN)/python -m tests.kit.simulation --processes $(WORKERS) \
		--seeds $(FIRST):$$(( $(FIRST) + $(SEEDS) ))

mutations: setup  ## Plant known bugs one at a time, and show what notices each: half an hour
	@echo "==> Known bugs"
	@$(BIN)/python -m tests.mutations --processes $(WORKERS)

format: setup  ## Format the code and mend what lint can mend
	@$(BIN)/ruff check --fix --quiet . ; $(BIN)/ruff format --quiet .

bench: setup  ## Measure and print one table; JSON goes to benchmarks/results
	@$(BIN)/python -m benchmarks

bench-peers: setup  ## The same beside Kafka, librdkafka, NATS and Redis, where they can be had
	-@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[peers]'
	@$(BIN)/python -m benchmarks --peers

proto: setup  ## Generate the protobuf module from its .proto
	@cd src && ../$(BIN)/python -m grpc_tools.protoc -I. --python_out=. --pyi_out=. penstock/protocol/penstock.proto

docs: setup  ## Write what is made from code into docs/kafka.md
	@$(BIN)/python -m tools.kafka_table

clean:  ## Remove .venv and everything built
	rm -rf .venv build dist src/*.egg-info .mypy_cache .ruff_cache .hypothesis
	find src -name '*.so' -delete
