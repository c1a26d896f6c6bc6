# Every target uses .venv; `make install` creates it. PYTHON picks the interpreter: make install PYTHON=python3.12
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

.PHONY: help install quickstart test lint types check docs test-system test-stack clean

help:
	@echo "make quickstart   install, run sweeps/quickstart.yaml, print its Max LR table (under 2 minutes after installation)"
	@echo "make test         install and run the tests"
	@echo "make check        lint, types and tests"
	@echo "make docs         build the documentation into site/"
	@echo "make test-system  the tests that need Debian packages or root (see tests/system/packages.txt)"
	@echo "make test-stack   whole stacks: hosts in namespaces, docker-compose.yml, PostgreSQL, a browser (see tests/stack/packages.txt)"
	@echo "make install      create $(VENV) with keel_lab, its dependencies at the tested versions, and the test tools"
	@echo "make clean        remove $(VENV) and caches; results in keel-lab-store/ stay"

install: $(INSTALLED)

$(INSTALLED): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "keel_lab needs Python 3.11 or newer: make install PYTHON=python3.11" >&2; exit 1; }
	@echo "installing into $(VENV): some minutes, 2 GB"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[test]"
	@touch $@

quickstart: install
	$(BIN)/keel-lab run sweeps/quickstart.yaml

test: install
	$(BIN)/python -m pytest tests --ignore tests/system --ignore tests/stack

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: install
	$(BIN)/mypy

check: lint types test

docs: install
	$(BIN)/mkdocs build --strict

test-system: install
	$(BIN)/python -m pytest tests/system

test-stack: install
	$(BIN)/python -m pytest tests/stack

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
