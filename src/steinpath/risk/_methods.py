"""Methods that predict each observation as if it had been left out, by correction or by reruns."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from steinpath._support import timings
from steinpath._support.arrays import (
    Array,
    deviation,
    first_minimum,
    like,
    namespace,
    root_mean_square,
    root_sum_of_squares,
    take,
    to_numpy,
    unit_of,
)
from steinpath._support.printing import number
from steinpath._support.validation import is_own, spawned, warn
from steinpath.design._base import Design
from steinpath.engine._batch import Batch, DeferredBatch, at_a_time, members_at_a_time
from steinpath.engine._compression import (
    CompressedCorrections,
    Compression,
    spectral_corrections,
    usual_probes,
)
from steinpath.engine._path import Path
from steinpath.engine._shortcuts import has_spectrum
from steinpath.engine._tangents import design_in
from steinpath.engine._traces import compute_matrices
from steinpath.problem._scoring import check_finite, observation_losses
from steinpath.risk._held_out import HeldOut, Interactions, RowSample, disjoint_pairs, n_columns
from steinpath.risk._leave_out import (
    BLOCKS,
    WIDTH,
    FoldRuns,
    cross_validate,
    leave_out,
    shrunk_burman,
)
from steinpath.risk._options import ResolvedOptions, RiskOptions
from steinpath.risk._splits import Splits, check_classes, make_splits

# Number of predictions scored at a time: to fit into caches, or to fill a device.
_SCORED, _SCORED_ON_DEVICE = 2**15, 2**24
# Maximum number of probes, relative to the initial number.
_MOST_PROBES = 16
# Number of random vectors of Hutchinson's method, and of folds of cross-validation.
_HUTCHINSON, _FOLDS = 5, 10
# Number of folds of a rough estimate, by the minimum number of rows per column: the more rows there
# are, the less a path depends on those held out, and Burman's correction removes most of the bias.
_ROUGH_FOLDS = ((50, 2), (20, 3), (5, 5), (0, 10))
#: Size of X up to which rough estimates are also in double precision, which takes no longer.
SMALL = 2**16
# Tangent columns of several paths that advance together on a CPU.
_STREAM = 128
# Maximum seconds of leave-one-out where the correction is a large extrapolation.
_PATIENCE = 0.5
#: Rows per column from which on paths hardly depend on a tenth of the rows.
TALL = 10
# Maximum number of groups that are left out one at a time.
_FEW_GROUPS = 30
# Size of a block that fits into caches.
_CACHED = 2**19


# ----- Predictions and their scores -----


@dataclass(frozen=True, eq=False)
class Predictions:
    """Predictions of ``path.response`` by every iterate: stored, or fitted minus corrections.

    Without corrections, their score is the training error.
    """

    path: Path
    stored: Array | None = None
    corrections: CompressedCorrections | None = None

    def of(self, t: slice) -> Array:
        """Return predictions of some iterations, of shape (iterations, n), for the local rows."""
        if self.stored is not None:
            return self.stored[t, :]
        fitted = self.path.products_at(t)
        return fitted if self.corrections is None else fitted - self.corrections.shift(t)

    def at(self, rows: np.ndarray) -> Array:
        """Return predictions of some rows at all iterations, of shape (n_iter + 1, rows)."""
        design = self.path.design
        return design.from_local(self.own(design.places(rows)[1]), rows)

    def own(self, rows: np.ndarray) -> Array:
        """Return the same for local rows, by their local indices."""
        if self.stored is not None:
            return take(self.stored, rows, axis=1)
        fitted = take(self.path.products, rows, axis=1)
        if self.corrections is None:
            return fitted
        return fitted - self.corrections.part(rows).shift(slice(None))


class Estimate(NamedTuple):
    """Result of a method, before an audit."""

    predictions: Predictions
    #: Mean losses, their sampling errors and their Monte Carlo errors, of shape (n_iter + 1,) each.
    values: Array
    stderr: Array
    probe_stderr: Array
    n_probes: int = 0
    #: The rows that were left out, if the method does that.
    held_out: HeldOut | None = None
    #: Training error of each iterate, if it was computed.
    train: Array | None = None
    #: Standard error beyond that of independent rows, if there are several probes; see
    #: `_shared_error`.
    shared_error: Array | None = None

    @property
    def optimism(self) -> Array:
        """Part of `values` that was added to the mean losses."""
        return 0.0 if self.held_out is None else self.held_out.optimism

    @property
    def interactions(self) -> Interactions | None:
        """Dependence between the losses, if rows were left out one at a time."""
        return None if self.held_out is None else self.held_out.interactions


def score(
    options: ResolvedOptions,
    predictions: Predictions,
    n_probes: int = 0,
    held_out: HeldOut | None = None,
    train: Array | None = None,
) -> Estimate:
    """Score the predictions of every iterate, for all rows or for those that were held out."""
    path, criterion, corrections = options.path, options.criterion, predictions.corrections
    y, n, xp, T = path.response, path.n_samples, namespace(path.y), path.n_iter + 1
    tests = None if held_out is None else held_out.tests(n)
    sample = RowSample.over(path.data, None, tests, options.groups)
    baseline = baseline_losses(options)
    most = _SCORED if isinstance(y, np.ndarray) else _SCORED_ON_DEVICE
    length = max(16, most // n)
    moments, slopes = [], []
    for start in range(0, T, length):
        block = slice(start, min(start + length, T))
        values = check_finite(predictions.of(block))
        losses = observation_losses(criterion, y, values) - baseline
        moments.append(sample.mean_and_error(losses))
        if corrections is not None:
            slopes.append(_slopes(options, values, corrections, block, sample))
    means, errors = (xp.concat(parts) for parts in zip(*moments, strict=True))
    values = means if held_out is None else means + held_out.optimism
    if corrections is None:
        return Estimate(predictions, values, errors, 0 * means, n_probes, held_out, train)
    change = path.design.over_rows(xp.concat(slopes)) / n
    single = change * xp.sqrt(corrections.variances)  # change of the risk with a single probe
    noise = root_sum_of_squares(single / xp.sqrt(corrections.counts), axis=1)
    shared = _shared_error(root_sum_of_squares(single, axis=1))
    return Estimate(predictions, values, errors, noise, n_probes, held_out, train, shared)


def _slopes(
    options: ResolvedOptions,
    predictions: Array,
    corrections: CompressedCorrections,
    block: slice,
    sample: RowSample,
) -> Array:
    """Return the change of total losses along each direction; their errors are independent."""
    criterion, y = options.criterion, options.path.response
    xp, error = namespace(y), corrections.noise(block)
    # finite differences over the size of the errors, to account for kinks and jumps of the loss
    change = observation_losses(criterion, y, predictions + error)
    change = change - observation_losses(criterion, y, predictions - error)
    slopes = xp.where(error > 0, change / xp.where(error > 0, 2 * error, 1 + error), 0 * error)
    return sample.counted(slopes) @ corrections.directions


def _shared_error(single: Array) -> Array:
    r"""Return the standard error due to what all rows share, given that of a single probe.

    Leaving out one row moves the predictions of the others. For a linear smoother H, this adds
    :math:`\mathrm{tr}(H^2)` times the mean squared residual, over n², to the variance of the mean
    loss; see `steinpath.risk._held_out`. A single probe :math:`\xi^\top H \xi` has the variance
    :math:`2 \, \mathrm{tr}(H^2)`, so half of its effect on the risk is that variance. It is large
    relative to the trace where the duals respond in a few directions only, as at a vertex. There
    the rows' own responses also vary most around their mean, by which all are corrected.
    """
    return like(pooled(to_numpy(single)) / math.sqrt(2), single)


def pooled(values: np.ndarray) -> np.ndarray:
    """Return the root mean square over the iterations from half to twice each one."""
    t, unit = np.arange(len(values)), unit_of(float(np.abs(values).max()))
    squares = np.concatenate([[0.0], np.cumsum((values.astype(float) / unit) ** 2)])
    first, last = t // 2, np.minimum(2 * t + 1, len(values))
    return np.asarray(unit * np.sqrt((squares[last] - squares[first]) / (last - first)))


def baseline_losses(options: ResolvedOptions) -> Array:
    """Return the losses of the prediction 0 if they are to be subtracted, otherwise 0."""
    if not options.centered:
        return 0.0
    y = options.path.response
    zero = namespace(y).zeros_like(y[None, :]) - options.path.level
    return observation_losses(options.criterion, y, zero)


def noise_near(best: int, probe_stderr: Array) -> float:
    """Return the root mean square Monte Carlo error from half to twice the best iteration."""
    near = probe_stderr[best // 2 : min(2 * best + 1, probe_stderr.shape[0])]
    return root_mean_square(near)


def noise_allowed(stderr: Array) -> float:
    """Return the acceptable Monte Carlo error, relative to the sampling error at the minimum."""
    return float(stderr) / 4


# ----- Corrections -----


def compressed(options: Sequence[ResolvedOptions], batch: Batch) -> list[Estimate]:
    """Correct all paths of a batch, with their tangents as one stream of columns."""
    estimates: list[Estimate] = []
    for members in _streams(batch, options[0].n_probes):
        estimates += _compressed_together([options[k] for k in members], batch.part(members))
    return estimates


def _compressed_together(options: Sequence[ResolvedOptions], batch: Batch) -> list[Estimate]:
    compression = Compression(
        batch,
        [own.moments for own in options],
        [own.row_squares for own in options],
        options[0].n_probes,
        [own.rng for own in options],
        getattr(namespace(batch.data.y), options[0].precision),
    )
    wanted = dict.fromkeys(range(len(batch)), compression.first)
    estimates: dict[int, Estimate] = {}
    first: dict[int, int] = {}
    while wanted:
        compression.draw(wanted)
        for k in list(wanted):
            probes = compression.estimates[k]
            predictions = Predictions(options[k].path, corrections=probes.corrections())
            estimates[k] = score(options[k], predictions, probes.n_probes)
            more = probes_wanted(options[k], estimates[k], first.setdefault(k, probes.n_probes))
            if more is None:
                del wanted[k]
            else:
                wanted[k] = more
    return [estimates[k] for k in range(len(batch))]


def probes_wanted(options: ResolvedOptions, estimate: Estimate, first: int) -> int | None:
    """Return the number of probes required, or None if there are enough; ``first`` were drawn."""
    if options.rough:
        return None
    n_probes, most = estimate.n_probes, _MOST_PROBES * first
    best = options.near
    if best is None:
        best = first_minimum(estimate.values)
    noise = noise_near(best, estimate.probe_stderr)
    tol = options.probe_tol or noise_allowed(estimate.stderr[best])
    if noise > tol and n_probes < most:
        missing = min(noise / tol, _MOST_PROBES) if tol else _MOST_PROBES
        return min(math.ceil(1.2 * n_probes * missing**2), most)
    # the default tolerance may be missed; `diagnostics` reports by how much
    if options.probe_tol and noise > tol:
        warn(
            f"the Monte Carlo error of {n_probes} random probes is {number(noise, 2)} near the "
            f"minimum, above probe_tol = {number(tol, 2)}; increase n_probes or probe_tol"
        )
    return None


def _spectral(options: ResolvedOptions) -> Estimate:
    path = options.path
    if not has_spectrum(path):
        raise ValueError(
            "method 'spectral' requires the square-root or squared loss, an isotropic penalty such "
            f"as Ridge, and a dense X in memory; got {path.loss!r} and {path.penalty!r} "
            f"with {path.algorithm!r}; use method='compressed'"
        )
    corrections = spectral_corrections(path, options.moments, options.row_squares, options.rng)
    return score(options, Predictions(path, corrections=corrections))


def _traces(options: ResolvedOptions, method: str) -> Estimate:
    """Correct by the paper's traces, "exact" or by "hutchinson"."""
    path, m = options.path, 0 if method == "exact" else options.n_probes or _HUTCHINSON
    how = options.moments, method, max(m, 1), options.row_squares, options.rng
    matrices = compute_matrices(path, *how)
    estimate = score(options, Predictions(path, matrices.corrected(path)), m)
    if not m:
        return estimate
    if m == 1:
        return estimate._replace(probe_stderr=0 * estimate.values + math.inf)
    # jackknife over the probes
    without = [Predictions(path, matrices.corrected(path, skip=k)) for k in range(m)]
    moved = [score(options, predictions).values for predictions in without]
    noise = deviation(namespace(path.y).stack(moved), axis=0) * (m - 1) / math.sqrt(m)
    return estimate._replace(probe_stderr=noise, shared_error=_shared_error(noise * math.sqrt(m)))


