"""Confidence intervals for coefficients on designs that the theory does not describe.

    python -m benchmarks.accuracy.interval_designs              # 100 data sets per case, 40 minutes
    python -m benchmarks.accuracy.interval_designs --sets 5     # quick
    python -m benchmarks.accuracy.interval_designs --classes    # classification instead
    python -m benchmarks.accuracy.interval_designs --json benchmarks/results/interval_designs.json

Coverage of 95% intervals by ``fit`` and ``coef_intervals()`` with default parameters, for nonzero
and zero coefficients; the mean error of nonzero ones, towards zero (-) or away from it (+), in
standard errors; false discovery rate and power of the Benjamini–Hochberg procedure at 10%; the
share of fits with a warning about the intervals, and the median standard error. Ten coefficients
are nonzero; the variance of the signal is four times that of the noise. Coefficients that no linear
model has (the feature that drives the noise of quantiles) count neither as zero nor as nonzero.

For classification: labels of a logistic model whose log-odds have standard deviation 2, a twentieth
of the coefficients nonzero; tests of these and of 60 other features, by the true covariance and by
node-wise regressions. Share of zero coefficients rejected at 5%, false discovery rate and power at
10%.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.signal import lfilter

import steinpath as sp
from benchmarks.common.measuring import Record, command, in_parallel, machine

NONZERO, RATIO = 10, 4.0


def autoregressive(rng: np.random.Generator, n: int, p: int, rho: float) -> np.ndarray:
    """Return rows with covariance ``rho^|i - j|``."""
    noise = rng.standard_normal((n, p))
    noise[:, 1:] *= np.sqrt(1 - rho**2)
    return np.asarray(lfilter([1], [1, -rho], noise, axis=1))


def factors(rng: np.random.Generator, n: int, p: int) -> np.ndarray:
    """Return rows with three strong factors."""
    return rng.standard_normal((n, 3)) @ rng.standard_normal((3, p)) + rng.standard_normal((n, p))


def heavy_rows(rng: np.random.Generator, n: int, p: int) -> np.ndarray:
    """Return elliptical rows with t₃ tails."""
    return autoregressive(rng, n, p, 0.5) / np.sqrt(rng.chisquare(3, (n, 1)))


def one_hot(rng: np.random.Generator, n: int, p: int) -> np.ndarray:
    """Return indicators of categories with six levels, each without the first level."""
    levels = rng.choice(6, (n, p // 5), p=[0.3, 0.2, 0.2, 0.1, 0.1, 0.1])
    return np.hstack([(levels == k).astype(float) for k in range(1, 6)])


def interactions(rng: np.random.Generator, n: int, p: int) -> np.ndarray:
    """Return normal columns and some of their products."""
    X = rng.standard_normal((n, p // 2))
    pairs = rng.integers(0, p // 2, (2, p - p // 2))
    return np.hstack([X, X[:, pairs[0]] * X[:, (pairs[1] + 1) % (p // 2)]])


DESIGNS: dict[str, Callable[[np.random.Generator, int, int], np.ndarray]] = {
    "AR(.9)": lambda rng, n, p: autoregressive(rng, n, p, 0.9),
    "AR(.5)": lambda rng, n, p: autoregressive(rng, n, p, 0.5),
    "independent": lambda rng, n, p: rng.standard_normal((n, p)),
    "factors": factors,
    "t3 rows": heavy_rows,
    "binary": lambda rng, n, p: (rng.random((n, p)) < 0.3).astype(float),
    "one-hot": one_hot,
    "interactions": interactions,
}
NOISES: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "LAD": lambda rng, n: rng.laplace(size=n) / np.sqrt(2),
    "Huber": lambda rng, n: rng.standard_t(3, n) / np.sqrt(3),
    "square root": lambda rng, n: rng.standard_normal(n),
    "quantile .8": lambda rng, n: rng.standard_normal(n),
}
MODELS: dict[str, Callable[..., Any]] = {
    "LAD": sp.LADLasso,
    "Huber": sp.HuberLasso,
    "square root": sp.SqrtLasso,
    "quantile .8": lambda **how: sp.QuantileLasso(q=0.8, **how),
}


class Case(NamedTuple):
    """A design, how its coefficients lie, and a model."""

    design: str
    n: int
    p: int
    signs: str = "random"
    noise: str = ""
    model: str = "LAD"


HARD = (
    *(("AR(.9)", 300, 150), ("AR(.9)", 150, 300, "block"), ("factors", 300, 150, "block")),
    *(("factors", 150, 300), ("t3 rows", 300, 150)),
)
EASY = (
    *(("independent", 300, 150), ("independent", 150, 300), ("AR(.5)", 300, 150)),
    *(("binary", 300, 150), ("one-hot", 300, 150), ("interactions", 300, 150)),
    *(("AR(.5)", 300, 150, "random", "heteroscedastic"), ("AR(.5)", 300, 150, "random", "skewed")),
    ("AR(.5)", 500, 100),
)
QUANTILES = (("independent", 300, 60), ("AR(.5)", 300, 150), ("independent", 150, 300))
CASES = [
    *(
        Case(*shape)._replace(model=model)
        for shape in (*HARD, *EASY)
        for model in ("LAD", "Huber", "square root")
    ),
    *(Case(*shape, "random", "scale of x1", "quantile .8") for shape in QUANTILES),
]


def draw(case: Case, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return X, y and coefficients; NaN for those that no linear model has."""
    X = DESIGNS[case.design](rng, case.n, case.p)
    coef, noise = np.zeros(case.p), NOISES[case.model](rng, case.n)
    if case.signs == "block":
        first = rng.integers(0, case.p - NONZERO + 1)
        coef[first : first + NONZERO] = 1.0
    else:
        coef[1 + rng.choice(case.p - 1, NONZERO, replace=False)] = rng.choice([-1, 1], NONZERO)
    coef *= np.sqrt(RATIO) / np.std(X @ coef)
    if case.noise == "heteroscedastic":
        noise *= np.exp(0.5 * X[:, 0]) / np.exp(0.25)
    elif case.noise == "skewed":
        noise = rng.exponential(size=case.n) - 1
    y = X @ coef + noise
    if case.noise == "scale of x1":
        y = X @ coef + np.exp(0.7 * X[:, 0]) * noise
        coef[0] = np.nan
    return X, y, coef


