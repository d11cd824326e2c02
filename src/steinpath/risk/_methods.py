"""Methods that predict each observation as if it had been left out, by correction or by reruns."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from steinpath._support.arrays import Array, deviation, like, namespace, root_mean_square, take
from steinpath._support.validation import spawned, warn
from steinpath.design._base import Design
from steinpath.engine._batch import Batch, DeferredBatch, at_a_time, members_at_a_time
from steinpath.engine._compression import (
    CompressedCorrections,
    Compression,
    spectral_corrections,
    usual_probes,
)
from steinpath.engine._shortcuts import has_spectrum
from steinpath.engine._tangents import design_in
from steinpath.engine._traces import compute_matrices
from steinpath.problem._scoring import check_finite
from steinpath.risk._fold_runs import FoldRuns, cross_validate, mean_and_error
from steinpath.risk._interactions import Interactions, disjoint_pairs, interactions
from steinpath.risk._leave_out import BLOCKS, WIDTH, leave_out
from steinpath.risk._options import RiskOptions
from steinpath.risk._problem import Problem
from steinpath.risk._scores import (
    Compressed,
    Fitted,
    Score,
    StoredPredictions,
    baseline_losses,
    score,
)
from steinpath.risk._splits import Splits, check_classes, make_splits

# Maximum number of probes, relative to the initial number.
_MOST_PROBES = 16
# Number of random vectors of Hutchinson's method, and of folds of cross-validation.
_HUTCHINSON, _FOLDS = 5, 10
# Number of folds of a rough estimate, by the minimum number of rows per column: the more rows there
# are, the less a path depends on those held out, and Burman's correction removes most of the bias.
_ROUGH_FOLDS = ((100, 2), (20, 3), (5, 5), (0, 10))
#: Size of X up to which rough estimates are also in double precision, which takes no longer.
SMALL = 2**16
# Tangent columns of several paths that advance together on a CPU.
_STREAM = 128


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
            "method 'spectral' requires the square-root or squared loss, an isotropic penalty such "
            f"as Ridge, and a dense X in memory; got {path.loss!r} and {path.penalty!r} "
            f"with {path.algorithm!r}; use method='compressed'"
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
            losses = crossed.losses - counts * baseline_losses(problem)
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
