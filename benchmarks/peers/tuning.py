"""Selection of the penalty: `steinpath.tune` compared with cross-validated solvers.

    python -m benchmarks.peers.tuning --quick             # small problems, under a minute
    python -m benchmarks.peers.tuning --json benchmarks/results/tuning.json
    python -m benchmarks.peers.tuning --parts lad --full-seeds 10 --search-jobs 16

Data of the paper's model with known true risk. All methods select from the same penalties:

- **lad**: LAD–lasso with an intercept, t₂ noise; compared with scikit-learn's `QuantileRegressor`
  (exact, linear programming) in `GridSearchCV` with five folds.
- **sqrt**: square-root lasso without an intercept, normal noise; compared with skglm's `SqrtLasso`
  with five folds.

Methods of steinpath select an iteration as well as the penalty. *Regret* is the true risk of the
selected model divided by the lowest over all iterations and penalties, minus 1; it is negative if a
competitor is better than all iterates on these paths. *Excess* is the risk minus that of the true
coefficients. Times use `--threads` threads, one by default.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable
from functools import partial
from importlib.metadata import distributions, version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import QuantileRegressor
from sklearn.model_selection import GridSearchCV, KFold
from threadpoolctl import threadpool_limits

import steinpath as sp
from benchmarks.common.measuring import command, machine, seconds
from steinpath.study._tables import mean_and_error

FOLDS = 5
FEW = 5  # penalties at which fits are timed, if the grid search is extrapolated
LONG = 5000  # iterations after which a path is assumed to have converged
TUNE, MEASURED = "sp.tune", "GridSearchCV of it, measured"
Record = dict[str, Any]


class Case(NamedTuple):
    """A model and the type of data."""

    loss: Any
    noise: str
    test_loss: str
    of_error: Callable[[np.ndarray], np.ndarray]
    fit_intercept: bool
    estimator: Any

    def objective(self, data: Data, lam: float, coef: np.ndarray, intercept: float) -> float:
        """Return the objective, on the scale of steinpath."""
        residuals = data.y - data.X @ coef - intercept
        if isinstance(self.loss, sp.SquareRoot):
            fit = np.linalg.norm(residuals)
        else:
            fit = np.abs(residuals).sum() / math.sqrt(len(residuals))
        return float(fit + lam * np.abs(coef).sum())


CASES = {
    "lad": Case(sp.LAD(), "t2", "absolute", np.abs, True, sp.LADLasso),
    "sqrt": Case(sp.SquareRoot(), "normal", "squared", np.square, False, sp.SqrtLasso),
}


class Data(NamedTuple):
    """A sample of the paper's model."""

    case: Case
    model: sp.simulate.LinearModel
    X: np.ndarray
    y: np.ndarray
    seed: int

    @classmethod
    def draw(cls, case: Case, n: int, p: int, seed: int) -> Data:
        model = sp.simulate.paper_model(p, case.noise)
        return cls(case, model, *model.sample(n, rng=seed), seed)

    def risk(self, coef: np.ndarray, intercept: Any = 0.0) -> np.ndarray:
        """Return the exact risk of one or many vectors of coefficients."""
        return self.model.risk(coef, self.case.test_loss, intercept)

    def noise(self) -> tuple[float, float]:
        """Return the risk of the true coefficients, and their mean loss on this sample.

        The latter is common to all estimates from this sample and differs greatly from the former
        for t₂ noise; it is subtracted to compare estimated and true risk.
        """
        errors = self.y - self.X @ self.model.coef - self.model.intercept
        true = float(self.risk(self.model.coef, self.model.intercept))
        return true, float(self.case.of_error(errors).mean())


