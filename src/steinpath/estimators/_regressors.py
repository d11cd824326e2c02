"""Regressors."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from steinpath._support.arrays import Array, cast, is_foreign, to_numpy
from steinpath._support.validation import check_array, warn
from steinpath.algorithms._base import Algorithm
from steinpath.design._remote import RemoteDesign
from steinpath.design._transformed import InterceptDesign
from steinpath.engine._batch import Batch
from steinpath.engine._data import RunData
from steinpath.engine._path import Path
from steinpath.estimators._docstrings import documented
from steinpath.estimators._estimators import GeneralEstimator, NamedEstimator, PathEstimator
from steinpath.estimators._reading import columns_named, readable
from steinpath.estimators._rows import PreparedRows
from steinpath.inference._coefficient_intervals import (
    CoefficientIntervals,
    coefficient_intervals,
)
from steinpath.problem._grid import PenaltyOf
from steinpath.problem._losses import LAD, Huber, Loss, SquareRoot
from steinpath.problem._penalties import ElasticNet, Lasso, Penalty, Ridge
from steinpath.tuning._tuning import Tuning


class FittedRun(NamedTuple):
    """The run of the selected penalty, which can be repeated: its path would take much memory."""

    data: RunData
    penalty: Penalty
    algorithm: Algorithm
    n_iter: int
    scale: np.ndarray
    groups: np.ndarray | None

    def path(self) -> Path:
        """Run again."""
        design = self.data.design
        features = design.features if isinstance(design, InterceptDesign) else design
        if isinstance(features, RemoteDesign):
            y, loss = self.data.y[:, 0], self.data.loss
            how = self.penalty, self.algorithm, self.n_iter, self.data.fit_intercept, None, None
            path: Path = features.run(y, loss, *how)
            return path
        return Batch.start(self.data, self.penalty, self.algorithm).extended(self.n_iter)[0]


class Regressor(RegressorMixin, PathEstimator):  # type: ignore[misc]
    """Base class of regressors: predictions, their intervals and their score."""

    def _keep_left_out(self, tuning: Tuning, rows: PreparedRows) -> None:
        centre = None if rows.centre is None else to_numpy(rows.centre)
        self.intervals_ = tuning.intervals.rescaled(to_numpy(rows.scale), centre)

    def _keep_run(self, path: Path, rows: PreparedRows, groups: np.ndarray | None) -> None:
        self.fitted_run_ = FittedRun(
            path.data, path.penalty, path.algorithm, path.n_iter, to_numpy(rows.scale), groups
        )

    def __getstate__(self) -> dict[str, Any]:
        # a model that is pickled or copied does not contain the rows of its fit
        state: dict[str, Any] = super().__getstate__()
        return {name: value for name, value in state.items() if name != "fitted_run_"}

    def predict(self, X: Any) -> Array:
        """Predict responses.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The features.

        Returns
        -------
        ndarray of shape (n_samples,)
            The predictions: a NumPy array, also if X is a data frame; with array API dispatch, an
            array of the same library as X.
        """
        return self._linear(X, "predict")

    def predict_interval(self, X: Any, level: float = 0.9) -> Array:
        """Return prediction intervals.

        The method is CV+ (Barber, Candès, Ramdas and Tibshirani, 2021), or the jackknife+ if the
        risk was estimated by leave-one-out: it combines the out-of-fold models with their residuals
        on the held-out rows. If new rows are exchangeable with the training rows, the coverage is
        at least ``2 * level - 1``, less a term of order ``1 / sqrt(n)``; in practice it is close to
        `level`. See `steinpath.Tuning.predict_interval`. If `groups` were passed to `fit`, the
        intervals are for rows of new groups.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The features.
        level : float, default=0.9
            The nominal coverage, between 0 and 1.

        Returns
        -------
        ndarray of shape (n_samples, 2)
            Lower and upper ends: a NumPy array, also if X is a data frame; with array API dispatch,
            an array of the same library as X.
        """
        check_is_fitted(self)
        if not hasattr(self, "intervals_"):
            raise ValueError(
                "prediction intervals are not available, since no risk was estimated (method=None, "
                "or non-uniform sample weights): fit with method='auto', without such weights"
            )
        return self._bounds(self.intervals_.interval(self._features(X, "predict_interval"), level))

    def _bounds(self, found: Array) -> Array:
        """Return bounds of intervals in the precision of predictions."""
        return cast(found, self.intercept_.dtype) if is_foreign(found) else found

    def coef_intervals(self, features: Any = None, level: float = 0.95) -> CoefficientIntervals:
        """Return confidence intervals for the coefficients of the linear model.

        The estimates are debiased for the penalty and early stopping. They are computed from an
        early iterate, where intervals are short, not from the selected one; see
        `steinpath.coefficient_intervals` for the assumptions. They are not adjusted for selection
        of ``alpha``, on which early iterates hardly depend. If `groups` were passed to `fit`,
        standard errors are cluster-robust. The algorithm is run again on the training data, which
        must not have been modified since; pickled models do not contain the data.

        Parameters
        ----------
        features : array-like of int or of str, optional
            Columns of X, by index or by name; all by default. If X has fewer than three rows per
            column, each feature requires a regression on the others.
        level : float, default=0.95
            Confidence level of each interval.

        Returns
        -------
        CoefficientIntervals
            Intervals in the original units of X. Rows have the names of the features if X was a
            data frame, and ``to_frame()`` returns a data frame of the same library.
        """
        check_is_fitted(self)
        if not hasattr(self, "fitted_run_"):
            raise ValueError(
                "coefficient intervals need the rows of the fit, which a pickled or copied model "
                "does not contain; fit it again"
            )
        names = getattr(self, "feature_names_in_", None)
        run, chosen = self.fitted_run_, columns_named(features, names)
        found = coefficient_intervals(
            run.path(),
            features=chosen,
            level=level,
            rng=check_random_state(self.random_state).randint(np.iinfo(np.int32).max),
            row_scale="norm" if isinstance(self.row_scale, str) else self.row_scale,
            groups=run.groups,
            names=names,
        )
        for message in found.warnings:
            warn(message)
        return replace(found.rescaled(run.scale), library=self._frame_library)

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
            R² of ``self.predict(X)``.
        """
        return self._score(y, self.predict(X), sample_weight)

    def _score(self, y: Any, predictions: Array, sample_weight: Any) -> float:
        """Return R² of predictions, on the host."""
        y = readable("y", y)
        if sample_weight is not None:
            sample_weight = to_numpy(check_array("sample_weight", sample_weight, ndim=1))
        y = to_numpy(y) if is_foreign(y) else y
        return float(r2_score(y, to_numpy(predictions), sample_weight=sample_weight))