# ----- Reruns -----


def _loo(options: ResolvedOptions) -> Estimate:
    _refuse_covariance("loo", options)
    path, n, interactions = options.path, options.path.n_samples, None
    if options.groups is not None:
        everyone = np.arange(options.units(n))
        values = leave_groups_out(options, everyone, path.design)
    else:
        # pairs of the first rows: a fixed sample, since the method is not random
        order = np.random.default_rng(0).permutation(n)
        values, interactions = leave_rows_out(options, order, path.design)
        values = take(values, np.argsort(order), axis=1)
        values = path.design.local(values.T).T
    sample = RowSample.over(path.data, groups=options.groups)
    held_out = HeldOut(np.arange(n), values, sample, interactions=interactions)
    return score(options, Predictions(path, values), held_out=held_out)


def leave_rows_out(
    options: ResolvedOptions, rows: np.ndarray, design: Design
) -> tuple[Array, Interactions]:
    """Return predictions of rows left out one at a time, and the interactions of pairs of them."""
    path, m = options.path, len(rows)
    pairs = disjoint_pairs(rows)
    # a single row is a pair with itself
    groups = np.concatenate([np.stack([rows, rows], axis=1), pairs])
    values = check_finite(leave_out(path, groups, design))
    predictions, together = values[:, :m, 0], values[:, m:, :]
    alone = namespace(values).reshape(predictions[:, : pairs.size], together.shape)
    return predictions, Interactions.between(path, options.criterion, pairs, alone, together)


