"""Bootstrap of the selection: repeated on rows drawn with replacement, tested on the others.

This follows Tsamardinos, Greasidou and Borboudakis (2018) and requires no further runs. The losses
of all rows are treated as fixed, so their dependence is ignored; it is small if there are many rows
per column.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from steinpath._support.arrays import scattered_sums, to_numpy
from steinpath.problem._scoring import observation_losses
from steinpath.risk._estimate import Risk
from steinpath.risk._nested import SelectionRule

# Number of draws, batch size of the draws, and maximum number of iterations of each path.
_DRAWS, _TOGETHER, _ITERATES = 200, 20, 40


def bootstrap_selection(
    risks: Sequence[Risk], selection_rule: SelectionRule, length: int, rng: np.random.Generator
) -> float:
    """Return the mean loss of the rows that were not drawn, at the model selected by the others.

    Parameters
    ----------
    risks : sequence of Risk
        Risks of the candidate paths.
    selection_rule : SelectionRule
        Selection rule.
    length : int
        Number of iterations to select from, starting at 0.
    rng : numpy.random.Generator
        Generator of the draws.
    """
    iterates = np.unique(np.geomspace(1, length, _ITERATES).round().astype(int)) - 1
    if selection_rule.iterate is not None:
        iterates, selection_rule = (
            np.array([selection_rule.iterate]),
            selection_rule._replace(iterate=0),
        )
    losses, sizes, which = _losses(risks, iterates)
    units, design = len(sizes), risks[0].path.design

    def local(values: np.ndarray) -> np.ndarray:
        """Return the local units along the last axis."""
        return values if which is None else values[..., which]

    def complete(sums: np.ndarray) -> np.ndarray:
        return sums if which is None else design.over_rows(sums)

    # a few parts suffice to estimate the noise of differences, if the rule requires it
    parts = np.array_split(rng.permutation(units), min(10, units))
    label = np.empty(units, dtype=int)
    for k, part in enumerate(parts):
        label[part] = k
    own = local(label)
    sums = complete(np.stack([losses[..., own == k].sum(axis=-1) for k in range(len(parts))]))
    counts = np.array([sizes[part].sum() for part in parts])
    means = sums / counts[:, None, None]
    total, count = 0.0, 0.0
    flat = losses.reshape(-1, losses.shape[-1])
    for start in range(0, _DRAWS, _TOGETHER):
        some = min(_TOGETHER, _DRAWS - start)
        draws = rng.multinomial(units, np.full(units, 1 / units), size=some)
        drawn_local = local(draws)
        found = complete(flat @ drawn_local.T) / (draws @ sizes)
        for k, mean_losses in enumerate(found.T):
            choice = selection_rule(mean_losses.reshape(losses.shape[:2]), means)
            total += float(losses[choice][drawn_local[k] == 0].sum())
            count += float(sizes[draws[k] == 0].sum())
    total = float(complete(np.asarray(total)))
    if not count:  # a single row or group, which is always drawn
        everyone = complete(losses.sum(axis=-1)) / sizes.sum()
        return float(everyone[selection_rule(everyone, means)])
    return total / count


def _losses(
    risks: Sequence[Risk], iterates: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Return estimated losses (L, T, units) of rows or groups, and the sizes of the units.

    Corrections of a risk are added to each of its losses, so that the means agree. If some rows are
    not local, the losses are those of the local rows, the indices of their units are returned, and
    the sizes are those of all units.
    """
    first = risks[0]
    design = first.path.design
    tested = None if first.found is None else first.found.tested
    rows = np.arange(first.path.n_samples) if tested is None else tested
    which, own = design.places(rows)
    losses = np.zeros((len(risks), len(iterates), len(own)))
    for k, risk in enumerate(risks):
        for j, t in enumerate(iterates.tolist()):
            predictions = risk.predictions.of(slice(t, t + 1))
            each = observation_losses(risk.criterion, risk.path.response, predictions)
            losses[k, j] = to_numpy(each)[0, own].astype(float)
    means = design.over_rows(losses.sum(axis=-1)) / len(rows)
    values = np.stack([to_numpy(risk.values).astype(float)[iterates] for risk in risks])
    losses += (values - means)[..., None]
    sizes = np.ones(len(rows))
    if first.groups is not None:
        codes = np.unique(first.groups[rows], return_inverse=True)[1]
        sizes = np.bincount(codes).astype(float)
        losses = design.over_rows(scattered_sums(losses, codes[which], len(sizes)))
        return losses, sizes, None
    return losses, sizes, None if design.is_whole else which
