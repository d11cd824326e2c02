"""Estimated error and prediction intervals of tuned models: cost and coverage of several methods.

    python -m benchmarks.accuracy.choice           # 2 to 10 data sets per case, ten minutes
    python -m benchmarks.accuracy.choice --quick   # two of the smallest cases, a minute
    python -m benchmarks.accuracy.choice --sets 5  # at most five
    python -m benchmarks.accuracy.choice --json benchmarks/results/choice.json

All methods use the same data sets with independent rows of the paper's model (Toeplitz 0.5), and
one thread each. Seconds are CPU time:

- **tune, smallest estimate**: `steinpath.tune`, not adjusted for selection: the error is the
  smallest estimate.
- **tune, adjusted for selection**: `tune` with `best_risk` (adjusted for selection) and
  `predict_interval`.
- **LADLasso**, **SqrtLasso**: `fit` with `best_risk_` and `predict_interval`.
- **nested GridSearchCV**: scikit-learn's `cross_val_score` with ten folds of a `GridSearchCV` with
  five folds and ten alphas, over `QuantileRegressor(solver="highs")` or `Lasso` with standardised
  columns. The standard error is that of the mean of the ten scores. The time includes a fit to all
  rows, whose error is the true error.
- **MAPIE, CV+**: `CrossConformalRegressor` with ten folds around the same `GridSearchCV`;
  prediction intervals only.
- **MAPIE, jackknife+**: the leave-one-out version, at the alpha selected by one `GridSearchCV` on
  all rows; a search in each of the n fits would take n / 10 times as long as CV+. Its guarantee
  assumes an alpha that does not depend on the data.

The true error is the mean loss on 20,000 new rows, 2,000 of which have prediction intervals of
level 0.9. Bias is the mean of the estimates relative to the mean true error, with its standard
error over the data sets. By default there are fewer data sets where other methods are slow.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import time
from collections.abc import Callable, Iterable
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.linear_model import Lasso, QuantileRegressor
from sklearn.model_selection import GridSearchCV, KFold, LeaveOneOut, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import steinpath as sp
from benchmarks.common.measuring import Record, command, in_parallel, machine

LEVEL = 0.9
ROWS, ROWS_WITH_INTERVALS = 20_000, 2_000


class Case(NamedTuple):
    """A loss, and data of the paper's model."""

    loss: str  # "lad" or "square_root"
    n: int
    p: int
    sets: int  # default number of data sets; few where other methods are slow

    @property
    def name(self) -> str:
        """Name in tables."""
        pair = {"lad": "LAD–lasso", "square_root": "square-root–lasso"}[self.loss]
        return f"{pair} {self.n} × {self.p}"

    @property
    def model(self) -> sp.simulate.LinearModel:
        """Data-generating model."""
        noise = {"lad": "laplace", "square_root": "normal"}[self.loss]
        return sp.simulate.paper_model(self.p, noise=noise)

    def losses(self, residuals: np.ndarray) -> np.ndarray:
        """Return the scoring losses."""
        return np.asarray(np.abs(residuals) if self.loss == "lad" else np.square(residuals))


CASES = (
    Case("lad", 120, 60, sets=6),
    Case("lad", 100, 200, sets=4),
    Case("lad", 300, 150, sets=2),
    Case("square_root", 100, 50, sets=10),
    Case("square_root", 400, 200, sets=10),
)
QUICK = (CASES[0], CASES[3])


class FittedModel(NamedTuple):
    """A fitted model, with its estimated error and prediction intervals."""

    predict: Callable[[np.ndarray], np.ndarray]
    error: tuple[float, float] | None = None  # estimate and standard error
    interval: Callable[[np.ndarray], np.ndarray] | None = None  # returns intervals of shape (m, 2)


# ------------------------------------------------------------------------------------------------
# Methods: each returns a fitted model with its error and intervals computed
# ------------------------------------------------------------------------------------------------


def _tuning(case: Case, X: np.ndarray, y: np.ndarray, seed: int) -> Any:
    loss = {"lad": sp.LAD, "square_root": sp.SquareRoot}[case.loss]()
    return sp.tune(X, y, loss, sp.Lasso, fit_intercept=True, rng=seed)


