"""Classification: one model for two classes, otherwise one for each class against the rest."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from steinpath.app.fitting import Fit, FitData, fit_model
from steinpath.app.model_spec import ModelSpec
from steinpath.app.tables import DataError
from steinpath.inference._prediction_intervals import PredictionIntervals
from steinpath.problem._margins import Logistic, MarginLoss, class_probabilities
from steinpath.problem._scoring import CRITERIA, Criterion, MarginCriterion, TestLoss
from steinpath.risk._after_choice import ChosenRisk
from steinpath.risk._fold_runs import mean_and_error

#: The default training loss, and those that are compared by default.
USUAL_LOSS, USUAL_LOSSES = "logistic", ("logistic", "hinge")
#: The scoring loss by which losses for classification are compared.
ERROR_RATE = "zero_one"


@dataclass(frozen=True)
class Score:
    """An estimated score on new rows, and that of a prediction without features.

    Attributes
    ----------
    name, words : str
        The scoring loss, such as "log" and "log loss".
    value, stderr : float
        Its estimate, adjusted for selection, and the standard error.
    constant : float
        The score of the majority class, or of the best constant.
    """

    name: str
    words: str
    value: float
    stderr: float
    constant: float

    @property
    def constant_words(self) -> str:
        """Meaning of `constant`."""
        of = {ERROR_RATE: "majority class", "log": "class frequencies"}
        return f"baseline {self.words} ({of.get(self.name, 'best constant')})"


@dataclass(frozen=True, eq=False)
class LeftOutClasses:
    """Held-out rows and their decision values from models fitted without them.

    Attributes
    ----------
    actual : ndarray of int of shape (m,)
        Index of the class.
    values : ndarray of shape (m, K)
        Decision values of each class against the rest; with two classes, of the second (K = 1).
    rows : ndarray of int of shape (m,)
        Their indices among the training rows.
    """

    actual: np.ndarray
    values: np.ndarray
    rows: np.ndarray

    @property
    def predicted(self) -> np.ndarray:
        """Index of the predicted class."""
        return predict_codes(self.values)


def predict_codes(values: np.ndarray) -> np.ndarray:
    """Return the class of each row of decision values; with several, that of the largest."""
    if values.shape[1] == 1:
        return (values[:, 0] > 0).astype(int)
    return np.asarray(values.argmax(axis=1))


@dataclass(frozen=True, eq=False)
class ClassFit(Fit):
    """A fit for classification.

    The attributes of `Fit` describe one model. With more than two classes, it is the model of the
    class with the largest estimated risk.

    Attributes
    ----------
    classes : tuple of str
        The classes.
    fits : tuple of Fit
        One for each class against the rest; with two classes, one for the second.
    codes : ndarray of int of shape (n,)
        Index of the class of each row.
    """

    classes: tuple[str, ...] = ()
    fits: tuple[Fit, ...] = ()
    codes: np.ndarray = field(default_factory=lambda: np.zeros(0, int), repr=False)

    @property
    def several(self) -> bool:
        """Whether there are more than two classes."""
        return len(self.fits) > 1

    @property
    def labels(self) -> tuple[str, ...]:
        """The class of each of `fits`."""
        return self.classes if self.several else self.classes[1:]

    @property
    def main(self) -> Fit:
        """The model that the attributes of `Fit` describe."""
        return next(fit for fit in self.fits if fit.tuning is self.tuning)

    @property
    def main_label(self) -> str:
        """The class of that model."""
        return self.labels[self.fits.index(self.main)]

    @property
    def has_probabilities(self) -> bool:
        """Whether decision values are log-odds."""
        return isinstance(self.spec.loss, Logistic)

    @cached_property
    def left_out_classes(self) -> LeftOutClasses:
        """Held-out rows."""
        rows = self.tuning.chosen.rows
        for fit in self.fits:  # for time series, nested splits hold out fewer rows
            rows = np.intersect1d(rows, fit.tuning.chosen.rows)
        values = np.stack([_at(fit.tuning.chosen, rows) for fit in self.fits], axis=1)
        return LeftOutClasses(self.codes[rows], values, rows)

    @cached_property
    def confusion(self) -> np.ndarray:
        """Confusion matrix of held-out rows; the first axis is the actual class."""
        k, seen = len(self.classes), self.left_out_classes
        places = seen.actual * k + seen.predicted
        return np.bincount(places, minlength=k * k).reshape(k, k)

    @cached_property
    def scores(self) -> tuple[Score, ...]:
        """Scores: error rate, default scoring loss, and that of the selection if different."""
        assert isinstance(self.spec.loss, MarginLoss)
        names = dict.fromkeys((ERROR_RATE, self.spec.loss.test_loss, self.criterion.name))
        return tuple(self._score(name) for name in names if isinstance(name, str))

    def _score(self, name: str) -> Score:
        own = self.criterion  # with class weights, if there are any
        if not self.several and name == own.name and name != ERROR_RATE:
            constant = _constant(name, self._shares(own)[1])
            return Score(name, own.words, *super().estimate, constant)
        seen = self.left_out_classes
        words = CRITERIA[name].label
        if not self.several and name == own.name and not _weights(own):
            value, stderr = super().estimate
        else:
            value, stderr = self._mean(self._losses(name))
        shares = np.bincount(seen.actual, minlength=len(self.classes)) / len(seen.actual)
        if name == ERROR_RATE:
            return Score(name, words, value, stderr, float(1 - shares.max()))
        if name == "log":
            there = shares[shares > 0]
            return Score(name, words, value, stderr, float(-there @ np.log(there)))
        each = shares if self.several else shares[1:]
        constant = float(np.mean([_constant(name, share) for share in each]))
        return Score(name, words, value, stderr, constant)

    def _losses(self, name: str) -> np.ndarray:
        """Loss of each held-out row; with several classes, the mean over models."""
        seen = self.left_out_classes
        if name == ERROR_RATE and self.several:
            return np.asarray(seen.predicted != seen.actual, float)
        if name == "log" and self.several:
            shares = class_probabilities(seen.values)[np.arange(len(seen.actual)), seen.actual]
            return np.asarray(-np.log(np.maximum(shares, np.finfo(float).tiny)))
        first = 0 if self.several else 1
        each = [
            np.asarray(CRITERIA[name]()(np.where(seen.actual == k, 1.0, -1.0), column))
            for k, column in enumerate(seen.values.T, start=first)
        ]
        return np.asarray(np.mean(each, axis=0))

    def _mean(self, losses: np.ndarray) -> tuple[float, float]:
        """Mean loss of the held-out rows, and its standard error."""
        groups, rows = self.data.groups, self.left_out_classes.rows
        groups = None if groups is None else groups[rows]
        mean, stderr = mean_and_error(losses[None, :], np.ones(len(losses)), groups)
        # the rows are dependent through the models, as in the selection
        dependence = max(fit.tuning.chosen.dependence for fit in self.fits)
        return float(mean[0]), float(stderr[0]) * dependence

    def _shares(self, criterion: Criterion) -> np.ndarray:
        """Weighted shares of two classes among the held-out rows."""
        shares = np.bincount(self.left_out_classes.actual, minlength=2).astype(float)
        shares *= _weights(criterion) or 1.0
        return np.asarray(shares / shares.sum())

    @property
    def error_rate(self) -> Score:
        """The expected error rate."""
        return self.scores[0]

    @property
    def chosen(self) -> ChosenRisk:
        """The risk by which models are ranked; with several classes, the error rate."""
        if not self.several:
            return super().chosen
        seen, score = self.left_out_classes, self.error_rate
        return replace(
            super().chosen,
            value=score.value,
            stderr=score.stderr,
            rows=seen.rows,
            losses=self._losses(ERROR_RATE),
            predictions=seen.values[:, 0],
            interactions=None,
        )

    @property
    def ranked_by(self) -> str:
        """Name of the loss whose mean this risk is."""
        return self.error_rate.words if self.several else super().ranked_by

    @property
    def estimate(self) -> tuple[float, float]:
        """Estimated risk, adjusted for selection, and its standard error."""
        if not self.several:
            return super().estimate
        score = next(score for score in self.scores if score.name == self.criterion.name)
        return score.value, score.stderr

    @property
    def train_error_rate(self) -> float:
        """Error rate on the training rows."""
        return float(np.mean(predict_codes(self.decision_values()) != self.codes))

    def decision_values(self) -> np.ndarray:
        """Return decision values of the training rows, one column for each of `fits`."""
        return np.stack([fit.fitted for fit in self.fits], axis=1)

    @property
    def used(self) -> np.ndarray:
        """Mask of the features with a nonzero coefficient in any of the models."""
        return np.asarray(np.any([fit.effects != 0 for fit in self.fits], axis=0))

    @property
    def nonzeros(self) -> int:
        """Number of features with a nonzero coefficient in any of the models."""
        return int(self.used.sum())

    @property
    def is_whole(self) -> bool:
        """Whether the fit was not interrupted."""
        return all(fit.is_whole for fit in self.fits)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings: options to change, and reasons to doubt the estimates."""
        if not self.several:
            return super().warnings
        return tuple(
            f"{label!r:.60} vs rest: {warning}"
            for label, fit in zip(self.labels, self.fits, strict=True)
            for warning in fit.warnings
        )

    @property
    def intervals(self) -> PredictionIntervals:
        """Not available for classification."""
        raise DataError("prediction intervals are not available for classification")