def measured(function: Callable[[], Any]) -> tuple[Record, Any]:
    """Return the time of a call, its warnings by category, and its result."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        elapsed, result = seconds(function)
    kinds = Counter(warning.category.__name__ for warning in caught)
    return {"seconds": elapsed, "warnings": kinds}, result


# ------------------------------------------------------------------------------------------------
# steinpath
# ------------------------------------------------------------------------------------------------


def tuned(data: Data, lams: Any, n_iter: int, **how: Any) -> tuple[Record, sp.Tuning]:
    """Run `sp.tune`; record how it estimated the risk of the selected model."""
    case = data.case
    arguments = (data.X, data.y, case.loss, sp.Lasso, lams, n_iter)
    record, tuning = measured(
        partial(sp.tune, *arguments, fit_intercept=case.fit_intercept, rng=data.seed, **how)
    )
    (k, t), chosen = tuning.best, tuning.risks[tuning.best[0]]
    record |= {
        "risk": float(data.risk(tuning.coef, tuning.intercept)),
        "lam": tuning.best_lam,
        "lam_index": k,
        "iterate": t,
        "estimate": float(chosen.values[t]),
        "stderr": float(chosen.stderr[t]),
        "by": chosen.method,
        "others_by": sorted({risk.method for risk in tuning.risks}),
        "doubts": len(tuning.warnings),
    }
    return record, tuning


def cross_validated(data: Data, tuning: sp.Tuning, truth: np.ndarray) -> Record:
    """Run five-fold cross-validation of the existing paths with the same engine."""
    paths = [risk.path for risk in tuning.risks]
    record, values = measured(
        lambda: np.array(
            [sp.cross_validate_path(path, cv=FOLDS, rng=data.seed).values for path in paths]
        )
    )
    k, t = (int(i) for i in np.unravel_index(np.argmin(values), values.shape))
    chosen = {"lam": float(tuning.lams[k]), "lam_index": k, "iterate": t}
    return record | chosen | {"risk": float(truth[k, t]), "estimate": float(values[k, t])}


def estimator(data: Data, n_alphas: int, n_iter: int) -> Record:
    """Run the scikit-learn estimator, with standardised columns and its own grid."""
    model = data.case.estimator(
        n_alphas=n_alphas,
        n_iter=n_iter,
        fit_intercept=data.case.fit_intercept,
        random_state=data.seed,
    )
    record, _ = measured(partial(model.fit, data.X, data.y))
    return record | {"risk": float(data.risk(model.coef_, model.intercept_))}


# ------------------------------------------------------------------------------------------------
# scikit-learn, for LAD
# ------------------------------------------------------------------------------------------------


def quantile_alphas(data: Data, lams: Any) -> Any:
    """Return alphas of `QuantileRegressor`, whose loss is the mean of |residual| / 2."""
    return lams / (2 * math.sqrt(len(data.y)))


def quantile_regressor(alpha: float = 1.0) -> Any:
    return QuantileRegressor(quantile=0.5, alpha=alpha, solver="highs")


def fit_quantile(data: Data, lam: float, rows: Any = slice(None)) -> tuple[Record, Any]:
    """Fit once, to all rows or a subset."""
    model = quantile_regressor(quantile_alphas(data, lam))
    return measured(partial(model.fit, data.X[rows], data.y[rows]))


def quantile_methods(data: Data, tuning: sp.Tuning, search_jobs: int) -> dict[str, Record]:
    """Run one fit at the penalty selected by `sp.tune`, and measure or extrapolate a grid search.

    The extrapolation is always computed, as a check. Fits at a few penalties across the grid are
    timed on the first training fold and interpolated over log(lam). Their sum is multiplied by the
    number of folds, and one fit to all rows is added for the refit.
    """
    one, model = fit_quantile(data, tuning.best_lam)
    one |= {"risk": float(data.risk(model.coef_, model.intercept_)), "lam": tuning.best_lam}
    n_lams = len(tuning.lams)
    few = np.unique(np.linspace(0, n_lams - 1, FEW).round().astype(int))
    train = next(iter(KFold(FOLDS).split(data.X)))[0]
    timed = [fit_quantile(data, tuning.lams[k], train)[0] for k in few]
    times = np.interp(np.arange(n_lams), few, [record["seconds"] for record in timed])
    counts: Counter[str] = sum((record["warnings"] for record in timed), Counter())
    found = {
        "QuantileRegressor, one fit at tune's penalty": one,
        "QuantileRegressor, mean fit over penalties (4/5 of rows)": {
            "seconds": float(times.mean()),
            "warnings": counts,
            "few": [(float(tuning.lams[k]), r["seconds"]) for k, r in zip(few, timed, strict=True)],
        },
        "GridSearchCV of it, extrapolated": {
            "seconds": float(FOLDS * times.sum() + one["seconds"]),
            "warnings": Counter(),
            "extrapolated": True,
        },
    }
    if search_jobs:
        name = MEASURED if search_jobs == 1 else f"GridSearchCV of it, {search_jobs} processes"
        found[name] = grid_search(data, tuning.lams, search_jobs)
    return found


def grid_search(data: Data, lams: np.ndarray, n_jobs: int) -> Record:
    """Run GridSearchCV."""
    search = GridSearchCV(
        quantile_regressor(),
        {"alpha": quantile_alphas(data, lams)},
        cv=FOLDS,
        scoring="neg_mean_absolute_error",
        n_jobs=n_jobs,
    )
    record, _ = measured(partial(search.fit, data.X, data.y))
    best, results = search.best_estimator_, search.cv_results_
    splits = np.array([results[f"split{k}_test_score"] for k in range(FOLDS)])
    return record | {
        "risk": float(data.risk(best.coef_, best.intercept_)),
        "lam": float(lams[search.best_index_]),
        "lam_index": int(search.best_index_),
        "estimate": -float(search.best_score_),
        "failed_fits": int(np.isnan(splits).sum()),
        "fit_seconds": results["mean_fit_time"].tolist(),
    }


# ------------------------------------------------------------------------------------------------
# skglm, for the square root
# ------------------------------------------------------------------------------------------------

Solve = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]


def skglm_path(X: np.ndarray, y: np.ndarray, lams: np.ndarray) -> np.ndarray:
    """Run `SqrtLasso.path`, which in skglm 0.5 starts every penalty from zero."""
    from skglm.experimental.sqrt_lasso import SqrtLasso

    return np.asarray(SqrtLasso(fit_intercept=False).path(X, y, alphas=lams)[1])


def skglm_warm(X: np.ndarray, y: np.ndarray, lams: np.ndarray) -> np.ndarray:
    """Run the path with warm starts.

    If the residuals become too small for the solver, of which `SqrtLasso.path` also warns, the last
    solution is used for all smaller penalties.
    """
    from skglm.experimental.sqrt_lasso import SqrtLasso, SqrtQuadratic
    from skglm.penalties import L1
    from skglm.solvers import ProxNewton

    default = SqrtLasso()
    solver = ProxNewton(tol=default.tol, max_iter=default.max_iter, fit_intercept=False)
    coef, coefs = np.zeros(X.shape[1]), []
    for lam in lams:
        start = coef.copy()
        try:
            coef, *_ = solver.solve(X, y, SqrtQuadratic(), L1(lam), w_init=start, Xw_init=X @ start)
        except ValueError as error:
            if str(error) != "SmallResidualException":
                raise
            warnings.warn(f"small residuals at {lam:.2g}", ConvergenceWarning, stacklevel=2)
            break
        coefs.append(coef)
    return np.array(coefs + [coef] * (len(lams) - len(coefs)))


SKGLM: dict[str, Solve] = {"path": skglm_path, "warm": skglm_warm}


def skglm_compile() -> float:
    """Compile skglm with a small fit; return the seconds, including the import."""
    start = time.perf_counter()
    X, y = sp.simulate.paper_model(10).sample(50, rng=0)
    for solve in SKGLM.values():
        solve(np.asfortranarray(X), y, np.array([2.0, 1.0]))
    return time.perf_counter() - start


def skglm_folds(data: Data, lams: np.ndarray, solve: Solve) -> tuple[int, float, np.ndarray]:
    """Cross-validate a path; return the selected penalty, its error and the refit.

    Folds and refit use the same penalties, as in `GridSearchCV` and in theory: for the square-root
    lasso they do not depend on the number of rows.
    """
    X, y = np.asfortranarray(data.X), data.y  # column-major for the solver
    errors = []
    for train, test in KFold(FOLDS).split(X):
        coefs = solve(np.asfortranarray(X[train]), y[train], lams)
        errors.append(np.mean((y[test] - coefs @ X[test].T) ** 2, axis=1))
    mean = np.mean(errors, axis=0)
    best = int(np.argmin(mean))
    return best, float(mean[best]), solve(X, y, lams[[best]])[0]


def skglm_methods(data: Data, tuning: sp.Tuning) -> dict[str, Record]:
    """Run one fit at the penalty selected by `sp.tune`, a path, and five folds.

    The faster of two implementations of the path is used, as measured on the data.
    """
    X, lams = np.asfortranarray(data.X), tuning.lams
    one, coefs = measured(partial(skglm_path, X, data.y, np.array([tuning.best_lam])))
    one |= {"risk": float(data.risk(coefs[0])), "lam": tuning.best_lam}
    paths = {
        name: measured(partial(solve, X, data.y, lams))[0] | {"way": name}
        for name, solve in SKGLM.items()
    }
    path = min(paths.values(), key=lambda record: record["seconds"])
    path["by_way"] = {name: record["seconds"] for name, record in paths.items()}
    crossed, (k, error, coef) = measured(
        partial(skglm_folds, data, lams, SKGLM[path["way"]]),
    )
    chosen = {"lam": float(lams[k]), "lam_index": k, "estimate": error, "way": path["way"]}
    return {
        "skglm SqrtLasso, one fit at tune's penalty": one,
        "skglm SqrtLasso, all penalties once": path,
        "skglm SqrtLasso, five folds and refit": crossed
        | chosen
        | {"risk": float(data.risk(coef))},
    }


# ------------------------------------------------------------------------------------------------
# All methods, on one sample
# ------------------------------------------------------------------------------------------------


def replicate(data: Data, n_lams: int, n_iter: int, search_jobs: int) -> Record:
    """Run all methods on one sample."""
    record, tuning = tuned(data, n_lams, n_iter)
    paths = [risk.path for risk in tuning.risks]
    truth = np.array([data.risk(path.coef, path.intercept) for path in paths])
    methods = {TUNE: record}
    for name, value in (("audit", 0), ("audit", 32), ("method", "folds")):
        found, _ = tuned(data, tuning.lams, n_iter, **{name: value})
        methods[f"sp.tune, {name}={value!r}"] = found
    methods["sp.cross_validate_path, 5 folds (paths not counted)"] = cross_validated(
        data, tuning, truth
    )
    methods[f"sp.{data.case.estimator.__name__}"] = estimator(data, n_lams, n_iter)
    if isinstance(data.case.loss, sp.LAD):
        methods |= quantile_methods(data, tuning, search_jobs)
    else:
        methods |= skglm_methods(data, tuning)

    best, (floor, sample) = float(truth.min()), data.noise()
    for found in methods.values():
        found["tune_takes"] = record["seconds"] / found["seconds"]
        if "risk" in found:
            found["excess"], found["regret"] = found["risk"] - floor, found["risk"] / best - 1
            found["to_tune"] = found["risk"] / record["risk"] - 1
        if "estimate" in found:
            found["estimated_excess"] = found["estimate"] - sample
    return {"seed": data.seed, "lams": tuning.lams.tolist(), "best": best, "methods": methods}


def check(data: Data) -> Record:
    """Check with a long run at one penalty that the competitor minimises the same objective."""
    case = data.case
    lam = sp.lam_max(data.X, data.y, case.loss, sp.Lasso(1.0), case.fit_intercept) / 10
    intercept = 0.0
    if isinstance(case.loss, sp.LAD):
        model = fit_quantile(data, lam)[1]
        coef, intercept = model.coef_, float(model.intercept_)
    else:
        coef = skglm_path(np.asfortranarray(data.X), data.y, np.array([lam]))[0]
    path = sp.run(
        data.X, data.y, case.loss, sp.Lasso(lam), n_iter=LONG, fit_intercept=case.fit_intercept
    )
    ours = case.objective(data, lam, path.coef[-1], float(path.intercept[-1]))
    theirs = case.objective(data, lam, coef, intercept)
    apart = float(np.abs(path.coef[-1] - coef).max() / np.abs(coef).max())
    print(
        f"check at lam = {lam:.3g}: objective {theirs:.8g} of the competitor, {ours:.8g} after "
        f"{LONG} iterations; coefficients differ by {apart:.1e} of the largest",
        flush=True,
    )
    return {"lam": lam, "theirs": theirs, "ours": ours, "coefficients_apart": apart}


# ------------------------------------------------------------------------------------------------
# Tables
# ------------------------------------------------------------------------------------------------


def choices_table(records: list[Record]) -> str:
    """Return a table of the models selected by `sp.tune` for each sample."""
    lines = [
        "| seed | lam (index) | iteration | method | risk, estimated | true | lowest "
        "| regret | excess, estimated | true | warnings |",
        "|---" * 11 + "|",
    ]
    for record in records:
        r = record["methods"][TUNE]
        lines.append(
            f"| {record['seed']} | {r['lam']:.3g} ({r['lam_index']}) | {r['iterate']} | {r['by']} "
            f"| {r['estimate']:.3f} ± {r['stderr']:.3f} | {r['risk']:.3f} | {record['best']:.3f} "
            f"| {r['regret']:.1%} | {r['estimated_excess']:.3f} | {r['excess']:.3f} "
            f"| {r['doubts']} |"
        )
    return "\n".join(lines)


def methods_table(records: list[Record]) -> str:
    """Return time and true risk of every method, also relative to `sp.tune` on the same samples.

    Not all methods have results for all samples.
    """
    names = dict.fromkeys(name for record in records for name in record["methods"])
    lines = [
        "| | seconds, median (range) | tune relative to it | true risk | excess "
        "| risk relative to tune | regret, mean | worst | samples | warnings |",
        "|---" * 10 + "|",
    ]
    for name in names:
        rows = [r["methods"][name] for r in records if name in r["methods"]]
        times = [r["seconds"] for r in rows]
        cells = [f"{np.median(times):.3g} ({min(times):.3g} to {max(times):.3g})"]
        cells.append(f"{np.median([r['tune_takes'] for r in rows]):.3g}")
        if "risk" in rows[0]:
            mean = {key: np.mean([r[key] for r in rows]) for key in ("risk", "excess", "regret")}
            cells += [f"{mean['risk']:.3f}", f"{mean['excess']:.3f}"]
            cells += [f"{np.mean([r['to_tune'] for r in rows]):+.1%}", f"{mean['regret']:.1%}"]
            cells.append(f"{max(r['regret'] for r in rows):.1%}")
        else:
            cells += [""] * 5
        counts: Counter[str] = sum((r["warnings"] for r in rows), Counter())
        counts["failed fits"] = sum(r.get("failed_fits", 0) for r in rows)
        warned = ", ".join(f"{count} {kind}" for kind, count in counts.items() if count)
        lines.append(f"| {name} | {' | '.join(cells)} | {len(rows)} | {warned or 'none'} |")
    return "\n".join(lines)


def optimism_line(records: list[Record]) -> str:
    """Return the bias of the estimate at the selected model, net of the sample's noise.

    The minimum of many estimates is biased downwards.
    """
    rows = [record["methods"][TUNE] for record in records]
    errors = np.array([r["estimated_excess"] - r["excess"] for r in rows])
    spread = f" ± {mean_and_error(errors)[1]:.3f}" if len(errors) > 1 else ""
    return f"estimated minus true excess at the selected model: mean {errors.mean():+.3f}{spread}"


def skglm_line(records: list[Record]) -> str:
    """Return which implementation of skglm's path was faster and used."""
    paths = [r["methods"]["skglm SqrtLasso, all penalties once"] for r in records]
    times = {way: np.median([path["by_way"][way] for path in paths]) for way in SKGLM}
    used = Counter(path["way"] for path in paths)
    return "skglm, all penalties once, median and how often faster: " + "; ".join(
        f"{way} {times[way]:.3g} s, {used[way]}" for way in SKGLM
    )


