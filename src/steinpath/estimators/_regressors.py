"""Estimators of responses that are numbers."""

from __future__ import annotations

from dataclasses import dataclass
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
    """The run of the penalty that was chosen, to be done again: its path would be much to keep."""

    data: RunData
    penalty: Penalty
    algorithm: Algorithm
    n_iter: int
    scale: np.ndarray
    groups: np.ndarray | None

    def path(self) -> Path:
        """Run it once more."""
        design = self.data.design
        features = design.features if isinstance(design, InterceptDesign) else design
        if isinstance(features, RemoteDesign):
            y, loss = self.data.y[:, 0], self.data.loss
            how = self.penalty, self.algorithm, self.n_iter, self.data.fit_intercept, None, None
            path: Path = features.run(y, loss, *how)
            return path
        return Batch.start(self.data, self.penalty, self.algorithm).extended(self.n_iter)[0]


class Regressor(RegressorMixin, PathEstimator):  # type: ignore[misc]
    """What regressors have in common: predictions, their intervals and their score."""

    def _keep_left_out(self, tuning: Tuning, rows: PreparedRows) -> None:
        centre = None if rows.centre is None else to_numpy(rows.centre)
        self.intervals_ = tuning.intervals.rescaled(to_numpy(rows.scale), centre)

    def _keep_run(self, path: Path, rows: PreparedRows, groups: np.ndarray | None) -> None:
        self.fitted_run_ = FittedRun(
            path.data, path.penalty, path.algorithm, path.n_iter, to_numpy(rows.scale), groups
        )

    def __getstate__(self) -> dict[str, Any]:
        # a model that is saved, or sent elsewhere, does not take the rows of its fit along
        state: dict[str, Any] = super().__getstate__()
        return {name: value for name, value in state.items() if name != "fitted_run_"}

    def predict(self, X: Any) -> Array:
        """Predict the responses of rows.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The features.

        Returns
        -------
        ndarray of shape (n_samples,)
            An array of the library of X, under array API dispatch.
        """
        return self._linear(X, "predict")

    def predict_interval(self, X: Any, level: float = 0.9) -> Array:
        """Return intervals that cover the responses of rows with a given probability.

        By CV+ (Barber, Candès, Ramdas and Tibshirani, 2021), or the jackknife+ where the risk was
        estimated by leave-one-out: from models that were fitted without some of the rows, and their
        residuals there. If new rows are exchangeable with those of the fit, the coverage is at
        least ``2 * level - 1``, less a term of the order of ``1 / sqrt(n)``; in practice it is
        close to `level`: see `steinpath.Tuning.predict_interval`. If the fit had `groups`, the
        intervals are for rows of new groups.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The features.
        level : float, default=0.9
            The probability, between 0 and 1.

        Returns
        -------
        ndarray of shape (n_samples, 2)
            Lower and upper ends.
        """
        check_is_fitted(self)
        if not hasattr(self, "intervals_"):
            raise ValueError(
                "this fit has no prediction intervals, since no risk was estimated (method=None, "
                "or rows that count unequally): fit with method='auto', without such weights"
            )
        return self._bounds(self.intervals_.interval(self._features(X, "predict_interval"), level))

    def _bounds(self, found: Array) -> Array:
        """Return bounds of intervals in the precision of predictions."""
        return cast(found, self.intercept_.dtype) if is_foreign(found) else found

    def coef_intervals(self, features: Any = None, level: float = 0.95) -> CoefficientIntervals:
        """Return confidence intervals for the coefficients of the linear model.

        Without the bias of the penalty and of early stopping, from an early iterate of the chosen
        penalty with short intervals, which is not the one that predicts best; see
        `steinpath.coefficient_intervals` for what they assume. They do not allow for the choice of
        the penalty, on which early iterates hardly depend. If the fit had `groups`, standard errors
        are robust to dependence within groups. The penalty is run once more, on the rows of the
        fit, which must not have been changed since; saved models do not have them.

        Parameters
        ----------
        features : array-like of int or of str, optional
            Columns of X, by their numbers or names; all by default. Where X has fewer than three
            rows for each column, each feature asked for takes a regression of its own.
        level : float, default=0.95
            Confidence level of each interval.

        Returns
        -------
        CoefficientIntervals
            For coefficients of X as it was given.
        """
        check_is_fitted(self)
        if not hasattr(self, "fitted_run_"):
            raise ValueError(
                "intervals for coefficients need the rows of the fit, which a model that was saved "
                "or copied does not have: fit it again"
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
        return found.rescaled(run.scale)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the coefficient of determination R² of the predictions.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The features.
        y : array-like of shape (n_samples,)
            The responses.
        sample_weight : array-like of shape (n_samples,), optional
            How much each row counts.

        Returns
        -------
        float
        """
        return self._score(y, self.predict(X), sample_weight)

    def _score(self, y: Any, predictions: Array, sample_weight: Any) -> float:
        """Return R² of predictions, on the host."""
        y = readable("y", y)
        if sample_weight is not None:
            sample_weight = to_numpy(check_array("sample_weight", sample_weight, ndim=1))
        y = to_numpy(y) if is_foreign(y) else y
        return float(r2_score(y, to_numpy(predictions), sample_weight=sample_weight))


@dataclass(eq=False, repr=False)
class PathRegressor(Regressor, GeneralEstimator):
    r"""Robust linear regression whose penalty and iterate are chosen by estimated risk.

    An algorithm is run for every penalty, all of them side by side, and the out-of-sample risk of
    every iterate is estimated from the runs themselves; the choice is checked against ten folds,
    which run side by side, too. What is minimised is

    .. math:: \frac1n \sum_i \rho(y_i - x_i^\top b - c) + \alpha\, \mathrm{pen}(b),

    and for the square root :math:`n^{-1/2} \|y - Xb - c\| + \alpha\, \mathrm{pen}(b)`. MCP and
    SCAD are what their classes say for ``lam = alpha * √n``; their ``gamma`` and ``a`` are not
    scaled.

    Parameters
    ----------
    loss : str or Loss, default="lad"
        "lad", "square_root", "quantile", "huber", "epsilon_insensitive", "squared"; or one with
        parameters, such as ``sp.Quantile(0.9)``. By name, the ``delta`` of Huber is 1.35, and the
        ``eps`` of the ε-insensitive loss 0.1 robust standard deviations of y (median absolute
        deviation / 0.6745, see `y_scale_`); in a class, such as ``sp.Huber(20.0)``, they are in
        units of y.
    penalty : str or callable, default="lasso"
        "lasso", "ridge", "elastic_net", "mcp", "scad", "none"; or a function of ``lam``, such as
        ``functools.partial(sp.MCP, gamma=2.5)`` or ``partial(sp.GroupLasso, groups=...)``.
    alpha : "auto", float or array-like, default="auto"
        Regularisation strength, or several to choose from; "auto" tries `n_alphas` in equal
        ratios from the smallest with all coefficients zero down (for ridge, from one that
        shrinks everything tenfold). The ``lam`` of the penalty classes is ``alpha * √n``.
    n_alphas : int, default=20
        Number of penalties that "auto" tries.
    n_iter : int or "auto", default="auto"
        Number of iterations; "auto" runs as long as the estimated risk still falls, up to a limit
        that depends on the size of the data. Where no risk is estimated, it runs until `tol`.
    select : "risk", "last" or int, default="risk"
        Which iterate to take: that of the smallest estimated risk, the last one, or this one.
        With several ``alpha``, that with the smallest risk at the iterate.
    fit_intercept : bool, default=True
        Whether to fit an intercept.
    standardize : bool, default=True
        Divide the columns by their standard deviations before the fit (without an intercept, by
        their root mean squares), and the coefficients after it.
    algorithm : ProximalAlgorithm, optional
        What to run, such as ``sp.ChambollePock()``; by default
        ``sp.HalpernPDHG(ratio="auto", warmup=10)``.
    test_loss : None, str, Loss or callable, default=None
        What the risk is the mean of; the loss's own by default. See `steinpath.estimate_risk`.
        "huber", "pseudo_huber" and "epsilon_insensitive" have the parameter of the fitted loss if
        it has one, and that of its name otherwise, in robust standard deviations of y.
    method, row_scale, audit
        How the risk is estimated; see `steinpath.tune`. With ``method=None`` it is not, for a fixed
        ``alpha`` and iterate.
    cv : int, splitter or iterable, optional
        How rows are left out: a number of folds, a splitter of scikit-learn such as
        ``TimeSeriesSplit(5)``, or pairs of arrays of indices; see `steinpath.tune`. Groups of rows
        are given to `fit`.
    rule : {"min", "one_se"}, default="min"
        "one_se" takes the largest penalty whose risk is within one standard error of the minimum;
        see `steinpath.tune`.
    tol : float, default=1e-3
        With ``select="last"``, warn if the duality gap of the last iterate (see `steinpath.Path`)
        is more than this share of its objective, or of ``tol`` times the objective of zero
        coefficients if that is larger. A loss or penalty of your own without a conjugate has no
        duality gap: the warning is then given if the fitted values moved by more than ``tol`` in
        the last tenth of the iterations, relative to the standard deviation of y.
    warm_start : bool, default=False
        Keep the paths, so that a refit to the same data with a larger ``n_iter`` goes on from
        where this one stopped, with the same result as one from the start. Anything else starts
        afresh, and so does X in a `numpy.memmap`.
    random_state : None, int or RandomState
        Randomness of the risk estimate.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        Coefficients of the chosen iterate.
    intercept_ : float
        Its intercept.
    alpha_ : float
        Its penalty.
    best_iter_ : int
        Which iterate it is.
    best_index_ : int
        Which of `alphas_` its penalty is.
    best_risk_, best_risk_stderr_ : float
        Its estimated risk on new rows, the choice itself counted, with standard error: the choice
        is made again without the rows that it is tested on, see `steinpath.Tuning`.
    naive_risk_ : float
        The smallest of the estimated risks, ``risk_path_.min()`` in most cases: too small, since it
        was chosen.
    n_iter_ : int
        Number of iterations that were run.
    alphas_ : ndarray of shape (n_alphas,)
        All penalties.
    risk_path_ : ndarray of shape (n_alphas, n_iter + 1)
        Estimated risk of every iterate for every penalty; not for all in the same way, see
        `steinpath.tune`. Where no risk is estimated, this is not there, nor are the next three,
        nor `best_risk_`, `naive_risk_` and `intervals_`.
    risk_stderr_ : ndarray of shape (n_alphas, n_iter + 1)
        Its standard errors.
    train_path_ : ndarray of shape (n_alphas, n_iter + 1)
        The training error, with the same test loss.
    intervals_ : PredictionIntervals
        What `predict_interval` needs: the models that left out rows, and their residuals.
    warnings_ : tuple of str
        Reasons not to trust the estimate; each is also issued as a warning.
    loss_ : Loss
        The loss that was minimised, with its parameter in units of y.
    y_scale_ : float
        Robust standard deviation of y: the unit of the parameters of losses and test losses that
        are given by name, and of the ``delta`` of `HuberLasso`. Where the median absolute deviation
        is zero, the plain standard deviation.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features,)
        Their names, if X had any.

    Notes
    -----
    Under scikit-learn's array API dispatch (``sklearn.set_config(array_api_dispatch=True)``), X may
    be an array of another library than NumPy, such as a torch tensor on a GPU. Everything is then
    computed on its device. Attributes that are arrays, `intercept_`, predictions and prediction
    intervals are arrays of the same library on the same device; other numbers, and what
    `coef_intervals` returns, are Python's and NumPy's. float32 stays float32, except for
    `intercept_`, predictions and intervals where y is float64.

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
    """A regressor of one loss and one penalty, whose parameters are its own."""


