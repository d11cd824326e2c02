"""Risk of a selected model, adjusted for selection.

The estimated risk at the selected iterate is the smallest of many and therefore too small. To
adjust for that, the selection is repeated without the rows on which it is tested: by nested folds,
or by a bootstrap of the selection if these would cost more than the tuning itself. The bootstrap
follows Tsamardinos, Greasidou and Borboudakis (2018) and requires no further runs: the selection is
repeated on rows drawn with replacement, and tested on the others. The losses of all rows are
treated as fixed, so their dependence is ignored; it is small if there are many rows per column.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import reduce

import numpy as np

from steinpath._support import timings
from steinpath._support.arrays import namespace, scattered_sums, to_numpy
from steinpath._support.printing import with_error
from steinpath.design._base import Design
from steinpath.engine._batch import Batch, DeferredPath
from steinpath.engine._path import Path
from steinpath.engine._tangents import design_in
from steinpath.problem._scoring import at_least_zero, observation_losses
from steinpath.risk._held_out import HeldOut, RowSample
from steinpath.risk._leave_out import LeftOutModels, models_without
from steinpath.risk._methods import SMALL, TALL, n_folds
from steinpath.risk._nested import InnerRuns, NestedSelection, SelectionRule, cells_of
from steinpath.risk._options import RiskOptions
from steinpath.risk._risk import Risk, compare_risks
from steinpath.risk._splits import Splits, make_splits
from steinpath.risk._stopping import BEHIND, work_of_a_step

# Number of folds; the second number is used if the first is too expensive.
_FOLDS = (10, 5)
# Number of penalties among which the selection is repeated, those with the smallest risks: minimum,
# maximum, and maximum if there are few rows, for which the selection is less certain.
_FEWEST, _MOST, _MOST_OF_FEW = 3, 8, 12
# Nested folds may take half as many steps of runs as the tuning, with few rows three times of that.
# The accurate estimate of the selected risk adds this many columns to the tuning: probes and folds.
_FEW_ROWS, _FOR_FEW, _CAREFUL = 300, 3, 40
# With this many rows, in total and per column, the losses are so weakly dependent that the
# bootstrap is accurate enough.
_MANY_ROWS = ((5000, TALL), (2000, 50))
# Minimum size of a training set, relative to the largest, for a split to be tested.
_FEWEST_TRAINED = 0.5
# Differences up to this share of the sampling error, times the number of accurate estimates so far,
# do not call for another one: neighbouring penalties have similar errors and risks.
_CHANCE = 0.1
#: Maximum numbers of splits, and of sets of rows that they treat alike.
MOST_SPLITS, _MOST_CELLS = 32, 64
# Standard errors of the difference within which a simpler model is selected by default.
_WITHIN = 0.5
# Share of the risk within which it is selected however small the standard error: other values of
# alpha make as much of a difference.
_NEGLIGIBLE = 0.002
# Number of draws of the bootstrap, batch size of the draws, and maximum number of iterations of
# each path.
_DRAWS, _TOGETHER, _ITERATES = 200, 20, 40


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
    dependence : float
        Ratio of the standard error to that of independent losses.
    """

    value: float
    stderr: float
    method: str
    #: With predictions and losses of shape (1, m).
    held_out: HeldOut = field(repr=False)
    choices: tuple[tuple[int, int], ...] = field(repr=False)
    splits: Splits = field(repr=False)
    models: LeftOutModels = field(repr=False)
    #: Groups and sample weights of all rows.
    groups: np.ndarray | None = field(default=None, repr=False)
    weights: np.ndarray | None = field(default=None, repr=False)

    @property
    def rows(self) -> np.ndarray:
        """Held-out rows."""
        return self.held_out.rows

    @property
    def row_weights(self) -> np.ndarray | None:
        """Sample weights of `rows`, with mean 1 over all rows; None if all are equal."""
        return None if self.weights is None else self.weights[self.rows]

    @property
    def predictions(self) -> np.ndarray:
        """Out-of-fold predictions of `rows`."""
        return np.asarray(self.held_out.predictions[0])

    @property
    def losses(self) -> np.ndarray:
        """Scoring losses of `predictions`."""
        assert self.held_out.losses is not None
        return np.asarray(self.held_out.losses[0])

    @property
    def dependence(self) -> float:
        """Ratio of the standard error to that of independent losses."""
        _, independent = self._mean_and_error(self.losses)
        return max(self.stderr / independent, 1.0) if independent > 0 else 1.0

    def compare(self, other: ChosenRisk) -> tuple[float, float]:
        """Return the difference from another risk on the same rows, and its standard error.

        The error is that of the mean difference of the held-out losses, including their dependence
        where it is known; if the two models were tested with different folds, the dependent parts
        are treated as independent.

        Parameters
        ----------
        other : ChosenRisk
            Risk of another model that was tuned on the same rows. Use the same ``rng`` for both, so
            that they have the same folds and the difference has a smaller error.
        """
        if not np.array_equal(self.rows, other.rows):
            raise ValueError(
                "the two models were tested on different rows; tune both on the same rows"
            )
        _, stderr = self._mean_and_error(self.losses - other.losses)
        own, others = self.held_out.interactions, other.held_out.interactions
        if own is not None and others is not None and self._tests_as(other):
            stderr = math.hypot(stderr, own.stderr_between(0, 0, others))
        else:
            known = [pairs for pairs in (own, others) if pairs is not None]
            stderr = math.hypot(stderr, *(float(pairs.stderr()[0]) for pairs in known))
        return self.value - other.value, stderr

    def mean_of(self, losses: np.ndarray) -> tuple[float, float]:
        """Return the mean of other losses of the same predictions, and its standard error.

        They are assumed to be as dependent as `losses`.

        Parameters
        ----------
        losses : ndarray of shape (m,)
            One loss for each of `rows`.
        """
        mean, stderr = self._mean_and_error(losses)
        return mean, stderr * self.dependence

    def with_losses(
        self, rows: np.ndarray, predictions: np.ndarray, losses: np.ndarray
    ) -> ChosenRisk:
        """Return the same risk with other held-out rows, whose losses are independent."""
        weights, codes = (None if x is None else x[rows] for x in (self.weights, self.groups))
        sample = RowSample.of(len(rows), weights, codes)
        return replace(self, held_out=HeldOut(rows, predictions[None, :], sample, losses[None, :]))

    def _mean_and_error(self, losses: np.ndarray) -> tuple[float, float]:
        mean, stderr = self.held_out.sample.mean_and_error(losses[None, :])
        return float(mean[0]), float(stderr[0])

    def _tests_as(self, other: ChosenRisk) -> bool:
        return np.array_equal(self.splits.test, other.splits.test)

    def __repr__(self) -> str:
        return f"<ChosenRisk ({self.method}): {with_error(self.value, self.stderr)}>"


