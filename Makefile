# The commands of the project: `make help` lists them.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DEMO := tests/fixtures/1.20/demo/snapshot
PYTEST := $(BIN)/python -m pytest
LIBRARY := stateproc/codec/kernels-linux-$(shell uname -m).so
# Spark's classes, which the JVMs of tests map instead of loading them one by one.
SPARK_CLASSES := $(VENV)/spark-classes.jsa
KERNEL_SOURCES := tools/kernel_library.py tools/kernel_platforms.py tools/memory_functions.ll stateproc/codec/ops.py \
	$(shell grep -rlE '^@(kernel|inlined|exported)$$' stateproc readers writers --include=*.py)
# How many test files run side by side. Each may start a JVM of its own, and wait for it: three keep two cores busy.
JOBS ?= 3
export PATH := $(abspath $(VENV))/bin:$(PATH)
export PYSPARK_PYTHON := $(abspath $(BIN)/python)
export PYSPARK_DRIVER_PYTHON := $(PYSPARK_PYTHON)
# Some images set it: then every process, Spark's workers too, compiles all sources again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup kernels wheel wheels foreign-libraries test-wheels demo fuzz test test-numba test-fast test-spark test-flink test-acceptance test-cluster test-pyspark test-least test-newest test-pandas test-docs check-release lint format bench site docs clean

help: ## this list
	@awk -F':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(STAMP) kernels ## a virtual environment in .venv with everything in it, and the compiled kernels

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet 'setuptools>=77,<85'
	$(BIN)/python -m pip install --quiet --no-build-isolation --editable '.[dev]'
	touch $@

# Where no library can be built, numba compiles the kernels, here for tests and Spark's workers.
kernels: $(LIBRARY) ## compile the kernels ahead of time
$(LIBRARY): $(STAMP) $(KERNEL_SOURCES)
	$(BIN)/python -m tools.kernel_library
	$(BIN)/stateproc warmup

wheel: setup ## a wheel of this platform, with the compiled kernels, in dist
	rm -rf build
	$(BIN)/python -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist .

# All on this machine: LLVM and the linker make libraries for any platform.
WHEEL_PLATFORMS := linux-x86_64 linux-aarch64 darwin-aarch64 darwin-x86_64 win32-x86_64

