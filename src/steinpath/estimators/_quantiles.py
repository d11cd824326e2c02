"""Quantile regression: one quantile, or several whose predictions do not cross."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from steinpath._support.arrays import Array, namespace, to_numpy
from steinpath._support.validation import captured_warnings, check_array, shown, warn
from steinpath.estimators._docstrings import documented
from steinpath.estimators._estimators import PathEstimator, put_together
from steinpath.estimators._regressors import REGRESSOR_EXAMPLE, NamedRegressor, PathRegressor
from steinpath.inference._prediction_intervals import conformalised_quantiles
from steinpath.problem._losses import Quantile
from steinpath.problem._penalties import Lasso, Ridge


@dataclass(eq=False, repr=False, kw_only=True)
class QuantileEstimator(NamedRegressor):
    """Base class for one quantile, or several with an estimator for each. See `QuantileLasso`."""

    q: Any = 0.5

    loss_class: ClassVar[Any] = Quantile

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> PathEstimator:
        """Fit a path for every ``alpha``, and select ``alpha`` and iteration by estimated risk.

        Several quantiles are fitted one by one, each with its own selection.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The features. A `numpy.memmap` is read in blocks, and may be larger than memory.
        y : array-like of shape (n_samples,)
            The responses.
        sample_weight : array-like of shape (n_samples,), optional
            Sample weights; see `PathRegressor.fit`.
        groups : array-like of shape (n_samples,), optional
            Group labels of rows that are held out together; see `PathRegressor.fit`.

        Returns
        -------
        self
            The fitted estimator.
        """
        if not _is_several(self.q):
            return super().fit(X, y, sample_weight, groups)  # type: ignore[no-any-return]
        levels, messages = _check_levels(self.q), []
        common = self.get_params(deep=False) | self._same_for_all()
        # with warm starts, these are continued
        former = {one.q: one for one in getattr(self, "estimators_", ())}
        fitted = []
        for level in levels:
            one = copy(former.get(level, self)).set_params(**common | {"q": level})
            token = captured_warnings.set([])
            try:
                fitted.append(one.fit(X, y, sample_weight, groups))
                messages += [
                    (f"q={level:g}: {text}", kind) for text, kind in captured_warnings.get() or ()
                ]
            finally:
                captured_warnings.reset(token)
        self.__dict__ = self._without_a_fit() | _stacked(fitted)
        for message, category in messages:
            warn(message, category)
        return self

    def _label(self, k: int) -> str:
        return f"q = {self.estimators_[k].q:g}"

    def predict(self, X: Any) -> Array:
        """Predict quantiles of the response.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The features.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_quantiles)
            The quantiles. Several quantiles are sorted in each row, so that they do not cross; this
            improves the estimates [1]_.

        References
        ----------
        .. [1] V. Chernozhukov, I. Fernández-Val and A. Galichon (2010). Quantile and probability
           curves without crossing. Econometrica 78, 1093-1125.
        """
        predictions = super().predict(X)
        if predictions.ndim == 1:
            return predictions
        return namespace(predictions).sort(predictions, axis=1)

    def predict_interval(self, X: Any, level: float = 0.9) -> Array:
        """Return prediction intervals.

        With several quantiles, the smallest and the largest are conformalised [1]_: both ends of
        the interval between them are moved by the same amount, a quantile of the signed distances
        of held-out responses from that interval. Its width adapts to the spread of the responses.
        With one quantile, the interval is computed from out-of-fold residuals and has nearly the
        same width everywhere. Coverage is as for `PathRegressor.predict_interval`.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The features.
        level : float, default=0.9
            The nominal coverage, between 0 and 1. The quantiles need not match it, but intervals
            are shortest if they do: 0.05 and 0.95 with 0.9.

        Returns
        -------
        ndarray of shape (n_samples, 2)
            Lower and upper ends.

        References
        ----------
        .. [1] Y. Romano, E. Patterson and E. J. Candès (2019). Conformalized quantile regression.
           Advances in Neural Information Processing Systems 32.
        """
        check_is_fitted(self)
        fitted = getattr(self, "estimators_", ())
        if not fitted or not hasattr(fitted[0], "intervals_"):  # which raises an error
            return super().predict_interval(X, level)
        if len(fitted) < 2:
            raise ValueError(
                "intervals between quantiles require at least two, such as q=(0.05, 0.95); got "
                f"q=({fitted[0].q:g},); for intervals from one quantile, use q={fitted[0].q:g}"
            )
        low, high = fitted[0].intervals_, fitted[-1].intervals_
        X = self._features(X, "predict_interval")
        return self._bounds(conformalised_quantiles(low, high, X, level))

    def coef_intervals(self, features: Any = None, level: float = 0.95) -> Any:
        """Return confidence intervals for the coefficients; see `PathRegressor.coef_intervals`.

        Parameters
        ----------
        features : array-like of int or of str, optional
            Columns of X, by index or by name; all by default.
        level : float, default=0.95
            Confidence level of each interval.

        Returns
        -------
        CoefficientIntervals, or list of CoefficientIntervals
            One for each quantile, if there are several. They assume errors that do not depend on
            the features; then the coefficients of all quantiles are equal.
        """
        check_is_fitted(self)
        if not hasattr(self, "estimators_"):
            return super().coef_intervals(features, level)
        return [one.coef_intervals(features, level) for one in self.estimators_]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the coefficient of determination R² of the predictions.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The features.
        y : array-like of shape (n_samples,)
            The responses.
        sample_weight : array-like of shape (n_samples,), optional
            Sample weights.

        Returns
        -------
        float
            R² of ``self.predict(X)``; with several quantiles, of the one nearest to the median.
        """
        check_is_fitted(self)
        if not hasattr(self, "estimators_"):
            return super().score(X, y, sample_weight)
        nearest = int(np.argmin([abs(one.q - 0.5) for one in self.estimators_]))
        return self._score(y, self.predict(X)[:, nearest], sample_weight)


