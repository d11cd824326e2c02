# Every target does its own set-up in .venv; nothing else is needed than Python 3.11 or later.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: install demo test lint types unit slow bench bench-full studies mutants docs docs-quick clean

# The command, with all it can read and draw: .venv/bin/steinpath fit FILE --target COLUMN
install: .venv/installed

demo: .venv/installed
	$(BIN)/steinpath demo --plot demo.png

test: lint types docs-quick unit

lint: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/ready
	$(BIN)/mypy

# A process per core, and one thread in each: small problems gain nothing from more.
unit: .venv/ready
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n auto --dist loadfile --no-loadscope-reorder

# Accuracy on the paper's model at its size, how far to trust it, and scikit-learn's checks of every
# estimator at its defaults: half an hour.
slow: .venv/ready
	$(BIN)/python -m pytest -q -m slow

# All peers in one run: small problems in two minutes, the paper's sizes in forty.
bench: .venv/ready
	$(BIN)/python benchmarks/bench.py

bench-full: .venv/ready
	$(BIN)/python benchmarks/bench.py --full --json benchmarks/results/bench.json

# The paper's experiments and more, small: each study in two minutes at most.
studies: .venv/ready
	$(BIN)/steinpath study all --quick

# Small changes to the numerical core, one at a time: do the tests notice? 3035 of them took 255 s
# on 16 cores, so about 17 minutes on four and 34 on two. It goes on where it was stopped, and
# mutants/summary.json has what no test noticed; docs/mutants.md says why.
mutants: .venv/ready
	$(BIN)/python -m pip install --quiet --editable '.[mutation]'
	$(BIN)/python tests/mutation/run_mutants.py

# Pages with the gallery's output, a minute and a half; docs-quick does not run the gallery. Warnings
# are errors, and nothing is fetched while building.
docs docs-quick: .venv/ready
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python -m sphinx -W --keep-going -q -b html \
	    $(if $(filter docs-quick,$@),-D plot_gallery=0) docs docs/_build/html
	@echo docs/_build/html/index.html

.venv/installed: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[all]'
	touch $@

.venv/ready: .venv/installed
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache mutants demo.png docs/_build docs/api docs/gallery
