"""The result of a search over penalties and iterates."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from steinpath._support.arrays import Array, namespace, to_numpy
from steinpath._support.printing import with_error
from steinpath._support.threads import one_thread_unless
from steinpath._support.validation import check_count
from steinpath.engine._batch import Batch
from steinpath.engine._path import Path
from steinpath.inference._prediction_intervals import PredictionIntervals, linear_predictions
from steinpath.problem._losses import Quantile
from steinpath.risk._after_choice import ChosenRisk, risk_after_choice
from steinpath.risk._estimate import Risk, compare_risks
from steinpath.risk._leave_out import LeftOutModels, models_without
from steinpath.risk._nested import SelectionRule
from steinpath.risk._options import RiskOptions
from steinpath.risk._stopping import may_still_improve

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class ChoiceContext(NamedTuple):
    """From what the risk of a choice is estimated.

    Attributes
    ----------
    batch : Batch
        The paths of all penalties.
    options : RiskOptions
        How risks were estimated.
    seed : int
        Of all randomness.
    iterate : int or None
        The iterate, if it was given.
    """

    batch: Batch
    options: RiskOptions
    seed: int
    iterate: int | None


@dataclass(frozen=True, eq=False)
class Tuning:
    """Estimated risk of every iterate for every penalty. Made by `tune`.

    Attributes
    ----------
    lams : ndarray of shape (L,)
        The penalties.
    risk : Array of shape (L, n_iter + 1)
        Estimated risk of each iterate of each path.
    stderr, train : Array of shape (L, n_iter + 1)
        Their standard errors, and the training error.
    best : tuple of int
        Index of the chosen penalty, and the chosen iterate.
    best_lam : float
        The chosen penalty.
    best_iter : int
        The chosen iterate.
    path : Path
        The path of the chosen penalty.
    coef : Array of shape (p,)
        Its coefficients.
    intercept : float
        Its intercept; zero without one.
    risks : tuple of Risk
        One for each penalty, with its path.
    settled : ndarray of bool of shape (L,)
        Which penalties contended for the minimum, and were looked at closely: audited, the chosen
        one also with all the probes it needs. The others have had a first look alone.
    rule : {"min", "one_se"}
        How the choice was made.
    stop : {"risk", "limit", "n_iter", "interrupted"}
        Why the iterations ended: the estimated risk no longer falls, it still does at the limit for
        data of this size, their number was given, or they were interrupted.
    best_risk, best_risk_stderr : float
        Estimated risk of the chosen model, the choice itself counted, and its standard error. The
        choice is made again without the rows that it is tested on: by ten nested folds, or five,
        where they cost no more than the tuning; elsewhere by the bootstrap of the choice. Computed
        when they are asked for.
    naive_risk, naive_risk_stderr : float
        The smallest estimated risk, ``risk[best]``, and its standard error: too small, by a few
        percent, and by ten or more with few rows for the columns.
    chosen : ChosenRisk
        More about `best_risk`: how it was computed, and the predictions of rows that were left out.
    intervals : PredictionIntervals
        What `predict_interval` needs.
    warnings : tuple of str
        Reasons not to trust the estimate of the chosen iterate, in plain words.
    still_falls : bool
        Whether the risk still fell when the iterations ended: more may be better.
    """

    lams: np.ndarray
    risks: tuple[Risk, ...] = field(repr=False)
    settled: np.ndarray
    rule: str
    best: tuple[int, int]
    stop: str
    #: From what the risk of the choice is estimated, the choice counted.
    context: ChoiceContext = field(repr=False)

    @cached_property
    def risk(self) -> Array:
        """Estimated risk."""
        return self._stack("values")

    @cached_property
    def stderr(self) -> Array:
        """Standard errors."""
        return self._stack("stderr")

    @cached_property
    def train(self) -> Array:
        """Training error."""
        return self._stack("train")

    @property
    def best_lam(self) -> float:
        """The chosen penalty."""
        return float(self.lams[self.best[0]])

    @property
    def best_iter(self) -> int:
        """The chosen iterate."""
        return self.best[1]

    @property
    def path(self) -> Path:
        """The path of the chosen penalty."""
        return self.risks[self.best[0]].path

    @property
    def coef(self) -> Array:
        """Coefficients of the chosen iterate."""
        return self.path.coef[self.best_iter, :]

    @property
    def intercept(self) -> float:
        """Intercept of the chosen iterate."""
        return float(self.path.intercept[self.best_iter])

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """Reasons not to trust the estimate of the chosen iterate."""
        k, t = self.best
        return tuple(found.message for found in self.risks[k].diagnose(t) if found.warns)

    @property
    def still_falls(self) -> bool:
        """Whether the risk still fell when the iterations ended."""
        if self.stop == "limit":
            return True
        (k, t), last = self.best, self.path.n_iter
        if self.stop == "risk" or t <= last // 2 or not may_still_improve([self.risks[k]]):
            return False
        fall, stderr = self.compare((k, last // 2), (k, t))
        return fall > stderr

    @cached_property
    def chosen(self) -> ChosenRisk:
        """Risk of the chosen model, the choice counted, and predictions of left-out rows."""
        return self.count_choice()

    def count_choice(self) -> ChosenRisk:
        """Estimate the risk of the chosen model; `chosen` keeps it."""
        context = self.context
        with self._few_threads():
            return risk_after_choice(
                context.batch,
                self.risks,
                self.best,
                SelectionRule(self.lams, self.rule, context.iterate),
                context.options,
                context.seed,
                nested=self.stop != "interrupted",
            )

    @property
    def best_risk(self) -> float:
        """Estimated risk of the chosen model, the choice counted."""
        return self.chosen.value

    @property
    def best_risk_stderr(self) -> float:
        """Standard error of `best_risk`."""
        return self.chosen.stderr

    @property
    def naive_risk(self) -> float:
        """The smallest estimated risk."""
        return float(self.risks[self.best[0]].values[self.best[1]])

    @property
    def naive_risk_stderr(self) -> float:
        """Standard error of `naive_risk`."""
        return float(self.risks[self.best[0]].stderr[self.best[1]])

    @cached_property
    def intervals(self) -> PredictionIntervals:
        """What `predict_interval` needs: models that left out rows, and their residuals."""
        if self.path.loss.margin:
            raise ValueError(
                "there are no prediction intervals of labels; the left-out predictions of rows are "
                "tuning.chosen.predictions"
            )
        chosen, y = self.chosen, to_numpy(self.path.y).astype(float)
        models, fold, model = chosen.models, chosen.splits.fold, None
        residuals = y[chosen.rows] - chosen.predictions
        if not chosen.splits.complete or fold is None:
            # models of a part of the rows, as of the past, are worse than that of all
            model = to_numpy(self.coef).astype(float), self.intercept
            tested, fold = np.nonzero(chosen.splits.test)
            residuals = y[tested] - models.predictions[tested, fold]
        elif self.risks[self.best[0]].method == "loo" and chosen.groups is None:
            # rows one at a time, each with the choice that was made without its fold
            members, at = zip(*(chosen.choices[k] for k in fold), strict=True)
            models = self.models_without(members, ~np.eye(len(y), dtype=bool), at)
            fold, residuals = np.arange(len(y)), y - np.diagonal(models.predictions)
        return PredictionIntervals(
            coef=models.coef,
            intercept=models.intercept,
            fold=fold,
            residuals=residuals,
            symmetric=not isinstance(self.path.loss, Quantile),
            model=model,
        )

    def models_without(
        self, members: Sequence[int], train: np.ndarray, at: Sequence[int]
    ) -> LeftOutModels:
        """Fit models to some of the rows each.

        Parameters
        ----------
        members : sequence of int of length K
            Their penalties.
        train : ndarray of bool of shape (n, K)
            The rows that each is fitted to.
        at : sequence of int of length K
            Their iterates.
        """
        with self._few_threads():
            return models_without(self.context.batch.unmoved().part(members), train, at)

    def predict(self, X: Any) -> Array:
        """Predict the responses of new rows by the chosen iterate.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (m, p)
            The rows, with the columns that `tune` was given.

        Returns
        -------
        Array of shape (m,)
            Of the library of X, if that is an array.
        """
        coef, intercept = to_numpy(self.coef)[None, :], np.array([self.intercept])
        return linear_predictions(X, coef.astype(float), intercept)[:, 0]

    def predict_interval(self, X: Any, level: float = 0.9) -> Array:
        """Return intervals that cover the responses of new rows with a given probability.

        By CV+ (Barber, Candès, Ramdas and Tibshirani, 2021): from the models that each left out a
        fold and the residuals of the rows that they left out; where the risk was estimated by
        leave-one-out, from models that left out one row each (jackknife+). If new rows are
        exchangeable with those that were fitted, and each model is chosen without what it leaves
        out, the coverage is at least ``2 * level - 1``, less a term of the order of
        ``1 / sqrt(n)``; in practice it is close to `level`. The choice is made so by nested folds;
        with many rows (`ChosenRisk.method` "bootstrap") it is made once, which then hardly matters.
        Intervals are symmetric about predictions, but for the quantile loss. Given splits that do
        not leave out each row once, as of a time series, intervals are centred at predictions of
        the chosen model, and there is no guarantee.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (m, p)
            The rows, with the columns that `tune` was given.
        level : float, default=0.9
            The probability, between 0 and 1.

        Returns
        -------
        Array of shape (m, 2)
            Lower and upper ends; of the library of X, if that is an array.
        """
        return self.intervals.interval(X, level)

    def compare(self, first: tuple[int, int], second: tuple[int, int]) -> tuple[float, float]:
        """Return the estimated risk of ``first`` less that of ``second``, and its standard error.

        Parameters
        ----------
        first, second : tuple of int
            Each the index of a penalty and an iterate, such as ``tuning.best``.
        """
        indices = []
        for name, pair in (("first", first), ("second", second)):
            if not hasattr(pair, "__len__") or len(pair) != 2:
                raise TypeError(f"{name} must be a pair (penalty, iterate), got {pair!r:.60}")
            indices.append(check_count(f"{name}[0]", pair[0], low=0, high=len(self.lams) - 1))
        return compare_risks(self.risks[indices[0]], first[1], self.risks[indices[1]], second[1])

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the risk over penalties and iterations.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        matplotlib.axes.Axes
        """
        from steinpath.plots import plot_tuning

        return plot_tuning(self, ax)

    def __repr__(self) -> str:
        risk = self.risks[self.best[0]]
        if "chosen" in self.__dict__:
            found = with_error(self.best_risk, self.best_risk_stderr)
        else:  # a repr is not to compute for long
            found = f"{with_error(self.naive_risk, self.naive_risk_stderr)}, the choice not counted"
        return (
            f"<Tuning ({risk.test_loss}) of {len(self.lams)} penalties and {risk.path.n_iter} "
            f"iterations: best is iterate {self.best_iter} at lam = {self.best_lam:.4g} with "
            f"{found}>"
        )

    def _few_threads(self) -> AbstractContextManager[None]:
        """Return a context in which small products use one thread."""
        n, p = self.context.batch.data.design.shape
        return one_thread_unless(n * p * len(self.lams))

    def _stack(self, name: str) -> Array:
        arrays = [getattr(risk, name) for risk in self.risks]
        return namespace(*arrays).stack(arrays)
