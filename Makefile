# Everything a developer calls. The first call sets up .venv, and system packages where they are missing (.ci/setup).

python := .venv/bin/python
# Whole files go to one worker, in the order of tests/conftest.py, so that what a file's fixtures have made is made once.
# One more than there are cores: tests wait for programs, and for time limits.
workers ?= $(shell expr $$(nproc 2>/dev/null || echo 2) + 1)
pytest = $(python) -m pytest -n $(workers) --dist loadfile --no-loadscope-reorder

.DEFAULT_GOAL := help
.PHONY: help demo test test-all golden docs checked lint warm format bench clean

help:  ## this list
	@sed -n 's/^\([a-z-]*\):.*  ## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 16

demo:  ## custom ops, from their configs to checked numbers on the real QNN CPU and HTP runtimes
	@.ci/setup demo
	@$(python) examples/demo.py

test: checked  ## ruff, mypy, and the tests that are not slow: 5 minutes on two cores
	$(pytest) -m "not slow"

test-all: checked  ## ruff, mypy, all tests: 30 minutes on two cores
	$(pytest) --hypothesis-profile all

golden:  ## write the trees under tests/golden anew; look at the difference before you commit it
	@.ci/setup test
	$(python) -m tests.golden

docs:  ## the documentation as a site; open dist/site/index.html
	@.ci/setup test
	$(python) -m mkdocs build -q -f docs/site/mkdocs.yml

checked:
	@.ci/setup test
	@$(MAKE) --no-print-directory --jobs=2 lint warm

lint:  ## ruff and mypy
	@.ci/setup test
	$(python) -m ruff check
	$(python) -m ruff format --check
	$(python) -m mypy

# What is compiled once and `make test` needs, before two workers wait for it; with the compilers of tests/conftest.py.
warm:
	PATH="/usr/lib/ccache:$$PATH" $(python) -m udogen doctor --warm hexagon,cpu-emulator,gpu-emulator,htp-emulator,watch

format:  ## what ruff can mend, mended
	@.ci/setup test
	$(python) -m ruff check --fix
	$(python) -m ruff format

bench:  ## the benchmarks, on a quiet machine
	@.ci/setup test
	$(python) -m pytest -q -s tests/bench

clean:  ## remove .venv, caches and dist
	rm -rf .venv dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .benchmarks
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
