"""Fits to the data of a file: alpha and iteration selected, several losses compared."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar
from sklearn.model_selection import TimeSeriesSplit

from steinpath._support.arrays import in_own_precision, to_numpy
from steinpath._support.progress import begin
from steinpath._support.validation import check_array
from steinpath.app.encoding import Encoded, RemoteFeatures
from steinpath.app.encoding.messages import counted
from steinpath.app.model_spec import ModelSpec
from steinpath.app.reference_levels import ReportedCoefficients, report_coefficients
from steinpath.app.tables import DataError
from steinpath.design._base import Design
from steinpath.engine._path import Path
from steinpath.estimators._rows import (
    USUAL_ITERATIONS,
    PreparedRows,
    enough_precision,
    prepare_rows,
)
from steinpath.inference._prediction_intervals import PredictionIntervals
from steinpath.problem._penalties import PENALTIES, NoPenalty
from steinpath.problem._scoring import Criterion, TestLoss
from steinpath.risk._after_choice import ChosenRisk, compare_chosen
from steinpath.risk._estimate import Risk
from steinpath.risk._leave_out import LeftOutModels
from steinpath.tuning._tune import tune
from steinpath.tuning._tuning import Tuning

# Values of alpha on the grid; limit of (rows + columns) × values; fewest values.
_ALPHAS, _ROOM, _FEWEST_ALPHAS = 20, 1_000_000, 5
# The error cannot be estimated from fewer rows.
_FEWEST_ROWS = 10
# Blocks of later rows that are predicted from earlier rows; fewest blocks, and fewest earlier rows.
_TIME_BLOCKS, _FEWEST_BLOCKS, _FEWEST_EARLIER = 5, 2, 2
# Magnitudes of numbers: standard errors of squared errors take fourth powers.
_SMALLEST, _LARGEST = 1e-70, 1e70

#: Training and test rows of each block of later rows.
TimeSplits = list[tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True, eq=False)
class FitData:
    """Data that are ready to be fitted: centred columns of unit variance.

    Returned by `prepare_data`. `groups` and `cv` are as for `steinpath.tune`. For classification,
    `y` has the indices of classes; see `steinpath.app.classes`.
    """

    encoded: Encoded
    design: Design
    y: np.ndarray
    centre: np.ndarray
    scale: np.ndarray
    level: float
    n_iter: int | str
    n_alphas: int
    alpha_ratio: float | None
    notes: tuple[str, ...]
    groups: np.ndarray | None = None
    cv: TimeSplits | None = None


def standardised(X: Any, y: np.ndarray, dtype: str) -> tuple[PreparedRows, Design]:
    """Return standardised rows: centred columns of unit variance."""
    if isinstance(X, RemoteFeatures):
        centre, scale, remote = X.standardised(dtype)
        example = np.empty(0, dtype)
        y = check_array("y", y, ndim=1, reference=in_own_precision(y, example))
        return PreparedRows(X, y, None, scale, centre), remote
    return prepare_rows(
        X,
        y,
        sample_weight=None,
        needs_risk=True,
        standardize=True,
        about_mean=True,
        centre=True,
        dtype=dtype,
    )


def some_features(data: FitData, which: np.ndarray) -> tuple[PreparedRows, Design]:
    """Return standardised rows with a subset of the features."""
    X = data.encoded.X
    some = X.columns(which) if isinstance(X, RemoteFeatures) else X[:, which]
    return standardised(some, data.y, str(data.design.example.dtype))


def prepare_data(
    encoded: Encoded,
    n_iter: int | None = None,
    n_alphas: int | None = None,
    alpha_ratio: float | None = None,
    gap: int | None = None,
) -> FitData:
    """Standardise the data, and set the number of iterations and of values of alpha.

    Parameters
    ----------
    encoded : Encoded
        Features and responses.
    n_iter : int, optional
        By default, iterations continue until the estimated risk stops decreasing.
    n_alphas : int, optional
        20 by default, fewer for large data.
    alpha_ratio : float, optional
        As ``lam_ratio`` of `steinpath.tune`.
    gap : int, optional
        If given, rows are in time order, and later rows are predicted from earlier rows, with this
        number of rows skipped in between.
    """
    n = len(encoded.y)
    if n < _FEWEST_ROWS:
        raise DataError(f"there are {n} rows with a target; at least {_FEWEST_ROWS} are needed")
    cv = None if gap is None or encoded.times is None else _time_splits(encoded.times, gap)
    size = sum(encoded.X.shape)  # numbers of each iterate
    alphas = n_alphas or max(min(_ALPHAS, _ROOM // size), _FEWEST_ALPHAS)
    notes = []
    if n_alphas is None and alphas < _ALPHAS:
        many = "columns" if encoded.X.shape[1] > n else "rows"
        notes.append(
            f"because of the number of {many}, the grid has {alphas} values of alpha instead of "
            f"{_ALPHAS}; use --n-alphas {_ALPHAS} for all"
        )
    _check_sizes(encoded)
    level = 0.0 if encoded.classes else float(np.median(encoded.y))
    y = encoded.y - level
    dtype = enough_precision(y, size * alphas * (n_iter or USUAL_ITERATIONS))
    rows, design = standardised(encoded.X, y, dtype)
    assert rows.centre is not None
    return FitData(
        encoded=encoded,
        design=design,
        y=rows.y,
        centre=rows.centre,
        scale=rows.scale,
        level=level,
        n_iter=n_iter or "auto",
        n_alphas=alphas,
        alpha_ratio=alpha_ratio,
        notes=tuple(notes),
        groups=encoded.groups,
        cv=cv,
    )


def _time_splits(times: np.ndarray, gap: int) -> TimeSplits:
    """Return blocks of later rows, each with the earlier rows that predict it.

    Rows with the same time are in the same block.
    """
    n = len(times)
    starts = [test[0] for _, test in TimeSeriesSplit(_TIME_BLOCKS).split(times)]
    # a block starts with the first row of its first time
    starts = sorted(set(np.searchsorted(times, times[starts]).tolist()) - {0})
    if len(starts) < _FEWEST_BLOCKS:
        raise DataError(
            f"there are too few distinct times for {_FEWEST_BLOCKS} blocks of later rows; use "
            "--group for dependent rows"
        )
    most = starts[0] - _FEWEST_EARLIER
    if gap > most:
        raise DataError(
            f"a gap of {counted(gap, 'row')} leaves fewer than {_FEWEST_EARLIER} of {n} rows "
            f"before the first of {len(starts)} blocks; --gap must be at most {most}"
        )
    ends = [*starts[1:], n]
    return [
        (np.arange(start - gap), np.arange(start, end))
        for start, end in zip(starts, ends, strict=True)
    ]


def _check_sizes(encoded: Encoded) -> None:
    """Refuse numbers whose powers overflow or underflow."""
    X = encoded.X
    largest = X.sizes if isinstance(X, RemoteFeatures) else np.abs(X).max(axis=0)
    sizes = np.append(np.abs(encoded.y).max(), largest)
    extreme = np.flatnonzero(~((sizes > _SMALLEST) & (sizes < _LARGEST)))
    if len(extreme):
        names, k = [encoded.encoding.target, *encoded.encoding.feature_names], int(extreme[0])
        raise DataError(
            f"the largest absolute value of {names[k]!r} is {sizes[k]:.3g}; rescale it to between "
            f"{_SMALLEST:g} and {_LARGEST:g}"
        )


# Why the iterations ended; see `Tuning.stop`.
_WHY = {
    "risk": "more are not expected to lower the estimated risk",
    "limit": "the limit for data of this size (use --n-iter for more)",
    "n_iter": "as set by --n-iter",
    "interrupted": "interrupted",
}


@dataclass(frozen=True, eq=False)
class LeftOut:
    """Held-out rows and their predictions from models fitted without them.

    Attributes
    ----------
    actual, predicted : ndarray of shape (m,)
        The target and its predictions.
    """

    actual: np.ndarray
    predicted: np.ndarray

    @property
    def residuals(self) -> np.ndarray:
        """Target minus prediction."""
        return np.asarray(self.actual - self.predicted)

    @property
    def median_error(self) -> float:
        """Median absolute residual."""
        return float(np.median(np.abs(self.residuals)))


@dataclass(frozen=True, eq=False)
class Fit:
    """The fit of a loss and a penalty.

    Attributes
    ----------
    data : FitData
        The data.
    spec : ModelSpec
        The loss and the penalty.
    tuning : Tuning
        The risk of every iterate for every value of alpha.
    """

    data: FitData
    spec: ModelSpec
    tuning: Tuning

    @property
    def risk(self) -> Risk:
        """The risk estimate at the selected alpha."""
        return self.tuning.risks[self.tuning.best[0]]

    @property
    def criterion(self) -> Criterion:
        """The scoring loss."""
        assert isinstance(self.risk.criterion, Criterion)  # not a callable of the user
        return self.risk.criterion

    @property
    def effects(self) -> np.ndarray:
        """Coefficients per standard deviation of the features."""
        return np.asarray(to_numpy(self.tuning.coef), float)

    @property
    def coef(self) -> np.ndarray:
        """Coefficients per unit of the features."""
        return np.asarray(self.effects / self.data.scale, float)

    @property
    def intercept(self) -> float:
        """Prediction where all features are zero."""
        return float(self.data.level + self.tuning.intercept - self.data.centre @ self.coef)

    @property
    def reported(self) -> ReportedCoefficients:
        """Coefficients relative to the most frequent level of each category."""
        encoding, scale = self.data.encoded.encoding, self.data.scale
        return report_coefficients(encoding, self.effects, scale, self.intercept)

    @property
    def fitted(self) -> np.ndarray:
        """Predictions for the training rows."""
        path, t = self.tuning.path, self.tuning.best_iter
        products = to_numpy(path.products_at(slice(t, t + 1)))[0]
        return np.asarray(self.data.level + path.level + products, float)

    @property
    def alphas(self) -> np.ndarray:
        """Regularisation strengths on scikit-learn's scale."""
        return self.tuning.lams / math.sqrt(len(self.data.y))

    @property
    def alpha(self) -> float:
        """The selected alpha."""
        return float(self.alphas[self.tuning.best[0]])

    @property
    def chosen(self) -> ChosenRisk:
        """The risk by which models are ranked."""
        return self.tuning.chosen

    @property
    def ranked_by(self) -> str:
        """Name of the loss whose mean this risk is."""
        return self.criterion.words

    @property
    def estimate(self) -> tuple[float, float]:
        """Estimated risk of the selected model, adjusted for selection, and its standard error."""
        return self.tuning.best_risk, self.tuning.best_risk_stderr

    @property
    def naive(self) -> tuple[float, float]:
        """Estimated risk, not adjusted for selection, and its standard error."""
        return self.tuning.naive_risk, self.tuning.naive_risk_stderr

    @property
    def meaning_of_error(self) -> str:
        """Meaning of ±."""
        meaning = "± is one standard error"
        if self.tuning.chosen.method == "fixed":
            return meaning
        of = "the iteration" if self.spec.penalty == NoPenalty.name else "alpha and iteration"
        return f"{meaning}, adjusted for the selection of {of}"

    @cached_property
    def left_out(self) -> LeftOut:
        """Held-out rows and their predictions from models fitted without them."""
        chosen, y = self.tuning.chosen, self.data.y.astype(float)
        level = self.data.level
        return LeftOut(level + y[chosen.rows], level + np.asarray(chosen.predictions, float))

    @property
    def train(self) -> float:
        """Training error of the selected model."""
        return float(self.risk.train[self.tuning.best_iter])

    @property
    def nonzeros(self) -> int:
        """Number of nonzero coefficients of the selected model."""
        return int(np.count_nonzero(self.effects))

    @property
    def is_whole(self) -> bool:
        """Whether the fit was not interrupted."""
        return self.tuning.stop != "interrupted"

    @property
    def length(self) -> str:
        """Number of iterations run, and why they ended."""
        return f"Iterations ended at {self.tuning.path.n_iter:,}: {_WHY[self.tuning.stop]}."

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings: options to change, and reasons to doubt the estimate."""
        found, n_iter = list[str](), self.tuning.path.n_iter
        if self.is_whole and self.tuning.still_falls:
            limit = ", the limit for data of this size" if self.tuning.stop == "limit" else ""
            found.append(
                f"the estimated risk was still decreasing after {n_iter} iterations{limit}; use a "
                f"larger number, such as --n-iter {2 * n_iter}"
            )
        return (*found, *self.tuning.warnings)

    @property
    def intervals(self) -> PredictionIntervals:
        """Out-of-fold models and residuals for prediction intervals, in units of the features."""
        data = self.data
        return self.tuning.intervals.rescaled(data.scale, data.centre, data.level)

    @property
    def improvement(self) -> float:
        """Reduction of the estimated risk relative to a constant prediction, in percent."""
        return 100 * (1 - self.estimate[0] / self.constant_risk) if self.constant_risk else math.nan

    @cached_property
    def constant_risk(self) -> float:
        """Error of the best constant prediction on the held-out rows."""
        y = self.left_out.actual
        low, high = float(y.min()), float(y.max())

        def risk(constant: float) -> float:
            return float(self.criterion(y, np.full_like(y, constant)).mean())

        # golden sections, which handle kinks of convex functions, over shares of the range
        best = minimize_scalar(
            lambda share: risk(low + share * (high - low)),
            bounds=(0.0, 1.0),
            method="bounded",
            options={"xatol": 1e-9},
        )
        return float(min(best.fun, risk(float(np.median(y)))))


@dataclass(frozen=True)
class Ranked:
    """A loss and a penalty, with their selected alpha and iteration.

    Attributes
    ----------
    loss, penalty : str
        Their names.
    alpha : float
        The regularisation strength, on scikit-learn's scale.
    iterate, nonzeros : int
        The selected iteration, and its number of nonzero coefficients.
    risk, stderr : float
        Estimated risk, adjusted for selection, and its standard error.
    behind, behind_stderr : float
        Difference from the smallest risk, and its standard error, adjusted for both selections.
    still_falls : bool
        Whether the risk was still decreasing at the last iteration.
    """

    loss: str
    penalty: str
    alpha: float
    iterate: int
    nonzeros: int
    risk: float
    stderr: float
    behind: float
    behind_stderr: float
    still_falls: bool = False


def fit_model(
    data: FitData, spec: ModelSpec, test_loss: TestLoss = None, rule: str = "min", seed: int = 0
) -> Fit:
    """Select alpha and the iteration by their estimated risk.

    Parameters
    ----------
    data : FitData
        The data.
    spec : ModelSpec
        The loss and the penalty.
    test_loss, rule, seed
        As for `steinpath.tune`.
    """
    lams: Any = np.zeros(1) if spec.penalty == NoPenalty.name else data.n_alphas
    tuning = tune(
        data.design,
        data.y,
        spec.loss,
        spec.penalty_of,
        lams,
        data.n_iter,
        fit_intercept=True,
        test_loss=test_loss,
        rule=rule,
        rng=seed,
        lam_ratio=data.alpha_ratio,
        groups=data.groups,
        cv=data.cv,
    )
    begin("adjusting for selection", 0)
    tuning.chosen  # noqa: B018  (computed and cached here, while this is shown)
    return Fit(data, spec, tuning)


def compare_models(
    data: FitData,
    specs: Sequence[ModelSpec],
    test_loss: TestLoss,
    rule: str = "min",
    seed: int = 0,
    fit_one: Callable[..., Fit] | None = None,
) -> tuple[Fit, list[Ranked]]:
    """Fit several losses and penalties, and rank them by the same scoring loss.

    If a stop is requested (see `steinpath._support.progress`), the remaining models are skipped,
    and the current one, too, unless it is the first.

    Parameters
    ----------
    data : FitData
        The data.
    specs : sequence of ModelSpec
        The losses and penalties.
    test_loss, rule, seed
        As for `steinpath.tune`.
    fit_one : callable, optional
        Function that fits each; `fit_model` by default.

    Returns
    -------
    best : Fit
        The fit with the smallest risk.
    ranking : list of Ranked
        All finished fits, the best first.
    """
    best: Fit | None = None
    found: list[tuple[ModelSpec, float, int, int, bool, ChosenRisk]] = []
    done = begin(f"comparing {len(specs)} models", len(specs))
    for spec in specs:
        fit = (fit_one or fit_model)(data, spec, test_loss, rule, seed)
        stop = done()
        if stop and not fit.is_whole and best is not None:
            break
        choice = fit.alpha, fit.tuning.best_iter, fit.nonzeros, fit.tuning.still_falls
        found.append((spec, *choice, _without_models(fit.chosen)))
        if best is None or fit.chosen.value < best.chosen.value:
            best = fit
        del fit  # keep only the best in memory while the next one runs
        if stop:
            break
    assert best is not None
    ranking = []
    for spec, alpha, t, nonzeros, still_falls, chosen in found:
        behind, stderr = compare_chosen(*_on_the_same_rows(chosen, best.chosen))
        ranking.append(
            Ranked(
                spec.loss.label,
                PENALTIES[spec.penalty].label,
                alpha,
                t,
                nonzeros,
                chosen.value,
                chosen.stderr,
                behind,
                0.0 if spec is best.spec else stderr,
                still_falls,
            )
        )
    return best, sorted(ranking, key=lambda row: row.risk)


def _without_models(chosen: ChosenRisk) -> ChosenRisk:
    """Return a copy for `compare_chosen`, without the coefficients of models."""
    nothing = np.zeros((0, 0))
    return replace(chosen, models=LeftOutModels(nothing, np.zeros(0), nothing))


def _on_the_same_rows(first: ChosenRisk, second: ChosenRisk) -> tuple[ChosenRisk, ChosenRisk]:
    """Return both with the losses of the rows that both held out.

    For time series, nested splits hold out fewer rows than others.
    """
    if np.array_equal(first.rows, second.rows):
        return first, second
    rows, *places = np.intersect1d(first.rows, second.rows, return_indices=True)
    one, other = (
        replace(
            each,
            rows=rows,
            losses=each.losses[at],
            predictions=each.predictions[at],
            interactions=None,
        )
        for each, at in zip((first, second), places, strict=True)
    )
    return one, other


def count_nonzeros(path: Path) -> np.ndarray:
    """Return the number of nonzero coefficients of each iterate."""
    return np.array([np.count_nonzero(b) for b in to_numpy(path.coef)])
