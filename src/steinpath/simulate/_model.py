r"""Data whose risk is known: the paper's designs, signals and noise laws.

A `LinearModel` draws data and gives the exact risk of any coefficients. The error of a prediction
at a new observation is :math:`V = \varepsilon - x^\top d - k` with :math:`d = b - b^*` and a
constant :math:`k`, a sum whose characteristic function is known; one deterministic integral then
serves all designs, noise laws and test losses (`steinpath.simulate._transforms`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import array_api_compat
import numpy as np
from scipy import linalg

from steinpath._support.arrays import Array, like, namespace, to_numpy
from steinpath._support.reading import read_array
from steinpath._support.validation import (
    check_array,
    check_count,
    check_covariance,
    check_number,
    check_rng,
)
from steinpath.problem._scoring import Criterion, TestLoss, resolve_test_loss
from steinpath.simulate._transforms import DESIGNS, KERNELS, Factor, Transform, expectation, student

# ------------------------------------------------------------------------------------------------
# Names of laws
# ------------------------------------------------------------------------------------------------


def _student_df(name: str) -> float | None:
    """Return the degrees of freedom in a name such as "t4", or None for any other name."""
    match = re.fullmatch(r"t(\d+(\.\d+)?)", name)
    return float(match[1]) if match else None


def _check_law(kind: str, name: Any, others: Collection[str], *, above: int, moment: str) -> None:
    """Refuse a ``name`` that is neither Student's t nor one of the ``others``, the normal first."""
    normal, *_ = others
    df = _student_df(name) if isinstance(name, str) else None
    if df is None and not (isinstance(name, str) and name in others):
        known = ", ".join(repr(other) for other in others)
        raise ValueError(
            f"{kind} must be one of {known}, or 't' with the degrees of freedom appended, such as "
            f"'t4'; got {name!r}"
        )
    if df is not None and not above < df <= 30:
        raise ValueError(
            f"{kind} {name!r}: degrees of freedom must be above {above}, for the {moment} to "
            f"exist, and at most 30, beyond which {normal!r} is as good"
        )


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
        _check_law("noise", self.name, ("normal", "laplace", "none"), above=1, moment="mean")

    @property
    def _df(self) -> float | None:
        return _student_df(self.name)

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
        if self._df is not None:
            return student(self.scale, self._df)(s)
        x, square = s * self.scale, self.scale**2
        if self.name == "none":
            return Factor(1 + 0 * x, 0 * x)
        if self.name == "normal":
            phi = np.exp(-x * x / 2)
            return Factor(phi, square * phi)
        phi = 1 / (1 + x * x)
        return Factor(phi, 2 * square * phi * phi)


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


@dataclass(frozen=True)
class PredictionErrors:
    """The law of ``ε - a·z - k``, in a model with this noise ``ε`` and this law of ``z``.

    It knows neither the covariance nor the coefficients, which are in ``a`` and ``k``.

    Attributes
    ----------
    noise : Noise
        Law of ``ε``.
    design : str
        Law of ``z``; see `LinearModel`.
    """

    noise: Noise
    design: str

    def reduce(self, spread: Array) -> Array:
        """Return rows ``a`` with the same risk, and with as few entries as will do."""
        if self.design == "uniform":
            return spread
        return namespace(spread).linalg.vector_norm(spread, axis=-1, keepdims=True)

    def risk(self, spread: np.ndarray, shift: np.ndarray, criterion: Criterion) -> np.ndarray:
        """Return the risk, which may be infinite.

        Parameters
        ----------
        spread : ndarray of shape (T, p)
            The rows ``a``.
        shift : ndarray of shape (T,)
            The constants ``k``.
        criterion : Criterion
            Test loss.
        """
        found = self.comparable(spread, shift, criterion)
        return found + self.noise.variance if criterion.name == "squared" else found

    def comparable(self, spread: np.ndarray, shift: np.ndarray, criterion: Criterion) -> np.ndarray:
        """Return the same but, of squared error, without the variance: differences are finite."""
        noise, square = self.noise, np.sum(spread**2, axis=1)
        if criterion.name == "squared":
            return np.asarray(square + shift**2)
        random = np.sqrt(square) + noise.scale * (noise.name != "none")
        result = np.array(criterion(-shift, 0 * shift))
        left = random > 1e-12 * np.abs(shift)  # of the rest, nothing is random
        if np.any(left):
            features = self._features(spread[left])
            result[left] = expectation(
                KERNELS[criterion.name](criterion.parameter),
                lambda s: noise.transform(s).times(features(s)),
                shift[left],
                sizes=random[left] + np.abs(shift[left]),
            )
        return result

    def _features(self, spread: np.ndarray) -> Transform:
        """Return the transform of ``spread·z``, row by row."""
        df = _student_df(self.design)
        if df is None:
            return DESIGNS[self.design](spread)
        # Student's t has variance df / (df - 2), and z has variance 1
        return student(np.sqrt(np.sum(spread**2, axis=1) * (df - 2) / df), df)