def risk_after_choice(
    batch: Batch,
    risks: Sequence[Risk],
    best: tuple[int, int],
    selection_rule: SelectionRule,
    options: RiskOptions,
    seed: int,
    nested: bool = True,
) -> ChosenRisk:
    """Estimate the risk of the selected penalty and iteration ``best``, adjusted for selection.

    If some rows are not local, the result has predictions and losses of the local rows.
    """
    rng, groups = np.random.default_rng([seed, 1]), options.groups
    fixed = len(risks) == 1 and selection_rule.iterate is not None
    order = _candidates(risks, best, selection_rule, batch.n_samples)
    last = max(_iterate(risks[k], selection_rule) for k in order)
    reach = np.array([risk.values.shape[0] for risk in risks])  # iterates with an estimate
    length = min(2 * last + 1, int(reach.max()))
    room = _room(batch, risks, options, length)
    splits, members, runs = _plan(batch, options, order, min(_FEWEST, len(risks)), room, rng)
    selection_rule = selection_rule._replace(
        lams=selection_rule.lams[members], reach=reach[members]
    )
    unadjusted = risks[best[0]]
    value, stderr = float(unadjusted.values[best[1]]), float(unadjusted.stderr[best[1]])
    start = batch.unmoved()
    choices: list[tuple[int, int] | None] = [best] * splits.n_splits
    method, optimism, interactions = "fixed" if fixed else "bootstrap", 0.0, None
    if runs is not None and nested and not fixed:
        method, part = "nested", start.part(members.tolist())
        inner = NestedSelection(
            part,
            [risks[k].criterion for k in members],
            splits,
            runs,
            selection_rule,
            length,
            _rounded(start, unadjusted.path),
        )
        train = [to_numpy(risks[k].train) for k in members]
        optimism, interactions = inner.optimism(train), inner.changes()
        choices = [choice and (int(members[choice[0]]), choice[1]) for choice in inner.choices]
    elif not fixed:
        value = bootstrap_selection([risks[k] for k in members], selection_rule, length, rng)
    splits, made = _with_choices(splits, choices)
    models = models_without(start.part([k for k, _ in made]), splits.train, [t for _, t in made])
    design, rows = batch.data.design, np.flatnonzero(splits.tests)
    own = design.places(rows)[1]  # local rows
    shares = design.local(splits.test / np.maximum(splits.tests, 1)[:, None])[own]
    predictions = np.sum(shares * models.predictions[own], axis=1)
    losses = np.sum(shares * _losses_of(unadjusted, models.predictions)[own], axis=1)[None, :]
    sample = RowSample.over(batch.data, rows, groups=groups)
    if method == "nested":
        mean, spread = (float(x[0]) for x in sample.mean_and_error(losses))
        value = float(mean + optimism)
        if not splits.complete and splits.n_splits > 1:
            # neighbours in time are dependent; blocks of them are less so
            blocks = RowSample.over(batch.data, rows, groups=splits.test.argmax(axis=1))
            in_blocks = blocks.mean_and_error(losses)[1]
            spread = max(spread, float(in_blocks[0]))
        if interactions is not None:
            spread = math.hypot(spread, float(interactions.stderr()[0]))
        # selection cannot make the risk more certain than that of a fixed model
        stderr = max(stderr, spread)
    held_out = HeldOut(rows, predictions[None, :], sample, losses, optimism, interactions)
    value = float(at_least_zero(unadjusted.criterion, np.asarray(value)))
    weights = batch.data.sample_weight
    return ChosenRisk(value, stderr, method, held_out, made, splits, models, groups, weights)