wheels: setup ## wheels of all platforms and an sdist, in dist, and a look into their libraries
	mkdir -p .cache/kernels
	$(BIN)/python -m tools.kernel_library --required --reuse --platform all --folder .cache/kernels
	for platform in $(WHEEL_PLATFORMS); do rm -rf build; STATEPROC_WHEEL_PLATFORM=$$platform \
		$(BIN)/python -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist . || exit 1; done
	$(BIN)/python -m tools.check_wheels dist/*.whl
	$(BIN)/python -c "from tools.build_backend import build_sdist; print(build_sdist('dist'))"

# Files of Debian's packages for musl and ARM, which are not installed: Java's libraries look for an installed musl.
FOREIGN := apt-get -qq -o APT::Architectures::=amd64 -o APT::Architectures::=arm64

foreign-libraries:
	mkdir -p .cache/foreign
	$(FOREIGN) update
	cd .cache/foreign && $(FOREIGN) download musl:amd64 musl:arm64 libc6:arm64 && \
		for package in *.deb; do dpkg -x $$package $$(basename $${package##*_} .deb); done

test-wheels: setup ## installs in an empty environment, and the kernels of wheels for musl, Windows and ARM: needs Debian's wine64 and qemu-user-static; not part of make test
	mkdir -p .cache/kernels
	$(BIN)/python -m tools.kernel_library --required --reuse --platform all --folder .cache/kernels
	test -e .cache/foreign/arm64 || $(MAKE) foreign-libraries
	$(PYTEST) tests/platforms

demo: setup ## open a savepoint of a real job: catalog, values, maps, windows, timers, Kafka offsets
	$(BIN)/stateproc inspect $(DEMO) --uids orders-from-kafka,orders-per-customer,revenue-per-product
	$(BIN)/python -m tools.spark_demo

FAST_TESTS := not exhaustive and not sampled and not slow and not processes

# The long files first; tests/conftest.py spreads those that wait for JVMs among those that compute.
LAYERS := tests/integration/flink tests/docs tests/integration tests/robustness tests/unit

$(SPARK_CLASSES): $(STAMP)
	$(BIN)/python -m tests.helpers.spark.class_archive

test test-numba test-spark test-docs test-cluster: $(SPARK_CLASSES)

# Tests that call each kind of kernel: all run with the library, and the fast ones of these with numba, too.
KERNEL_TESTS := tests/unit/codec/encoding tests/unit/codec/test_vectorized_vm.py tests/unit/codec/test_nested_nulls.py \
	tests/unit/keygroups tests/unit/readers

# Numba compiles for half a minute, and its tests wait for nothing: they use what the JVMs of the other tests leave idle.
# Their output is shown at the end, and a failure of either part is one of `make test`.
NUMBA_OUTPUT := $(VENV)/kernel-tests.txt

test: setup ## all tests, and those of the kernels, codec and readers once more with numba forced
	@rm -f $(NUMBA_OUTPUT)
	@$(MAKE) --no-print-directory --jobs=2 test-layers test-kernels; status=$$?; cat $(NUMBA_OUTPUT); exit $$status

.PHONY: test-layers test-kernels
test-layers: $(SPARK_CLASSES)
	$(PYTEST) -n $(JOBS) --dist loadfile --no-loadscope-reorder $(LAYERS)

test-kernels:
	@{ STATEPROC_KERNELS=numba nice $(BIN)/stateproc warmup && \
		STATEPROC_KERNELS=numba nice $(PYTEST) -m "$(FAST_TESTS)" $(KERNEL_TESTS); } > $(NUMBA_OUTPUT) 2>&1

test-numba: setup ## all tests with kernels that numba compiles, as where the library does not fit
	STATEPROC_KERNELS=numba $(BIN)/stateproc warmup
	STATEPROC_KERNELS=numba $(PYTEST) -n $(JOBS) --dist loadfile --no-loadscope-reorder $(LAYERS)

test-fast: setup ## unit tests: no JVM, no Spark; of large sweeps one case of each kind
	$(PYTEST) -n auto --dist worksteal -m "$(FAST_TESTS)" tests/unit

test-spark: setup ## the Spark data source, writing from DataFrames, and stores
	$(PYTEST) tests/integration/spark tests/integration/stores

test-flink: setup ## what real Flink restores and runs, and its RocksDB
	$(PYTEST) tests/integration/flink tests/integration/rocksdb

test-cluster: setup ## a Spark standalone cluster: verbs, jobs, killed processes, faults, shipping; not part of make test
	$(PYTEST) tests/cluster

test-acceptance: setup ## every verb on every kind of snapshot in real Flink, a Kafka broker, kills; not part of make test
	$(PYTEST) tests/acceptance

# Of each target. Atheris has wheels for Python 3.10 to 3.13 on Linux.
FUZZ_SECONDS ?= 60

fuzz: setup ## all readers of bytes under inputs that reach more and more of them, FUZZ_SECONDS each; not part of make test
	$(BIN)/python -m pip install --quiet 'atheris>=2.3,<4'
	$(BIN)/python -m tests.fuzz --seconds $(FUZZ_SECONDS)
	$(BIN)/python -m tests.fuzz --compare

# What the unit tests import and no extra contains; not all of `dev`, in which pip would look for releases that fit those of s3fs.
TEST_TOOLS := pytest pytest-xdist hypothesis 'polars>=2' flask flask-cors selenium nbformat 'setuptools>=77' packaging lief
# An environment of its own, with programs of it first on the path.
in_venv = PATH=$(abspath $(1))/bin:$$PATH PYTHONPATH=$(CURDIR) PYSPARK_PYTHON=$(abspath $(1))/bin/python \
	PYSPARK_DRIVER_PYTHON=$(abspath $(1))/bin/python $(1)/bin/python

# Another release of PySpark in an environment of its own, with everything else of .venv.
PYSPARK ?= 4.1
PYSPARK_VENV := .cache/pyspark-$(PYSPARK)
PYSPARK_TESTS_3.5 := releases
PYSPARK_TESTS_4.0 := $(PYSPARK_TESTS_3.5) options metadata_tables sessions views change_feed change_stream
PYSPARK_TESTS_4.1 := $(PYSPARK_TESTS_4.0) data_source filters write rewrite transform write_windows verbs_in_spark jobs iceberg
# Iceberg has no runtime for later releases.
PYSPARK_TESTS_4.2 := $(filter-out iceberg,$(PYSPARK_TESTS_4.1))
PYSPARK_TESTS_4.3 := $(PYSPARK_TESTS_4.2)
PYSPARK_TESTS = $(or $(PYSPARK_TESTS_$(PYSPARK)),$(error PYSPARK is one of 3.5, 4.0, 4.1, 4.2 and 4.3))

test-pyspark: setup ## with another PySpark: make test-pyspark PYSPARK=4.3 (or 4.2, 4.1, 4.0, 3.5); not part of make test
	test -e $(PYSPARK_VENV)/.installed || $(BIN)/python -m venv $(PYSPARK_VENV)
	test -e $(PYSPARK_VENV)/.installed || $(PYSPARK_VENV)/bin/pip install --quiet 'pyspark==$(PYSPARK).*'
	$(BIN)/python -c "import sysconfig; print(sysconfig.get_path('purelib'))" > "$$($(PYSPARK_VENV)/bin/python \
		-c "import sysconfig; print(sysconfig.get_path('purelib'))")/everything_else.pth"
	touch $(PYSPARK_VENV)/.installed
	$(call in_venv,$(PYSPARK_VENV)) -m pytest $(PYSPARK_TESTS:%=tests/integration/spark/test_%.py)

# The oldest releases of dependencies that pyproject.toml allows, in an environment of their own.
LEAST_VENV := .cache/least-versions

test-least: setup ## unit tests of test-fast with the oldest dependencies that are allowed; not part of make test
	test -e $(LEAST_VENV)/.installed || $(PYTHON) -m venv $(LEAST_VENV)
	$(BIN)/python -m tools.least_versions > $(LEAST_VENV)/constraints.txt
	$(LEAST_VENV)/bin/pip install --quiet --constraint $(LEAST_VENV)/constraints.txt \
		--editable '.[sql,pandas,jit,spark,rocksdb,hdfs,delta,jobs]' $(TEST_TOOLS)
	touch $(LEAST_VENV)/.installed
	$(call in_venv,$(LEAST_VENV)) -m pytest -n auto --dist worksteal -m "$(FAST_TESTS)" tests/unit

NEWEST_VENV := .cache/newest-versions

test-newest: wheel ## unit tests of test-fast with the newest of all dependencies, and whether pyproject.toml allows them; not part of make test
	test -e $(NEWEST_VENV)/bin/python || $(PYTHON) -m venv $(NEWEST_VENV)
	$(BIN)/python -m tools.newest_versions > $(NEWEST_VENV)/requirements.txt
	$(NEWEST_VENV)/bin/pip install --quiet --upgrade --requirement $(NEWEST_VENV)/requirements.txt $(TEST_TOOLS)
	$(BIN)/python -m pytest tests/registry
	$(call in_venv,$(NEWEST_VENV)) -m pytest -n auto --dist worksteal -m "$(FAST_TESTS)" tests/unit

# PANDAS=2.2 with that release of pandas, and numba; without PANDAS neither is installed.
PANDAS ?= none
PANDAS_VENV := .cache/pandas-$(PANDAS)
# What is about the two packages, or imports them.
# The package is not installed there, nor a linker.
PANDAS_TESTS := --ignore=tests/unit/test_dependencies.py --ignore=tests/unit/tools/test_platform_libraries.py
PANDAS_TESTS += $(if $(filter none,$(PANDAS)),$(addprefix --ignore=tests/unit/,model/test_pandas_frames.py \
	writers/local/test_pandas_bootstrap.py cli/test_warmup.py tools/test_kernel_library.py $(addprefix codec/, \
	test_jit_cache.py test_jit_threads.py test_intrinsics.py test_kernel_library.py)))

test-pandas: setup ## unit tests of test-fast with PANDAS=2.2 (or another release), or without pandas and numba; not part of make test
	test -e $(PANDAS_VENV)/.installed || $(PYTHON) -m venv $(PANDAS_VENV)
	$(BIN)/python -m tools.newest_versions --without pandas,numba > $(PANDAS_VENV)/requirements.txt
	$(PANDAS_VENV)/bin/pip install --quiet --requirement $(PANDAS_VENV)/requirements.txt $(TEST_TOOLS) \
		$(if $(filter-out none,$(PANDAS)),'pandas==$(PANDAS).*' numba)
	touch $(PANDAS_VENV)/.installed
	$(call in_venv,$(PANDAS_VENV)) -m pytest -n auto --dist worksteal -m "$(FAST_TESTS)" $(PANDAS_TESTS) tests/unit

test-docs: setup ## every command and snippet of README and docs, the demo and the notebook
	$(PYTEST) tests/docs

# TAG=v0.1.0
check-release: setup ## whether version and changelog fit TAG; see RELEASING.md
	$(BIN)/python -m tools.check_release $(TAG)

lint: setup ## style, types, the order of the packages, the words, the workflows
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy -p stateproc -p tools -p tests
	$(BIN)/lint-imports
	$(BIN)/python -m tests.helpers.wording
	$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.dependabot .github/dependabot.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.github-issue-config .github/ISSUE_TEMPLATE/config.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.github-issue-forms $(filter-out %/config.yml,$(wildcard .github/ISSUE_TEMPLATE/*.yml))

format: setup ## ruff puts the code in order
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: setup ## how fast it is on this machine
	$(BIN)/python -m benchmarks

# The notice is about the future of mkdocs, whose version is pinned.
site: setup ## the documentation site, in build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "show it: python -m http.server --directory build/site"

docs: setup ## run the notebooks, with their pictures, in place
	$(BIN)/python -m tools.execute_notebooks

clean: ## remove the virtual environment and everything made
	rm -rf $(VENV) .cache .import_linter_cache build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache spark-warehouse
	rm -f stateproc/codec/kernels-*
	find stateproc readers writers tests -name __pycache__ -type d -prune -exec rm -rf {} +
