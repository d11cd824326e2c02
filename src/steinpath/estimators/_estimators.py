"""Estimators for scikit-learn, whose penalty and iteration are selected by estimated risk."""

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
from steinpath._support.frames import library_of
from steinpath._support.printing import with_error
from steinpath._support.progress import printing, tell
from steinpath._support.summary import Summary
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
    """The state from which a warm start continues."""

    rows: PreparedRows
    #: Copies of the loss, the penalty and the algorithm, which users may have changed since.
    problem: tuple[Any, ...]
    batch: Batch


@dataclass(eq=False, repr=False, kw_only=True)
class PathEstimator(CallbackSupportMixin, BaseEstimator):  # type: ignore[misc]
    """Base class of all estimators; see `PathRegressor` for the parameters."""

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
    verbose: bool | int = False
    random_state: Any = None

    # Set by fits, for summaries and tables: the library of a data frame X, and the scoring loss.
    _frame_library: ClassVar[str | None] = None
    _scoring_loss: ClassVar[str | None] = None

    @abstractmethod
    def _loss(self, spread: float = 1.0) -> Loss:
        """Return the loss; ``spread`` is the unit of its width parameter."""

    @abstractmethod
    def _penalty(self) -> PenaltyOf:
        """Return the penalty as a function of ``lam``."""

    @with_callbacks  # type: ignore[untyped-decorator]
    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> PathEstimator:
        """Fit a path for every ``alpha``, and select ``alpha`` and iteration by estimated risk.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The features. A `numpy.memmap` is read in blocks, and may be larger than memory. With
            scikit-learn's array API dispatch, arrays of other libraries, such as torch tensors on a
            GPU, are fitted on their device. Rows on a cluster, as from
            `steinpath.distributed.from_files`, stay there; so do Dask arrays and data frames, if
            there is a Dask client.
        y : array-like of shape (n_samples,)
            The responses. They and other arrays with one entry per row are moved to the device of
            X.
        sample_weight : array-like of shape (n_samples,), optional
            Sample weights. Integer weights are frequency weights: the results are those of repeated
            rows. For other non-uniform weights the risk cannot be estimated; they require a fixed
            ``alpha`` and ``select="last"`` or a given iteration.
        groups : array-like of shape (n_samples,), optional
            Group labels of the rows, such as subjects with repeated measurements. Whole groups are
            held out, and the estimated risk is that on new groups.

        Returns
        -------
        self
            The fitted estimator.
        """
        # a fit replaces an earlier one as a whole, or not at all if an error is raised
        fitted = object.__new__(type(self))
        fitted.__dict__ = self._without_a_fit()
        with printing(self.verbose, type(self).__name__):
            progress = fitted._fit(X, y, sample_weight, groups, self)
        self.__dict__ = self._without_a_fit() | fitted.__dict__
        progress.end()
        return self

    def summary(self) -> Summary:
        """Summarise the fitted model as a table, in the style of statsmodels.

        Returns
        -------
        Summary
            ``print`` it for plain text; notebooks show it as HTML. It has the model, the size of
            the data, the selected ``alpha`` and iteration, the estimated risk adjusted for
            selection, the training error, the error of a constant prediction, the number of nonzero
            coefficients, and the warnings as numbered notes. Fits of several quantiles or classes
            have one row for each.
        """
        check_is_fitted(self)
        facts, title = list(self._description()), f"{type(self).__name__} Results"
        if not hasattr(self, "estimators_"):
            facts += self._figures()
            return Summary(title, tuple(facts), notes=self._notes())
        head = ("alpha", "iteration", "risk", "std err", "nonzero")
        rows = [(self._label(k), *each._row()) for k, each in enumerate(self.estimators_)]
        return Summary(title, tuple(facts), head, tuple(rows), self._notes())

    def _description(self) -> list[tuple[str, str]]:
        """Return the model and the size of the data."""
        one = self.estimators_[0] if hasattr(self, "estimators_") else self
        penalty = make_penalty(one._penalty(), 1.0)
        facts = [
            ("Loss", repr(one.loss_) if one is self else type(one.loss_).__name__),
            ("Penalty", str(getattr(penalty, "label", type(penalty).__name__))),
            ("Algorithm", type(self._algorithm()).__name__),
            ("No. Observations", str(one._n_samples)),
            ("No. Features", str(self.n_features_in_)),
        ]
        if one._scoring_loss is not None:
            facts.append(("Scoring Loss", one._scoring_loss))
        return facts

    def _figures(self) -> list[tuple[str, str]]:
        """Return the selected model and its errors."""
        k, t = self.best_index_, self.best_iter_
        count = len(self.alphas_)
        facts = [
            ("Selected alpha", f"{self.alpha_:.4g}" + f" ({k + 1} of {count})" * (count > 1)),
            ("Selected Iteration", f"{t} of {self.n_iter_}"),
        ]
        if hasattr(self, "best_risk_"):
            facts += [
                ("Estimated Risk", with_error(self.best_risk_, self.best_risk_stderr_)),
                ("Training Error", f"{float(self.train_path_[k, t]):.4g}"),
            ]
            if self.fit_intercept:
                constant = float(self.train_path_[k, 0])
                facts.append(("Constant-Prediction Error", f"{constant:.4g}"))
        return [*facts, ("Nonzero Coefficients", f"{self._nonzero()} of {self.n_features_in_}")]

    def _row(self) -> tuple[str, ...]:
        """Return the row of one of several fits in a summary."""
        risk = getattr(self, "best_risk_", None)
        known = ("", "") if risk is None else (f"{risk:.4g}", f"{self.best_risk_stderr_:.2g}")
        return f"{self.alpha_:.4g}", str(self.best_iter_), *known, str(self._nonzero())

    def _label(self, k: int) -> str:
        """Return the name of one of several fits in a summary."""
        return str(k)

    def _notes(self) -> tuple[str, ...]:
        if not hasattr(self, "best_risk_"):
            return ("No risk was estimated (method=None, or non-uniform sample weights).",)
        note = "Estimated risk adjusted for selection of alpha and iteration; ± one standard error."
        return (note, *getattr(self, "warnings_", ()))

    def _nonzero(self) -> int:
        return int(np.count_nonzero(to_numpy(self.coef_)))

    def _same_for_all(self) -> dict[str, Any]:
        """Return parameters that must be the same for all quantiles or classes."""
        seed, cv = self.random_state, self.cv
        if not isinstance(seed, Integral):
            seed = check_random_state(seed).randint(np.iinfo(np.int32).max)
        return {"random_state": seed, "cv": list(cv) if isinstance(cv, Iterator) else cv}

    def _without_a_fit(self) -> dict[str, Any]:
        """Return the parameters and other attributes that do not come from a fit."""
        return {
            name: value
            for name, value in vars(self).items()
            if not _is_fitted(name) and name not in _PRIVATE
        }

    def _fit(
        self, X: Any, y: Any, sample_weight: Any, groups: Any, called: PathEstimator
    ) -> Progress:
        """Do as `fit`, for the estimator ``called``, which has the callbacks."""
        self._check_parameters()
        self.__dict__ |= {"_frame_library": library_of(X), "_scoring_loss": None}
        if (remote := remote_rows(X)) is not None:
            y = check_remote(self, X, remote, y, sample_weight)
            return self._fit_checked(remote, y, None, groups, called)
        X = readable("X", X)
        y, sample_weight = (
            None if values is None else readable(name, values)
            for name, values in (("y", y), ("sample_weight", sample_weight))
        )
        y = None if y is None else following(y, X)
        with np.errstate(invalid="ignore"):  # infinities of both signs, which then raise an error
            X, y = validate_data(self, X, y, **_accepted(X), y_numeric=True, ensure_min_samples=2)
        return self._fit_checked(X, y, sample_weight, groups, called)

    def _fit_checked(
        self, X: Any, y: Any, sample_weight: Any, groups: Any, called: PathEstimator
    ) -> Progress:
        """Do as `_fit`, with validated data."""
        options = None
        if self.method is not None:
            options = self._risk_options().but(groups=groups, cv=self.cv).for_rows(to_numpy(y))
        elif groups is not None:
            raise ValueError("groups has no effect with method=None, which estimates no risk")
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
        self.__dict__["_n_samples"] = int(rows.y.shape[0])
        batch, (k, t) = self._run(rows, design, options, progress)
        path = batch[k]
        self.best_index_, self.best_iter_, self.n_iter_ = k, t, path.n_iter
        self.alpha_ = float(self.alphas_[k])
        self._keep_run(path, rows, None if options is None else options.groups)
        self.__dict__ |= self._model(*rows.own_units(path.coef[t, :], float(path.intercept[t])))
        # array attributes are on the device of X: this is scikit-learn's convention
        self.__dict__ |= {"alphas_": beside(self.alphas_, rows.y)}
        if self.select == "last" and (problem := self._not_converged(path)):
            warn(
                f"{problem} (tol={self.tol:g}); increase n_iter, or use select='risk', which does "
                "not require convergence",
                ConvergenceWarning,
            )
        return progress

    def _model(self, coef: Array, intercept: Any) -> dict[str, Any]:
        """Return the attributes of a fitted model."""
        return {"coef_": coef, "intercept_": intercept}

    def _keep_left_out(self, tuning: Tuning, rows: PreparedRows) -> None:
        """Store results of held-out rows."""

    def _keep_run(self, path: Path, rows: PreparedRows, groups: np.ndarray | None) -> None:
        """Store the data needed to run the selected penalty again."""

    def _linear(self, X: Any, method: str) -> Array:
        """Return linear predictions: one column for each row of `coef_`, if that has rows."""
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
        # predictions far from 0 could all be equal in single precision
        dtype = xp.result_type(products.dtype, getattr(self.intercept_, "dtype", xp.float64))
        predictions = cast(products, dtype) + xp.asarray(self.intercept_, dtype=dtype)
        if not xp.all(xp.isfinite(predictions)):
            raise ValueError("X has entries too large: predictions are not finite")
        return predictions

    def _features(self, X: Any, method: str) -> Any:
        """Return validated features of new rows; ``method`` is the name of the calling method."""
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
        """Check parameters that no other code checks."""
        check_count("n_alphas", self.n_alphas, high=MOST_LAMS)
        n_iter = check_n_iter(self.n_iter)
        for name in ("fit_intercept", "standardize", "warm_start"):
            check_flag(name, getattr(self, name))
        check_number("tol", self.tol, low=0)
        if isinstance(self.select, Integral):
            check_count("select", self.select, low=0, high=n_iter or 10**9)
        elif not isinstance(self.select, str) or self.select not in ("risk", "last"):
            raise ValueError(f"select must be 'risk', 'last' or an iteration, got {self.select!r}")
        check_choice("rule", self.rule, RULES)
        check_instance("algorithm", self._algorithm(), ProximalAlgorithm, "sp.ChambollePock()")
        self._loss()
        if self.method is not None:
            self._risk_options()
        elif self.cv is not None:
            raise ValueError("cv has no effect with method=None, which estimates no risk")
        self._needs_risk()

    def _rounding(self, X: Any, y: Array) -> dict[str, Any]:
        """Return the precision of the run: single precision is enough for large tables."""
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
        """Whether the risk is needed for selection; raise an error if it is not estimated."""
        fixed = isinstance(self.alpha, Real) or isinstance(
            make_penalty(self._penalty(), 1.0), NoPenalty
        )
        needed = self.select == "risk" or not fixed
        if needed and self.method is None:
            raise ValueError(
                "method=None estimates no risk, which selection needs: use a number for alpha, and "
                "select='last' or an iteration"
            )
        return needed

    def _go_on(
        self, batch: Batch, rows: PreparedRows, options: RiskOptions | None, watch: Watch | None
    ) -> tuple[Batch, tuple[int, int]]:
        """Run, and return the index of the selected path and the selected iteration."""
        n_iter, iterate = check_n_iter(self.n_iter), None
        if self.select != "risk":
            iterate = -1 if self.select == "last" else int(self.select)
        if options is None or batch.data.rows.weights is not None:
            assert iterate is not None  # checked before
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
        """Run one penalty; until convergence if no number of iterations is given."""
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
        """Return a message if the last iterate has not converged."""
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
        """Run all penalties together, or continue the last fit; and select."""
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
        """Return the grid of penalties, on the scale of scikit-learn and as ``lam``."""
        root_n, example = math.sqrt(data.design.shape[0]), make_penalty(penalty, 1.0)
        if isinstance(example, NoPenalty):
            alphas = np.zeros(1)
        elif isinstance(self.alpha, Real):
            alphas = np.array([check_number("alpha", self.alpha, low=0, high=LARGEST_LAM)])
        elif isinstance(self.alpha, str) or self.alpha is None:
            if self.alpha != "auto":
                raise ValueError(
                    f"alpha must be 'auto', a number or an array of numbers, got {self.alpha!r}"
                )
            lams = lam_grid(data, example, self.n_alphas)
            return lams / root_n, lams
        else:
            alphas = check_lam_values("alpha", self.alpha)
        return alphas, alphas * root_n

    def _known(self, new: Batch, problem: tuple[Any, ...], rows: PreparedRows) -> Batch | None:
        """Return the runs of the last fit, if this one can continue them."""
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
        # the data of that fit may have been modified in place since
        return old.on(new.data) if goes_on else None

    def _keep_risk(self, tuning: Tuning) -> None:
        adjusted = with_error(tuning.best_risk, tuning.best_risk_stderr)
        tell(f"estimated risk adjusted for selection: {adjusted}")
        self.__dict__["_scoring_loss"] = tuning.risks[0].test_loss
        self.risk_path_, self.risk_stderr_ = tuning.risk, tuning.stderr
        self.train_path_, self.warnings_ = tuning.train, tuning.warnings
        self.best_risk_, self.best_risk_stderr_ = tuning.best_risk, tuning.best_risk_stderr
        self.naive_risk_ = tuning.naive_risk
        if self.select == "risk" and tuning.still_falls:
            n_iter = tuning.path.n_iter
            limit = ", the limit for data of this size" if tuning.stop == "limit" else ""
            warn(
                f"the estimated risk was still decreasing after {n_iter} iterations{limit}; "
                f"increase n_iter, for example n_iter={2 * n_iter}",
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


# Private attributes of fits.
_PRIVATE = ("_frame_library", "_n_samples", "_scoring_loss")
# Attributes that are numbers, or arrays of the same shape for all fits to the same data.
_STACKED = (
    *("coef_", "intercept_", "alpha_", "best_index_", "best_iter_", "n_iter_"),
    *("best_risk_", "best_risk_stderr_", "naive_risk_"),
)


def put_together(fitted: list[Any]) -> dict[str, Any]:
    """Return attributes of several fits to the same X: arrays with one more axis, the first.

    `n_features_in_`, `feature_names_in_` and `estimators_` are added.
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
    """Whether an attribute comes from a fit, by scikit-learn's naming convention."""
    return name.endswith("_") and not name.startswith("_")


def _accepted(X: Any) -> dict[str, Any]:
    """Return the checks of X by scikit-learn; a file is not read for them."""
    if needs_blocks(X):
        return {"dtype": None, "ensure_all_finite": False}
    xp = namespace(X) if is_foreign(X) else np
    return {"accept_sparse": ("csr", "csc"), "dtype": (xp.float64, xp.float32)}


def _not_converged(path: Path, tol: float) -> str | None:
    """Return a message if the objective of the last iterate may be too far from its minimum."""
    gap = math.inf if isinstance(path, RemotePath) else float(path.gap[-1])
    if math.isinf(gap):  # not known
        moved = _movement(path)
        if moved <= tol:
            return None
        return (
            f"the fitted values changed by {moved:.2g} standard deviations of y in the last tenth "
            f"of {path.n_iter} iterations"
        )
    last, first = float(path.objective[-1]), float(path.objective[0])
    # the objective of a nearly perfect fit does not measure the scale
    scale = max(last, tol * first)
    response = path.response
    # a gap is a difference of rounded sums over all rows
    rounding = 16 * float(namespace(response).finfo(response.dtype).eps) * first
    if gap <= max(tol * scale, rounding):
        return None
    return (
        f"the algorithm did not converge in {path.n_iter} iterations: the duality gap of the last "
        f"iterate is {gap / scale:.2g} of its objective"
    )


def _movement(path: Path) -> float:
    """Return the change of the fitted values in the last tenth of the iterations, relative to y."""
    last, before = (
        path.products_at(slice(t, t + 1))[0, :] for t in (path.n_iter, 9 * path.n_iter // 10)
    )
    moved = last - before
    xp = namespace(moved)
    spread = float(xp.std(path.response))
    return math.sqrt(float(xp.mean(moved**2))) / spread if spread else 0.0


@dataclass(eq=False, repr=False)
class GeneralEstimator(PathEstimator):
    """Base class of estimators with any loss and penalty, which may be given by name."""

    loss: str | Loss = ""
    penalty: str | PenaltyOf = "lasso"

    #: Whether losses are margin losses; and an example.
    margin: ClassVar[bool] = False
    _example: ClassVar[str] = "sp.LAD()"

    def _loss(self, spread: float = 1.0) -> Loss:
        if not isinstance(self.loss, str):
            check_instance("loss", self.loss, Loss, self._example)
            if self.loss.margin != self.margin:
                other = "PathRegressor" if self.margin else "PathClassifier"
                raise ValueError(
                    f"loss={self.loss!r} is not available for {type(self).__name__}; use sp.{other}"
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
    """Base class of estimators with one loss and one penalty, whose parameters they have."""

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
        given = ("lam", "weights", "class_weight")  # not parameters of the estimator
        names = (f.name for f in fields(kind) if f.name not in given)
        return {name: getattr(self, name) for name in names}
