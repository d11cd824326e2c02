"""The ways to predict each observation as if it had been left out, and what they score."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from steinpath._support.arrays import Array, namespace, take
from steinpath._support.validation import warn
from steinpath.design._designs import Design
from steinpath.engine._compression import CompressedCorrections, Compression, spectral_corrections
from steinpath.engine._path import Path
from steinpath.engine._shortcuts import has_spectrum
from steinpath.engine._traces import compute_matrices
from steinpath.problem._scoring import PerObservation, check_finite, observation_losses
from steinpath.risk._interactions import Interactions, disjoint_pairs, interactions, n_columns
from steinpath.risk._leave_out import CrossValidated, cross_validate, leave_out

# Probes are not added beyond this many times the first ones.
_MOST_PROBES = 16
# Random vectors of Hutchinson's method, and folds of cross-validation.
_HUTCHINSON, _FOLDS = 5, 10
# Seconds that leaving out all rows may take where the correction is a large extrapolation.
_PATIENCE = 2.0
# Predictions that are scored at a time: what fits into caches, and on a device what fills it.
_SCORED, _SCORED_ON_DEVICE = 2**15, 2**24


class Problem(NamedTuple):
    """What is to be estimated and how; see `steinpath.estimate_risk`."""

    path: Path
    criterion: PerObservation
    rng: np.random.Generator
    centered: bool = False
    moments: Array | None = None
    row_squares: Array | None = None
    n_probes: int | None = None
    probe_tol: float | None = None
    near: int | None = None
    precision: str = "float32"


# ------------------------------------------------------------------------------------------------
# Predictions and their scores
# ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Fitted:
    """Fitted values as they are: predictions whose score is the training error."""

    path: Path

    def of(self, t: slice) -> Array:
        """Predictions of some iterates, of shape (iterates, n)."""
        return self.path.fitted_at(t)

    def at(self, rows: np.ndarray) -> Array:
        """Predictions of some rows by all iterates, of shape (n_iter + 1, rows)."""
        return take(self.path.fitted, rows, axis=1)


@dataclass(frozen=True, eq=False)
class Given(Fitted):
    """Predictions that were computed before."""

    predictions: Array

    def of(self, t: slice) -> Array:
        return self.predictions[t, :]

    def at(self, rows: np.ndarray) -> Array:
        return take(self.predictions, rows, axis=1)


@dataclass(frozen=True, eq=False)
class Compressed(Fitted):
    """Fitted values corrected in few directions."""

    corrections: CompressedCorrections

    def of(self, t: slice) -> Array:
        return self.path.fitted_at(t) - self.corrections.shift(t)

    def at(self, rows: np.ndarray) -> Array:
        return super().at(rows) - self.corrections.part(rows).shift(slice(None))


class Score(NamedTuple):
    """Mean test loss of each iterate's predictions, its sampling error and its probe noise."""

    values: Array
    stderr: Array
    probe_stderr: Array


