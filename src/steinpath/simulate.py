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
    check_rng,
)
from steinpath.scoring import Criterion, TestLoss, resolve_test_loss

# ------------------------------------------------------------------------------------------------
# Fourier transforms
# ------------------------------------------------------------------------------------------------


class Factor(NamedTuple):
    """A factor ``g(s)`` of ``ψ`` at ``s > 0``, one per row, with ``-g'(s) / s``."""

    value: np.ndarray
    slope: np.ndarray

    def times(self, other: Factor) -> Factor:
        """Product of two factors, by the product rule."""
        return Factor(self.value * other.value, self.slope * other.value + self.value * other.slope)


def _shift(s: np.ndarray, k: np.ndarray) -> Factor:
    """Return the factor of a constant ``k``: ``cos(s k)``."""
    return Factor(np.cos(s * k), k * np.sin(s * k) / s)


Transform = Callable[[np.ndarray], Factor]


def _gaussian(spread: np.ndarray) -> Transform:
    """Return the transform of ``spread·z`` with standard normal ``z``, row by row."""
    square = np.sum(spread**2, axis=1)

    def transform(s: np.ndarray) -> Factor:
        phi = np.exp(-(s**2) * square / 2)
        return Factor(phi, square * phi)

    return transform


def _uniform(spread: np.ndarray) -> Transform:
    """Return the same for independent uniform ``z`` of variance 1: products of sin x / x."""
    a = math.sqrt(3) * np.abs(spread)
    largest = np.maximum(a.max(axis=1), np.finfo(float).tiny)
    # Up to x = 1 a few terms of log(sin x / x) = -Σ ζ(2k) (x/π)^(2k) / k are exact. Over many
    # small entries the product is nothing by then, so that most rows never need another formula.
    order = np.arange(1, 17)
    relative = a / largest[:, None] / math.pi
    sums = np.stack([np.sum(relative ** (2 * k), axis=1) for k in order], axis=1)
    terms = special.zeta(2 * order) * sums

    def transform(s: np.ndarray) -> Factor:
        x = s * largest
        powers = terms * np.minimum(x, 1.0)[:, None] ** (2 * order)
        phi = np.exp(-np.sum(powers / order, axis=1))
        slope = phi * np.sum(2 * powers, axis=1) / s**2
        direct = x > 1
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


_KERNELS: dict[str, Callable[[float], Kernel]] = {
    "absolute": lambda _: Kernel(lambda s: Factor(2 + 0 * s, 0 * s)),
    "quantile": lambda q: Kernel(lambda s: Factor(1 + 0 * s, 0 * s), tilt=q - 0.5),
    "epsilon_insensitive": _band_kernel,
    "huber": _huber_kernel,
    "pseudo_huber": _pseudo_huber_kernel,
}


def _expectation(
    kernel: Kernel, law: Transform, shift: np.ndarray, sizes: np.ndarray
) -> np.ndarray:
    """``E ρ(V - shift)`` for symmetric V with the given transform, relative to their sizes."""

    def integrand(x: float) -> Any:
        s = math.exp(x) / sizes  # from far below to far above 1 / size
        slope = law(s).times(_shift(s, shift)).times(kernel.transform(s)).slope
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
            known = ("normal", "laplace", "none", "t<degrees of freedom>, such as t2")
            if self.name not in known[:3]:
                raise ValueError(f"noise must be one of {', '.join(known)}; got {self.name!r}")
        elif not 1 < self._df <= 30:
            raise ValueError(
                f"noise {self.name!r}: degrees of freedom must be above 1, for the mean to exist, "
                "and at most 30, beyond which 'normal' is as good"
            )

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

    def transform(self, s: np.ndarray) -> Factor:
        """Characteristic function, real because the law is symmetric."""
        x, square = s * self.scale, self.scale**2
        if self.name == "none":
            return Factor(1 + 0 * x, 0 * x)
        if self.name == "normal":
            phi = np.exp(-x * x / 2)
            return Factor(phi, square * phi)
        if self.name == "laplace":
            phi = 1 / (1 + x * x)
            return Factor(phi, 2 * square * phi * phi)
        # Student: φ = c x^ν K_ν(x) and φ' = -c x^ν K_{ν-1}(x), with x stretched by √df. In
        # logarithms, with Bessel functions scaled by exp(x): nothing over- or underflows.
        df = self._df
        assert df is not None
        half, x = df / 2, np.clip(math.sqrt(df) * x, 1e-300, 1e4)
        log = half * np.log(x) - x - special.gammaln(half) - (half - 1) * math.log(2)
        bessel, lower = special.kve(half, x), special.kve(half - 1, x)
        near_zero = np.isinf(bessel) | np.isinf(lower)  # then the limits are exact
        phi = np.exp(log + np.log(np.where(near_zero, 1.0, bessel)))
        fall = df * square * np.exp(log + np.log(np.where(near_zero, 1.0, lower)) - np.log(x))
        limit = square * df / (df - 2) if df > 2 else 0.0
        return Factor(np.where(near_zero, 1.0, phi), np.where(near_zero, limit, fall))