@documented()
@dataclass(eq=False, repr=False)
class PathRegressor(Regressor, GeneralEstimator):
    r"""Penalised linear regression with selection of alpha and iteration by estimated risk.

    The algorithm is run for all values of ``alpha`` together, and the out-of-sample risk of every
    iterate is estimated from these runs. The selected model is checked by ten-fold
    cross-validation. The objective is

    .. math:: \frac1n \sum_i \rho(y_i - x_i^\top b - c) + \alpha\, \mathrm{pen}(b),

    and for the square-root loss :math:`n^{-1/2} \|y - Xb - c\| + \alpha\, \mathrm{pen}(b)`. MCP and
    SCAD are those of their classes with ``lam = alpha * √n``; ``gamma`` and ``a`` are not scaled.

    Parameters
    ----------
    loss : str or Loss, default="lad"
        "lad", "square_root", "quantile", "huber", "epsilon_insensitive" or "squared"; or a loss
        object such as ``sp.Quantile(0.9)``. By name, the ``delta`` of Huber is 1.35 and the ``eps``
        of the ε-insensitive loss is 0.1 robust standard deviations of y (median absolute deviation
        / 0.6745, see `y_scale_`). In an object such as ``sp.Huber(20.0)`` they are in units of y.
    penalty : str or callable, default="lasso"
        "lasso", "ridge", "elastic_net", "mcp", "scad" or "none"; or a function of ``lam`` such as
        ``functools.partial(sp.MCP, gamma=2.5)`` or ``partial(sp.GroupLasso, groups=...)``.
    alpha : "auto", float or array-like, default="auto"
        Regularisation strength, or several to select from. "auto" is a geometric grid of `n_alphas`
        values that starts at the smallest value for which all coefficients are zero (for ridge, at
        a value that shrinks every direction tenfold). The ``lam`` of the penalty classes is
        ``alpha * √n``.
    n_alphas : int, default=20
        Number of values of ``alpha`` on the grid of "auto".
    n_iter : int or "auto", default="auto"
        Number of iterations. "auto" runs as long as the estimated risk decreases, up to a limit
        that depends on the size of the data; if no risk is estimated, until `tol` is reached.
    select : "risk", "last" or int, default="risk"
        The iteration to use: the one with the smallest estimated risk, the last one, or the given
        one. With "last" or a number, ``alpha`` is selected by the risk at that iteration.
    fit_intercept : bool, default=True
        Whether to fit an intercept.
    standardize : bool, default=True
        Whether to divide the columns by their standard deviations before the fit (without an
        intercept, by their root mean squares). Coefficients are returned for the original columns.
    algorithm : ProximalAlgorithm, default=None
        The algorithm, such as ``sp.ChambollePock()``. None uses
        ``sp.HalpernPDHG(ratio="auto", warmup=10)``.
    test_loss : None, str, Loss or callable, default=None
        The scoring loss, whose expectation is the risk. None uses the one that matches the training
        loss; see `steinpath.estimate_risk`. "huber", "pseudo_huber" and "epsilon_insensitive" use
        the parameter of the training loss if it has the same one, and otherwise the default, in
        robust standard deviations of y.
    method : str or None, default="auto"
        How the risk is estimated, as for `steinpath.tune`. None estimates no risk, which requires a
        fixed ``alpha`` and iteration.
    row_scale : None, "norm", "auto" or array-like of shape (n_samples,), default="norm"
        Row scales of the correction, as for `steinpath.tune`.
    audit : int or "folds", default="folds"
        Number of rows whose exact leave-one-out refits check the estimate, or "folds" for ten
        folds; 0 for no audit. See `steinpath.tune`.
    cv : int, splitter or iterable, default=None
        How rows are held out: a number of folds, a scikit-learn splitter such as
        ``TimeSeriesSplit(5)``, or pairs of arrays with the indices of training and test rows. See
        `steinpath.tune`. Group labels are passed to `fit`.
    rule : {"min", "one_se"}, default="min"
        "one_se" selects the largest ``alpha`` whose risk is within one standard error of the
        minimum; see `steinpath.tune`.
    tol : float, default=1e-3
        With ``select="last"``, tolerance for the duality gap of the last iterate (see
        `steinpath.Path`) relative to its objective, or to ``tol`` times the objective of zero
        coefficients if that is larger. A `ConvergenceWarning` is issued if it is exceeded. For a
        user-defined loss or penalty without a conjugate, the tolerance is for the change of the
        fitted values in the last tenth of the iterations, relative to the standard deviation of y.
    warm_start : bool, default=False
        Whether to keep the paths, so that a refit to the same data with a larger ``n_iter``
        continues them, with the same result as a new fit. Any other refit starts from zero; so does
        one with X in a `numpy.memmap`.
    verbose : bool or int, default=False
        Whether to print progress: one line per stage, and with 2 or more every tenth of a stage.
    random_state : None, int or RandomState, default=None
        Random numbers for the risk estimate. Results are reproducible for a fixed integer.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        Coefficients of the selected model.
    intercept_ : float
        Intercept of the selected model.
    alpha_ : float
        The selected regularisation strength.
    best_iter_ : int
        The selected iteration.
    best_index_ : int
        Index of `alpha_` in `alphas_`.
    best_risk_, best_risk_stderr_ : float
        Estimated risk of the selected model on new data, adjusted for selection of ``alpha`` and
        iteration, and its standard error; see `steinpath.Tuning`. Not available if no risk is
        estimated.
    naive_risk_ : float
        Estimated risk of the selected model, not adjusted for selection: usually
        ``risk_path_.min()``, and too small. Not available if no risk is estimated.
    n_iter_ : int
        Number of iterations run.
    alphas_ : ndarray of shape (n_alphas,)
        The grid of regularisation strengths.
    risk_path_ : ndarray of shape (n_alphas, n_iter + 1)
        Estimated risk of every iterate for every ``alpha``. The method may differ between values of
        ``alpha``, see `steinpath.tune`. Not available if no risk is estimated.
    risk_stderr_ : ndarray of shape (n_alphas, n_iter + 1)
        Standard errors of `risk_path_`. Not available if no risk is estimated.
    train_path_ : ndarray of shape (n_alphas, n_iter + 1)
        Training error with the same scoring loss. Not available if no risk is estimated.
    intervals_ : PredictionIntervals
        Out-of-fold models and residuals, used by `predict_interval`. Not available if no risk is
        estimated.
    warnings_ : tuple of str
        Warnings about the estimated risk, which are also issued; an empty tuple means no warnings.
        Not available if no risk is estimated.
    loss_ : Loss
        The loss, with its parameter in units of y.
    y_scale_ : float
        Robust standard deviation of y: the unit of the parameters of losses that are given by name
        and of the ``delta`` of `HuberLasso`. If the median absolute deviation is zero, it is the
        standard deviation.
    fitted_run_ : FittedRun
        The data of the fit, used by `coef_intervals`. Not part of a pickled or copied model.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, if X is a pandas or polars data frame with string column names.

    See Also
    --------
    PathClassifier : Classification.
    steinpath.tune : The same search as a function, on the scale of ``lam``.
    steinpath.coefficient_intervals : Confidence intervals for coefficients of a path.

    Notes
    -----
    With scikit-learn's array API dispatch (``sklearn.set_config(array_api_dispatch=True)``), X may
    be an array of a library other than NumPy, such as a torch tensor on a GPU. Everything is then
    computed on its device. Array attributes, `intercept_`, predictions and prediction intervals are
    arrays of the same library on the same device; other numbers and the result of `coef_intervals`
    are Python numbers and NumPy arrays. float32 stays float32, except for `intercept_`, predictions
    and intervals if y is float64.

    For data frames, `coef_`, predictions and prediction intervals are NumPy arrays, as in
    scikit-learn. ``coef_intervals().to_frame()`` returns a data frame of the same library.

    Examples
    --------
    >>> import steinpath as sp
    >>> X, y = sp.simulate.paper_model(60, noise="t2").sample(200, rng=0)
    >>> model = sp.PathRegressor(loss="lad", penalty="lasso", random_state=0).fit(X, y)
    >>> model.risk_path_.shape == (20, model.n_iter_ + 1), model.coef_.shape
    (True, (60,))
    >>> bool(model.risk_path_[:, -1].min() > model.risk_path_.min())
    True
    >>> model.predict_interval(X[:5], level=0.9).shape
    (5, 2)
    """

    loss: str | Loss = "lad"
    penalty: str | PenaltyOf = "lasso"


