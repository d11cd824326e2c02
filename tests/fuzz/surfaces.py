"""The surfaces that are fuzzed: each draws a case, calls the package, and looks at the result.

A surface is a function of a generator and a folder of its own. It notes what it is about to do in
the ``Case``, so that a finding can be understood, and raises a `Finding` if the outcome is neither
right nor a clear error.
"""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import inputs
import steinpath as sp
from estimator_surface import ITERATIONS, estimators
from file_surfaces import commands, files
from frame_surface import frames
from inputs import WRONG, chance, count, mostly, number, one_of
from outcomes import Refusal, check, check_finite, evaluate
from steinpath._support.arrays import to_numpy


@dataclass
class Case:
    """One case: its randomness, a folder to write to, and what was tried."""

    rng: np.random.Generator
    folder: Path
    tried: dict = field(default_factory=dict)

    def note(self, **what):
        self.tried |= what
        return what


def run(case, wild=0.3, weighted=0.15):
    """A path, whose fitted values and objective are those of its coefficients."""
    rng = case.rng
    data = inputs.problem(rng, wild=wild)
    case.note(X=data.X, y=data.y)

    def call():
        arguments = case.note(
            loss=inputs.loss(rng),
            penalty=inputs.penalty(rng, inputs.columns(data.X)),
            algorithm=inputs.algorithm(rng),
            n_iter=count(rng, ITERATIONS, bad=0.02),
            fit_intercept=count(rng, (False, True), bad=0.01),
        )
        if chance(rng, weighted):
            weights = one_of(rng, (np.ones, rng.random, rng.random, np.zeros))
            size = len(data.y) if hasattr(data.y, "__len__") else 1
            arguments |= case.note(sample_weight=weights(size))
        return sp.run(data.X, data.y, **arguments)

    path = evaluate(call)
    if isinstance(path, Refusal):
        return path
    check(inputs.is_numeric(data.X), "X is no array of numbers, and was not refused")
    check(inputs.is_numeric(data.y), "y is no array of numbers, and was not refused")
    coef = to_numpy(path.coef).astype(float)
    check_finite("coef", coef)
    check_finite("intercept", to_numpy(path.intercept))
    check_finite("duals", to_numpy(path.duals))
    if data.plain_X is None or data.plain_y is None:
        return path
    check(coef.shape == (path.n_iter + 1, data.plain_X.shape[1]), f"coef has shape {coef.shape}")
    if "sample_weight" in case.tried:
        return path
    with np.errstate(all="ignore"):
        moved = coef @ data.plain_X.T
        expected = moved + to_numpy(path.intercept).astype(float)[:, None]
        # an intercept takes means off the columns, which may be much larger than what is left
        scale = np.abs(coef) @ np.abs(data.plain_X).max(axis=0) + np.abs(data.plain_y).max()
        gap = np.abs(to_numpy(path.fitted) - expected).max(axis=1) / np.maximum(scale, 1e-300)
    # products have the precision of X, what is added to them that of y
    precision = 1e-4 if "float32" in f"{path.y.dtype} {path.coef.dtype}" else 1e-10
    check(np.nanmax(gap) < precision, f"fitted values are off by {np.nanmax(gap):.2g}")
    return path


def some(rng, /, **options):
    """Some of several options: those whose draw, of a probability and a function, happens."""
    return {name: draw() for name, (often, draw) in options.items() if chance(rng, often)}


