# Each target sets up what it needs in .venv. The only requirement is Python 3.11 or later.
PYTHON ?= python3
BIN := .venv/bin
# One process per core with one thread each: more threads do not speed up small problems.
THREADS := OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1
PARALLEL := -q -n auto --dist loadfile --no-loadscope-reorder

.PHONY: install demo test check lint types unit slow bench bench-full studies docs docs-quick \
    dist links coverage properties fuzz kills mutants oldest newest clean

# The command with all extras: .venv/bin/steinpath fit FILE --target COLUMN
install: .venv/installed

demo: .venv/installed
	$(BIN)/steinpath demo --plot demo.png

# What each of the first four does takes one core; the tests take all of them.
test: .venv/ready
	$(MAKE) --no-print-directory --jobs=2 --output-sync=target lint types docs-quick dist
	$(MAKE) --no-print-directory unit

# Quick tests, less than two minutes on two cores: the numerical core and the estimators, a few cases
# of each test, NumPy only.
check: lint types
	$(THREADS) $(BIN)/python -m pytest $(PARALLEL) --quick -k 'not check_estimator and not memory_stays' \
	    $(addprefix tests/,problem design algorithms engine risk support estimators test_tuning.py)

lint: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python tools/layers.py

types: .venv/ready
	$(BIN)/mypy

# At most 5 cases of each test, without the longest; all of them with `make slow`.
unit: .venv/ready
	$(THREADS) $(BIN)/python -m pytest $(PARALLEL) --thin

# Accuracy on the paper's model at full size, reliability of the estimates, scikit-learn's estimator
# checks with default parameters, and all cases of all other tests: about 45 minutes.
slow: .venv/ready
	$(BIN)/python -m pytest -q -m slow
	$(THREADS) $(BIN)/python -m pytest $(PARALLEL)

# Comparison with other methods: small problems in two minutes, the paper's sizes in an hour. Other
# packages are included if installed: .venv/bin/pip install '.[bench]'
bench: .venv/ready
	$(BIN)/python -m benchmarks.peers.bench

bench-full: .venv/ready
	$(BIN)/python -m benchmarks.peers.bench --full --json benchmarks/results/bench.json

# All studies with small sizes: at most two minutes each.
studies: .venv/ready
	$(BIN)/steinpath study all --quick

# ----- Run by hand: evidence for docs/guarantees.md, in addition to `make test` -----

# Branch coverage of src/ by the tests, including subprocesses.
coverage: .venv/ready
	$(BIN)/python -m coverage erase
	$(THREADS) $(BIN)/python -m coverage run -m pytest $(PARALLEL)
	$(BIN)/python -m coverage combine --quiet
	$(BIN)/python -m coverage report --skip-covered --show-missing

# Property tests with fifty times as many examples, different in each run: about ten minutes.
properties: .venv/ready
	HYPOTHESIS_PROFILE=many $(THREADS) $(BIN)/python -m pytest $(PARALLEL) tests/properties

# Ten thousand random inputs to all public functions.
fuzz: .venv/ready
	$(BIN)/python tests/fuzz/fuzz.py --cases 10000

# Kill a study a hundred times at random moments and resume it: the tables must be identical bit for
# bit. Ten minutes on an idle core.
kills: .venv/ready
	$(BIN)/python tests/faults/kills.py --kills 100

# Mutation testing of the numerical core with three thousand mutants. About an hour on one core; an
# interrupted run resumes, and mutants/summary.json lists the surviving mutants.
mutants: .venv/ready
	$(BIN)/python -m pip install --quiet --editable '.[mutation]'
	$(BIN)/python tests/mutation/run_mutants.py

# The tests of `make unit` with the oldest versions that pyproject.toml allows, and with the newest releases (no
# pre-releases), each in its own environment: ten minutes each. Deprecation warnings between old
# libraries are ignored; scikit-learn before 1.7 needs SCIPY_ARRAY_API to import its estimator checks.
oldest: .venv-oldest/ready
	SCIPY_ARRAY_API=1 $(THREADS) .venv-oldest/bin/python -m pytest $(PARALLEL) --thin \
	    -W ignore::DeprecationWarning -W ignore::PendingDeprecationWarning

newest:
	$(PYTHON) -m venv .venv-newest
	.venv-newest/bin/python -m pip install --quiet --upgrade pip
	.venv-newest/bin/python -m pip install --quiet --upgrade --upgrade-strategy eager --editable '.[dev]'
	$(THREADS) .venv-newest/bin/python -m pytest $(PARALLEL) --thin

.venv-oldest/ready: pyproject.toml tools/oldest.py
	$(PYTHON) -m venv .venv-oldest
	.venv-oldest/bin/python -m pip install --quiet --upgrade pip
	.venv-oldest/bin/python tools/oldest.py > .venv-oldest/constraints.txt
	.venv-oldest/bin/python -m pip install --quiet --constraint .venv-oldest/constraints.txt --editable '.[dev]'
	touch $@

# Documentation with the gallery, a minute and a half; docs-quick does not run the gallery. Warnings
# are errors, and nothing is downloaded.
docs docs-quick: .venv/ready
	$(THREADS) $(BIN)/python -m sphinx -W --keep-going -q -b html \
	    $(if $(filter docs-quick,$@),-D plot_gallery=0) docs docs/_build/html
	@echo docs/_build/html/index.html

# Follow all external links of the pages, which needs a network.
links: .venv/ready
	$(BIN)/python -m sphinx -q -b linkcheck -D plot_gallery=0 docs docs/_build/links

# Wheel and source archive in dist/; the wheel is installed in a clean environment and used there.
dist: .venv/ready
	rm -rf dist
	$(BIN)/python -m build --no-isolation >/dev/null
	$(BIN)/python -m twine check --strict dist/*
	$(BIN)/python tools/check_dist.py

.venv/installed: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[all]'
	touch $@

.venv/ready: .venv/installed
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@

clean:
	rm -rf .venv .venv-oldest .venv-newest .mypy_cache .ruff_cache .pytest_cache .hypothesis mutants \
	    demo.png dist docs/_build docs/api docs/gallery
