"""Real data: estimated risk compared with held-out error and cross-validation over repeated splits.

    python -m benchmarks.accuracy.real_data  # 20 splits, about twenty minutes
    python -m benchmarks.accuracy.real_data --splits 5 --sets stackloss
    python -m benchmarks.accuracy.real_data --json benchmarks/results/real_data.json

Three data sets of scikit-learn and statsmodels: diabetes with all squares and products of two
features, Engel's food expenditure, and stack loss. y is divided by its standard deviation, so that
losses have the same units everywhere. The threshold of the Huber loss is 0.5, about the size of the
residuals; the default assumes residuals of unit size.

Each split is fitted and tested on its held-out rows with up to three methods:

- **estimated**: an estimator of steinpath with defaults; the estimate is that of the selected
  iteration.
- **5-fold CV**: the same penalties and iterations, cross-validated on the training rows; the
  estimate is the smallest cross-validated error.
- **QuantileRegressor**: scikit-learn at the same penalties with ``GridSearchCV``, for absolute and
  pinball loss on the two small data sets.

Given the data, random splits are independent, and the leave-one-out error and the held-out error
have the same mean up to the number of training rows. The mean difference between estimate and
held-out error is therefore the bias, including that of taking the smallest of many estimates, and
its standard error is that of the mean over splits.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import re
import warnings
from collections import Counter
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import statsmodels.api as sm
from sklearn.base import clone
from sklearn.datasets import load_diabetes
from sklearn.linear_model import QuantileRegressor
from sklearn.metrics import make_scorer, mean_pinball_loss
from sklearn.model_selection import GridSearchCV, KFold, ShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

import steinpath as sp
from benchmarks.common.measuring import Record, command, in_parallel, machine, seconds
from steinpath.study._tables import mean_and_error

FOLDS = 5
DELTA = 0.5  # threshold of the Huber loss, in standard deviations of y
Data = tuple[np.ndarray, np.ndarray]


# ------------------------------------------------------------------------------------------------
# Data sets and estimators
# ------------------------------------------------------------------------------------------------


def diabetes() -> Data:
    X, y = load_diabetes(return_X_y=True)
    X = PolynomialFeatures(2, include_bias=False).fit_transform(X)
    return X[:, np.ptp(X, axis=0) > 0], y


def engel() -> Data:
    data = sm.datasets.engel.load_pandas().data
    return data[["income"]].to_numpy(float), data["foodexp"].to_numpy(float)


def stackloss() -> Data:
    data = sm.datasets.stackloss.load_pandas()
    return data.exog.to_numpy(float), data.endog.to_numpy(float)


class Source(NamedTuple):
    """A data set and its split."""

    load: Callable[[], Data]
    test_size: float | int
    small: bool  # small enough for a hundred linear programs per split

    def read(self) -> Data:
        """Return X, and y in units of its standard deviation."""
        X, y = self.load()
        return X, y / y.std()


SOURCES = {
    "diabetes": Source(diabetes, 1 / 3, small=False),
    "engel": Source(engel, 1 / 3, small=True),
    "stackloss": Source(
        stackloss, 5, small=True
    ),  # of 21 rows: a third would leave too few for training
}


class Case(NamedTuple):
    """An estimator, its loss, and its scoring loss."""

    estimator: Any
    loss: Any
    cost: Callable[[np.ndarray], np.ndarray]
    quantile: float | None = None  # parameter of scikit-learn's QuantileRegressor for this loss
    pinballs: float = 1.0  # this loss as a multiple of the pinball loss

    def test(self, y: np.ndarray, prediction: np.ndarray) -> float:
        """Return the mean scoring loss."""
        return float(np.mean(self.cost(y - prediction)))


# losses are implemented independently of the package
CASES = {
    "LADLasso": Case(sp.LADLasso(), sp.LAD(), np.abs, 0.5, 2.0),
    "SqrtLasso": Case(sp.SqrtLasso(), sp.SquareRoot(), np.square),
    "HuberLasso": Case(
        sp.PathRegressor(sp.Huber(DELTA)),  # in units of y, as for the other methods
        sp.Huber(DELTA),
        lambda r: np.where(np.abs(r) < DELTA, r**2 / 2, DELTA * np.abs(r) - DELTA**2 / 2),
    ),
    "QuantileLasso(q=0.75)": Case(
        sp.QuantileLasso(q=0.75),
        sp.Quantile(0.75),
        lambda r: np.where(r > 0, 0.75 * r, -0.25 * r),
        0.75,
    ),
}


# ------------------------------------------------------------------------------------------------
# The three methods
# ------------------------------------------------------------------------------------------------


class SelectedModel(NamedTuple):
    """A selected model, its estimated error with standard error, alpha and iteration."""

    predict: Callable[[np.ndarray], np.ndarray]
    estimate: float
    stderr: float
    alpha: float
    iterate: int | None  # None for a minimiser


def estimated(model: Any) -> SelectedModel:
    """Return the model and error estimate of a fitted estimator."""
    k, t = list(model.alphas_).index(model.alpha_), model.best_iter_
    risk, stderr = float(model.risk_path_[k, t]), float(model.risk_stderr_[k, t])
    return SelectedModel(model.predict, risk, stderr, model.alpha_, t)


def cross_validated(
    case: Case, alphas: np.ndarray, X: np.ndarray, y: np.ndarray, seed: int
) -> SelectedModel:
    """Select among all iterations of all penalties by the smallest cross-validated error."""
    scale, root_n = X.std(axis=0), math.sqrt(len(y))
    # the paths of the estimator; running them one at a time takes slightly longer than batched
    paths = [
        sp.run(X / scale, y, case.loss, sp.Lasso(alpha * root_n), fit_intercept=True)
        for alpha in alphas
    ]
    crossed = [sp.cross_validate_path(path, FOLDS, rng=seed) for path in paths]
    values = np.array([each.values for each in crossed])
    k, t = map(int, np.unravel_index(np.argmin(values), values.shape))
    coef, intercept = paths[k].coef[t] / scale, paths[k].intercept[t]
    error, stderr = float(values[k, t]), float(crossed[k].stderr[t])
    return SelectedModel(lambda X: X @ coef + intercept, error, stderr, float(alphas[k]), t)


def grid_searched(
    case: Case, alphas: np.ndarray, X: np.ndarray, y: np.ndarray, seed: int
) -> SelectedModel:
    """Select among exact minimisers with scikit-learn."""
    model = make_pipeline(StandardScaler(), QuantileRegressor(quantile=case.quantile))
    grid = {"quantileregressor__alpha": alphas / case.pinballs}
    pinball = make_scorer(mean_pinball_loss, greater_is_better=False, alpha=case.quantile)
    folds = KFold(FOLDS, shuffle=True, random_state=seed)
    search = GridSearchCV(model, grid, scoring=pinball, cv=folds).fit(X, y)
    best = search.best_index_
    scores = [search.cv_results_[f"split{k}_test_score"][best] for k in range(FOLDS)]
    error, stderr = map(float, mean_and_error(-case.pinballs * np.array(scores)))
    return SelectedModel(search.predict, error, stderr, float(alphas[best]), None)


def split(
    source: str, name: str, train: np.ndarray, test: np.ndarray, seed: int
) -> dict[str, Record]:
    """Select a model on some rows and test it on others, with each method."""
    case, (X, y) = CASES[name], SOURCES[source].read()
    model = clone(case.estimator).set_params(random_state=seed)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        elapsed, _ = seconds(partial(model.fit, X[train], y[train]))
    results: dict[str, tuple[float, SelectedModel]] = {"estimated": (elapsed, estimated(model))}
    rest = (case, model.alphas_, X[train], y[train], seed)
    results["5-fold CV"] = seconds(partial(cross_validated, *rest))
    if case.quantile is not None and SOURCES[source].small:
        results["QuantileRegressor"] = seconds(partial(grid_searched, *rest))
    records: dict[str, Record] = {}
    for way, (elapsed, chosen) in results.items():
        held_out = case.test(y[test], chosen.predict(X[test]))
        records[way] = {**chosen._asdict(), "held_out": held_out, "seconds": elapsed}
        del records[way]["predict"]
    records["estimated"]["warnings"] = [f"{w.category.__name__}: {w.message}" for w in caught]
    return records


# ------------------------------------------------------------------------------------------------
# Tables
# ------------------------------------------------------------------------------------------------


def splits_of(source: str, name: str, count: int, jobs: int) -> list[dict[str, Record]]:
    """Return all splits of a data set, the same for all estimators."""
    X, _ = SOURCES[source].read()
    rule = ShuffleSplit(count, test_size=SOURCES[source].test_size, random_state=0)
    calls = [(source, name, *rows, seed) for seed, rows in enumerate(rule.split(X))]
    return in_parallel(split, calls, jobs)


def summary(records: list[dict[str, Record]], way: str) -> Record:
    """Summarise all splits of one method."""
    columns = ("estimate", "stderr", "held_out", "seconds")
    estimate, stderr, held_out, elapsed = (
        np.array([record[way][column] for record in records]) for column in columns
    )
    own = np.array([record["estimated"]["held_out"] for record in records])
    return {
        "estimate": float(estimate.mean()),
        "stderr": float(stderr.mean()),
        "held_out": mean_and_error(held_out),
        "difference": mean_and_error(estimate - held_out),
        "beyond_estimated": mean_and_error(held_out - own),
        "seconds": float(np.median(elapsed)),
    }


def warned(records: list[dict[str, Record]]) -> Record:
    """Return how many splits warned, and the messages by their first words."""
    messages = [record["estimated"]["warnings"] for record in records]
    words = Counter(
        " ".join(re.sub(r"[\d.]*\d", "#", message).split()[:9])
        for some in messages
        for message in some
    )
    return {"splits": sum(map(bool, messages)), "messages": dict(words)}


def row(name: str, way: str, line: Record) -> str:
    """Return one line of a table."""
    difference, beyond = (
        f"{line[key][0]:+.4f} ± {line[key][1]:.4f}" for key in ("difference", "beyond_estimated")
    )
    cells = [f"{line['estimate']:.4f}", f"{line['stderr']:.4f}", f"{line['held_out'][0]:.4f}"]
    cells += [difference, "" if way == "estimated" else beyond, f"{line['seconds']:.2f}"]
    return f"| {name} | {way} | {' | '.join(cells)} |"


def table(source: str, count: int, jobs: int) -> list[Record]:
    """Print the table of one data set."""
    X, _ = SOURCES[source].read()
    print(f"\n{source}, n={len(X)}, p={X.shape[1]}, {count} splits\n")
    heads = "estimate | s.e. | held-out | estimate − held-out | held-out relative to estimated"
    print(f"| | selected by | {heads} | seconds |\n|---|---|---|---|---|---|---|---|", flush=True)
    lines: list[Record] = []
    for name in CASES:
        records = splits_of(source, name, count, jobs)
        for way in records[0]:
            lines.append({"estimator": name, "way": way, **summary(records, way)})
            print(row(name, way, lines[-1]), flush=True)
        lines[-len(records[0])] |= {"warned": warned(records), "splits": records}
    print()
    for line in lines:
        if "warned" in line and line["warned"]["splits"]:
            found = line["warned"]
            print(f"{line['estimator']}: {found['splits']} splits warned: {found['messages']}")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--splits", type=int, default=20, help="number of splits, at least 2")
    parser.add_argument("--sets", nargs="+", choices=list(SOURCES), default=list(SOURCES))
    parser.add_argument("--jobs", type=int, default=1, help="number of processes")
    parser.add_argument("--json", type=Path, help="write the tables to this file")
    options = parser.parse_args()
    packages = ("steinpath", "scikit-learn", "statsmodels", "scipy")
    tables: Record = {
        "machine": machine(),
        "versions": {"python": platform.python_version()} | {p: version(p) for p in packages},
        "command": command(),
        "splits": options.splits,
        "tables": {name: table(name, options.splits, options.jobs) for name in options.sets},
    }
    if options.json:
        options.json.write_text(json.dumps(tables, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
