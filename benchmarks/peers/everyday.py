"""Time of default fits on tables of ordinary shapes, compared with scikit-learn's.

    python -m benchmarks.peers.everyday
    python -m benchmarks.peers.everyday --quick        # the small tables only, half a minute
    python -m benchmarks.peers.everyday --json benchmarks/results/everyday.json

Data are simulated designs with independent columns, five of which have an effect, and t₂ or
logistic noise; a table of the type of gene expression (400 × 764: correlated, heavy-tailed columns
and few true effects); and real flight delays (collinear one-hot columns). `LADLasso`, `SqrtLasso`
and `HuberRidge` are compared with `LassoCV` (ten folds, 100 alphas), `LogisticLasso` and
`LogisticRidge` with `LogisticRegressionCV` (ten folds, ten values of C), on standardised columns.
Fits of steinpath include the selection of alpha and iteration, the estimated error, adjusted for
selection, and prediction intervals; those of scikit-learn the selection only.

Each time is the shortest of three fits (fewer if they take long), with all cores. Ratios are
relative to scikit-learn in the same run. Errors on as many other rows are relative to that of a
constant prediction: mean absolute errors, or log losses of classes.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LassoCV, LogisticRegressionCV
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import steinpath as sp
from benchmarks.common.datasets import TABLES
from benchmarks.common.measuring import machine, steady_seconds

Data = tuple[np.ndarray, np.ndarray]
Record = dict[str, Any]

REGRESSORS = (sp.LADLasso, sp.SqrtLasso, sp.HuberRidge)
CLASSIFIERS = (sp.LogisticLasso, sp.LogisticRidge)
#: Seconds for the repetitions of a fit.
ENOUGH = 3.0


def simulated(n: int, p: int) -> Data:
    """Return twice as many rows as are used for training, with the systematic part of y."""
    X = np.random.default_rng(0).standard_normal((2 * n, p))
    return X, 0.7 * X[:, :5].sum(axis=1)


def genes(n: int = 400, p: int = 764) -> Data:
    """Return blocks of correlated, heavy-tailed columns, ten of which have an effect."""
    rng = np.random.default_rng(0)
    factors = rng.standard_normal((2 * n, 40))
    X = np.exp(0.5 * (factors[:, rng.integers(40, size=p)] + rng.standard_normal((2 * n, p))))
    signal = np.log(X[:, :10]).sum(axis=1)
    return X, signal / signal.std()


def flights(n: int) -> Data:
    """Return twice as many flights as training rows, in random order."""
    X, y = TABLES["flights-100000"].load()
    rows = np.random.default_rng(0).permutation(len(y))[: 2 * n]
    X, y = X[rows], y[rows]
    return X[:, np.ptp(X[:n], axis=0) > 0], y


SMALL: dict[str, Callable[[], Data]] = {
    "400 × 20": lambda: simulated(400, 20),
    "1,000 × 100": lambda: simulated(1000, 100),
    "3,000 × 40": lambda: simulated(3000, 40),
    "400 × 764, gene expression": genes,
}
LARGE: dict[str, Callable[[], Data]] = {
    "20,000 × 50": lambda: simulated(20_000, 50),
    "2,000 × 1,000": lambda: simulated(2000, 1000),
    "500 × 5,000": lambda: simulated(500, 5000),
    "flights, 3,000 rows": lambda: flights(3000),
    "flights, 50,000 rows": lambda: flights(50_000),
}


def fits(classes: bool) -> dict[str, Any]:
    """Return the models to fit, that of scikit-learn first."""
    peer: Any = LassoCV(cv=10)
    if classes:
        peer = LogisticRegressionCV(Cs=10, cv=10, scoring="neg_log_loss")
    models = {type(peer).__name__: make_pipeline(StandardScaler(), peer)}
    own: tuple[Any, ...] = CLASSIFIERS if classes else REGRESSORS
    return models | {kind.__name__: kind(random_state=0) for kind in own}


def error(model: Any, X: np.ndarray, y: np.ndarray, train: np.ndarray, classes: bool) -> float:
    """Return the error on other rows, relative to that of a constant."""
    if classes:
        share = np.full(len(y), np.mean(train > 0))
        return float(log_loss(y, model.predict_proba(X)[:, 1]) / log_loss(y, share))
    constant = np.abs(y - np.median(train)).mean()
    return float(np.abs(y - model.predict(X)).mean() / constant)


def measure(name: str, data: Data, classes: bool) -> Record:
    """Fit all models to the first half of the rows."""
    X, y = data
    n, rng = len(y) // 2, np.random.default_rng(1)
    if classes:
        y = np.where(y + rng.logistic(size=len(y)) > 0, 1.0, -1.0)
    elif not name.startswith("flights"):
        y = y + rng.standard_t(2, size=len(y))
    record: Record = {"case": name, "n": n, "p": X.shape[1], "classes": classes, "methods": {}}
    for label, model in fits(classes).items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            seconds, _ = steady_seconds(partial(model.fit, X[:n], y[:n]), ENOUGH)
        found = {"seconds": seconds, "error": error(model, X[n:], y[n:], y[:n], classes)}
        if hasattr(model, "best_iter_"):
            found |= {"best_iter": model.best_iter_, "n_iter": model.n_iter_}
        record["methods"][label] = found
    return record


def lines(record: Record) -> list[str]:
    """Return the rows of a table, with times relative to that of scikit-learn."""
    methods, rows = record["methods"], []
    reference = next(iter(methods.values()))["seconds"]
    for label, found in methods.items():
        iterates = f"{found['best_iter']} of {found['n_iter']}" if "best_iter" in found else ""
        numbers = f"{found['seconds']:.2f} | {found['seconds'] / reference:.1f}"
        rows.append(
            f"| {record['case']} | {label} | {numbers} | {found['error']:.3f} | {iterates} |"
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="the small tables only")
    parser.add_argument("--json", type=Path, help="write the results to this file")
    options = parser.parse_args()
    for classes in (False, True):  # trigger lazy imports
        measure("", simulated(50, 3), classes)
    records = []
    print("| table | method | seconds | ratio | error, relative to a constant | iteration |")
    print("|---|---|---|---|---|---|")
    for name, load in (SMALL if options.quick else SMALL | LARGE).items():
        data = load()
        for classes in (False, True):
            if classes and name.startswith("flights"):
                continue
            records.append(measure(name, data, classes))
            print("\n".join(lines(records[-1])), flush=True)
    if options.json:
        result = {"machine": machine(), "records": records}
        options.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
