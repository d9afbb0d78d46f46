# Everything that is done to this project. `make help` lists the targets.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
PYTEST := $(BIN)/python -m pytest
FAST := tests/core tests/transforms tests/numpy tests/nn tests/random tests/reference tests/interface tests/primitives \
	tests/cli/test_arguments.py tests/cli/test_highlighting.py tests/docs/test_document_links.py $(wildcard tests/test_*.py)

.PHONY: help install demo test test-fast lint types docs bench bench-page fuzz wheel examples clean record

help:  ## list the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(VENV)/installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[examples,dev]'
	@touch $@

install: $(VENV)/installed  ## make the environment in .venv

demo: install  ## a tour on real data: digits, gradients, a saved program
	$(BIN)/python examples/tour.py

test: install  ## lint, types, all tests, all examples in docstrings
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(PYTEST) -n $(JOBS) --dist loadgroup --no-loadscope-reorder
	PYTHONPATH=tests $(PYTEST) -p conftest -n $(JOBS) --doctest-modules frontend lowering runtime

test-fast: install  ## the tests that need no compiler: under a minute. One that loads it fails
	VEERY_TEST_NO_COMPILER=1 $(PYTEST) -n $(JOBS) -m "not compiler and not slow" --ignore-glob='*_compiled.py' $(FAST)

lint: install  ## ruff: faults, and the layout
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: install  ## mypy
	$(BIN)/mypy

docs: install  ## build the documents into build/docs: open build/docs/index.html
	$(BIN)/python -m pip install --quiet --editable '.[docs]'
	$(BIN)/python -m sphinx -W --keep-going -q -j $(JOBS) -d build/doctrees docs build/docs

bench: install  ## timings beside NumPy, and JAX if JAX_PYTHON names an interpreter that has it
	$(BIN)/python tests/bench/run.py $(if $(JAX_PYTHON),--jax-python $(JAX_PYTHON))
	$(BIN)/python tests/bench/beside.py $(if $(JAX_PYTHON),--jax-python $(JAX_PYTHON))

bench-page: install  ## the benchmark beside the JAX of JAX_PYTHON, as docs/benchmark.md with bars: 20 minutes
	mkdir -p build
	$(BIN)/python tests/bench/beside.py --jax-python $(or $(JAX_PYTHON),$(error JAX_PYTHON names an interpreter with JAX)) --json build/bench.json
	$(BIN)/python tests/bench/page.py build/bench.json --jax $$($(JAX_PYTHON) -c 'import jax; print(jax.__version__)')

record: install  ## compare what the tests recorded of JAX with the JAX of JAX_PYTHON, or WRITE=1
	@for script in tests/core/data tests/random tests/aot/data tests/interface tests/numpy tests/experimental tests/scipy tests/sharding; do \
	JAX_PLATFORMS=cpu PYTHONPATH=tests $(or $(JAX_PYTHON),$(error JAX_PYTHON names an interpreter with JAX 0.10.2)) \
	$$script/record.py $(if $(WRITE),,--check) || exit; done

fuzz: install  ## random programs against the reference: MINUTES=10 or COUNT=, SEED=(the date), TARGET=cpu|iree|vulkan|xla|cpu+xla|artifact, stablehlo[-iree|-vulkan|-xla] for modules, triples[-iree|-vulkan|-xla] of steps
	PYTHONPATH=tests $(BIN)/python -m fuzz --target $(or $(TARGET),cpu) \
	$(if $(COUNT),--count $(COUNT),--minutes $(or $(MINUTES),10)) \
	--jobs $(JOBS) $(if $(SEED),--seed $(SEED))

examples: install  ## run every example, with the libraries of examples/requirements.txt
	$(BIN)/python -m pip install --quiet --no-deps -r examples/requirements.txt
	@set -e; for example in examples/*.py; do echo "== $$example"; $(BIN)/python $$example; done
	@set -e; folder=$$(mktemp -d); trap 'rm -r "$$folder"' EXIT; \
	for script in deploy/train deploy/ask sentences/build sentences/ask; do echo "== examples/$$script.py"; \
	$(BIN)/python examples/$$script.py "$$folder"; done

wheel: install  ## build a wheel into dist/
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist .

clean:  ## remove the environment and everything built
	rm -rf $(VENV) build dist docs/reference/generated .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
