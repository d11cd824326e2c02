r"""Data whose risk is known: the paper's designs, signals and noise laws.

A `LinearModel` draws data and gives the exact risk of any coefficients. The error of a prediction
at a new observation is :math:`V = \varepsilon - x^\top d - k` with :math:`d = b - b^*` and a
constant :math:`k`. Its characteristic function is a product of known ones. A convex test loss is
a mixture of absolute values, :math:`\rho(v) = \rho_0 + \tfrac12 \int |v - x| \rho''(dx)`, so that
the well-known formula for :math:`E|V|` gives, after an integration by parts,

.. math:: E \rho(V) = \rho_0 + \frac{1}{\pi} \int_0^\infty \frac{-\psi'(s)}{s} \, ds, \qquad
          \psi(s) = \mathrm{Re}\,\varphi_V(s) \int \cos(s x) \, \rho''(dx).

One integral thus serves all designs, noises and losses, without cancellation anywhere.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy import integrate, linalg, special

from steinpath._arrays import to_numpy
from steinpath._validation import (
    check_array,
    check_choice,
    check_count,
    check_covariance,
    check_number,
)
from steinpath.scoring import Criterion, TestLoss, resolve_test_loss

# ------------------------------------------------------------------------------------------------
# Fourier transforms
# ------------------------------------------------------------------------------------------------


class Factor(NamedTuple):
    """A factor ``g(s)`` of ``ψ`` at some ``s > 0``, with ``-g'(s) / s``."""

    value: Any
    slope: Any

    def times(self, other: Factor) -> Factor:
        """Product of two factors, by the product rule."""
        return Factor(self.value * other.value, self.slope * other.value + self.value * other.slope)


def _shift(s: float, k: np.ndarray) -> Factor:
    """Return the factor of a constant ``k``: ``cos(s k)``."""
    return Factor(np.cos(s * k), k * np.sin(s * k) / s)


Transform = Callable[[float], Factor]


def _gaussian(spread: np.ndarray) -> Transform:
    """Return the transform of ``spread·z`` with standard normal ``z``, row by row."""
    square = np.sum(spread**2, axis=1)

    def transform(s: float) -> Factor:
        phi = np.exp(-(s**2) * square / 2)
        return Factor(phi, square * phi)

    return transform


def _uniform(spread: np.ndarray) -> Transform:
    """Return the same for independent uniform ``z`` of variance 1: products of sin x / x."""
    a = math.sqrt(3) * np.abs(spread)
    largest = a.max(axis=1)
    # Up to x = 1 a few terms of log(sin x / x) = -Σ ζ(2k) (x/π)^(2k) / k are exact. Over many
    # small entries the product is nothing by then, so that most rows never need another formula.
    order = np.arange(1, 17)
    terms = special.zeta(2 * order) * np.stack(
        [np.sum((a / math.pi) ** (2 * k), 1) for k in order], 1
    )

    def transform(s: float) -> Factor:
        s_capped = np.minimum(s, 1 / np.maximum(largest, 1e-300))[:, None]
        powers = terms * s_capped ** (2 * order)
        phi = np.exp(-np.sum(powers / order, axis=1))
        slope = phi * np.sum(2 * powers, axis=1) / s**2
        direct = s * largest > 1
        if np.any(direct):
            phi[direct], slope[direct] = _product_of_sincs(s, a[direct])
        return Factor(phi, slope)

    return transform


def _product_of_sincs(s: float, a: np.ndarray) -> Factor:
    x = np.maximum(s * a, 1e-3)  # below, two terms of each series are exact to rounding
    small = s * a < x
    sine = np.sin(x)
    phi = np.prod(np.where(small, 1 - (s * a) ** 2 / 6, sine / x), axis=1)
    # the logarithmic derivative of sin x / x is -(1/x - cot x)
    slope = np.where(small, s * a / 3 + (s * a) ** 3 / 45, 1 / x - np.cos(x) / sine)
    return Factor(phi, phi * np.sum(a * slope, axis=1) / s)