class LADLasso(NamedRegressor):
    """Least absolute deviations with the lasso.

    Parameters and attributes are those of `PathRegressor`, but for ``loss`` and ``penalty``.

    Examples
    --------
    >>> import steinpath as sp
    >>> X, y = sp.simulate.paper_model(60, noise="t2").sample(200, rng=0)
    >>> model = sp.LADLasso(random_state=0).fit(X, y)
    >>> model.predict(X[:5]).shape
    (5,)
    """

    loss_class, penalty_class = LAD, Lasso


class LADRidge(NamedRegressor):
    """Least absolute deviations with the ridge penalty.

    Parameters and attributes are those of `PathRegressor`, but for ``loss`` and ``penalty``.
    """

    loss_class, penalty_class = LAD, Ridge


@dataclass(eq=False, repr=False, kw_only=True)
class LADElasticNet(NamedRegressor):
    """Least absolute deviations with the elastic net.

    Other parameters and attributes are those of `PathRegressor`.

    Parameters
    ----------
    l1_ratio : float, default=0.5
        Share of the lasso, between 0 (ridge) and 1 (lasso).
    """

    l1_ratio: float = 0.5

    loss_class, penalty_class = LAD, ElasticNet


class SqrtLasso(NamedRegressor):
    """Square-root lasso: least squares whose best penalty does not depend on the noise level.

    Parameters and attributes are those of `PathRegressor`, but for ``loss`` and ``penalty``.
    """

    loss_class, penalty_class = SquareRoot, Lasso


class SqrtRidge(NamedRegressor):
    """Square-root loss with the ridge penalty.

    Parameters and attributes are those of `PathRegressor`, but for ``loss`` and ``penalty``.
    """

    loss_class, penalty_class = SquareRoot, Ridge


@dataclass(eq=False, repr=False, kw_only=True)
class HuberLasso(NamedRegressor):
    """Huber regression with the lasso.

    Other parameters and attributes are those of `PathRegressor`.

    Parameters
    ----------
    delta : float, default=1.35
        Where the loss turns from quadratic to linear, in robust standard deviations of y (median
        absolute deviation / 0.6745), so that the fit does not depend on the units of y. In units
        of y it is ``delta * model.y_scale_``, the ``delta`` of ``model.loss_``.
    """

    delta: float = 1.35

    loss_class: ClassVar[Any] = Huber
    penalty_class: ClassVar[Any] = Lasso


class HuberRidge(HuberLasso):
    """Huber regression with the ridge penalty.

    Parameters and attributes are those of `HuberLasso`.
    """

    penalty_class = Ridge
