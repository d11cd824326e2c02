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

from steinpath._arrays import Array, cast, like, namespace, take, to_numpy
from steinpath.designs import Design
from steinpath.path import Path
from steinpath.precision import design_in
from steinpath.reduction import (
    GramLinearization,
    SpectralLinearization,
    has_gram,
    spectrum,
)
from steinpath.tangents import Feed, Linearization, responses

# Directions whose singular value is below this share of the largest are left out.
RANK_TOL = 5e-2
# The same for the basis that holds the directions of rank-one Jacobians: their effect on the
# traces is small in itself.
_SPAN_TOL = 1e-4
# Probes to begin with, if X has more columns than rows; a few more if not, and where products with
# the Gram matrix make them cheap.
_PROBES, _MORE_IF_TALL, _MORE_WITH_GRAM = 16, 4, 8
# Columns of the first sketch of the trajectory; doubled until the basis is long enough.
_SKETCH = 24


@dataclass(frozen=True, eq=False)
class Trajectory:
    """The dual trajectory in a basis of few directions.

    Attributes
    ----------
    directions : Array of shape (n, r)
        Orthonormal columns.
    coordinates : Array of shape (n_iter, r)
        ``coordinates[s - 1]`` are those of ``u^s``.
    sizes : ndarray of shape (r,)
        Singular values of the trajectory in logarithmic time.
    """

    directions: Array
    coordinates: Array
    sizes: np.ndarray

    @property
    def rank(self) -> int:
        """Number of directions."""
        return len(self.sizes)

    def leading(self, tol: float) -> Trajectory:
        """Return the directions with singular values above ``tol`` times the largest."""
        rank = max(1, int(np.sum(self.sizes > tol * self.sizes[0])))
        return Trajectory(self.directions[:, :rank], self.coordinates[:, :rank], self.sizes[:rank])

    def scaled(self, row_squares: Array | None) -> Array:
        """Directions of the corrections: those of the duals, times the rows' squared sizes."""
        return self.directions if row_squares is None else row_squares[:, None] * self.directions


