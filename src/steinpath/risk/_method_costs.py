"""Selection of a method by its expected run time and accuracy."""

from __future__ import annotations

import math

from steinpath._support.arrays import namespace
from steinpath._support.validation import is_own
from steinpath.engine._batch import Batch
from steinpath.engine._compression import usual_probes
from steinpath.engine._path import Path
from steinpath.engine._shortcuts import has_spectrum
from steinpath.risk._interactions import n_columns
from steinpath.risk._methods import n_folds
from steinpath.risk._options import RiskOptions
from steinpath.risk._problem import Problem

# Maximum seconds of leave-one-out where the correction is a large extrapolation.
_PATIENCE = 2.0
#: Rows per column from which on paths hardly depend on a tenth of the rows.
TALL = 10
# Maximum number of groups that are left out one at a time.
_FEW_GROUPS = 30
# Size of a block that fits into caches.
_CACHED = 2**19


def folds_pay(batch: Batch, options: RiskOptions) -> bool:
    """Whether rough folds of all paths together are cheaper than correcting them one by one.

    They are if calls take more time than products, if there are many more rows than columns, and if
    tangents are not sparse. The rates were measured on one core. Folds are the only option if rows
    must be left out together.
    """
    (n, p), n_paths = batch.data.design.whole_shape, len(batch)
    if options.has_splits or n < 2:
        return options.has_splits
    column = 5e-11 * n * p + 1.2e-8 * (n + p)  # seconds of a step
    corrected = 1.5e-4 + usual_probes(batch) * column * (1.0 if batch.maps.carries else 0.3)
    together = 2e-4 + n_folds(batch, options) * n_paths * column
    return 1.5 * together < n_paths * corrected


def leave_out_method(batch: Batch, options: RiskOptions) -> str | None:
    """Return the leave-out method that is better for selection than the correction, if any.

    With many more rows than columns this is "folds": the held-out rows hardly matter, and unlike
    the correction folds are robust to row norms that vary. They also respect groups and splits.
    With fewer rows than columns, where the correction is a large extrapolation, it is "loo" if that
    takes only seconds.
    """
    n, p = batch.data.design.whole_shape
    if n < 2 or not batch.maps.structured:
        return None
    if options.has_splits or n >= TALL * p:
        return "folds"
    seconds = batch.n_iter * _seconds_without(n, p, n)
    return "loo" if n < p and seconds < _PATIENCE else None


def _seconds_without(n: int, p: int, left_out: int) -> float:
    """Return the seconds of a step that leaves out the given number of rows, one at a time."""
    columns = n_columns(left_out)
    entries = columns * (n + p)
    # beyond the caches, reading takes longer than multiplying if there are few rows
    return 2e-4 + 6e-11 * n * p * columns + 12e-9 * entries * (entries > _CACHED)


def _rests_at_kinks(path: Path) -> bool:
    """Whether the loss is the hinge and the penalty sets coefficients to zero.

    Iterates rest at the kinks of both, where tangents do not contract: the error of the corrected
    error rate is twice that of ten folds (`steinpath study margins`).
    """
    kinked = path.loss.margin and path.loss.smoothness is None
    if not kinked or not is_own(path.penalty):
        return False
    return math.isfinite(path.penalty.null_lam(namespace(path.coef).ones_like(path.coef[0, :])))


def cheapest(problem: Problem, audited: int = 0) -> str:
    """Select a method by its expected run time, at rates measured on two cores.

    For the hinge loss with a penalty that selects columns it is "folds", unless leave-one-out is
    cheaper still.

    Parameters
    ----------
    problem : Problem
        Problem.
    audited : int
        Number of rows that an audit will leave out in addition.
    """
    path, options = problem.path, problem.options
    n, p, N = path.n_samples, path.n_features, path.n_iter
    if options.has_splits:
        few = options.cv is None and options.units(n) <= _FEW_GROUPS
        return "loo" if few else "folds"
    small = min(n, p)
    # an iteration has a fixed cost, and its products take up to 1e11 operations a second
    compressed = N * (5e-4 + 64e-11 * n * p)
    if problem.moments is not None:
        if 2e-11 * n * p * (p + small) * N**2 < compressed and path.design.is_whole:
            return "exact"
    elif path.maps.structured:
        without = [_seconds_without(n, p, rows) for rows in (n, audited)]
        if N * without[0] < compressed + N * without[1] * (audited > 0):
            return "loo"
        if _rests_at_kinks(path):
            return "folds"
    if has_spectrum(path):
        # eigenvalues alone are several times cheaper than with their vectors; at small p the
        # dropped rank-one part would matter
        if problem.moments is None and problem.row_squares is None:
            spectral = 6e-11 * small**3 + 2e-11 * n * p * small
        else:
            spectral = 1.5e-10 * small**3 + 6e-11 * n * p * small
        spectral += 3e-4 * N
        if spectral < compressed and (small >= 100 or path.loss.quadratic):
            return "spectral"
    return "compressed"
