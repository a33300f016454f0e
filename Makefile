# edgetrain: `make quickstart` sets everything up and characterises this machine; `make test` checks the code.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# The one place that names the CPU build of torch used where no torch is importable. Never used on a Jetson.
TORCH_VERSION := 2.13.0
# Processes that run the tests. Many tests wait for training processes of their own; more than cores disturbs timings.
JOBS ?= 2

.PHONY: help setup update quickstart test test-browser test-flower gallery docs check torture rehearse wheel format py38 clean
help:
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/'

setup: $(VENV)/.stamp ## build .venv with everything, so that .venv/bin/edgetrain works

$(VENV)/.stamp: pyproject.toml constraints.txt scripts/setup.sh
	@PYTHON=$(PYTHON) VENV=$(VENV) TORCH_VERSION=$(TORCH_VERSION) bash scripts/setup.sh
	@touch $@

update: setup ## renew constraints.txt with the newest versions that fit together
	@VENV=$(VENV) bash scripts/update.sh

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
	$(BIN)/python -m pytest tests -n $(JOBS) --dist loadfile --no-loadscope-reorder --ignore=tests/browser

$(VENV)/.browser: $(VENV)/.stamp scripts/browser.sh
	@VENV=$(VENV) bash scripts/browser.sh
	@touch $@

test-browser: $(VENV)/.browser ## pages in a real Chromium; skipped where none can be had
	$(BIN)/python -m pytest tests/browser -rs

test-flower: ## federated rounds on the oldest and newest Flower, each in a virtual environment of its own (minutes)
	@VENV=$(VENV) bash scripts/test_flower.sh

gallery: $(VENV)/.browser ## make docs/gallery: a small picture of a page of every kind
	PYTHONPATH=src:. $(BIN)/python scripts/gallery.py

docs: setup ## build the documentation site into site/
	@VENV=$(VENV) bash scripts/docs.sh

torture: setup ## the full counts; writes docs/results/torture.md with seed and duration
	$(BIN)/python benchmarks/torture.py

rehearse: ## boot an emulated AGX Orin with real kernel drivers and check edgetrain on it (root, half an hour)
	$(PYTHON) tools/rehearse/rehearse.py

wheel: setup ## build dist/*.whl
	@$(BIN)/python -m pip --disable-pip-version-check -qq wheel --no-deps -w dist .
	@ls dist/*.whl

format: setup ## format the code
	$(BIN)/ruff format src tests benchmarks
	$(BIN)/ruff check --fix src tests benchmarks

py38: setup ## train LeNet with a Python 3.8 and a torch for it, as on JetPack 5 (downloads about 2.5 GB once)
	@VENV=$(VENV) VENV38=$(VENV)38 bash scripts/py38.sh

clean: ## remove what setup built
	rm -rf $(VENV) $(VENV)38 $(VENV)-flower310 $(VENV)-flower311 build dist *.egg-info src/*.egg-info