class Kernel(NamedTuple):
    """``ρ(v) = constant + tilt · v + ½ ∫ |v - x| ρ''(dx)``, and the transform of ``ρ''``."""

    transform: Transform
    constant: float = 0.0
    tilt: float = 0.0


def _huber_kernel(delta: float) -> Kernel:
    def transform(s: float) -> Factor:
        x = delta * s
        value = 2 * delta * float(np.sinc(x / math.pi))
        return Factor(value, 2 * delta**2 * float(special.spherical_jn(1, x)) / s)

    return Kernel(transform, -(delta**2) / 2)


def _pseudo_huber_kernel(delta: float) -> Kernel:
    def transform(s: float) -> Factor:
        x = delta * s
        return Factor(2 * delta * x * float(special.k1(x)), 2 * delta**3 * float(special.k0(x)))

    return Kernel(transform, -(delta**2))


def _band_kernel(eps: float) -> Kernel:
    return Kernel(lambda s: Factor(2 * math.cos(eps * s), 2 * eps * math.sin(eps * s) / s), -eps)


_KERNELS: dict[str, Callable[[float], Kernel]] = {
    "absolute": lambda _: Kernel(lambda s: Factor(2.0, 0.0)),
    "quantile": lambda q: Kernel(lambda s: Factor(1.0, 0.0), tilt=q - 0.5),
    "epsilon_insensitive": _band_kernel,
    "huber": _huber_kernel,
    "pseudo_huber": _pseudo_huber_kernel,
}


def _expectation(kernel: Kernel, law: Transform, shift: np.ndarray, scale: float) -> np.ndarray:
    """``E ρ(V - shift)`` for symmetric V with the given transform and typical size."""

    def integrand(x: float) -> Any:
        s = math.exp(x) / scale  # from far below to far above 1 / scale
        return s * law(s).times(_shift(s, shift)).times(kernel.transform(s)).slope

    total, _ = integrate.quad_vec(
        integrand, -36, 14, epsabs=1e-9 * scale, epsrel=1e-9, norm="max", limit=5000
    )
    return np.asarray(kernel.constant + total / math.pi - kernel.tilt * shift)


_DESIGNS: dict[str, Callable[[np.ndarray], Transform]] = {
    "gaussian": _gaussian,
    "uniform": _uniform,
}

# ------------------------------------------------------------------------------------------------
# Noise laws
# ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Noise:
    """A symmetric noise law.

    Parameters
    ----------
    name : str
        "normal", "laplace", "none", or "t" with the degrees of freedom appended, such as "t2".
    scale : float, default=1.0
        Factor of the standard law: standard normal, Student's t, Laplace with density
        ``exp(-|x|) / 2``.
    """

    name: str
    scale: float = 1.0

    def __post_init__(self) -> None:
        check_number("scale", self.scale, low=0)
        if self._df is None:
            check_choice("noise", self.name, ("normal", "laplace", "none", "t2"))
        elif self._df <= 1:
            raise ValueError(f"noise {self.name!r} has no mean: more than 1 degree of freedom")

    @property
    def _df(self) -> float | None:
        match = re.fullmatch(r"t(\d+(\.\d+)?)", str(self.name))
        return float(match[1]) if match else None

    def sample(self, size: int, rng: np.random.Generator) -> np.ndarray:
        """Draw ``size`` values."""
        if self._df is not None:
            return self.scale * rng.standard_t(self._df, size)
        draws: dict[str, Callable[[], np.ndarray]] = {
            "normal": lambda: rng.standard_normal(size),
            "laplace": lambda: rng.laplace(size=size),
            "none": lambda: np.zeros(size),
        }
        return self.scale * draws[self.name]()

    @property
    def variance(self) -> float:
        """Variance, which may be infinite."""
        if self._df is not None:
            unit = self._df / (self._df - 2) if self._df > 2 else math.inf
        else:
            unit = {"normal": 1.0, "laplace": 2.0, "none": 0.0}[self.name]
        return self.scale**2 * unit if self.scale else 0.0

    def transform(self, s: float) -> Factor:
        """Characteristic function, real because the law is symmetric."""
        x, square = s * self.scale, self.scale**2
        if self.name == "none" or x == 0:
            return Factor(1.0, 0.0)
        if self.name == "normal":
            phi = math.exp(-x * x / 2)
            return Factor(phi, square * phi)
        if self.name == "laplace":
            phi = 1 / (1 + x * x)
            return Factor(phi, 2 * square * phi * phi)
        # Student: φ = c x^ν K_ν(x) and φ' = -c x^ν K_{ν-1}(x), with x stretched by √df; the
        # Bessel functions come scaled by exp(x), against underflow
        assert self._df is not None
        half, x = self._df / 2, math.sqrt(self._df) * x
        if x > 700:  # e^-700 and less
            return Factor(0.0, 0.0)
        log = half * math.log(x) - x - special.gammaln(half) - (half - 1) * math.log(2)
        c = math.exp(log)
        slope = c * special.kve(half - 1, x) * self._df * square / x
        return Factor(float(c * special.kve(half, x)), float(slope))


