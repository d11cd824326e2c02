"""Debiased coefficients, at one iteration of a path."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from steinpath._support.arrays import Array, namespace, to_numpy
from steinpath.engine._batch import Batch
from steinpath.engine._tangents import Linearization, design_in
from steinpath.engine._traces import DualTraces, dual_traces, recent_curves
from steinpath.inference._scores import ReaderOutside, Scores

# Probes of the total response at every iteration.
_PROBES = 16
# Iterations between checks whether the search for short intervals is over, their minimum, and the
# multiple of the best iteration so far at which it ends.
_LOOK, _LEAST, _BEYOND = 16, 32, 4
# Tangent columns that follow the iterates, for as many iterations as the path has; and the minimum
# number of probes.
_COLUMNS, _FEWEST = 32, 4
# Directions of the iterates that are smaller than this, in standard errors, are dropped.
_SMALL = 0.5
# Tolerance for the Monte Carlo error in standard errors; how often the probes are doubled.
_NOISE, _DOUBLINGS = 0.1, 4
# Standard errors by which total responses are reduced before widths are compared; and the factor
# within which iterations are neighbours.
_DOUBT, _NEAR = 3.0, 1.5


@dataclass(frozen=True, eq=False)
class Debiased:
    """Debiased coefficients of one path, at one iteration t; arrays have shape (k,)."""

    t: int
    estimate: np.ndarray
    #: Standard errors for independent rows, without Monte Carlo error.
    stderr: np.ndarray
    #: The part of the standard errors that is the uncertainty of the total response.
    second: np.ndarray
    #: Monte Carlo error.
    noise: np.ndarray
    #: The total response ``C_t`` where each score varies, and its relative standard error.
    total: np.ndarray
    doubt: float
    #: Widths of intervals at each iteration relative to those at t, of shape (n_iter + 1,).
    relative_width: np.ndarray


def share_of_noise(noise: np.ndarray, stderr: np.ndarray) -> float:
    """Return the mean square of Monte Carlo errors relative to standard errors."""
    known = np.isfinite(stderr) & (stderr > 0)
    return float(np.mean((noise[known] / stderr[known]) ** 2)) if known.any() else 0.0


class Responses:
    """Derivatives of the duals with respect to the residuals, of all paths, by random probes.

    They end at the largest of ``times``, or with None when the search for short intervals is over.
    """

    #: Estimates of the total responses ``C_t`` by each probe, of shape (end + 1, members, probes).
    totals: np.ndarray
    #: Approximate root mean squares of the standard errors at each iteration, of shape
    #: (n_iter + 1, members); infinite at 0, and unknown (NaN) after the end.
    widths: np.ndarray
    #: Relative standard errors of the total responses over data sets, of shape (end + 1, members).
    doubts: np.ndarray

    def __init__(
        self,
        batch: Batch,
        scores: Sequence[Scores],
        rngs: Sequence[np.random.Generator],
        times: Sequence[int | None],
    ):
        self._batch, self._scores, self._rngs = batch, scores, rngs
        self._design = design_in(batch, namespace(batch.data.y).float32, rngs)
        # norms of the duals in the space in which the scores vary, of shape (n_iter + 1, members)
        self._norms = np.stack([own.norms() for own in scores], axis=1)
        outside = [own.norms_outside(slice(None), own.some).mean(axis=0) for own in scores]
        self._typical_norms = self._norms * np.stack(np.broadcast_arrays(*outside), axis=1)
        self._biases = np.stack([_bias(own) for own in scores], axis=1)
        searches, least = None in times, max((t for t in times if t is not None), default=1)
        ones = batch.data.design.zeros(batch.n_iter if searches else least, len(batch), 1) + 1.0
        shape = len(batch), _PROBES, 1
        traces = [DualTraces(np.zeros(shape), np.zeros((*shape, 1)))]  # at iteration 0
        probes = self._probes(_PROBES)
        pairs = zip(scores, probes, strict=True)
        readers = [own.readers_outside(block, own.some) for own, block in pairs]
        growth = [np.ones(len(batch))]
        for t, at_t in enumerate(self._along(ones, probes, range(len(ones) + 1)), 1):
            traces.append(at_t._replace(images=None))
            growth.append(np.array([_growth(at_t, k, some) for k, some in enumerate(readers)]))
            if searches and t >= least and t % _LOOK == 0:
                self._measure(traces, growth)
                if all(is_final for _, is_final in self.shortest()):
                    return
        self._measure(traces, growth)

    def _measure(self, traces: Sequence[DualTraces], growth: Sequence[np.ndarray]) -> None:
        """Compute total responses and widths from the probes at the first iterations.

        Total responses grow by these factors, on average, where scores vary.
        """
        self.totals = np.stack([at_t.traces[..., 0] for at_t in traces])
        products = np.stack([at_t.products[..., 0, 0].mean(axis=1) for at_t in traces])
        end = len(traces)
        self.widths = np.full(self._norms.shape, np.nan)
        self.doubts = np.zeros((end, len(self._scores)))
        for k, own in enumerate(self._scores):
            factors = np.array([factor[k] for factor in growth])
            size = np.abs(self.totals[:, k].mean(axis=1)) * factors
            squares = products[:, k] * own.share**2 * factors
            constant = size**2 / self._batch.n_samples if own.self_normalised else 0.0
            varying = np.maximum(squares - constant, 0.0) * self._biases[:end, k]
            variance = _mean(own.unit**2, own) * self._typical_norms[:end, k] ** 2 + varying
            with np.errstate(divide="ignore", invalid="ignore"):
                roots = np.sqrt([variance, squares])
                relative = np.where(size > 0, roots / size, np.inf)
            self.widths[:end, k], self.doubts[:, k] = relative
        self.widths[0] = np.inf

    def shortest(self) -> list[tuple[int, bool]]:
        """Apply `shortest` to the known iterations of each path."""
        end, members = self.doubts.shape
        return [shortest(self.widths[:end, k], self.doubts[:, k]) for k in range(members)]

    def _probes(self, count: int) -> list[Array]:
        """Return new probes of each member: random signs, times the sizes of the rows."""
        probes = []
        for own, rng in zip(self._scores, self._rngs, strict=True):
            design = own.path.design
            signs = design.local(design.signs(rng, own.path.n_samples, count))
            probes.append(signs if own.row_squares is None else own.row_sizes[:, None] * signs)
        return probes

    def _along(
        self, curves: Array, probes: Sequence[Array], times: Sequence[int] = ()
    ) -> Iterator[DualTraces]:
        """Follow curves of shape (T, members, r) with the probes of each member."""
        readers = [own.read(block) for own, block in zip(self._scores, probes, strict=True)]
        xp = namespace(probes[0])
        part = Linearization(self._batch.until(curves.shape[0]), self._design)
        of_columns = [own.plain for own in self._scores if own.selected is not None]
        sizes = [own.row_sizes for own in self._scores if own.row_squares is not None]
        return dual_traces(
            part,
            xp.stack(probes, axis=1),
            xp.stack(readers, axis=1),
            curves,
            xp.stack(sizes, axis=1) if sizes else None,
            (times if of_columns else (), of_columns),
        )

    def debias(self, times: Sequence[int], selected: bool = False) -> list[Debiased]:
        """Debias the coefficients of each path, each at its own iteration.

        If these were selected for short intervals, their total responses are too large rather than
        too small, which the standard errors count as a second error of the same size.
        """
        directions, curves = self._directions(times)
        last, members, rank = curves.shape
        count = int(np.clip(_COLUMNS * self._batch.n_iter / (rank * last), _FEWEST, _PROBES))
        every = np.arange(len(self._scores[0].features))
        norms = [
            self._norms[t, k] * own.norms_outside(slice(t, t + 1), every)[:, 0]
            for k, (own, t) in enumerate(zip(self._scores, times, strict=True))
        ]
        readings: list[list[_Readings]] = [[] for _ in range(members)]
        for _ in range(_DOUBLINGS + 1):
            probes = self._probes(count)
            along = self._along(curves, probes, times)
            at = {t: found for t, found in enumerate(along, 1) if t in times}
            for k, (own, t) in enumerate(zip(self._scores, times, strict=True)):
                each = _restricted(at[t], k, own.readers_outside(probes[k], every))
                readings[k].append(_Readings(at[t].traces[k], at[t].products[k], each))
            debiased = [
                self._estimate(
                    k, t, _Readings.joined(readings[k]), directions[k], norms[k], selected
                )
                for k, t in enumerate(times)
            ]
            if all(share_of_noise(own.noise, own.stderr) <= _NOISE**2 for own in debiased):
                break
            count = sum(len(each.traces) for each in readings[0])
        return debiased

    def _directions(self, times: Sequence[int]) -> tuple[list[np.ndarray], Array]:
        """Return directions of the iterates before these, and their curves: a constant first."""
        batch, parts = self._batch, []
        for k, t in enumerate(times):
            tol = _SMALL * float(self.widths[t, k])
            iterates = batch.states.b[k, :t, : batch.n_features]
            parts.append(recent_curves(iterates, tol if math.isfinite(tol) else 0.0))
        rank = 1 + max(own.shape[1] for own, _ in parts)
        curves = batch.data.design.zeros(max(times), len(batch), rank)
        for k, (own, _) in enumerate(parts):
            curves[: times[k], k, 0] = 1.0
            curves[: times[k], k, 1 : 1 + own.shape[1]] = own
        directions = [
            to_numpy(block).astype(float)[scores.features]
            for (_, block), scores in zip(parts, self._scores, strict=True)
        ]
        return directions, curves

    def _estimate(
        self,
        k: int,
        t: int,
        found: _Readings,
        directions: np.ndarray,
        norms: np.ndarray,
        selected: bool,
    ) -> Debiased:
        """Estimate coefficients of path k; errors of probes cancel in ratios of their traces."""
        own, widths = self._scores[k], self.widths[:, k]
        if math.isfinite(widths[t]):
            relative = widths / (widths[t] or 1.0)
        else:
            relative = np.where(np.isfinite(widths), 0.0, widths)
            relative[t] = 1.0
        rank = 1 + directions.shape[1]
        traces, products = found.each[..., :rank], found.products[:, :rank, :rank]
        mean, count = traces.mean(axis=1), traces.shape[1]  # (k or 1, r)
        whole = float(found.traces[:, 0].mean())
        total = np.concatenate([self.totals[t, k], found.traces[:, 0]]).mean()
        reference = to_numpy(own.path.iterates[t - 1, :]).astype(float)[own.features]
        nothing = np.zeros(len(reference))
        if whole == 0 or total == 0 or np.any(mean[:, 0] == 0):  # no dual responds
            totals, stderr = nothing, nothing + np.inf
            change, noise, second = nothing, nothing, nothing
        else:
            explained, growth = own.products(t), mean[:, 0] / whole
            totals = total * growth + nothing
            change = (explained + np.sum(directions * mean[:, 1:], axis=1)) / mean[:, 0]
            slopes = np.concatenate([-change[:, None], directions], axis=1)
            deviations = (traces - mean[:, None]) @ slopes[:, :, None]
            squares = np.sum(deviations[..., 0] ** 2, axis=1)
            noise = np.sqrt(squares / (count * (count - 1))) / np.abs(mean[:, 0])
            squares = np.sum((slopes @ products.mean(axis=0)) * slopes, axis=1) * own.share**2
            squares *= np.abs(growth)
            first = (own.unit * norms) ** 2
            if own.self_normalised:
                # the component of a dual, or of a response, along the score does not vary; norms in
                # the complement of the columns do not contain it
                constant = explained**2 / own.path.n_samples
                squares -= constant
                if own.inverse is None:
                    first = np.maximum(first - constant, 0.0)
            second = np.sqrt(np.maximum((1 + selected) * squares, 0.0)) / np.abs(totals)
            stderr = np.hypot(np.sqrt(first) / np.abs(totals), second)
        return Debiased(
            t,
            reference + np.where(own.identified, change, 0.0),
            np.where(own.identified, stderr, np.inf),
            np.where(own.identified, second, 0.0),
            np.where(own.identified, noise, 0.0),
            totals,
            float(self.doubts[t, k]),
            relative,
        )


def _growth(found: DualTraces, k: int, readers: Sequence[ReaderOutside]) -> float:
    """Return the total response where scores of path k vary, on average, relative to all of it."""
    whole = float(found.traces[k].mean())
    return abs(float(_restricted(found, k, readers).mean()) / whole) if whole else 1.0


def _restricted(found: DualTraces, k: int, readers: Sequence[ReaderOutside]) -> np.ndarray:
    """Return traces of path k where scores vary, (k, m, r); (1, m, r) if that is all the same."""
    if found.images is None:
        return np.expand_dims(found.traces[k], 0)
    return np.stack([reader.read(found.traces[k], found.images[k]) for reader in readers])


class _Readings(NamedTuple):
    """Readings of the probes of a path at one iteration, for curves in time."""

    traces: np.ndarray  # (m, r)
    products: np.ndarray  # (m, r, r)
    #: Traces where each score varies, (k, m, r); (1, m, r) if that is the same for all.
    each: np.ndarray

    @classmethod
    def joined(cls, parts: Sequence[_Readings]) -> _Readings:
        """Join those of several sets of probes."""
        traces, products, each = zip(*parts, strict=True)
        return cls(np.concatenate(traces), np.concatenate(products), np.concatenate(each, axis=1))


def _mean(values: np.ndarray, scores: Scores) -> Any:
    """Return the mean over the identified coefficients."""
    return values[..., scores.identified].mean(axis=-1) if scores.identified.any() else 1.0


def _bias(scores: Scores) -> np.ndarray:
    """Return mean squared distances of the coefficients of ``b^{t-1}`` from the last iterate."""
    iterates = to_numpy(scores.path.coef).astype(float)[:, scores.features]
    before = np.maximum(np.arange(len(iterates)) - 1, 0)
    squares = (iterates[before] - iterates[-1]) ** 2
    return np.full(len(iterates), _mean(squares, scores), dtype=float)


def debias(
    batch: Batch,
    scores: Sequence[Scores],
    times: Sequence[int | None],
    rngs: Sequence[np.random.Generator],
) -> list[list[Debiased]]:
    """Debias the coefficients of each path, at each of ``times``; None: with short intervals."""
    responses = Responses(batch, scores, rngs, times)
    best = [iterate for iterate, _ in responses.shortest()]
    return [
        responses.debias(best, selected=True) if t is None else responses.debias([t] * len(batch))
        for t in times
    ]


def shortest(widths: np.ndarray, doubts: np.ndarray) -> tuple[int, bool]:
    """Return an early iteration with short intervals, and whether later ones cannot change it.

    The smallest of many widths is biased downwards. So each is computed with a total response
    reduced by three standard errors (``doubts`` are relative ones), and averaged over neighbours.
    """
    # the relative error is too small where a total response is too large by chance
    doubt = np.concatenate([[np.inf], np.maximum.accumulate(doubts[1:])])
    likely = np.where(_DOUBT * doubt < 1, widths / np.maximum(1 - _DOUBT * doubt, 1e-9), np.inf)
    for end in range(_LEAST, len(widths), _LOOK):
        best = _smallest(likely[: end + 1], doubt)
        if end >= _BEYOND * best:
            return best, True
    return _smallest(likely, doubt), False


def _smallest(likely: np.ndarray, doubt: np.ndarray) -> int:
    """Return the iteration of the smallest width; if all are doubtful, the least doubtful one."""
    if not np.isfinite(likely).any():
        return 1 + int(np.argmin(doubt[1 : len(likely)]))
    with np.errstate(divide="ignore"):
        logs, means = np.log(likely), np.full(len(likely), np.inf)
    for t in range(1, len(likely)):
        means[t] = np.mean(logs[math.ceil(t / _NEAR) : int(t * _NEAR) + 1])
    best = means if np.min(means) < np.inf else logs
    return int(np.argmin(best))
