"""Seeded results of the public functions, stored before a refactoring and compared after it.

    python tools/seeded_results.py store before.npz
    python tools/seeded_results.py compare before.npz after.npz

``compare`` lists every array that differs by more than rounding, with its largest difference, and
every array that only one of the files has. Set PYTHONPATH to the ``src`` folder of
another checkout to store the results of that version. ``--cluster`` adds a Dask cluster in this
process. Takes about two minutes.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

import steinpath as sp

#: Differences up to this share of the largest entry are rounding errors.
ROUNDING = 1e-13
Results = Iterator[tuple[str, Any]]
#: Losses and penalties whose paths, risks and tunings are stored.
LOSSES = {
    "lad": sp.LAD(),
    "sqrt": sp.SquareRoot(),
    "quantile": sp.Quantile(0.8),
    "huber": sp.Huber(1.0),
    "insensitive": sp.EpsilonInsensitive(0.2),
    "squared": sp.Squared(),
    "hinge": sp.Hinge(),
    "squared_hinge": sp.SquaredHinge(),
    "logistic": sp.Logistic(),
}
GROUPS_OF_COLUMNS = np.repeat(np.arange(15), 2)
PENALTIES: dict[str, Callable[[float], Any]] = {
    "lasso": sp.Lasso,
    "ridge": sp.Ridge,
    "net": sp.ElasticNet,
    "mcp": sp.MCP,
    "scad": sp.SCAD,
    "group": partial(sp.GroupLasso, groups=GROUPS_OF_COLUMNS),
    "none": lambda lam: sp.NoPenalty(),
}
ALGORITHMS = {
    "cp": sp.ChambollePock(),
    "over": sp.ChambollePock(theta=0.5),
    "halpern": sp.HalpernPDHG(),
    "admm": sp.LinearizedADMM(),
}


def data(n: int, p: int, labels: bool = False, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return correlated columns of unequal scale, and responses with heavy-tailed noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p)) + 0.4 * rng.normal(size=(n, 1))
    X *= np.geomspace(0.5, 2, p)
    y = X[:, :4] @ np.array([1.0, -1.0, 0.5, 0.5]) + rng.standard_t(3, size=n) + 1.0
    return X, np.where(y > np.median(y), 1.0, -1.0) if labels else y


def of_path(path: Any) -> Results:
    """Yield the states of a path."""
    for name in ("coef", "intercept", "dual", "fitted", "objective"):
        yield name, getattr(path, name)


def of_risk(risk: Any) -> Results:
    """Yield an estimate with its audit and diagnostics."""
    for name in ("values", "raw", "train", "stderr", "probe_stderr", "corrected", "best_iter"):
        yield name, getattr(risk, name)
    if risk.audit is not None:
        for name in ("rows", "difference", "stderr", "slope", "correlation", "share", "error"):
            yield f"audit.{name}", getattr(risk.audit, name)
    for check in risk.diagnostics:
        yield f"diagnostic.{check.name}", [check.value, check.threshold]
    yield "warnings", list(risk.warnings)
    yield "compare", risk.compare(risk.best_iter, 0)


def of_tuning(tuning: Any, X: np.ndarray) -> Results:
    """Yield a search, its predictions and intervals."""
    for name in ("lams", "risk", "stderr", "best_lam", "best_iter", "coef", "intercept"):
        yield name, getattr(tuning, name)
    for name in ("best_risk", "best_risk_stderr"):
        yield name, getattr(tuning, name)
    yield "predict", tuning.predict(X)
    yield "chosen.method", tuning.chosen.method
    yield "chosen.predictions", tuning.chosen.predictions
    yield "chosen.losses", tuning.chosen.losses


def of_estimator(model: Any, X: Any) -> Results:
    """Yield the fitted attributes of an estimator, and its predictions."""
    skipped = ("tuning_", "penalty_", "n_features_in_")
    for name in sorted(set(dir(model)) - set(skipped)):
        if name.endswith("_") and not name.startswith("_"):
            yield name, getattr(model, name)
    yield "predict", model.predict(X)


def paths_and_risks() -> Results:
    """Yield paths and risks of all losses, penalties and algorithms, by several methods."""
    for loss_name, loss in LOSSES.items():
        X, y = data(60, 30, loss.margin)
        for k, (penalty_name, penalty) in enumerate(PENALTIES.items()):
            for m, (algorithm_name, algorithm) in enumerate(ALGORITHMS.items()):
                if (k + m) % 2 and loss_name != "lad":
                    continue
                intercept = (k + m) % 3 == 0
                path = sp.run(X, y, loss, penalty(0.4), algorithm, 40, fit_intercept=intercept)
                case = f"{loss_name}-{penalty_name}-{algorithm_name}"
                yield from named(f"{case}.path", of_path(path))
                yield from named(f"{case}.risk", of_risk(sp.estimate_risk(path, rng=0)))
    for name, fast in (("pg", sp.ProximalGradient()), ("fista", sp.FISTA())):
        X, y = data(60, 30)
        path = sp.run(X, y, sp.Squared(), sp.Lasso(0.4), fast, 40)
        yield from named(f"{name}.path", of_path(path))
        yield from named(f"{name}.risk", of_risk(sp.estimate_risk(path, rng=0)))


def methods() -> Results:
    """Yield risks by every method and option, for tall, square and wide data."""
    groups = np.arange(80) // 4
    options: dict[str, dict[str, Any]] = {
        "compressed": {"method": "compressed"},
        "hutchinson": {"method": "hutchinson", "n_probes": 3},
        "exact": {"method": "exact"},
        "loo": {"method": "loo"},
        "folds": {"method": "folds"},
        "covariance": {"method": "compressed", "covariance": "identity"},
        "norm": {"method": "compressed", "row_scale": "norm"},
        "audit": {"method": "compressed", "audit": 16},
        "audit-auto": {"method": "compressed", "audit": 16, "row_scale": "auto"},
        "audit-folds": {"method": "compressed", "audit": "folds"},
        "groups": {"groups": groups},
        "groups-audit": {"method": "compressed", "groups": groups, "audit": 8},
        "groups-folds": {"method": "folds", "groups": groups},
        "cv": {"cv": 5},
        "squared": {"test_loss": "squared", "audit": 8},
        "centered": {"centered": True, "audit": 8},
    }
    for p in (8, 80, 160):
        X, y = data(80, p)
        path = sp.run(X, y, sp.LAD(), sp.Lasso(0.3), n_iter=40, fit_intercept=True)
        for name, kwargs in options.items():
            if kwargs.get("covariance") == "identity":
                kwargs = kwargs | {"covariance": np.eye(p)}
            yield from named(f"{name}-{p}", of_risk(sp.estimate_risk(path, rng=1, **kwargs)))
        yield f"matrices-{p}", np.concatenate(sp.correction_matrices(path)[1:], axis=None)
        for validation in (
            sp.cross_validate_path(path, burman=True, rng=0),
            sp.cross_validate_path(path, cv=4, groups=groups, rng=0),
            sp.leave_one_out_path(path),
            sp.leave_one_out_path(path, groups=groups),
            sp.hold_out_path(path, rng=0),
        ):
            yield f"validation-{p}-{validation.n_splits}", [validation.values, validation.stderr]
    X, y = data(80, 40)
    ridge = sp.run(X, y, sp.SquareRoot(), sp.Ridge(0.3), n_iter=40)
    yield from named("spectral", of_risk(sp.estimate_risk(ridge, method="spectral", rng=0)))
    stopped = sp.run(X, y, sp.LAD(), sp.Lasso(0.1), n_iter=500, stop=sp.StopOnRisk(rng=0))
    yield from named("stop", [*of_path(stopped), *of_risk(stopped.risk)])


def containers() -> Results:
    """Yield sparse, single-precision, memory-mapped and weighted runs, and batches."""
    X, y = data(90, 40)
    weights = np.random.default_rng(5).integers(1, 4, 90)
    with tempfile.TemporaryDirectory() as folder:
        np.save(f"{folder}/X.npy", X)
        kinds = {
            "sparse": sparse.csr_array(np.where(np.abs(X) > 0.5, X, 0)),
            "single": X.astype(np.float32),
            "mapped": np.load(f"{folder}/X.npy", mmap_mode="r"),
        }
        for name, design in kinds.items():
            path = sp.run(design, y, sp.LAD(), sp.Lasso(0.3), n_iter=30, fit_intercept=True)
            yield from named(f"{name}.path", of_path(path))
            yield from named(f"{name}.risk", of_risk(sp.estimate_risk(path, audit=8, rng=0)))
    weighted = sp.run(X, y, sp.Huber(1.0), sp.Lasso(0.3), n_iter=30, sample_weight=weights)
    yield from named("weighted", of_path(weighted))
    batch = sp.run_batch(X, y, sp.LAD(), [sp.Lasso(lam) for lam in (0.1, 0.3, 1.0)], n_iter=30)
    for k, risk in enumerate(sp.estimate_risk_batch(batch, rng=0)):
        yield from named(f"batch-{k}", [*of_path(batch[k]), *of_risk(risk)])


def tunings() -> Results:
    """Yield searches over penalty and iteration."""
    groups = np.arange(100) // 5
    cases: dict[str, dict[str, Any]] = {
        "plain": {},
        "one_se": {"rule": "one_se"},
        "groups": {"groups": groups},
        "cv": {"cv": 5},
        "auto": {"n_iter": "auto"},
        "squared": {"test_loss": "squared"},
    }
    for p in (5, 60, 150):
        X, y = data(100, p)
        for name, kwargs in cases.items():
            how = {"lams": 8, "n_iter": 60, "rng": 3, "fit_intercept": True} | kwargs
            tuning = sp.tune(X, y, sp.LAD(), sp.Lasso, **how)
            yield from named(f"{name}-{p}", of_tuning(tuning, X))
            if name in ("plain", "groups"):
                yield f"{name}-{p}.interval", tuning.predict_interval(X[:20], level=0.8)
    X, y = data(100, 30, labels=True)
    for name, loss in (("logistic", sp.Logistic()), ("hinge", sp.Hinge())):
        tuning = sp.tune(X, y, loss, sp.Lasso, lams=6, n_iter=60, rng=0, fit_intercept=True)
        yield from named(name, of_tuning(tuning, X))


def intervals() -> Results:
    """Yield confidence intervals for coefficients."""
    names = ("estimate", "stderr", "lower", "upper", "pvalue", "t")
    for p in (10, 60, 120):
        X, y = data(100, p)
        path = sp.run(X, y, sp.LAD(), sp.Lasso(0.3), n_iter=40, fit_intercept=True)
        cases: dict[str, dict[str, Any]] = {
            "estimated": {"features": np.arange(6)},
            "known": {"covariance": np.eye(p)},
            "at": {"t": 5, "covariance": np.eye(p)},
        }
        for how, kwargs in cases.items():
            result = sp.coefficient_intervals(path, rng=0, **kwargs)
            yield from named(f"{how}-{p}", ((name, getattr(result, name)) for name in names))


def estimators() -> Results:
    """Yield fits of the estimators, with intervals, quantiles and classes."""
    X, y = data(120, 20)
    regressors = {
        "LADLasso": sp.LADLasso(random_state=0),
        "SqrtRidge": sp.SqrtRidge(random_state=0),
        "HuberLasso": sp.HuberLasso(random_state=0),
        "QuantileLasso": sp.QuantileLasso(q=0.3, random_state=0),
        "Quantiles": sp.QuantileLasso(q=[0.1, 0.5, 0.9], random_state=0),
        "LADElasticNet": sp.LADElasticNet(random_state=0),
        "mcp": sp.PathRegressor(penalty="mcp", n_alphas=6, random_state=0),
        "fixed": sp.PathRegressor(alpha=0.1, n_iter=50, select="last", random_state=0),
    }
    for name, model in regressors.items():
        yield from named(name, of_estimator(model.fit(X, y), X))
        if name != "fixed":
            yield f"{name}.interval", model.predict_interval(X[:10], level=0.8)
    intervals: Any = regressors["LADLasso"].coef_intervals()
    yield "LADLasso.coef_intervals", [intervals.estimate, intervals.stderr]
    grouped = sp.LADLasso(random_state=0).fit(X, y, groups=np.arange(120) // 6)
    yield from named("grouped", of_estimator(grouped, X))
    counts = np.random.default_rng(2).integers(0, 3, 120)
    yield from named(
        "counts", of_estimator(sp.LADLasso(random_state=0).fit(X, y, sample_weight=counts), X)
    )
    for name, classifier in {
        "LogisticLasso": sp.LogisticLasso(random_state=0),
        "HingeRidge": sp.HingeRidge(random_state=0),
        "balanced": sp.LogisticRidge(class_weight="balanced", random_state=0),
    }.items():
        for kind, labels in (("two", np.where(y > 1, "b", "a")), ("three", np.digitize(y, [0, 2]))):
            yield from named(f"{name}-{kind}", of_estimator(classifier.fit(X, labels), X))


def sizes() -> Results:
    """Yield risks, searches and fits of larger data, which use other shortcuts."""
    for n, p in ((600, 300), (300, 900), (4000, 20)):
        X, y = data(n, p)
        for name, loss, penalty in (
            ("lad", sp.LAD(), sp.Lasso(0.2)),
            ("sqrt", sp.SquareRoot(), sp.Ridge(0.2)),
        ):
            path = sp.run(X, y, loss, penalty, n_iter=60, fit_intercept=True)
            yield from named(f"{name}-{n}", of_risk(sp.estimate_risk(path, audit=8, rng=0)))
        tuning = sp.tune(X, y, sp.LAD(), sp.Lasso, lams=6, n_iter=50, rng=0)
        yield from named(f"tune-{n}", of_tuning(tuning, X))
    X, y = data(1500, 80)
    yield from named("LADLasso", of_estimator(sp.LADLasso(random_state=0).fit(X, y), X))


def on_a_cluster() -> Results:
    """Yield runs, risks, searches and fits with rows on the workers of a Dask cluster."""
    from dask import array
    from distributed import Client

    X, y = data(120, 30)
    client: Any = Client  # neither library has type hints
    blocks: Any = array.from_array
    with client(processes=False, n_workers=2, threads_per_worker=2, dashboard_address=None):
        rows = sp.distributed.from_dask_array(blocks(X, chunks=(50, -1)))
        path = sp.run(rows, y, sp.LAD(), sp.Lasso(0.3), n_iter=30, fit_intercept=True)
        yield from named("path", of_path(path))
        for name, kwargs in {
            "compressed": {"method": "compressed"},
            "audit": {"audit": 8},
            "audit-folds": {"method": "compressed", "audit": "folds"},
            "folds": {"method": "folds"},
            "loo": {"method": "loo"},
            "groups": {"groups": np.arange(120) // 4},
        }.items():
            yield from named(name, of_risk(sp.estimate_risk(path, rng=0, **kwargs)))  # type: ignore[arg-type]
        tuning = sp.tune(rows, y, sp.LAD(), sp.Lasso, lams=6, n_iter=40, rng=0)
        yield from named("tune", of_tuning(tuning, X))
        yield from named("LADLasso", of_estimator(sp.LADLasso(random_state=0).fit(rows, y), X))


def named(prefix: str, results: Any) -> Results:
    """Put a prefix before the names of results."""
    for name, value in results:
        yield f"{prefix}.{name}", value


def flat(name: str, value: Any) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the arrays of a result: entries of sequences, mappings and records by name."""
    if isinstance(value, dict):
        parts: Any = value.items()
    elif is_dataclass(value) and not isinstance(value, type):
        parts = ((each.name, getattr(value, each.name)) for each in fields(value))
    elif isinstance(value, list | tuple) and not all(np.isscalar(each) for each in value):
        parts = enumerate(value)
    else:
        array = np.asarray(value)
        yield name, array if array.dtype != object else np.array(repr(value))
        return
    for part, entry in parts:
        yield from flat(f"{name}.{part}", entry)


