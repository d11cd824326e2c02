"""Confidence intervals for coefficients: cost, coverage and width, compared with other packages.

    python -m benchmarks.accuracy.intervals          # all tables, 15 minutes
    python -m benchmarks.accuracy.intervals --quick  # smaller and fewer data sets, a minute
    python -m benchmarks.accuracy.intervals --sets 20 --jobs 2
    python -m benchmarks.accuracy.intervals --json benchmarks/results/intervals.json

Four tables for the paper's model (Toeplitz 0.5, a tenth of the coefficients nonzero):

- **cost** with known covariance, for all coefficients and including the selection of the iteration,
  as a multiple of a plain NumPy run of the same 300 iterations; and of node-wise regressions for 50
  features.
- **peers**: all methods on the same data, one thread each, covariance unknown. Intervals of level
  0.95 for all coefficients; CPU seconds including tuning. False discovery rate and power are those
  of the Benjamini–Hochberg procedure at 10%. Methods: ``fit`` and ``coef_intervals()`` of
  `LADLasso` and `SqrtLasso`; hidimstat's `DesparsifiedLasso` (least squares, defaults); for few
  columns, least squares and median regression of statsmodels.
- **classes**: tests of coefficients for labels of a logistic model: `LogisticLasso`, `HingeLasso`,
  the debiased lasso of logistic regression (van de Geer et al., 2014: l1 penalty by
  cross-validation, node-wise regressions of the weighted columns), and for few columns logistic
  regression of statsmodels. Share of zero coefficients rejected at 5%, false discovery rate and
  power at 10%, and coverage of nonzero coefficients by methods that estimate their size.
- **penalties**: width of the shortest intervals relative to the last iteration, for LAD–lasso with
  several regularisation strengths.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import false_discovery_control, norm

import steinpath as sp
from benchmarks.common.competitors import PAIRS, Problem, plain
from benchmarks.common.measuring import Record, command, in_parallel, machine, seconds
from steinpath.study._settings import ALGORITHM, LAM

LEVEL, FDR = 0.95, 0.1
ITERS = 300


class IntervalResult(NamedTuple):
    """Intervals for all coefficients, and p-values."""

    lower: np.ndarray
    upper: np.ndarray
    pvalue: np.ndarray


# ------------------------------------------------------------------------------------------------
# Methods: each returns intervals for given data
# ------------------------------------------------------------------------------------------------


def _steinpath(make: Callable[..., Any], X: np.ndarray, y: np.ndarray) -> IntervalResult:
    found = make(random_state=0).fit(X, y).coef_intervals(level=LEVEL)
    return IntervalResult(found.lower, found.upper, found.pvalue)


def lad_lasso(X: np.ndarray, y: np.ndarray) -> IntervalResult:
    return _steinpath(sp.LADLasso, X, y)


def sqrt_lasso(X: np.ndarray, y: np.ndarray) -> IntervalResult:
    return _steinpath(sp.SqrtLasso, X, y)


def desparsified(X: np.ndarray, y: np.ndarray) -> IntervalResult:
    from hidimstat import DesparsifiedLasso

    model = DesparsifiedLasso(random_state=0, confidence=LEVEL)
    model.fit_importance(X, y)
    return IntervalResult(
        np.ravel(model.confidence_bound_min_),
        np.ravel(model.confidence_bound_max_),
        np.ravel(model.pvalues_),
    )


def _statsmodels(fitted: Any) -> IntervalResult:
    low, high = np.asarray(fitted.conf_int(1 - LEVEL)).T
    return IntervalResult(low[1:], high[1:], np.asarray(fitted.pvalues)[1:])


def least_squares(X: np.ndarray, y: np.ndarray) -> IntervalResult:
    import statsmodels.api as sm

    return _statsmodels(sm.OLS(y, sm.add_constant(X)).fit())


def median_regression(X: np.ndarray, y: np.ndarray) -> IntervalResult:
    import statsmodels.api as sm

    return _statsmodels(sm.QuantReg(y, sm.add_constant(X)).fit(0.5))


METHODS: dict[str, Callable[[np.ndarray, np.ndarray], IntervalResult]] = {
    "LADLasso": lad_lasso,
    "SqrtLasso": sqrt_lasso,
    "desparsified lasso": desparsified,
    "least squares": least_squares,
    "median regression": median_regression,
}
#: Methods for fewer columns than rows.
CLASSICAL = ("least squares", "median regression")


# ----- Methods for labels -----


def logistic_lasso(X: np.ndarray, y: np.ndarray) -> IntervalResult:
    return _steinpath(sp.LogisticLasso, X, y)


def hinge_lasso(X: np.ndarray, y: np.ndarray) -> IntervalResult:
    return _steinpath(sp.HingeLasso, X, y)


def debiased_logistic(X: np.ndarray, y: np.ndarray) -> IntervalResult:
    """One Newton step from the lasso, with node-wise regressions in place of the inverse."""
    from sklearn.linear_model import Lasso, LogisticRegressionCV

    n, p = X.shape
    X = X - X.mean(axis=0)
    start = LogisticRegressionCV(
        Cs=20, cv=5, l1_ratios=[1.0], solver="liblinear", use_legacy_attributes=False
    ).fit(X, y > 0)
    share = start.predict_proba(X)[:, 1]
    weighted = np.sqrt(share * (1 - share))[:, None] * X
    score = X.T @ ((y > 0) - share) / n
    estimate, stderr = np.empty(p), np.empty(p)
    for j in range(p):
        others = np.delete(weighted, j, axis=1)
        alpha = 0.5 * np.sqrt(np.log(p) / n) * np.sqrt(np.mean(weighted[:, j] ** 2))
        size = np.sqrt(np.mean(others**2, axis=0))
        fit = Lasso(alpha, fit_intercept=False).fit(others / size, weighted[:, j])
        row = np.insert(-fit.coef_ / size, j, 1.0)
        residuals = weighted @ row
        row /= residuals @ weighted[:, j] / n
        estimate[j] = start.coef_.ravel()[j] + row @ score
        stderr[j] = np.sqrt(np.sum((weighted @ row) ** 2)) / n
    half = norm.ppf(0.5 + LEVEL / 2) * stderr
    return IntervalResult(estimate - half, estimate + half, 2 * norm.sf(abs(estimate) / stderr))


def logistic_regression(X: np.ndarray, y: np.ndarray) -> IntervalResult:
    import statsmodels.api as sm

    return _statsmodels(sm.Logit(y > 0, sm.add_constant(X)).fit(disp=False, maxiter=200))


OF_LABELS: dict[str, Callable[[np.ndarray, np.ndarray], IntervalResult]] = {
    "LogisticLasso": logistic_lasso,
    "HingeLasso": hinge_lasso,
    "debiased logistic lasso": debiased_logistic,
    "logistic regression": logistic_regression,
}
#: Methods whose intervals are for the size of the coefficients.
SIZED = ("debiased logistic lasso", "logistic regression")


class LabelCase(NamedTuple):
    """Labels of a logistic model; its log-odds have this standard deviation."""

    deviation: float
    n: int
    p: int

    @property
    def methods(self) -> list[str]:
        """Names of the methods to run."""
        return [x for x in OF_LABELS if self.n >= 5 * self.p or x != "logistic regression"]


LABEL_CASES = [LabelCase(2.0, *shape) for shape in ((600, 300), (400, 600), (1000, 25))]
QUICK_LABELS = [LabelCase(2.0, 150, 60), LabelCase(2.0, 150, 10)]


def label_data_set(case: LabelCase, seed: int) -> Record:
    """Apply all methods to one data set of labels."""
    rng = np.random.default_rng([seed, case.n, case.p])
    covariance = sp.simulate.toeplitz(case.p, 0.5)
    coef = np.zeros(case.p)
    which = rng.choice(case.p, max(case.p // 10, 3), replace=False)
    coef[which] = rng.choice([-1.0, 1.0], len(which))
    coef *= case.deviation / np.sqrt(coef @ covariance @ coef)
    model = sp.simulate.LabelModel(coef, covariance)
    X, y = model.sample(case.n, rng=rng)
    zero, records = coef == 0, {}
    for name in case.methods:
        start = time.process_time()
        found = OF_LABELS[name](X, y)
        taken = time.process_time() - start
        discovered = false_discovery_control(np.clip(found.pvalue, 0, 1)) <= FDR
        covered = (found.lower <= coef) & (coef <= found.upper)
        records[name] = {
            "seconds": taken,
            "rejected": float(np.mean(found.pvalue[zero] < 0.05)),
            "false": float(np.sum(discovered & zero) / max(1, np.sum(discovered))),
            "power": float(discovered[~zero].mean()),
            "nonzero": float(covered[~zero].mean()) if name in SIZED else float("nan"),
        }
    return records


class Case(NamedTuple):
    """Data of the paper's model."""

    noise: str
    n: int
    p: int

    @property
    def methods(self) -> list[str]:
        """Names of the methods to run."""
        return [name for name in METHODS if self.n >= 3 * self.p or name not in CLASSICAL]


