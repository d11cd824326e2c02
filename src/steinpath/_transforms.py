r"""Expectations of convex functions of a random sum, from its characteristic function.

A convex function is a mixture of absolute values, :math:`\rho(v) = \rho_0 + \tfrac12 \int |v - x|
\rho''(dx)`, so that the well-known formula for :math:`E|V|` gives, after an integration by parts,

.. math:: E \rho(V) = \rho_0 + \frac{1}{\pi} \int_0^\infty \frac{-\psi'(s)}{s} \, ds, \qquad
          \psi(s) = \mathrm{Re}\,\varphi_V(s) \int \cos(s x) \, \rho''(dx).

The characteristic function of a sum is a product, and so is :math:`\psi`. Each factor comes with
its derivative in closed form: nothing cancels anywhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy import integrate, special


class Factor(NamedTuple):
    """A factor ``g(s)`` of ``ψ`` at ``s > 0``, one per row, with ``-g'(s) / s``."""

    value: np.ndarray
    slope: np.ndarray

    def times(self, other: Factor) -> Factor:
        """Product of two factors, by the product rule."""
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
    """Return the same for independent uniform ``z`` of variance 1: products of sin x / x."""
    a = math.sqrt(3) * np.abs(spread)
    largest = np.maximum(a.max(axis=1), np.finfo(float).tiny)
    # Up to x = 1 a few terms of log(sin x / x) = -Σ ζ(2k) (x/π)^(2k) / k are exact. Over many
    # small entries the product is nothing by then, so that most rows never need another formula.
    order = np.arange(1, 17)
    relative = a / largest[:, None] / math.pi
    sums = np.stack([np.sum(relative ** (2 * k), axis=1) for k in order], axis=1)
    terms = special.zeta(2 * order) * sums
    # Beyond it |sin x / x| is at most exp(-min(x², 6) / 6), so that most products are nothing, and
    # need not be formed: for x of 1, 2, 4, …, minus their logarithms are at least
    decay = np.stack(
        [np.sum(np.minimum((2**k * math.pi * relative) ** 2, 6), axis=1) / 6 for k in range(8)]
    )

    def transform(s: np.ndarray) -> Factor:
        x = s * largest
        powers = terms * np.minimum(x, 1.0)[:, None] ** (2 * order)
        phi = np.exp(-np.sum(powers / order, axis=1))
        slope = phi * np.sum(2 * powers, axis=1) / s**2
        beyond = x > 1
        phi[beyond], slope[beyond] = 0.0, 0.0
        level = np.clip(np.log2(np.maximum(x, 1.0)), 0, len(decay) - 1).astype(int)
        direct = beyond & (decay[level, np.arange(len(x))] < 60)
        if np.any(direct):
            phi[direct], slope[direct] = _product_of_sincs(s[direct, None], a[direct])
        return Factor(phi, slope)

    return transform


def _product_of_sincs(s: np.ndarray, a: np.ndarray) -> Factor:
    x = np.maximum(s * a, 1e-3)  # below, two terms of each series are exact to rounding
    small = s * a < x
    sine = np.sin(x)
    phi = np.prod(np.where(small, 1 - (s * a) ** 2 / 6, sine / x), axis=1)
    # the logarithmic derivative of sin x / x is -(1/x - cot x)
    slope = np.where(small, s * a / 3 + (s * a) ** 3 / 45, 1 / x - np.cos(x) / sine)
    return Factor(phi, phi * np.sum(a * slope, axis=1) / s[:, 0])


def student(scale: float | np.ndarray, df: float) -> Transform:
    """Return the transform of Student variables with one scale, or one for each row."""
    half, square = df / 2, np.square(scale)
    constant = special.gammaln(half) + (half - 1) * math.log(2)
    limit = square * df / (df - 2) if df > 2 else 0 * square

    def transform(s: np.ndarray) -> Factor:
        # φ = c x^ν K_ν(x) and φ' = -c x^ν K_{ν-1}(x), with x stretched by √df. In logarithms,
        # with Bessel functions scaled by exp(x): nothing over- or underflows.
        x = np.clip(math.sqrt(df) * (s * scale), 1e-300, 1e4)
        log = half * np.log(x) - x - constant
        bessel, lower = special.kve(half, x), special.kve(half - 1, x)
        near_zero = np.isinf(bessel) | np.isinf(lower)  # then the limits are exact
        phi = np.exp(log + np.log(np.where(near_zero, 1.0, bessel)))
        fall = df * square * np.exp(log + np.log(np.where(near_zero, 1.0, lower)) - np.log(x))
        return Factor(np.where(near_zero, 1.0, phi), np.where(near_zero, limit, fall))

    return transform


class Kernel(NamedTuple):
    """``ρ(v) = constant + tilt · v + ½ ∫ |v - x| ρ''(dx)``, and the transform of ``ρ''``."""

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
    """``E ρ(V - shift)`` for symmetric V with the given transform, relative to their sizes."""

    def integrand(x: float) -> Any:
        s = math.exp(x) / sizes  # from far below to far above 1 / size
        slope = law(s).times(shift_factor(s, shift)).times(kernel.transform(s)).slope
        return s * slope / sizes

    total, _, report = integrate.quad_vec(
        integrand, -36, 14, epsabs=1e-9, epsrel=1e-9, norm="max", limit=2000, full_output=True
    )
    if not report.success:
        raise ArithmeticError(
            "the integral for the exact risk did not converge: the prediction error is nearly a "
            "constant, or a sum of very few uniform variables without noise; use simulation there"
        )
    return np.asarray(kernel.constant + sizes * total / math.pi - kernel.tilt * shift)


#: Transforms of ``spread·z`` by the law of the independent entries of ``z``.
DESIGNS: dict[str, Callable[[np.ndarray], Transform]] = {
    "gaussian": gaussian,
    "uniform": uniform,
}