def store(file: Path, cluster: bool) -> None:
    """Compute all results and store them."""
    warnings.simplefilter("ignore")
    makers = [paths_and_risks, methods, containers, tunings, intervals, estimators, sizes]
    arrays: dict[str, np.ndarray] = {}
    for make in [*makers, *([on_a_cluster] if cluster else [])]:
        for name, value in make():
            for part, array in flat(f"{make.__name__}.{name}", value):
                arrays[part] = array
        print(f"{make.__name__}: {len(arrays)} arrays so far", flush=True)
    np.savez_compressed(file, **arrays)  # type: ignore[arg-type]


def compare(first: Path, second: Path) -> int:
    """Print all differences; return 1 if there are any, otherwise 0."""
    before, after = np.load(first), np.load(second)
    differences = [f"only in {first}: {name}" for name in set(before) - set(after)]
    differences += [f"only in {second}: {name}" for name in set(after) - set(before)]
    identical, rounded = 0, 0
    for name in sorted(set(before) & set(after)):
        old, new = before[name], after[name]
        if old.shape == new.shape and np.array_equal(old, new, equal_nan=old.dtype.kind == "f"):
            identical += 1
        elif old.dtype.kind not in "fiu" or old.shape != new.shape:
            differences.append(f"{name}: {old!r:.80} became {new!r:.80}")
        else:
            with np.errstate(all="ignore"):
                gap = np.nanmax(np.abs(new - old)) / max(float(np.nanmax(np.abs(old))), 1e-300)
            if gap < ROUNDING:
                rounded += 1
            else:
                differences.append(f"{name}: largest difference {gap:.2g} of the largest entry")
    print("\n".join(sorted(differences)))
    print(f"{identical} arrays are identical, {rounded} up to rounding, {len(differences)} differ")
    return int(bool(differences))


def main() -> int:
    """Store or compare."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("action", choices=("store", "compare"))
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--cluster", action="store_true", help="also on a Dask cluster")
    args = parser.parse_args()
    if args.action == "store":
        store(args.files[0], args.cluster)
        return 0
    return compare(*args.files)


if __name__ == "__main__":
    sys.exit(main())
