# `make up` runs Countersign on embedded defaults; `make test` runs the tests. Both do all the set-up.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STATE ?= .countersign
PORT ?= 8321

.PHONY: up test lint fmt clean

$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	touch $@

$(VENV)/.installed-test: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[test]'
	touch $@

up: $(VENV)/.installed
	$(BIN)/countersign up --state-dir $(STATE) --port $(PORT)

test: $(VENV)/.installed-test lint
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n 3 --dist loadgroup

lint: $(VENV)/.installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

fmt: $(VENV)/.installed-test
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) build *.egg-info
