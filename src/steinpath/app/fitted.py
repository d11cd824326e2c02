"""A fitted model as the console, the JSON output and the report show it.

Everything here is read from public attributes of the fitted estimator and of its encoder.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import Any, NamedTuple, cast

import numpy as np
from sklearn.pipeline import Pipeline

from steinpath._support.arrays import to_numpy
from steinpath._support.cells import texts
from steinpath.engine._path import Path
from steinpath.estimators._base import PathEstimator
from steinpath.estimators._classifiers import Classifier, Score
from steinpath.estimators._encoder import TableEncoder
from steinpath.problem._penalties import NoPenalty
from steinpath.problem._scoring import CRITERIA, Criterion
from steinpath.risk._after_choice import ChosenRisk
from steinpath.risk._leave_out import LeftOutModels
from steinpath.risk._risk import Risk
from steinpath.risk._splits import Splits
from steinpath.tuning._tuning import Tuning

# Reference levels that are listed.
_LISTED = 3
# Why the iterations ended; see `Tuning.stop`.
_WHY = {
    "risk": "more are not expected to lower the estimated risk",
    "limit": "the limit for data of this size (use {n_iter} for more)",
    "n_iter": "as set by {n_iter}",
    "interrupted": "interrupted",
}


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


@dataclass(frozen=True, eq=False)
class Fitted:
    """A fitted estimator, or a pipeline of a `TableEncoder` and an estimator."""

    model: Any

    @cached_property
    def estimator(self) -> Any:
        """The estimator."""
        last = self.model[-1] if isinstance(self.model, Pipeline) else self.model
        if not isinstance(last, PathEstimator):
            raise TypeError(
                "model must be a fitted steinpath estimator, such as LADLasso, or a pipeline of a "
                f"TableEncoder and such an estimator; got {type(last).__name__}"
            )
        if not any("_search" in vars(each) for each in getattr(last, "estimators_", [last])):
            raise ValueError(
                "the model has no risk estimate with its training data: it is not fitted, was "
                "loaded or copied, or was fitted with method=None; fit it again"
            )
        return last

    @cached_property
    def encoder(self) -> TableEncoder | None:
        """The encoder of the columns of a table, if there is one."""
        first = self.model[0] if isinstance(self.model, Pipeline) else None
        return first if isinstance(first, TableEncoder) else None

    @cached_property
    def feature_names(self) -> list[str]:
        """Names of the features."""
        known = getattr(self.estimator, "feature_names_in_", None)
        if isinstance(self.model, Pipeline) and known is None:
            known = self.model[:-1].get_feature_names_out()
        if known is None:
            known = [f"x{j}" for j in range(self.estimator.n_features_in_)]
        return [str(name) for name in known]

    @property
    def models(self) -> list[Any]:
        """The estimators that it consists of: one, or one for each of several classes."""
        return list(getattr(self.estimator, "estimators_", [self.estimator]))

    @property
    def several(self) -> bool:
        """Whether there are several estimators."""
        return len(self.models) > 1

    @cached_property
    def main(self) -> Any:
        """The estimator whose curves are shown: that with the largest estimated risk."""
        return max(self.models, key=lambda each: each.best_risk_)

    @cached_property
    def classes(self) -> list[str]:
        """Labels of the classes; empty for regression."""
        if not isinstance(self.estimator, Classifier):
            return []
        return [str(label) for label in texts(to_numpy(self.estimator.classes_))]

    @property
    def labels(self) -> list[str]:
        """The class of each of `models`."""
        return self.classes if self.several else self.classes[1:]

    @property
    def main_label(self) -> str:
        """The class of `main`."""
        return self.labels[self.models.index(self.main)]

    @property
    def has_probabilities(self) -> bool:
        """Whether classes have probabilities."""
        return hasattr(self.estimator, "predict_proba")

    @property
    def tuning(self) -> Tuning:
        """The search of `main`."""
        return cast(Tuning, self.main.tuning_)

    @property
    def risk(self) -> Risk:
        """The risk estimate at the selected alpha of `main`."""
        return self.tuning.risks[self.tuning.best[0]]

    @property
    def words(self) -> str:
        """Name of the loss and the penalty, such as "LAD + lasso"."""
        return f"{self.main.loss_.label} + {self.main.penalty_.label}"

    @property
    def penalised(self) -> bool:
        """Whether there is a penalty."""
        return not isinstance(self.main.penalty_, NoPenalty)

    @property
    def criterion(self) -> Any:
        """The scoring loss."""
        return self.risk.criterion

    @property
    def scored_by(self) -> str:
        """The scoring loss in words."""
        known, name = self.criterion, self.risk.test_loss
        return known.words if isinstance(known, Criterion) else f"scoring loss {name}"

    @property
    def estimate(self) -> tuple[float, float]:
        """Estimated risk, adjusted for selection, and its standard error."""
        if self.several and (score := self.scores.get(self.main.test_loss_)) is not None:
            return score.value, score.stderr
        return self.main.best_risk_, self.main.best_risk_stderr_

    @property
    def scores(self) -> dict[str, Score]:
        """Scores of classes, by the names of scoring losses."""
        return dict(getattr(self.estimator, "scores_", {}))

    @property
    def ranked_by(self) -> str:
        """The loss by which models are compared, in words."""
        return CRITERIA["zero_one"].label if self.several else self.scored_by

    @property
    def chosen(self) -> ChosenRisk:
        """The risk by which models are compared; with several classes, the error rate."""
        found = self.tuning.chosen
        if not self.several:
            return found
        rows, actual, values = self.left_out_classes
        wrong = values.argmax(axis=1) != actual
        found = found.with_losses(rows, values[:, 0], wrong.astype(float))
        value, stderr = self.estimator.error_rate_, self.estimator.error_rate_stderr_
        return replace(found, value=value, stderr=stderr)

    @property
    def meaning_of_error(self) -> str:
        """Meaning of ±."""
        meaning = "± is one standard error"
        if self.tuning.chosen.method == "fixed":
            return meaning
        of = "alpha and iteration" if self.penalised else "the iteration"
        return f"{meaning}, adjusted for the selection of {of}"

    def ended(self, n_iter: str) -> str:
        """Return the number of iterations run, and why they ended; ``n_iter`` is the option."""
        why = _WHY[self.main.stop_].format(n_iter=n_iter)
        return f"Iterations ended at {self.main.n_iter_:,}: {why}."

    @property
    def is_whole(self) -> bool:
        """Whether the fit was not interrupted."""
        return all(each.stop_ != "interrupted" for each in self.models)

    @property
    def warnings(self) -> list[str]:
        """Warnings: options to change, and reasons to doubt the estimates."""
        return list(self.estimator.warnings_)

    @property
    def improvement(self) -> float:
        """Reduction of the estimated risk relative to a constant prediction, in percent."""
        constant = getattr(self.main, "constant_risk_", 0.0)
        return 100 * (1 - self.estimate[0] / constant) if constant else math.nan

    @property
    def left_out(self) -> tuple[np.ndarray, np.ndarray]:
        """Responses of the held-out rows, and their predictions by models fitted without them."""
        chosen, y = self.tuning.chosen, to_numpy(self.tuning.path.y).astype(float)
        return y[chosen.rows], np.asarray(chosen.predictions, float)

    @cached_property
    def left_out_classes(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Rows that all models held out, their classes, and decision values, one for each model."""
        all_chosen = [one.tuning_.chosen for one in self.models]
        rows = reduce(np.intersect1d, [chosen.rows for chosen in all_chosen])
        values = [np.asarray(c.predictions)[np.searchsorted(c.rows, rows)] for c in all_chosen]
        signs = np.stack([to_numpy(one.tuning_.path.y)[rows] for one in self.models], axis=1)
        actual = signs.argmax(axis=1) if self.several else (signs[:, 0] > 0).astype(int)
        return rows, actual, np.stack(values, axis=1).astype(float)

    @property
    def references(self) -> list[int]:
        """Features of the reference levels of categories, the first level of each."""
        # after further steps, features are not those of the encoder
        if self.encoder is None or len(self.model) > 2:
            return []
        return self.encoder.reference_features_

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
        counts = [len(each.levels) for each in columns if each.kind == "category"]
        for start, count in zip(self.references, counts, strict=False):
            relative[start : start + count] -= coef[start]
            intercept += coef[start]
        kept = np.delete(np.arange(len(coef)), self.references)
        names = [self.feature_names[j] for j in kept]
        return Coefficients(names, relative[kept], (relative * scale)[kept], intercept)

    @property
    def nonzeros(self) -> int:
        """Number of features with a nonzero coefficient in any of the models."""
        coef = to_numpy(self.estimator.coef_)
        return int(np.count_nonzero(coef.reshape(-1, coef.shape[-1]).any(axis=0)))

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of features."""
        return self.main.n_samples_, self.main.n_features_in_

    @property
    def dependence(self) -> str:
        """How rows depend on each other: "groups", "time" or ""."""
        options = self.tuning.context.options
        if isinstance(options.cv, Splits) and _is_in_time_order(options.cv):
            return "time"
        return "groups" if options.groups is not None else ""


def _is_in_time_order(splits: Splits) -> bool:
    """Whether rows are predicted from earlier rows only."""
    last = len(splits.train) - 1 - splits.train[::-1].argmax(axis=0)
    return bool(np.all(last < (splits.test > 0).argmax(axis=0)))


def count_nonzeros(path: Path) -> np.ndarray:
    """Return the number of nonzero coefficients of each iterate."""
    return np.array([np.count_nonzero(b) for b in to_numpy(path.coef)])


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


class Contender(NamedTuple):
    """What a comparison keeps of a model: not its paths, which take much memory."""

    row: Ranked
    chosen: ChosenRisk

    @classmethod
    def of(cls, fitted: Fitted) -> Contender:
        """Return what is kept of a model."""
        main, nothing = fitted.main, np.zeros((0, 0))
        # compared by their losses, without the coefficients of out-of-fold models
        chosen = replace(fitted.chosen, models=LeftOutModels(nothing, np.zeros(0), nothing))
        found = main.loss_.label, main.penalty_.label, main.alpha_, main.best_iter_
        size = fitted.nonzeros, chosen.value, chosen.stderr
        return cls(Ranked(*found, *size, still_falls=fitted.tuning.still_falls), chosen)


def rank(contenders: Sequence[Contender]) -> list[Ranked]:
    """Return the models with the smallest risk first, each compared with the first."""
    first, *others = sorted(contenders, key=lambda each: each.chosen.value)
    ranking = [first.row]
    for row, chosen in others:
        chosen, best = _on_the_same_rows(chosen, first.chosen)
        behind, stderr = chosen.compare(best)
        ranking.append(replace(row, behind=behind, behind_stderr=stderr))
    return ranking


def _on_the_same_rows(*both: ChosenRisk) -> list[ChosenRisk]:
    """Return two risks with the losses of the rows that both held out.

    For time series, nested splits hold out fewer rows than others.
    """
    if np.array_equal(both[0].rows, both[1].rows):
        return list(both)
    rows, *places = np.intersect1d(both[0].rows, both[1].rows, return_indices=True)
    pairs = zip(both, places, strict=True)
    return [one.with_losses(rows, one.predictions[at], one.losses[at]) for one, at in pairs]