def smallest_estimate(case: Case, X: np.ndarray, y: np.ndarray, seed: int) -> FittedModel:
    tuning = _tuning(case, X, y, seed)
    return FittedModel(tuning.predict, (tuning.naive_risk, tuning.naive_risk_stderr))


def choice_counted(case: Case, X: np.ndarray, y: np.ndarray, seed: int) -> FittedModel:
    tuning = _tuning(case, X, y, seed)
    tuning.predict_interval(X[:1], LEVEL)
    error = tuning.best_risk, tuning.best_risk_stderr
    return FittedModel(tuning.predict, error, partial(tuning.predict_interval, level=LEVEL))


def estimator(case: Case, X: np.ndarray, y: np.ndarray, seed: int) -> FittedModel:
    make = {"lad": sp.LADLasso, "square_root": sp.SqrtLasso}[case.loss]
    model = make(random_state=seed).fit(X, y)
    model.predict_interval(X[:1], level=LEVEL)
    error = model.best_risk_, model.best_risk_stderr_
    return FittedModel(model.predict, error, partial(model.predict_interval, level=LEVEL))


def _search(case: Case, seed: int) -> GridSearchCV:
    # ten alphas down to a hundredth; with standardised columns, few are selected at the largest
    model, largest, scoring = {
        "lad": (QuantileRegressor(quantile=0.5, solver="highs"), 0.2, "absolute"),
        "square_root": (Lasso(max_iter=10_000), 1.0, "squared"),
    }[case.loss]
    name = f"{type(model).__name__.lower()}__alpha"
    return GridSearchCV(
        make_pipeline(StandardScaler(), model),
        {name: np.geomspace(largest, largest / 100, 10)},
        scoring=f"neg_mean_{scoring}_error",
        cv=KFold(5, shuffle=True, random_state=seed),
    )


def nested(case: Case, X: np.ndarray, y: np.ndarray, seed: int) -> FittedModel:
    search = _search(case, seed)
    outer = KFold(10, shuffle=True, random_state=seed + 1)
    scores = -cross_val_score(search, X, y, scoring=search.scoring, cv=outer)
    error = float(scores.mean()), float(scores.std(ddof=1) / math.sqrt(len(scores)))
    return FittedModel(search.fit(X, y).predict, error)


def mapie(case: Case, X: np.ndarray, y: np.ndarray, seed: int) -> FittedModel:
    outer = KFold(10, shuffle=True, random_state=seed + 1)
    return _conformal(_search(case, seed), outer, X, y)


def mapie_jackknife(case: Case, X: np.ndarray, y: np.ndarray, seed: int) -> FittedModel:
    chosen = _search(case, seed).fit(X, y).best_estimator_
    return _conformal(clone(chosen), LeaveOneOut(), X, y)


def _conformal(estimator: Any, splits: Any, X: np.ndarray, y: np.ndarray) -> FittedModel:
    from mapie.regression import CrossConformalRegressor

    model = CrossConformalRegressor(estimator, confidence_level=LEVEL, method="plus", cv=splits)
    model.fit_conformalize(X, y)
    return FittedModel(model.predict, interval=lambda new: model.predict_interval(new)[1][:, :, 0])


METHODS: dict[str, Callable[[Case, np.ndarray, np.ndarray, int], FittedModel]] = {
    "tune, smallest estimate": smallest_estimate,
    "tune, adjusted for selection": choice_counted,
    "estimator": estimator,
    "nested GridSearchCV": nested,
    "MAPIE, CV+": mapie,
    "MAPIE, jackknife+": mapie_jackknife,
}


# ------------------------------------------------------------------------------------------------
# Data sets and summaries
# ------------------------------------------------------------------------------------------------


