"""Estimators for scikit-learn, whose penalty and iterate are chosen by their estimated risk."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, fields
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.validation import check_is_fitted, validate_data

from steinpath._support.arrays import to_numpy
from steinpath._support.equality import same, snapshot
from steinpath._support.validation import (
    check_array,
    check_choice,
    check_count,
    check_flag,
    check_instance,
    check_number,
    warn,
)
from steinpath.algorithms._base import ProximalAlgorithm
from steinpath.design._base import Design
from steinpath.design._memmap import BlockDesign, needs_blocks
from steinpath.design._remote import RemoteDesign
from steinpath.engine._batch import Batch
from steinpath.engine._data import RunData, prepare
from steinpath.engine._deferred import DeferredBatch
from steinpath.engine._loop import Watch
from steinpath.engine._null_model import lam_grid
from steinpath.engine._path import Path
from steinpath.estimators._callbacks import CallbackSupportMixin, Progress, with_callbacks
from steinpath.estimators._reading import readable
from steinpath.estimators._rows import (
    USUAL_ITERATIONS,
    PreparedRows,
    enough_precision,
    prepare_rows,
)
from steinpath.problem._grid import (
    LARGEST_LAM,
    MOST_LAMS,
    PenaltyOf,
    check_lam_values,
    make_penalty,
)
from steinpath.problem._losses import LAD, LOSSES, Huber, Loss, SquareRoot
from steinpath.problem._penalties import PENALTIES, ElasticNet, Lasso, NoPenalty, Ridge
from steinpath.problem._spread import robust_spread, scaled_test_loss
from steinpath.risk._options import RiskOptions
from steinpath.risk._stopping import growing_horizons
from steinpath.tuning._grid_end import end_of_grid
from steinpath.tuning._search import RULES, Search
from steinpath.tuning._tune import DEFAULT_ALGORITHM, check_n_iter, start_all
from steinpath.tuning._tuning import Tuning


class _Warm(NamedTuple):
    """What a warm start goes on from."""

    rows: PreparedRows
    #: The loss, the penalty and the algorithm as they were: the user's own may have changed since.
    problem: tuple[Any, ...]
    batch: Batch


@dataclass(eq=False, repr=False, kw_only=True)
class PathEstimator(RegressorMixin, CallbackSupportMixin, BaseEstimator):  # type: ignore[misc]
    """What all estimators have in common; see `PathRegressor` for the parameters."""

    alpha: Any = "auto"
    n_alphas: int = 20
    n_iter: int | str = "auto"
    select: Any = "risk"
    fit_intercept: bool = True
    standardize: bool = True
    algorithm: ProximalAlgorithm | None = None
    test_loss: Any = None
    method: str | None = "auto"
    row_scale: Any = "norm"
    audit: int | str = "folds"
    cv: Any = None
    rule: str = "min"
    tol: float = 1e-3
    warm_start: bool = False
    random_state: Any = None

    @abstractmethod
    def _loss(self, spread: float = 1.0) -> Loss:
        """Return what is minimised; ``spread`` is the unit of widths that are given as numbers."""

    @abstractmethod
    def _penalty(self) -> PenaltyOf:
        """Return the penalty as a function of ``lam``."""

    @with_callbacks  # type: ignore[untyped-decorator]
    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> PathEstimator:
        """Run the algorithm for every penalty, and choose.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The features. A `numpy.memmap` is read in blocks, and may be larger than memory.
        y : array-like of shape (n_samples,)
            The responses.
        sample_weight : array-like of shape (n_samples,), optional
            How often each row counts; equal weights are no weights. Integers are counts of
            separate observations: fit and choice are those of rows repeated so many times. Other
            weights need a fixed ``alpha``, and ``select`` an iterate or "last": the risk of a fit
            to rows that count unequally is not known.
        groups : array-like of shape (n_samples,), optional
            Labels of groups of rows that belong together, such as measurements of one subject:
            whole groups are left out, wherever rows are, and the estimated error is that on new
            groups.

        Returns
        -------
        self
        """
        # what is fitted replaces an earlier fit as a whole, or not at all if anything goes wrong
        fitted = object.__new__(type(self))
        fitted.__dict__ = self._without_a_fit()
        progress = fitted._fit(X, y, sample_weight, groups, self)
        self.__dict__ = self._without_a_fit() | fitted.__dict__
        progress.end()
        return self

    def _without_a_fit(self) -> dict[str, Any]:
        """Return the parameters, and whatever else does not come from a fit."""
        return {name: value for name, value in vars(self).items() if not _is_fitted(name)}

    def _fit(
        self, X: Any, y: Any, sample_weight: Any, groups: Any, called: PathEstimator
    ) -> Progress:
        """Do as `fit`, for the estimator that was called, which has the callbacks."""
        self._check_parameters()
        if isinstance(X, RemoteDesign):
            raise TypeError(
                f"{X!r} is not in this process, and estimators need X here; use sp.run and "
                "sp.estimate_risk for it"
            )
        X = readable("X", X)
        y, sample_weight = (
            None if values is None else readable(name, values)
            for name, values in (("y", y), ("sample_weight", sample_weight))
        )
        with np.errstate(invalid="ignore"):  # infinities of both signs, before they are refused
            X, y = validate_data(self, X, y, **_accepted(X), y_numeric=True, ensure_min_samples=2)
        options = None
        if self.method is not None:
            options = self._risk_options().but(groups=groups, cv=self.cv).for_rows(y)
        elif groups is not None:
            raise ValueError("groups make no difference with method=None, which estimates no risk")
        known = {name: value for name, value in vars(self).items() if _is_fitted(name)}
        progress = Progress(called, X, y, sample_weight, known)
        rows, design = prepare_rows(
            X,
            y,
            sample_weight,
            self._needs_risk(),
            self.standardize,
            about_mean=self.fit_intercept,
            **self._rounding(X, y),
        )
        if options is not None and rows.sources is not None:
            options = options.some_rows(rows.sources)
        batch, (k, t) = self._run(rows, design, options, progress)
        path = batch[k]
        self.best_index_, self.best_iter_, self.n_iter_ = k, t, path.n_iter
        self.alpha_ = float(self.alphas_[k])
        self.coef_, self.intercept_ = path.coef[t] / rows.scale, float(path.intercept[t])
        self.intercept_ -= rows.shift(self.coef_)
        if self.select == "last" and (problem := _not_converged(path, self.tol)):
            warn(
                f"{problem} (tol={self.tol:g}): raise n_iter, or use select='risk', which needs "
                "no convergence",
                ConvergenceWarning,
            )
        return progress

    def predict_interval(self, X: Any, level: float = 0.9) -> np.ndarray:
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
        return self.intervals_.interval(self._features(X), level)

    def predict(self, X: Any) -> np.ndarray:
        """Predict the responses of rows.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The features.

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        check_is_fitted(self)
        X = self._features(X)
        with np.errstate(over="ignore", invalid="ignore"):  # the result is checked instead
            if needs_blocks(X):
                products = BlockDesign(X).matmat(self.coef_.T)
            else:
                products = safe_sparse_dot(X, self.coef_.T)
        # responses far from 0 may all be equal in single precision
        predictions = np.asarray(np.add(products, self.intercept_, dtype=float))
        if not np.isfinite(predictions).all():
            raise ValueError("X has entries too large: predictions are not finite")
        return predictions

    def _features(self, X: Any) -> Any:
        """Return the features of rows to predict, checked."""
        X = readable("X", X)
        with np.errstate(invalid="ignore"):
            return validate_data(self, X, reset=False, **_accepted(X))

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
        y = readable("y", y)
        if sample_weight is not None:
            sample_weight = to_numpy(check_array("sample_weight", sample_weight, ndim=1))
        return float(super().score(X, y, sample_weight))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _check_parameters(self) -> None:
        """Check what nothing else does."""
        check_count("n_alphas", self.n_alphas, high=MOST_LAMS)
        n_iter = check_n_iter(self.n_iter)
        for name in ("fit_intercept", "standardize", "warm_start"):
            check_flag(name, getattr(self, name))
        check_number("tol", self.tol, low=0)
        if isinstance(self.select, Integral):
            check_count("select", self.select, low=0, high=n_iter or 10**9)
        elif not isinstance(self.select, str) or self.select not in ("risk", "last"):
            raise ValueError(f"select must be 'risk', 'last' or an iterate, got {self.select!r}")
        check_choice("rule", self.rule, RULES)
        check_instance("algorithm", self._algorithm(), ProximalAlgorithm, "sp.ChambollePock()")
        self._loss()
        if self.method is not None:
            self._risk_options()
        elif self.cv is not None:
            raise ValueError("cv makes no difference with method=None, which estimates no risk")
        self._needs_risk()

    def _rounding(self, X: Any, y: np.ndarray) -> dict[str, Any]:
        """Say in which precision to run: of large tables, single is enough."""
        whole = isinstance(X, np.ndarray) and not needs_blocks(X) and X.dtype == np.float64
        if not whole or not self.standardize or not self.fit_intercept or self.warm_start:
            return {}
        runs = self.n_alphas if isinstance(self.alpha, str) else np.size(self.alpha)
        dtype = enough_precision(y, sum(X.shape) * runs * USUAL_ITERATIONS)
        return {"centre": True, "dtype": dtype} if dtype == np.float32 else {}

    def _needs_risk(self) -> bool:
        """Whether anything is to be chosen by its risk; refuse that where none is estimated."""
        fixed = isinstance(self.alpha, Real) or isinstance(
            make_penalty(self._penalty(), 1.0), NoPenalty
        )
        needed = self.select == "risk" or not fixed
        if needed and self.method is None:
            raise ValueError(
                "method=None estimates no risk, by which to choose: use a number for alpha, and "
                "select='last' or an iterate"
            )
        return needed

    def _go_on(
        self, batch: Batch, rows: PreparedRows, options: RiskOptions | None, watch: Watch | None
    ) -> tuple[Batch, tuple[int, int]]:
        """Run, and return which path and which iterate to take."""
        n_iter, iterate = check_n_iter(self.n_iter), None
        if self.select != "risk":
            iterate = -1 if self.select == "last" else int(self.select)
        if options is None or batch.data.rows.weights is not None:
            assert iterate is not None  # or this had been refused
            batch = self._without_risk(batch, n_iter, iterate, watch)
            return batch, (0, batch.n_iter if iterate < 0 else min(iterate, batch.n_iter))
        seed = check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
        lams = self.alphas_ * math.sqrt(batch.n_samples)
        test_loss = scaled_test_loss(self.test_loss, self.loss_, self.y_scale_)
        options = options.but(test_loss=test_loss)
        search = Search(batch, lams, options, seed, self.rule, iterate)
        tuning = search.run(n_iter, watch)
        self._keep_risk(tuning)
        self.intervals_ = tuning.intervals.rescaled(rows.scale, rows.centre)
        return search.batch, tuning.best

    def _without_risk(
        self, batch: Batch, n_iter: int | None, iterate: int, watch: Watch | None
    ) -> Batch:
        """Run one penalty; where nothing says how long, until it converges."""
        if n_iter is not None or iterate >= 0:
            wanted = max(iterate, 1) if n_iter is None else n_iter
            return batch.extended(wanted, watch) if wanted > batch.n_iter else batch
        for horizon in growing_horizons(batch):
            if horizon > batch.n_iter:
                batch = batch.extended(horizon, watch)
            if batch.n_iter < horizon or not _not_converged(batch[0], self.tol):
                break
        return batch

    def _algorithm(self) -> ProximalAlgorithm:
        return DEFAULT_ALGORITHM if self.algorithm is None else self.algorithm

    def _risk_options(self) -> RiskOptions:
        assert self.method is not None
        return RiskOptions(
            test_loss=self.test_loss,
            method=self.method,
            row_scale=self.row_scale,
            audit=self.audit,
        )

    def _run(
        self,
        rows: PreparedRows,
        design: Design,
        options: RiskOptions | None,
        progress: Progress,
    ) -> tuple[Batch, tuple[int, int]]:
        """Run all penalties side by side, or go on from where the last fit stopped; choose."""
        self.y_scale_ = robust_spread(rows.y, rows.weights)
        self.loss_ = loss = self._loss(self.y_scale_)
        penalty_of, algorithm = self._penalty(), self._algorithm()
        data = prepare(design, rows.y, loss, self.fit_intercept, rows.weights)
        self.alphas_, lams = self._grid(data, penalty_of)
        batch = start_all(data, penalty_of, lams, algorithm)
        problem = loss, batch.penalty, algorithm
        known = self._known(batch, problem, rows)
        problem = tuple(map(snapshot, problem)) if self.warm_start else problem
        batch = batch if known is None else known
        watch = progress.watch(data, rows, batch.n_iter)
        batch, best = self._go_on(batch, rows, options, watch)
        self._warm = None
        if self.warm_start and not isinstance(batch, DeferredBatch):
            self._warm = _Warm(rows.copy(), problem, batch)
        return batch, best

    def _grid(self, data: RunData, penalty: PenaltyOf) -> tuple[np.ndarray, np.ndarray]:
        """Return the penalties to try, on the scale of scikit-learn and as ``lam``."""
        root_n, example = math.sqrt(data.design.shape[0]), make_penalty(penalty, 1.0)
        if isinstance(example, NoPenalty):
            alphas = np.zeros(1)
        elif isinstance(self.alpha, Real):
            alphas = np.array([check_number("alpha", self.alpha, low=0, high=LARGEST_LAM)])
        elif isinstance(self.alpha, str) or self.alpha is None:
            if self.alpha != "auto":
                raise ValueError(f"alpha must be 'auto', a number or several, got {self.alpha!r}")
            lams = lam_grid(data, example, self.n_alphas)
            return lams / root_n, lams
        else:
            alphas = check_lam_values("alpha", self.alpha)
        return alphas, alphas * root_n

    def _known(self, new: Batch, problem: tuple[Any, ...], rows: PreparedRows) -> Batch | None:
        """Return the runs of the last fit, if this one goes on from them."""
        warm = getattr(self, "_warm", None)
        if not self.warm_start or warm is None:
            return None
        old = warm.batch
        goes_on = (
            old.n_iter <= (growing_horizons(new)[0] if self.n_iter == "auto" else self.n_iter)
            and all(map(same, warm.problem, problem))
            and old.data.fit_intercept == new.data.fit_intercept
            and len(old) == len(new)
            and warm.rows.equal(rows)
        )
        # the design of that fit may have been made of data that changed in place since
        return old.on(new.data) if goes_on else None

    def _keep_risk(self, tuning: Tuning) -> None:
        self.risk_path_, self.risk_stderr_ = tuning.risk, tuning.stderr
        self.train_path_, self.warnings_ = tuning.train, tuning.warnings
        self.best_risk_, self.best_risk_stderr_ = tuning.best_risk, tuning.best_risk_stderr
        self.naive_risk_ = tuning.naive_risk
        if self.select == "risk" and tuning.still_falls:
            n_iter = tuning.path.n_iter
            limit = ", the limit for data of this size" if tuning.stop == "limit" else ""
            warn(
                f"the estimated risk still falls after {n_iter} iterations{limit}: pass a larger "
                f"n_iter, such as n_iter={2 * n_iter}",
                ConvergenceWarning,
            )
        if end := end_of_grid(tuning, same_iterate=self.select != "risk"):
            reached = f"{self.alphas_[tuning.best[0]]:.3g}"
            beyond = f"alpha=np.geomspace({reached}, {reached} / 1000, 20)"
            if end == "largest":
                beyond = f"alpha=np.geomspace(100 * {reached}, {reached}, 20)"
            warn(
                f"the {end} alpha on the grid was selected, and its estimated risk is lower than "
                f"that of the next one by more than a standard error; consider extending the grid: "
                f"{beyond}"
            )
        for message in self.warnings_:
            warn(message)


