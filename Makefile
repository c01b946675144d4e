# Everything a clone needs: `make demo` and `make test` set themselves up.
# `make test TORCH=2.14.1` uses another torch, in an environment of its own.

PYTHON ?= python3
TORCH  ?= 2.13.0
VENV   := $(if $(filter 2.13.0,$(TORCH)),.venv,.venv-$(TORCH))
RUN    := $(VENV)/bin/python
PIP    := $(RUN) -m pip --disable-pip-version-check --quiet
NATIVE := CMakeLists.txt pyproject.toml $(shell find csrc -name '*.cpp' -o -name '*.h' -o -name 'CMakeLists.txt')

SECONDS ?= 60

.PHONY: demo bench bench-smoke bench-guards bench-backends bench-codec test test-slow test-pythons fuzz lint format clean

demo: $(VENV)/.built
	$(RUN) -m hotstart demo

# The warm load over 12, 24 and 48 layers; a quarter of an hour. `make bench BENCH_ARGS=--help`.
bench: $(VENV)/.built
	$(RUN) benchmarks/warm_load.py --json build/warm_load.json $(BENCH_ARGS)

bench-smoke: $(VENV)/.built
	$(RUN) benchmarks/warm_load.py --smoke
	$(RUN) benchmarks/guard_load.py --smoke

# The guards alone, over 12 to 96 layers, and the plot of docs/benchmarks.md; a quarter of an hour.
bench-guards: $(VENV)/.built
	$(PIP) install -r requirements-bench.txt -c constraints.txt
	$(RUN) benchmarks/guard_load.py --json build/guard_load.json --plot docs/guard-load.svg $(BENCH_ARGS)

# The compiled kernels alone.
bench-backends: $(VENV)/.built
	$(RUN) benchmarks/backend_load.py $(BENCH_ARGS)

test: $(VENV)/.built
	$(RUN) -m pytest $(PYTEST_ARGS)

test-slow: $(VENV)/.built
	$(RUN) -m pytest -m slow $(PYTEST_ARGS)

# The parts that need no torch, on every Python from 3.10 on that is on PATH or that pyenv has.
test-pythons:
	scripts/test-pythons tests/codec tests/container tests/hash

bench-codec: $(VENV)/.built
	$(RUN) -m pytest benchmarks/test_codec.py -s -q $(PYTEST_ARGS)

# Builds every fuzz target with the address and undefined-behaviour sanitizers and runs each.
fuzz: $(VENV)/.built
	PATH="$(abspath $(VENV))/bin:$$PATH" scripts/fuzz $(SECONDS)

lint: $(VENV)/.built
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/clang-format --dry-run -Werror $(filter %.cpp %.h,$(NATIVE))

format: $(VENV)/.built
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .
	$(VENV)/bin/clang-format -i $(filter %.cpp %.h,$(NATIVE))

$(VENV)/.deps: requirements-dev.txt constraints.txt
	test -x $(RUN) || $(PYTHON) -m venv $(VENV)
	$(PIP) install torch==$(TORCH)
	$(PIP) install -r requirements-dev.txt -c constraints.txt torch==$(TORCH)
	touch $@

# Editable, so Python edits need no rebuild; native edits rebuild incrementally in build/.
$(VENV)/.built: $(VENV)/.deps $(NATIVE)
	PATH="$(abspath $(VENV))/bin:$$PATH" $(PIP) install --no-build-isolation --no-deps -e . $(BUILD_ARGS)
	touch $@

clean:
	rm -rf build .venv .venv-*
