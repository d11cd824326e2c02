r"""Corrections compressed in time, the default method, at the cost of a few tangent columns.

Only the corrections :math:`c^t = \sum_s w_{t,s} u^s` are needed, not the weights, and the dual
trajectory :math:`F = [u^1 … u^N]` is smooth in time, hence nearly of low rank. In an orthonormal
basis :math:`h_1 … h_r` of its range, with :math:`\alpha_k(s) = h_k^\top u^s`, the impulses of a
direction at all times are propagated together, weighted by :math:`\alpha_k`: r columns replace T.

**Covariance known.** Inject :math:`\alpha_k(s)\, g/\sqrt n` into :math:`\dot\eta^s` at every
:math:`s`; then :math:`g^\top \Sigma \dot b^t` estimates :math:`h_k^\top c^t` for random signs g.

**Covariance unknown.** The weights solve :math:`K \hat W = A`, that is,

.. math:: n\, c^t = \sum_{s<t} \mathrm{tr}(\tilde P_{t,s+1} X)\, c^s
          + \sum_{s \le t} \mathrm{tr}(\tilde Q_{t,s} X^\top X)\, u^s .

The trace is cyclic, so both sums have the same reader: inject :math:`\alpha_k(s)\, X^\top X g/\sqrt
n` into :math:`\dot\eta^s` and, once it is known, :math:`c_k(s)\, X g/\sqrt n` into :math:`\dot
v^s`, **in the same column**. Then :math:`g^\top \dot b^t / n` is the estimate of :math:`c_k(t) =
h_k^\top c^t` that is injected next. If ``n < p``, :math:`X^\top\xi` and :math:`\xi` are injected
and the reader is :math:`X^\top\xi`, since probes on the shorter side have lower variance.

The Monte Carlo error of a direction is proportional to its singular value, and so is its number of
probes. Since :math:`c_k` is fed back, a single probe that overestimates the traces may grow
exponentially where all columns are nearly collinear. Such probes are bounded, and left out of the
means.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from steinpath._support.arrays import Array, along_rows, cast, clip, like, namespace, take, to_numpy
from steinpath.design._base import Design
from steinpath.engine._batch import Batch
from steinpath.engine._path import Path
from steinpath.engine._shortcuts import GramLinearization, SpectralLinearization, has_gram, spectrum
from steinpath.engine._tangents import Feed, Linearization, design_in, responses

# Directions with a singular value below this share of the largest are dropped.
RANK_TOL = 5e-2
# The same in the basis for rank-one Jacobians, whose effect on the traces is small.
SPAN_TOL = 1e-4
# Columns of the first sketch; doubled until the basis is complete.
_SKETCH = 24
# A probe diverges if it exceeds the median of its direction by this factor.
_DIVERGED = 1e3
# Initial number of probes if p > n; more otherwise, and where the Gram matrix makes them cheap.
_PROBES, _MORE_IF_TALL, _MORE_WITH_GRAM = 16, 4, 8


@dataclass(frozen=True, eq=False)
class ProbeColumns:
    """Injections and readers of the columns of a compressed feed."""

    into_eta: Array  # (p, members, k)
    into_v: Array | None  # (n, members, k); None if the covariance is known: nothing is fed back
    reader: Array  # (p, members, k)

    def astype(self, dtype: Any) -> ProbeColumns:
        """Return the columns in another precision."""
        into_v = self.into_v if self.into_v is None else cast(self.into_v, dtype)
        return ProbeColumns(cast(self.into_eta, dtype), into_v, cast(self.reader, dtype))


def follow(linearization: Linearization, coordinates: Array, columns: ProbeColumns) -> Array:
    """Return coefficients (N + 1, members, k), given coordinates (N, members, k) of the duals."""
    dtype, xp = columns.reader.dtype, namespace(columns.reader)
    # probes that diverge are kept finite, and so are their squares
    limit = min(float(xp.finfo(kind).max) for kind in (dtype, coordinates.dtype)) ** 0.4
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
        result[t, ...] = clip(scale * cast(reading, result.dtype), -limit, limit)
    # unless all probes of a path diverge, and so do its tangents
    largest = xp.max(xp.abs(result), axis=0)
    least = xp.min(xp.where(largest > 0, largest, 0 * largest + limit), axis=1)
    lost = (least > limit / 2) & xp.any(largest > 0, axis=1)
    return xp.where(lost[:, None], math.nan + result, result) if xp.any(lost) else result


def allocate(sizes: np.ndarray, n_probes: int) -> np.ndarray:
    """Distribute probes over directions in proportion to their singular values."""
    # at least one each, and two for the largest, for an estimate of the Monte Carlo error
    counts = np.ones(len(sizes), dtype=int)
    counts[0] = 2
    for _ in range(n_probes - counts.sum()):
        counts[np.argmax(sizes / counts)] += 1
    return counts


class ProbeEstimates:
    """Probes of one path: the direction of each, and its readings."""

    def __init__(self, trajectory: Trajectory, row_squares: Array | None):
        self.trajectory, self._row_squares = trajectory, row_squares
        self._labels = np.zeros(0, dtype=int)
        self._drawn: list[np.ndarray] = []
        # everything is linear in the duals, whose units are arbitrary
        self._unit = float(np.max(trajectory.sizes)) or 1.0

    @property
    def n_probes(self) -> int:
        """Number of probes over all directions."""
        return len(self._labels)

    @property
    def _counts(self) -> np.ndarray:
        return np.bincount(self._labels, minlength=self.trajectory.rank)

    def missing(self, n_probes: int) -> np.ndarray:
        """Return the directions of the additional probes needed to reach about ``n_probes``."""
        missing = np.maximum(allocate(self.trajectory.sizes, n_probes) - self._counts, 0)
        return np.repeat(np.arange(self.trajectory.rank), missing)

    def coordinates(self, labels: np.ndarray) -> Array:
        """Return coordinates of the duals in the directions of some probes: (N, probes)."""
        return take(self.trajectory.coordinates, labels, axis=1) / self._unit

    def add(self, labels: np.ndarray, coefficients: np.ndarray) -> None:
        """Store the results of `follow` for these coordinates."""
        self._labels = np.concatenate([self._labels, labels])
        self._drawn.append(self._unit * coefficients.astype(float))

    def corrections(self) -> CompressedCorrections:
        """Return the corrections estimated from all probes so far."""
        drawn, labels = np.concatenate(self._drawn, axis=1), self._labels
        largest = np.abs(drawn).max(axis=0)
        usual = [np.median(largest[labels == k]) for k in range(self.trajectory.rank)]
        most = _DIVERGED * np.array(usual)[labels]
        stable = ~(largest > most) | (most == 0)
        drawn, labels = drawn[:, stable], labels[stable]
        sizes, counts = self.trajectory.sizes, np.bincount(labels)
        of_directions = labels[:, None] == np.arange(len(counts))
        means = drawn @ of_directions / counts  # over the probes of each direction
        spread = (drawn - means[:, labels]) ** 2 @ of_directions
        # a single probe has no error estimate; use that of the others, in proportion to their sizes
        squares = (sizes / (sizes[0] or 1.0)) ** 2 + (sizes[0] == 0)
        pooled = np.sum(spread / squares, axis=1, keepdims=True) / (counts - 1).sum()
        own = spread / np.maximum(counts - 1, 1)
        variances = own + (counts == 1) * squares * pooled
        directions = self.trajectory.scaled(self._row_squares)
        arrays = (like(array, directions) for array in (means, variances, counts))
        return CompressedCorrections(directions, *arrays)


class Compression:
    """Batch prepared for compressed corrections, with the probes drawn so far.

    ``dtype`` is the precision of tangents, propagated with the Gram matrix where that is cheaper.
    """

    def __init__(
        self,
        batch: Batch,
        moments: Sequence[Array | None],
        row_squares: Sequence[Array | None],
        n_probes: int | None,
        rngs: Sequence[np.random.Generator],
        dtype: Any,
        use_gram: bool | None = None,
        span_tol: float = SPAN_TOL,
    ):
        self.batch, self._rngs = batch, rngs
        self._moments, self._row_squares = moments, row_squares
        self._linearization = Linearization(batch, design_in(batch, dtype, rngs))
        self.first = n_probes or usual_probes(batch)
        use_gram = gram_pays(batch, self.first) if use_gram is None else use_gram
        self._gram = None
        trajectories = compress(batch, rngs, span_tol if use_gram else RANK_TOL)
        if use_gram:
            self._gram = self._linearization.design.gram()
            # so that a copy of X in another precision can be freed
            self._linearization = Linearization(batch)
            self._spans = [_with_constant(batch, own.directions) for own in trajectories]
            self.first += _MORE_WITH_GRAM * (n_probes is None)
        self.estimates = [
            ProbeEstimates(trajectory.leading(RANK_TOL), squares)
            for trajectory, squares in zip(trajectories, row_squares, strict=True)
        ]
        self._on_rows = [
            known is None and rows_are_less_noisy(batch, squares)
            for known, squares in zip(moments, row_squares, strict=True)
        ]

    def draw(self, wanted: Mapping[int, int]) -> None:
        """Draw probes for some members until they have about the requested number."""
        labels = {k: self.estimates[k].missing(count) for k, count in wanted.items()}
        for on_rows in (False, True):
            members = [k for k, new in labels.items() if len(new) and self._on_rows[k] == on_rows]
            if members:
                self._draw(members, [labels[k] for k in members], on_rows)

    def _draw(self, members: Sequence[int], labels: Sequence[np.ndarray], on_rows: bool) -> None:
        linearization = self._linearization
        if len(members) < len(self.batch):
            part = self.batch.part(members)
            precise = linearization.design.example.dtype
            linearization = Linearization(part, part.data.design.astype(precise))
        design = linearization.design
        size = design.n_rows if on_rows else design.shape[1]
        both = list(zip(members, labels, strict=True))
        probes = _side_by_side([design.signs(self._rngs[k], size, len(new)) for k, new in both])
        if on_rows:
            probes = design.local(probes)
        coordinates = _side_by_side([self.estimates[k].coordinates(new) for k, new in both])
        columns = self._columns(design, members, probes, on_rows)
        if self._gram is not None:
            columns = columns.astype(self._gram.dtype)
            spans = _side_by_side([self._spans[k] for k in members])
            part = linearization.batch
            linearization = GramLinearization(part, self._gram, spans, columns.into_v)
            columns = replace(columns, into_v=linearization.injection())
            linearization.prepare()
            # these coordinates are the same in all processes
            run = partial(follow, linearization, coordinates, columns)
            coefficients = to_numpy(part.data.design.once(run))
        else:
            coefficients = to_numpy(follow(linearization, coordinates, columns))
        for place, (k, new) in enumerate(both):
            self.estimates[k].add(new, coefficients[:, place, : len(new)])

    def _columns(
        self, design: Design, members: Sequence[int], probes: Array, on_rows: bool
    ) -> ProbeColumns:
        xp, known = namespace(probes), [self._moments[k] for k in members]
        if known[0] is not None and any(moments is not known[0] for moments in known):
            own = [cast(m, probes.dtype) @ probes[:, k, :] for k, m in enumerate(known)]
            return ProbeColumns(probes, None, xp.stack(own, axis=1))
        squares = [self._row_squares[k] for k in members]
        scales = None
        if any(own is not None for own in squares):
            one = xp.ones_like(self.batch.data.response[:, 0])  # constant columns have no row norms
            scales = xp.stack([one if own is None else own for own in squares], axis=1)
        return probe_columns(design, known[0], scales, probes, on_rows)


def _side_by_side(blocks: Sequence[Array]) -> Array:
    """Stack blocks of members as (size, members, width), padding narrower ones with zeros."""
    xp, width = namespace(blocks[0]), max(block.shape[1] for block in blocks)

    def padded(block: Array) -> Array:
        missing = like(np.zeros((1, width - block.shape[1])), block)
        return xp.concat([block, xp.zeros_like(block[:, :1]) + missing], axis=1)

    return xp.stack([padded(x) if x.shape[1] < width else x for x in blocks], axis=1)


def gram_pays(batch: Batch, n_probes: int) -> bool:
    """Whether products with the Gram matrix are cheaper than products with X."""
    n, p = batch.n_samples, batch.data.design.shape[1]
    saved = batch.n_iter * n_probes * (2 * n - p)
    return has_gram(batch) and saved > n * p


def usual_probes(batch: Batch) -> int:
    """Return the initial number of probes."""
    return _PROBES + _MORE_IF_TALL * (batch.n_samples >= batch.n_features)


def rows_are_less_noisy(batch: Batch, row_squares: Array | None) -> bool:
    """Whether probes on the rows, the shorter side or of varying norms, have lower variance."""
    design = batch.data.design
    if batch.n_samples < design.shape[1] or row_squares is None:
        return batch.n_samples < design.shape[1]
    return bool(design.largest(float(namespace(row_squares).max(row_squares))) > 2)


@dataclass(frozen=True, eq=False)
class CompressedCorrections:
    """Corrections in a low-rank basis."""

    directions: Array  # (n, r): times the squared row scales
    coefficients: Array  # (N + 1, r): means over the probes of each direction
    variances: Array  # (N + 1, r): of a single probe; directions are independent
    counts: Array  # (r,): number of probes

    def shift(self, t: slice) -> Array:
        """Return the corrections of some iterates, of shape (iterates, n)."""
        return self.coefficients[t, :] @ self.directions.T

    def part(self, rows: np.ndarray) -> CompressedCorrections:
        """Return the corrections of some rows."""
        return replace(self, directions=take(self.directions, rows))

    def noise(self, t: slice) -> Array:
        """Return the Monte Carlo standard errors of these corrections."""
        variances = self.variances[t, :] / self.counts
        return namespace(variances).sqrt(variances @ (self.directions**2).T)


def probe_columns(
    design: Design, moments: Array | None, row_squares: Array | None, probes: Array, on_rows: bool
) -> ProbeColumns:
    """Return the columns that estimate the traces with probes of coefficients or of rows."""
    design = design.unweighted
    if moments is not None:
        weighed = namespace(probes).tensordot(cast(moments, probes.dtype), probes, axes=1)
        return ProbeColumns(probes, None, weighed)
    if on_rows:
        reader = design.adjoint(probes)
        columns = ProbeColumns(reader, probes, reader)
    else:
        into_v = design.forward(probes)
        columns = ProbeColumns(design.adjoint(into_v), into_v, probes)
    if row_squares is None:
        return columns
    weights = along_rows(cast(row_squares, probes.dtype), columns.into_v)
    return replace(columns, into_v=weights * columns.into_v)


def _with_constant(batch: Batch, directions: Array) -> Array:
    """Return a basis of the duals, given one of the centred duals."""
    if not batch.data.fit_intercept:
        return directions
    xp = namespace(directions)
    constant = xp.ones_like(directions[:, :1]) / math.sqrt(batch.n_samples)
    return xp.concat([directions, constant], axis=1)


def spectral_corrections(
    path: Path,
    moments: Array | None,
    row_squares: Array | None,
    rng: np.random.Generator,
    span_tol: float = SPAN_TOL,
) -> CompressedCorrections:
    """Return corrections without random probes; see `steinpath.engine._shortcuts.has_spectrum`."""
    singular = spectrum(path, moments, row_squares)
    (trajectory,) = compress(Batch.of(path), [rng], span_tol)
    ones = namespace(singular.values).ones_like(singular.values)
    if singular.moments is not None:
        feeds = [ones, None, singular.moments]
    else:
        weights = ones if singular.row_squares is None else singular.row_squares
        feeds = [singular.values**2, singular.values * weights, ones]
    none = path.design.zeros(1, 1, trajectory.rank)
    columns = ProbeColumns(*(f if f is None else f[:, None, None] + none for f in feeds))
    coordinates = trajectory.coordinates[:, None, :]
    coefficients = follow(SpectralLinearization(path, singular), coordinates, columns)[:, 0, :]
    directions = trajectory.scaled(row_squares)
    known = 0 * coefficients
    return CompressedCorrections(directions, coefficients, known, known[0, :] + 1)


# ------------------------------------------------------------------------------------------------
# The basis of the dual trajectory, by a randomised range finder
# ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Trajectory:
    """Dual trajectory in a low-rank basis."""

    directions: Array  # (n, r): orthonormal columns
    coordinates: Array  # (n_iter, r): coordinates[s - 1] belongs to u^s
    sizes: np.ndarray  # (r,): singular values of the trajectory in logarithmic time

    @property
    def rank(self) -> int:
        """Number of directions."""
        return len(self.sizes)

    def leading(self, tol: float) -> Trajectory:
        """Return the directions with singular values above ``tol`` times the largest."""
        rank = max(1, int(np.sum(self.sizes > tol * self.sizes[0])))
        return Trajectory(self.directions[:, :rank], self.coordinates[:, :rank], self.sizes[:rank])

    def scaled(self, row_squares: Array | None) -> Array:
        """Return the directions of the corrections: those of the duals times squared row scales."""
        return self.directions if row_squares is None else row_squares[:, None] * self.directions


def compress(
    batch: Batch, rngs: Sequence[np.random.Generator], tol: float = RANK_TOL
) -> list[Trajectory]:
    """Compute a basis of the (centred) duals of each member by a randomised range finder.

    Each ``u^s`` has the weight ``1/s``, as in an integral over logarithmic time. Otherwise the few
    early iterates, at which the risk has its minimum and the duals change most, would count too
    little. Singular values below ``tol`` times the largest are dropped; 0 keeps a full basis.
    """
    duals, means = batch.duals_and_means()
    trajectories: dict[int, Trajectory] = {}
    width = _SKETCH
    while left := [k for k in range(len(rngs)) if k not in trajectories]:
        parts = (duals, means)
        if len(left) < len(rngs):
            parts = tuple(take(part, np.asarray(left)) for part in parts)
        sketched = _Sketched(*parts, batch)
        if tol == 0 or 2 * width >= min(batch.n_iter, batch.n_samples):
            whole, bases = True, sketched.decompose()
        else:
            whole = width >= batch.n_iter
            draws = np.stack([rngs[k].standard_normal((batch.n_iter, width)) for k in left])
            bases = sketched.approximate(like(draws, duals))
        for place, k in enumerate(left):
            directions, coordinates, sizes = (array[place, ...] for array in bases)
            if whole or sizes[width // 2] <= tol * sizes[0]:
                trajectories[k] = Trajectory(directions, coordinates, sizes).leading(tol)
        width *= 2
    return [trajectories[k] for k in range(len(rngs))]


class _Sketched:
    """Weighted, centred duals of shape (members, N, n), without a copy."""

    def __init__(self, duals: Array, means: Array, batch: Batch):
        self._xp = namespace(duals)
        self._design, self._duals = batch.data.design, duals
        self._weights = like(1 / np.sqrt(np.arange(1, batch.n_iter + 1)), duals)[:, None]
        self._means = means

    def onto_times(self, block: Array) -> Array:
        sums = self._design.over_rows(self._xp.sum(block, axis=1, keepdims=True))
        product = self._design.over_rows(self._duals @ block)
        return self._weights * (product - self._means * sums)

    def onto_rows(self, block: Array) -> Array:
        xp, block = self._xp, self._weights * block
        shift = xp.sum(self._means * block, axis=1, keepdims=True)
        return xp.matrix_transpose(self._duals) @ block - shift

    def approximate(self, sketch: Array) -> tuple[Array, Array, np.ndarray]:
        """Return directions, coordinates and singular values of the range found by a sketch."""
        basis = self._orthonormal(self.onto_rows(sketch))
        basis = self._orthonormal(self.onto_rows(self.onto_times(basis)))
        coordinates = self.onto_times(basis)
        # singular vectors of few columns from their Gram matrix, on the host, where small matrices
        # are decomposed fastest
        squares, vectors = np.linalg.eigh(_gram(to_numpy(coordinates).astype(float)))
        turn = like(vectors[..., ::-1].copy(), basis)
        sizes = np.sqrt(np.maximum(squares[..., ::-1], 0.0))
        return basis @ turn, coordinates @ turn / self._weights, sizes

    def decompose(self) -> tuple[Array, Array, np.ndarray]:
        """Return the same for the full range."""
        xp, weighted = self._xp, self._weights * (self._duals - self._means)
        if self._design.is_whole:
            left, sizes, right = xp.linalg.svd(weighted, full_matrices=False)
            coordinates = left * sizes[:, None, :] / self._weights
            return xp.matrix_transpose(right), coordinates, to_numpy(sizes)
        # from inner products of the duals, since no process holds all rows
        weighted = cast(weighted, xp.float64)
        products = self._design.over_rows(weighted @ xp.matrix_transpose(weighted))
        squares, left = np.linalg.eigh(to_numpy(products))
        rank = min(left.shape[-1], self._design.n_rows)
        left = left[..., ::-1][..., :rank].copy()
        sizes = np.sqrt(np.maximum(squares[..., ::-1][..., :rank], 0.0))
        # squares resolve no smaller ones
        shown = np.where(sizes > 1e-7 * sizes[..., :1], sizes, np.inf)
        right = xp.matrix_transpose(weighted) @ like(left / shown[..., None, :], weighted)
        coordinates = like(left * sizes[..., None, :], self._duals) / self._weights
        return cast(right, self._duals.dtype), coordinates, sizes

    def _orthonormal(self, block: Array) -> Array:
        """Return an orthonormal basis of columns, with zeros for dependent columns."""
        xp = self._xp
        for _ in range(2):  # the second pass removes rounding errors of the first
            gram = self._design.over_rows(_gram(cast(block, xp.float64)))
            squares, vectors = np.linalg.eigh(to_numpy(gram))
            least = float(xp.finfo(block.dtype).eps) * block.shape[2] * squares[..., -1:]
            factors = 1 / np.sqrt(np.where(squares > least, squares, np.inf))
            block = block @ like(vectors * factors[..., None, :], block)
        return block


def _gram(block: Array) -> Array:
    return namespace(block).matrix_transpose(block) @ block
