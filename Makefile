# GNU make. Needs Python 3.10 or newer and git; never root. `make` alone lists what there is.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.SUFFIXES:

# A folder that is made and deleted here. Somebody else's environment at this place is left alone.
VENV ?= .venv
PY = '$(VENV)/bin/python'

# A shell or a build tool may export HOST for reasons of its own, so only `make … HOST=name` counts.
HOST_FROM := $(origin HOST)
ifneq ($(HOST_FROM),command line)
HOST := local
endif

# Passed on to pytest as they stand.
ARGS ?=
TESTS ?= tests

# HOST goes through the environment: a quotation mark in it must reach the suite, not the shell.
export PYTHON OFFLINE HOST

# The runtime lock; the developers' lock includes it, so an environment that holds that one will do.
RUNTIME = @sh tools/venv.sh '$(VENV)' requirements.lock requirements-dev.lock
DEVELOP = @sh tools/venv.sh '$(VENV)' requirements-dev.lock

.PHONY: help
help: ## list the targets
	@echo 'usage: make TARGET [NAME=value …]'
	@echo
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/\1|\2/p' Makefile | while IFS='|' read -r name text; do \
		printf '  %-10s %s\n' "$$name" "$$text"; \
	done
	@echo
	@echo '  PYTHON=python3.12  the interpreter to make $(VENV) with, when it is made'
	@echo '  VENV=folder        another place for the environment'
	@echo '  OFFLINE=1          ask no package index; take the wheels of a bundle'

# make ends with 2 whatever the suite ended with, so the suite's own code is said in words.
.PHONY: preflight
preflight: ## check this machine: HOST=name of its profile, ARGS="more options of the suite"
	$(RUNTIME)
	@$(if $(filter command line,$(HOST_FROM)),,echo "preflight: no HOST=name on make's command line (one in the environment is not read): checking this machine as local, without a profile" >&2;)
	@$(PY) -m pytest preflight/ --host "$$HOST" $(ARGS); code=$$?; \
	if [ $$code -ne 0 ]; then \
		echo "preflight: the suite ended with exit code $$code (README, Exit codes)"; \
	fi; \
	exit $$code

.PHONY: bundle
bundle: ## pack checkout and wheels for a box without an index: BUNDLE_PYTHON=3.11 BUNDLE_ARCH=aarch64
	$(RUNTIME)
	@$(PY) tools/bundle.py \
		$(if $(BUNDLE_PYTHON),--python '$(BUNDLE_PYTHON)') $(if $(BUNDLE_ARCH),--arch '$(BUNDLE_ARCH)')

.PHONY: test
test: ## run the developers' tests: TESTS="files or folders", ARGS="options of pytest"
	$(DEVELOP)
	@$(PY) -m pytest -n auto --maxprocesses 4 --dist worksteal $(TESTS) $(ARGS)

# Kills, prefixes and garbage could go on without end; `test` tries a share of what this tries.
.PHONY: soak
soak: ## as test, with all kills, prefixes and rounds of garbage: an hour, before a release
	@SOAK=1 $(MAKE) test

.PHONY: lint
lint: ## ruff: rules and layout
	$(DEVELOP)
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .

.PHONY: types
types: ## mypy, strict
	$(DEVELOP)
	@$(PY) -m mypy

.PHONY: mutate
mutate: ## change the judges and see that the tests notice
	$(DEVELOP)
	@$(PY) tests/mutation/run.py $(ARGS)

# A release has to be a week old before a lock takes it: time for a poisoned one to be found out.
LOCK = uv pip compile pyproject.toml --universal --python-version 3.10 --generate-hashes \
	--exclude-newer '7 days' --no-emit-index-url --no-emit-find-links \
	--custom-compile-command 'make lock' --quiet $(UPGRADE)

.PHONY: lock
lock: ## solve the dependencies anew after a change (needs uv): UPGRADE=--upgrade for newer releases
	@command -v uv >/dev/null || { echo 'preflight: make lock needs uv on PATH (pip install uv)' >&2; exit 1; }
	$(LOCK) --output-file requirements.lock
	$(LOCK) --output-file requirements-dev.lock --group dev --constraint requirements.lock

.PHONY: clean
clean: ## delete what make made; ledgers and profiles stay
	@if [ -e '$(VENV)/made-by-preflight' ]; then rm -rf '$(VENV)'; fi
	@rm -rf '$(VENV).lock' '$(VENV).new' '$(VENV).old' dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
	@find . -name __pycache__ -type d -not -path './.venv*' -prune -exec rm -rf {} +
