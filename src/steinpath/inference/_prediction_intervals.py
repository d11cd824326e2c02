"""Prediction intervals from out-of-fold models and their residuals (CV+).

An out-of-fold residual is distributed like the error on a new row, and the models of the folds vary
like models of other samples.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from steinpath._support.arrays import (
    Array,
    beside,
    cast,
    indices,
    is_foreign,
    like,
    namespace,
    take,
    to_numpy,
)
from steinpath._support.validation import check_array, check_count, check_number
from steinpath.design._conversion import lazy_design

# Numbers that are held in memory at a time: 32 MiB.
_MOST_ENTRIES = 2**22


@dataclass(frozen=True, eq=False)
class PredictionIntervals:
    r"""Prediction intervals by cross-validation (CV+).

    With :math:`\hat\mu_k` the model fitted without fold k, and :math:`r_i` the residual of row i
    under the model fitted without it, the interval at x goes from a low quantile of
    :math:`\hat\mu_{k(i)}(x) - |r_i|` over the rows i to a high one of
    :math:`\hat\mu_{k(i)}(x) + |r_i|`.

    Parameters
    ----------
    coef : ndarray of shape (K, p)
        Coefficients of the out-of-fold models.
    intercept : ndarray of shape (K,)
        Their intercepts.
    fold : ndarray of int of shape (n,)
        Index of the model that was fitted without each row.
    residuals : ndarray of shape (n,)
        The response of each row minus its prediction by that model.
    symmetric : bool, default=True
        Whether to use absolute residuals at ``1 - level``. Otherwise signed residuals are used at
        ``(1 - level) / 2`` on each side, for models of a quantile.
    model : tuple of an ndarray of shape (p,) and a float, optional
        Coefficients and intercept of one model at which all intervals are centred, for time series,
        whose early models have few rows.

    Notes
    -----
    If the rows are exchangeable (for example, independent draws from one distribution), and each
    model is a symmetric function of its training rows, an interval of level :math:`1 - \alpha`
    covers the response of a new row with probability at least :math:`1 - 2\alpha` minus a term that
    is small for large n, for any distribution; see [1]_, Theorem 4. In practice coverage is close
    to :math:`1 - \alpha`. Everything selected, such as a penalty, must be selected without the
    fold. Coverage is an average over x, and may be lower for some x. There is no guarantee for
    dependent rows (rows of one group in different folds, time series), nor if ``model`` is given.

    References
    ----------
    .. [1] R. F. Barber, E. J. Candès, A. Ramdas and R. J. Tibshirani (2021). Predictive inference
       with the jackknife+. Annals of Statistics 49, 486-507.

    Examples
    --------
    The mean as the model, in two folds of five rows each:

    >>> import numpy as np
    >>> y = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    >>> fold = np.repeat([0, 1], 5)
    >>> means = np.array([y[fold != 0].mean(), y[fold != 1].mean()])
    >>> intervals = PredictionIntervals(np.zeros((2, 1)), means, fold, y - means[fold])
    >>> intervals.interval(np.zeros((1, 1)), level=0.8)
    array([[1., 6.]])
    """

    coef: np.ndarray
    intercept: np.ndarray
    fold: np.ndarray
    residuals: np.ndarray
    symmetric: bool = True
    model: tuple[np.ndarray, float] | None = None

    def __post_init__(self) -> None:
        for name in ("coef", "intercept", "residuals"):
            object.__setattr__(self, name, np.asarray(getattr(self, name), float))
        object.__setattr__(self, "fold", np.asarray(self.fold))
        coef, fold, residuals = self.coef, self.fold, self.residuals
        if coef.ndim != 2 or self.intercept.shape != coef.shape[:1] or not len(coef):
            raise ValueError(
                "coef must have shape (K, p), with one intercept for each row of coef, got shapes "
                f"{coef.shape} and {self.intercept.shape}"
            )
        if fold.ndim != 1 or fold.shape != residuals.shape or not len(fold):
            raise ValueError(
                "fold and residuals must have one entry for each row, got shapes "
                f"{fold.shape} and {residuals.shape}"
            )
        if fold.dtype.kind not in "iu" or fold.min() < 0 or fold.max() >= len(coef):
            raise ValueError(f"fold must hold integers from 0 to {len(coef) - 1}")
        if not np.isfinite(residuals).all():
            raise ValueError("residuals must be finite")
        models: list[Any] = [coef, self.intercept]
        if self.model is not None:
            own = np.asarray(self.model[0], float), float(self.model[1])
            if own[0].shape != coef.shape[1:]:
                raise ValueError(
                    f"model must have {coef.shape[1]} coefficients, got shape {own[0].shape}"
                )
            object.__setattr__(self, "model", own)
            models += own
        if not all(np.isfinite(values).all() for values in models):
            raise ValueError("coefficients and intercepts must be finite")

    def predict(self, X: Any) -> Array:
        """Return the predictions of the models of all folds.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (m, p)
            The features.

        Returns
        -------
        Array of shape (m, K)
            The predictions; an array of the library of X, and of NumPy for a data frame.
        """
        return linear_predictions(X, self.coef, self.intercept)

    def interval(self, X: Any, level: float = 0.9) -> Array:
        """Return an interval for the response of each row.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (m, p)
            The features.
        level : float, default=0.9
            The nominal coverage, between 0 and 1.

        Returns
        -------
        Array of shape (m, 2)
            Lower and upper bounds. Intervals of a higher level contain those of a lower one.
        """
        r = self.residuals
        alpha = _tail(level, len(r), share=1.0 if self.symmetric else 0.5)
        centres, fold = self._centred(X)
        down, up = (np.abs(r), np.abs(r)) if self.symmetric else (-r, r)
        return cross_conformal(centres, centres, down, up, fold, alpha)

    def _centred(self, X: Any) -> tuple[Array, np.ndarray]:
        """Return predictions at which intervals are centred, and the column of each row."""
        if self.model is None:
            return self.predict(X), self.fold
        coef, intercept = self.model
        centres = linear_predictions(X, coef[None], np.array([intercept]))
        return centres, np.zeros_like(self.fold)

    def rescaled(
        self, scale: Any, centre: Any | None = None, level: float = 0.0
    ) -> PredictionIntervals:
        """Return intervals for ``x`` from these for ``(x - centre) / scale``, plus ``level``."""
        centre = np.zeros(self.coef.shape[1]) if centre is None else centre
        coef, model = self.coef / scale, self.model
        if model is not None:
            own = model[0] / scale
            model = own, model[1] - float(own @ centre) + level
        intercept = self.intercept - coef @ centre + level
        return replace(self, coef=coef, intercept=intercept, model=model)

    def thinned(self, most: int = 2000) -> PredictionIntervals:
        """Return approximately the same intervals from at most so many residuals.

        In each fold every g-th residual is kept, at least four, from the largest absolute value
        down (signed ones from both ends to the median). It stands for g - 1 others that are no
        larger, so that intervals do not become narrower.
        """
        most = max(check_count("most", most), 4 * len(self.coef))
        step = -(-len(self.residuals) // most)
        if step == 1:
            return self
        keys, kept = -np.abs(self.residuals) if self.symmetric else self.residuals, []
        for k in range(len(self.coef)):
            rows = np.flatnonzero(self.fold == k)
            order = rows[np.argsort(keys[rows], kind="stable")]
            half = len(rows) // 2
            ends = [order] if self.symmetric else [order[:half], order[::-1][:half]]
            # an incomplete last portion would be overweighted
            kept += [end[::step][: len(end) // step] for end in ends]
        rows = np.sort(np.concatenate(kept))
        return replace(self, fold=self.fold[rows], residuals=self.residuals[rows])


def conformalised_quantiles(
    lower: PredictionIntervals, upper: PredictionIntervals, X: Any, level: float = 0.9
) -> Array:
    """Return prediction intervals from models of a low and of a high quantile, of the same rows.

    Both bounds are shifted by a quantile of the out-of-fold scores ``max(lower - y, y - upper)``
    (Romano, Patterson and Candès, 2019), with the out-of-fold models (CV+). The guarantee is that
    of `PredictionIntervals`; the width adapts to the spread of the response given the features.
    """
    n, other = len(lower.residuals), len(upper.residuals)
    if other != n:
        raise ValueError(
            f"the models of the two quantiles need residuals of the same rows, got {n} and {other}"
        )
    alpha = _tail(level, n)
    (low, low_fold), (high, high_fold) = lower._centred(X), upper._centred(X)
    # one pair for each fold, if the folds are the same for both
    pairs, fold = np.unique(np.stack([low_fold, high_fold]), axis=1, return_inverse=True)
    scores = np.maximum(-lower.residuals, upper.residuals)
    low, high = _columns(low, pairs[0]), _columns(high, pairs[1])
    return cross_conformal(low, high, scores, scores, fold.reshape(-1), alpha)


# ----- Bounds from arrays of predictions -----


def cross_conformal(
    lower: Array,
    upper: Array,
    lower_scores: np.ndarray,
    upper_scores: np.ndarray,
    fold: np.ndarray,
    alpha: float,
) -> Array:
    r"""Return intervals (m, 2) from predictions ``lower`` and ``upper``, (m, K), of K models.

    The lower bound is the :math:`\lfloor \alpha (n + 1) \rfloor`-th smallest of
    ``lower[:, fold[i]] - lower_scores[i]`` over the n rows i, and the upper bound the
    :math:`\lfloor \alpha (n + 1) \rfloor`-th largest of ``upper[:, fold[i]] + upper_scores[i]``.
    With absolute residuals as scores this is CV+. Every interval is extended to contain the median
    of the midpoints of these pairs: the bounds could cross for low levels or close quantiles.
    """
    n, rank = len(fold), _rank(alpha, len(fold))
    low = _Shifted(-lower_scores, fold)
    high = _Shifted(upper_scores, fold)
    middle = _Shifted((upper_scores - lower_scores) / 2, fold)
    ordered = float(np.min(lower_scores + upper_scores))
    xp, m = namespace(lower, upper), int(lower.shape[0])
    bounds, step = like(np.zeros((m, 2)), lower), max(1, _MOST_ENTRIES // n)
    for start in range(0, m, step):
        rows = slice(start, min(start + step, m))
        some_lower, some_upper = lower[rows, :], upper[rows, :]
        bounds[rows, 0] = low.smallest(some_lower, rank)
        bounds[rows, 1] = high.smallest(some_upper, n + 1 - rank)
        if rank <= (n + 1) // 2 and float(xp.max(some_lower - some_upper)) <= ordered:
            continue  # no bound is beyond the median
        centres = (some_lower + some_upper) / 2
        below, above = (middle.smallest(centres, k) for k in ((n + 1) // 2, n // 2 + 1))
        median = below + (above - below) / 2
        bounds[rows, 0] = xp.minimum(bounds[rows, 0], median)
        bounds[rows, 1] = xp.maximum(bounds[rows, 1], median)
    return bounds


class _Shifted:
    """Order statistics of ``centres[:, fold[i]] + shifts[i]`` over i."""

    def __init__(self, shifts: np.ndarray, fold: np.ndarray):
        order = np.argsort(shifts, kind="stable")
        self.shifts, self.fold = shifts[order], fold[order]
        self.used = np.unique(fold)
        self.size = float(np.abs(shifts).max())

    def smallest(self, centres: Array, k: int) -> Array:
        """Return the k-th smallest for each row of ``centres``.

        Shifts that differ from the k-th by more than the centres differ are above or below it for
        sure, and only the others are sorted: few, if the models are nearly the same.
        """
        xp, within = namespace(centres), _columns(centres, self.used)
        spread = float(xp.max(xp.max(within, axis=1) - xp.min(within, axis=1)))
        spread += 8 * np.finfo(float).eps * (float(xp.max(xp.abs(within))) + self.size)  # rounding
        middle = self.shifts[k - 1]
        first = int(np.searchsorted(self.shifts, middle - spread, side="left"))
        last = int(np.searchsorted(self.shifts, middle + spread, side="right"))
        if self.shifts[first] == self.shifts[last - 1]:  # as many values as there are models
            counts = np.bincount(self.fold[first:last], minlength=centres.shape[1])
            order = xp.argsort(centres, axis=1)
            counts = xp.take(indices(counts, centres), xp.reshape(order, (-1,)), axis=0)
            counts = xp.cumulative_sum(xp.reshape(counts, order.shape), axis=1)
            # the number of centres whose cumulative count is too small is the index of the result
            place = xp.sum(xp.astype(counts < k - first, xp.int64), axis=1)
            place += indices(np.arange(centres.shape[0]) * centres.shape[1], centres)
            flat = xp.reshape(xp.sort(centres, axis=1), (-1,))
            return xp.take(flat, place, axis=0) + float(middle)
        values = _columns(centres, self.fold[first:last])
        values += like(self.shifts[first:last], centres)
        if type(values) is np.ndarray:
            values.partition(k - 1 - first, axis=1)
        else:
            values = xp.sort(values, axis=1)
        return values[:, k - 1 - first]


def _columns(block: Array, which: np.ndarray) -> Array:
    """Return columns of a block; for NumPy in a layout in which extremes of rows are fast."""
    return block[:, which] if type(block) is np.ndarray else take(block, which, axis=1)


def _rank(alpha: float, n: int) -> int:
    """Return ``floor(alpha (n + 1))``, where 1 - 0.9 is 0.1."""
    return min(math.floor(round(alpha * (n + 1), 9)), n)


def _tail(level: Any, n: int, share: float = 1.0) -> float:
    """Return the share of responses that may be outside one bound: a share of ``1 - level``."""
    try:
        covered = check_number("level", level, low=0, high=1, open_low=True, open_high=True)
    except TypeError as error:
        raise ValueError(str(error)) from None
    alpha = share * (1 - covered)
    if _rank(alpha, n) < 1:
        highest = math.floor(1e6 * (1 - 1 / (share * (n + 1)))) / 1e6
        raise ValueError(
            f"level={covered:g} is too high for {n} residual{'s' * (n > 1)}: "
            + (f"the highest possible level is {highest}" if highest > 0 else "use more rows")
        )
    return alpha


# ----- Predictions -----


def linear_predictions(X: Any, coef: np.ndarray, intercept: np.ndarray) -> Array:
    """Return predictions (m, K) of models with ``coef`` (K, p), in double precision."""
    design = lazy_design(X, any_size=True)
    if design is None:
        X = check_array("X", X, ndim=2)
    if X.shape[1] != coef.shape[1]:
        raise ValueError(
            f"X has {X.shape[1]} columns, but the models have {coef.shape[1]} features"
        )
    with np.errstate(over="ignore", invalid="ignore"):  # the result is checked instead
        if design is None:
            # other libraries multiply only arrays of one precision
            products = X @ (like(coef.T, X) if is_foreign(X) else coef.T)
        else:
            # NumPy arrays may be multiplied in double precision
            local = isinstance(design.example, np.ndarray)
            products = to_numpy(design.forward(coef.T if local else like(coef.T, design.example)))
        xp = namespace(products)
        predictions = cast(products, xp.float64) + beside(intercept, products)
    if not xp.all(xp.isfinite(predictions)):
        raise ValueError("X has entries too large: predictions are not finite")
    return predictions
