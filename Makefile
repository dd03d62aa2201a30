# Everything sets itself up: `make demo` and `make test` need only Python 3.11, pip and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
KERNELS := hatch_build.py build_kernels.py topdown/resources.py topdown/arrays.pxd \
	$(wildcard */*/kernels_*.py */*/*/kernels_*.py)
# Where tests write, if it has room: they wait for a disk 14,000 times (every charge is durable before its noise).
IN_MEMORY := $(shell [ -w /dev/shm ] && [ "$$(df -k --output=avail /dev/shm 2>/dev/null | tail -1)" -gt 4000000 ] && echo /dev/shm)
export PIP_DISABLE_PIP_VERSION_CHECK = 1

.PHONY: kernels demo test test-slow lint format bench docs wheel clean

demo: $(VENV)/.installed
	$(BIN)/topdown demo --out demo-release

test test-slow: export PYTHONDONTWRITEBYTECODE = # programs that tests start are not compiled each time
test test-slow: export TMPDIR := $(or $(IN_MEMORY),$(TMPDIR))
test: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -q -m "not slow" -n 2

test-slow: $(VENV)/.installed-dev
	TEST_DEPTH=4 $(BIN)/python -m pytest -q -m "slow or deep" -n 2

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.installed-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.installed-dev
	mkdir -p bench/results
	$(BIN)/python -m pytest bench -q -s -p no:cacheprovider --benchmark-json=bench/results/bench.json

docs: $(VENV)/.installed-dev
	$(BIN)/python docs/site/build.py --out site

wheel: $(VENV)/.installed-dev
	$(BIN)/python -m build --wheel

# The inner loops, compiled again after a change of their source; installing does it too.
kernels: $(VENV)/.installed-dev
	$(BIN)/python build_kernels.py

$(VENV)/.created:
	$(PYTHON) -m venv $(VENV)
	touch $@

# compileall: what is installed from a checkout is compiled once, as pip does with every other package.
$(VENV)/.installed: pyproject.toml $(KERNELS) $(VENV)/.created
	$(BIN)/pip install --quiet --editable .
	$(BIN)/python -m compileall -q topdown pgsr
	touch $@

$(VENV)/.installed-dev: pyproject.toml $(KERNELS) $(VENV)/.created
	$(BIN)/pip install --quiet --editable ".[dev,reference,gurobi]"
	$(BIN)/python -m compileall -q topdown pgsr
	touch $@ $(VENV)/.installed

clean:
	rm -rf $(VENV) dist site demo-release .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find topdown pgsr -name "*.so" -delete

# The wheel must work without the checkout: a fresh environment elsewhere runs the demo from it.
wheel-test: wheel
	rm -rf $(VENV)/wheel-test
	$(PYTHON) -m venv $(VENV)/wheel-test/env
	$(VENV)/wheel-test/env/bin/pip install --quiet dist/*.whl
	cd $(VENV)/wheel-test && env/bin/topdown demo --out demo-release && env/bin/topdown verify demo-release
.PHONY: wheel-test
