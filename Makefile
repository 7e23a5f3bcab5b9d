# Two commands are enough: `make study` and `make test` do all of their own set-up.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --quiet --disable-pip-version-check --constraint constraints.txt
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help setup setup-dev study test check format bench clean

help:
	@echo "make study   install, then run the main study: four estimators under one asynchronous pipeline"
	@echo "make test    install what tests need, run them all"
	@echo "make check   ruff, mypy, import-linter"
	@echo "make bench   speed, as ratios within one run"
	@echo "make clean   remove the environment and caches; runs/ stays"
	@echo "ARGS='...' is handed on, as in: make study ARGS='--seeds 3'"

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "Python 3.11 or newer is needed; set PYTHON=/path/to/python3.11" >&2; exit 2; }
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.ready: pyproject.toml constraints.txt | $(BIN)/python
	@echo "installing PolicyLag into $(VENV) (once; torch is the large part)"
	@$(PIP) --editable .
	@touch $@

$(VENV)/.ready-dev: $(VENV)/.ready
	@echo "installing what tests and checks need into $(VENV) (once)"
	@$(PIP) --editable '.[dev]'
	@touch $@

setup: $(VENV)/.ready
setup-dev: $(VENV)/.ready-dev

study: setup
	@$(BIN)/policylag study quick $(ARGS)

test: setup-dev
	@$(BIN)/python -m pytest -n auto --maxprocesses 4 $(ARGS)

check: setup-dev
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

format: setup-dev
	@$(BIN)/ruff check --fix . ; $(BIN)/ruff format .

bench: setup-dev
	@$(BIN)/python -m benchmarks $(ARGS)

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