def compress(path: Path, rng: np.random.Generator, tol: float = RANK_TOL) -> Trajectory:
    """Find a basis of the (centred) duals, by a randomised range finder.

    Each ``u^s`` counts with the weight ``1/s``, as in an integral over logarithmic time: the
    early iterates, where the risk has its minimum and the duals move most, are few.

    Parameters
    ----------
    path : Path
        The path.
    rng : numpy.random.Generator
        Randomness of the sketch.
    tol : float
        Smallest singular value that is kept, relative to the largest; 0 keeps a whole basis.
    """
    xp = namespace(path.y)
    N, n = path.n_iter, path.n_samples
    weights = like(1 / np.sqrt(np.arange(1, N + 1)), path.y)[:, None]
    duals = path.dual
    means = xp.mean(duals, axis=1)[:, None] if path.fit_intercept else 0 * weights

    # products with the weighted, centred duals, of which no copy is made

    def onto_times(block: Array) -> Array:
        return weights * (duals @ block - means * xp.sum(block, axis=0))

    def onto_rows(block: Array) -> Array:
        block = weights * block
        return duals.T @ block - xp.sum(means * block, axis=0)

    width = _SKETCH
    while True:
        if tol == 0 or 2 * width >= min(N, n):
            basis = None
            left, sizes, right = xp.linalg.svd(weights * (duals - means), full_matrices=False)
        else:
            sketch = onto_rows(like(rng.standard_normal((N, width)), path.y))
            basis, _ = xp.linalg.qr(onto_rows(onto_times(xp.linalg.qr(sketch)[0])))
            left, sizes, right = xp.linalg.svd(onto_times(basis), full_matrices=False)
        on_host = to_numpy(sizes)
        if basis is None or on_host[width // 2] <= tol * on_host[0]:
            break
        width *= 2
    directions = right.T if basis is None else basis @ right.T
    return Trajectory(directions, left * sizes / weights, on_host).leading(tol)


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


def follow(
    linearization: Linearization, coordinates: Array, columns: Columns, owners: np.ndarray
) -> Array:
    """Coefficients of the corrections, in one pass of the tangents.

    Parameters
    ----------
    linearization : Linearization
        The recursion of the tangents.
    coordinates : Array of shape (N, units)
        Coordinates of the duals. Each unit has a direction and a loop of its own.
    columns : Columns
        What is injected and read.
    owners : ndarray of shape (k,)
        The unit of each column; a unit's readings are averaged.

    Returns
    -------
    Array of shape (N + 1, units)
    """
    N, units = coordinates.shape
    member = (owners[:, None] == np.arange(units)).astype(float)
    average, spread = (like(m, coordinates) for m in (member / member.sum(axis=0), member.T))
    dtype = columns.reader.dtype
    scale = 1.0 if columns.into_v is None else 1 / linearization.n_samples
    result = like(np.zeros((N + 1, units)), coordinates)
    feed = Feed(
        columns.into_eta,
        columns.into_v,
        [columns.reader],
        eta_weights=lambda t: cast(coordinates[t - 1, ...] @ spread, dtype),
        v_weights=lambda t: cast(result[t, ...] @ spread, dtype),
    )
    for t, (reading,) in responses(linearization, feed):
        result[t, ...] = scale * (cast(reading, result.dtype) @ average)
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
        self._dtype = self._linearization.design.example.dtype
        usual = _PROBES + _MORE_IF_TALL * (path.n_samples >= path.n_features)
        reduce = self._gram_pays(n_probes or usual)
        trajectory = compress(path, rng, _SPAN_TOL if reduce else RANK_TOL)
        self.trajectory = trajectory.leading(RANK_TOL)
        self._gram = self._linearization.design.gram() if reduce else None
        if self._gram is not None:
            self._linearization = Linearization(path)  # a copy of X in another precision can go
            self._span = _with_constant(path, trajectory.directions)
        self._counts = np.zeros(self.trajectory.rank, dtype=int)
        self._labels = np.zeros(0, dtype=int)
        self._drawn: list[Array] = []
        self.draw(n_probes or usual + _MORE_WITH_GRAM * reduce)

    @property
    def n_probes(self) -> int:
        """Number of probes, over all directions."""
        return len(self._labels)

    def draw(self, n_probes: int) -> None:
        """Draw more probes, until there are about ``n_probes``."""
        wanted = np.maximum(allocate(self.trajectory.sizes, n_probes), self._counts)
        labels = np.repeat(np.arange(self.trajectory.rank), wanted - self._counts)
        if not len(labels):
            return
        columns = self._columns(len(labels))
        recursion: Linearization = self._linearization
        if self._gram is not None:
            recursion = GramLinearization(self.path, self._gram, self._span, columns.into_v)
            columns = replace(columns, into_v=recursion.injection())
        # all is linear in the duals, whose units may be anything
        unit = float(np.max(self.trajectory.sizes)) or 1.0
        coordinates = take(self.trajectory.coordinates, labels, axis=1) / unit
        self._drawn.append(unit * follow(recursion, coordinates, columns, np.arange(len(labels))))
        self._labels = np.concatenate([self._labels, labels])
        self._counts = wanted

    def corrections(self) -> CompressedCorrections:
        """Return the corrections by all probes drawn so far."""
        xp = namespace(self.path.y)
        drawn = xp.concat(self._drawn, axis=1)
        means, spreads = [], []  # of each direction, over its probes
        for k in range(self.trajectory.rank):
            values = take(drawn, np.flatnonzero(self._labels == k), axis=1)
            means.append(xp.mean(values, axis=1))
            spreads.append(xp.sum((values - means[-1][:, None]) ** 2, axis=1))
        # a single probe shows no noise; what the others show is in proportion to their sizes
        sizes = self.trajectory.sizes
        squares = like((sizes / (sizes[0] or 1.0)) ** 2 + (sizes[0] == 0), drawn)
        freedom = self._counts - 1
        spread = xp.stack(spreads, axis=1)
        pooled = xp.sum(spread / squares, axis=1, keepdims=True) / int(freedom.sum())
        single = like(freedom == 0, drawn)
        own = spread / like(np.maximum(freedom, 1), drawn)
        variances = (own + single * squares * pooled) / like(self._counts, drawn)
        directions = self.trajectory.scaled(self.row_squares)
        return CompressedCorrections(directions, xp.stack(means, axis=1), variances)

    def _gram_pays(self, n_probes: int) -> bool:
        path = self.path
        n, p = path.design.shape
        saved = path.n_iter * n_probes * (2 * n - p)
        return has_gram(path) and saved > n * p

    def _columns(self, width: int) -> Columns:
        design = self._linearization.design
        n, p = design.shape
        # signs on the shorter side are less noisy, unless some rows weigh much more than others
        uneven = (
            self.row_squares is not None
            and float(namespace(self.row_squares).max(self.row_squares)) > 2
        )
        on_rows = self.moments is None and (n < p or uneven)
        signs = design.signs(self._rng, n if on_rows else p, width)
        columns = probe_columns(design, self.moments, self.row_squares, signs)
        return columns.astype(self._dtype)


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
    design: Design, moments: Array | None, row_squares: Array | None, probes: Array
) -> Columns:
    """Return the columns that estimate the traces by probes of coefficients, or of rows."""
    if moments is not None:
        return Columns(probes, None, cast(moments, probes.dtype) @ probes)
    if probes.shape[0] == design.shape[0]:
        reader = design.rmatmat(probes)
        columns = Columns(reader, probes, reader)
    else:
        into_v = design.matmat(probes)
        columns = Columns(design.rmatmat(into_v), into_v, probes)
    if row_squares is None:
        return columns
    return replace(columns, into_v=cast(row_squares, probes.dtype)[:, None] * columns.into_v)


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
    """Corrections without random probes, where `steinpath.reduction.has_spectrum`."""
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
    coefficients = follow(
        SpectralLinearization(path, found), trajectory.coordinates, columns, np.arange(width)
    )
    directions = trajectory.scaled(row_squares)
    return CompressedCorrections(directions, coefficients, 0 * coefficients)
