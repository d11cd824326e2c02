"""The result of a search over penalties and iterations."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from steinpath._support.arrays import Array, namespace, to_numpy
from steinpath._support.caching import cached_property
from steinpath._support.charts import line_chart, on_axes
from steinpath._support.printing import Summary, fragment, number, with_error
from steinpath._support.tabular import Tabular
from steinpath._support.threads import one_thread_unless
from steinpath._support.validation import check_count
from steinpath.engine._batch import Batch
from steinpath.engine._path import Path
from steinpath.inference._prediction_intervals import PredictionIntervals, linear_predictions
from steinpath.problem._losses import Quantile
from steinpath.risk._after_choice import ChosenRisk, risk_after_choice
from steinpath.risk._leave_out import LeftOutModels, models_without
from steinpath.risk._nested import SelectionRule
from steinpath.risk._options import RiskOptions
from steinpath.risk._risk import Risk, compare_risks
from steinpath.risk._stopping import may_still_improve, worth

if TYPE_CHECKING:
    from matplotlib.axes import Axes


# Residuals of weighted rows are repeated so many times on average, up to this number of them.
_REPEATED, _ENOUGH = 20, 20_000


class ChoiceContext(NamedTuple):
    """What the risk of the selected model is estimated from; `iterate` only if it was given.

    nested: whether the adjustment for selection may be by nested folds
    """

    batch: Batch
    options: RiskOptions
    seed: int
    iterate: int | None
    nested: bool = True


class Grid(NamedTuple):
    """Values of ``lam``, and of other parameters by name, of all penalties."""

    lams: np.ndarray
    params: Mapping[str, np.ndarray] = {}

    def some(self, which: Any) -> Grid:
        """Return those of some penalties."""
        return Grid(self.lams[which], {name: of[which] for name, of in self.params.items()})

    def alike(self, k: int) -> np.ndarray:
        """Return the penalties with the same other parameters as one of them."""
        same = np.ones(len(self.lams), dtype=bool)
        for values in self.params.values():
            same &= values == values[k]
        return np.flatnonzero(same)

    @property
    def strength(self) -> np.ndarray:
        """``lam``, relative to the largest with the same other parameters if there are several."""
        if not self.params:
            return self.lams
        largest = [self.lams[self.alike(k)].max() for k in range(len(self.lams))]
        return np.asarray(self.lams / np.where(np.array(largest) > 0, largest, 1.0))


@dataclass(frozen=True, eq=False)
class Tuning(Tabular):
    """Estimated risk of every iterate for every ``lam``. Returned by `tune`.

    Attributes
    ----------
    lams : ndarray of shape (L,)
        The regularisation strengths; with other parameters, those of all combinations.
    params : dict of str to ndarray of shape (L,)
        Values of other parameters by name, if there are any.
    risk : Array of shape (L, n_iter + 1)
        Estimated risk of each iterate of each path; NaN where it was not estimated, because the
        path was clearly worse than others or the iterate is far beyond the best one.
    stderr, train : Array of shape (L, n_iter + 1)
        Standard errors of `risk`, and training errors.
    best : tuple of int
        Index of the selected ``lam``, and the selected iteration.
    best_lam, best_iter : float, int
        The selected ``lam`` and iteration.
    best_params : dict
        The selected ``lam`` and other parameters by name.
    path : Path
        The path of the selected ``lam``.
    coef, intercept : Array of shape (p,), float
        Coefficients and intercept of the selected model.
    risks : tuple of Risk
        One for each ``lam``, with its path.
    settled : ndarray of bool of shape (L,)
        Whether the risk of each ``lam`` was estimated accurately: with an audit and, for the
        selected one, as many probes as needed. The others were screened out by a rough estimate.
    rule : {"min", "one_se"}
        The selection rule.
    stop : {"risk", "limit", "n_iter", "interrupted"}
        Why the iterations ended. "risk": the estimated risk stopped decreasing; "limit": the limit
        for data of this size was reached first; "n_iter": the given number was run;
        "interrupted": the run was interrupted.
    best_risk, best_risk_stderr : float
        Estimated risk of the selected model, adjusted for selection, and its standard error. The
        selection is repeated without the rows that it is evaluated on: by nested cross-validation
        if this takes no longer than tuning, and otherwise by a bootstrap, at first access.
    naive_risk, naive_risk_stderr : float
        The estimated risk ``risk[best]``, not adjusted for selection, and its standard error. It
        is usually too small by a few percent, and by ten or more with few rows per column.
    chosen : ChosenRisk
        More about `best_risk`: how it was computed, and the out-of-fold predictions.
    intervals : PredictionIntervals
        Out-of-fold models and residuals, for `predict_interval`.
    warnings : tuple of str
        Warnings about the estimated risk of the selected model; an empty tuple means no warnings.
    still_falls : bool
        Whether the risk was still decreasing when the iterations ended; more may then be better.
    """

    lams: np.ndarray
    risks: tuple[Risk, ...] = field(repr=False)
    settled: np.ndarray
    rule: str
    best: tuple[int, int]
    stop: str
    path: Path = field(repr=False)
    #: Data for the risk adjusted for selection.
    context: ChoiceContext = field(repr=False)
    #: Library of the data frame that X came as, if it did.
    library: str | None = field(default=None, repr=False)
    params: Mapping[str, np.ndarray] = field(default_factory=dict)

    @property
    def grid(self) -> Grid:
        """Values of all parameters."""
        return Grid(self.lams, self.params)

    @property
    def best_params(self) -> dict[str, float]:
        """The selected ``lam`` and other parameters by name."""
        own = {name: float(values[self.best[0]]) for name, values in self.params.items()}
        return {"lam": self.best_lam, **own}

    def at_best_params(self) -> Tuning:
        """Return the part with the selected values of parameters other than ``lam``.

        Returns
        -------
        Tuning
            The same search with one ``lam`` per row, for plots.
        """
        if not self.params:
            return self
        which = self.grid.alike(self.best[0])
        best = int(np.flatnonzero(which == self.best[0])[0]), self.best[1]
        risks, settled = tuple(self.risks[k] for k in which), self.settled[which]
        changes = {"lams": self.lams[which], "risks": risks, "settled": settled, "best": best}
        part = replace(self, **changes, params={})
        part.__dict__["chosen"] = self.chosen  # of all values, with their places in the batch
        return part

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
        """The selected ``lam``."""
        return float(self.lams[self.best[0]])

    @property
    def best_iter(self) -> int:
        """The selected iteration."""
        return self.best[1]

    @property
    def _selected(self) -> Risk:
        return self.risks[self.best[0]]

    @property
    def coef(self) -> Array:
        """Coefficients of the selected model."""
        return self.path.coef[self.best_iter, :]

    @property
    def intercept(self) -> float:
        """Intercept of the selected model."""
        return float(self.path.intercept[self.best_iter])

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about the estimated risk of the selected model."""
        checks = self._selected.diagnose(self.best_iter)
        return tuple(check.message for check in checks if check.warns)

    @property
    def still_falls(self) -> bool:
        """Whether the risk was still decreasing when the iterations ended."""
        if self.stop == "limit":
            return True
        (k, t), last = self.best, self.path.n_iter
        if self.stop == "risk" or t <= last // 2 or not may_still_improve([self.risks[k]]):
            return False
        fall, stderr = self.compare((k, last // 2), (k, t))
        return fall > stderr

    @cached_property
    def chosen(self) -> ChosenRisk:
        """Risk of the selected model, adjusted for selection, and out-of-fold predictions."""
        chosen: ChosenRisk = self.path.design.on_blocks(_adjust_for_selection, self)
        return chosen

    @property
    def best_risk(self) -> float:
        """Estimated risk of the selected model, adjusted for selection."""
        return self.chosen.value

    @property
    def best_risk_stderr(self) -> float:
        """Standard error of `best_risk`."""
        return self.chosen.stderr

    @property
    def naive_risk(self) -> float:
        """Estimated risk of the selected model, not adjusted for selection."""
        return float(self._selected.values[self.best_iter])

    @property
    def naive_risk_stderr(self) -> float:
        """Standard error of `naive_risk`."""
        return float(self._selected.stderr[self.best_iter])

    @cached_property
    def intervals(self) -> PredictionIntervals:
        """Out-of-fold models and their residuals, for `predict_interval`."""
        if self.path.loss.margin:
            raise ValueError(
                "prediction intervals are not available for classification; the out-of-fold "
                "predictions are tuning.chosen.predictions"
            )
        chosen, y = self.chosen, to_numpy(self.path.y).astype(float)
        models, fold, centre = chosen.models, chosen.splits.fold, None
        residuals, rows = y[chosen.rows] - chosen.predictions, chosen.rows
        if not chosen.splits.complete or fold is None:
            # models of some of the rows, such as the past, are worse than the model of all
            centre = to_numpy(self.coef).astype(float), self.intercept
            tested, fold = np.nonzero(chosen.splits.test)
            residuals, rows = y[tested] - models.predictions[tested, fold], tested
        elif self._selected.method == "loo" and chosen.groups is None:
            # rows one at a time, each with the selection that was made without its fold
            members, at = zip(*(chosen.choices[k] for k in fold), strict=True)
            others = ~np.eye(len(y), dtype=bool)
            models = self.path.design.on_blocks(_models_without, self, members, others, at)
            fold, residuals = np.arange(len(y)), y - np.diagonal(models.predictions)
        symmetric = not isinstance(self.path.loss, Quantile)
        if chosen.weights is not None:  # rows as often as they count
            often = _in_proportion(chosen.weights[rows])
            fold, residuals = fold[often], residuals[often]
        return PredictionIntervals(
            models.coef, models.intercept, fold, residuals, symmetric, model=centre
        )

    def predict(self, X: Any) -> Array:
        """Predict the responses of new rows with the selected model.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (m, p)
            The rows, with the columns passed to `tune`.

        Returns
        -------
        Array of shape (m,)
            The predictions; an array of the library of X, and of NumPy for a data frame.
        """
        coef, intercept = to_numpy(self.coef)[None, :], np.array([self.intercept])
        return linear_predictions(X, coef.astype(float), intercept)[:, 0]

    def predict_interval(self, X: Any, level: float = 0.9) -> Array:
        """Return prediction intervals for the responses of new rows.

        The method is CV+ (Barber, Candès, Ramdas and Tibshirani, 2021), which combines the
        out-of-fold models with their residuals; where the risk was estimated by leave-one-out, one
        row is left out at a time (jackknife+). If new rows are exchangeable with the training rows,
        and each model is selected without its held-out rows, as by nested folds, the coverage is at
        least ``2 * level - 1``, less a term of order ``1 / sqrt(n)``; in practice it is close to
        `level`. Intervals are symmetric except for the quantile loss. For splits that do not hold
        out each row once, as for time series, they are centred at the predictions of the selected
        model, and there is no guarantee.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (m, p)
            The rows, with the columns passed to `tune`.
        level : float, default=0.9
            The nominal coverage, between 0 and 1.

        Returns
        -------
        Array of shape (m, 2)
            Lower and upper ends; an array of the library of X, and of NumPy for a data frame.
        """
        return self.intervals.interval(X, level)

    def compare(self, first: tuple[int, int], second: tuple[int, int]) -> tuple[float, float]:
        """Return the estimated risk of ``first`` less that of ``second``, and its standard error.

        Parameters
        ----------
        first, second : tuple of int
            Index of a ``lam`` and an iteration, such as ``tuning.best``.

        Returns
        -------
        tuple of float
            The difference and its standard error.
        """
        places = list[Any]()
        for name, pair in (("first", first), ("second", second)):
            if not hasattr(pair, "__len__") or len(pair) != 2:
                raise TypeError(
                    f"{name} must be a pair (index of lam, iteration), got {pair!r:.60}"
                )
            k = check_count(f"{name}[0]", pair[0], low=0, high=len(self.lams) - 1)
            t = check_count(f"{name}[1]", pair[1], low=0, high=self.path.n_iter)
            if t >= (known := self.risks[k].values.shape[0]):
                raise ValueError(
                    f"{name}: the risk of lam {k} was estimated up to iteration {known - 1} only, "
                    f"got {t}; give n_iter to `tune` to estimate all iterations"
                )
            places += [self.risks[k], t]
        return compare_risks(*places)

    def end_of_grid(self) -> str | None:
        """Return the end of the grid that was selected, "smallest" or "largest", if it matters.

        The risk there must be lower than at the next penalty by more than a standard error, and
        penalties beyond promise an improvement, by linear extrapolation to zero at the small end.
        """
        k, t = self.best
        alike = self.grid.alike(k)
        order = alike[np.argsort(self.lams[alike], kind="stable")]
        place = int(np.flatnonzero(order == k)[0])
        if len(order) < 2 or place not in (0, len(order) - 1):
            return None
        end, neighbour = ("smallest", order[1]) if place == 0 else ("largest", order[-2])
        at = self.risks[neighbour].best_iter if self.context.iterate is None else t
        fall, stderr = self.compare((int(neighbour), at), self.best)
        lam, beside = self.lams[k], self.lams[neighbour]
        beyond = float(lam / max(beside - lam, np.spacing(beside))) if place == 0 else 1.0
        return end if fall > stderr and fall * beyond > worth(self.risks[k], t) else None

    @on_axes
    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot the risk over ``lam`` and iterations."""
        from steinpath.plots import plot_tuning

        return plot_tuning(self, ax)

    def to_dict(self) -> dict[str, Any]:
        """Return a table as columns by name: one row for each ``lam``, at its best iteration.

        Returns
        -------
        dict
            Columns "lam", "iteration" (that with the smallest risk, or the given one), "risk",
            "stderr", "train", "settled" and "selected".
        """
        (k, t), given = self.best, self.context.iterate
        at = [risk.best_iter if given is None else given for risk in self.risks]
        at[k] = t
        curves = {"risk": self.risk, "stderr": self.stderr, "train": self.train}
        places = np.arange(len(at)), np.array(at)
        return {
            "lam": self.lams,
            **self.params,
            "iteration": places[1],
            **{name: to_numpy(values)[places].astype(float) for name, values in curves.items()},
            "settled": np.asarray(self.settled),
            "selected": places[0] == k,
        }

    def summary(self) -> Summary:
        """Summarise the selected model as a table, in the style of statsmodels.

        Returns
        -------
        Summary
            ``print`` it for plain text; notebooks show it as HTML. The estimated risk is adjusted
            for selection, which may take as long as the tuning at first access.
        """
        value = with_error(self.best_risk, self.best_risk_stderr)
        selected = (
            ("No. Penalties", str(len(self.lams))),
            *((f"Selected {name}", number(value)) for name, value in self.best_params.items()),
        )
        facts = self._selected._facts_at(self.best_iter, value, selected)
        method = self.chosen.method
        notes = [f"Estimated risk adjusted for selection (method: {method}); ± one standard error."]
        if self.still_falls:
            length = self.path.n_iter
            notes.append(f"the estimated risk was still decreasing after {length} iterations")
        return Summary("Tuning Results", facts, notes=(*notes, *self.warnings))

    def _adjusted(self) -> str:
        """Return the estimated risk, adjusted for selection if that was computed."""
        if "chosen" in self.__dict__:
            return with_error(self.best_risk, self.best_risk_stderr)
        # a repr must not compute for long
        return f"{with_error(self.naive_risk, self.naive_risk_stderr)}, not adjusted for selection"

    def _repr_html_(self) -> str:
        if self.params:
            return self.at_best_params()._repr_html_()
        k, t = self.best
        facts = [
            ("Model", f"{self.path.loss!r}, {type(self.path.penalty).__name__}"),
            ("Data", f"n = {self.path.n_samples}, p = {self.path.n_features}"),
            ("Selected", f"lam = {number(self.best_lam)}, iteration {t} of {self.path.n_iter}"),
            ("Scoring loss", self._selected.test_loss),
            ("Estimated risk", self._adjusted()),
            ("Training error", number(float(self._selected.train[t]))),
        ]
        columns = self.to_dict()
        lines = {"estimated risk": columns["risk"], "training error": columns["train"]}
        errors = columns["stderr"]
        log = len(self.lams) > 1 and bool(np.all(self.lams > 0))
        chart = line_chart(self.lams, lines, x_label="lam", marked=k, errors=errors, log_x=log)
        along = self._selected._chart(t, f"iteration at lam = {number(self.best_lam, 3)}")
        return fragment(f"Tuning of {len(self.lams)} penalties", facts, chart, along)

    def __repr__(self) -> str:
        return (
            f"<Tuning ({self.risks[0].test_loss}) of {len(self.lams)} penalties and "
            f"{self.path.n_iter} iterations: selected iteration {self.best_iter} at "
            f"lam = {number(self.best_lam)}, estimated risk {self._adjusted()}>"
        )

    def _few_threads(self) -> AbstractContextManager[None]:
        """Return a context in which small matrix products use one thread."""
        n, p = self.context.batch.data.design.shape
        return one_thread_unless(n * p * len(self.lams))

    def _stack(self, name: str) -> Array:
        arrays = [getattr(risk, name) for risk in self.risks]
        # the selected path may have been dropped before others
        length = max(self.path.n_iter + 1, *(row.shape[0] for row in arrays))
        xp = namespace(*arrays)
        missing = xp.full_like(arrays[0][:1], math.nan)
        return xp.stack([xp.concat([row, *[missing] * (length - row.shape[0])]) for row in arrays])


def _in_proportion(weights: np.ndarray) -> np.ndarray:
    """Return rows, repeated nearly in proportion to their weights."""
    count = max(len(weights), min(_REPEATED * len(weights), _ENOUGH))
    reached = np.cumsum(weights) / weights.sum()
    return np.searchsorted(reached, (np.arange(count) + 0.5) / count)


def _adjust_for_selection(tuning: Tuning) -> ChosenRisk:
    context = tuning.context
    with tuning._few_threads():
        return risk_after_choice(
            context.batch,
            tuning.risks,
            tuning.best,
            SelectionRule(tuning.grid.strength, tuning.rule, context.iterate),
            context.options,
            context.seed,
            nested=context.nested and tuning.stop != "interrupted",
        )


def _models_without(
    tuning: Tuning, members: Sequence[int], train: np.ndarray, at: Sequence[int]
) -> LeftOutModels:
    """Fit models to subsets of the rows: columns of ``train`` (n, K), at iterations ``at``."""
    with tuning._few_threads():
        return models_without(tuning.context.batch.unmoved().part(members), train, at)
