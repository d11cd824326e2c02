"""Diagnostics: the assumptions of the estimate, checked on the path and the data.

Each check is a function of the `Evidence` that returns a `Diagnostic`, or None if it does not
apply: a number, the threshold above which it warns, and a message with the consequence and a
remedy. The thresholds were set so that default fits of well-specified models give no warnings;
``docs/results/reliability.md`` has the reasons and the measured rates. The checks of the rows are
in `steinpath.risk._row_checks`.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from steinpath._support.arrays import Array, take, to_numpy
from steinpath._support.printing import number
from steinpath.algorithms._base import History, ProximalAlgorithm, ProximalMaps
from steinpath.engine._batch import Batch
from steinpath.engine._null_model import lam_max
from steinpath.problem._losses import SquareRoot
from steinpath.problem._scoring import Criterion
from steinpath.risk import _row_checks as rows
from steinpath.risk._evidence import Diagnostic, Evidence, features_of
from steinpath.risk._methods import noise_near

if TYPE_CHECKING:
    from steinpath.risk._risk import Risk

# Iterations whose movement is compared, and entries of duals fetched from other processes, at most.
_TIMES, _MOST_FETCHED = 24, 2**26


# ------------------------------------------------------------------------------------------------
# Dimensions and algorithm
# ------------------------------------------------------------------------------------------------


def zero_coefficients(evidence: Evidence) -> Diagnostic | None:
    """Check whether all coefficients are zero because the penalty is too large."""
    path = evidence.path
    lam = getattr(path.penalty, "lam", None)
    if lam is None or not isinstance(path.algorithm, ProximalAlgorithm):
        return None
    relative, message, root = 0.0, "some coefficients are nonzero", math.sqrt(path.n_samples)
    if not np.any(to_numpy(path.coef)):
        features, intercept = features_of(path.design), path.fit_intercept
        largest = lam_max(features, path.y, path.loss, path.penalty, intercept)
        relative = float(lam) / largest if largest > 0 else 0.0
        message = (
            "all coefficients are zero at every iteration, so nothing was fitted: the penalty is "
            f"too large (for estimators, alpha = {number(lam / root, 3)} exceeds "
            f"{number(largest / root, 3)}; for functions, lam = {number(lam, 3)} exceeds lam_max = "
            f"{number(largest, 3)}); use a smaller one, or alpha='auto'"
        )
    # the largest penalty of a grid exceeds lam_max by a rounding margin
    unit = "times the smallest lam with all coefficients zero"
    return Diagnostic("zero coefficients", relative, 1.001, message, unit=unit)


def aspect_ratio(evidence: Evidence) -> Diagnostic | None:
    """Check whether there are far more columns than rows; the theory has p proportional to n."""
    if not evidence.corrected:
        return None
    path = evidence.path
    ratio = path.n_features / path.n_samples
    message = (
        f"X has {number(ratio, 3)} times as many columns as rows, so most of the estimate is "
        f"correction and may be biased; {evidence.advice}"
    )
    return Diagnostic("columns per row", ratio, 10.0, message, unit="columns per row")


def step_sizes(evidence: Evidence) -> Diagnostic | None:
    """Check whether the step sizes are small enough for convergence and stable tangents."""
    path = evidence.path
    if not evidence.corrected or not isinstance(path.algorithm, ProximalAlgorithm):
        return None
    formula, value, limit = path.algorithm.stability(path.design, path.loss)
    message = (
        f"{formula} = {number(value, 3)} exceeds its limit {number(limit)}: the algorithm may "
        "diverge, and the correction becomes unstable before that; leave the step sizes at None"
    )
    return Diagnostic("step sizes", value / limit, 1 + 1e-6, message, unit="times the limit")


def projection_boundary(evidence: Evidence) -> Diagnostic | None:
    """Check whether the dual of the square-root loss stays at the boundary of its projection.

    The paper assumes that the norm of the projected point stays away from 1, where the derivative
    jumps. Passing through once is harmless; if a tenth of the iterations near the selected one are
    within a thousandth of it, the residuals have vanished and the path stays there.
    """
    path, maps = evidence.path, evidence.path.maps
    if not evidence.corrected or not isinstance(maps, ProximalMaps):
        return None
    if not isinstance(maps.dual_map.loss, SquareRoot) or maps.carries:
        return None
    if path.design.is_remote and path.n_samples * path.n_iter > _MOST_FETCHED:
        return None
    norms: list[float] = []

    def record(point: Array) -> Array:
        norms.append(float(np.linalg.norm(to_numpy(point))) * maps.dual_map.factor)
        return point

    batch = Batch.of(path)
    for t in range(max(evidence.near.start, 1), evidence.near.stop):
        past = [slice(s, s + 1) for s in range(max(0, t - maps.memory), t)]
        u = History(batch.block("u", s) for s in past)
        maps.algorithm.dual(record, t, u, History(batch.residual(s) for s in past))
    distances = np.abs(np.asarray(norms) / maps.dual_map.step - 1)
    share = float(np.mean(distances < 1e-3)) if norms else 0.0
    message = (
        f"in {share:.0%} of the iterations near the selected one, the dual of the square-root "
        "loss is at the boundary of its projection, where the correction is not defined, "
        "because the fit is nearly perfect; use a larger penalty, fewer iterations, or "
        "method='loo'"
    )
    return Diagnostic("projection boundary", share, 0.1, message, unit="%")


# ------------------------------------------------------------------------------------------------
# The estimate itself
# ------------------------------------------------------------------------------------------------


def correction_size(evidence: Evidence) -> Diagnostic | None:
    """Check whether nearly all of the estimate is correction, as for a nearly perfect fit."""
    risk, selected = evidence.risk, evidence.selected
    if not evidence.corrected or risk.centered:
        return None
    value, train = float(risk.values[selected]), float(risk.train[selected])
    share = (value - train) / value if value > 0 else 0.0
    message = (
        f"{share:.0%} of the estimate at the selected iteration is correction (the training "
        f"error is {number(train, 3)}), so errors of the correction carry over to the estimate "
        f"almost in full; {evidence.advice}"
    )
    return Diagnostic("correction size", share, 0.8, message, unit="%")


def movement(evidence: Evidence) -> Diagnostic | None:
    """Check whether the risk changes by more than the movement of the iterates allows.

    Between two iterates the risk cannot change by more than ``E|xᵀ(b - b')|`` under absolute loss,
    and correspondingly under others. A larger change is noise of the correction.
    """
    risk, path, selected = evidence.risk, evidence.path, evidence.selected
    if not evidence.corrected or not isinstance(risk.criterion, Criterion):
        return None
    if not np.isfinite(risk.criterion.lipschitz(np.ones(1))).all():
        return None  # a discontinuous loss may change by any amount
    if risk.centered and math.isinf(risk.criterion.slope):
        return None  # the bound for squares depends on the part that was subtracted
    first, last = max(evidence.near.start, 1), max(evidence.near.stop - 1, 1)
    times = np.unique(np.append(selected, np.geomspace(first, last, _TIMES).round().astype(int)))
    values, iterates = (to_numpy(take(x, times)).astype(float) for x in (risk.values, path.coef))
    # one by one: others may be in other processes, or not be stored
    products = np.stack([to_numpy(path.products_at(slice(t, t + 1))[0, :]) for t in times.tolist()])
    products = products.astype(float)
    own = int(np.searchsorted(times, selected))
    # iterates move slightly more out of sample than in sample; for independent columns, by the
    # distance of their coefficients times the size of the columns
    size = math.sqrt(evidence.row_squares.mean() / path.n_features)
    moved = np.maximum(
        np.linalg.norm(products - products[own], axis=1) / math.sqrt(path.n_samples),
        np.linalg.norm(iterates - iterates[own], axis=1) * size,
    )
    allowed = risk.criterion.lipschitz(values)[own] * moved
    excess = np.abs(values - values[own]) - allowed
    # without an audit, relative to the sampling error alone: the rest is large where it is noisy
    errors = risk.estimate.stderr if risk.audit is None else risk.stderr
    other, scale = int(np.argmax(excess)), float(errors[selected])
    message = (
        f"between iteration {times[other]} and the selected iteration {selected}, the estimate "
        f"changes by {number(abs(values[other] - values[own]), 2)}, but the iterates are so close "
        f"that their risks differ by at most {number(allowed[other], 2)}: the correction is noisy "
        f"there, and the selected minimum may be an artefact; {evidence.advice}"
    )
    value = float(excess[other]) / scale if scale > 0 else 0.0
    return Diagnostic("movement", value, 1.0, message, unit="standard errors")


def late_iterates(evidence: Evidence) -> Diagnostic | None:
    """Check whether the estimate without an audit is reliable up to the last iterate."""
    risk, last = evidence.risk, evidence.risk.path.n_iter
    if risk.audit is not None or not risk.n_probes:
        return None
    start = risk.unreliable_from
    message = (
        f"from iteration {start} on, the estimate is rough and most of its standard error is due "
        "to the correction; check and correct it with audit=32, or use method='folds'"
    )
    # a given selection matters, not what comes after it
    seen = start is not None and (evidence.whole or start < evidence.near.stop)
    share = (last + 1 - (start or 0)) / (last + 1) * seen
    return Diagnostic("late iterates", share, 0.0, message, unit="%")


def monte_carlo_error(evidence: Evidence) -> Diagnostic | None:
    """Check whether the Monte Carlo error is small compared with the sampling error."""
    risk, selected = evidence.risk, evidence.selected
    stderr = float(risk.estimate.stderr[selected])
    if not risk.n_probes or not 0 < stderr < math.inf:
        return None
    noise = noise_near(selected, risk.probe_stderr)
    size = f"{number(noise, 2)}, not small" if math.isfinite(noise) else "unknown"
    message = (
        f"the Monte Carlo error of {risk.n_probes} random probes is {size} compared with the "
        f"sampling error ({number(stderr, 2)}); use n_probes={max(4 * risk.n_probes, 64)}"
    )
    return Diagnostic("Monte Carlo error", noise / stderr, 0.5, message, unit="standard errors")


def audited_difference(evidence: Evidence) -> Diagnostic | None:
    """Check whether the audited rows agree with the estimate.

    A difference is significant beyond three and a half of its standard errors, and relevant beyond
    two standard errors of the estimate, near the selected iteration.
    """
    audit, selected = evidence.risk.audit, evidence.selected
    if audit is None:
        return None
    size = float(audit.significance[selected]) if evidence.disagreement > 2 else 0.0
    apart, repair = (number(float(x[selected]), 2, "+") for x in (audit.difference, audit.repair))
    by = f"{number(size, 2)} standard errors" if math.isfinite(size) else "without sampling error"
    message = (
        f"the leave-one-out loss of the audited rows at the selected iteration {selected} differs "
        f"from the estimate by {apart} ({by}); the estimate was corrected by {repair} and its "
        "standard error covers the rest, but other penalties may have been compared without this "
        "correction; use method='loo' or method='folds'"
    )
    return Diagnostic("audit", size, 3.5, message, unit="standard errors")


#: All checks, in the order in which they are reported.
CHECKS: tuple[Callable[[Evidence], Diagnostic | None], ...] = (
    zero_coefficients,
    rows.dominant_row,
    audited_difference,
    movement,
    rows.near_duplicates,
    rows.serial_rows,
    rows.serial_residuals,
    rows.row_norms,
    aspect_ratio,
    rows.few_rows,
    step_sizes,
    projection_boundary,
    correction_size,
    monte_carlo_error,
    late_iterates,
)


def diagnose(risk: Risk, at: int | None = None) -> tuple[Diagnostic, ...]:
    """Run all checks that apply to an estimate, near iteration ``at``: by default the best one."""
    evidence, diagnostics = Evidence(risk, at), []
    for check in CHECKS:
        with contextlib.suppress(NotImplementedError):  # designs without row norms
            diagnostic = check(evidence)
            if diagnostic is not None:
                meaning = (check.__doc__ or "").split("\n")[0]
                diagnostics.append(replace(diagnostic, meaning=meaning))
    return tuple(diagnostics)
