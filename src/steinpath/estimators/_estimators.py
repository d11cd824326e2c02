"""Estimators for scikit-learn, whose penalty and iterate are chosen by their estimated risk."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.validation import check_is_fitted, validate_data

from steinpath._support.arrays import Array, beside, cast, is_foreign, namespace, to_numpy
from steinpath._support.equality import same, snapshot
from steinpath._support.validation import (
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
from steinpath.engine._path import Path, RemotePath
from steinpath.estimators._callbacks import CallbackSupportMixin, Progress, with_callbacks
from steinpath.estimators._reading import check_same_library, following, readable
from steinpath.estimators._remote import check_remote, remote_rows, run_remote
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
from steinpath.problem._losses import LOSSES, Loss
from steinpath.problem._penalties import PENALTIES, NoPenalty
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
class PathEstimator(CallbackSupportMixin, BaseEstimator):  # type: ignore[misc]
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
            The features. A `numpy.memmap` is read in blocks, and may be larger than memory. Arrays
            of other libraries, such as torch tensors on a GPU, are fitted where they are under
            scikit-learn's array API dispatch. Rows on a cluster, as of
            `steinpath.distributed.from_files`, stay there; so do Dask arrays and data frames, if
            there is a Dask client.
        y : array-like of shape (n_samples,)
            The responses. They, and what else has one entry per row, are moved to where X is.
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

    def _same_for_all(self) -> dict[str, Any]:
        """Return parameters by which estimators of all quantiles, or classes, agree."""
        seed, cv = self.random_state, self.cv
        if not isinstance(seed, Integral):
            seed = check_random_state(seed).randint(np.iinfo(np.int32).max)
        return {"random_state": seed, "cv": list(cv) if isinstance(cv, Iterator) else cv}

    def _without_a_fit(self) -> dict[str, Any]:
        """Return the parameters, and whatever else does not come from a fit."""
        return {name: value for name, value in vars(self).items() if not _is_fitted(name)}

    def _fit(
        self, X: Any, y: Any, sample_weight: Any, groups: Any, called: PathEstimator
    ) -> Progress:
        """Do as `fit`, for the estimator that was called, which has the callbacks."""
        self._check_parameters()
        if (remote := remote_rows(X)) is not None:
            y = check_remote(self, X, remote, y, sample_weight)
            return self._fit_checked(remote, y, None, groups, called)
        X = readable("X", X)
        y, sample_weight = (
            None if values is None else readable(name, values)
            for name, values in (("y", y), ("sample_weight", sample_weight))
        )
        y = None if y is None else following(y, X)
        with np.errstate(invalid="ignore"):  # infinities of both signs, before they are refused
            X, y = validate_data(self, X, y, **_accepted(X), y_numeric=True, ensure_min_samples=2)
        return self._fit_checked(X, y, sample_weight, groups, called)

    def _fit_checked(
        self, X: Any, y: Any, sample_weight: Any, groups: Any, called: PathEstimator
    ) -> Progress:
        """Do as `_fit`, with data that were checked."""
        options = None
        if self.method is not None:
            options = self._risk_options().but(groups=groups, cv=self.cv).for_rows(to_numpy(y))
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
        self._keep_run(path, rows, None if options is None else options.groups)
        self.__dict__ |= self._model(*rows.own_units(path.coef[t, :], float(path.intercept[t])))
        # attributes that are arrays are where X is: this is scikit-learn's convention
        self.__dict__ |= {"alphas_": beside(self.alphas_, rows.y)}
        if self.select == "last" and (problem := self._not_converged(path)):
            warn(
                f"{problem} (tol={self.tol:g}): raise n_iter, or use select='risk', which needs "
                "no convergence",
                ConvergenceWarning,
            )
        return progress

    def _model(self, coef: Array, intercept: Any) -> dict[str, Any]:
        """Return a model as attributes of the fitted estimator."""
        return {"coef_": coef, "intercept_": intercept}

    def _keep_left_out(self, tuning: Tuning, rows: PreparedRows) -> None:
        """Keep what is known of rows that were left out."""

    def _keep_run(self, path: Path, rows: PreparedRows, groups: np.ndarray | None) -> None:
        """Keep what is needed to look at the path of the chosen penalty again."""

    def _linear(self, X: Any, method: str) -> Array:
        """Return the linear predictions of rows: one for each row of `coef_`, if it has rows."""
        check_is_fitted(self)
        X = self._features(X, method)
        coef = self.coef_ if self.coef_.ndim == 1 else self.coef_.T
        xp = namespace(coef)
        with np.errstate(over="ignore", invalid="ignore"):  # the result is checked instead
            if isinstance(X, RemoteDesign):
                products = X.matmat(coef)
            elif needs_blocks(X):
                products = BlockDesign(X).matmat(coef)
            elif is_foreign(X):
                dtype = xp.result_type(X, coef)
                products = cast(X, dtype) @ cast(coef, dtype)
            else:
                products = safe_sparse_dot(X, coef)
        # responses far from 0 may all be equal in single precision
        dtype = xp.result_type(products.dtype, getattr(self.intercept_, "dtype", xp.float64))
        predictions = cast(products, dtype) + xp.asarray(self.intercept_, dtype=dtype)
        if not xp.all(xp.isfinite(predictions)):
            raise ValueError("X has entries too large: predictions are not finite")
        return predictions

    def _features(self, X: Any, method: str) -> Any:
        """Return the features of rows to predict, checked; ``method`` is what they are given to."""
        if isinstance(X, RemoteDesign):
            if X.shape[1] != self.n_features_in_:
                raise ValueError(
                    f"X has {X.shape[1]} features, but {type(self).__name__} is expecting "
                    f"{self.n_features_in_} features as input"
                )
            return X
        X = readable("X", X)
        check_same_library(X, self.coef_, f"{type(self).__name__}.{method}()")
        with np.errstate(invalid="ignore"):
            return validate_data(self, X, reset=False, **_accepted(X))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.array_api_support = True
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

    def _rounding(self, X: Any, y: Array) -> dict[str, Any]:
        """Say in which precision to run: of large tables, single is enough."""
        whole = (is_foreign(X) or isinstance(X, np.ndarray)) and not needs_blocks(X)
        whole = whole and X.dtype == namespace(X).float64
        if not whole or not self.standardize or not self.fit_intercept or self.warm_start:
            return {}
        runs = self.n_alphas
        if not isinstance(self.alpha, str):
            given = self.alpha
            runs = math.prod(given.shape) if hasattr(given, "shape") else np.size(given)
        dtype = enough_precision(to_numpy(y), sum(X.shape) * runs * USUAL_ITERATIONS)
        return {"centre": True, "dtype": dtype} if dtype == "float32" else {}

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
        self._keep_left_out(tuning, rows)
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
            if batch.n_iter < horizon or not self._not_converged(batch[0]):
                break
        return batch

    def _not_converged(self, path: Path) -> str | None:
        """Say how far the last iterate is from the smallest objective, if that is too far."""
        return _not_converged(path, self.tol)

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
    ) -> tuple[Sequence[Path], tuple[int, int]]:
        """Run all penalties side by side, or go on from where the last fit stopped; choose."""
        if isinstance(design, RemoteDesign):
            return run_remote(self, rows, design, options)
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


# Attributes of fits that are numbers, or arrays of the same shape for all of the same data.
_STACKED = (
    *("coef_", "intercept_", "alpha_", "best_index_", "best_iter_", "n_iter_"),
    *("best_risk_", "best_risk_stderr_", "naive_risk_"),
)


def put_together(fitted: list[Any]) -> dict[str, Any]:
    """Return attributes of several fits to the same X: arrays, which have one more axis, the first.

    Of the data and the fits themselves, `n_features_in_`, `feature_names_in_` and `estimators_`.
    """
    first, found = fitted[0], dict[str, Any]()
    for name in (name for name in _STACKED if hasattr(first, name)):
        values = [getattr(one, name) for one in fitted]
        if is_foreign(values[0]):
            found[name] = namespace(values[0]).stack(values)
        else:
            found[name] = beside(np.stack(values), first.coef_)
    names = ("n_features_in_", "feature_names_in_")
    found |= {name: getattr(first, name) for name in names if hasattr(first, name)}
    return found | {"estimators_": fitted}


def _is_fitted(name: str) -> bool:
    """Whether an attribute comes from a fit, as scikit-learn spells those."""
    return name.endswith("_") and not name.startswith("_")


def _accepted(X: Any) -> dict[str, Any]:
    """Return what scikit-learn is to check of X: of what is in a file, nothing that reads it."""
    if needs_blocks(X):
        return {"dtype": None, "ensure_all_finite": False}
    xp = namespace(X) if is_foreign(X) else np
    return {"accept_sparse": ("csr", "csc"), "dtype": (xp.float64, xp.float32)}


def _not_converged(path: Path, tol: float) -> str | None:
    """Say how far the last iterate is from the smallest objective, if that is too far."""
    gap = math.inf if isinstance(path, RemotePath) else float(path.gap[-1])
    if math.isinf(gap):  # not known
        moved = _movement(path)
        if moved <= tol:
            return None
        return (
            f"the fitted values still move by {moved:.2g} of the spread of y in the last tenth "
            f"of {path.n_iter} iterations"
        )
    last, first = float(path.objective[-1]), float(path.objective[0])
    # where the fit is nearly perfect, what it leaves says nothing of the scale
    scale = max(last, tol * first)
    response = path.response
    # a gap is a difference of sums over all rows, each of which is rounded
    rounding = 16 * float(namespace(response).finfo(response.dtype).eps) * first
    if gap <= max(tol * scale, rounding):
        return None
    return (
        f"the algorithm did not converge in {path.n_iter} iterations: the duality gap of the last "
        f"iterate is {gap / scale:.2g} of its objective"
    )


def _movement(path: Path) -> float:
    """How far the fitted values moved in the last tenth of the iterations, relative to y."""
    last, before = (
        path.products_at(slice(t, t + 1))[0, :] for t in (path.n_iter, 9 * path.n_iter // 10)
    )
    moved = last - before
    xp = namespace(moved)
    spread = float(xp.std(path.response))
    return math.sqrt(float(xp.mean(moved**2))) / spread if spread else 0.0


@dataclass(eq=False, repr=False)
class GeneralEstimator(PathEstimator):
    """An estimator of any loss and penalty, which may be given by name."""

    loss: str | Loss = ""
    penalty: str | PenaltyOf = "lasso"

    #: Whether losses are those of margins, and one of them.
    margin: ClassVar[bool] = False
    _example: ClassVar[str] = "sp.LAD()"

    def _loss(self, spread: float = 1.0) -> Loss:
        if not isinstance(self.loss, str):
            check_instance("loss", self.loss, Loss, self._example)
            if self.loss.margin != self.margin:
                other = "PathRegressor" if self.margin else "PathClassifier"
                raise ValueError(
                    f"loss={self.loss!r} is not one of {type(self).__name__}; use sp.{other}"
                )
            return self.loss
        names = [name for name, kind in LOSSES.items() if kind.margin == self.margin]
        kind: Any = LOSSES[check_choice("loss", self.loss, names)]
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
        given = ("lam", "weights", "class_weight")  # which are of the data
        names = (f.name for f in fields(kind) if f.name not in given)
        return {name: getattr(self, name) for name in names}
