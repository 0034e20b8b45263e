# `make demo` and `make test` do all of their own set-up.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
INSTALLING := installing (a minute or two; longer where torch comes with CUDA, see docs/start.md) ...
PYTEST := $(BIN)/python -m pytest -n auto

.PHONY: demo test test-all lint format results bench clean

demo: $(VENV)/.demo
	@$(BIN)/dragoman demo -o demo

test: lint
	$(PYTEST) -m "not slow"

test-all: lint
	$(PYTEST)

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# one row of docs/results.md, measured anew: make results ROW=multi30k-de-en-attention DATA=folder DEVICE=cpu
results: $(VENV)/.dev
	$(BIN)/python benchmarks/quality/run.py $(ROW) $(if $(DATA),--data $(DATA)) --device $(or $(DEVICE),cpu)
	$(BIN)/python benchmarks/quality/page.py

# docs/speed.md, measured anew: ours and the peers, one thread, in one run
bench: $(VENV)/.dev
	benchmarks/speed/peers.sh
	$(BIN)/python benchmarks/speed/bench.py
	$(BIN)/python benchmarks/speed/page.py

clean:
	rm -rf $(VENV) build dist demo demo-*

$(VENV)/.demo: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	@echo "$(INSTALLING)"
	@$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt -e '.[demo]'
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	@echo "$(INSTALLING)"
	@$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@
