r"""The correction matrices W, K, A of the paper, exact or by Hutchinson's method.

Row ``t`` belongs to the iterate ``b^t``, column ``s - 1`` to the dual ``u^s``. With
:math:`\tilde Q_{t,s}` and :math:`\tilde P_{t,s}` the responses of :math:`b^t` to impulses
:math:`n^{-1/2}` in :math:`\eta^s` and in :math:`v^{s-1}`,

.. math:: W_{t,s} = \mathrm{tr}(\Sigma \tilde Q_{t,s}), \quad
          A_{t,s} = -n^{-1/2} \mathrm{tr}(X^\top X \tilde Q_{t,s}), \quad
          K_{t,s} = n^{-1/2} \mathrm{tr}(X \tilde P_{t,s}), \quad K_{t,t} = -\sqrt n.

A trace is a sum over probes, :math:`\mathrm{tr}(M) = \sum_k \mathrm{reader}_k^\top M\,
\mathrm{probe}_k`. Over basis vectors it is exact; over random signs it is Hutchinson's estimate.
Both use the same pass of the tangents.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from steinpath._support.arrays import (
    Array,
    cast,
    largest_along,
    like,
    namespace,
    take,
    to_numpy,
    units_of,
)
from steinpath._support.validation import (
    check_array,
    check_choice,
    check_count,
    check_covariance,
    check_instance,
    check_rng,
)
from steinpath.design._base import Design
from steinpath.design._transformed import InterceptDesign
from steinpath.engine._batch import Batch
from steinpath.engine._path import Path
from steinpath.engine._tangents import Coordinates, Feed, Linearization, moved, responses

#: Tangent columns that advance together: wide enough for fast products, small enough for caches.
WIDTH = 256

METHODS = ("exact", "hutchinson")


@dataclass(frozen=True, eq=False)
class CorrectionMatrices:
    """Matrices (probes, T, T), whose means over the first axis are the estimates."""

    W: Array | None  # None without a covariance
    K: Array | None  # None if it is not needed
    A: Array
    row_squares: Array | None  # ρ², one per observation

    def weights(self, skip: int | None = None) -> Array:
        """Return W if known, else the solution of ``K Ŵ = A``; without one probe, if given."""
        if self.W is not None:
            return _mean_without(self.W, skip)
        K, A = to_numpy(_mean_without(self.K, skip)), to_numpy(_mean_without(self.A, skip))
        # on the host, since the system is small
        return like(solve_triangular(K, A, lower=True), self.A)

    def corrected(self, path: Path, skip: int | None = None) -> Array:
        """Return the corrected ``X b^t - ρ² Σ_s w[t, s-1] u^s``, of shape (T, n)."""
        duals, means = (part[0, ...] for part in Batch.of(path).duals_and_means())
        shift = self.weights(skip)[:, : path.n_iter] @ (duals - means)
        if self.row_squares is not None:
            shift = shift * self.row_squares
        return path.products - shift


def correction_matrices(
    path: Path,
    covariance: Any = None,
    method: str = "exact",
    n_probes: int = 5,
    row_scale: Any = None,
    rng: Any = None,
) -> tuple[Array | None, Array, Array]:
    """Compute the triangular matrices of the two corrections in the paper.

    Parameters
    ----------
    path : Path
        Path returned by `run`.
    covariance : array-like of shape (p, p), optional
        Covariance of the rows of X, if known.
    method : {"exact", "hutchinson"}, default="exact"
        "exact" computes traces with basis vectors, which takes ``min(n, p) + p`` tangent columns
        for each of the ``n_iter`` impulse times. "hutchinson" estimates them with ``2 n_probes``
        columns of random signs.
    n_probes : int, default=5
        Number of random probes of Hutchinson's method.
    row_scale : None, "norm" or array-like of shape (n,)
        Row scales, if row norms vary; "norm" uses the norms of the (centred) rows. K is then the
        trace weighted by the squared scales, normalised to mean 1.
    rng : None, int or numpy.random.Generator
        Seed or generator of the probes.

    Returns
    -------
    W, K, A : Array of shape (n_iter + 1, n_iter + 1)
        W is None without a covariance. W and A are strictly lower triangular; K is lower
        triangular with diagonal ``-√n``.

    Examples
    --------
    >>> import numpy as np
    >>> import steinpath as sp
    >>> X = np.random.default_rng(0).standard_normal((30, 5))
    >>> path = sp.run(X, X[:, 0], sp.LAD(), sp.Ridge(0.5), n_iter=4)
    >>> W, K, A = sp.correction_matrices(path, covariance=np.eye(5))
    >>> W.shape, bool(np.allclose(np.diag(K), -np.sqrt(30)))
    ((5, 5), True)
    """
    check_instance("path", path, Path, "sp.run(X, y, loss, penalty)")
    check_choice("method", method, METHODS)
    n_probes = check_count("n_probes", n_probes)
    moments = None if covariance is None else second_moments(path, covariance)
    rho_squared = row_squares_of(path, row_scale)
    rng = check_rng(rng)
    matrices = compute_matrices(path, moments, method, n_probes, rho_squared, rng, always_K=True)
    W = None if matrices.W is None else _mean_without(matrices.W)
    return W, _mean_without(matrices.K), _mean_without(matrices.A)


def compute_matrices(
    path: Path,
    moments: Array | None,
    method: str,
    n_probes: int,
    rho_squared: Array | None,
    rng: np.random.Generator,
    always_K: bool = False,
    width: int = WIDTH,
    linearization: Linearization | None = None,
) -> CorrectionMatrices:
    """Return the matrices with one layer per random probe; see `correction_matrices`."""
    exact = method == "exact"
    into_eta, into_v = _streams(path, moments, rho_squared, exact, n_probes, rng)
    if linearization is None:
        linearization = Linearization(Batch.of(path), keep=True)
    root_n, K = math.sqrt(path.n_samples), None
    *W, A = _responses(linearization, into_eta, exact, width)
    if moments is None or always_K:  # with known moments the corrections do not need it
        (K,) = _responses(linearization, into_v, exact, width)
        K = K / root_n - root_n * path.design.array(np.eye(path.n_iter + 1))
    return CorrectionMatrices(W[0] if W else None, K, A / -root_n, rho_squared)


class _Stream(NamedTuple):
    """Probes, injected column by column, and the readers of their responses."""

    probes: Array  # (p, m) into eta, or (n, m) into v
    readers: list[Array]  # each (p, m)
    into_v: bool = False


def _streams(
    path: Path,
    covariance: Array | None,
    rho_squared: Array | None,
    exact: bool,
    n_probes: int,
    rng: np.random.Generator,
) -> tuple[_Stream, _Stream]:
    """Return probes of eta, read for W (if the covariance is known) and A, and of v, for K."""
    design, (n, p) = path.design.unweighted, path.design.shape

    def weighted(block: Array) -> Array:
        return block if rho_squared is None else rho_squared[:, None] * block

    g = design.array(np.eye(p)) if exact else design.signs(rng, p, n_probes)
    columns = design.forward(g)
    read_eta = [design.adjoint(columns)]
    if covariance is not None:
        read_eta.insert(0, covariance if exact else covariance @ g)
    if not exact:
        xi = design.signs(rng, n, n_probes)
        into_v = _Stream(xi, [design.adjoint(weighted(xi))], into_v=True)
    # tr(X P) = tr(P X): over the p columns of X, or over n basis vectors if n < p
    elif p <= n:
        into_v = _Stream(weighted(columns), [g], into_v=True)
    else:
        into_v = _Stream(design.array(np.eye(n)), [weighted(columns).T], into_v=True)
    return _Stream(g, read_eta), into_v


def second_moments(path: Path, covariance: Any) -> Array:
    """Return the second moments of a row of the recursion's design, including the intercept."""
    # including the constant column corrects the optimism of the fitted intercept, of order 1 / n
    covariance = check_covariance(covariance, path.n_features, path.design.example)
    if not isinstance(path.design, InterceptDesign):
        return covariance
    p = path.n_features
    moments = path.design.zeros(p + 1, p + 1)
    moments[:p, :p] = covariance
    moments[p, p] = path.design.intercept_scale**2
    return moments