def extrapolation_line(records: list[Record]) -> str:
    """Return extrapolated over measured times of the grid search, where both exist."""
    both = [
        r["methods"]["GridSearchCV of it, extrapolated"]["seconds"]
        / r["methods"][MEASURED]["seconds"]
        for r in records
        if MEASURED in r["methods"]
    ]
    shown = ", ".join(f"{ratio:.2f}" for ratio in both) or "not measured"
    return f"extrapolated over measured time of the grid search: {shown}"


# ------------------------------------------------------------------------------------------------
# The command
# ------------------------------------------------------------------------------------------------


def conditions(threads: int) -> Record:
    """Return the date, machine and conditions of the measurements."""
    packages = ("numpy", "scipy", "scikit-learn", "skglm", "numba")
    installed = {package.metadata["Name"] for package in distributions()}
    return machine() | {
        "python": sys.version.split()[0],
        "versions": {name: version(name) for name in packages if name in installed},
        "command": command(),
        "threads": threads,
        "load_average": os.getloadavg(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parts", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--quick", action="store_true", help="n=200, p=60, 100 iterations, 2 seeds")
    parser.add_argument("--n", type=int, help="rows; 1000 by default")
    parser.add_argument("--p", type=int, help="columns; 500 by default")
    parser.add_argument("--n-iter", type=int, help="iterations; 300 by default")
    parser.add_argument("--lams", type=int, default=20, help="number of penalties")
    parser.add_argument("--seeds", type=int, help="replications; 10 by default")
    parser.add_argument("--first-seed", type=int, default=0, help="seed of the first replication")
    parser.add_argument(
        "--full-seeds", type=int, default=1, help="replications with a whole grid search"
    )
    parser.add_argument(
        "--search-jobs", type=int, default=1, help="processes of a grid search; timed if 1"
    )
    parser.add_argument("--threads", type=int, default=1, help="threads of the linear algebra")
    parser.add_argument("--json", type=Path, help="write all records to this file")
    args = parser.parse_args()
    n, p, n_iter, seeds = (
        default if given is None else given
        for given, default in zip(
            (args.n, args.p, args.n_iter, args.seeds),
            (200, 60, 100, 2) if args.quick else (1000, 500, 300, 10),
            strict=True,
        )
    )
    if args.json:
        args.json.parent.mkdir(parents=True, exist_ok=True)
    found: Record = {
        "conditions": conditions(args.threads),
        "sizes": {"n": n, "p": p, "n_iter": n_iter, "lams": args.lams},
        "replications": {"seeds": seeds, "full_seeds": args.full_seeds},
    }
    print(found["conditions"])

    def save() -> None:
        if args.json:
            args.json.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")

    for part in args.parts:
        case = CASES[part]
        records: list[Record] = []
        found[part] = {"records": records}
        print(f"\n## {part}, n={n}, p={p}, {n_iter} iterations, {args.lams} penalties, ", end="")
        print(f"{case.noise} noise\n")
        with threadpool_limits(args.threads):
            tuned(Data.draw(case, 50, 10, seed=0), 2, 10)  # warm-up
            if part == "sqrt":
                found[part]["compile_seconds"] = skglm_compile()
                print(f"skglm: {found[part]['compile_seconds']:.1f} s to import and compile")
            found[part]["check"] = check(Data.draw(case, n, p, seed=0))
            for i in range(seeds):
                seed = args.first_seed + i
                data = Data.draw(case, n, p, seed)
                search_jobs = args.search_jobs if i < args.full_seeds else 0
                records.append(replicate(data, args.lams, n_iter, search_jobs))
                print(f"  sample {seed}: done", flush=True)
                save()
        print(f"\n{choices_table(records)}\n\n{methods_table(records)}\n", flush=True)
        print(optimism_line(records))
        print(extrapolation_line(records) if part == "lad" else skglm_line(records), flush=True)


if __name__ == "__main__":
    main()
