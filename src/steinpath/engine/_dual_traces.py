r"""Traces of the derivatives of the duals with respect to the residuals, by random probes.

Intervals for coefficients need, at an iteration ``t``,

.. math:: \sum_s c_{t,s}\, \alpha(s), \qquad
          c_{t,s} = n^{-1/2}\, \mathrm{tr}(R\, \partial u^t / \partial v^s),

for a few curves :math:`\alpha` in time, with R the identity or another matrix. All times of a curve
are propagated together: inject :math:`\alpha(s)\,\xi/\sqrt n` into :math:`\dot v^s` and read
:math:`(R^\top\xi)^\top \dot u^t`, for random signs ξ. The part of the derivative that acts on each
row separately is computed without Monte Carlo error, because the squares of signs are 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from steinpath._support.arrays import Array, cast, like, namespace, to_numpy
from steinpath.engine._tangents import Feed, Linearization, responses


class DualTraces(NamedTuple):
    """Readings of each probe at an iteration; their means over the probes estimate the traces."""

    #: Of shape (members, m, r).
    traces: np.ndarray
    #: Inner products of the responses to the curves, of shape (members, m, r, r); their means
    #: estimate products of the Jacobians' entries.
    products: np.ndarray


def dual_traces(
    linearization: Linearization, probes: Array, readers: Array, curves: Array
) -> Iterator[DualTraces]:
    """Propagate some curves with some probes.

    Parameters
    ----------
    linearization : Linearization
        Recursion of the tangents.
    probes, readers : Array of shape (n, members, m)
        Signs ``ξ``, and ``Rᵀ ξ``.
    curves : Array of shape (n_iter, members, r)
        ``curves[s]`` is the weight of the injection into ``dv^s``.

    Yields
    ------
    DualTraces
        Readings of each iteration, from 1 on.
    """
    xp, dtype = namespace(probes), linearization.design.example.dtype
    n_iter, members, r = curves.shape
    m = probes.shape[2]
    products: list[np.ndarray] = []

    def columns(block: Array) -> Array:
        """Repeat each probe for all curves."""
        wide = cast(block, dtype)[..., None] + linearization.design.zeros(1, 1, 1, r)
        return xp.reshape(wide, (block.shape[0], members, m * r))

    def multiply(t: int, du: Array) -> None:
        block = xp.permute_dims(xp.reshape(du, (du.shape[0], members, m, r)), (1, 2, 0, 3))
        products[:] = [to_numpy(xp.matrix_transpose(block) @ block)]

    # the units are arbitrary and affect only the scale of the result
    units = xp.max(xp.abs(curves), axis=0, keepdims=True)
    units = xp.where(units > 0, units, xp.ones_like(units))
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
        yield DualTraces(traces * back, inner * back[..., None] * back[..., None, :])


def recent_curves(iterates: Array, tol: float) -> tuple[Array, Array]:
    """Approximate past iterates by the last one plus a few directions times curves in time.

    Responses decay, so iterates are weighted by recency, in logarithmic time before the last one,
    which is represented exactly.

    Parameters
    ----------
    iterates : Array of shape (T, p)
        ``b^0, …, b^{T-1}``.
    tol : float
        Singular values below this are dropped.

    Returns
    -------
    curves : Array of shape (T, r)
    directions : Array of shape (p, r)
        ``iterates ≈ iterates[-1] + curves @ directionsᵀ``.
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
