"""A fitted model as the console, the JSON output and the report show it.

Everything here is read from attributes of the fitted estimator and of its encoder.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import Any, NamedTuple, cast

import numpy as np
from sklearn.base import is_classifier
from sklearn.pipeline import Pipeline

from steinpath._support.arrays import to_numpy
from steinpath._support.cells import texts
from steinpath._support.progress import begin
from steinpath.app import FDR, LEVEL, MOST_FEATURES
from steinpath.estimators._base import PathEstimator, about_exact_fit
from steinpath.estimators._basis import Terms
from steinpath.estimators._effects import (
    ColumnCurve,
    ColumnEffects,
    PairSurface,
    column_curves,
    column_effects,
    pair_surfaces,
)
from steinpath.estimators._encoder import TableEncoder
from steinpath.estimators._levels import LevelRisk
from steinpath.estimators._scores import SCORES, Decisions
from steinpath.inference._coefficient_intervals import CoefficientIntervals
from steinpath.inference._scores import enough_rows
from steinpath.plots import held_out, largest_sizes
from steinpath.problem._penalties import NoPenalty
from steinpath.problem._scoring import Criterion
from steinpath.risk._after_choice import ChosenRisk, errors_within, on_the_same_rows
from steinpath.risk._leave_out import LeftOutModels
from steinpath.risk._risk import Risk
from steinpath.tuning._tuning import Tuning

# Reference levels that are listed, and the smallest p-value that is printed.
_LISTED, _SMALL = 3, 1e-4
# Why the iterations ended; see `Tuning.stop`.
_WHY = {
    "risk": "more are not expected to lower the estimated risk",
    "limit": "the limit for data of this size (use {n_iter} for more)",
    "n_iter": "as set by {n_iter}",
    "interrupted": "interrupted",
}


def count_shown(count: float) -> str:
    """Return a number of rows, or the sum of their weights, as text."""
    return f"{count:,}" if isinstance(count, int) else f"{count:,.1f}"


class Coefficients(NamedTuple):
    """Coefficients as they are reported: levels of a category relative to its most frequent one.

    The levels of a category add up to one in every row, so only differences between them can be
    interpreted. The coefficient of the reference level is part of the intercept instead.
    """

    names: list[str]
    coef: np.ndarray
    #: The same per standard deviation of the features.
    effects: np.ndarray
    intercept: float


class Fitted:
    """A fitted estimator, or a pipeline of a `TableEncoder` and an estimator.

    estimator, encoder: the steps, the encoder None if there is none
    references: features of the first, most frequent level of each category
    models: the estimators that it consists of: one, or one for each of several classes
    is_whole: whether none of their fits was interrupted
    main: that of them with the largest estimated risk, whose curves are shown; tuning: its search
    risk: its risk estimate at the selected alpha; scored_by: the scoring loss in words
    words: its loss and penalty, such as "LAD + lasso"; penalised: whether there is a penalty
    nonzeros: number of features with a nonzero coefficient in any of the models
    classes: labels of the classes, empty for regression; labels: the class of each of `models`
    """

    def __init__(self, model: Any):
        steps = list(model) if isinstance(model, Pipeline) else [model]
        last = steps[-1]
        if not isinstance(last, PathEstimator):
            raise TypeError(
                "model must be a fitted steinpath estimator, such as LADLasso, or a pipeline of a "
                f"TableEncoder and such an estimator; got {type(last).__name__}"
            )
        self.models: list[Any] = list(getattr(last, "estimators_", [last]))
        try:
            self.main = max(self.models, key=lambda one: one.best_risk_)
            # other parameters than alpha have their selected values
            self.tuning: Tuning = self.main.tuning_.at_best_params()
        except AttributeError as error:
            raise ValueError(
                "the model has no risk estimate with its training data: it is not fitted, was "
                "loaded or copied, or was fitted with method=None; fit it again"
            ) from error
        self.model, self.estimator = model, cast(Any, last)
        self.encoder = steps[0] if isinstance(steps[0], TableEncoder) else None
        # after further steps, features are not those of the encoder
        of_encoder = self.encoder if len(steps) < 3 else None
        references = [] if of_encoder is None else of_encoder.reference_features_
        terms: Terms | None = getattr(last, "terms_", None)
        if terms is not None:  # levels of categories are always kept
            references = terms.places(references).tolist()
        self.references, self.terms = references, terms
        self.several = len(self.models) > 1
        self.is_whole = all(one.stop_ != "interrupted" for one in self.models)
        self.risk: Risk = self.tuning.risks[self.tuning.best[0]]
        known, name = self.risk.criterion, self.risk.test_loss
        self.scored_by = known.words if isinstance(known, Criterion) else f"scoring loss {name}"
        self.words = f"{self.main.loss_.label} + {self.main.penalty_.label}"
        self.penalised = not isinstance(self.main.penalty_, NoPenalty)
        coef = np.atleast_2d(to_numpy(self.estimator.coef_))
        self.nonzeros = int(np.count_nonzero(coef.any(axis=0)))
        labels = texts(to_numpy(self.estimator.classes_)) if is_classifier(last) else ()
        self.classes = [str(label) for label in labels]
        self.labels = self.classes if self.several else self.classes[1:]
        self.shape = self.main.n_samples_, coef.shape[1]

    @cached_property
    def given_names(self) -> list[str]:
        """Names of the columns of X."""
        names = getattr(self.estimator, "feature_names_in_", None)
        if isinstance(self.model, Pipeline) and names is None:
            names = self.model[:-1].get_feature_names_out()
        if names is None:
            names = [f"x{j}" for j in range(self.main.n_features_in_)]
        return [*map(str, names)]

    @property
    def feature_names(self) -> list[str]:
        """Names of the features."""
        return self.given_names if self.terms is None else self.terms.names(self.given_names)

    @property
    def errors_within(self) -> float:
        """Standard errors of the difference within which simpler terms were selected."""
        return errors_within(self.estimator.rule, len(self.tuning.chosen.rows))

    @property
    def levels(self) -> tuple[LevelRisk, ...]:
        """The terms that were compared; empty if there was nothing to select."""
        tried = getattr(self.estimator, "levels_", ())
        return tried if len(tried) > 1 else ()

    @property
    def log_target(self) -> bool:
        """Whether the logarithm of the target was fitted."""
        return getattr(self.main, "transform_target_", None) == "log"

    @cached_property
    def effects(self) -> ColumnEffects | None:
        """Importance of the columns of a table; None if the features are not those of columns."""
        plain = self.encoder is not None and len(self.model) == 2
        return column_effects(self.model) if plain else None

    @cached_property
    def curves(self) -> list[ColumnCurve]:
        """Contribution of each column to `main`, if any column has curves or products."""
        return column_curves(self.model, self.models.index(self.main)) if self.has_curves else []

    @cached_property
    def surfaces(self) -> list[PairSurface]:
        """Largest contributions of products of two columns to `main`."""
        return pair_surfaces(self.model, self.models.index(self.main)) if self.has_curves else []

    @property
    def has_curves(self) -> bool:
        """Whether columns may have curves or products."""
        encoder = self.encoder if self.effects is not None else None
        return encoder is not None and bool(encoder.curves or encoder.products)

    @property
    def notes(self) -> list[str]:
        """Remarks that are no reason to doubt the estimate."""
        return about_exact_fit(self.main, self.feature_names)

    @property
    def main_label(self) -> str:
        """The class of `main`."""
        return self.labels[self.models.index(self.main)]

    @property
    def estimate(self) -> tuple[float, float]:
        """Estimated risk, adjusted for selection, and its standard error."""
        if self.several and (score := self.estimator.scores_.get(self.main.test_loss_)) is not None:
            return score.value, score.stderr
        return self.main.best_risk_, self.main.best_risk_stderr_

    @property
    def improvement(self) -> float:
        """Reduction of the estimated risk relative to a constant prediction, in percent."""
        constant = getattr(self.main, "constant_risk_", 0.0)
        return 100 * (1 - self.estimate[0] / constant) if constant else math.nan

    def scored(self, name: str | None) -> ChosenRisk:
        """Return the risk by which models are compared, for classes by the score of this name."""
        if name is None or (not self.several and name == self.main.test_loss_):
            return self.tuning.chosen
        rows, actual, values = self.left_out_classes
        weights = self.tuning.chosen.weights
        weights = None if weights is None else weights[rows]
        losses = Decisions(values, actual, weights).losses(name)
        chosen = self.tuning.chosen.with_losses(rows, values[:, 0], losses)
        if name in self.estimator.scores_:
            value, stderr, _ = self.estimator.scores_[name]
        else:  # neither that of the training loss nor that of the selection
            value, stderr = replace(chosen, stderr=0.0).mean_of(losses)
            stderr *= max(one._dependence for one in self.models)
        return replace(chosen, value=1 - value if name == "auc" else value, stderr=stderr)

    def words_of(self, score: str | None) -> str:
        """Return the risk by which models are compared, in words."""
        if score is None or (not self.several and score == self.main.test_loss_):
            return self.scored_by
        return "1 - " * (score == "auc") + SCORES[score]

    @property
    def meaning_of_error(self) -> str:
        """Meaning of ±."""
        meaning = "± is one standard error"
        if self.tuning.chosen.method == "fixed":
            return meaning
        of = "alpha and iteration" if self.penalised else "the iteration"
        of = f"terms, {of}" if self.levels and not self.classes else of
        return f"{meaning}, adjusted for the selection of {of}"

    def ended(self, n_iter: str) -> str:
        """Return the number of iterations run, and why they ended; ``n_iter`` is the option."""
        why = _WHY[self.main.stop_].format(n_iter=n_iter)
        return f"Iterations ended at {self.main.n_iter_:,}: {why}."

    @cached_property
    def left_out_classes(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Rows that all models held out, their classes, and decision values, one for each model."""
        tunings = [one.tuning_ for one in self.models]
        rows = reduce(np.intersect1d, [tuning.chosen.rows for tuning in tunings])
        pairs = (held_out(tuning, rows) for tuning in tunings)
        signs, values = (np.stack(part, axis=1) for part in zip(*pairs, strict=True))
        actual = signs.argmax(axis=1) if self.several else (signs[:, 0] > 0).astype(int)
        return rows, actual, values

    @property
    def caption(self) -> str:
        """Meaning of the coefficients of categories; empty if there are none."""
        names = [self.feature_names[j] for j in self.references]
        if not names:
            return ""
        more = ", …" if len(names) > _LISTED else ""
        listed = ", ".join(f"{name!r:.60}" for name in names[:_LISTED]) + more
        return f"coefficients of a category are differences from its most frequent level ({listed})"

    def coefficients(self, estimator: Any = None) -> Coefficients:
        """Return the coefficients of an estimator, by default `main`, as they are reported."""
        estimator = self.main if estimator is None else estimator
        coef, scale = to_numpy(estimator.coef_).ravel().astype(float), to_numpy(estimator.scale_)
        relative, intercept = coef.copy(), float(to_numpy(estimator.intercept_).ravel()[0])
        columns = () if self.encoder is None else self.encoder.columns_
        counts = [len(column.levels) for column in columns if column.kind == "category"]
        for start, count in zip(self.references, counts, strict=False):
            relative[start : start + count] -= coef[start]
            intercept += coef[start]
        kept = np.delete(np.arange(len(coef)), self.references)
        names = [self.feature_names[j] for j in kept]
        return Coefficients(names, relative[kept], (relative * scale)[kept], intercept)

    @property
    def dependence(self) -> str:
        """How rows depend on each other: "groups", "time" or ""."""
        train, test = self.tuning.chosen.splits.train, self.tuning.chosen.splits.test > 0
        last = len(train) - 1 - train[::-1].argmax(axis=0)
        if np.all(last < test.argmax(axis=0)):  # predicted from earlier rows only
            return "time"
        return "" if self.tuning.context.options.groups is None else "groups"