def _weights(criterion: Criterion) -> tuple[float, float] | None:
    return criterion.class_weight if isinstance(criterion, MarginCriterion) else None


def _at(chosen: ChosenRisk, rows: np.ndarray) -> np.ndarray:
    """Return the predictions of some held-out rows."""
    return np.asarray(chosen.predictions, float)[np.searchsorted(chosen.rows, rows)]


def _constant(name: str, share: float) -> float:
    """Scoring loss of the best constant, given the share of rows of class 1."""
    other = 1 - share
    if name == "log":
        return -sum(part * math.log(part) for part in (share, other) if part > 0)
    known = {
        "hinge": 2 * min(share, other),
        "squared_hinge": 4 * share * other,
        "brier": share * other,
    }
    return known.get(name, min(share, other))


def fit_classes(
    data: FitData, spec: ModelSpec, test_loss: TestLoss = None, rule: str = "min", seed: int = 0
) -> ClassFit:
    """Select alpha and the iteration by their estimated risk, for each class against the rest.

    Each row is predicted by models fitted without it. The folds differ between classes, since they
    depend on the labels. With several classes and the error rate as scoring loss, each model is
    selected by the default scoring loss of its training loss: the error rate of one class against
    many is often smallest if that class is never predicted.

    Parameters
    ----------
    data : FitData
        The data; `y` has the indices of classes.
    spec : ModelSpec
        The loss, which is for classification, and the penalty.
    test_loss, rule, seed
        As for `steinpath.tune`.
    """
    classes, codes = data.encoded.classes, data.encoded.y.astype(int)
    several = len(classes) > 2
    _check_splits(data, codes)
    if several and getattr(test_loss, "name", test_loss) == ERROR_RATE:
        test_loss = None
    fits = []
    for k in range(len(classes)) if several else [1]:
        y = np.where(codes == k, 1.0, -1.0).astype(data.y.dtype)
        fits.append(fit_model(replace(data, y=y), spec, test_loss, rule, seed))
    main = max(fits, key=lambda fit: fit.estimate[0])
    return ClassFit(main.data, spec, main.tuning, classes, tuple(fits), codes)


def _check_splits(data: FitData, codes: np.ndarray) -> None:
    """Refuse groups and time splits whose training rows lack a class."""
    classes = data.encoded.classes
    for k, label in enumerate(classes):
        of_class = codes == k
        if data.groups is not None and len(np.unique(data.groups[of_class])) < 2:
            raise DataError(
                f"all rows of the class {label!r:.60} are in one group, which is held out as a "
                "whole; every class needs rows in at least two groups"
            )
        for train, _ in data.cv or ():
            if not of_class[train].any():
                raise DataError(
                    f"the class {label!r:.60} does not occur in the first {len(train)} rows in "
                    "time order, from which later rows are predicted"
                )