def _is_fitted(name: str) -> bool:
    """Whether an attribute comes from a fit, as scikit-learn spells those."""
    return name.endswith("_") and not name.startswith("_")


def _accepted(X: Any) -> dict[str, Any]:
    """Return what scikit-learn is to check of X: of what is in a file, nothing that reads it."""
    if needs_blocks(X):
        return {"dtype": None, "ensure_all_finite": False}
    return {"accept_sparse": ("csr", "csc"), "dtype": (np.float64, np.float32)}


def _not_converged(path: Path, tol: float) -> str | None:
    """Say how far the last iterate is from the smallest objective, if that is too far."""
    gap, last, first = (float(x) for x in (path.gap[-1], path.objective[-1], path.objective[0]))
    if math.isinf(gap):  # not known
        moved = _movement(path)
        if moved <= tol:
            return None
        return (
            f"the fitted values still move by {moved:.2g} of the spread of y in the last tenth "
            f"of {path.n_iter} iterations"
        )
    # where the fit is nearly perfect, what it leaves says nothing of the scale
    scale = max(last, tol * first)
    rounding = 4 * np.finfo(path.response.dtype).eps * first
    if gap <= max(tol * scale, rounding):
        return None
    return (
        f"the algorithm did not converge in {path.n_iter} iterations: the duality gap of the last "
        f"iterate is {gap / scale:.2g} of its objective"
    )