@dataclass(frozen=True)
class Ranked:
    """A loss and a penalty with their selected alpha and iteration, compared with the best."""

    loss: str
    penalty: str
    alpha: float
    iterate: int
    nonzeros: int
    risk: float
    stderr: float
    #: Difference from the smallest risk, and its standard error, adjusted for both selections.
    behind: float = 0.0
    behind_stderr: float = 0.0
    still_falls: bool = False


def contender(fitted: Fitted, score: str | None) -> tuple[Ranked, ChosenRisk]:
    """Return what a comparison by a score keeps of a model: not its paths, which are large."""
    main, nothing = fitted.main, np.zeros((0, 0))
    # compared by their losses, without the coefficients of out-of-fold models
    chosen = replace(fitted.scored(score), models=LeftOutModels(nothing, np.zeros(0), nothing))
    selected = main.loss_.label, main.penalty_.label, main.alpha_, main.best_iter_, fitted.nonzeros
    falls = fitted.tuning.still_falls
    return Ranked(*selected, chosen.value, chosen.stderr, still_falls=falls), chosen


def rank(contenders: Sequence[tuple[Ranked, ChosenRisk]]) -> list[Ranked]:
    """Return the models with the smallest risk first, each compared with the first."""
    (best, first), *others = sorted(contenders, key=lambda pair: pair[1].value)
    ranking = [best]
    for row, chosen in others:
        chosen, reference = on_the_same_rows([chosen, first])
        behind, stderr = chosen.compare(reference)
        ranking.append(replace(row, behind=behind, behind_stderr=stderr))
    return ranking


