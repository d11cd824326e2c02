"""Base class of the estimators: validate, standardise, tune, keep."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from inspect import signature
from numbers import Integral, Real
from operator import attrgetter
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.validation import check_is_fitted, validate_data

from steinpath._support.arrays import Array, beside, cast, is_foreign, namespace, to_numpy
from steinpath._support.cells import library_of
from steinpath._support.messages import Message, Remedy, prefixed, with_closest
from steinpath._support.printing import Summary, number, with_error
from steinpath._support.progress import listener, printing, tell
from steinpath._support.threads import in_threads, threads_of_tasks
from steinpath._support.validation import (
    Captured,
    capturing_warnings,
    check_array,
    check_choice,
    check_count,
    check_flag,
    check_instance,
    check_number,
    is_own,
    warn,
)
from steinpath.algorithms._base import ProximalAlgorithm
from steinpath.design._base import Design
from steinpath.design._conversion import (
    check_response,
    check_same_library,
    following,
    readable,
    remote_rows,
)
from steinpath.design._memmap import BlockDesign, needs_blocks
from steinpath.engine._batch import Batch, DeferredBatch
from steinpath.engine._data import RunData, enough_precision, prepare
from steinpath.engine._gap import not_converged
from steinpath.engine._path import Path
from steinpath.engine._run import run_data
from steinpath.estimators._basis import basis_of
from steinpath.estimators._docstrings import of_features
from steinpath.estimators._fit import (
    CallbackSupportMixin,
    PreparedRows,
    Progress,
    prepare_rows,
    with_callbacks,
)
from steinpath.estimators._levels import Level, fit_levels
from steinpath.problem._grid import (
    LARGEST_LAM,
    MOST_LAMS,
    PenaltyOf,
    check_lam_values,
    in_units,
    is_sequence,
    make_penalty,
    named_loss,
    named_penalty,
    robust_spread,
    scaled_test_loss,
    values_of,
)
from steinpath.problem._losses import LAD, LOSSES, Loss
from steinpath.problem._penalties import PENALTIES, NoPenalty
from steinpath.problem._scoring import CRITERIA, TestLoss
from steinpath.risk._options import RiskOptions
from steinpath.risk._stopping import growing_horizons
from steinpath.tuning._tune import (
    DEFAULT_ALGORITHM,
    RULES,
    Problem,
    check_n_iter,
    search,
    start_all,
    variants_of,
)
from steinpath.tuning._tuning import Tuning

# Values of alpha on the grid of "auto", limit of (rows + columns) × values, and fewest values.
_ALPHAS, _ROOM, _FEWEST_ALPHAS = 20, 1_000_000, 5
# Numbers of iterations after which a run on a cluster without a risk estimate may have converged.
_LENGTHS = [100, 200, 400, 800, 1600]
# Error relative to that of a constant, below which a fit is remarked on. The penalty and early
# stopping leave an error of about a thousandth where features determine the target.
_EXACT = 5e-3
# Attributes of fits that hold the training data: pickled and copied models do not have them.
_WITH_ROWS = ("_search", "_tuning", "_path", "_groups", "_warm", "_left_out")
# Private attributes of fits.
_PRIVATE = ("_frame_library", "_dependence", "_relative_error", *_WITH_ROWS)
# Attributes that are those of the rows, and the same for fits with other responses.
_OF_ROWS = (
    *("n_features_in_", "feature_names_in_", "_frame_library"),
    *("terms_", "_near", "transform_target_"),
)
# Parameters that the runs do not depend on: with others, a warm start continues the same runs.
_AFTER_RUNS = (
    *("n_iter", "select", "test_loss", "method", "row_scale", "audit", "cv", "rule", "tol"),
    *("warm_start", "verbose", "random_state"),
)


class Part(NamedTuple):
    """One of several fits: the start of its messages, its responses, its own parameters."""

    prefix: str
    y: Any
    parameters: dict[str, Any]
    #: The classes of the rows of all fits, if they are classifiers.
    strata: np.ndarray | None = None


def _each_once(parts: Sequence[Part], said: Sequence[Iterable[Any]]) -> list[tuple[Any, str]]:
    """Return what is said of the parts, and of which ones as a prefix: none if it is all."""
    of: dict[Any, list[str]] = {}
    for part, messages in zip(parts, said, strict=True):
        for message in dict.fromkeys(messages):
            of.setdefault(message, []).append(part.prefix.removesuffix(": "))
    return [(k, "" if len(own) == len(parts) else f"{', '.join(own)}: ") for k, own in of.items()]


class _Fit(NamedTuple):
    """A fit that was prepared: its data, and the problem of its search if there is one."""

    estimator: PathEstimator
    rows: PreparedRows
    design: Design
    data: RunData
    options: RiskOptions | None
    problem: Problem | None
    progress: Progress
    #: Smallest risk of other models, above which this one is not adjusted for selection carefully.
    limit: float
    #: Whether fits with other responses have the same columns.
    together: bool
    #: X, y, sample weights and groups as the user gave them.
    given: tuple[Any, Any, Any, Any]

    def search(self, fits: Sequence[_Fit]) -> list[Tuning]:
        """Search for alpha and the iteration of fits to the same rows, of which this is the first.

        A warm start continues the search of the last fit.
        """
        one, several = self.estimator, len(fits) > 1
        assert self.options is not None
        alone = several and (one.warm_start or not self.together or self.progress.listened)
        groups = [[fit] for fit in fits] if alone else [fits]
        tunings = list[Tuning]()
        for some in groups:
            first = some[0].estimator
            call = partial(
                search,
                [fit.problem for fit in some if fit.problem is not None],
                first._algorithm(),
                self.options,
                check_random_state(first.random_state).randint(np.iinfo(np.int32).max),
                n_iter=check_n_iter(first.n_iter),
                rule=first.rule,
                iterate=first._iterate(),
                limit=self.limit,
            )
            again = cache(call)  # for all of them, if it is needed again
            for k, fit in enumerate(some):
                fit.estimator._search = again, k
            resume = first._continued if first.warm_start else None
            watch = None if len(some) > 1 else partial(self.progress.watch, some[0].rows)
            tunings += call(resume=resume, watch=watch)
        for k, tuning in enumerate(tunings):
            if tuning.naive_risk > self.limit:  # it will not be selected
                context = tuning.context._replace(nested=False)
                tunings[k] = replace(tuning, context=context)
        quiet = listener.get() is None and isinstance(self.data.y, np.ndarray)
        if several and quiet and not self.design.is_remote:  # what takes longest
            own = all(is_own(risk.criterion) for tuning in tunings for risk in tuning.risks[:1])
            own = own and is_own(self.data.loss)
            size = math.prod(self.design.shape) * len(tunings[0].lams)
            in_threads(attrgetter("chosen"), tunings, threads_of_tasks(size) if own else 1)
        return tunings


@dataclass(eq=False, repr=False, kw_only=True)
class PathEstimator(CallbackSupportMixin, BaseEstimator):  # type: ignore[misc]
    """Base class of all estimators; see `PathRegressor` for the parameters."""

    alpha: Any = "auto"
    n_alphas: int | str = "auto"
    alpha_ratio: float | None = None
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
    positive: bool = False

    #: Whether fits keep `tuning_`, which takes much memory, because it is used right after.
    keeps_search = False

    def __new__(cls, *args: Any, **parameters: Any) -> Self:
        """Refuse unknown parameters, and say those that exist."""
        if parameters:
            known = signature(cls.__init__).parameters
            unknown = [name for name in parameters if name not in known]
            if unknown and all(each.kind != each.VAR_KEYWORD for each in known.values()):
                own = sorted(known.keys() - {"self"})
                raise TypeError(
                    f"{cls.__name__} has no parameter {with_closest(unknown, own)}; its "
                    f"parameters are {', '.join(own)}"
                )
        new: Self = super().__new__(cls)
        return new

    @abstractmethod
    def _loss(self, spread: float = 1.0) -> Loss:
        """Return the loss; ``spread`` is the unit of its width parameter."""

    @abstractmethod
    def _penalty(self, loss: Loss | None = None, spread: float = 1.0) -> PenaltyOf:
        """Return the penalty as a function of ``lam``, for this loss and spread of y."""

    @abstractmethod
    def _given_params(self) -> list[tuple[Any, dict[str, Any]]]:
        """Return the classes of the loss and the penalty, if known, and their parameters."""

    def _params(self, spread: float) -> dict[str, list[float]]:
        """Return values of parameters to select from, widths in units of ``spread``."""
        found = {}
        for kind, given in self._given_params():
            spec = kind.parameter_spec
            if spec is not None and is_sequence(given.get(spec.name)):
                values = values_of(kind, given[spec.name])
                found[spec.name] = [spec.in_units(value, spread) for value in values]
        return found

    @abstractmethod
    def _score(self, y: Any, predictions: np.ndarray, sample_weight: Any) -> float:
        """Return the score of predictions."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> PathEstimator:
        """Fit a path for every ``alpha``, and select ``alpha`` and iteration by estimated risk.

        Several quantiles, and more than two classes (one-vs-rest), are fitted one by one, each with
        its own selection.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The features. A `numpy.memmap` is read in blocks, and may be larger than memory. With
            scikit-learn's array API dispatch, arrays of other libraries, such as torch tensors on a
            GPU, are fitted on their device. Rows on a cluster, as from
            `steinpath.distributed.from_files`, stay there; so do Dask arrays and data frames, if
            there is a Dask client.
        y : array-like of shape (n_samples,)
            The responses, or labels of classes: numbers, strings or booleans. They and other arrays
            with one entry per row are moved to the device of X.
        sample_weight : array-like of shape (n_samples,), optional
            Sample weights. Integer weights are frequency weights: the results are those of repeated
            rows, and rows with weight 0 are left out. Otherwise each row is one observation, whose
            loss is multiplied by its weight in the objective and in all errors; see
            `steinpath.estimate_risk` for the weights for which the estimated risk is valid.
        groups : array-like of shape (n_samples,), optional
            Group labels of the rows, such as subjects with repeated measurements. Whole groups are
            held out, and the estimated risk is that on new groups.

        Returns
        -------
        self
            The fitted estimator.
        """
        auto = getattr(self, "transform_target", None) == "auto"
        if auto or basis_of(X) is not None:
            self._keep(_fitted(fit_levels(self, X, y, sample_weight, groups)))
            return self
        return self._fit_all(X, y, sample_weight, groups)  # type: ignore[no-any-return]

    def _parts(self, y: Any, sample_weight: Any) -> list[Part] | None:
        """Return what is fitted together; None for a single fit."""
        return None

    @with_callbacks  # type: ignore[untyped-decorator]
    def _fit_all(self, X: Any, y: Any, sample_weight: Any, groups: Any) -> PathEstimator:
        # a fit replaces an earlier one as a whole, or not at all if an error is raised
        parts = self._parts(y, sample_weight)
        with printing(self.verbose, type(self).__name__):
            every = parts or [Part("", y, {})]
            fitted, progress = self._fit_parts(X, every, sample_weight, groups)
        if not self.keeps_search:
            for one in fitted:
                one.__dict__.pop("_tuning", None)
        if parts is None:
            self._keep(_fitted(fitted[0]))
        else:
            self._keep(self._together(fitted, parts, X, y, sample_weight, groups))
        progress.end()
        return self

    def _fit_parts(
        self, X: Any, parts: Sequence[Part], sample_weight: Any, groups: Any
    ) -> tuple[list[PathEstimator], Progress]:
        """Fit an estimator for each part, in one batch and with the same folds."""
        common, before = self.get_params(deep=False), getattr(self, "estimators_", [self])
        if len(parts) > 1:
            seed, cv = self.random_state, self.cv
            if not isinstance(seed, Integral):
                seed = check_random_state(seed).randint(np.iinfo(np.int32).max)
            common |= {"random_state": seed, "cv": list(cv) if isinstance(cv, Iterator) else cv}
        fitted = [type(self)(**common | part.parameters) for part in parts]
        if self.warm_start and len(before) == len(parts):
            for one, earlier in zip(fitted, before, strict=True):
                one.__dict__ |= {k: v for k, v in vars(earlier).items() if k == "_warm"}
        fits, messages = list[_Fit](), list[Captured]()
        for one, part in zip(fitted, parts, strict=True):
            with capturing_warnings() as captured:
                given = X, part.y, sample_weight, groups
                first = fits[0] if fits else None
                fits.append(one._begin(given, self, first, part.strata, len(parts)))
            messages.append(captured)
        tunings: Sequence[Tuning | None] = [None] * len(fits)
        if fits[0].problem is not None:
            tunings = fits[0].search(fits)
        for one, fit, tuning, said in zip(fitted, fits, tunings, messages, strict=True):
            with capturing_warnings() as captured:
                one._end(fit, tuning)
            said += captured
        for (text, category), prefix in _each_once(parts, messages):
            warn(prefixed(prefix, text), category)
        return fitted, fits[0].progress

    def _together(
        self, fitted: list[PathEstimator], parts: Sequence[Part], *data: Any
    ) -> dict[str, Any]:
        """Return the attributes of several fits to data: arrays with one more axis, the first."""
        first, attributes = fitted[0], dict[str, Any](estimators_=fitted)
        for name in (name for name in _STACKED if hasattr(first, name)):
            values = [getattr(one, name) for one in fitted]
            foreign = is_foreign(values[0])
            stacked = namespace(values[0]).stack(values) if foreign else np.stack(values)
            attributes[name] = beside(stacked, first.coef_)
        attributes |= {name: value for name, value in vars(first).items() if name in _SHARED}
        if hasattr(first, "warnings_"):
            messages = _each_once(parts, [one.warnings_ for one in fitted])
            attributes["warnings_"] = tuple(prefixed(prefix, text) for text, prefix in messages)
        return attributes

    def _begin(
        self,
        given: tuple[Any, Any, Any, Any],
        called: PathEstimator,
        first: _Fit | None = None,
        strata: np.ndarray | None = None,
        count: int = 1,
    ) -> _Fit:
        """Prepare the fit of this new estimator to X, y, sample weights and groups.

        It is one of ``count`` fits for the estimator ``called``, which has the callbacks. The rows
        may be those of a ``first`` fit, with another y. ``strata`` are the classes of all fits.
        """
        self._check_parameters()
        level: Level | None = vars(called).get("_level")
        if first is not None:
            earlier = vars(first.estimator).items()
            self.__dict__ |= {name: value for name, value in earlier if name in _OF_ROWS}
            design, options, progress = first.design, first.options, first.progress
            rows = first.rows if given[1] is first.given[1] else first.rows.with_y(given[1])
        else:
            X, y, sample_weight, groups = given
            self._frame_library = library_of(X)
            X, y, sample_weight = self._validated(X, y, sample_weight)
            if level is not None:
                X, self.terms_, self._near = level.terms(X), level.terms, level.alphas
            options = self._options(y if strata is None else strata, groups)
            progress = Progress(called, X, y, sample_weight, _fitted(self), count)
            how = {"standardize": self.standardize, "about_mean": self.fit_intercept}
            how |= self._rounding(X, y, count)
            self._needs_risk()
            rows, design = prepare_rows(X, y, sample_weight, self.method is not None, **how)
            if options is not None:
                options = options.but(strata=strata)
                options = options if rows.sources is None else options.some_rows(rows.sources)
        design.screen = None if level is None else level.screen(rows)
        if self.warm_start:
            own = self.get_params(deep=False).items()
            self._key = rows.fingerprint({k: value for k, value in own if k not in _AFTER_RUNS})
        self.n_samples_, self.scale_ = int(rows.y.shape[0]), rows.scale
        self.y_scale_ = robust_spread(rows.y, rows.weights)
        self.loss_, problem, scale = self._loss(self.y_scale_), None, self.y_scale_

        def prepared(loss: Loss) -> RunData:
            return prepare(design, rows.y, loss, self.fit_intercept, rows.weights)

        parts = self._params(scale), self.loss_, self._penalty(self.loss_, scale)
        variants = variants_of(*parts, prepared)
        data = variants[0].data
        if options is not None:
            alphas = self._alphas(design)
            lams = alphas if isinstance(alphas, int) else alphas * math.sqrt(design.shape[0])
            problem = Problem(variants, lams, self.alpha_ratio, self._scoring_loss(rows))
        elif len(variants) > 1:
            raise ValueError(
                f"several values of {', '.join(variants[0].params)} require a risk estimate to "
                "select from; use method='auto'"
            )
        limit = math.inf if level is None else level.limit
        together = level is None or level.chosen is None or b"" in level.chosen
        return _Fit(self, rows, design, data, options, problem, progress, limit, together, given)

    def _end(self, fit: _Fit, tuning: Tuning | None) -> None:
        """Store the results of a fit."""
        rows, design = fit.rows, fit.design
        if tuning is None:
            path, t = self._run_alone(fit)
            self.best_index_, self.alphas_ = 0, self._alphas(design)
        else:
            self._tuning, whole, tuning = tuning, tuning, tuning.at_best_params()
            self.alphas_ = tuning.lams / math.sqrt(design.shape[0])
            given = self._alphas(design)
            if not isinstance(given, int):  # as the user wrote them
                self.alphas_ = given[np.isin(given * math.sqrt(design.shape[0]), tuning.lams)]
            for name in whole.params:
                spec = self.loss_.parameter_spec
                of_loss = spec is not None and name == spec.name
                unit = spec.in_units(1.0, self.y_scale_) if spec and of_loss else 1.0
                setattr(self, f"{name}_", whole.best_params[name] / unit)
            self.loss_ = tuning.path.loss
            batch = tuning.context.batch
            if self.warm_start and not isinstance(batch, DeferredBatch):
                self._warm = self._key, batch
            self._keep_tuning(tuning, rows)
            path, (self.best_index_, t) = tuning.path, tuning.best
        self.best_iter_ = t
        self.n_iter_ = path.n_iter if tuning is None else int(tuning.risk.shape[1]) - 1
        # run again where its iterates are needed, since these are not kept
        again = run_data, path.data, path.penalty, path.algorithm, path.n_iter
        self._path = partial(path.data.design.on_blocks, *again)
        self._groups = None if fit.options is None else fit.options.groups
        self.alpha_, self.penalty_ = float(self.alphas_[self.best_index_]), path.penalty
        self.__dict__ |= self._model(*rows.own_units(path.coef[t, :], float(path.intercept[t])))
        # array attributes are on the device of X: this is scikit-learn's convention
        self.alphas_ = beside(self.alphas_, rows.y)
        if self.select == "last" and (problem := not_converged(path, self.tol)):
            warn(
                f"{problem} (tol={self.tol:g}); increase n_iter, or use select='risk', which does "
                "not require convergence",
                ConvergenceWarning,
            )

    def _validated(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any, Any]:
        """Return the data, checked by scikit-learn; rows on a cluster stay there."""
        if (remote := remote_rows(X)) is not None:
            return remote, self._check_remote(X, remote, y), sample_weight
        X = readable("X", X)
        y, sample_weight = (
            None if values is None else readable(name, values)
            for name, values in (("y", y), ("sample_weight", sample_weight))
        )
        y = None if y is None else following(y, X)
        with np.errstate(invalid="ignore"):  # infinities of both signs, which then raise an error
            X, y = validate_data(self, X, y, **_accepted(X), y_numeric=True, ensure_min_samples=2)
        return X, y, sample_weight

    def _check_remote(self, given: Any, design: Design, y: Any) -> Array:
        """Return the responses of rows on a cluster; store the names of the columns."""
        if self.warm_start:
            raise ValueError("warm_start is not available for rows on a cluster; omit it")
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but y is None")
        y = check_response(y, design)
        if len(y) < 2:
            raise ValueError(f"X has n_samples = {len(y)}; at least 2 are required")
        self.n_features_in_ = design.shape[1]
        names = getattr(given, "columns", None)
        names = getattr(design, "column_names", None) if names is None else names
        if names is not None and all(isinstance(name, str) for name in names):
            self.feature_names_in_ = np.asarray(names, dtype=object)
        return y

    def _scoring_loss(self, rows: PreparedRows) -> TestLoss:
        """Return the scoring loss, with widths of named ones in units of the spread of y."""
        return self._scaled_test_loss(self.y_scale_)

    def _scaled_test_loss(self, spread: float) -> TestLoss:
        loss = self._loss(spread)
        spec = loss.parameter_spec
        if spec is None or spec.name not in self._params(spread):
            return scaled_test_loss(self.test_loss, loss, spread)
        # the same for several losses
        return scaled_test_loss(self.test_loss or LAD.test_loss, LAD(), spread)

    def _run_alone(self, fit: _Fit) -> tuple[Path, int]:
        """Run one penalty without estimating its risk; until convergence by default."""
        design, data = fit.design, fit.data
        n_iter, iterate, algorithm = check_n_iter(self.n_iter), self._iterate(), self._algorithm()
        assert iterate is not None  # checked before
        lams = np.asarray(self._alphas(design)) * math.sqrt(design.shape[0])
        penalty = self._penalty(self.loss_, self.y_scale_)
        own = make_penalty(penalty, lams[0])
        lengths, batch = _LENGTHS, None
        if not design.is_remote:
            batch = start_all(data, [own], algorithm)
            batch = self._continued(batch) if self.warm_start else batch
            lengths = growing_horizons(batch)
            watch = fit.progress.watch(fit.rows, data, batch.n_iter)
        if n_iter is not None or iterate >= 0:
            lengths = [max(iterate, 1) if n_iter is None else n_iter]
        for length in lengths:
            if batch is None:
                path: Path = data.design.on_blocks(run_data, data, own, algorithm, length)
            else:
                batch = batch.extended(length, watch) if length > batch.n_iter else batch
                path = batch[0]
            if path.n_iter < length or not not_converged(path, self.tol):
                break
        if self.warm_start and batch is not None:
            self._warm = self._key, batch
        return path, path.n_iter if iterate < 0 else min(iterate, path.n_iter)

    def _continued(self, new: Batch) -> Batch:
        """Return the runs of the last fit if this one can continue them, and else new ones."""
        key, old = vars(self).get("_warm", (None, new))
        longest = growing_horizons(new)[0] if self.n_iter == "auto" else self.n_iter
        usable = key is not None and key == self._key and old.n_iter <= longest
        # the data of that fit may have been modified in place since
        return old.with_data(new.data) if usable else new

    def _alphas(self, design: Design) -> Any:
        """Return the values of alpha, or their number."""
        if isinstance(make_penalty(self._penalty(), 1.0), NoPenalty):
            return np.zeros(1)
        if isinstance(self.alpha, Real):
            return np.array([check_number("alpha", self.alpha, low=0, high=LARGEST_LAM)])
        if not (isinstance(self.alpha, str) or self.alpha is None):
            return check_lam_values("alpha", self.alpha)
        if self.alpha != "auto":
            raise ValueError(
                f"alpha must be 'auto', a number or an array of numbers, got {self.alpha!r}"
            )
        near = vars(self).get("_near")
        return self._count(sum(design.shape)) if near is None else near

    def _count(self, size: int) -> int:
        """Return the number of values of alpha on a grid, given the size of an iterate."""
        if self.n_alphas == "auto":
            return max(min(_ALPHAS, _ROOM // size), _FEWEST_ALPHAS)
        return check_count("n_alphas", self.n_alphas, high=MOST_LAMS)

    def _keep_tuning(self, tuning: Tuning, rows: PreparedRows) -> None:
        """Store the results of the search, and issue its warnings."""
        adjusted = with_error(tuning.best_risk, tuning.best_risk_stderr)
        tell(f"estimated risk adjusted for selection: {adjusted}")
        for name in _OF_SEARCH:
            setattr(self, f"{name}_", getattr(tuning, name))
        self.test_loss_ = tuning.risks[0].test_loss
        self.risk_path_, self.risk_stderr_ = tuning.risk, tuning.stderr
        self.train_path_, self.train_risk_ = tuning.train, float(tuning.train[tuning.best])
        self._keep_left_out(tuning, rows)
        on_own_grid = np.ndim(vars(self).get("_near", 0)) == 0
        if on_own_grid and (end := tuning.end_of_grid()) is not None:
            warn(self._about_end(end, tuning))
        self.warnings_ = tuning.warnings
        if self.select == "risk" and tuning.still_falls and tuning.stop != "interrupted":
            self.warnings_ = (_still_decreasing(tuning), *self.warnings_)
        for text in self.warnings_:
            warn(text, UserWarning if text in tuning.warnings else ConvergenceWarning)

    def _about_end(self, end: str, tuning: Tuning) -> Message:
        """Return a message about an alpha at the end of the grid."""
        selected = f"the {end} alpha on the grid was selected, and its estimated risk is lower than"
        selected += " that of the next one by more than a standard error"
        extend = f"{selected}; consider extending the grid: "
        if not isinstance(self.alpha, str):
            reached = f"{self.alphas_[tuning.best[0]]:.3g}"
            ends = f"{reached}, {reached} / 1000"
            if end == "largest":
                ends = f"100 * {reached}, {reached}"
            return Message(f"{extend}alpha=np.geomspace({ends}, 20)")
        if end == "largest":
            return Message(f"{selected}; the features may be only weakly related to the response")
        ratio = tuning.lams.min() / tuning.lams.max() / 10
        return Message(f"{extend}{{remedy}}", remedy=Remedy("alpha_ratio", float(f"{ratio:.1g}")))

    def _keep_left_out(self, tuning: Tuning, rows: PreparedRows) -> None:
        """Store results of held-out rows."""

    def _raise_risk(self, difference: float, stderr: float) -> None:
        """Adjust the risk for a selection between several fits."""
        own = self.__dict__
        own["best_risk_"] += difference
        own["best_risk_stderr_"] = np.maximum(own["best_risk_stderr_"], stderr)
        for one in getattr(self, "estimators_", ()):
            one._raise_risk(difference, one.best_risk_stderr_)

    @property
    def best_params_(self) -> dict[str, float]:
        """The selected ``alpha``, and other parameters that were selected, by name."""
        specs = (self.loss_.parameter_spec, self.penalty_.parameter_spec)
        own = {spec.name: getattr(self, f"{spec.name}_", None) for spec in specs if spec}
        selected = {name: value for name, value in own.items() if value is not None}
        return {"alpha": self.alpha_, **selected}

    @property
    def tuning_(self) -> Tuning:
        """The whole search, which is run again at first access, since it takes much memory."""
        if not {"_tuning", "_search"} & vars(self).keys():
            raise AttributeError(
                "tuning_ requires a fit that estimates the risk, and its rows, which a pickled, "
                "copied or loaded model does not contain; fit it again"
            )
        if "_tuning" not in vars(self):
            search, k = self._search
            how = {"n_iter": self.n_iter_} if self.stop_ == "interrupted" else {}
            self._tuning = search(**how)[k]
        return self._tuning

    def _model(self, coef: Array, intercept: Any) -> dict[str, Any]:
        """Return the attributes of a fitted model."""
        return {"coef_": coef, "intercept_": intercept}

    def __getstate__(self) -> dict[str, Any]:
        # a model that is pickled or copied does not contain the rows of its fit
        state: dict[str, Any] = super().__getstate__()
        return {name: value for name, value in state.items() if name not in _WITH_ROWS}

    def _keep(self, attributes: dict[str, Any]) -> None:
        """Replace the attributes of an earlier fit."""
        own = {name: value for name, value in vars(self).items() if not _is_fitted(name)}
        self.__dict__ = own | attributes

    # ----- Predictions -----

    def _linear(self, X: Any, method: str) -> Array:
        """Return linear predictions: one column for each row of `coef_`, if that has rows."""
        check_is_fitted(self)
        X = self._features(X, method)
        coef = self.coef_ if self.coef_.ndim == 1 else self.coef_.T
        xp = namespace(coef)
        with np.errstate(over="ignore", invalid="ignore"):  # the result is checked instead
            if isinstance(X, Design):
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
        if isinstance(X, Design):
            if X.shape[1] != self.n_features_in_:
                raise ValueError(
                    f"X has {X.shape[1]} features, but {type(self).__name__} is expecting "
                    f"{self.n_features_in_} features as input"
                )
            return X
        X = readable("X", X)
        check_same_library(X, self.coef_, f"{type(self).__name__}.{method}()")
        with np.errstate(invalid="ignore"):
            X = validate_data(self, X, reset=False, **_accepted(X))
        return self.terms_(X) if hasattr(self, "terms_") else X

    @of_features
    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the coefficient of determination R², or for classifiers the accuracy.

        Parameters
        ----------
        y : array-like of shape (n_samples,)
            The responses or labels.
        sample_weight : array-like of shape (n_samples,), optional
            Sample weights.

        Returns
        -------
        float
            Score of ``self.predict(X)``; with several quantiles, of the one nearest to the median.
        """
        predictions = to_numpy(self.predict(X))
        if sample_weight is not None:
            sample_weight = to_numpy(check_array("sample_weight", sample_weight, ndim=1))
        return self._score(y, predictions, sample_weight)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.array_api_support = True
        return tags

    # ----- Parameters -----

    def _check_parameters(self) -> None:
        """Check parameters that no other code checks."""
        self._count(1)
        n_iter = check_n_iter(self.n_iter)
        for name in ("fit_intercept", "standardize", "warm_start", "positive"):
            check_flag(name, getattr(self, name))
        check_number("tol", self.tol, low=0)
        if self.alpha_ratio is not None:
            ends = {"open_low": True, "open_high": True}
            check_number("alpha_ratio", self.alpha_ratio, low=0, high=1, **ends)
        if isinstance(self.select, Integral):
            check_count("select", self.select, low=0, high=n_iter or 10**9)
        elif not isinstance(self.select, str) or self.select not in ("risk", "last"):
            raise ValueError(f"select must be 'risk', 'last' or an iteration, got {self.select!r}")
        check_choice("rule", self.rule, RULES)
        if isinstance(self.test_loss, str):
            check_choice("test_loss", self.test_loss, CRITERIA)
        check_instance("algorithm", self._algorithm(), ProximalAlgorithm, "sp.ChambollePock()")
        self._loss()
        self._options()
        self._needs_risk()

    def _rounding(self, X: Any, y: Array, parts: int = 1) -> dict[str, Any]:
        """Return the precision of the run: single precision is enough for large tables."""
        whole = (is_foreign(X) or isinstance(X, np.ndarray)) and not needs_blocks(X)
        whole = whole and X.dtype == namespace(X).float64
        if not whole or not self.standardize or not self.fit_intercept or self.warm_start:
            return {}
        runs, given = self._count(sum(X.shape)), self.alpha
        if not isinstance(given, str):
            runs = math.prod(given.shape) if hasattr(given, "shape") else np.size(given)
        dtype = enough_precision(to_numpy(y), sum(X.shape) * runs * parts)
        return {"centre": True, "dtype": dtype} if dtype == "float32" else {}

    def _needs_risk(self) -> bool:
        """Whether the risk is needed for selection; raise an error if it is not estimated."""
        fixed = isinstance(self.alpha, Real)
        fixed = fixed or isinstance(make_penalty(self._penalty(), 1.0), NoPenalty)
        needed = self.select == "risk" or not fixed
        if needed and self.method is None:
            raise ValueError(
                "method=None estimates no risk, which selection needs: use a number for alpha, and "
                "select='last' or an iteration"
            )
        return needed

    def _iterate(self) -> int | None:
        """Return the iteration to use, -1 for the last one; None to select it."""
        if self.select == "risk":
            return None
        return -1 if self.select == "last" else int(self.select)

    def _algorithm(self) -> ProximalAlgorithm:
        if self.algorithm is not None:
            return self.algorithm
        # a single penalty, until it has converged
        precise = isinstance(self.alpha, Real) and (self.select, self.n_iter) == ("last", "auto")
        return replace(DEFAULT_ALGORITHM, restart="auto") if precise else DEFAULT_ALGORITHM

    def _options(self, y: Array | None = None, groups: Any = None) -> RiskOptions | None:
        """Return how the risk is estimated, on these rows if they are given; None if it is not."""
        if self.method is None:
            if self.cv is not None or groups is not None:
                name = "groups" if self.cv is None else "cv"
                raise ValueError(f"{name} has no effect with method=None, which estimates no risk")
            return None
        names = ("method", "row_scale", "test_loss", "audit")
        options = RiskOptions(**{name: getattr(self, name) for name in names})
        if y is None:
            return options
        return options.but(groups=groups, cv=self.cv).for_rows(to_numpy(y))

    # ----- Summaries -----

    def summary(self) -> Summary:
        """Summarise the fitted model as a table, in the style of statsmodels.

        Returns
        -------
        Summary
            ``print`` it for plain text; notebooks show it as HTML. It has the model, the selected
            ``alpha`` and iteration, the risk adjusted for selection, other errors, the number of
            nonzero coefficients, and warnings; for several quantiles or classes, a row for each.
        """
        check_is_fitted(self)
        fitted = getattr(self, "estimators_", [self])
        one, notes = fitted[0], ("No risk was estimated (method=None).",)
        if hasattr(one, "best_risk_"):
            note = "Estimated risk adjusted for selection of alpha and iteration; ± one standard "
            notes = (f"{note}error.", *getattr(self, "warnings_", ()), *about_exact_fit(one))
        penalty = make_penalty(one._penalty(), 1.0)
        facts = [
            ("Loss", repr(one.loss_) if one is self else type(one.loss_).__name__),
            ("Penalty", str(getattr(penalty, "label", type(penalty).__name__))),
            ("Algorithm", type(self._algorithm()).__name__),
            ("No. Observations", str(one.n_samples_)),
            ("No. Features", str(one.coef_.shape[-1])),
        ]
        facts += [("Scoring Loss", one.test_loss_)] if hasattr(one, "test_loss_") else []
        title = f"{type(self).__name__} Results"
        if one is self:
            return Summary(title, (*facts, *self._figures()), notes=notes)
        rows = list[tuple[str, ...]]()
        for k, model in enumerate(fitted):
            risk = "", ""
            if hasattr(model, "best_risk_"):
                risk = number(model.best_risk_), number(model.best_risk_stderr_, 2)
            selected = number(model.alpha_), str(model.best_iter_)
            rows.append((self._label(k), *selected, *risk, str(model._nonzero())))
        head = "alpha", "iteration", "risk", "std err", "nonzero"
        return Summary(title, (*facts, *self._error_rate()), head, tuple(rows), notes)

    def _figures(self) -> list[tuple[str, str]]:
        """Return the selected model and its errors."""
        k, count = getattr(self, "best_index_", 0), len(getattr(self, "alphas_", ()))
        other = [(f"Selected {name}", number(x)) for name, x in self.best_params_.items()][1:]
        facts = [
            ("Selected alpha", number(self.alpha_) + f" ({k + 1} of {count})" * (count > 1)),
            *other,
            ("Selected Iteration", f"{self.best_iter_} of {self.n_iter_}"),
        ]
        if hasattr(self, "best_risk_"):
            risk = with_error(self.best_risk_, self.best_risk_stderr_)
            facts += [("Estimated Risk", risk), ("Training Error", number(self.train_risk_))]
        if hasattr(self, "constant_risk_"):
            facts.append(("Constant-Prediction Error", number(self.constant_risk_)))
        nonzero = f"{self._nonzero()} of {self.coef_.shape[-1]}"
        if len(getattr(self, "levels_", ())) > 1:
            [words] = [level.words for level in self.levels_ if level.selected]
            facts.append(("Selected Terms", words))
        return [*facts, *self._error_rate(), ("Nonzero Coefficients", nonzero)]

    def _label(self, k: int) -> str:
        """Return the name of one of several fits in a summary."""
        return str(k)

    def _error_rate(self) -> list[tuple[str, str]]:
        """Return the error rate of a classifier."""
        return []

    def _nonzero(self) -> int:
        return int(np.count_nonzero(to_numpy(self.coef_)))


# Attributes of a search that a fit keeps.
_OF_SEARCH = ("best_risk", "best_risk_stderr", "naive_risk", "naive_risk_stderr", "stop")
# Attributes that several fits to the same data share; and those that are numbers, or arrays of the
# same shape for all of them.
_SHARED = (
    *("n_features_in_", "feature_names_in_", "n_samples_", "test_loss_", "scale_"),
    *("terms_", "transform_target_"),
)
_STACKED = (
    *("coef_", "intercept_", "alpha_", "best_index_", "best_iter_", "n_iter_"),
    *("best_risk_", "best_risk_stderr_", "naive_risk_", "naive_risk_stderr_"),
    *("train_risk_", "constant_risk_"),
)


def _is_fitted(name: str) -> bool:
    """Whether an attribute comes from a fit, by scikit-learn's naming convention."""
    return (name.endswith("_") and not name.startswith("_")) or name in _PRIVATE


def _fitted(estimator: PathEstimator) -> dict[str, Any]:
    return {name: value for name, value in vars(estimator).items() if _is_fitted(name)}


def about_exact_fit(estimator: Any, names: Sequence[str] | None = None) -> list[str]:
    """Return a note if features predict the target of a regression almost exactly.

    The error is the mean absolute error of held-out rows relative to that of their median, whatever
    the loss, so that it is in comparable units.
    """
    share = getattr(estimator, "_relative_error", 1.0)
    if not share < _EXACT:
        return []
    if names is None:
        names = getattr(estimator, "feature_names_in_", None)
        if names is not None and hasattr(estimator, "terms_"):
            names = estimator.terms_.names(names)
    sizes = np.abs(to_numpy(estimator.coef_).ravel() * to_numpy(estimator.scale_))
    largest = [j for j in np.argsort(-sizes, kind="stable")[:3].tolist() if sizes[j]]
    listed = ", ".join(f"{f'x{j}' if names is None else str(names[j])!r:.60}" for j in largest)
    percent = f"{share:.2%}" if share >= 1e-4 else "less than 0.01%"
    return [
        f"the features predict the target almost exactly (their error is {percent} of that of a "
        f"constant prediction); check whether columns such as {listed} are computed from the target"
    ]


def _still_decreasing(tuning: Tuning) -> Message:
    """Return a message that more iterations may be better."""
    n_iter = tuning.path.n_iter
    said = f"the estimated risk was still decreasing after {n_iter} iterations"
    said += ", the limit for data of this size" * (tuning.stop == "limit")
    remedy = Remedy("n_iter", 2 * n_iter)
    return Message(f"{said}; use a larger number, such as {{remedy}}", remedy=remedy)


def _accepted(X: Any) -> dict[str, Any]:
    """Return the checks of X by scikit-learn; a file is not read for them."""
    if needs_blocks(X):
        return {"dtype": None, "ensure_all_finite": False}
    xp = namespace(X) if is_foreign(X) else np
    return {"accept_sparse": ("csr", "csc"), "dtype": (xp.float64, xp.float32)}


@dataclass(eq=False, repr=False)
class GeneralEstimator(PathEstimator):
    """Base class of estimators with any loss and penalty, which may be given by name."""

    loss: str | Loss = ""
    penalty: str | PenaltyOf = "lasso"
    loss_params: dict[str, Any] | None = None
    penalty_params: dict[str, Any] | None = None

    #: Whether losses are margin losses.
    margin: ClassVar[bool] = False

    def _given_params(self) -> list[tuple[Any, dict[str, Any]]]:
        given: Any = [(LOSSES, self.loss, self.loss_params)]
        given.append((PENALTIES, self.penalty, self.penalty_params))
        return [(known[name], own or {}) for known, name, own in given if isinstance(name, str)]

    def _loss(self, spread: float = 1.0) -> Loss:
        if not isinstance(self.loss, str):
            example = "sp.Logistic()" if self.margin else "sp.LAD()"
            check_instance("loss", self.loss, Loss, example)
            if self.loss.margin != self.margin:
                other = "PathRegressor" if self.margin else "PathClassifier"
                raise ValueError(
                    f"loss={self.loss!r} is not available for {type(self).__name__}; use sp.{other}"
                )
            if self.loss_params:
                raise ValueError(f"loss_params requires a name for loss, got {self.loss!r}")
            return self.loss
        names = [name for name, kind in LOSSES.items() if kind.margin == self.margin]
        check_choice("loss", self.loss, names)
        return named_loss(LOSSES[self.loss], self.loss_params or {}, spread)

    def _penalty(self, loss: Loss | None = None, spread: float = 1.0) -> PenaltyOf:
        if isinstance(self.penalty, str):
            check_choice("penalty", self.penalty, PENALTIES)
            kind, own = PENALTIES[self.penalty], self.penalty_params or {}
            return named_penalty(kind, own, loss, spread, self.positive)
        if self.penalty_params or self.positive:
            name = "penalty_params" if self.penalty_params else "positive=True"
            raise ValueError(f"{name} requires a name for penalty, got {self.penalty!r:.60}")
        if self.penalty in PENALTIES.values():
            return named_penalty(self.penalty, {}, loss, spread)
        return in_units(self.penalty, loss, spread)


@dataclass(eq=False, repr=False, kw_only=True)
class NamedEstimator(PathEstimator):
    """Base class of estimators with one loss and one penalty, whose parameters they have."""

    loss_class: ClassVar[Any]
    penalty_class: ClassVar[Any]

    def __init_subclass__(cls, **options: Any):
        super().__init_subclass__(**options)
        # an own constructor, since errors of arguments name the class that has it
        dataclass(eq=False, repr=False, kw_only=True)(cls)

    def _given_params(self) -> list[tuple[Any, dict[str, Any]]]:
        return [(kind, self._own(kind)) for kind in (self.loss_class, self.penalty_class)]

    def _loss(self, spread: float = 1.0) -> Loss:
        return named_loss(self.loss_class, self._own(self.loss_class), spread)

    def _penalty(self, loss: Loss | None = None, spread: float = 1.0) -> PenaltyOf:
        own = self._own(self.penalty_class)
        return named_penalty(self.penalty_class, own, loss, spread, self.positive)

    def _own(self, kind: Any) -> dict[str, Any]:
        spec = kind.parameter_spec
        return {} if spec is None else {spec.name: getattr(self, spec.name)}