@dataclass(eq=False, repr=False, kw_only=True)
class NamedRegressor(Regressor, NamedEstimator):
    """Base class of regressors with one loss and one penalty, whose parameters they have."""


#: An example for every named regressor.
REGRESSOR_EXAMPLE = """
    >>> import steinpath as sp
    >>> X, y = sp.simulate.paper_model(20, noise="t2").sample(200, rng=0)
    >>> model = sp.{name}(n_alphas=5, random_state=0).fit(X, y)
    >>> model.predict(X[:5]).shape
    (5,)
    """


@documented(PathRegressor)
class LADLasso(NamedRegressor):
    r"""Least absolute deviations regression with the lasso penalty.

    The objective is :math:`\frac1n \sum_i |y_i - x_i^\top b - c| + \alpha \|b\|_1`.

    See Also
    --------
    LADRidge : The ridge penalty.
    LADElasticNet : The elastic net penalty.
    QuantileLasso : Quantiles other than the median.
    PathRegressor : Any loss and penalty.

    Examples
    --------
    >>> import steinpath as sp
    >>> X, y = sp.simulate.paper_model(60, noise="t2").sample(200, rng=0)
    >>> model = sp.LADLasso(random_state=0).fit(X, y)
    >>> model.predict(X[:5]).shape
    (5,)
    """

    loss_class, penalty_class = LAD, Lasso