def leave_groups_out(options: ResolvedOptions, groups: np.ndarray, design: Design) -> Array:
    """Return predictions of local rows whose groups are left out one at a time; 0 for others."""
    path, batch = options.path, Batch.of(options.path)
    predictions = path.design.zeros(path.n_iter + 1, path.design.shape[0])
    width = min(WIDTH, at_a_time(batch, BLOCKS))
    if (weights := path.data.sample_weight) is not None:  # others do not count
        groups = groups[np.bincount(options.groups, weights)[groups] > 0]
    for some in np.split(groups, range(width, len(groups), width)):
        left_out = options.groups[:, None] == some
        splits = Splits(~left_out, left_out.astype(float))
        if (labels := path.data.all_labels) is not None:
            check_classes(splits, labels)
        (held_out,) = cross_validate(batch, [options.criterion], splits, design, correction=None)
        predictions = _on_all_rows(path, held_out, predictions)
    return check_finite(predictions)


def _on_all_rows(path: Path, held_out: HeldOut, others: Array) -> Array:
    """Return predictions of all local rows, with ``others`` of rows that were not held out."""
    if len(held_out.rows) == path.n_samples:
        return held_out.predictions
    own = path.design.places(held_out.rows)[1]
    if not len(own):
        return others
    tested = np.bincount(own, minlength=path.design.shape[0]) > 0
    place = np.maximum(np.cumsum(tested) - 1, 0)
    spread = take(held_out.predictions, place, axis=1)
    return namespace(others).where(like(tested, others) > 0, spread, others)