def data_set(case: Case, seed: int) -> Record:
    """Fit one data set."""
    X, y, coef = draw(case, np.random.default_rng([seed, case.n, case.p]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = MODELS[case.model](random_state=0).fit(X, y).coef_intervals()
    errors, zero = (found.estimate - coef) / found.stderr, coef == 0
    nonzero = ~zero & np.isfinite(coef)
    chosen, covered = found.significant(0.1), np.abs(errors) < 1.96
    return {
        "nonzero": float(covered[nonzero].mean()),
        "zero": float(covered[zero].mean()),
        "bias": float(np.mean(errors[nonzero] * np.sign(coef[nonzero]))),
        "fdr": float(np.sum(chosen & zero) / max(1, np.sum(chosen & (zero | nonzero)))),
        "power": float(chosen[nonzero].mean()),
        "warned": float(bool(found.warnings)),
        "stderr": float(np.median(found.stderr)),
    }


class LabelCase(NamedTuple):
    """Autoregressive rows with labels, and a model."""

    scores: str
    rho: float
    n: int
    p: int
    loss: str
    penalty: str


LABEL_CASES = [
    LabelCase(scores, rho, *shape, loss, penalty)
    for scores in ("covariance", "node-wise")
    for rho in (0.5, 0.9)
    for shape in ((600, 300), (600, 900))
    for loss in ("logistic", "hinge", "squared_hinge")
    for penalty in ("lasso", "ridge")
]


def label_data_set(case: LabelCase, seed: int) -> Record:
    """Fit one data set of labels."""
    rng = np.random.default_rng([seed, case.n, case.p])
    X, coef = autoregressive(rng, case.n, case.p, case.rho), np.zeros(case.p)
    which = rng.choice(case.p, case.p // 20, replace=False)
    coef[which] = rng.choice([-1, 1], len(which))
    coef *= 2 / np.std(X @ coef)
    y = np.where(X @ coef + rng.logistic(size=case.n) > 0, "yes", "no")
    features = np.unique([*which, *rng.choice(case.p, 60, replace=False)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = sp.PathClassifier(loss=case.loss, penalty=case.penalty, random_state=0).fit(X, y)
        if case.scores == "covariance":
            scale = np.asarray(model.scale_)
            covariance = sp.simulate.toeplitz(case.p, case.rho) / np.outer(scale, scale)
            path = sp.run(
                (X - X.mean(axis=0)) / scale,
                np.where(y == "yes", 1.0, -1.0),
                model.loss_,
                model.penalty_,
                n_iter=model.n_iter_,
                fit_intercept=True,
            )
            found = sp.coefficient_intervals(path, features=features, covariance=covariance, rng=0)
        else:
            found = model.coef_intervals(features)
    zero, chosen = coef[features] == 0, found.significant(0.1)
    return {
        "rejected": float(np.mean(found.pvalue[zero] < 0.05)),
        "fdr": float(np.sum(chosen & zero) / max(1, np.sum(chosen))),
        "power": float(chosen[~zero].mean()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", type=int, default=100, help="data sets per case")
    parser.add_argument("--jobs", type=int, default=2, help="number of processes")
    parser.add_argument("--only", default="", help="designs that begin with this")
    parser.add_argument("--model", default="", help="models that begin with this")
    parser.add_argument("--json", type=Path, help="write the results to this file")
    parser.add_argument("--classes", action="store_true", help="classification")
    options = parser.parse_args()
    results: list[Record] = []
    cases: list[Any] = LABEL_CASES if options.classes else CASES
    one: Any = label_data_set if options.classes else data_set
    if not options.classes:
        cases = [
            case
            for case in CASES
            if case.design.startswith(options.only) and case.model.startswith(options.model)
        ]
    head = "design, n, p, coefficients, noise, loss, nonzero, zero, bias, FDR, power, warned, s.e."
    if options.classes:
        head = "scores, rho, n, p, loss, penalty, rejected, FDR, power"
    columns = head.split(", ")
    print(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}")
    for case in cases:
        records = in_parallel(one, [(case, seed) for seed in range(options.sets)], options.jobs)
        means = {key: float(np.mean([each[key] for each in records])) for key in records[0]}
        results.append({**case._asdict(), "sets": options.sets, **means})
        print(
            f"| {' | '.join([*map(str, case), *(f'{v:.3f}' for v in means.values())])} |",
            flush=True,
        )
        if options.json:
            found = {"machine": machine(), "command": command(), "cases": results}
            text = json.dumps(found, indent=1, ensure_ascii=False) + "\n"
            options.json.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