def _is_several(q: Any) -> bool:
    return hasattr(q, "__iter__") and not isinstance(q, str | bytes) and getattr(q, "ndim", 1) > 0


def _check_levels(q: Any) -> list[float]:
    """Return the levels of quantiles."""
    remedy = "use levels between 0 and 1"
    levels = to_numpy(check_array("q", q, ndim=1, remedy=remedy)).astype(float)
    if not np.all((levels > 0) & (levels < 1)) or not np.all(np.diff(levels) > 0):
        raise ValueError(
            "q must be a level between 0 and 1, or several in increasing order, such as "
            f"(0.05, 0.5, 0.95); got {shown(q)}"
        )
    return levels.tolist()  # type: ignore[no-any-return]


def _stacked(fitted: list[Any]) -> dict[str, Any]:
    """Return the attributes of a fit of several quantiles, from those of single quantiles."""
    found = put_together(fitted)
    if hasattr(fitted[0], "warnings_"):
        found["warnings_"] = tuple(
            f"q={one.q:g}: {message}" for one in fitted for message in one.warnings_
        )
    return found


@documented(PathRegressor)
class QuantileLasso(QuantileEstimator):
    """Quantile regression with the lasso penalty, for one or several quantiles.

    With several quantiles, ``alpha`` and iteration are selected for each, with the same folds.
    Attributes with n_quantiles in their shape then have one entry per quantile; all others are
    attributes of the `estimators_`.

    Parameters
    ----------
    q : float or sequence of float, default=0.5
        The quantile, or several in increasing order.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,) or (n_quantiles, n_features)
        Coefficients of the selected model.
    intercept_ : float, or ndarray of shape (n_quantiles,)
        Intercept of the selected model.
    alpha_ : float, or ndarray of shape (n_quantiles,)
        The selected regularisation strength.
    best_iter_ : int, or ndarray of shape (n_quantiles,)
        The selected iteration.
    best_index_ : int, or ndarray of shape (n_quantiles,)
        Index of `alpha_` in `alphas_`.
    best_risk_, best_risk_stderr_ : float, or ndarray of shape (n_quantiles,)
        Estimated risk of the selected model on new data, adjusted for selection of ``alpha`` and
        iteration, and its standard error. Not available if no risk is estimated.
    naive_risk_ : float, or ndarray of shape (n_quantiles,)
        Estimated risk of the selected model, not adjusted for selection. Not available if no risk
        is estimated.
    n_iter_ : int, or ndarray of shape (n_quantiles,)
        Number of iterations run.
    estimators_ : list of QuantileLasso
        The fit of each quantile, if there are several.

    See Also
    --------
    QuantileRidge : The ridge penalty.
    LADLasso : Median regression.
    PathRegressor : Any loss and penalty.

    Examples
    --------
    Responses whose spread increases with the first feature:

    >>> import numpy as np
    >>> import steinpath as sp
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(200, 3))
    >>> y = X[:, 1] + (0.2 + X[:, 0]) * rng.standard_normal(200)
    >>> model = sp.QuantileLasso(q=(0.05, 0.5, 0.95), n_alphas=5, random_state=0).fit(X, y)
    >>> model.coef_.shape, model.predict(X).shape
    ((3, 3), (200, 3))
    >>> lower, upper = model.predict_interval([[0.1, 0.5, 0.5], [0.9, 0.5, 0.5]], level=0.9).T
    >>> narrow, wide = upper - lower
    >>> bool(wide > 1.5 * narrow)
    True
    """

    penalty_class = Lasso


@documented(QuantileLasso, example=REGRESSOR_EXAMPLE)
class QuantileRidge(QuantileEstimator):
    """Quantile regression with the ridge penalty, for one or several quantiles.

    With several quantiles, ``alpha`` and iteration are selected for each, with the same folds.
    Attributes with n_quantiles in their shape then have one entry per quantile; all others are
    attributes of the `estimators_`.

    Attributes
    ----------
    estimators_ : list of QuantileRidge
        The fit of each quantile, if there are several.

    See Also
    --------
    QuantileLasso : The lasso penalty.
    LADRidge : Median regression.
    PathRegressor : Any loss and penalty.
    """

    penalty_class = Ridge