def select_model(models: Sequence[ChosenRisk], rule: str) -> tuple[int, ChosenRisk]:
    """Select one of several models, the simplest first, and adjust its risk for that selection.

    The models were tested on the same rows.

    A simpler model is selected if its risk is not larger by more than a standard error of the
    difference, or half of that if the ``rule`` is "min" and there are more than 300 rows, or by 0.2
    percent. For the adjustment, the selection is repeated without each of the parts of the rows
    that were held out together.
    """
    within = errors_within(rule, len(models[0].rows))

    def selected(values: np.ndarray, scale: float = 1.0) -> int:
        best = int(values.argmin())
        for k in range(best):
            stderr = models[k].compare(models[best])[1]
            allowed = max(within * scale * stderr, _NEGLIGIBLE * abs(values[best]))
            if values[k] - values[best] <= allowed:
                return k
        return best

    values, losses = np.array([one.value for one in models]), np.stack([m.losses for m in models])
    sample = models[0].held_out.sample
    optimism, best = values - sample.mean(losses), selected(values)
    chosen, stitched, others = models[best], losses[best] + optimism[best], False
    parts = chosen.splits.test.argmax(axis=1)[chosen.rows]
    for part in np.unique(parts):
        tested = parts == part
        if tested.all():
            break
        others_count = sample.counted(1.0 * ~tested[None, :])
        means = (losses @ others_count[0]) / others_count.sum() + optimism
        k = selected(means, math.sqrt(len(parts) / (~tested).sum()))
        stitched[tested] = losses[k, tested] + optimism[k]
        others |= k != best
    if not others:
        return best, chosen
    # the selection cannot make the risk smaller, except by chance
    value, stderr = chosen.mean_of(stitched)
    value = max(value, chosen.value)
    return best, replace(chosen, value=value, stderr=max(stderr, chosen.stderr))


def errors_within(rule: str, n_rows: int) -> float:
    """Return within how many standard errors of the difference a simpler model is selected."""
    return 1.0 if rule == "one_se" or n_rows <= _FEW_ROWS else _WITHIN


def on_the_same_rows(models: Sequence[ChosenRisk]) -> list[ChosenRisk]:
    """Return risks with the losses of the rows that all models held out.

    For time series, nested splits hold out fewer rows than others.
    """
    rows = reduce(np.intersect1d, [one.rows for one in models])
    if all(len(one.rows) == len(rows) for one in models):
        return list(models)
    places = [np.searchsorted(one.rows, rows) for one in models]
    pairs = zip(models, places, strict=True)
    return [one.with_losses(rows, one.predictions[at], one.losses[at]) for one, at in pairs]


def _with_choices(
    splits: Splits, choices: Sequence[tuple[int, int] | None]
) -> tuple[Splits, tuple[tuple[int, int], ...]]:
    """Return the splits that can be tested, and their selections.

    A split without a selection, such as the first of a time series, tests nothing, nor does one
    (other than a fold) that trains on so few rows that its model is not like the final one.
    """
    made = {k: choice for k, choice in enumerate(choices) if choice is not None}
    if not splits.complete:
        trained = splits.train.sum(axis=0)
        enough = _FEWEST_TRAINED * max(trained[k] for k in made)
        made = {k: choice for k, choice in made.items() if trained[k] >= enough}
    return splits.at(list(made)), tuple(made.values())