@documented(PathRegressor, example=REGRESSOR_EXAMPLE)
class LADRidge(NamedRegressor):
    r"""Least absolute deviations regression with the ridge penalty.

    The objective is
    :math:`\frac1n \sum_i |y_i - x_i^\top b - c| + \frac{\alpha}{2} \|b\|_2^2`.

    See Also
    --------
    LADLasso : The lasso penalty.
    LADElasticNet : The elastic net penalty.
    PathRegressor : Any loss and penalty.
    """

    loss_class, penalty_class = LAD, Ridge


@documented(PathRegressor, example=REGRESSOR_EXAMPLE)
@dataclass(eq=False, repr=False, kw_only=True)
class LADElasticNet(NamedRegressor):
    """Least absolute deviations regression with the elastic net penalty.

    Parameters
    ----------
    l1_ratio : float, default=0.5
        Weight of the lasso penalty, between 0 (ridge) and 1 (lasso).

    See Also
    --------
    LADLasso : The lasso penalty.
    LADRidge : The ridge penalty.
    PathRegressor : Any loss and penalty.
    """

    l1_ratio: float = 0.5

    loss_class, penalty_class = LAD, ElasticNet


@documented(PathRegressor, example=REGRESSOR_EXAMPLE)
class SqrtLasso(NamedRegressor):
    r"""Square-root lasso.

    The objective is :math:`n^{-1/2} \|y - Xb - c\|_2 + \alpha \|b\|_1`. Its minimiser is a lasso
    estimate, but the optimal ``alpha`` does not depend on the noise level.

    See Also
    --------
    SqrtRidge : The ridge penalty.
    PathRegressor : Any loss and penalty.
    """

    loss_class, penalty_class = SquareRoot, Lasso


