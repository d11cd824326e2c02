r"""Expectations of convex functions of a random sum, from its characteristic function.

A convex function is a mixture of absolute values, :math:`\rho(v) = \rho_0 + \tfrac12 \int |v - x|
\rho''(dx)`. The well-known formula for :math:`E|V|` then gives, after integration by parts,

.. math:: E \rho(V) = \rho_0 + \frac{1}{\pi} \int_0^\infty \frac{-\psi'(s)}{s} \, ds, \qquad
          \psi(s) = \mathrm{Re}\,\varphi_V(s) \int \cos(s x) \, \rho''(dx).

The characteristic function of a sum is a product, and so is :math:`\psi`. Each factor has a
derivative in closed form, so there is no cancellation.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy import integrate, special


class Factor(NamedTuple):
    """A factor ``g(s)`` of ``ψ`` at ``s > 0`` and ``-g'(s) / s``, one entry per row."""

    value: np.ndarray
    slope: np.ndarray

    def times(self, other: Factor) -> Factor:
        """Return the product of two factors, with the product rule."""
        return Factor(self.value * other.value, self.slope * other.value + self.value * other.slope)


def shift_factor(s: np.ndarray, k: np.ndarray) -> Factor:
    """Return the factor of a constant ``k``: ``cos(s k)``."""
    return Factor(np.cos(s * k), k * np.sin(s * k) / s)


Transform = Callable[[np.ndarray], Factor]


def gaussian(spread: np.ndarray) -> Transform:
    """Return the transform of ``spread·z`` with standard normal ``z``, row by row."""
    square = np.sum(spread**2, axis=1)

    def transform(s: np.ndarray) -> Factor:
        phi = np.exp(-(s**2) * square / 2)
        return Factor(phi, square * phi)

    return transform


def uniform(spread: np.ndarray) -> Transform:
    """Return the transform of ``spread·z`` for independent uniform ``z`` of variance 1."""
    a = -np.sort(-math.sqrt(3) * np.abs(spread), axis=1)
    largest = np.maximum(a[:, 0], np.finfo(float).tiny)
    # For x ≤ 1, a few terms of log(sin x / x) = -Σ ζ(2k) (x/π)^(2k) / k are exact: sums of powers
    # cover all entries up to 1 / s, and only larger entries need a sine each. Sums are stored for
    # entries up to 1, 1/2, 1/4, … of the largest; entries between such a level and 1 / s count as
    # larger. Integrals end at s = e^14 / (size of the sum), where x is below 2^21.
    rows, levels, order = np.arange(len(a)), np.arange(22), np.arange(1, 17)
    sums = _sums_of_powers(a / largest[:, None], len(order), len(levels))
    larger = a.shape[1] - sums[..., 0].astype(int)
    terms = special.zeta(2 * order) / math.pi ** (2 * order) * sums[..., 1:]
    # Most products are negligible beyond x = 1 and need not be computed: |sin x / x| is at most
    # exp(-x² / 6) up to x = 2, which is one level back, and exp(-u² / 6 - i / 2) for any x = 2^i u
    # with 1 ≤ u ≤ 2. The larger entries of a level have i ≥ 0, those of the level before i ≥ 1, ….
    decay = terms[..., 0] + larger / 4.0**levels / 6
    doublings = np.cumsum(larger, axis=1) - larger

    def transform(s: np.ndarray) -> Factor:
        x = s * largest
        level = np.ceil(np.log2(np.maximum(x, 1.0))).astype(int)
        powers = terms[rows, level] * np.vander(x**2, 1 + len(order), increasing=True)[:, 1:]
        phi = np.exp(-(powers @ (1 / order)))
        slope = 2 * np.sum(powers, axis=1)
        back = np.maximum(level - 1, 0)
        nothing = decay[rows, back] * x**2 + doublings[rows, back] / 2 > 60
        phi[nothing] = 0.0
        direct = np.flatnonzero((level > 0) & ~nothing)
        if len(direct):
            length = larger[direct, level[direct]]
            starts = np.cumsum(length) - length
            row, column = np.repeat(direct, length), np.arange(np.sum(length))
            x = s[row] * a[row, column - np.repeat(starts, length)]
            sine = np.sin(x)
            phi[direct] *= np.multiply.reduceat(sine / x, starts)
            # the logarithmic derivative of sin x / x is -(1/x - cot x)
            slope[direct] += np.add.reduceat(1 - x * np.cos(x) / sine, starts)
        return Factor(phi, phi * slope / s**2)

    return transform