SHAPES = ((500, 250), (400, 600), (500, 25))
CASES = [Case(noise, *shape) for shape in SHAPES for noise in ("t2", "normal")]
QUICK = [Case("t2", 120, 60), Case("normal", 120, 10)]


def data_set(case: Case, seed: int) -> Record:
    """Apply all methods to one data set."""
    model = sp.simulate.paper_model(case.p, case.noise)
    X, y = model.sample(case.n, rng=np.random.default_rng([seed, case.n, case.p]))
    zero, records = model.coef == 0, {}
    for name in case.methods:
        start = time.process_time()
        found = METHODS[name](X, y)
        taken = time.process_time() - start
        covered = (found.lower <= model.coef) & (model.coef <= found.upper)
        discovered = false_discovery_control(np.clip(found.pvalue, 0, 1)) <= FDR
        records[name] = {
            "seconds": taken,
            "zero": float(covered[zero].mean()),
            "nonzero": float(covered[~zero].mean()),
            "width": float(np.mean(found.upper - found.lower)),
            "false": float(np.sum(discovered & zero) / max(1, np.sum(discovered))),
            "power": float(discovered[~zero].mean()),
        }
    return records


# ------------------------------------------------------------------------------------------------
# Tables
# ------------------------------------------------------------------------------------------------


