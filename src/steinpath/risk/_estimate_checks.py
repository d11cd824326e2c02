"""Checks of the problem's shape, the algorithm and the estimate, near the chosen iterate."""

from __future__ import annotations

import math

import numpy as np

from steinpath._support.arrays import Array, take, to_numpy
from steinpath.algorithms._base import History, ProximalAlgorithm, ProximalMaps
from steinpath.engine._batch import Batch
from steinpath.engine._null_model import lam_max
from steinpath.engine._path import Path, RemotePath
from steinpath.problem._losses import SquareRoot
from steinpath.problem._scoring import Criterion
from steinpath.risk._evidence import Diagnostic, Evidence, features_of
from steinpath.risk._methods import noise_near

# Iterates whose movement is compared with that of the chosen one, at most.
_TIMES = 24
# Numbers of dual iterates that are fetched from elsewhere, at most.
_MOST_FETCHED = 2**26


# ------------------------------------------------------------------------------------------------
# The problem's shape and the algorithm
# ------------------------------------------------------------------------------------------------


def zero_coefficients(evidence: Evidence) -> Diagnostic | None:
    """All coefficients are zero at every iterate, since the penalty is too large."""
    path = evidence.path
    lam = getattr(path.penalty, "lam", None)
    if lam is None or not isinstance(path.algorithm, ProximalAlgorithm):
        return None
    relative, message = 0.0, "some coefficients are not zero"
    if not np.any(to_numpy(path.coef)):
        features, intercept = features_of(path.design), path.fit_intercept
        largest = lam_max(features, path.y, path.loss, path.penalty, intercept)
        relative = float(lam) / largest if largest > 0 else 0.0
        message = (
            f"all coefficients are zero at every iterate: the penalty lam = {lam:.3g} is larger "
            f"than lam_max = {largest:.3g}; use a smaller one (alpha = lam / √n in estimators), or "
            "alpha='auto'"
        )
    # the largest penalty of a grid is above lam_max by rounding
    return Diagnostic("zero coefficients", relative, 1.001, message)


def aspect_ratio(evidence: Evidence) -> Diagnostic | None:
    """Many more columns than rows: the theory has p in proportion to n."""
    if not evidence.corrected:
        return None
    path = evidence.path
    ratio = path.n_features / path.n_samples
    return Diagnostic(
        "columns per row",
        ratio,
        10.0,
        f"X has {ratio:.1f} times as many columns as rows: the correction is then a large "
        f"extrapolation; {evidence.advice}",
    )


def step_sizes(evidence: Evidence) -> Diagnostic | None:
    """Step sizes at which the algorithm need not converge, nor its tangents stay bounded."""
    path = evidence.path
    if not evidence.corrected or not isinstance(path.algorithm, ProximalAlgorithm):
        return None
    formula, value, limit = path.algorithm.stability(path.design, path.loss)
    return Diagnostic(
        "step sizes",
        value / limit,
        1 + 1e-6,
        f"{formula} = {value:.3g} is above {limit:g}: the algorithm may diverge, and the "
        "correction before it; leave the step sizes at None",
    )


def projection_boundary(evidence: Evidence) -> Diagnostic | None:
    """Arguments of the square root's projection that lie at its kink, iteration after iteration.

    The paper assumes that their norm stays away from 1, where the derivative jumps. One passage
    does no harm; a tenth of the iterations from half to twice the chosen one within a thousandth of
    it means that the residuals have vanished and the path sits there.
    """
    maps = evidence.path.maps
    if not evidence.corrected or not isinstance(maps, ProximalMaps):
        return None
    if not isinstance(maps.dual_map.loss, SquareRoot) or maps.carries:
        return None
    path = evidence.path
    if isinstance(path, RemotePath) and path.n_samples * path.n_iter > _MOST_FETCHED:
        return None
    times = range(max(evidence.near.start, 1), evidence.near.stop)
    norms = _projected_norms(evidence.path, maps, times)
    share = float(np.mean(np.abs(norms - 1) < 1e-3)) if len(norms) else 0.0
    return Diagnostic(
        "projection boundary",
        share,
        0.1,
        f"in {share:.0%} of the iterations near the chosen one the square root's dual is at the "
        "boundary of its projection, where the correction is not defined: the fit is nearly "
        "perfect; use a larger penalty, fewer iterations, or method='loo'",
    )


def _projected_norms(path: Path, maps: ProximalMaps, times: range) -> np.ndarray:
    """Norms of what entered the projection onto the unit ball, one per iteration."""
    norms: list[float] = []

    def look(point: Array) -> Array:
        norms.append(float(np.linalg.norm(to_numpy(point))) * maps.dual_map.factor)
        return point

    batch = Batch.of(path)
    for t in times:
        past = [slice(s, s + 1) for s in range(max(0, t - maps.memory), t)]
        u = History(batch.block("u", each) for each in past)
        maps.dual_update(look, t, u, History(batch.residual(each) for each in past))
    return np.asarray(np.asarray(norms) / maps.dual_map.step)


