# The commands of the project: `make help` lists them.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DEMO := tests/fixtures/1.20/demo/snapshot
PYTEST := $(BIN)/python -m pytest
# How many test files run side by side. Each may start a JVM of its own, and wait for it: three keep two cores busy.
JOBS ?= 3
export PATH := $(abspath $(VENV))/bin:$(PATH)
export PYSPARK_PYTHON := $(abspath $(BIN)/python)
export PYSPARK_DRIVER_PYTHON := $(PYSPARK_PYTHON)

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-fast test-spark test-flink test-docs lint format bench docs clean

help: ## this list
	@awk -F':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(STAMP) ## a virtual environment in .venv with everything in it

# Kernels are compiled once here, so that tests and Spark's workers find them in the cache.
$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	$(BIN)/stateproc inspect $(DEMO) > /dev/null
	$(BIN)/stateproc read $(DEMO) --uid orders-per-customer > /dev/null
	touch $@

demo: setup ## open a savepoint of a real job: catalog, values, maps, windows, timers, Kafka offsets
	$(BIN)/stateproc inspect $(DEMO) --uids orders-from-kafka,orders-per-customer,revenue-per-product
	$(BIN)/python notebooks/demo.py

# Files are handed out in this order: the long ones first, then many short ones to fill the gaps.
LAYERS := tests/integration/flink tests/docs tests/integration tests/robustness tests/unit

test: setup ## all tests
	$(PYTEST) -n $(JOBS) --dist loadfile --no-loadscope-reorder $(LAYERS)

test-fast: setup ## unit tests: no JVM, no Spark; of the fixtures one of each kind
	$(PYTEST) -n $(JOBS) --dist worksteal -m "not exhaustive" tests/unit

test-spark: setup ## the Spark data source, writing from DataFrames, and stores
	$(PYTEST) tests/integration/spark tests/integration/stores

test-flink: setup ## what real Flink restores and runs, and its RocksDB
	$(PYTEST) tests/integration/flink tests/integration/rocksdb

test-docs: setup ## every command and snippet of README and docs, the demo and the notebook
	$(PYTEST) tests/docs

lint: setup ## style, types, the order of the packages, the words
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy -p stateproc
	$(BIN)/lint-imports
	$(BIN)/python -m tests.helpers.wording

format: setup ## ruff puts the code in order
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: setup ## how fast it is on this machine
	$(BIN)/python -m benchmarks

docs: setup ## run the notebook, with its pictures, in place
	$(BIN)/python notebooks/execute.py

clean: ## remove the virtual environment and everything made
	rm -rf $(VENV) .cache .import_linter_cache build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache spark-warehouse
	find stateproc readers tests -name __pycache__ -type d -prune -exec rm -rf {} +
