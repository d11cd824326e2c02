"""Scores of out-of-fold decision values of classifiers, and probabilities of several classes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import entr

from steinpath.problem._margins import log_class_probabilities
from steinpath.problem._scoring import CRITERIA

#: The misclassification rate.
ERROR_RATE = "zero_one"
#: Scores that are no means over rows, in words; and all scores.
OF_CLASSES = {"balanced_error": "balanced error rate", "auc": "area under the ROC curve"}
SCORES = {name: kind.label for name, kind in CRITERIA.items() if kind.margin} | OF_CLASSES
# Rows that the prior of the coupling counts for; parts of the rows that it is fitted without.
_PRIOR, _PARTS = 4.0, 10
# Normal quantile of a two-sided 95% interval.
_NORMAL_95 = 1.959963984540054


class Score(NamedTuple):
    """An estimated score on new data, its standard error, and that of the best constant."""

    value: float
    stderr: float
    constant: float


class Proportion(NamedTuple):
    """A standard error of a proportion that is not zero, and the ends of a 95% interval."""

    stderr: float
    lower: float
    upper: float


def proportion(rate: float, stderr: float, count: float, dependence: float = 1.0) -> Proportion:
    """Return the Wilson interval of a proportion, widened where units depend on each other.

    The standard error, without that dependence, determines the number of independent units. It is
    zero if no unit, or every unit, is an error; then there are ``count`` units, and the standard
    error is taken from the interval: about 1 / count. It is infinite if there is a single unit.
    """
    variance, square = rate * (1 - rate), _NORMAL_95**2
    if variance > 0 and 0 < stderr < math.inf:
        count = variance / stderr**2
    centre = (rate + square / (2 * count)) / (1 + square / count)
    half = math.sqrt(variance / count + square / (4 * count**2)) / (1 + square / count)
    ends = (centre + side * _NORMAL_95 * half for side in (-1, 1))
    lower, upper = (min(max(rate + dependence * (end - rate), 0.0), 1.0) for end in ends)
    # exact where the error of rounding is not
    lower, upper = lower if rate else 0.0, upper if rate < 1 else 1.0
    return Proportion(dependence * max(stderr, half), lower, upper)


@dataclass(frozen=True, eq=False)
class Decisions:
    """Out-of-fold decision values: (m, 1) for two classes, or one column for each of several."""

    values: np.ndarray
    #: Index of the class of each row.
    actual: np.ndarray
    #: Weights of the rows; None if all are equal.
    weights: np.ndarray | None = None

    @property
    def _counts(self) -> np.ndarray:
        return np.ones(len(self.actual)) if self.weights is None else self.weights

    @property
    def several(self) -> bool:
        """Whether there are more than two classes."""
        return len(self.values.T) > 1

    @property
    def predicted(self) -> np.ndarray:
        """Index of the predicted class of each row."""
        return self.values.argmax(axis=1) if self.several else (self.values[:, 0] > 0).astype(int)

    @property
    def shares(self) -> np.ndarray:
        """Shares of the classes."""
        classes = max(2, self.values.shape[1])
        counts = np.bincount(self.actual, self.weights, minlength=classes)
        return np.asarray(counts / counts.sum())

    def constant(self, name: str) -> float:
        """Return the score of the best prediction without features."""
        shares = self.shares
        of_all = {ERROR_RATE: 1 - shares.max(), "auc": 0.5}
        of_all["balanced_error"] = 1 - 1 / np.count_nonzero(shares)
        if name in of_all:
            return float(of_all[name])
        if self.several and name == "log":
            return float(entr(shares).sum())
        criterion: Any = CRITERIA[name]()
        each = [criterion.of_best_constant(signs, self.weights) for signs in self._signs]
        return float(np.mean(each))

    def losses(self, name: str) -> np.ndarray:
        """Return losses of the rows whose mean is a score; of "auc", 1 minus the score.

        The balanced error rate and the area under the ROC curve are functions of means over the
        rows of each class. Their losses are linearised, so that the standard error of the mean is
        that of the score (for the area, that of DeLong).
        """
        wrong = (self.predicted != self.actual).astype(float)
        if name == ERROR_RATE:
            each = [wrong]
        elif name == "balanced_error":
            each = [self._linearised(wrong, self.actual == k) for k in np.flatnonzero(self.shares)]
        elif name == "auc":
            each = [self._ranking(k) for k in np.flatnonzero(self.shares)[not self.several :]]
        elif self.several and name == "log":
            each = [self._log_losses()]
        else:  # of the one-vs-rest models
            criterion: Any = CRITERIA[name]()
            each = [*map(criterion, self._signs, self.values.T)]
        return np.asarray(np.mean(each, axis=0))

    @property
    def _signs(self) -> list[np.ndarray]:
        labels = range(self.values.shape[1]) if self.several else (1,)
        return [np.where(self.actual == k, 1.0, -1.0) for k in labels]

    def _linearised(self, losses: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Return values whose mean is that of the losses of some rows, and their influence."""
        mean = np.average(losses[rows], weights=self._counts[rows])
        share = np.average(rows, weights=self.weights)
        return np.asarray(mean + np.where(rows, losses - mean, 0.0) / share)

    def _ranking(self, k: int) -> np.ndarray:
        """Return the linearised shares of rows of other classes that are ranked wrongly."""
        values = self.values[:, k if self.several else 0]
        own = self.actual == k
        wrong = np.where(own, 1 - self._below(values, ~own), self._below(values, own))
        both = self._linearised(wrong, own) + self._linearised(wrong, ~own)
        return np.asarray(both - np.average(wrong[own], weights=self._counts[own]))

    def _below(self, values: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Return the share of some rows below each value, ties counted half."""
        order = np.flatnonzero(rows)[np.argsort(values[rows], kind="stable")]
        ends = (np.searchsorted(values[order], values, side) for side in ("left", "right"))
        reached = np.concatenate([[0.0], np.cumsum(self._counts[order])])
        return np.asarray(sum(reached[end] for end in ends) / (2 * reached[-1]))

    def coupling(self, rows: Any = slice(None)) -> tuple[float, float]:
        r"""Return how probabilities follow from the decision values of several classes.

        The coefficients a and b maximise the likelihood of the rows with
        :math:`\log P(k) = a z_k + b \log \sigma(z_k) + \text{const}`. With (1, 0) probabilities
        are proportional to the odds of each class against the rest, with (0, 1) to their
        probabilities. Both are at least 0, so that the largest decision is the most probable. A
        prior with the weight of four rows is centred at (1, 0).
        """
        from scipy.optimize import minimize  # takes long to import

        values = self.values[rows]
        own, counts = (np.arange(len(values)), self.actual[rows]), self._counts[rows]
        shares, strength = counts / counts.sum(), _PRIOR / (2 * counts.sum())
        # the derivatives of a + b log sigma(z) with respect to a and b
        parts = np.stack([values, -np.logaddexp(0, -values)])

        def objective(x: np.ndarray) -> tuple[float, np.ndarray]:
            logs = log_class_probabilities(values, x)
            fall = np.exp(logs)
            fall[own] -= 1
            (a, b), slope = x, np.einsum("jik,ik,i->j", parts, fall, shares)
            value = -shares @ logs[own] + strength * ((a + b - 1) ** 2 + b**2)
            return value, slope + 2 * strength * np.array([a + b - 1, a + 2 * b - 1])

        found = minimize(objective, [0.9, 0.1], jac=True, bounds=[(0, None)] * 2)
        a, b = (float(x) for x in found.x)
        return (a, b) if a + b > 0 else (1.0, 0.0)

    def _log_losses(self) -> np.ndarray:
        """Return log losses of rows that the coupling was fitted without."""
        losses = np.empty(len(self.actual))
        part = np.random.default_rng(0).permutation(len(losses)) % _PARTS
        for k in range(min(_PARTS, len(losses))):
            logs = log_class_probabilities(self.values[part == k], self.coupling(part != k))
            losses[part == k] = -logs[np.arange(len(logs)), self.actual[part == k]]
        return losses