# ------------------------------------------------------------------------------------------------
# The estimate itself
# ------------------------------------------------------------------------------------------------


def correction_size(evidence: Evidence) -> Diagnostic | None:
    """Nearly all of the estimate is correction, because the fit is nearly perfect."""
    risk, chosen = evidence.risk, evidence.chosen
    if not evidence.corrected or risk.centered:
        return None
    value, train = float(risk.values[chosen]), float(risk.train[chosen])
    share = (value - train) / value if value > 0 else 0.0
    return Diagnostic(
        "correction size",
        share,
        0.8,
        f"{share:.0%} of the estimate at the chosen iterate is correction, the training error "
        f"being {train:.3g}: an error of a few percent in the correction shows in full; "
        f"{evidence.advice}",
    )


def movement(evidence: Evidence) -> Diagnostic | None:
    """Risk that changes by more than the movement of the iterates allows.

    Between two iterates the risk cannot change by more than ``E|xᵀ(b - b')|`` under absolute loss,
    and correspondingly under others. What exceeds it, between the chosen iterate and those from
    half to twice as many, is Monte Carlo error or noise of the correction.
    """
    risk, path, chosen = evidence.risk, evidence.path, evidence.chosen
    if not evidence.corrected or not isinstance(risk.criterion, Criterion):
        return None
    if not np.isfinite(risk.criterion.lipschitz(np.ones(1))).all():
        return None  # a jump may change by any distance
    if risk.centered and math.isinf(risk.criterion.slope):
        return None  # how far squares can change depends on the part that was taken out
    first, last = max(evidence.near.start, 1), max(evidence.near.stop - 1, 1)
    times = np.unique(np.append(chosen, np.geomspace(first, last, _TIMES).round().astype(int)))
    values, iterates = (to_numpy(take(x, times)).astype(float) for x in (risk.values, path.coef))
    # one by one: others may be elsewhere, or not be kept
    some = [path.products_at(slice(t, t + 1))[0, :] for t in times.tolist()]
    products = np.stack([to_numpy(each) for each in some]).astype(float)
    own = int(np.searchsorted(times, chosen))
    # out of sample iterates move a little more than in it; if the columns were independent, by
    # the distance of their coefficients, times the size of the columns
    size = math.sqrt(evidence.row_squares.mean() / path.n_features)
    moved = np.maximum(
        np.linalg.norm(products - products[own], axis=1) / math.sqrt(path.n_samples),
        np.linalg.norm(iterates - iterates[own], axis=1) * size,
    )
    allowed = risk.criterion.lipschitz(values)[own] * moved
    excess = np.abs(values - values[own]) - allowed
    other, scale = int(np.argmax(excess)), float(risk.stderr[chosen])
    return Diagnostic(
        "movement",
        float(excess[other]) / scale if scale > 0 else 0.0,
        1.0,
        f"between iterate {times[other]} and the chosen one, {chosen}, the estimate changes by "
        f"{abs(values[other] - values[own]):.2g}, but the iterates move so little that their risks "
        f"differ by {allowed[other]:.2g} at most: the rest is noise of the correction; "
        f"{evidence.advice}",
    )


def monte_carlo_error(evidence: Evidence) -> Diagnostic | None:
    """Random probes that are too few: their error should disappear in that of the sampling."""
    risk, chosen = evidence.risk, evidence.chosen
    stderr = float(risk.stderr[chosen])
    if not risk.n_probes or not 0 < stderr < math.inf:
        return None
    noise = noise_near(chosen, risk.probe_stderr)
    size = f"{noise:.2g}, not small" if math.isfinite(noise) else "unknown"
    return Diagnostic(
        "Monte Carlo error",
        noise / stderr,
        0.5,
        f"the Monte Carlo error of {risk.n_probes} random probes is {size} beside the sampling "
        f"error ({stderr:.2g}); use n_probes={max(4 * risk.n_probes, 64)}",
    )


def audited_difference(evidence: Evidence) -> Diagnostic | None:
    """Rows that were left out for an audit and disagree with the estimate, visibly so.

    Both as root mean squares over the iterates from half to twice the chosen one: beyond chance is
    three and a half standard errors of the difference; and what is within two of the estimate's own
    does not show.
    """
    audit, chosen = evidence.risk.audit, evidence.chosen
    if audit is None:
        return None
    difference = to_numpy(audit.difference).astype(float)
    size = float(audit.significance[chosen]) if evidence.disagreement > 2 else 0.0
    by = f"{size:.1f} standard errors" if math.isfinite(size) else "beyond any doubt"
    return Diagnostic(
        "audit",
        size,
        3.5,
        f"near the chosen iterate, {chosen}, the audited rows, when left out, cost "
        f"{difference[chosen]:+.2g} beside the estimate, {by}; the estimate was repaired by "
        f"{float(audit.repair[chosen]):+.2g}, and its standard error allows for the rest; other "
        "penalties may have been compared without: use method='loo' or method='folds'",
    )
