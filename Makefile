# Every target does its own set-up in .venv; nothing else is needed than Python 3.11 or later.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test lint types unit slow bench clean

demo: .venv/ready
	$(BIN)/steinpath demo --plot demo.png

test: lint types unit

lint: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/ready
	$(BIN)/mypy

unit: .venv/ready
	$(BIN)/python -m pytest -q

# The accuracy asked of the core on the paper's model, at its size: half an hour for each of eight pairs
# on two cores; minutes on a GPU, with torch installed and STEINPATH_DEVICE=cuda.
slow: .venv/ready
	$(BIN)/python -m pytest -q -m slow

bench: .venv/ready
	$(BIN)/python benchmarks/core.py

.venv/ready: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache demo.png