def _rounded(start: Batch, path: Path) -> Design | None:
    """Return a single-precision design, if that is accurate enough and faster."""
    if math.prod(path.design.whole_shape) <= SMALL:
        return None
    # not the states of a path that would have to be run again
    batch = start.part([0]) if isinstance(path, DeferredPath) else Batch.of(path)
    return design_in(batch, namespace(path.y).float32, [np.random.default_rng(0)])


def _losses_of(risk: Risk, predictions: np.ndarray) -> np.ndarray:
    """Return the losses of predictions (n, K) of y."""
    path = risk.path
    less = path.design.array(predictions.T - path.level)
    return to_numpy(observation_losses(risk.criterion, path.response, less)).T.astype(float)


def _plan(
    batch: Batch,
    options: RiskOptions,
    order: np.ndarray,
    fewest: int,
    room: int,
    rng: np.random.Generator,
) -> tuple[Splits, np.ndarray, InnerRuns | None]:
    """Return splits, and the penalties and the runs with which the selection is repeated.

    There are at least ``fewest`` of the candidates ``order``, and room for so many runs of one
    penalty. There are no runs if they are too expensive or not possible.
    """
    n, p = batch.data.design.whole_shape
    plans = []
    for count in _FOLDS if options.cv is None else (n_folds(batch, options),):
        count = min(count, options.units(n))
        splits = make_splits(batch, options, count, rng)
        runs = None
        many = any(n > rows and n >= per_column * p for rows, per_column in _MANY_ROWS)
        nestable = splits.n_splits <= MOST_SPLITS and not many
        if nestable and len(cells_of(splits)[0].train) <= _MOST_CELLS:
            runs = InnerRuns.of(splits)
        affordable = 0 if runs is None or not runs.of_pair else room // runs.train.shape[1]
        members = np.sort(order[: max(affordable, fewest)])
        plans.append((splits, members, runs if affordable >= fewest else None))
        if affordable >= fewest:
            return plans[-1]
    return plans[0]


def _candidates(
    risks: Sequence[Risk], best: tuple[int, int], selection_rule: SelectionRule, n: int
) -> np.ndarray:
    """Return the penalties most likely to be selected on a subset of the n rows, in order."""
    at = [_iterate(risk, selection_rule) for risk in risks]
    at[best[0]] = best[1]
    lowest = np.array([float(risk.values[t]) for risk, t in zip(risks, at, strict=True)])
    lowest[best[0]] = -math.inf  # always included, whatever the rule
    order = np.argsort(lowest, kind="stable")
    if selection_rule.rule == "min":  # without those that are clearly behind
        chosen = risks[best[0]], best[1]
        gaps = [compare_risks(risks[k], at[k], *chosen) for k in order.tolist()]
        close = [gap <= BEHIND * stderr for gap, stderr in gaps]
        order = np.concatenate([order[close], order[:_FEWEST]])
        order = order[np.sort(np.unique(order, return_index=True)[1])]
    if selection_rule.rule == "one_se":  # also neighbours of the selection
        with np.errstate(divide="ignore", invalid="ignore"):  # for a penalty of zero
            scale = np.log(selection_rule.lams)
            distance = np.abs(np.nan_to_num(scale - scale[best[0]]))
        nearest = np.argsort(distance, kind="stable")
        both = np.stack([nearest, order], axis=1).ravel()
        order = both[np.sort(np.unique(both, return_index=True)[1])]
    return order[: _MOST if n > _FEW_ROWS else _MOST_OF_FEW]


def _room(batch: Batch, risks: Sequence[Risk], options: RiskOptions, length: int) -> int:
    """Return the number of runs that nested splits may take, for half of the steps of tuning.

    The fewest penalties have ten folds, however, if that takes a tenth of a second, and more do if
    there are few rows.
    """
    folds = n_folds(batch, options.rough_folds)
    lengths = [risk.values.shape[0] for risk in risks]
    steps = ((1 + folds) * sum(lengths) + _CAREFUL * max(lengths)) / 2
    few = batch.n_samples <= _FEW_ROWS
    steps *= _FOR_FEW if few else 1
    wanted = (_MOST_OF_FEW if few else _FEWEST) * _FOLDS[0] * (_FOLDS[0] + 1) / 2
    quick = timings.TENTH_OF_A_SECOND / work_of_a_step(batch)
    return int(max(steps / length, min(quick / length, wanted)))


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
        stderr = risks[best].estimate.stderr[iterates[best]]
        chance = _CHANCE * len(known) * float(stderr)
        lowest = best if sizes[best] <= sizes[lowest] + chance else lowest
    if rule == "one_se":
        for k in np.argsort(-lams, kind="stable"):
            risk, t = places[k]
            difference, error = compare_risks(risk, t, *places[lowest])
            if difference <= error:
                return lowest, int(k)
    return lowest, lowest