def _refuse_covariance(method: str, options: ResolvedOptions) -> None:
    if options.moments is not None:
        raise ValueError(f"method {method!r} does not use a covariance; omit it")


def n_folds(batch: Batch, options: RiskOptions) -> int:
    """Return the number of folds: fewer for a rough estimate."""
    cv, (n, p) = options.cv, batch.data.design.whole_shape
    if cv is not None:
        return cv.n_splits if isinstance(cv, Splits) else int(cv)
    count = _FOLDS
    units = options.units(n)
    if options.rough:
        count = next(folds for ratio, folds in _ROUGH_FOLDS if units >= ratio * p)
    return min(count, units)


def fold_runs(
    of_paths: Sequence[ResolvedOptions], batch: Batch, design: Design | None = None
) -> FoldRuns:
    """Return runs of paths in ten folds (fewer if sufficient), or in user-defined splits.

    Burman's correction is included if the splits are folds of all rows.
    """
    if batch.n_samples < 2:
        raise ValueError("method 'folds' requires at least two observations")
    if not batch.maps.structured:
        raise ValueError("method 'folds' does not support a Recursion; use method='loo'")
    options = of_paths[0]
    splits = make_splits(batch, options, n_folds(batch, options), options.rng)
    if options.rough and design is None and math.prod(batch.data.design.whole_shape) > SMALL:
        rngs = [spawned(options.rng) for _ in batch]
        design = design_in(batch, namespace(batch.data.y).float32, rngs)
    repeated = bool(splits.tests.max() > 1)
    correction = shrunk_burman if splits.complete else None
    how = design, correction, repeated, options.groups
    return FoldRuns(batch, [own.criterion for own in of_paths], splits, *how)


