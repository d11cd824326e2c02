# Every target does its own set-up in .venv; nothing else is needed than Python 3.11 or later.
PYTHON ?= python3
BIN := .venv/bin
# A process per core, and one thread in each: small problems gain nothing from more.
THREADS := OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1
PARALLEL := -q -n auto --dist loadfile --no-loadscope-reorder

.PHONY: install demo test check lint types unit slow bench bench-full studies docs docs-quick \
    dist links coverage properties fuzz kills mutants oldest newest clean

# The command, with all it can read and draw: .venv/bin/steinpath fit FILE --target COLUMN
install: .venv/installed

demo: .venv/installed
	$(BIN)/steinpath demo --plot demo.png

# What each of the first four does takes one core; the tests take all of them.
test: .venv/ready
	$(MAKE) --no-print-directory --jobs=2 --output-sync=target lint types docs-quick dist
	$(MAKE) --no-print-directory unit

# The inner loop, in less than two minutes on two cores: the numerical core and the estimators, with a
# few cases of each test, on NumPy alone.
check: lint types
	$(THREADS) $(BIN)/python -m pytest $(PARALLEL) --quick -k 'not check_estimator and not memory_stays' \
	    $(addprefix tests/,problem design algorithms engine risk support estimators test_tuning.py)

lint: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python tools/layers.py

types: .venv/ready
	$(BIN)/mypy

# At most 6 cases of each test, without the longest; all of them with `make slow`.
unit: .venv/ready
	$(THREADS) $(BIN)/python -m pytest $(PARALLEL) --thin

# Accuracy on the paper's model at its size, how far to trust it, scikit-learn's checks of every
# estimator at its defaults, and all cases of all other tests: three quarters of an hour.
slow: .venv/ready
	$(BIN)/python -m pytest -q -m slow
	$(THREADS) $(BIN)/python -m pytest $(PARALLEL)

# All peers in one run: small problems in two minutes, the paper's sizes in an hour. Other packages take
# part if they are there: .venv/bin/pip install '.[bench]'
bench: .venv/ready
	$(BIN)/python benchmarks/bench.py

bench-full: .venv/ready
	$(BIN)/python benchmarks/bench.py --full --json benchmarks/results/bench.json

# The paper's experiments and more, small: each study in two minutes at most.
studies: .venv/ready
	$(BIN)/steinpath study all --quick

# ----- By hand: what docs/guarantees.md rests on, beside `make test` -----

# Which branches of src/ the tests take, those in processes that they start included.
coverage: .venv/ready
	$(BIN)/python -m coverage erase
	$(THREADS) $(BIN)/python -m coverage run -m pytest $(PARALLEL)
	$(BIN)/python -m coverage combine --quiet
	$(BIN)/python -m coverage report --skip-covered --show-missing

# Fifty times as many examples of each property as in the tests, and new ones each time: some ten minutes.
properties: .venv/ready
	HYPOTHESIS_PROFILE=many $(THREADS) $(BIN)/python -m pytest $(PARALLEL) tests/properties

# Ten thousand random inputs through everything that is public.
fuzz: .venv/ready
	$(BIN)/python tests/fuzz/fuzz.py --cases 10000

# A study killed a hundred times, at random moments, and resumed: the same tables to the last bit. Ten
# minutes on a free core.
kills: .venv/ready
	$(BIN)/python tests/faults/kills.py --kills 100

# Small changes to the numerical core, three thousand, one at a time: do the tests notice? About an hour
# of one core; it goes on where it was stopped, and mutants/summary.json has what no test noticed.
mutants: .venv/ready
	$(BIN)/python -m pip install --quiet --editable '.[mutation]'
	$(BIN)/python tests/mutation/run_mutants.py

# All tests, beside the oldest versions that pyproject.toml allows and beside the newest that are
# released (no previews), each in an environment of its own: by hand, ten minutes each. What old
# libraries think of the newest beneath them is not our business, so their deprecations are ignored;
# scikit-learn before 1.7 does not import its checks of estimators without SCIPY_ARRAY_API.
oldest: .venv-oldest/ready
	SCIPY_ARRAY_API=1 $(THREADS) .venv-oldest/bin/python -m pytest $(PARALLEL) \
	    -W ignore::DeprecationWarning -W ignore::PendingDeprecationWarning

newest:
	$(PYTHON) -m venv .venv-newest
	.venv-newest/bin/python -m pip install --quiet --upgrade pip
	.venv-newest/bin/python -m pip install --quiet --upgrade --upgrade-strategy eager --editable '.[dev]'
	$(THREADS) .venv-newest/bin/python -m pytest $(PARALLEL)

.venv-oldest/ready: pyproject.toml tools/oldest.py
	$(PYTHON) -m venv .venv-oldest
	.venv-oldest/bin/python -m pip install --quiet --upgrade pip
	.venv-oldest/bin/python tools/oldest.py > .venv-oldest/constraints.txt
	.venv-oldest/bin/python -m pip install --quiet --constraint .venv-oldest/constraints.txt --editable '.[dev]'
	touch $@

# Pages with the gallery's output, a minute and a half; docs-quick does not run the gallery. Warnings
# are errors, and nothing is fetched while building.
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