def _responses(
    linearization: Linearization, stream: _Stream, sum_layers: bool, width: int
) -> list[Array]:
    """Return the responses to impulses at every time, one array per reader of a stream.

    Its entries are ``R[k, t, s - 1] = reader[:, k]ᵀ db^t`` after an impulse ``probes[:, k] / √n``
    into ``deta^s`` or ``dv^{s-1}``, or the sum over ``k`` as a single layer. Impulse times advance
    together as columns of one block.
    """
    N, m = linearization.n_iter, stream.probes.shape[1]
    zeros = linearization.batch.data.design.zeros
    results = [zeros(1 if sum_layers else m, N + 1, N + 1) for _ in stream.readers]
    few = min(m, width)
    times = width // few
    for k in range(0, m, few):
        some = slice(k, min(k + few, m))
        readers = [reader[:, some] for reader in stream.readers]
        part = stream._replace(probes=stream.probes[:, some], readers=readers)
        for first in range(1, N + 1, times):
            last = min(first + times, N + 1)
            readings = _impulse_readings(linearization, part, first, last)
            for result, reading in zip(results, readings, strict=True):
                if sum_layers:
                    total = namespace(reading).sum(reading, axis=0, keepdims=True)
                    result[:, :, first - 1 : last - 1] += total
                else:
                    result[some, :, first - 1 : last - 1] = reading
    return results


