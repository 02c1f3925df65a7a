# Every target first makes .venv from the hashes in requirements.lock: with uv where it is installed, else with python3
# and pip, which fetches uv. It is made again when pyproject.toml or the lock changed. Without uv, `make PYTHON=python3.12 test` names the
# interpreter. `make lock` (with uv) writes the lock anew after a change of dependencies.

PYTHON ?= python3
BIN := .venv/bin
READY := .venv/ready

# The certificates that this machine trusts, also where a proxy of its own stands in between.
export UV_SYSTEM_CERTS := 1

# Tests start hundreds of processes; where no bytecode may be kept, each would compile all that it imports.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: bench chaos check clean demo eval format lint lock mypy pyright soak test test-local-model test-slow

check: lint
	$(BIN)/pytest -q -n 2 -m "not slow and not e2e"

lint: $(READY)
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/lint-imports
	@$(MAKE) --no-print-directory -j 2 mypy pyright

mypy pyright: $(READY)
	$(BIN)/$@

test: lint
	$(BIN)/pytest -n 3 -m "not slow" --cov

test-slow: $(READY)
	$(BIN)/pytest -m slow

# Real models on this machine; says first what it downloads. `make test-local-model MODEL=qwen GOALS=3 SECONDS=600`, or
# STEPRELAY_LOCAL_MODEL=/path/to/file.gguf. STEPRELAY_KEEP=FOLDER keeps what each run said.
test-local-model: $(READY)
	PYTHONPATH=.:tests/support $(BIN)/python -m tests.local_model $(if $(MODEL),--model $(MODEL)) \
		$(if $(GOALS),--goals $(GOALS)) $(if $(SECONDS),--seconds $(SECONDS))

# Some minutes on a machine that does nothing else; `make bench QUICK=1` is rough and takes one.
bench: $(READY)
	$(BIN)/python -m benchmarks $(if $(QUICK),--quick,--write)

# 55 goals over real tool servers with one model: `make eval MODEL=anthropic/claude-sonnet-4-6`, or CONFIG=steprelay.yaml;
# GOALS=needle,extension, REPEAT=3 and MORE="--resume --write" too. Without a model, a scripted one checks the kit itself.
eval: $(READY)
	$(BIN)/python -m benchmarks.evaluation $(if $(MODEL),--model $(MODEL)) $(if $(CONFIG),--config $(CONFIG)) \
		$(if $(GOALS),--goals $(GOALS)) $(if $(REPEAT),--repeat $(REPEAT)) $(MORE)

# 200 kills with one, two and three processes: `make chaos SEED=7 KILLS=50 PROCESSES=2`. What went wrong is kept.
chaos: $(READY)
	@state=$$(mktemp -d) && echo "state in $$state" && PYTHONPATH=.:tests/support \
		$(BIN)/python tests/support/chaos.py $$state $(if $(SEED),--seed $(SEED)) $(if $(KILLS),--kills $(KILLS)) \
		$(if $(PROCESSES),--processes $(PROCESSES)) && rm -r $$state

# 200 runs over 8 tool servers, one of which is killed every second: `make soak SEED=7 RUNS=1000 SERVERS=4`.
soak: $(READY)
	@state=$$(mktemp -d) && echo "state in $$state" && XDG_STATE_HOME=$$state/state PYTHONPATH=.:tests/support \
		$(BIN)/python tests/support/soak.py $$state $(if $(SEED),--seed $(SEED)) $(if $(RUNS),--runs $(RUNS)) \
		$(if $(SERVERS),--servers $(SERVERS)) && rm -r $$state

demo: $(READY)
	$(BIN)/steprelay demo --approve all

format: $(READY)
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

clean:
	rm -rf .venv .coverage .coverage.* .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache build dist htmlcov

lock:
	uv pip compile pyproject.toml --group dev --universal --generate-hashes --python-version 3.11 --quiet \
		--custom-compile-command "make lock" --output-file requirements.lock

$(READY): pyproject.toml requirements.lock
	@echo "setting up .venv, once and for some minutes" >&2
	@if command -v uv >/dev/null; then \
		uv venv --quiet --clear --python ">=3.11" .venv && \
		uv pip install --quiet --python $(BIN)/python --require-hashes -r requirements.lock && \
		uv pip install --quiet --python $(BIN)/python --no-deps --editable .; \
	else \
		$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("steprelay needs Python 3.11 or later: make PYTHON=python3.11 ...")' && \
		$(PYTHON) -m venv --clear .venv && \
		sed -n '/^uv==/,/^    #/p' requirements.lock > .venv/uv.lock && \
		$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r .venv/uv.lock && \
		$(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes -r requirements.lock && \
		$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --editable .; \
	fi
	@touch $@