# ------------------------------------------------------------------------------------------------
# Designs and signals
# ------------------------------------------------------------------------------------------------


def toeplitz(p: int, correlation: float = 0.5) -> np.ndarray:
    """Covariance ``correlation ** |j - k|``."""
    check_number("correlation", correlation, low=-1, high=1, open_low=True, open_high=True)
    return linalg.toeplitz(correlation ** np.arange(check_count("p", p)))


def sparse_signal(covariance: np.ndarray, strength: float = 2.0) -> np.ndarray:
    """Equal first tenth of the coefficients, zero others, with ``bᵀΣb = strength``."""
    p = len(covariance)
    coef = np.zeros(p)
    coef[: max(1, p // 10)] = 1.0
    return coef * math.sqrt(strength / (coef @ covariance @ coef))


class Data(NamedTuple):
    """A design and its responses."""

    X: np.ndarray
    y: np.ndarray


@dataclass(frozen=True, eq=False)
class LinearModel:
    """``y = intercept + x·coef + noise``, with rows ``x = mean + Σ^½ z``.

    Parameters
    ----------
    coef : array-like of shape (p,)
        The true coefficients.
    covariance : array-like of shape (p, p), optional
        Σ; the identity by default.
    noise : str or Noise, default="normal"
        Law of the noise.
    design : {"gaussian", "uniform"}, default="gaussian"
        Law of the independent entries of ``z``: standard normal, or uniform with the same mean
        and variance.
    mean : float or array-like of shape (p,), default=0.0
        Means of the features.
    intercept : float, default=0.0
        The true intercept.

    Examples
    --------
    >>> import steinpath as sp
    >>> model = sp.simulate.paper_model(p=50, noise="t2")
    >>> X, y = model.sample(100, rng=0)
    >>> X.shape, y.shape
    ((100, 50), (100,))
    >>> round(float(model.risk(model.coef, "absolute")), 6)  # E|t₂| = √2
    1.414214
    """

    coef: Any
    covariance: Any = None
    noise: str | Noise = "normal"
    design: str = "gaussian"
    mean: Any = 0.0
    intercept: float = 0.0

    def __post_init__(self) -> None:
        coef = np.asarray(check_array("coef", self.coef, ndim=1), dtype=float)
        p = len(coef)
        covariance = np.eye(p) if self.covariance is None else self.covariance
        mean = check_array("mean", np.broadcast_to(self.mean, (p,)), ndim=1)
        check_choice("design", self.design, _DESIGNS)
        check_number("intercept", self.intercept)
        noise = self.noise if isinstance(self.noise, Noise) else Noise(self.noise)
        object.__setattr__(self, "coef", coef)
        object.__setattr__(self, "covariance", check_covariance(covariance, p, coef))
        object.__setattr__(self, "mean", np.asarray(mean, dtype=float))
        object.__setattr__(self, "noise", noise)

    @cached_property
    def root(self) -> np.ndarray:
        """Symmetric square root of the covariance."""
        values, vectors = np.linalg.eigh(self.covariance)
        return np.asarray((vectors * np.sqrt(np.clip(values, 0, None))) @ vectors.T)

    def sample(self, n: int, rng: Any = None) -> Data:
        """Draw ``n`` observations.

        Parameters
        ----------
        n : int
            Number of observations.
        rng : None, int or numpy.random.Generator
            Randomness.

        Returns
        -------
        Data
            The named tuple ``(X, y)``.
        """
        n = check_count("n", n)
        rng = np.random.default_rng(rng)
        shape = (n, len(self.coef))
        if self.design == "gaussian":
            z = rng.standard_normal(shape)
        else:
            z = rng.uniform(-math.sqrt(3), math.sqrt(3), shape)
        X = self.mean + z @ self.root
        noise: Noise = self.noise  # type: ignore[assignment]
        return Data(X, self.intercept + X @ self.coef + noise.sample(n, rng))

    def risk(
        self,
        coef: Any,
        test_loss: TestLoss = "squared",
        intercept: Any = 0.0,
        *,
        centered: bool = False,
    ) -> np.ndarray:
        """Exact risk of coefficients, by a deterministic one-dimensional integral.

        Parameters
        ----------
        coef : array-like of shape (p,) or (T, p)
            One set of coefficients, or many.
        test_loss : str or Loss, default="squared"
            As in `steinpath.estimate_risk`, callables excepted.
        intercept : float or array-like of shape (T,), default=0.0
            Intercepts that go with the coefficients.
        centered : bool, default=False
            Subtract the risk of the prediction 0.

        Returns
        -------
        ndarray of shape () or (T,)
            Infinite where the test loss has no mean.
        """
        criterion = resolve_test_loss(test_loss)
        if not isinstance(criterion, Criterion):
            raise TypeError("exact risks need a named test loss or a Loss, not a callable")
        values = np.asarray(to_numpy(coef), dtype=float)
        single = values.ndim == 1
        values = np.atleast_2d(values)
        if values.shape[-1] != len(self.coef):
            raise ValueError(
                f"coef has {values.shape[-1]} entries per row, but the model has {len(self.coef)}"
            )
        shift = np.asarray(to_numpy(np.asarray(intercept)), dtype=float) - self.intercept
        shift = np.broadcast_to(shift, (len(values),)) + (values - self.coef) @ self.mean
        result = self._risk(values, shift, criterion)
        if centered:
            zero = -self.intercept - self.coef @ self.mean
            result = result - self._risk(0 * values[:1], np.array([zero]), criterion)
        return result[0] if single else result

    def _risk(self, coef: np.ndarray, shift: np.ndarray, criterion: Criterion) -> np.ndarray:
        noise: Noise = self.noise  # type: ignore[assignment]
        spread = (coef - self.coef) @ self.root  # a = Σ^½ d, one row per iterate
        square = np.sum(spread**2, axis=1)
        if criterion.name == "squared":
            return np.asarray(square + shift**2 + noise.variance)
        # no randomness left: the transforms would not decay
        certain = square + noise.scale * (noise.name != "none") == 0
        result = np.asarray(criterion(-shift, 0 * shift))
        if not np.all(certain):
            left = ~certain
            features = _DESIGNS[self.design](spread[left])
            result[left] = _expectation(
                _KERNELS[criterion.name](criterion.parameter),
                lambda s: noise.transform(s).times(features(s)),
                shift[left],
                scale=float(np.sqrt(square[left] + shift[left] ** 2 + noise.scale**2).max()),
            )
        return result


def paper_model(
    p: int = 1000, noise: str | Noise = "normal", design: str = "gaussian", **changes: Any
) -> LinearModel:
    """Return the model of the paper's experiments: Toeplitz 0.5, sparse signal of strength 2.

    Parameters
    ----------
    p : int, default=1000
        Number of features.
    noise : str or Noise, default="normal"
        The paper has "t2" with LAD and "normal" with the square root.
    design : {"gaussian", "uniform"}, default="gaussian"
        Law of the features.
    **changes
        Other parameters of `LinearModel`.
    """
    covariance = toeplitz(p)
    settings = {"coef": sparse_signal(covariance), "covariance": covariance, **changes}
    return LinearModel(noise=noise, design=design, **settings)
