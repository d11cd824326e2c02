"""Methods to predict each observation as if it had been left out, and their scores."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from steinpath._support.arrays import (
    Array,
    deviation,
    group_sums,
    like,
    namespace,
    root_mean_square,
    root_sum_of_squares,
    scattered_sums,
    take,
    to_numpy,
    units_of,
)
from steinpath._support.validation import is_own, spawned, warn
from steinpath.design._base import Design
from steinpath.engine._batch import Batch
from steinpath.engine._compression import (
    CompressedCorrections,
    Compression,
    spectral_corrections,
    usual_probes,
)
from steinpath.engine._deferred import DeferredBatch, at_a_time, members_at_a_time
from steinpath.engine._path import Path
from steinpath.engine._precision import design_in
from steinpath.engine._shortcuts import has_spectrum
from steinpath.engine._traces import compute_matrices, row_squares_of, second_moments
from steinpath.problem._scoring import (
    PerObservation,
    about_level,
    check_finite,
    observation_losses,
)
from steinpath.risk._fold_runs import FoldRuns, cross_validate, mean_and_error
from steinpath.risk._interactions import Interactions, disjoint_pairs, interactions, n_columns
from steinpath.risk._leave_out import BLOCKS, WIDTH, leave_out
from steinpath.risk._options import RiskOptions
from steinpath.risk._splits import Splits, check_classes, make_splits

# Maximum number of probes, relative to the initial number.
_MOST_PROBES = 16
# Number of random vectors of Hutchinson's method, and of folds of cross-validation.
_HUTCHINSON, _FOLDS = 5, 10
# Number of folds of a rough estimate, by the minimum number of rows per column: the more rows there
# are, the less a path depends on those held out, and Burman's correction removes most of the bias.
_ROUGH_FOLDS = ((100, 2), (20, 3), (5, 5), (0, 10))
# Maximum seconds of leave-one-out where the correction is a large extrapolation.
_PATIENCE = 2.0
#: Size of X up to which rough estimates are also in double precision, which takes no longer.
SMALL = 2**16
#: Rows per column from which on paths hardly depend on a tenth of the rows.
TALL = 10
# Maximum number of groups that are left out one at a time.
_FEW_GROUPS = 30
# Size of a block that fits into caches.
_CACHED = 2**19
# Tangent columns of several paths that advance together on a CPU.
_STREAM = 128
# Number of predictions scored at a time: to fit into caches, or to fill a device.
_SCORED, _SCORED_ON_DEVICE = 2**15, 2**24


class Problem(NamedTuple):
    """A path with its risk options resolved."""

    path: Path
    options: RiskOptions
    criterion: PerObservation
    rng: np.random.Generator
    moments: Array | None = None
    row_squares: Array | None = None


def make_problems(
    batch: Batch, options: RiskOptions, rngs: Sequence[np.random.Generator]
) -> list[Problem]:
    """Resolve the options for each path of a batch."""
    options = options.for_rows(to_numpy(batch.data.all_y))
    scale = None if options.scale_by_audit else options.row_scale
    test_loss = options.criterion(batch.data.loss)
    problems: list[Problem] = []
    for path, rng in zip(batch, rngs, strict=True):
        known = problems[0] if problems and path.design is problems[0].path.design else None
        if known is not None:  # for the same design
            moments, squares = known.moments, known.row_squares
        else:
            moments = None
            if options.covariance is not None:
                # without an intercept, they are the same for all members
                same = problems and not path.fit_intercept
                moments = problems[0].moments if same else second_moments(path, options.covariance)
            squares = row_squares_of(path, scale)
        criterion = about_level(test_loss, path.y, path.level)
        problems.append(Problem(path, options, criterion, rng, moments, squares))
    return problems


# ------------------------------------------------------------------------------------------------
# Predictions and their scores
# ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Fitted:
    """Uncorrected fitted values, whose score is the training error.

    All predictions are for ``path.response``, from which the level of y has been subtracted.
    """

    path: Path

    def of(self, t: slice) -> Array:
        """Return predictions of some iterations, of shape (iterations, n), for the local rows."""
        return self.path.products_at(t)

    def at(self, rows: np.ndarray) -> Array:
        """Return predictions of some rows at all iterations, of shape (n_iter + 1, rows)."""
        return self.path.design.picked(self.own(slice(None)), rows)

    def own(self, rows: Any) -> Array:
        """Return the same for local rows, by their local indices."""
        return _columns(self.path.products, rows)


@dataclass(frozen=True, eq=False)
class StoredPredictions(Fitted):
    """Predictions that were computed before."""

    predictions: Array

    def of(self, t: slice) -> Array:
        return self.predictions[t, :]

    def own(self, rows: Any) -> Array:
        return _columns(self.predictions, rows)


@dataclass(frozen=True, eq=False)
class Compressed(Fitted):
    """Fitted values with corrections in a low-rank basis."""

    corrections: CompressedCorrections

    def of(self, t: slice) -> Array:
        return self.path.products_at(t) - self.corrections.shift(t)

    def at(self, rows: np.ndarray) -> Array:
        if self.path.design.is_whole:
            return self.own(rows)
        which, where = self.path.design.places(rows)
        found = np.zeros((self.path.n_iter + 1, len(rows)), self.path.response.dtype)
        found[:, which] = self.own(where)
        return self.path.design.over_rows(found)

    def own(self, rows: Any) -> Array:
        if isinstance(rows, slice):
            return super().own(rows) - self.corrections.shift(slice(None))
        return super().own(rows) - self.corrections.part(rows).shift(slice(None))


class Score(NamedTuple):
    """Mean scoring loss of each iterate, its sampling error and its Monte Carlo error."""

    values: Array
    stderr: Array
    probe_stderr: Array


def score(problem: Problem, predictions: Fitted, tested: np.ndarray | None = None) -> Score:
    """Score the predictions of every iterate, for all rows or for those that were tested."""
    path, criterion, groups = problem.path, problem.criterion, problem.options.groups
    y, n, xp, design = path.response, path.n_samples, namespace(path.y), path.design
    codes = None if groups is None else design.local(groups)
    own = None  # local tested rows
    if tested is not None:
        own, n = design.places(tested)[1], len(tested)
        groups, codes = (
            None if each is None else each[rows] for each, rows in ((groups, tested), (codes, own))
        )
    baseline = _baseline(problem)
    T = path.n_iter + 1
    pieces = []
    most = _SCORED if isinstance(y, np.ndarray) else _SCORED_ON_DEVICE
    length = max(16, most // n)
    for start in range(0, T, length):
        block = slice(start, min(start + length, T))
        values = check_finite(predictions.of(block))
        losses = observation_losses(criterion, y, values) - baseline
        if own is not None:
            losses = take(losses, own, axis=1)
        slopes = 0 * losses[:, :0]
        if isinstance(predictions, Compressed):
            slopes = _slopes(criterion, y, values, predictions.corrections, block)
        pieces.append((*_moments(losses, codes, groups, design), slopes))
    moments = _Moments(*(xp.concat(parts) for parts in list(zip(*pieces, strict=True))[:-1]))
    slopes = xp.concat([piece[-1] for piece in pieces])
    # over all rows: first the sums, then what depends on them
    both = design.over_rows(xp.stack([moments.sums, moments.sizes])) / n
    means, unit = both[0, :], units_of(both[1, :])
    count = y.shape[0] if own is None else len(own)
    shift = moments.sums / max(count, 1) - means
    if groups is None:
        spread = ((moments.spread * (moments.unit / unit)[:, None]) ** 2)[:, 0]
        deviations = (spread + count * (shift / unit) ** 2)[:, None]
        units = n
    else:  # rows of a group are dependent, their sums are independent
        counts = like(_group_counts(codes, groups, design), shift)
        deviations = moments.spread * moments.unit[:, None] + shift[:, None] * counts
        deviations, units = deviations / unit[:, None], len(np.unique(groups))
    completed = design.over_rows(xp.concat([deviations, slopes], axis=1))
    width = deviations.shape[1]
    squares, slopes = completed[:, :width], completed[:, width:] / n
    squares = xp.sum(squares if groups is None else squares**2, axis=1) * (units / n)
    spread = unit * xp.sqrt(squares / (units - 1)) if units > 1 else 0 * means + math.inf
    noise = 0 * means
    if isinstance(predictions, Compressed):
        noise = root_sum_of_squares(slopes * xp.sqrt(predictions.corrections.variances), axis=1)
    return Score(means, spread / math.sqrt(n), noise)


class _Moments(NamedTuple):
    """Moments of the losses of the local rows, for each iteration."""

    sums: Array  # (T,): of the losses
    sizes: Array  # (T,): of their sizes
    unit: Array  # (T,): of their deviations from their mean
    spread: Array  # (T, 1): root of the sum of squared deviations; or (T, G): sums of each group


def _moments(
    losses: Array, codes: np.ndarray | None, groups: np.ndarray | None, design: Design
) -> _Moments:
    xp, count = namespace(losses), max(losses.shape[1], 1)
    sums, sizes = xp.sum(losses, axis=1), xp.sum(xp.abs(losses), axis=1)
    unit = units_of(sizes / count)
    scaled = (losses - (sums / count)[:, None]) / unit[:, None]
    if codes is None or groups is None:
        spread = xp.sqrt(xp.sum(scaled**2, axis=1, keepdims=True))
    elif design.is_whole:
        spread = group_sums(scaled, codes)
    else:
        spread = scattered_sums(scaled, codes, int(groups.max()) + 1)
    return _Moments(sums, sizes, unit, spread)


def _group_counts(codes: np.ndarray | None, groups: np.ndarray, design: Design) -> np.ndarray:
    """Return the number of local rows of each group."""
    assert codes is not None
    counts = np.bincount(codes, minlength=int(groups.max()) + 1)
    return counts[counts > 0] if design.is_whole else counts


def _columns(values: Array, which: Any) -> Array:
    return values[:, which] if isinstance(which, slice) else take(values, which, axis=1)


def _baseline(problem: Problem) -> Array:
    """Return the losses of the prediction 0 if they are to be subtracted, otherwise 0."""
    if not problem.options.centered:
        return 0.0
    path, y = problem.path, problem.path.response
    zero = namespace(y).zeros_like(y[None, :]) - path.level
    return observation_losses(problem.criterion, y, zero)


def _slopes(
    criterion: PerObservation,
    y: Array,
    predictions: Array,
    corrections: CompressedCorrections,
    block: slice,
) -> Array:
    """Return the change of total losses along each direction; their errors are independent."""
    xp = namespace(y)
    error = corrections.noise(block)
    # finite differences over the size of the errors, to account for kinks and jumps of the loss
    change = observation_losses(criterion, y, predictions + error)
    change = change - observation_losses(criterion, y, predictions - error)
    slopes = xp.where(error > 0, change / xp.where(error > 0, 2 * error, 1 + error), 0 * error)
    return slopes @ corrections.directions


# ------------------------------------------------------------------------------------------------
# Methods
# ------------------------------------------------------------------------------------------------


def noise_near(best: int, probe_stderr: Array) -> float:
    """Return the root mean square Monte Carlo error from half to twice the best iteration."""
    near = probe_stderr[best // 2 : min(2 * best + 1, probe_stderr.shape[0])]
    return root_mean_square(near)


def noise_allowed(stderr: Array) -> float:
    """Return the acceptable Monte Carlo error, relative to the sampling error at the minimum."""
    return float(stderr) / 4


class Estimate(NamedTuple):
    """Result of a method.

    Attributes
    ----------
    predictions : Fitted
        Prediction of each observation as if it had been left out.
    score : Score
        Their mean losses, plus `optimism`.
    n_probes : int
        Number of random probes.
    optimism : Array of shape (n_iter + 1,) or float
        Added to the mean losses.
    interactions : Interactions or None
        Dependence between the losses, if rows were left out one at a time.
    """

    predictions: Fitted
    score: Score
    n_probes: int = 0
    optimism: Array = 0.0
    interactions: Interactions | None = None
    #: Training error of each iterate, if it was computed.
    train: Array | None = None
    #: Rows that were tested, if not all were.
    tested: np.ndarray | None = None


def _compressed(problem: Problem) -> Estimate:
    (found,) = compressed([problem], Batch.of(problem.path))
    return found


def compressed(problems: Sequence[Problem], batch: Batch) -> list[Estimate]:
    """Correct all paths of a batch, with their tangents as one stream of columns."""
    found: list[Estimate] = []
    for members in _streams(batch, problems[0].options.n_probes):
        found += _compressed_together([problems[k] for k in members], batch.part(members))
    return found


def _compressed_together(problems: Sequence[Problem], batch: Batch) -> list[Estimate]:
    options = problems[0].options
    compression = Compression(
        batch,
        [problem.moments for problem in problems],
        [problem.row_squares for problem in problems],
        options.n_probes,
        [problem.rng for problem in problems],
        getattr(namespace(batch.data.y), options.precision),
    )
    wanted = dict.fromkeys(range(len(batch)), compression.first)
    found: dict[int, Estimate] = {}
    first: dict[int, int] = {}
    while wanted:
        compression.draw(wanted)
        for k in list(wanted):
            estimates, problem = compression.estimates[k], problems[k]
            found[k] = scored(problem, estimates.corrections(), estimates.n_probes)
            more = probes_wanted(problem, found[k], first.setdefault(k, estimates.n_probes))
            if more is None:
                del wanted[k]
            else:
                wanted[k] = more
    return [found[k] for k in range(len(batch))]


def _streams(batch: Batch, n_probes: int | None) -> list[list[int]]:
    """Return the members whose tangents advance together.

    On a device all members advance together to fill it. Otherwise adjacent members, which have
    similar active sets, are combined as far as they fit into caches.
    """
    width = len(batch)
    if isinstance(batch, DeferredBatch):  # with room for their tangents
        width = max(1, members_at_a_time(batch, batch.n_iter) // 2)
    if batch.on_processor and batch.data.design.members == 1:
        width = min(width, max(1, _STREAM // (n_probes or usual_probes(batch))))
    return _in_portions(len(batch), width)


def _in_portions(count: int, width: int) -> list[list[int]]:
    return [list(range(k, min(k + width, count))) for k in range(0, count, width)]


def scored(problem: Problem, corrections: CompressedCorrections, n_probes: int) -> Estimate:
    """Score corrections from the given number of probes."""
    predictions = Compressed(problem.path, corrections)
    return Estimate(predictions, score(problem, predictions), n_probes)


def probes_wanted(problem: Problem, found: Estimate, first: int) -> int | None:
    """Return the number of probes required, or None if there are enough.

    Parameters
    ----------
    problem : Problem
        Problem.
    found : Estimate
        Estimate from the present probes.
    first : int
        Initial number of probes.
    """
    score, n_probes, most = found.score, found.n_probes, _MOST_PROBES * first
    near = problem.options.near
    best = int(namespace(score.values).argmin(score.values)) if near is None else near
    noise = noise_near(best, score.probe_stderr)
    if problem.options.rough:
        return None
    tol = problem.options.probe_tol or noise_allowed(score.stderr[best])
    if noise > tol and n_probes < most:
        missing = min(noise / tol, _MOST_PROBES) if tol else _MOST_PROBES
        return min(math.ceil(1.2 * n_probes * missing**2), most)
    if (
        problem.options.probe_tol and noise > tol
    ):  # the default tolerance may be missed; `diagnostics` reports by how much
        warn(
            f"the Monte Carlo error of {n_probes} random probes is {noise:.2g} near the minimum, "
            f"above probe_tol = {tol:.2g}; increase n_probes or probe_tol"
        )
    return None


def _spectral(problem: Problem) -> Estimate:
    path = problem.path
    if not has_spectrum(path):
        raise ValueError(
            "method 'spectral' requires the square-root or squared loss, a penalty that treats all "
            f"coefficients alike, such as Ridge, and a dense X in memory; got {path.loss!r} and "
            f"{path.penalty!r} with {path.algorithm!r}; use method='compressed'"
        )
    corrections = spectral_corrections(path, problem.moments, problem.row_squares, problem.rng)
    predictions = Compressed(path, corrections)
    return Estimate(predictions, score(problem, predictions))


def _exact(problem: Problem) -> Estimate:
    path = problem.path
    matrices = compute_matrices(path, problem.moments, "exact", 1, problem.row_squares, problem.rng)
    predictions = StoredPredictions(path, matrices.corrected(path))
    return Estimate(predictions, score(problem, predictions))


def _hutchinson(problem: Problem) -> Estimate:
    path, xp = problem.path, namespace(problem.path.y)
    m = problem.options.n_probes or _HUTCHINSON
    matrices = compute_matrices(
        path, problem.moments, "hutchinson", m, problem.row_squares, problem.rng
    )
    predictions = StoredPredictions(path, matrices.corrected(path))
    found = score(problem, predictions)
    if m == 1:
        noise = 0 * found.values + math.inf
    else:  # jackknife over the probes
        without = [StoredPredictions(path, matrices.corrected(path, skip=k)) for k in range(m)]
        moved = [score(problem, predictions).values for predictions in without]
        noise = deviation(xp.stack(moved), axis=0) * (m - 1) / math.sqrt(m)
    return Estimate(predictions, found._replace(probe_stderr=noise), m)


def _loo(problem: Problem) -> Estimate:
    _refuse_covariance("loo", problem)
    path = problem.path
    if problem.options.groups is not None:
        everyone = np.arange(problem.options.units(path.n_samples))
        predictions = StoredPredictions(path, leave_groups_out(problem, everyone, path.design))
        return Estimate(predictions, score(problem, predictions))
    # pairs of the first rows: a fixed sample, since the method is not random
    order = np.random.default_rng(0).permutation(path.n_samples)
    predictions, pairs = leave_out_rows(problem, order, path.design)
    predictions = take(predictions, np.argsort(order), axis=1)
    predictions = StoredPredictions(path, path.design.local(predictions.T).T)
    return Estimate(predictions, score(problem, predictions), interactions=pairs)


def leave_out_rows(
    problem: Problem, rows: np.ndarray, design: Design
) -> tuple[Array, Interactions]:
    """Return predictions of rows left out one at a time, and the interactions of pairs of them."""
    path, m = problem.path, len(rows)
    pairs = disjoint_pairs(rows)
    # a single row is a pair with itself
    groups = np.concatenate([np.stack([rows, rows], axis=1), pairs])
    found = check_finite(leave_out(path, groups, design))
    predictions, together = found[:, :m, 0], found[:, m:, :]
    alone = namespace(found).reshape(predictions[:, : pairs.size], together.shape)
    return predictions, interactions(path, problem.criterion, pairs, alone, together)


def leave_groups_out(problem: Problem, groups: np.ndarray, design: Design) -> Array:
    """Return predictions of rows whose groups are left out one at a time; 0 for others.

    Predictions are those of the local rows.

    Parameters
    ----------
    problem : Problem
        Path.
    groups : ndarray of int of shape (m,)
        Groups to leave out.
    design : Design
        The path's design, possibly in another precision.
    """
    path, batch = problem.path, Batch.of(problem.path)
    predictions = path.design.zeros(path.n_iter + 1, path.design.shape[0])
    width = min(WIDTH, at_a_time(batch, BLOCKS))
    for some in np.split(groups, range(width, len(groups), width)):
        left_out = problem.options.groups[:, None] == some
        splits = Splits(~left_out, left_out.astype(float))
        if (labels := path.data.all_labels) is not None:
            check_classes(splits, labels)
        (found,) = cross_validate(batch, problem.criterion, splits, design, burman=False)
        predictions = predictions + found.predictions
    return check_finite(predictions)


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


def _folds(problem: Problem) -> Estimate:
    (found,) = by_folds([problem], Batch.of(problem.path))
    return found


def by_folds(
    problems: Sequence[Problem], batch: Batch, runs: FoldRuns | None = None
) -> list[Estimate]:
    """Cross-validate paths that differ only in their penalties, all together."""
    _refuse_covariance("folds", problems[0])
    results = []
    if runs is None:
        runs = fold_runs(problems[0], batch)
    for problem, crossed in zip(problems, runs.extended(batch), strict=True):
        tests, values = runs.splits.tests, crossed.predictions
        tested = None if tests.all() else np.flatnonzero(tests)
        if tested is not None:
            some = like(problem.path.design.local(tests), values) > 0
            values = namespace(values).where(some, values, problem.path.products_at(slice(None)))
        predictions = StoredPredictions(problem.path, values)
        if crossed.losses is None:
            found = score(problem, predictions, tested)
        else:
            design = problem.path.design
            counts = design.array(design.local(tests))
            losses = crossed.losses - counts * _baseline(problem)
            values, stderr = mean_and_error(losses, counts, problem.options.groups, design)
            found = Score(values, stderr, 0 * values)
        found = found._replace(values=found.values + crossed.optimism)
        results.append(
            Estimate(
                predictions, found, optimism=crossed.optimism, train=crossed.train, tested=tested
            )
        )
    return results


def fold_runs(problem: Problem, batch: Batch, design: Design | None = None) -> FoldRuns:
    """Return runs of paths in ten folds (fewer if sufficient), or in user-defined splits.

    Burman's correction is included if the splits are folds of all rows.
    """
    if batch.n_samples < 2:
        raise ValueError("method 'folds' requires at least two observations")
    if not batch.maps.structured:
        raise ValueError("method 'folds' does not support a Recursion; use method='loo'")
    options = problem.options
    count = n_folds(batch, options)
    splits = make_splits(batch, options.cv, options.groups, count, problem.rng)
    if options.rough and design is None and math.prod(batch.data.design.whole_shape) > SMALL:
        rngs = [spawned(problem.rng) for _ in batch]
        design = design_in(batch, namespace(batch.data.y).float32, rngs)
    repeated = bool(splits.tests.max() > 1)
    return FoldRuns(batch, problem.criterion, splits, design, splits.complete, repeated)


def _refuse_covariance(method: str, problem: Problem) -> None:
    if problem.moments is not None:
        raise ValueError(f"method {method!r} does not use a covariance; omit it")


#: Methods of `steinpath.estimate_risk` by name.
METHODS: dict[str, Callable[[Problem], Estimate]] = {
    "compressed": _compressed,
    "spectral": _spectral,
    "exact": _exact,
    "hutchinson": _hutchinson,
    "loo": _loo,
    "folds": _folds,
}


def portions(batch: Batch, options: RiskOptions) -> list[list[int]]:
    """Return the members to estimate at a time; for folds, as many as fit into memory."""
    if options.method == "folds":
        count = n_folds(batch, options)
        room = at_a_time(batch, count * BLOCKS)
        if isinstance(batch, DeferredBatch):
            room = min(room, members_at_a_time(batch, batch.n_iter))
        return split_members(batch, room, batch.threads(count))
    return _streams(batch, options.n_probes)


def split_members(batch: Batch, room: int, threads: int) -> list[list[int]]:
    """Return the members to run at a time, with room for ``room`` of them over all threads."""
    width = max(1, min(room // threads, -(-len(batch) // threads)))
    return _in_portions(len(batch), width)


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
        if spectral < compressed and (small >= 100 or path.loss.name == "squared"):
            return "spectral"
    return "compressed"