def estimate_risk(case, wild=0.2):
    """An estimate: finite, not negative, its training error that of the path."""
    rng = case.rng
    path = run(case, wild, weighted=0.01)
    if isinstance(path, Refusal):
        return path
    n, p = path.n_samples, path.n_features
    methods = ("compressed", "spectral", "exact", "hutchinson", "loo", "folds", "auto")
    covariance = np.eye(p) if chance(rng, 0.6) else np.cov(rng.standard_normal((p, 50)))
    wrong = (-np.eye(p), np.ones((p + 1, p)), 1.0, np.nan * covariance, "x")
    scales = None, "norm", "auto", np.ones(n), rng.random(n)

    def call():
        options = some(
            rng,
            test_loss=(0.2, lambda: inputs.test_loss(rng)),
            covariance=(0.15, lambda: mostly(rng, (covariance,), wrong)),
            method=(1, lambda: count(rng, methods, bad=0.03)),
            row_scale=(0.3, lambda: mostly(rng, scales, (np.zeros(n), -1.0, "x"))),
            audit=(0.3, lambda: mostly(rng, (0, 2, 4, n, "folds"), (-1, 1, 10**6, "x", 2.5))),
            n_probes=(0.2, lambda: count(rng, (1, 2, 16, 40))),
            probe_tol=(0.1, lambda: number(rng, 0.0, 1.0)),
            near=(0.1, lambda: count(rng, (0, 1))),
            precision=(0.2, lambda: count(rng, ("float32", "float64"))),
            centered=(0.1, lambda: count(rng, (False, True))),
            rng=(1, lambda: count(rng, (0, 1), bad=0.02)),
        )
        return sp.estimate_risk(path, **case.note(**options))

    risk = evaluate(call)
    if isinstance(risk, Refusal):
        return risk
    values = to_numpy(risk.values).astype(float)
    check(values.shape == (path.n_iter + 1,), f"values have shape {values.shape}")
    check_finite("values", values)
    check_finite("train", to_numpy(risk.train))
    check(not np.isnan(to_numpy(risk.stderr)).any(), "a standard error is not a number")
    if isinstance(case.tried.get("test_loss"), str | None) and not risk.centered:
        check(values.min() >= 0, f"a risk is negative: {values.min()}")
    warned = evaluate(lambda: risk.warnings)
    check(isinstance(warned, tuple), f"warnings: {warned}")
    evaluate(lambda: repr(risk))
    for found in risk.diagnostics:
        check(not np.isnan(found.value), f"the diagnostic {found.name!r} is not a number")
    return risk


def tune(case):
    """A choice among strengths, with finite risks."""
    rng = case.rng
    data = inputs.problem(rng, wild=0.3)
    case.note(X=data.X, y=data.y)
    penalties = sp.Lasso, sp.Ridge, sp.ElasticNet, sp.MCP, sp.SCAD
    grids = 1, 2, 3, [0.5], [1.0, 0.1], [0.0], [1e-9, 1e9]
    methods = "auto", "folds", "loo", "compressed"

    def call():
        options = some(
            rng,
            loss=(1, lambda: inputs.loss(rng)),
            penalty=(1, lambda: mostly(rng, penalties, (sp.Lasso(1.0), "lasso", None))),
            lams=(1, lambda: mostly(rng, grids, ([0.1, np.nan], [], -1, "x", 10**400))),
            n_iter=(1, lambda: count(rng, ITERATIONS, bad=0.03)),
            fit_intercept=(1, lambda: chance(rng, 0.5)),
            method=(0.3, lambda: mostly(rng, methods, ("spectral", "bad"))),
            audit=(0.2, lambda: mostly(rng, (0, 2, "folds"), (10**9, -2))),
            rule=(0.2, lambda: mostly(rng, ("min", "one_se"), ("x", None))),
            iterate=(0.1, lambda: mostly(rng, (0, 1), (3, -1, 10**6))),
            lam_ratio=(0.1, lambda: number(rng, 0.0, 1.0)),
            algorithm=(0.1, lambda: inputs.algorithm(rng)),
        )
        return sp.tune(data.X, data.y, rng=0, **case.note(**options))

    tuning = evaluate(call)
    if isinstance(tuning, Refusal):
        return tuning
    check_finite("risk", to_numpy(tuning.risk))
    check_finite("coef", to_numpy(tuning.coef))
    check_finite("intercept", tuning.intercept)
    at, t = tuning.best
    chosen = float(tuning.risk[at, t])
    if tuning.rule == "min" and "iterate" not in case.tried:
        contenders = to_numpy(tuning.risk)[np.asarray(tuning.settled, bool)]
        lowest = contenders.min()
        check(chosen <= lowest + 1e-6 * abs(lowest), "another contender is better")
    evaluate(lambda: (tuning.warnings, repr(tuning)))
    return tuning


