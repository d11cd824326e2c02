"""How often default fits warn: on well-specified, real and mis-specified data.

    python -m benchmarks.accuracy.false_alarms                  # five minutes on one core
    python -m benchmarks.accuracy.false_alarms --quick          # one minute
    python -m benchmarks.accuracy.false_alarms --json benchmarks/results/false_alarms.json

- **well-specified**: independent rows and errors of several shapes, including some that look
  suspicious: categories, small integers, squares and products, sorted files, sample weights.
- **real data**: each warning is listed and judged by hand in `JUDGED`.
- **alien rows**: the five processes of `challenges.py`, where a warning is correct if the estimate
  is wrong.

The warning that the risk was still decreasing at the last iteration concerns convergence and is
counted separately.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

import steinpath as sp
from benchmarks.accuracy.trust import replicate
from benchmarks.common.challenges import CHALLENGES
from benchmarks.common.datasets import TABLES
from benchmarks.common.measuring import machine

Record = dict[str, Any]

#: Part of the message of each check.
PHRASES = {
    "all coefficients are zero": "zero coefficients",
    "deviations of y from the median": "dominant row",
    "loss of the audited rows": "audit",
    "the iterates are so close": "movement",
    "have a near-duplicate": "near-duplicate rows",
    "consecutive rows of X are similar": "serial rows",
    "residuals of neighbouring rows": "serial residuals",
    "row norms of X vary widely": "row norms",
    "times as many columns as rows": "columns per row",
    "observations, standard errors": "few rows",
    "may diverge": "step sizes",
    "boundary of its projection": "projection boundary",
    "at the selected iteration is correction": "correction size",
    "the Monte Carlo error of": "Monte Carlo error",
}


def named(message: str) -> str:
    """Return the check that issued a message, or the message itself if unknown."""
    return next((name for phrase, name in PHRASES.items() if phrase in message), message)


class Fit(NamedTuple):
    """A default fit, the checks that warned, and whether the risk was still decreasing."""

    model: Any
    reasons: list[str]
    still_falls: bool


def fit(estimator: str, X: np.ndarray, y: np.ndarray, seed: int = 0, **options: Any) -> Fit:
    """Fit an estimator with default parameters."""
    weights = {name: options.pop(name) for name in ["sample_weight"] if name in options}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = getattr(sp, estimator)(random_state=seed, **options).fit(X, y, **weights)
    falls = any("still decreasing" in str(each.message) for each in caught)
    return Fit(model, [named(message) for message in model.warnings_], falls)


# ------------------------------------------------------------------------------------------------
# Well-specified data
# ------------------------------------------------------------------------------------------------


def gaussian(n: int, p: int) -> Callable[[np.random.Generator], np.ndarray]:
    """Return a function that draws standard normal rows."""
    return lambda rng: rng.standard_normal((n, p))


def one_hot(rng: np.random.Generator, n: int = 500) -> np.ndarray:
    """Draw indicators of four categories, thirty columns."""
    return np.hstack([np.eye(k)[rng.integers(0, k, n)] for k in (5, 10, 6, 9)])


def integers(rng: np.random.Generator, n: int = 400) -> np.ndarray:
    """Draw dependent counts and ratings with few distinct values."""
    age = rng.integers(18, 70, n)
    children, rating = rng.poisson(age / 30), rng.integers(1, 6, (n, 6))
    return np.column_stack([age, children, rating, rng.integers(0, 2, (n, 4))]).astype(float)


def squares(rng: np.random.Generator, n: int = 400, p: int = 10) -> np.ndarray:
    """Draw ten columns with all their squares and products."""
    X = rng.standard_normal((n, p))
    i, j = np.triu_indices(p)
    return np.hstack([X, X[:, i] * X[:, j]])


DESIGNS: dict[str, Callable[[np.random.Generator], np.ndarray]] = {
    "Gaussian, 100 × 200": gaussian(100, 200),
    "Gaussian, 400 × 20": gaussian(400, 20),
    "Gaussian, 300 × 150": gaussian(300, 150),
    "Gaussian, 1000 × 100": gaussian(1000, 100),
    "Gaussian, 3000 × 40": gaussian(3000, 40),
    "one-hot, 500 × 30": one_hot,
    "small integers, 400 × 12": integers,
    "squares and products, 400 × 65": squares,
    "sorted by a column, 400 × 5": gaussian(400, 5),
    "sorted by the target, 400 × 20": gaussian(400, 20),
    "sample weights, 150 × 10": gaussian(150, 10),
}
LARGE = ("Gaussian, 1000 × 100", "Gaussian, 3000 × 40")
#: Student's t₂ has infinite variance, so it is not used with the square-root loss.
MODELS = (
    ("LADLasso", "t2"),
    ("LADLasso", "normal"),
    ("HuberLasso", "t2"),
    ("HuberLasso", "normal"),
    ("SqrtLasso", "normal"),
    ("LADRidge", "t2"),
    ("SqrtRidge", "normal"),
)


def draw(design: str, noise: str, seed: int) -> tuple[np.ndarray, np.ndarray, Record]:
    """Return X, y and options of the fit."""
    rng = np.random.default_rng([seed, 5])
    X = DESIGNS[design](rng)
    n, p = X.shape
    coef = np.zeros(p)
    coef[: min(p // 2, 10)] = rng.standard_normal(min(p // 2, 10))
    signal = (X - X.mean(axis=0)) / X.std(axis=0) @ coef
    y = signal + (rng.standard_t(2, n) if noise == "t2" else rng.standard_normal(n))
    if design.startswith("sorted"):
        order = np.argsort(X[:, 0] if "column" in design else y)
        return X[order], y[order], {}
    if design.startswith("sample weights"):
        return X, y, {"sample_weight": rng.integers(1, 5, n)}
    return X, y, {}


def well_specified(reps: int) -> list[Record]:
    """Print how often fits of well-specified models warn."""
    print("\n| well-specified | fits | warn | checks | risk still decreasing |")
    print("|---|---|---|---|---|")
    table, fits = [], []
    for design in DESIGNS:
        found = []
        for model, noise in MODELS:
            for seed in range(1 if design in LARGE else reps):
                X, y, options = draw(design, noise, seed)
                found.append(fit(model, X, y, seed, **options))
        table.append(shares(design, found))
        fits += found
    table.append(shares("all", fits))
    return table


def shares(label: str, fits: list[Fit]) -> Record:
    """Summarise fits, and print the line of a table."""
    row: Record = {
        "data": label,
        "fits": len(fits),
        "warned": float(np.mean([bool(each.reasons) for each in fits])),
        "reasons": dict(Counter(name for each in fits for name in each.reasons)),
        "still falls": float(np.mean([each.still_falls for each in fits])),
    }
    reasons = ", ".join(f"{name} ({count})" for name, count in row["reasons"].items())
    print(
        f"| {label} | {row['fits']} | {row['warned']:.1%} | {reasons} | {row['still falls']:.0%} |",
        flush=True,
    )
    return row


# ------------------------------------------------------------------------------------------------
# Real data
# ------------------------------------------------------------------------------------------------

#: Ordinary data sets, in the order of their files.
REAL = (
    *("diabetes", "diabetes-squares", "engel", "stackloss", "fair", "star98", "ccard"),
    *("flights", "ten-miles", "chicago", "diamonds", "computers", "wages", "doctor-visits"),
    *("medical-costs", "saratoga", "sacramento", "concrete-cubes", "cars", "college"),
    *("teaching", "hitters", "meats", "chemical-yield"),
)
#: The verdict on each warning, and why.
JUDGED: dict[tuple[str, str], tuple[bool, str]] = {
    ("engel", "serial residuals"): (True, "not in random order: neighbours have similar incomes"),
    ("stackloss", "few rows"): (True, "there are 21 days"),
    ("fair", "serial residuals"): (False, "the file is sorted by whether the target is zero"),
    ("flights", "near-duplicate rows"): (False, "a random sample; rare routes make rows alike"),
    ("flights", "row norms"): (True, "rare destinations; too low on random splits"),
    ("chicago", "serial residuals"): (True, "days in their order, a time series"),
    ("chicago", "serial rows"): (True, "days in their order, a time series"),
    ("doctor-visits", "serial residuals"): (False, "the file is sorted by the target and a column"),
    ("medical-costs", "serial residuals"): (True, "members of a family follow each other"),
    ("medical-costs", "serial rows"): (True, "members of a family follow each other"),
    ("chemical-yield", "serial residuals"): (True, "runs of a process, in their order"),
    ("sacramento", "audit"): (True, "zip codes with a few houses; folds repaired the estimate"),
    ("saratoga", "serial residuals"): (True, "houses of a neighbourhood follow each other"),
    ("sacramento", "row norms"): (False, "zip codes with a few houses; right on random splits"),
    ("sacramento", "near-duplicate rows"): (False, "houses of a zip code, at independent prices"),
    ("concrete-cubes", "near-duplicate rows"): (True, "a mixture is measured at several ages"),
    ("concrete-cubes", "serial rows"): (True, "mixtures of an experiment follow each other"),
    ("concrete-cubes", "serial residuals"): (True, "mixtures of an experiment follow each other"),
    ("concrete-cubes", "row norms"): (False, "cubes have heavy tails; right on random splits"),
    ("cars", "serial rows"): (True, "cars of the same model follow each other"),
    ("cars", "serial residuals"): (True, "cars of the same model follow each other"),
    ("cars", "near-duplicate rows"): (True, "cars of the same model"),
    ("teaching", "audit"): (True, "a teacher has few courses: the correction is too small"),
    ("teaching", "near-duplicate rows"): (True, "courses of the same teacher"),
    ("teaching", "serial rows"): (True, "courses of a teacher follow each other"),
    ("chemical-yield", "serial rows"): (True, "runs of a process, in their order"),
    ("meats", "serial residuals"): (False, "half of the file is sorted by the target"),
    ("computers", "near-duplicate rows"): (True, "the same offer, advertised again"),
}


def rows_of(name: str, most: int = 1500) -> tuple[np.ndarray, np.ndarray]:
    """Return a data set, or some of its rows in the order of the file."""
    X, y = TABLES[name].load()
    if len(y) > most:
        kept = np.sort(np.random.default_rng(0).choice(len(y), most, replace=False))
        X, y = X[kept], y[kept]
        X = X[:, np.ptp(X, axis=0) > 0]
    return X, y


def real_data(names: tuple[str, ...], estimators: tuple[str, ...]) -> list[Record]:
    """Print all warnings on real data."""
    print("\n| data | n × p | fit | warning | judged | reason |\n|---|---|---|---|---|---|")
    table: list[Record] = []
    for name in names:
        X, y = rows_of(name)
        for estimator in estimators:
            start = time.perf_counter()
            found = fit(estimator, X, y)
            took = time.perf_counter() - start
            judged = [JUDGED.get((name, reason), (None, "")) for reason in found.reasons]
            table.append(
                {
                    "data": name,
                    "shape": list(X.shape),
                    "estimator": estimator,
                    "warnings": list(found.model.warnings_),
                    "checks": found.reasons,
                    "right": [right for right, _ in judged],
                    "still falls": found.still_falls,
                    "seconds": took,
                }
            )
            for reason, (right, why) in zip(found.reasons, judged, strict=True):
                verdict = {True: "right", False: "wrong", None: "?"}[right]
                cells = [name, f"{X.shape[0]} × {X.shape[1]}", estimator, reason, verdict, why]
                print(f"| {' | '.join(cells)} |", flush=True)
    quiet = np.mean([not row["checks"] for row in table])
    verdicts = Counter(right for row in table for right in row["right"])
    print(
        f"\n{len(names)} data sets, {len(table)} fits: {quiet:.0%} without warnings; of "
        f"{sum(verdicts.values())} warnings, {verdicts[True]} are correct, {verdicts[False]} wrong"
    )
    return table


# ------------------------------------------------------------------------------------------------
# Mis-specified data
# ------------------------------------------------------------------------------------------------

ALIEN = (("LADLasso", "LAD–lasso"), ("SqrtRidge", "sqrt–ridge"))
LAWS = {"LADLasso": (sp.LAD(), "laplace"), "SqrtRidge": (sp.SquareRoot(), "normal")}


def default_fits(kind: str, estimator: str, reps: int) -> Iterator[tuple[Fit, float]]:
    """Yield default fits, and the errors of their estimates in standard errors."""
    loss, noise = LAWS[estimator]
    for seed in range(reps):
        data = CHALLENGES[kind](400, 200, noise, np.random.default_rng([seed, 11]))
        found = fit(estimator, data.X, data.y, seed, fit_intercept=False)
        truth = float(data.risk(np.atleast_2d(found.model.coef_), loss)[0])
        yield found, (found.model.best_risk_ - truth) / found.model.best_risk_stderr_


def alien_rows(reps: int) -> list[Record]:
    """Print how often fits to the five processes warn."""
    ways = ("plain", "audited")
    print(
        "\n| rows | pair | runs | plain, audited: warn | default fit: warns | off by 3 s.e. "
        "| without warning | checks |"
    )
    print("|---|---|---|---|---|---|---|---|")
    table = []
    for kind in CHALLENGES:
        for estimator, pair in ALIEN:
            runs = [replicate(kind, pair, seed, ways) for seed in range(reps)]
            by_way = [np.mean([bool(run[way]["warnings"]) for run in runs]) for way in ways]
            fits, errors = zip(*default_fits(kind, estimator, reps), strict=True)
            warned, off = np.array([bool(each.reasons) for each in fits]), np.abs(errors) > 3
            reasons = Counter(name for each in fits for name in each.reasons)
            row = {
                "rows": kind,
                "pair": pair,
                "runs": reps,
                **{way: float(share) for way, share in zip(ways, by_way, strict=True)},
                "default": float(warned.mean()),
                "off by three": float(off.mean()),
                "without a warning": float((off & ~warned).mean()),
                "reasons": dict(reasons),
            }
            print(
                f"| {kind} | {pair} | {reps} | {row['plain']:.0%}, {row['audited']:.0%} "
                f"| {row['default']:.0%} | {row['off by three']:.0%} "
                f"| {row['without a warning']:.0%} | {', '.join(reasons)} |",
                flush=True,
            )
            table.append(row)
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parts = ("well-specified", "real", "alien")
    parser.add_argument("--parts", nargs="+", choices=parts, default=parts)
    parser.add_argument("--quick", action="store_true", help="run fewer fits")
    parser.add_argument("--json", type=Path, help="write the tables to this file")
    options = parser.parse_args()
    tables: Record = {"machine": machine()}
    with threadpool_limits(1):
        if "well-specified" in options.parts:
            tables["well-specified"] = well_specified(1 if options.quick else 2)
        if "real" in options.parts:
            names = REAL[:8] if options.quick else REAL
            estimators = ("LADLasso",) if options.quick else ("LADLasso", "SqrtLasso")
            tables["real"] = real_data(names, estimators)
        if "alien" in options.parts:
            tables["alien"] = alien_rows(1 if options.quick else 3)
    if options.json:
        options.json.write_text(json.dumps(tables, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