def _impulse_readings(
    linearization: Linearization, stream: _Stream, first: int, last: int
) -> list[Array]:
    """Return readings of shape (m, T, last - first) for impulses at first, …, last - 1."""
    design, T = linearization.design, linearization.n_iter + 1
    xp, m, times = namespace(design.example), stream.probes.shape[1], last - first

    def repeated(block: Array) -> Array:
        return xp.concat([block] * times, axis=1)[:, None, :]

    def impulse(time: int) -> Array | None:
        if not first <= time < last:
            return None
        return design.array(np.repeat(np.arange(times) == time - first, m).astype(float))[None, :]

    probes = repeated(stream.probes)
    feed = Feed(
        into_eta=None if stream.into_v else probes,
        into_v=probes if stream.into_v else None,
        readers=[repeated(reader) for reader in stream.readers],
        eta_weights=impulse,
        v_weights=lambda t: impulse(t + 1),
    )
    results = [design.zeros(T, times * m) for _ in feed.readers]
    for t, readings in responses(linearization, feed, start=first):
        for result, reading in zip(results, readings, strict=True):
            result[t, :] = reading[0, :]
    return [xp.permute_dims(xp.reshape(x, (T, times, m)), (2, 0, 1)) for x in results]


def row_squares_of(path: Path, row_scale: Any) -> Array | None:
    """Return the squared row scales, normalised to mean 1."""
    if row_scale is None:
        return None
    xp = namespace(path.y)
    if isinstance(row_scale, str):
        if row_scale != "norm":
            given = f"{row_scale!r:.60}"
            raise ValueError(f"row_scale must be None, 'norm', 'auto' or an array; got {given}")
        squares = path.design.row_squares()
        if not path.design.over_rows(xp.sum(squares)) > 0:  # constant columns: nothing to correct
            return None
    else:
        sizes = check_array("row_scale", row_scale, ndim=1, reference=path.response)
        if sizes.shape[0] != path.n_samples or xp.any(sizes < 0):
            raise ValueError(
                f"row_scale must have one nonnegative entry for each of the {path.n_samples} rows"
            )
        largest = float(xp.max(sizes))
        if not largest:
            raise ValueError("row_scale must not be zero for all rows")
        squares = (path.design.local(sizes) / largest) ** 2
    return squares / (path.design.over_rows(xp.sum(squares)) / path.n_samples)


def _mean_without(layers: Array, skip: int | None = None) -> Array:
    total, count = namespace(layers).sum(layers, axis=0), layers.shape[0]
    return total / count if skip is None else (total - layers[skip, ...]) / (count - 1)


# ------------------------------------------------------------------------------------------------
# Derivatives of the duals
# ------------------------------------------------------------------------------------------------


class DualTraces(NamedTuple):
    """Readings of each probe at an iteration; their means over the probes are the estimates."""

    traces: np.ndarray  # (members, m, r)
    #: Inner products of the responses to the curves, of shape (members, m, r, r); their means
    #: estimate products of the Jacobians' entries.
    products: np.ndarray
    #: Inner products of the responses and the columns of X, of shape (members, p, m, r), if wanted.
    images: np.ndarray | None = None