def bootstrap_selection(
    risks: Sequence[Risk], selection_rule: SelectionRule, length: int, rng: np.random.Generator
) -> float:
    """Return the mean loss of the rows that were not drawn, at the model selected by the others.

    The candidates are the first ``length`` iterations of some paths.
    """
    iterates = np.unique(np.geomspace(1, length, _ITERATES).round().astype(int)) - 1
    if selection_rule.iterate is not None:
        iterates = np.array([selection_rule.iterate])
        selection_rule = selection_rule._replace(iterate=0)
    selection_rule = selection_rule._replace(
        reach=np.searchsorted(iterates, [risk.values.shape[0] for risk in risks])
    )
    losses, sizes, which = _unit_losses(risks, iterates)
    units, design = len(sizes), risks[0].path.design
    local = slice(None) if which is None else which

    def complete(sums: np.ndarray) -> np.ndarray:
        return sums if which is None else design.over_rows(sums)

    # a few parts suffice to estimate the noise of differences, if the rule requires it
    parts = np.array_split(rng.permutation(units), min(10, units))
    label = np.empty(units, dtype=int)
    for k, part in enumerate(parts):
        label[part] = k
    in_part = [label[local] == k for k in range(len(parts))]
    sums = complete(np.stack([losses[..., own].sum(axis=-1) for own in in_part]))
    counts = np.array([sizes[part].sum() for part in parts])
    means = sums / counts[:, None, None]
    total, count = 0.0, 0.0
    flat = losses.reshape(-1, losses.shape[-1])
    for start in range(0, _DRAWS, _TOGETHER):
        some = min(_TOGETHER, _DRAWS - start)
        drawn = rng.integers(units, size=(some, units), dtype=np.int32)
        draws = np.stack([np.bincount(own, minlength=units) for own in drawn])
        drawn_local = draws[:, local]
        means_drawn = complete(flat @ drawn_local.T) / (draws @ sizes)
        for k, mean_losses in enumerate(means_drawn.T):
            choice = selection_rule(mean_losses.reshape(losses.shape[:2]), means)
            total += float(losses[choice][drawn_local[k] == 0].sum())
            count += float(sizes[draws[k] == 0].sum())
    total = float(complete(np.asarray(total)))
    if not count:  # a single row or group, which is always drawn
        everyone = complete(losses.sum(axis=-1)) / sizes.sum()
        return float(everyone[selection_rule(everyone, means)])
    return total / count


def _unit_losses(
    risks: Sequence[Risk], iterates: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Return estimated losses (L, T, units) of rows or groups, and the sizes of the units.

    Corrections of a risk are added to each of its losses, so that the means agree. If some rows are
    not local, the losses are those of local units, whose indices are returned as well.
    """
    first = risks[0]
    design = first.path.design
    held_out = first.estimate.held_out
    rows = np.arange(first.path.n_samples) if held_out is None else held_out.rows
    which, own = design.places(rows)
    weights = first.path.data.sample_weight
    weights = np.ones(len(rows)) if weights is None else weights[rows]
    losses = np.zeros((len(risks), len(iterates), len(own)))
    known = [iterates[iterates < risk.values.shape[0]] for risk in risks]
    for k, risk in enumerate(risks):
        for j, t in enumerate(known[k].tolist()):
            predictions = risk.predictions.of(slice(t, t + 1))
            of_rows = observation_losses(risk.criterion, risk.path.response, predictions)
            losses[k, j] = to_numpy(of_rows)[0, own].astype(float)
    means = design.over_rows(losses @ weights[which]) / weights.sum()
    for k, risk in enumerate(risks):
        values = to_numpy(risk.values).astype(float)[known[k]]
        losses[k, : len(values)] += (values - means[k, : len(values)])[:, None]
    losses *= weights[which]
    sizes = weights
    if first.groups is not None:
        codes = np.unique(first.groups[rows], return_inverse=True)[1]
        sizes = np.bincount(codes, weights)
        losses = design.over_rows(scattered_sums(losses, codes[which], len(sizes)))
        return losses, sizes, None
    return losses, sizes, None if design.is_whole else which