def others(case):
    """The functions beside the main ones: baselines, batches, matrices, strengths."""
    rng = case.rng
    which = one_of(rng, (lam_max, batch, simulate, stop, matrices, baselines))
    case.note(which=which.__name__)
    if which is simulate:
        return simulate(case)
    if which in (matrices, baselines):
        path = run(case, wild=0.2, weighted=0.0)
        return path if isinstance(path, Refusal) else which(rng, path)
    data = inputs.problem(rng)
    case.note(X=data.X, y=data.y)
    return which(rng, data)


def _model(rng, data):
    """A loss and a penalty for some data."""
    return inputs.loss(rng), inputs.penalty(rng, inputs.columns(data.X))


def lam_max(rng, data):
    found = evaluate(lambda: sp.lam_max(data.X, data.y, *_model(rng, data)))
    if not isinstance(found, Refusal):
        check(found >= 0 and not np.isnan(found), f"lam_max is {found}")
    return found


def batch(rng, data):
    X, y = (
        np.stack([each] * 2) if isinstance(each, np.ndarray) else each for each in (data.X, data.y)
    )
    n_iter = count(rng, ITERATIONS)
    paths = evaluate(lambda: sp.run_batch(X, y, *_model(rng, data), n_iter=n_iter))
    if isinstance(paths, Refusal):
        return paths
    risks = evaluate(lambda: sp.estimate_risk_batch(paths, rng=0))
    for risk in () if isinstance(risks, Refusal) else risks:
        check_finite("risk in a batch", to_numpy(risk.values))
    return risks


def simulate(case):
    rng = case.rng
    p, scale, n = count(rng, (1, 2, 5)), number(rng, 0.0, 10.0), count(rng, (1, 2, 5))
    noise = one_of(rng, ("t2", "gaussian", "cauchy", "bad", None))
    case.note(p=p, scale=scale, n=n, noise=noise)
    return evaluate(
        lambda: sp.simulate.paper_model(p, sp.simulate.Noise(noise, scale)).sample(n, rng=0)
    )


def stop(rng, data):
    def call():
        rule = sp.StopOnRisk(patience=count(rng, (1, 3)), rng=0)
        how = {"n_iter": count(rng, (1, 5, 30)), "stop": one_of(rng, (rule, *WRONG[:4]))}
        return sp.run(data.X, data.y, *_model(rng, data), **how)

    path = evaluate(call)
    if not isinstance(path, Refusal):
        check_finite("coef", to_numpy(path.coef))
    return path


def matrices(rng, path):
    how = {"method": count(rng, ("exact", "hutchinson")), "n_probes": count(rng, (1, 3))}
    found = evaluate(lambda: sp.correction_matrices(path, **how, rng=0))
    for matrix in () if isinstance(found, Refusal) else found:
        check(matrix is None or np.isfinite(to_numpy(matrix)).all(), "a matrix is not finite")
    return found


def baselines(rng, path):
    calls = (
        lambda: sp.cross_validate_path(path, count(rng, (2, 3, 5)), rng=0),
        lambda: sp.leave_one_out_path(path),
        lambda: sp.hold_out_path(path, number(rng, 0.0, 1.0), rng=0),
    )
    found = evaluate(one_of(rng, calls))
    if not isinstance(found, Refusal):
        check_finite("validation", to_numpy(found.values))
    return found


SURFACES = {
    "run": run,
    "estimate_risk": estimate_risk,
    "tune": tune,
    "estimators": estimators,
    "others": others,
    "frames": frames,
    "files": files,
    "commands": commands,
}
