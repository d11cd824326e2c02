"""Coefficients without the bias of penalties and of early stopping, at one iterate of a path."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from steinpath._support.arrays import Array, namespace, to_numpy
from steinpath.engine._batch import Batch
from steinpath.engine._dual_traces import dual_traces, recent_curves
from steinpath.engine._precision import design_in
from steinpath.engine._tangents import Linearization
from steinpath.inference._scores import Scores

#: Probes of the total response at every iterate.
PROBES = 16
# Tangent columns that follow the iterates, as many iterations as the path has; probes are at least
# so many.
_COLUMNS, _FEWEST = 32, 4
# Directions of the iterates that are smaller than this, in standard errors, are left out.
_SMALL = 0.5
# Monte Carlo error, in standard errors, at which there are probes enough; how often these double.
_NOISE, _DOUBLINGS = 0.1, 4
# Among how many iterates there is always a choice, and among how many times as many if these have
# intervals shorter than so much; iterates are as good if they are within this factor.
_EARLY, _LATER, _SHORTER, _AS_SHORT = 20, 4, 0.9, 1.05


@dataclass(frozen=True, eq=False)
class Debiased:
    """Coefficients of one path without bias, at one iterate.

    Attributes
    ----------
    t : int
        The iterate.
    estimate : ndarray of shape (k,)
        The coefficients.
    stderr : ndarray of shape (k,)
        Their standard errors for independent rows, without Monte Carlo error.
    noise : ndarray of shape (k,)
        Their Monte Carlo error.
    total, total_noise : float
        The total response ``C_t``, and its Monte Carlo error.
    relative_width : ndarray of shape (n_iter + 1,)
        Widths of intervals at each iterate, relative to those at ``t``.
    """

    t: int
    estimate: np.ndarray
    stderr: np.ndarray
    noise: np.ndarray
    total: float
    total_noise: float
    relative_width: np.ndarray

    @property
    def is_settled(self) -> bool:
        """Whether the Monte Carlo error is small beside the standard errors."""
        known = np.isfinite(self.stderr) & (self.stderr > 0)
        if not known.any():
            return True
        return bool(np.mean((self.noise[known] / self.stderr[known]) ** 2) <= _NOISE**2)


class Responses:
    """Responses of the duals to the residuals, of all paths of a batch, by random probes.

    Parameters
    ----------
    batch : Batch
        The paths.
    scores : sequence of Scores
        Of the coefficients of each.
    rngs : sequence of numpy.random.Generator
        Randomness of the probes of each.
    end : int
        The last iterate that may be asked for.

    Attributes
    ----------
    totals : ndarray of shape (end + 1, members, probes)
        What each probe found of the total responses ``C_t``.
    norms : ndarray of shape (end + 1, members)
        Norms of the duals, as the scores see them.
    widths : ndarray of shape (n_iter + 1, members)
        Standard errors at each iterate, up to the factors of the coefficients; infinite at 0, and
        not known (NaN) after the end.
    """

    def __init__(
        self,
        batch: Batch,
        scores: Sequence[Scores],
        rngs: Sequence[np.random.Generator],
        end: int,
    ):
        self._batch, self._scores, self._rngs = batch, scores, rngs
        self._design = design_in(batch, namespace(batch.data.y).float32, rngs)
        ones = batch.data.design.zeros(end, len(batch), 1) + 1.0
        self.totals = self.along(ones, PROBES)[..., 0]
        self.norms = np.stack([own.norms()[: end + 1] for own in scores], axis=1)
        size = np.abs(self.totals.mean(axis=2))
        self.widths = np.full((batch.n_iter + 1, len(batch)), np.nan)
        shown = np.where(size > 0, size, 1.0)
        self.widths[: end + 1] = np.where(size > 0, self.norms / shown, np.inf)
        self.widths[0] = np.inf

    def along(self, curves: Array, count: int) -> np.ndarray:
        """Follow curves of shape (T, members, r) with so many new probes of each member.

        Returns
        -------
        ndarray of shape (T + 1, members, count, r)
        """
        signs = [
            own.path.design.signs(rng, own.path.y.shape[0], count)
            for own, rng in zip(self._scores, self._rngs, strict=True)
        ]
        readers = [own.read(each) for own, each in zip(self._scores, signs, strict=True)]
        xp = namespace(signs[0])
        part = Linearization(self._batch.until(curves.shape[0]), self._design)
        return dual_traces(part, xp.stack(signs, axis=1), xp.stack(readers, axis=1), curves)

    def debias(self, times: Sequence[int]) -> list[Debiased]:
        """Remove the bias of the coefficients of each path at an iterate of its own."""
        batch, members = self._batch, np.arange(len(self._batch))
        directions, curves = self._directions(times)
        last, _, rank = curves.shape
        count = int(np.clip(_COLUMNS * batch.n_iter / (rank * last), _FEWEST, PROBES))
        readings = np.zeros((len(batch), 0, rank))
        for _ in range(_DOUBLINGS + 1):
            new = self.along(curves, count)[np.asarray(times), members]
            readings = np.concatenate([readings, new], axis=1)
            found = [
                self._estimate(k, t, readings[k], directions[k]) for k, t in enumerate(times)
            ]
            if all(each.is_settled for each in found):
                break
            count = readings.shape[1]
        return found

    def _directions(self, times: Sequence[int]) -> tuple[list[np.ndarray], Array]:
        """Return directions of the iterates before these, of the features, and their curves.

        The first curve is constant, for the total response.
        """
        batch, found = self._batch, []
        for k, (t, own) in enumerate(zip(times, self._scores, strict=True)):
            units = own.unit[own.identified]
            tol = _SMALL * float(np.median(units)) * float(self.widths[t, k]) if len(units) else 0.0
            iterates = batch.states.b[k, :t, : batch.n_features]
            found.append(recent_curves(iterates, tol if math.isfinite(tol) else 0.0))
        rank = 1 + max(each.shape[1] for each, _ in found)
        curves = batch.data.design.zeros(max(times), len(batch), rank)
        for k, (own_curves, _) in enumerate(found):
            curves[: times[k], k, 0] = 1.0
            curves[: times[k], k, 1 : 1 + own_curves.shape[1]] = own_curves
        directions = [
            to_numpy(each).astype(float)[own.features]
            for (_, each), own in zip(found, self._scores, strict=True)
        ]
        return directions, curves

    def _estimate(self, k: int, t: int, readings: np.ndarray, directions: np.ndarray) -> Debiased:
        """Estimate coefficients from what the probes read.

        The same probes are in the numerator and in the denominator, where their noise cancels in
        good part.
        """
        own = self._scores[k]
        totals = np.concatenate([self.totals[t, k], readings[:, 0]])
        total, norm = float(totals.mean()), float(self.norms[t, k])
        readings = readings[:, : 1 + directions.shape[1]]
        mean, count = readings.mean(axis=0), len(readings)
        reference = to_numpy(own.path.iterates[t - 1, :]).astype(float)[own.features]
        nothing = np.zeros(len(reference))
        if mean[0] == 0 or total == 0:  # no dual responds
            change, noise, stderr = nothing, nothing, nothing + np.inf
        else:
            change = (own.products(t) + directions @ mean[1:]) / mean[0]
            slopes = np.concatenate([-change[:, None], directions], axis=1) / mean[0]
            squares = np.sum(((readings - mean) @ slopes.T) ** 2, axis=0)
            noise = np.sqrt(squares / (count * (count - 1)))
            stderr = own.unit * norm / abs(total)
        return Debiased(
            t,
            reference + np.where(own.identified, change, 0.0),
            np.where(own.identified, stderr, np.inf),
            np.where(own.identified, noise, 0.0),
            total,
            float(totals.std(ddof=1) / math.sqrt(len(totals))),
            self.widths[:, k] / (self.widths[t, k] or 1.0),
        )


def debias(
    batch: Batch, scores: Sequence[Scores], t: int | None, rngs: Sequence[np.random.Generator]
) -> list[Debiased]:
    """Remove the bias of coefficients at one iterate of each path.

    Parameters
    ----------
    batch : Batch
        The paths.
    scores : sequence of Scores
        Of the coefficients of each.
    t : int, optional
        The iterate; of each path the one with the shortest intervals by default.
    rngs : sequence of numpy.random.Generator
        Randomness of the probes of each.
    """
    found = Responses(batch, scores, rngs, batch.n_iter if t is None else t)
    times = [t or shortest(found.widths[:, k]) for k in range(len(batch))]
    return found.debias(times)


def shortest(widths: np.ndarray) -> int:
    """Return an early iterate with short intervals.

    Total responses fluctuate from one data set to the next, the more the later the iterate (for
    losses with kinks), and the smallest of many widths is too small. So this is the first iterate
    within 3% of the shortest of the first twenty; later ones are only taken if their intervals are
    shorter by a tenth.
    """
    horizon = _EARLY
    while True:
        least = np.min(widths[: horizon + 1])
        horizon *= _LATER
        if horizon >= _LATER * len(widths) or np.min(widths[: horizon + 1]) >= _SHORTER * least:
            return int(np.argmax(widths <= _AS_SHORT * least))