def _sums_of_powers(a: np.ndarray, last: int, levels: int) -> np.ndarray:
    """Sum ``a**(2k)``, ``k = 0, …, last``, over entries up to 1, 1/2, 1/4, … of sorted rows."""
    exponent = np.frexp(np.maximum(a, 2.0**-levels))[1]
    cell = (np.arange(len(a))[:, None] * levels + np.maximum(-exponent, 0)).ravel()
    starts = np.flatnonzero(np.diff(cell, prepend=-1))  # cells increase, and may be empty
    sums = np.zeros((len(a) * levels, 1 + last))
    power, square = np.ones(a.size), np.square(a).ravel()
    for k in range(1 + last):
        sums[cell[starts], k] = np.add.reduceat(power, starts)
        power *= square
    return np.cumsum(sums.reshape(len(a), levels, -1)[:, ::-1], axis=1)[:, ::-1]


def student(scale: float | np.ndarray, df: float) -> Transform:
    """Return the transform of Student t variables with one scale, or one per row."""
    half, square = df / 2, np.square(scale)
    constant = special.gammaln(half) + (half - 1) * math.log(2)
    limit = square * df / (df - 2) if df > 2 else 0 * square

    def transform(s: np.ndarray) -> Factor:
        # φ = c x^ν K_ν(x) and φ' = -c x^ν K_{ν-1}(x), with x scaled by √df. Logarithms and Bessel
        # functions scaled by exp(x) avoid overflow and underflow.
        x = np.clip(math.sqrt(df) * (s * scale), 1e-300, 1e4)
        log = half * np.log(x) - x - constant
        bessel, lower = special.kve(half, x), special.kve(half - 1, x)
        near_zero = np.isinf(bessel) | np.isinf(lower)  # then the limits are exact
        phi = np.exp(log + np.log(np.where(near_zero, 1.0, bessel)))
        fall = df * square * np.exp(log + np.log(np.where(near_zero, 1.0, lower)) - np.log(x))
        return Factor(np.where(near_zero, 1.0, phi), np.where(near_zero, limit, fall))

    return transform


class Kernel(NamedTuple):
    """``ρ(v) = constant + tilt · v + ½ ∫ |v - x| ρ''(dx)`` and the transform of ``ρ''``."""

    transform: Transform
    constant: float = 0.0
    tilt: float = 0.0


def _huber_kernel(delta: float) -> Kernel:
    def transform(s: np.ndarray) -> Factor:
        x = delta * s
        value = 2 * delta * np.sinc(x / math.pi)
        return Factor(value, 2 * delta**2 * special.spherical_jn(1, x) / s)

    return Kernel(transform, -(delta**2) / 2)


def _pseudo_huber_kernel(delta: float) -> Kernel:
    def transform(s: np.ndarray) -> Factor:
        x = delta * s
        return Factor(2 * delta * x * special.k1(x), 2 * delta**3 * special.k0(x))

    return Kernel(transform, -(delta**2))


def _band_kernel(eps: float) -> Kernel:
    return Kernel(lambda s: Factor(2 * np.cos(eps * s), 2 * eps * np.sin(eps * s) / s), -eps)


KERNELS: dict[str, Callable[[float], Kernel]] = {
    "absolute": lambda _: Kernel(lambda s: Factor(2 + 0 * s, 0 * s)),
    "quantile": lambda q: Kernel(lambda s: Factor(1 + 0 * s, 0 * s), tilt=q - 0.5),
    "epsilon_insensitive": _band_kernel,
    "huber": _huber_kernel,
    "pseudo_huber": _pseudo_huber_kernel,
}


def expectation(kernel: Kernel, law: Transform, shift: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Return ``E ρ(V - shift)`` for symmetric V with the given transform and typical sizes."""

    def integrand(x: float) -> Any:
        s = math.exp(x) / sizes  # from far below to far above 1 / size
        slope = law(s).times(shift_factor(s, shift)).times(kernel.transform(s)).slope
        return s * slope / sizes

    total, _, report = integrate.quad_vec(
        integrand, -36, 14, epsabs=1e-9, epsrel=1e-9, norm="max", limit=2000, full_output=True
    )
    if not report.success:
        raise ArithmeticError(
            "the integral for the exact risk did not converge: the prediction error is nearly "
            "constant, or a sum of very few uniform variables without noise; use simulation instead"
        )
    return np.asarray(kernel.constant + sizes * total / math.pi - kernel.tilt * shift)


#: Transforms of ``spread·z`` by the distribution of the independent entries of ``z``.
DESIGNS: dict[str, Callable[[np.ndarray], Transform]] = {
    "gaussian": gaussian,
    "uniform": uniform,
}