def cost(n: int, p: int, repeats: int) -> list[Record]:
    """Return times of intervals with known covariance, relative to plain runs."""
    records = []
    for loss, penalty in PAIRS:
        problem = Problem.draw(loss, penalty, n, p, ITERS, seed=0)
        covariance = problem.model.covariance

        def intervals(
            path: sp.Path = problem.path, covariance: np.ndarray = covariance
        ) -> sp.CoefficientIntervals:
            return sp.coefficient_intervals(path, covariance=covariance, rng=0)

        unit, taken, found = [], [], None
        for _ in range(repeats):  # alternating, because of other load on the machine
            unit.append(seconds(lambda problem=problem: plain(problem))[0])  # type: ignore[misc]
            each, found = seconds(intervals)
            taken.append(each)
        assert found is not None
        record: Record = {"loss": loss, "penalty": penalty, "n": n, "p": p}
        record |= {"plain": float(np.median(unit)), "seconds": float(np.median(taken))}
        record |= {"runs": float(np.median(np.array(taken) / np.array(unit))), "iterate": found.t}
        records.append(record)
    return records


def nodewise(n: int, p: int, repeats: int) -> Record:
    """Return the time of intervals for 50 features by node-wise regressions."""
    problem = Problem.draw("lad", "lasso", n, p, ITERS, seed=0)
    features = np.linspace(0, p - 1, min(50, p)).astype(int)
    taken, _ = seconds(
        lambda: sp.coefficient_intervals(
            problem.path, features=features, rng=0, scores="node-wise lasso"
        ),
        repeats,
    )
    return {"n": n, "p": p, "features": len(features), "seconds": taken}


def penalty_widths(n: int, p: int, lam: float, seed: int) -> Record:
    """Return the width of the shortest intervals relative to the last iteration."""
    model = sp.simulate.paper_model(p, "t2")
    X, y = model.sample(n, rng=np.random.default_rng([seed, n, p]))
    path = sp.run(X, y, sp.LAD(), sp.Lasso(lam), ALGORITHM, ITERS)
    found = {
        name: sp.coefficient_intervals(path, t, covariance=model.covariance, rng=seed)
        for name, t in (("shortest", None), ("last", ITERS))
    }
    covered = {
        f"{name}_covers": float(np.mean((each.lower <= model.coef) & (model.coef <= each.upper)))
        for name, each in found.items()
    }
    ratio = float(found["shortest"].stderr.mean() / found["last"].stderr.mean())
    return {"ratio": ratio, "iterate": found["shortest"].t, **covered}