# ------------------------------------------------------------------------------------------------
# Designs and signals
# ------------------------------------------------------------------------------------------------


def toeplitz(p: int, correlation: float = 0.5) -> np.ndarray:
    """Covariance ``correlation ** |j - k|``."""
    check_number("correlation", correlation, low=-1, high=1, open_low=True, open_high=True)
    return linalg.toeplitz(correlation ** np.arange(check_count("p", p)))


def sparse_signal(covariance: np.ndarray, strength: float = 2.0) -> np.ndarray:
    """Equal first tenth of the coefficients, zero others, with ``bᵀΣb = strength``."""
    check_number("strength", strength, low=0)
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
        if np.shape(self.mean) not in ((), (p,)):
            raise ValueError(f"mean must be a number or one for each of the {p} coefficients")
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
        rng = check_rng(rng)
        shape = (n, len(self.coef))
        if self.design == "gaussian":
            z = rng.standard_normal(shape)
        else:
            z = rng.uniform(-math.sqrt(3), math.sqrt(3), shape)
        X = self.mean + z @ self.root
        return Data(X, self.intercept + X @ self.coef + self._noise.sample(n, rng))

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
        values = to_numpy(coef) if hasattr(coef, "shape") else np.asarray(coef)
        single = values.ndim == 1
        values = check_array("coef", np.atleast_2d(values), ndim=2)
        if values.shape[1] != len(self.coef):
            raise ValueError(
                f"coef has {values.shape[1]} entries per row, but the model has {len(self.coef)}"
            )
        try:
            intercepts = np.broadcast_to(to_numpy(np.asarray(intercept)), (len(values),))
        except ValueError:
            raise ValueError(
                f"intercept must be a number or one for each of the {len(values)} rows of coef"
            ) from None
        shift = check_array("intercept", intercepts, ndim=1) - self.intercept
        shift = shift + (values - self.coef) @ self.mean
        result = self._risk(values, shift, criterion)
        if centered:
            zero = np.array([-self.intercept - self.coef @ self.mean])
            result = result - self._risk(0 * values[:1], zero, criterion)
        if criterion.name == "squared" and not centered:  # else it cancels, infinite or not
            result = result + self._noise.variance
        return result[0] if single else result

    @property
    def _noise(self) -> Noise:
        assert isinstance(self.noise, Noise)
        return self.noise

    def _risk(self, coef: np.ndarray, shift: np.ndarray, criterion: Criterion) -> np.ndarray:
        """Return the risk; of squared error, without the variance of the noise."""
        noise = self._noise
        spread = (coef - self.coef) @ self.root  # a = Σ^½ d, one row per iterate
        square = np.sum(spread**2, axis=1)
        if criterion.name == "squared":
            return np.asarray(square + shift**2)
        random = np.sqrt(square) + noise.scale * (noise.name != "none")
        result = np.array(criterion(-shift, 0 * shift))
        left = random > 1e-12 * np.abs(shift)  # of the rest, nothing is random
        if np.any(left):
            features = _DESIGNS[self.design](spread[left])
            result[left] = _expectation(
                _KERNELS[criterion.name](criterion.parameter),
                lambda s: noise.transform(s).times(features(s)),
                shift[left],
                sizes=random[left] + np.abs(shift[left]),
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
    covariance = changes.pop("covariance", None)
    if covariance is None:
        covariance = toeplitz(p)
    settings = {"coef": sparse_signal(covariance), "covariance": covariance, **changes}
    return LinearModel(noise=noise, design=design, **settings)
