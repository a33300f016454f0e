# edgetrain: `make quickstart` sets everything up and characterises this machine; `make test` checks the code.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# The one place that names the CPU build of torch used where no torch is importable. Never used on a Jetson.
TORCH_VERSION := 2.13.0

.PHONY: help setup quickstart test check torture format clean
help:
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/'

setup: $(VENV)/.stamp ## build .venv with everything, so that .venv/bin/edgetrain works

$(VENV)/.stamp: pyproject.toml scripts/setup.sh
	@PYTHON=$(PYTHON) VENV=$(VENV) TORCH_VERSION=$(TORCH_VERSION) bash scripts/setup.sh
	@touch $@

quickstart: setup ## set up, characterise this machine, write a report (minutes, no root needed)
	@$(BIN)/edgetrain quickstart

check: setup ## format, lint, types, imports
	$(BIN)/ruff format --check src tests benchmarks
	$(BIN)/ruff check src tests benchmarks
	$(BIN)/mypy
	$(BIN)/lint-imports

$(VENV)/.trainers: $(VENV)/.stamp scripts/trainers.sh
	@VENV=$(VENV) bash scripts/trainers.sh
	@touch $@

test: check $(VENV)/.trainers ## check, then the tests with a seeded sample of the heavy ones
	$(BIN)/python -m pytest tests

torture: setup ## the full counts; writes docs/results/torture.md with seed and duration
	$(BIN)/python benchmarks/torture.py

format: setup ## rewrite the code in our format
	$(BIN)/ruff format src tests benchmarks
	$(BIN)/ruff check --fix src tests benchmarks

clean: ## remove what setup built
	rm -rf $(VENV) build *.egg-info src/*.egg-info