@dataclass(frozen=True, eq=False)
class LinearModel:
    """``y = intercept + x·coef + noise``, with rows ``x = mean + Σ^½ z`` of covariance Σ.

    Parameters
    ----------
    coef : array-like of shape (p,)
        The true coefficients.
    covariance : array-like of shape (p, p), optional
        Σ; the identity by default.
    noise : str or Noise, default="normal"
        Law of the noise: "normal", "laplace", "none", or Student's t as in "t2"; see `Noise`.
    design : str, default="gaussian"
        Law of ``z``, whose entries have mean 0 and variance 1: "gaussian" or "uniform", where
        they are independent, or "t" with the degrees of freedom appended, such as "t4". Then
        ``z`` is a standard normal vector times one random size per row, with the square
        ``(df - 2) / χ²_df``: rows are multivariate Student t, an elliptical law. Degrees of
        freedom are above 2, for the covariance to exist, and at most 30.
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
        # copies: the caller's arrays may change
        coef = np.array(to_numpy(check_array("coef", self.coef, ndim=1)), dtype=float)
        p = len(coef)
        covariance = np.eye(p) if self.covariance is None else self.covariance
        if np.shape(self.mean) not in ((), (p,)):
            raise ValueError(f"mean must be a number or one for each of the {p} coefficients")
        mean = to_numpy(read_array("mean", self.mean))
        mean = check_array("mean", np.broadcast_to(mean, (p,)), ndim=1)
        _check_law("design", self.design, DESIGNS, above=2, moment="covariance")
        check_number("intercept", self.intercept)
        noise = self.noise if isinstance(self.noise, Noise) else Noise(self.noise)
        object.__setattr__(self, "coef", coef)
        object.__setattr__(self, "covariance", np.array(check_covariance(covariance, p, coef)))
        object.__setattr__(self, "mean", np.array(mean, dtype=float))
        object.__setattr__(self, "noise", noise)

    @cached_property
    def root(self) -> np.ndarray:
        """Symmetric square root of the covariance."""
        values, vectors = np.linalg.eigh(self.covariance)
        return np.asarray((vectors * np.sqrt(np.clip(values, 0, None))) @ vectors.T)

    def under(self, *, noise: str | Noise, design: str) -> LinearModel:
        """Return the same model under other laws: its covariance is not checked again."""
        _check_law("design", design, DESIGNS, above=2, moment="covariance")
        other = object.__new__(type(self))
        noise = noise if isinstance(noise, Noise) else Noise(noise)
        # where fields, and cached properties, keep their values
        known = {"root": self.root, "_roots": self._roots, "noise": noise, "design": design}
        other.__dict__.update(self.__dict__ | known)
        return other

    @cached_property
    def _roots(self) -> dict[Any, Array]:
        return {}

    def root_like(self, reference: Array) -> Array:
        """Return `root` as an array of the namespace, dtype and device of ``reference``."""
        if isinstance(reference, np.ndarray):
            return self.root
        key = type(reference), reference.dtype, array_api_compat.device(reference)
        if key not in self._roots:
            self._roots[key] = like(self.root, reference)
        return self._roots[key]

    def sample(self, n: int, rng: Any = None, like_this: Array | None = None) -> Data:
        """Draw ``n`` observations.

        Parameters
        ----------
        n : int
            Number of observations.
        rng : None, int or numpy.random.Generator
            Randomness.
        like_this : Array, optional
            Return arrays of the namespace, dtype and device of this one, and do there what takes
            long; the randomness is the same.

        Returns
        -------
        Data
            The named tuple ``(X, y)``.
        """
        n = check_count("n", n)
        rng = check_rng(rng)
        shape = (n, len(self.coef))
        if self.design == "uniform":
            z = rng.uniform(-math.sqrt(3), math.sqrt(3), shape)
        else:
            z = rng.standard_normal(shape)
        df = _student_df(self.design)
        if df is not None:
            z *= np.sqrt((df - 2) / rng.chisquare(df, (n, 1)))
        noise = self._noise.sample(n, rng)
        reference = z if like_this is None else like_this
        z, mean, coef, noise = (like(a, reference) for a in (z, self.mean, self.coef, noise))
        X = mean + z @ self.root_like(reference)
        return Data(X, self.intercept + X @ coef + noise)

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
        if criterion.margin:
            raise ValueError(
                f"test_loss={criterion.name!r} is for labels, and the responses of a linear model "
                "are numbers"
            )
        values = to_numpy(read_array("coef", coef))
        single = values.ndim == 1
        values = check_array("coef", np.atleast_2d(values), ndim=2)
        if values.shape[1] != len(self.coef):
            raise ValueError(
                f"coef has {values.shape[1]} entries per row, but the model has {len(self.coef)}"
            )
        try:
            intercept = to_numpy(read_array("intercept", intercept))
            intercepts = np.broadcast_to(intercept, (len(values),))
        except ValueError:
            raise ValueError(
                f"intercept must be a number or one for each of the {len(values)} rows of coef"
            ) from None
        intercepts = check_array("intercept", intercepts, ndim=1)
        deviation = self.deviation(values, intercepts)
        if centered:
            zero = self.deviation(0 * values[:1], np.zeros(1))
            result = self.errors.comparable(*deviation, criterion)
            result = result - self.errors.comparable(*zero, criterion)
        else:
            result = self.errors.risk(*deviation, criterion)
        return result[0] if single else result

    def deviation(self, coef: Array, intercept: Any = 0.0) -> tuple[Array, Array]:
        """Return all that the risk depends on: ``Σ^½ (b - b*)`` and the constant, row by row."""
        distance = coef - like(self.coef, coef)
        shift = intercept - self.intercept + distance @ like(self.mean, coef)
        return distance @ self.root_like(coef), shift

    @property
    def errors(self) -> PredictionErrors:
        """Law of the errors of predictions."""
        return PredictionErrors(self._noise, self.design)

    @property
    def _noise(self) -> Noise:
        assert isinstance(self.noise, Noise)
        return self.noise


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
    design : str, default="gaussian"
        Law of the features: "gaussian", "uniform", or multivariate Student t as in "t4"; see
        `LinearModel`.
    **changes
        Other parameters of `LinearModel`.
    """
    covariance = changes.pop("covariance", None)
    if covariance is None:
        covariance = toeplitz(p)
    settings = {"coef": sparse_signal(covariance), "covariance": covariance, **changes}
    return LinearModel(noise=noise, design=design, **settings)