def _movement(path: Path) -> float:
    """How far the fitted values moved in the last tenth of the iterations, relative to y."""
    moved = path.products[-1] - path.products[9 * path.n_iter // 10]
    spread = np.std(path.response)
    return float(np.sqrt(np.mean(moved**2)) / spread) if spread else 0.0


@dataclass(eq=False, repr=False)
class PathRegressor(PathEstimator):
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

    def _loss(self, spread: float = 1.0) -> Loss:
        if not isinstance(self.loss, str):
            check_instance("loss", self.loss, Loss, "sp.LAD()")
            return self.loss
        kind: Any = LOSSES[check_choice("loss", self.loss, LOSSES)]
        spec = kind.parameter_spec
        own = {} if spec is None else {spec.name: spec.in_units(spec.default, spread)}
        return kind(**own)  # type: ignore[no-any-return]

    def _penalty(self) -> PenaltyOf:
        if not isinstance(self.penalty, str):
            return self.penalty
        if self.penalty == NoPenalty.name:
            return lambda lam: NoPenalty()
        if self.penalty == "group_lasso":
            raise ValueError(
                "penalty='group_lasso' needs groups: pass functools.partial(sp.GroupLasso, "
                "groups=...)"
            )
        kind: Any = PENALTIES[check_choice("penalty", self.penalty, PENALTIES)]
        return kind  # type: ignore[no-any-return]


@dataclass(eq=False, repr=False, kw_only=True)
class NamedEstimator(PathEstimator):
    """An estimator of one loss and one penalty, whose parameters are its own."""

    loss_class: ClassVar[Any]
    penalty_class: ClassVar[Any]

    def _loss(self, spread: float = 1.0) -> Loss:
        parameters, spec = self._own(self.loss_class), self.loss_class.parameter_spec
        if spec is not None:
            value = spec.check(parameters[spec.name])
            parameters[spec.name] = spec.in_units(value, spread)
        loss: Loss = self.loss_class(**parameters)
        return loss

    def _penalty(self) -> PenaltyOf:
        return partial(self.penalty_class, **self._own(self.penalty_class))

    def _own(self, kind: Any) -> dict[str, Any]:
        names = (f.name for f in fields(kind) if f.name not in ("lam", "weights"))
        return {name: getattr(self, name) for name in names}


class LADLasso(NamedEstimator):
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


class LADRidge(NamedEstimator):
    """Least absolute deviations with the ridge penalty.

    Parameters and attributes are those of `PathRegressor`, but for ``loss`` and ``penalty``.
    """

    loss_class, penalty_class = LAD, Ridge


@dataclass(eq=False, repr=False, kw_only=True)
class LADElasticNet(NamedEstimator):
    """Least absolute deviations with the elastic net.

    Other parameters and attributes are those of `PathRegressor`.

    Parameters
    ----------
    l1_ratio : float, default=0.5
        Share of the lasso, between 0 (ridge) and 1 (lasso).
    """

    l1_ratio: float = 0.5

    loss_class, penalty_class = LAD, ElasticNet


class SqrtLasso(NamedEstimator):
    """Square-root lasso: least squares whose best penalty does not depend on the noise level.

    Parameters and attributes are those of `PathRegressor`, but for ``loss`` and ``penalty``.
    """

    loss_class, penalty_class = SquareRoot, Lasso


class SqrtRidge(NamedEstimator):
    """Square-root loss with the ridge penalty.

    Parameters and attributes are those of `PathRegressor`, but for ``loss`` and ``penalty``.
    """

    loss_class, penalty_class = SquareRoot, Ridge


@dataclass(eq=False, repr=False, kw_only=True)
class HuberLasso(NamedEstimator):
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