def dual_traces(
    linearization: Linearization,
    probes: Array,
    readers: Array,
    curves: Array,
    sizes: Array | None = None,
    images: tuple[Sequence[int], Sequence[Design]] = ((), ()),
) -> Iterator[DualTraces]:
    r"""Yield traces of the derivatives of the duals with respect to the residuals, from t = 1 on.

    Intervals for coefficients need, at an iteration ``t``,

    .. math:: \sum_s c_{t,s}\, \alpha(s), \qquad
              c_{t,s} = n^{-1/2}\, \mathrm{tr}(R\, \partial u^t / \partial v^s),

    for a few curves :math:`\alpha` in time, of shape (n_iter, members, r), with R the identity or
    another matrix. All times of a curve are propagated together: inject :math:`\alpha(s)\,\xi/\sqrt
    n` into :math:`\dot v^s` and read :math:`(R^\top\xi)^\top \dot u^t`, for random signs ξ (the
    probes) and :math:`R^\top\xi` (the readers), of shape (n, members, m). The part of the
    derivative that acts on each row separately has no Monte Carlo error, since squares of signs
    are 1. ``sizes`` (n, members) multiply the responses in `DualTraces.products`; ``images`` are
    the iterations of `DualTraces.images`, and the design of each member.
    """
    xp, dtype = namespace(probes), linearization.design.example.dtype
    n_iter, members, r = curves.shape
    m = probes.shape[2]
    products: list[np.ndarray] = []
    latest: list[np.ndarray | None] = []

    def columns(block: Array) -> Array:
        """Repeat each probe for all curves."""
        wide = cast(block, dtype)[..., None] + linearization.design.zeros(1, 1, 1, r)
        return xp.reshape(wide, (block.shape[0], members, m * r))

    copies = linearization.batch.data.design.rows.weights

    def multiply(t: int, du: Array, rows: Coordinates) -> None:
        if copies is not None:
            own = cast(copies if rows is None else take(copies, rows), dtype)
            du = du * own[:, None, None]
        latest[:] = [_images(du, rows, images[1], r)] if t in images[0] else [None]
        if sizes is not None:
            du = du * cast(sizes if rows is None else take(sizes, rows), dtype)[:, :, None]
        block = xp.permute_dims(xp.reshape(du, (du.shape[0], members, m, r)), (1, 2, 0, 3))
        products[:] = [to_numpy(xp.matrix_transpose(block) @ block)]

    # the units are arbitrary and affect only the scale of the result
    units = units_of(largest_along(curves, 0))
    weights = cast(curves / units, dtype)[:, :, None, :] + linearization.design.zeros(1, 1, m, 1)
    weights = xp.reshape(weights, (n_iter, members, m * r))
    feed = Feed(
        into_eta=None,
        into_v=columns(probes),
        readers=(),
        eta_weights=lambda t: None,
        v_weights=lambda t: weights[t, ...] if t < n_iter else None,
        dual_readers=(columns(readers),),
        watch=multiply,
    )
    back = to_numpy(units).astype(float)[0, :, None, :]
    over_rows = linearization.batch.data.design.over_rows
    for _, (reading,) in responses(linearization, feed):
        traces = to_numpy(reading).astype(float).reshape(members, m, 1, r)
        # both are sums over all rows, computed together
        both = over_rows(np.concatenate([traces, products[0].astype(float)], axis=2))
        traces, inner = both[:, :, 0, :], both[:, :, 1:, :]
        inner = inner * back[..., None] * back[..., None, :]
        of_columns = None if latest[0] is None else latest[0] * back[:, None]
        yield DualTraces(traces * back, inner, of_columns)


def _images(du: Array, rows: Coordinates, designs: Sequence[Design], r: int) -> np.ndarray:
    """Multiply a block (n, members, m * r), of some rows, by the transposed design of each."""
    found = []
    for k, design in enumerate(designs):
        block = moved(cast(du[:, k, :], design.example.dtype), rows, None, design.shape[0])
        found.append(to_numpy(design.adjoint(block)).astype(float))
    return np.stack(found).reshape(len(designs), designs[0].shape[1], -1, r)


def recent_curves(iterates: Array, tol: float) -> tuple[Array, Array]:
    """Approximate iterates (T, p) by the last one plus ``curves @ directions.T``, of rank r.

    They are weighted by recency, since responses decay, in logarithmic time before the last one.
    """
    xp = namespace(iterates)
    differences = iterates - iterates[-1:, :]
    weights = like(1 / np.sqrt(np.arange(iterates.shape[0], 0, -1)), iterates)[:, None]
    # from inner products of the iterates, which are few
    weighted = cast(weights * differences, xp.float64)
    squares, vectors = np.linalg.eigh(to_numpy(weighted @ weighted.T))
    kept = np.flatnonzero(squares > max(tol, 0.0) ** 2)[::-1]
    kept = kept[squares[kept] > 1e-12 * squares[-1]]
    left = like(vectors[:, kept] / np.sqrt(squares[kept]), weighted)
    directions = cast(weighted.T @ left, iterates.dtype)
    return differences @ directions, directions