def data_set(case: Case, seed: int, names: Iterable[str] = tuple(METHODS)) -> Record:
    """Run all methods, or the named ones, on one data set."""
    data, later = (np.random.default_rng(each) for each in np.random.SeedSequence(seed).spawn(2))
    model = case.model
    X, y = model.sample(case.n, data)
    new_X, new_y = model.sample(ROWS, later)
    records: Record = {}
    for name in names:
        start = time.process_time()
        found = METHODS[name](case, X, y, seed)
        record = {"seconds": time.process_time() - start}
        record["truth"] = float(case.losses(new_y - found.predict(new_X)).mean())
        if found.error is not None:
            record["estimate"], record["stderr"] = found.error
        if found.interval is not None:
            few = slice(ROWS_WITH_INTERVALS)
            low, high = found.interval(new_X[few]).T
            record["covered"] = float(np.mean((low <= new_y[few]) & (new_y[few] <= high)))
            record["width"] = float(np.mean(high - low))
        records[name] = record
    return records


def summary(records: list[Record]) -> Record:
    """Summarise the results of one method over data sets."""
    columns = {key: np.array([record[key] for record in records]) for key in records[0]}
    truth = columns["truth"]
    found: Record = {"truth": float(truth.mean()), "seconds": float(np.median(columns["seconds"]))}
    if "estimate" in columns:
        error = columns["estimate"] - truth
        found["bias"] = float(error.mean() / truth.mean())
        found["bias_stderr"] = _stderr(error) / float(truth.mean())
        found["covers"] = float(np.mean(np.abs(error) <= 2 * columns["stderr"]))
    if "covered" in columns:
        found["interval_covers"] = float(columns["covered"].mean())
        found["interval_covers_stderr"] = _stderr(columns["covered"])
        found["width"] = float(columns["width"].mean())
    return found


def _stderr(values: np.ndarray) -> float:
    return float(values.std(ddof=1) / math.sqrt(len(values)))


HEAD = """\
| data | sets | method | seconds | error | bias of estimate | coverage of ± 2 s.e. | \
coverage of 90% intervals | width |
|---|---|---|---|---|---|---|---|---|"""


def line(case: Case, sets: int, method: str, found: Record) -> str:
    """Return a row of the table."""
    if method == "estimator":
        method = {"lad": "LADLasso", "square_root": "SqrtLasso"}[case.loss]
    bias = covers = inside = width = "–"
    if "bias" in found:
        bias = f"{100 * found['bias']:+.1f} ± {100 * found['bias_stderr']:.1f}%"
        covers = f"{found['covers']:.0%}"
    if "width" in found:
        spread = 100 * found["interval_covers_stderr"]
        inside = f"{100 * found['interval_covers']:.1f} ± {spread:.1f}%"
        width = f"{found['width']:.2f}"
    cells = (case.name, str(sets), method, f"{found['seconds']:.2f}", f"{found['truth']:.3f}")
    return f"| {' | '.join((*cells, bias, covers, inside, width))} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="run two data sets of small cases")
    parser.add_argument("--sets", type=int, help="maximum number of data sets per case")
    parser.add_argument("--jobs", type=int, default=1, help="number of processes")
    parser.add_argument("--json", type=Path, help="write the results to this file")
    options = parser.parse_args()
    most = options.sets or (2 if options.quick else 1000)
    if most < 2:
        parser.error("--sets must be at least 2, for standard errors")
    packages = ("steinpath", "scikit-learn", "mapie")
    result: Record = {
        "machine": machine(),
        "versions": {"python": platform.python_version()} | {p: version(p) for p in packages},
        "command": command(),
        "cases": [],
    }
    choice_counted(CASES[0], *CASES[0].model.sample(30, rng=0), 0)  # trigger lazy imports
    print(HEAD)
    for case in QUICK if options.quick else CASES:
        calls = [(case, seed) for seed in range(min(most, case.sets))]
        found = in_parallel(data_set, calls, options.jobs)
        methods = {name: summary([each[name] for each in found]) for name in METHODS}
        about = {"loss": case.loss, "n": case.n, "p": case.p, "sets": len(found)}
        result["cases"].append({**about, "methods": methods})
        for name, each in methods.items():
            print(line(case, len(found), name, each), flush=True)
        if options.json:  # after each case: a long run may be interrupted
            text = json.dumps(result, indent=1, ensure_ascii=False) + "\n"
            options.json.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