class Interval(NamedTuple):
    """The interval of a feature per unit; infinite if its coefficient is not identified."""

    name: str
    estimate: float
    stderr: float
    lower: float
    upper: float
    pvalue: float
    significant: bool
    #: Standard deviation of the feature.
    scale: float

    @property
    def identified(self) -> bool:
        """Whether the coefficient is identified."""
        return math.isfinite(self.stderr)

    @property
    def short_pvalue(self) -> str:
        """The p-value with two significant digits."""
        return f"<{_SMALL:.4f}" if self.pvalue < _SMALL else f"{self.pvalue:.2g}"


@dataclass(frozen=True, eq=False)
class FitIntervals:
    """Confidence intervals of a model, with what is said about them."""

    found: CoefficientIntervals
    rows: tuple[Interval, ...]
    warnings: tuple[str, ...]
    notes: tuple[str, ...]
    assumptions: str
    #: Number of features that the false discovery rate refers to.
    n_tests: int

    @property
    def by_evidence(self) -> list[Interval]:
        """The intervals, smallest p-values first."""
        # very small ones are all 0; without noise, so are standard errors
        return sorted(
            self.rows, key=lambda row: (row.pvalue, -abs(row.estimate) / (row.stderr or 1))
        )


def fit_intervals(fitted: Fitted) -> FitIntervals:
    """Return `coef_intervals` of a model without the most frequent levels of categories.

    If each interval requires a regression on all other features, only the largest coefficients
    have one.
    """
    begin("computing confidence intervals", 0)
    model, names, references = fitted.main, fitted.feature_names, fitted.references
    wanted = kept = np.delete(np.arange(len(names)), references)
    scale = to_numpy(model.scale_)
    if len(kept) > MOST_FEATURES and not enough_rows(fitted.shape[0] - 1, len(kept)):
        on_path = largest_sizes(to_numpy(fitted.tuning.path.coef))
        effects = np.abs(fitted.coefficients(model).effects)
        order = np.lexsort((-on_path[kept], -effects[kept]))
        wanted = np.sort(kept[order[:MOST_FEATURES]])
    of_X = np.arange(len(names)) if fitted.terms is None else fitted.terms.kept
    found = model.coef_intervals(of_X[wanted], LEVEL, of_X[references], fitted.given_names)
    features, *numbers = found.to_dict().values()
    numbers += [found.significant(FDR, len(kept)), scale[wanted]]
    rows = zip(features, *(column.tolist() for column in numbers), strict=True)
    warnings, notes = list(found.warnings), [fitted.caption] if references else []
    if fitted.dependence == "time":
        warnings.append(
            "the standard errors assume independent rows, which is rarely true for time series; "
            "the intervals may be too short"
        )
    if len(wanted) < len(kept):
        notes.append(
            f"only the {len(wanted)} features with the largest coefficients, of {len(kept):,}, "
            "have intervals, since with few rows each requires a regression on all others; the "
            "false discovery rate is adjusted for this selection, but the individual intervals are "
            "not"
        )
    of_terms = " or of terms" if fitted.levels else ""
    if grouped := fitted.dependence == "groups":
        notes.append("standard errors are robust to dependence within groups")
    form = "a linear model"
    if found.scale == "index":
        form = "that the class depends on one linear combination of the features"
        notes.append(
            "the coefficients are estimated up to one common factor: p-values, signs and ratios "
            "are valid, but the numbers are not changes in log-odds"
        )
    if fitted.classes and fitted.several:
        notes.append(f"the intervals are for {fitted.main_label!r:.60} against the rest")
    return FitIntervals(
        found=found,
        rows=tuple(Interval(*row) for row in rows),
        warnings=tuple(warnings),
        notes=tuple(notes),
        assumptions=(
            f"The intervals assume independent {'groups of rows' if grouped else 'rows'} and "
            f"{form}; they are not adjusted for the selection of alpha{of_terms}."
        ),
        n_tests=len(kept),
    )
