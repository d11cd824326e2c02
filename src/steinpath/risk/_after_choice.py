"""Risk of a selected model, adjusted for selection.

The estimated risk at the selected iterate is the smallest of many and therefore too small. To
adjust for that, the selection is repeated without the rows on which it is tested: by nested folds,
or by a bootstrap of the selection if these would cost more than the tuning itself.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from steinpath._support.arrays import namespace, to_numpy
from steinpath._support.printing import with_error
from steinpath.design._base import Design
from steinpath.engine._batch import Batch, DeferredBatch
from steinpath.engine._tangents import design_in
from steinpath.problem._scoring import observation_losses
from steinpath.risk._bootstrap import bootstrap_selection
from steinpath.risk._estimate import Risk, compare_risks
from steinpath.risk._fold_runs import mean_and_error
from steinpath.risk._interactions import Interactions
from steinpath.risk._leave_out import LeftOutModels, models_without
from steinpath.risk._method_costs import TALL
from steinpath.risk._methods import SMALL, n_folds
from steinpath.risk._nested import Cells, InnerRuns, NestedSelection, SelectionRule
from steinpath.risk._options import RiskOptions
from steinpath.risk._splits import Splits, make_splits
from steinpath.risk._stopping import work_of_a_step

# Number of folds; the second number is used if the first is too expensive.
_FOLDS = (10, 5)
# Number of penalties among which the selection is repeated, those with the smallest risks: minimum,
# maximum, and maximum if there are few rows, for which the selection is less certain.
_FEWEST, _MOST, _MOST_OF_FEW = 3, 8, 12
# Nested folds may take as many steps of runs as the tuning, and with few rows three times as many.
# The accurate estimate of the selected risk adds this many columns to the tuning: probes and folds.
_FEW_ROWS, _FOR_FEW, _CAREFUL = 300, 3, 40
# Or they may take this much work, a few tenths of a second; see `work_of_a_step`.
_CHEAP = 2e9
# With this many rows, in total and per column, the losses are so weakly dependent that the
# bootstrap is accurate enough.
_MANY_ROWS = 5000
# Minimum size of a training set, relative to the largest, for a split to be tested.
_FEWEST_TRAINED = 0.5
# Differences up to this share of the sampling error, times the number of accurate estimates so far,
# do not call for another one: neighbouring penalties have similar errors and risks.
_CHANCE = 0.1
# Maximum numbers of splits, and of sets of rows that they treat alike.
_MOST_SPLITS, _MOST_CELLS = 32, 64


@dataclass(frozen=True, eq=False)
class ChosenRisk:
    """Risk of a selected model, adjusted for selection; see `Tuning.chosen`.

    Attributes
    ----------
    value, stderr : float
        Estimate and its standard error.
    method : {"nested", "bootstrap", "fixed"}
        Adjustment for selection: nested folds, or a bootstrap of the selection; "fixed" if there
        was nothing to select.
    rows : ndarray of int of shape (m,)
        Held-out rows: all rows, unless user-defined splits do not test all of them.
    predictions, losses : ndarray of shape (m,)
        Their out-of-fold predictions, and the scoring losses. If `method` is "nested", the penalty
        and the iteration were also selected without these rows.
    choices : tuple of (int, int)
        Penalty and iteration of the model fitted in each split.
    """

    value: float
    stderr: float
    method: str
    rows: np.ndarray = field(repr=False)
    predictions: np.ndarray = field(repr=False)
    losses: np.ndarray = field(repr=False)
    choices: tuple[tuple[int, int], ...] = field(repr=False)
    splits: Splits = field(repr=False)
    models: LeftOutModels = field(repr=False)
    interactions: Interactions | None = field(default=None, repr=False)
    groups: np.ndarray | None = field(default=None, repr=False)

    def compare(self, other: ChosenRisk) -> tuple[float, float]:
        """Return the difference from another risk on the same rows, and its standard error.

        Parameters
        ----------
        other : ChosenRisk
            Risk of another model that was tuned on the same rows. Use the same ``rng`` for both, so
            that they have the same folds and the difference has a smaller error.
        """
        return compare_chosen(self, other)

    @property
    def dependence(self) -> float:
        """Ratio of the standard error to that of independent losses."""
        _, independent = _mean_and_error(self.losses, self.rows, self.groups)
        return max(self.stderr / independent, 1.0) if independent > 0 else 1.0

    def mean_of(self, losses: np.ndarray) -> tuple[float, float]:
        """Return the mean of other losses of the same predictions, and its standard error.

        They are assumed to be as dependent as `losses`.

        Parameters
        ----------
        losses : ndarray of shape (m,)
            One loss for each of `rows`.
        """
        mean, stderr = _mean_and_error(losses, self.rows, self.groups)
        return mean, stderr * self.dependence

    def __repr__(self) -> str:
        return f"<ChosenRisk ({self.method}): {with_error(self.value, self.stderr)}>"


def compare_chosen(first: ChosenRisk, second: ChosenRisk) -> tuple[float, float]:
    """Return the difference of two risks on the same rows, and its standard error.

    Both are adjusted for selection. The error is that of the mean difference of the held-out
    losses, including their dependence where it is known; if the two models were tested with
    different folds, the dependent parts are treated as independent.
    """
    if not np.array_equal(first.rows, second.rows):
        raise ValueError("the two models were tested on different rows; tune both on the same rows")
    _, stderr = _mean_and_error(first.losses - second.losses, first.rows, first.groups)
    one, other = first.interactions, second.interactions
    if one is not None and other is not None and np.array_equal(*_tests(first, second)):
        stderr = math.hypot(stderr, one.stderr_between(0, 0, other))
    else:
        known = [each for each in (one, other) if each is not None]
        stderr = math.hypot(stderr, *(float(each.stderr()[0]) for each in known))
    return first.value - second.value, stderr


def _tests(first: ChosenRisk, second: ChosenRisk) -> tuple[np.ndarray, np.ndarray]:
    return first.splits.test, second.splits.test


def _mean_and_error(
    losses: np.ndarray,
    rows: np.ndarray,
    groups: np.ndarray | None,
    design: Design | None = None,
) -> tuple[float, float]:
    """Return the mean of losses of some rows, and its standard error.

    With a design that holds only some rows, the losses are those of the local rows.
    """
    if design is None or design.is_whole:
        groups = None if groups is None else groups[rows]
        mean, stderr = mean_and_error(losses[None, :], np.ones(len(losses)), groups)
    else:
        own, counts = np.zeros((2, design.shape[0]))
        where = design.places(rows)[1]
        own[where], counts[where] = losses, 1.0
        mean, stderr = mean_and_error(own[None, :], counts, groups, design)
    return float(mean[0]), float(stderr[0])


def risk_after_choice(
    batch: Batch,
    risks: Sequence[Risk],
    best: tuple[int, int],
    selection_rule: SelectionRule,
    options: RiskOptions,
    seed: int,
    nested: bool = True,
) -> ChosenRisk:
    """Estimate the risk of a selected model, adjusted for selection.

    Parameters
    ----------
    batch : Batch
        Paths of all penalties.
    risks : sequence of Risk
        Risks of these paths.
    best : tuple of int
        Selected penalty and iteration.
    selection_rule : SelectionRule
        Selection rule.
    options : RiskOptions
        Risk options with the groups and splits of these rows.
    seed : int
        Seed of the folds and of the bootstrap.
    nested : bool, default=True
        Whether nested folds may be run.

    Returns
    -------
    ChosenRisk
        If some rows are not local, with predictions and losses of the local rows.
    """
    rng = np.random.default_rng([seed, 1])
    fixed = len(risks) == 1 and selection_rule.iterate is not None
    plan = _plan(batch, risks, best, selection_rule, options, rng)
    splits, members, selection_rule = plan.splits, plan.members, selection_rule.among(plan.members)
    naive = risks[best[0]]
    value, stderr = float(naive.values[best[1]]), float(naive.stderr[best[1]])
    start = batch.unmoved()
    choices: list[tuple[int, int] | None] = [best] * splits.n_splits
    method, optimism, changes = "fixed" if fixed else "bootstrap", 0.0, None
    if plan.runs is not None and nested and not fixed:
        method, part = "nested", start.part(members.tolist())
        inner = NestedSelection(
            part, naive.criterion, splits, plan.runs, selection_rule, plan.length, _rounded(batch)
        )
        train = np.stack([to_numpy(risks[k].train)[: plan.length] for k in members])
        optimism, changes = inner.optimism(train), inner.changes()
        choices = [each and (int(members[each[0]]), each[1]) for each in inner.choices]
    elif not fixed:
        value = bootstrap_selection([risks[k] for k in members], selection_rule, plan.length, rng)
    splits, made = _with_choices(splits, choices)
    models = models_without(start.part([k for k, _ in made]), splits.train, [t for _, t in made])
    design, rows = batch.data.design, np.flatnonzero(splits.tests)
    own = design.places(rows)[1]  # local rows
    shares = design.local(splits.test / np.maximum(splits.tests, 1)[:, None])[own]
    predictions = np.sum(shares * models.predictions[own], axis=1)
    losses = np.sum(shares * _all_losses(naive, models.predictions)[own], axis=1)
    if method == "nested":
        value, spread = _mean_and_error(losses, rows, options.groups, design)
        value = float(value + optimism)
        if not splits.complete and splits.n_splits > 1:
            # neighbours in time are dependent; blocks of them are less so
            blocks = splits.test.argmax(axis=1)
            spread = max(spread, _mean_and_error(losses, rows, blocks, design)[1])
        if changes is not None:
            spread = math.hypot(spread, float(changes.stderr()[0]))
        # selection cannot make the risk more certain than that of a fixed model
        stderr = max(stderr, spread)
    return ChosenRisk(
        value=value,
        stderr=stderr,
        method=method,
        rows=rows,
        predictions=predictions,
        losses=losses,
        choices=made,
        splits=splits,
        models=models,
        interactions=changes,
        groups=options.groups,
    )


def _with_choices(
    splits: Splits, choices: Sequence[tuple[int, int] | None]
) -> tuple[Splits, tuple[tuple[int, int], ...]]:
    """Return the splits that can be tested, and their selections.

    A split without a selection of its own, such as the first of a time series, tests nothing.
    Neither does a split (other than a fold) that trains on so few rows that its model is not
    representative of the final one.
    """
    made = {k: choice for k, choice in enumerate(choices) if choice is not None}
    if not splits.complete:
        trained = splits.train.sum(axis=0)
        enough = _FEWEST_TRAINED * max(trained[k] for k in made)
        made = {k: choice for k, choice in made.items() if trained[k] >= enough}
    return splits.at(list(made)), tuple(made.values())


def _rounded(batch: Batch) -> Design | None:
    """Return a single-precision design, if that is accurate enough and faster."""
    if math.prod(batch.data.design.whole_shape) <= SMALL:
        return None
    if isinstance(batch, DeferredBatch):  # its states are not available
        batch = batch.unmoved()
    rngs = [np.random.default_rng(k) for k in range(len(batch))]
    return design_in(batch, namespace(batch.data.y).float32, rngs)


def _all_losses(risk: Risk, predictions: np.ndarray) -> np.ndarray:
    """Return the losses of predictions (n, K) of y."""
    path = risk.path
    less = path.design.array(predictions.T - path.level)
    return to_numpy(observation_losses(risk.criterion, path.response, less)).T.astype(float)


class _Plan(NamedTuple):
    """Splits, and the penalties and iterations among which the selection is repeated.

    Attributes
    ----------
    splits : Splits
        Splits.
    members : ndarray of int of shape (S,)
        Indices of the penalties.
    length : int
        Number of iterations.
    runs : InnerRuns or None
        Runs of nested splits; None if they are too expensive or not possible.
    """

    splits: Splits
    members: np.ndarray
    length: int
    runs: InnerRuns | None


def _plan(
    batch: Batch,
    risks: Sequence[Risk],
    best: tuple[int, int],
    selection_rule: SelectionRule,
    options: RiskOptions,
    rng: np.random.Generator,
) -> _Plan:
    n, p = batch.data.design.whole_shape
    most = options.units(n)
    order = _candidates(risks, best, selection_rule)[: _MOST if n > _FEW_ROWS else _MOST_OF_FEW]
    last = max(_iterate(risks[k], selection_rule) for k in order)
    length = min(2 * last, risks[0].path.n_iter) + 1
    room = _room(batch, risks, options) // length
    fewest = min(_FEWEST, len(risks))
    plans = []
    for count in _FOLDS if options.cv is None else (n_folds(batch, options),):
        splits = make_splits(batch, options.cv, options.groups, min(count, most), rng)
        runs = None
        if not (n > _MANY_ROWS and n >= TALL * p) and _is_simple(splits):
            runs = InnerRuns.of(splits)
        affordable = 0 if runs is None or not runs.of_pair else room // runs.n_runs
        members = np.sort(order[: max(affordable, fewest)])
        plans.append(_Plan(splits, members, length, runs if affordable >= fewest else None))
        if plans[-1].runs is not None:
            return plans[-1]
    return plans[0]


def _candidates(
    risks: Sequence[Risk], best: tuple[int, int], selection_rule: SelectionRule
) -> np.ndarray:
    """Return the penalties, most likely to be selected on a subset of the rows first."""
    lowest = np.array([float(risk.values[_iterate(risk, selection_rule)]) for risk in risks])
    lowest[best[0]] = -math.inf  # always included, whatever the rule
    order = np.argsort(lowest, kind="stable")
    if (
        selection_rule.rule == "one_se"
    ):  # neighbours of the selection as well as those of the minimum
        with np.errstate(divide="ignore", invalid="ignore"):  # for a penalty of zero
            scale = np.log(selection_rule.lams)
            distance = np.abs(np.nan_to_num(scale - scale[best[0]]))
        nearest = np.argsort(distance, kind="stable")
        both = np.stack([nearest, order], axis=1).ravel()
        order = both[np.sort(np.unique(both, return_index=True)[1])]
    return order


def _room(batch: Batch, risks: Sequence[Risk], options: RiskOptions) -> int:
    """Return the number of steps that nested splits may take, about as many as the tuning."""
    folds = n_folds(batch, options.rough_folds)
    steps = (len(risks) * (1 + folds) + _CAREFUL) * (risks[0].path.n_iter + 1)
    steps *= _FOR_FEW if batch.n_samples <= _FEW_ROWS else 1
    return int(max(steps, _CHEAP // work_of_a_step(batch)))


def _is_simple(splits: Splits) -> bool:
    """Whether there are few splits, and few sets of rows that they treat alike."""
    return splits.n_splits <= _MOST_SPLITS and len(Cells.of(splits).sizes) <= _MOST_CELLS


def _iterate(risk: Risk, selection_rule: SelectionRule) -> int:
    return risk.best_iter if selection_rule.iterate is None else selection_rule.iterate


def lowest_and_selected(
    risks: Sequence[Risk],
    iterates: Sequence[int],
    rule: str,
    lams: np.ndarray,
    known: Sequence[int],
) -> tuple[int, int]:
    """Return the penalty with the smallest risk, and the one that the rule selects.

    The best accurate estimate is the smallest unless a rough one is lower by more than chance.
    """
    places = list(zip(risks, iterates, strict=True))
    sizes = np.array([float(risk.values[t]) for risk, t in places])
    lowest = int(np.argmin(sizes))
    if len(known) and lowest not in known:
        best = known[int(np.argmin(sizes[known]))]
        found = risks[best].found
        assert found is not None
        chance = _CHANCE * len(known) * float(found.score.stderr[iterates[best]])
        lowest = best if sizes[best] <= sizes[lowest] + chance else lowest
    if rule == "one_se":
        for k in np.argsort(-lams, kind="stable"):
            risk, t = places[k]
            difference, stderr = compare_risks(risk, t, *places[lowest])
            if difference <= stderr:
                return lowest, int(k)
    return lowest, lowest
