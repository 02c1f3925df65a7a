# Every target first makes .venv: with uv where it is installed, else with python3 and pip, which fetches uv. It is made
# again when pyproject.toml or uv.lock changed. Without uv, `make PYTHON=python3.12 test` names the interpreter.

PYTHON ?= python3
UV_VERSION := 0.13.9
BIN := .venv/bin
READY := .venv/ready

export UV_PROJECT_ENVIRONMENT := .venv
# The certificates that this machine trusts, also where a proxy of its own stands in between.
export UV_SYSTEM_CERTS := 1

.PHONY: check clean demo format lint test test-slow

check: lint
	$(BIN)/pytest -q -n 2 -m "not slow and not e2e"

lint: $(READY)
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/pyright
	$(BIN)/lint-imports

test: lint
	$(BIN)/pytest -n 3 -m "not slow" --cov

test-slow: $(READY)
	$(BIN)/pytest -m slow

demo: $(READY)
	$(BIN)/steprelay demo --approve all

format: $(READY)
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

clean:
	rm -rf .venv .coverage .coverage.* .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache build dist htmlcov

$(READY): pyproject.toml uv.lock
	@if command -v uv >/dev/null; then \
		uv sync --locked; \
	else \
		$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("steprelay needs Python 3.11 or later: make PYTHON=python3.11 ...")' && \
		$(PYTHON) -m venv .venv && \
		$(BIN)/pip install --quiet uv==$(UV_VERSION) && \
		$(BIN)/uv sync --locked --inexact --python $(BIN)/python; \
	fi
	@touch $@