@documented(PathRegressor, example=REGRESSOR_EXAMPLE)
class SqrtRidge(NamedRegressor):
    r"""Square-root loss with the ridge penalty.

    The objective is :math:`n^{-1/2} \|y - Xb - c\|_2 + \frac{\alpha}{2} \|b\|_2^2`.

    See Also
    --------
    SqrtLasso : The lasso penalty.
    PathRegressor : Any loss and penalty.
    """

    loss_class, penalty_class = SquareRoot, Ridge


@documented(PathRegressor, example=REGRESSOR_EXAMPLE)
@dataclass(eq=False, repr=False, kw_only=True)
class HuberLasso(NamedRegressor):
    """Huber regression with the lasso penalty.

    Parameters
    ----------
    delta : float, default=1.35
        Residual at which the loss changes from quadratic to linear, in robust standard deviations
        of y (median absolute deviation / 0.6745), so that the fit does not depend on the units of
        y. In units of y it is ``delta * model.y_scale_``, the ``delta`` of ``model.loss_``.

    See Also
    --------
    HuberRidge : The ridge penalty.
    LADLasso : Absolute loss, which is the limit for small ``delta``.
    PathRegressor : Any loss and penalty.
    """

    delta: float = 1.35

    loss_class: ClassVar[Any] = Huber
    penalty_class: ClassVar[Any] = Lasso


@documented(HuberLasso, example=REGRESSOR_EXAMPLE)
class HuberRidge(HuberLasso):
    """Huber regression with the ridge penalty.

    See Also
    --------
    HuberLasso : The lasso penalty.
    LADRidge : Absolute loss, which is the limit for small ``delta``.
    PathRegressor : Any loss and penalty.
    """

    penalty_class = Ridge