def score(problem: Problem, predictions: Fitted) -> Score:
    """Score the predictions of every iterate."""
    path, criterion = problem.path, problem.criterion
    y, n, xp = path.y, path.n_samples, namespace(path.y)
    baseline = 0.0
    if problem.centered:
        baseline = observation_losses(criterion, y, xp.zeros_like(y[None, :]))
    T = path.n_iter + 1
    pieces = []
    most = _SCORED if isinstance(y, np.ndarray) else _SCORED_ON_DEVICE
    length = max(16, most // n)
    for start in range(0, T, length):
        block = slice(start, min(start + length, T))
        values = check_finite(predictions.of(block))
        losses = observation_losses(criterion, y, values) - baseline
        means = path.design.over_rows(xp.sum(losses, axis=1)) / n
        squares = path.design.over_rows(xp.sum((losses - means[:, None]) ** 2, axis=1))
        spread = xp.sqrt(squares / (n - 1)) if n > 1 else 0 * means + math.inf
        noise = 0 * means
        if isinstance(predictions, Compressed):
            slopes = _slopes(criterion, y, values, predictions.corrections, block)
            slopes = path.design.over_rows(slopes) / n
            variances = predictions.corrections.variances[block, :]
            noise = xp.sqrt(xp.sum(slopes**2 * variances, axis=1))
        pieces.append((means, spread / math.sqrt(n), noise))
    return Score(*(xp.concat(parts) for parts in zip(*pieces, strict=True)))


def _slopes(
    criterion: PerObservation,
    y: Array,
    predictions: Array,
    corrections: CompressedCorrections,
    block: slice,
) -> Array:
    """Return how total losses change along each direction, whose errors are independent."""
    xp = namespace(y)
    error = corrections.noise(block)
    # differences over the errors themselves, so that kinks and jumps of the loss are seen
    change = observation_losses(criterion, y, predictions + error)
    change = change - observation_losses(criterion, y, predictions - error)
    slopes = xp.where(error > 0, change / xp.where(error > 0, 2 * error, 1 + error), 0 * error)
    return slopes @ corrections.directions


# ------------------------------------------------------------------------------------------------
# Methods
# ------------------------------------------------------------------------------------------------


def noise_near(best: int, probe_stderr: Array) -> float:
    """Root mean square noise of the probes over the iterates from half to twice the best one."""
    near = probe_stderr[best // 2 : min(2 * best + 1, probe_stderr.shape[0])]
    return math.sqrt(float(namespace(near).mean(near**2)))


def noise_allowed(stderr: Array) -> float:
    """How large the noise of the probes may be beside the sampling error at the minimum."""
    return float(stderr) / 4


class Found(NamedTuple):
    """What a method found.

    Attributes
    ----------
    predictions : Fitted
        Of each observation, as if it had been left out.
    score : Score
        Their mean losses, plus `optimism`.
    n_probes : int
        Number of random probes.
    optimism : Array of shape (n_iter + 1,) or float
        What is added to the mean losses, besides.
    interactions : Interactions or None
        How the losses depend on each other, where rows were left out one at a time.
    """

    predictions: Fitted
    score: Score
    n_probes: int = 0
    optimism: Array = 0.0
    interactions: Interactions | None = None


def _compressed(problem: Problem) -> Found:
    path, xp = problem.path, namespace(problem.path.y)
    compression = Compression(
        path,
        problem.moments,
        problem.row_squares,
        problem.n_probes,
        problem.rng,
        getattr(xp, problem.precision),
    )
    first = compression.n_probes
    while True:
        found = scored(problem, compression.corrections(), compression.n_probes)
        wanted = probes_wanted(problem, found, first)
        if wanted is None:
            return found
        compression.draw(wanted)


def scored(problem: Problem, corrections: CompressedCorrections, n_probes: int) -> Found:
    """Score the corrections by so many probes."""
    predictions = Compressed(problem.path, corrections)
    return Found(predictions, score(problem, predictions), n_probes)


def probes_wanted(problem: Problem, found: Found, first: int) -> int | None:
    """Return how many probes there should be, or None if there are enough.

    Parameters
    ----------
    problem : Problem
        What is to be estimated.
    found : Found
        With the probes that there are.
    first : int
        Number of probes at first.
    """
    score, n_probes, most = found.score, found.n_probes, _MOST_PROBES * first
    near = problem.near
    best = int(namespace(score.values).argmin(score.values)) if near is None else near
    noise = noise_near(best, score.probe_stderr)
    tol = problem.probe_tol or noise_allowed(score.stderr[best])
    if noise > tol and n_probes < most:
        missing = min(noise / tol, _MOST_PROBES) if tol else _MOST_PROBES
        return min(math.ceil(1.2 * n_probes * missing**2), most)
    if problem.probe_tol and noise > tol:  # its own aim it may miss; `diagnostics` says by how much
        warn(
            f"the noise of {n_probes} random probes is {noise:.2g} near the minimum, "
            f"above probe_tol = {tol:.2g}; start with more n_probes, or accept a larger probe_tol"
        )
    return None


def _spectral(problem: Problem) -> Found:
    path = problem.path
    if not has_spectrum(path):
        raise ValueError(
            "method 'spectral' needs the square-root or squared loss, a penalty that treats all "
            f"coefficients alike, such as Ridge, and a dense X in memory; this is {path.loss!r} + "
            f"{path.penalty!r} by {path.algorithm!r}; use 'compressed'"
        )
    corrections = spectral_corrections(path, problem.moments, problem.row_squares, problem.rng)
    predictions = Compressed(path, corrections)
    return Found(predictions, score(problem, predictions))


def _exact(problem: Problem) -> Found:
    path = problem.path
    matrices = compute_matrices(path, problem.moments, "exact", 1, problem.row_squares, problem.rng)
    predictions = Given(path, matrices.corrected(path))
    return Found(predictions, score(problem, predictions))


def _hutchinson(problem: Problem) -> Found:
    path, xp = problem.path, namespace(problem.path.y)
    m = problem.n_probes or _HUTCHINSON
    matrices = compute_matrices(
        path, problem.moments, "hutchinson", m, problem.row_squares, problem.rng
    )
    predictions = Given(path, matrices.corrected(path))
    found = score(problem, predictions)
    if m == 1:
        noise = 0 * found.values + math.inf
    else:  # the jackknife: how much the estimate moves when a probe is left out
        without = [Given(path, matrices.corrected(path, skip=k)) for k in range(m)]
        moved = [score(problem, predictions).values for predictions in without]
        noise = xp.std(xp.stack(moved), axis=0) * math.sqrt(m - 1)
    return Found(predictions, found._replace(probe_stderr=noise), m)


def _loo(problem: Problem) -> Found:
    _refuse_covariance("loo", problem)
    path = problem.path
    # the pairs are those of the first rows: a fixed sample, for a method without randomness
    order = np.random.default_rng(0).permutation(path.n_samples)
    predictions, pairs = leave_out_rows(problem, order, path.design)
    predictions = Given(path, take(predictions, np.argsort(order), axis=1))
    return Found(predictions, score(problem, predictions), interactions=pairs)


def leave_out_rows(
    problem: Problem, rows: np.ndarray, design: Design
) -> tuple[Array, Interactions]:
    """Predictions of rows that are left out one at a time, and how pairs of them interact."""
    path, m = problem.path, len(rows)
    pairs = disjoint_pairs(rows)
    # a row alone is a pair with itself
    groups = np.concatenate([np.stack([rows, rows], axis=1), pairs])
    found = check_finite(leave_out(path, groups, design))
    predictions, together = found[:, :m, 0], found[:, m:, :]
    alone = namespace(found).reshape(predictions[:, : pairs.size], together.shape)
    return predictions, interactions(path, problem.criterion, pairs, alone, together)


def _folds(problem: Problem) -> Found:
    (found,) = by_folds([problem])
    return found


def by_folds(problems: Sequence[Problem]) -> list[Found]:
    """Cross-validate paths that differ in their penalties alone, all of them together."""
    _refuse_covariance("folds", problems[0])
    results = []
    for problem, crossed in zip(problems, folds(problems), strict=True):
        predictions = Given(problem.path, crossed.predictions)
        found = score(problem, predictions)
        found = found._replace(values=found.values + crossed.optimism)
        results.append(Found(predictions, found, optimism=crossed.optimism))
    return results


def folds(problems: Sequence[Problem], design: Design | None = None) -> list[CrossValidated]:
    """Cross-validate the problems' paths, with Burman's correction."""
    first, paths = problems[0], [problem.path for problem in problems]
    n = first.path.n_samples
    if n < 2:
        raise ValueError("folds need two observations at least")
    if not first.path.maps.structured:
        raise ValueError("folds are not available for a Recursion; leave one out instead")
    return cross_validate(paths, first.criterion, min(_FOLDS, n), first.rng, design)


def _refuse_covariance(method: str, problem: Problem) -> None:
    if problem.moments is not None:
        raise ValueError(f"method {method!r} has no use for a covariance; leave it out")


#: Methods of `steinpath.estimate_risk` by name.
METHODS: dict[str, Callable[[Problem], Found]] = {
    "compressed": _compressed,
    "spectral": _spectral,
    "exact": _exact,
    "hutchinson": _hutchinson,
    "loo": _loo,
    "folds": _folds,
}


def folds_pay(path: Path, n_paths: int) -> bool:
    """Whether folds of so many paths together are much cheaper than correcting one by one.

    That is where the time goes into calls rather than products. At rates measured on two cores.
    """
    n, p = path.design.shape
    if n < 2:
        return False
    together = 2e-4 + _FOLDS * n_paths * (6e-11 * n * p + 8e-9 * (n + p))  # per step
    return 2 * together < n_paths * (2.5e-4 + 4e-10 * n * p)


def should_leave_out(path: Path) -> bool:
    """Whether a choice is better made by leave-one-out: fewer rows than columns, and seconds."""
    n, p = path.design.shape
    seconds = path.n_iter * _seconds_without(n, p, n)
    return 2 <= n < p and path.maps.structured and seconds < _PATIENCE


def _seconds_without(n: int, p: int, left_out: int) -> float:
    """Seconds of a step that leaves out so many rows, one at a time."""
    return 2e-4 + 6e-11 * n * p * n_columns(left_out)


def cheapest(problem: Problem, audited: int = 0) -> str:
    """Choose a method by its expected seconds, at rates measured on two cores.

    Parameters
    ----------
    problem : Problem
        What is to be estimated.
    audited : int
        Rows that will be left out besides, unless all are.
    """
    path = problem.path
    n, p, N = path.n_samples, path.n_features, path.n_iter
    small = min(n, p)
    # an iteration has a fixed cost, and its products take up to 1e11 operations a second
    compressed = N * (5e-4 + 64e-11 * n * p)
    if problem.moments is not None:
        if 2e-11 * n * p * (p + small) * N**2 < compressed:
            return "exact"
    elif path.maps.structured:
        without = [_seconds_without(n, p, rows) for rows in (n, audited)]
        if N * without[0] < compressed + N * without[1] * (audited > 0):
            return "loo"
    if has_spectrum(path):
        # eigenvalues alone are several times cheaper than with their vectors; at small p the
        # rank-one part that is left out would matter
        if problem.moments is None and problem.row_squares is None:
            spectral = 6e-11 * small**3 + 2e-11 * n * p * small
        else:
            spectral = 1.5e-10 * small**3 + 6e-11 * n * p * small
        spectral += 3e-4 * N
        if spectral < compressed and (small >= 100 or path.loss.name == "squared"):
            return "spectral"
    return "compressed"