def by_folds(
    options: Sequence[ResolvedOptions], batch: Batch, runs: FoldRuns | None = None
) -> list[Estimate]:
    """Cross-validate paths that differ only in their penalties, all together."""
    _refuse_covariance("folds", options[0])
    runs = fold_runs(options, batch) if runs is None else runs
    estimates = []
    for k, (own, held_out) in enumerate(zip(options, runs.extended(batch), strict=True)):
        train = None if runs.train is None else runs.train[k]
        fitted = own.path.products_at(slice(None)) if len(held_out.rows) < batch.n_samples else None
        predictions = Predictions(own.path, _on_all_rows(own.path, held_out, fitted))
        if held_out.losses is None:
            estimates.append(score(own, predictions, held_out=held_out, train=train))
            continue
        losses = held_out.losses
        if own.centered:
            baseline = take(baseline_losses(own), own.path.design.places(held_out.rows)[1], axis=1)
            losses = losses - baseline
        values, stderr = held_out.sample.mean_and_error(losses)
        values = values + held_out.optimism
        estimates.append(Estimate(predictions, values, stderr, 0 * values, 0, held_out, train))
    return estimates


#: Methods of `steinpath.estimate_risk` by name.
METHODS: dict[str, Callable[[ResolvedOptions], Estimate]] = {
    "compressed": lambda options: compressed([options], Batch.of(options.path))[0],
    "spectral": _spectral,
    "exact": lambda options: _traces(options, "exact"),
    "hutchinson": lambda options: _traces(options, "hutchinson"),
    "loo": _loo,
    "folds": lambda options: by_folds([options], Batch.of(options.path))[0],
}


# ----- Members that are estimated together -----


def portions(batch: Batch, options: RiskOptions) -> list[list[int]]:
    """Return the members to estimate at a time; for folds, as many as fit into memory."""
    if options.method == "folds":
        count = n_folds(batch, options)
        room = at_a_time(batch, count * BLOCKS)
        if isinstance(batch, DeferredBatch):
            room = min(room, members_at_a_time(batch, batch.n_iter))
        # every few, so that portions remain about equal if the best are adjacent
        portions = len(split_members(batch, room, batch.threads(count)))
        return [list(range(k, len(batch), portions)) for k in range(portions)]
    return _streams(batch, options.n_probes)


