r"""Corrections compressed in time: the default, at the cost of a few tangent columns.

Only the corrections :math:`c^t = \sum_s w_{t,s} u^s` are wanted, not the weights, and the dual
trajectory :math:`F = [u^1 … u^N]` is smooth in time, hence nearly of low rank. In an orthonormal
basis :math:`h_1 … h_r` of its range, with :math:`\alpha_k(s) = h_k^\top u^s`, all impulse times
of a direction travel together, weighted by :math:`\alpha_k`: r columns do the work of T.

**Covariance known.** Inject :math:`\alpha_k(s)\, g/\sqrt n` into :math:`\dot\eta^s` at every
:math:`s`; then :math:`g^\top \Sigma \dot b^t` estimates :math:`h_k^\top c^t` for random signs g.

**Covariance unknown.** The wanted weights solve :math:`K \hat W = A`, that is,

.. math:: n\, c^t = \sum_{s<t} \mathrm{tr}(\tilde P_{t,s+1} X)\, c^s
          + \sum_{s \le t} \mathrm{tr}(\tilde Q_{t,s} X^\top X)\, u^s .

The trace is cyclic, so that both sums have the same reader: inject
:math:`\alpha_k(s)\, X^\top X g/\sqrt n` into :math:`\dot\eta^s` and, once it is known,
:math:`c_k(s)\, X g/\sqrt n` into :math:`\dot v^s`, **in the same column**, and
:math:`g^\top \dot b^t / n` is the estimate of :math:`c_k(t) = h_k^\top c^t` that is injected next.
Where ``n < p`` it is :math:`X^\top\xi` and :math:`\xi` with the reader :math:`X^\top\xi`: signs
on the shorter side are less noisy.

The noise of a direction is in proportion to its singular value, and so is its number of probes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from steinpath._support.arrays import Array, along_rows, cast, like, namespace, take, to_numpy
from steinpath.design._designs import Design
from steinpath.engine._basis import RANK_TOL, Trajectory, compress
from steinpath.engine._path import Path
from steinpath.engine._precision import design_in
from steinpath.engine._shortcuts import GramLinearization, SpectralLinearization, has_gram, spectrum
from steinpath.engine._tangents import Feed, Linearization, responses

# Relative size of the smallest directions in the basis that holds those of rank-one Jacobians:
# their effect on the traces is small in itself.
_SPAN_TOL = 1e-4
# Probes to begin with, if X has more columns than rows; a few more if not, and where products with
# the Gram matrix make them cheap.
_PROBES, _MORE_IF_TALL, _MORE_WITH_GRAM = 16, 4, 8


@dataclass(frozen=True, eq=False)
class Columns:
    """What the columns of a compressed feed inject and read.

    With the covariance known nothing is fed back, and ``into_v`` is None.
    """

    into_eta: Array  # (p, k)
    into_v: Array | None  # (n, k)
    reader: Array  # (p, k)

    def astype(self, dtype: Any) -> Columns:
        """Return the columns in another precision."""
        into_v = self.into_v if self.into_v is None else cast(self.into_v, dtype)
        return Columns(cast(self.into_eta, dtype), into_v, cast(self.reader, dtype))


def follow(linearization: Linearization, coordinates: Array, columns: Columns) -> Array:
    """Coefficients of the corrections, in one pass of the tangents.

    Parameters
    ----------
    linearization : Linearization
        The recursion of the tangents.
    coordinates : Array of shape (N, k), or (N, members, k) for a batch
        Coordinates of the duals, in the direction of each column.
    columns : Columns
        What is injected and read.

    Returns
    -------
    Array of shape (N + 1, k) or (N + 1, members, k)
    """
    dtype = columns.reader.dtype
    scale = 1.0 if columns.into_v is None else 1 / linearization.n_samples
    N, *width = coordinates.shape
    result = like(np.zeros((N + 1, *width)), coordinates)
    feed = Feed(
        columns.into_eta,
        columns.into_v,
        [columns.reader],
        eta_weights=lambda t: cast(coordinates[t - 1, ...], dtype),
        v_weights=lambda t: cast(result[t, ...], dtype),
    )
    for t, (reading,) in responses(linearization, feed):
        result[t, ...] = scale * cast(reading, result.dtype)
    return result


def allocate(sizes: np.ndarray, n_probes: int) -> np.ndarray:
    """Share probes among directions in proportion to their sizes.

    Each gets one at least, and the largest two, so that their noise can be seen.
    """
    counts = np.ones(len(sizes), dtype=int)
    counts[0] = 2
    for _ in range(n_probes - counts.sum()):
        counts[np.argmax(sizes / counts)] += 1
    return counts


class Readings:
    """The probes of one path: the direction of each, and what was read of it.

    Parameters
    ----------
    trajectory : Trajectory
        The directions.
    row_squares : Array of shape (n,), optional
        Squared sizes of the rows.
    """

    def __init__(self, trajectory: Trajectory, row_squares: Array | None):
        self.trajectory, self._row_squares = trajectory, row_squares
        self._labels = np.zeros(0, dtype=int)
        self._drawn: list[np.ndarray] = []
        # all is linear in the duals, whose units may be anything
        self._unit = float(np.max(trajectory.sizes)) or 1.0

    @property
    def n_probes(self) -> int:
        """Number of probes, over all directions."""
        return len(self._labels)

    @property
    def _counts(self) -> np.ndarray:
        return np.bincount(self._labels, minlength=self.trajectory.rank)

    def missing(self, n_probes: int) -> np.ndarray:
        """Directions of the probes to draw until there are about ``n_probes``."""
        wanted = np.maximum(allocate(self.trajectory.sizes, n_probes), self._counts)
        return np.repeat(np.arange(self.trajectory.rank), wanted - self._counts)

    def coordinates(self, labels: np.ndarray) -> Array:
        """Coordinates of the duals in the directions of some probes, of shape (N, probes)."""
        return take(self.trajectory.coordinates, labels, axis=1) / self._unit

    def add(self, labels: np.ndarray, found: np.ndarray) -> None:
        """Keep what `follow` found with these coordinates."""
        self._labels = np.concatenate([self._labels, labels])
        self._drawn.append(self._unit * found.astype(float))

    def corrections(self) -> CompressedCorrections:
        """Return the corrections by all probes drawn so far."""
        drawn = np.concatenate(self._drawn, axis=1)
        means, spreads = [], []  # of each direction, over its probes
        for k in range(self.trajectory.rank):
            values = drawn[:, self._labels == k]
            means.append(values.mean(axis=1))
            spreads.append(np.sum((values - means[-1][:, None]) ** 2, axis=1))
        # a single probe shows no noise; what the others show is in proportion to their sizes
        sizes, counts = self.trajectory.sizes, self._counts
        squares = (sizes / (sizes[0] or 1.0)) ** 2 + (sizes[0] == 0)
        spread = np.stack(spreads, axis=1)
        pooled = np.sum(spread / squares, axis=1, keepdims=True) / (counts - 1).sum()
        own = spread / np.maximum(counts - 1, 1)
        variances = (own + (counts == 1) * squares * pooled) / counts
        directions = self.trajectory.scaled(self._row_squares)
        return CompressedCorrections(
            directions, like(np.stack(means, axis=1), directions), like(variances, directions)
        )


class Compression:
    """A path prepared for compressed corrections, and the probes drawn so far.

    Parameters
    ----------
    path : Path
        The path.
    moments : Array of shape (p, p), optional
        Second moments of a row of its design, if they are known.
    row_squares : Array of shape (n,), optional
        Squared sizes of the rows.
    n_probes : int, optional
        Probes to begin with; between 16 and 28 by default.
    rng : numpy.random.Generator
        Randomness of the sketch and of the probes.
    dtype : dtype
        Precision of the tangents.
    """

    def __init__(
        self,
        path: Path,
        moments: Array | None,
        row_squares: Array | None,
        n_probes: int | None,
        rng: np.random.Generator,
        dtype: Any,
    ):
        self.path, self.moments, self.row_squares = path, moments, row_squares
        self._rng = rng
        self._linearization = Linearization(path, design_in(path, dtype, rng))
        usual = usual_probes(path)
        reduce = self._gram_pays(n_probes or usual)
        trajectory = compress(path, rng, _SPAN_TOL if reduce else RANK_TOL)
        self._gram = self._linearization.design.gram() if reduce else None
        if self._gram is not None:
            self._linearization = Linearization(path)  # a copy of X in another precision can go
            self._span = _with_constant(path, trajectory.directions)
        self._readings = Readings(trajectory.leading(RANK_TOL), row_squares)
        self.draw(n_probes or usual + _MORE_WITH_GRAM * reduce)

    @property
    def n_probes(self) -> int:
        """Number of probes, over all directions."""
        return self._readings.n_probes

    def draw(self, n_probes: int) -> None:
        """Draw more probes, until there are about ``n_probes``."""
        labels = self._readings.missing(n_probes)
        if not len(labels):
            return
        columns = self._columns(len(labels))
        recursion: Linearization = self._linearization
        if self._gram is not None:
            columns = columns.astype(self._gram.dtype)
            recursion = GramLinearization(self.path, self._gram, self._span, columns.into_v)
            columns = replace(columns, into_v=recursion.injection())
        found = follow(recursion, self._readings.coordinates(labels), columns)
        self._readings.add(labels, to_numpy(found))

    def corrections(self) -> CompressedCorrections:
        """Return the corrections by all probes drawn so far."""
        return self._readings.corrections()

    def _gram_pays(self, n_probes: int) -> bool:
        path = self.path
        n, p = path.n_samples, path.design.shape[1]
        saved = path.n_iter * n_probes * (2 * n - p)
        return has_gram(path) and saved > n * p

    def _columns(self, width: int) -> Columns:
        design = self._linearization.design
        on_rows = self.moments is None and rows_are_less_noisy(self.path, self.row_squares)
        signs = design.signs(self._rng, design.n_rows if on_rows else design.shape[1], width)
        if on_rows:
            signs = design.here(signs)
        return probe_columns(design, self.moments, self.row_squares, signs, on_rows)


def usual_probes(path: Path) -> int:
    """How many probes to begin with."""
    return _PROBES + _MORE_IF_TALL * (path.n_samples >= path.n_features)


def rows_are_less_noisy(path: Path, row_squares: Array | None) -> bool:
    """Whether signs on the rows are less noisy than on the columns.

    They are on the shorter side, and where some rows weigh much more than others.
    """
    if path.n_samples < path.design.shape[1]:
        return True
    if row_squares is None:
        return False
    return path.design.largest(float(namespace(row_squares).max(row_squares))) > 2


@dataclass(frozen=True, eq=False)
class CompressedCorrections:
    """Corrections in few directions.

    Attributes
    ----------
    directions : Array of shape (n, r)
        The directions, times the rows' squared sizes.
    coefficients : Array of shape (N + 1, r)
        Mean over the probes.
    variances : Array of shape (N + 1, r)
        Of that mean; directions are independent.
    """

    directions: Array
    coefficients: Array
    variances: Array

    def shift(self, t: slice) -> Array:
        """Corrections of some iterates, of shape (iterates, n)."""
        return self.coefficients[t, :] @ self.directions.T

    def part(self, rows: np.ndarray) -> CompressedCorrections:
        """Return the corrections of some rows."""
        return replace(self, directions=take(self.directions, rows))

    def noise(self, t: slice) -> Array:
        """Return the standard errors of these corrections, from the probes."""
        return namespace(self.variances).sqrt(self.variances[t, :] @ (self.directions**2).T)


def probe_columns(
    design: Design, moments: Array | None, row_squares: Array | None, probes: Array, on_rows: bool
) -> Columns:
    """Return the columns that estimate the traces by probes of coefficients, or of rows."""
    if moments is not None:
        weighed = namespace(probes).tensordot(cast(moments, probes.dtype), probes, axes=1)
        return Columns(probes, None, weighed)
    if on_rows:
        reader = design.rmatmat(probes)
        columns = Columns(reader, probes, reader)
    else:
        into_v = design.matmat(probes)
        columns = Columns(design.rmatmat(into_v), into_v, probes)
    if row_squares is None:
        return columns
    weights = along_rows(cast(row_squares, probes.dtype), columns.into_v)
    return replace(columns, into_v=weights * columns.into_v)


def _with_constant(path: Path, directions: Array) -> Array:
    """Return a basis of the duals themselves, from one of the centred duals."""
    if not path.fit_intercept:
        return directions
    xp = namespace(directions)
    constant = xp.ones_like(directions[:, :1]) / math.sqrt(path.n_samples)
    return xp.concat([directions, constant], axis=1)


def spectral_corrections(
    path: Path, moments: Array | None, row_squares: Array | None, rng: np.random.Generator
) -> CompressedCorrections:
    """Corrections without random probes, where `steinpath.engine._shortcuts.has_spectrum`."""
    found = spectrum(path, moments, row_squares)
    trajectory = compress(path, rng, _SPAN_TOL)
    ones = namespace(found.values).ones_like(found.values)
    if found.moments is not None:
        feeds = [ones, None, found.moments]
    else:
        weights = ones if found.row_squares is None else found.row_squares
        feeds = [found.values**2, found.values * weights, ones]
    width = trajectory.rank
    columns = Columns(
        *(None if f is None else f[:, None] + path.design.zeros(1, width) for f in feeds)
    )
    coefficients = follow(SpectralLinearization(path, found), trajectory.coordinates, columns)
    directions = trajectory.scaled(row_squares)
    return CompressedCorrections(directions, coefficients, 0 * coefficients)