def _means(records: list[Record]) -> Record:
    return {key: float(np.mean([each[key] for each in records])) for key in records[0]}


def compared(case: Case | LabelCase, one: Any, sets: int, jobs: int) -> list[Record]:
    """Apply all methods to data sets of a case; return and print their mean results."""
    found, records = in_parallel(one, [(case, seed) for seed in range(sets)], jobs), []
    for name in case.methods:
        means = _means([each[name] for each in found])
        known = {key: None if np.isnan(mean) else mean for key, mean in means.items()}
        record = {**case._asdict(), "sets": sets, "method": name, **known}
        records.append(record)
        shown = [f"{v:.3f}" if isinstance(v, float) else str(v) for v in record.values()]
        print(f"| {' | '.join(shown)} |", flush=True)
    return records


def print_head(names: str) -> None:
    """Print the head of a table."""
    columns = names.split(", ")
    print(f"\n| {' | '.join(columns)} |\n|{'---|' * len(columns)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="use smaller data, two sets per case")
    parser.add_argument("--sets", type=int, default=20, help="data sets per case")
    parser.add_argument("--jobs", type=int, default=1, help="number of processes")
    parser.add_argument("--json", type=Path, help="write the results to this file")
    options = parser.parse_args()
    sets = 2 if options.quick else options.sets
    packages = ("steinpath", "hidimstat", "statsmodels", "scikit-learn")
    result: Record = {
        "machine": machine(),
        "versions": {"python": platform.python_version()} | {p: version(p) for p in packages},
        "command": command(),
    }

    def keep(name: str, value: Any) -> None:
        result[name] = value
        if options.json:  # after each case: a long run may be interrupted
            text = json.dumps(result, indent=1, ensure_ascii=False) + "\n"
            options.json.write_text(text, encoding="utf-8")

    n, columns = (200, (100, 240)) if options.quick else (2000, (1000, 2400))
    print_head("pair, n, p, plain run (s), intervals (s), ratio, iteration")
    costs: list[Record] = []
    for p in columns:
        for each in cost(n, p, 3):
            costs.append(each)
            cells = (f"{each['loss']}–{each['penalty']}", each["n"], each["p"])
            times = (f"{each['plain']:.2f}", f"{each['seconds']:.2f}", f"{each['runs']:.1f}")
            print(f"| {' | '.join(map(str, (*cells, *times, each['iterate'])))} |", flush=True)
    keep("cost", costs)
    keep("nodewise", nodewise(n // 2, n // 4, 3))
    print(f"\nnode-wise: {result['nodewise']}")

    print_head("noise, n, p, sets, method, seconds, coverage zero, nonzero, width, FDR, power")
    peers: list[Record] = []
    for case in QUICK if options.quick else CASES:
        peers += compared(case, data_set, sets, options.jobs)
        keep("peers", peers)

    print_head("deviation, n, p, sets, method, seconds, rejected, FDR, power, coverage nonzero")
    classes: list[Record] = []
    for labels in QUICK_LABELS if options.quick else LABEL_CASES:
        classes += compared(labels, label_data_set, sets, options.jobs)
        keep("classes", classes)

    print_head("n, p, lam, sets, ratio, iteration, coverage shortest, coverage last")
    widths: list[Record] = []
    for p in columns:
        for lam in (0.1, LAM, 1.5):
            cases = [(n, p, lam, seed) for seed in range(min(sets, 10))]
            found = in_parallel(penalty_widths, cases, options.jobs)
            record = {"n": n, "p": p, "lam": lam, "sets": len(found), **_means(found)}
            widths.append(record)
            print(f"| {' | '.join(f'{v:.3g}' for v in record.values())} |", flush=True)
        keep("penalties", widths)


if __name__ == "__main__":
    main()