def split_members(batch: Batch, room: int, threads: int) -> list[list[int]]:
    """Return the members to run at a time, with room for ``room`` of them over all threads."""
    width = max(1, min(room // threads, -(-len(batch) // threads)))
    return _in_portions(len(batch), width)


def _streams(batch: Batch, n_probes: int | None) -> list[list[int]]:
    """Return the members whose tangents advance together: all of them on a device, to fill it.

    Otherwise adjacent members, with similar active sets, are combined as far as caches allow.
    """
    width = len(batch)
    if isinstance(batch, DeferredBatch):  # with room for their tangents
        width = max(1, members_at_a_time(batch, batch.n_iter) // 2)
    if batch.on_processor and batch.data.design.members == 1:
        width = min(width, max(1, _STREAM // (n_probes or usual_probes(batch))))
    return _in_portions(len(batch), width)


def _in_portions(count: int, width: int) -> list[list[int]]:
    return [list(range(k, min(k + width, count))) for k in range(0, count, width)]


# ----- Selection of a method by its expected run time and accuracy -----


def cheapest(options: ResolvedOptions, audited: int = 0) -> str:
    """Select a method by its expected run time; ``audited`` rows will be left out in addition."""
    path = options.path
    n, p, N = path.n_samples, path.n_features, path.n_iter
    if options.has_splits:
        few = options.cv is None and options.units(n) <= _FEW_GROUPS
        return "loo" if few else "folds"
    small = min(n, p)
    corrected = N * (timings.TANGENT_CALLS + timings.TANGENT_ENTRY * n * p)
    if options.moments is not None:
        exact = timings.EXACT_ENTRY * n * p * (p + small) * N**2
        if exact < corrected and path.design.is_whole:
            return "exact"
    elif path.maps.structured:
        without = [_seconds_without(n, p, rows) for rows in (n, audited)]
        if N * without[0] < corrected + N * without[1] * (audited > 0):
            return "loo"
        if _rests_at_kinks(path):
            return "folds"
    if has_spectrum(path):
        # eigenvalues alone are several times cheaper than with their vectors; at small p the
        # dropped rank-one part would matter
        if options.moments is None and options.row_squares is None:
            cube, entry = timings.EIGENVALUES_CUBE, timings.EIGENVALUES_ENTRY
        else:
            cube, entry = timings.EIGENVECTORS_CUBE, timings.EIGENVECTORS_ENTRY
        spectral = cube * small**3 + entry * n * p * small + timings.SPECTRAL_CALLS * N
        if spectral < corrected and (small >= 100 or path.loss.quadratic):
            return "spectral"
    return "compressed"


def folds_pay(batch: Batch, options: RiskOptions) -> bool:
    """Whether rough folds of all paths together are cheaper than correcting them one by one.

    Folds are the only option if rows must be left out together.
    """
    n, p = batch.data.design.whole_shape
    n_paths = len(batch) / len(batch.data.members_of_problems(len(batch)))  # of each problem
    if options.has_splits or n < 2:
        return options.has_splits
    column = timings.COLUMN_ENTRY * n * p + timings.COLUMN_STATE * (n + p)
    dense = 1.0 if batch.maps.carries else timings.SPARSE_TANGENTS
    corrected = timings.ROUGH_TANGENT_CALLS + usual_probes(batch) * column * dense
    together = timings.ROUGH_FOLD_CALLS + n_folds(batch, options) * n_paths * column
    return 1.5 * together < n_paths * corrected


def leave_out_method(path: Path, options: RiskOptions) -> str | None:
    """Return the leave-out method that is better for selection than the correction, if any."""
    n, p = path.design.whole_shape
    if n < 2 or not path.maps.structured:
        return None
    # with many rows the held-out ones hardly matter, and row norms that vary do no harm to folds
    if options.has_splits or n >= TALL * p:
        return "folds"
    # with fewer rows than columns, the correction is a large extrapolation
    seconds = path.n_iter * _seconds_without(n, p, n)
    return "loo" if n < p and seconds < _PATIENCE else None


def _seconds_without(n: int, p: int, left_out: int) -> float:
    """Return the seconds of a step that leaves out the given number of rows, one at a time."""
    columns = n_columns(left_out)
    states = columns * (n + p)
    seconds = timings.LEAVE_OUT_CALLS + timings.LEAVE_OUT_ENTRY * n * p * columns
    return seconds + timings.LEAVE_OUT_STATE * states * (states > _CACHED)


def _rests_at_kinks(path: Path) -> bool:
    """Whether the loss is the hinge and the penalty sets coefficients to zero.

    Iterates rest at the kinks of both, where tangents do not contract: the error of the corrected
    error rate is twice that of ten folds (`steinpath study margins`).
    """
    kinked = path.loss.margin and path.loss.smoothness is None
    if not kinked or not is_own(path.penalty):
        return False
    return math.isfinite(path.penalty.null_lam(namespace(path.coef).ones_like(path.coef[0, :])))
