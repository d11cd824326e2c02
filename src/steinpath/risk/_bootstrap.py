"""Bootstrap of a choice: made by rows that are drawn with replacement, tested on the others.

As Tsamardinos, Greasidou and Borboudakis (2018) do it. It needs no runs. The losses of all rows are
taken as given, so that their dependence on each other is left out; it is small for many rows per
column.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from steinpath._support.arrays import group_sums, to_numpy
from steinpath.problem._scoring import observation_losses
from steinpath.risk._estimate import Risk
from steinpath.risk._nested import Choosing

# Draws, how many of them are made together, and iterates of each path that are chosen from.
_DRAWS, _TOGETHER, _ITERATES = 200, 20, 40


def bootstrap_choice(
    risks: Sequence[Risk], choosing: Choosing, length: int, rng: np.random.Generator
) -> float:
    """Return the mean loss of rows that were not drawn, at the choice by those that were.

    Parameters
    ----------
    risks : sequence of Risk
        Of the paths that may be chosen.
    choosing : Choosing
        How to choose.
    length : int
        Number of iterates to choose from, from 0 on.
    rng : numpy.random.Generator
        Randomness of the draws.
    """
    iterates = np.unique(np.geomspace(1, length, _ITERATES).round().astype(int)) - 1
    if choosing.iterate is not None:
        iterates, choosing = np.array([choosing.iterate]), choosing._replace(iterate=0)
    losses, sizes = _losses(risks, iterates)
    units = len(sizes)
    # a few parts are enough to know the noise of differences, where the rule asks for it
    parts = np.array_split(rng.permutation(units), min(10, units))
    means = np.stack([losses[..., p].sum(axis=-1) / sizes[p].sum() for p in parts])
    total, count = 0.0, 0.0
    flat = losses.reshape(-1, units)
    for start in range(0, _DRAWS, _TOGETHER):
        some = min(_TOGETHER, _DRAWS - start)
        draws = rng.multinomial(units, np.full(units, 1 / units), size=some)
        found = flat @ draws.T / (draws @ sizes)
        for drawn, mean_losses in zip(draws, found.T, strict=True):
            others = drawn == 0
            choice = choosing(mean_losses.reshape(losses.shape[:2]), means)
            total += float(losses[choice][others].sum())
            count += float(sizes[others].sum())
    if not count:  # a single row or group, which is always drawn
        return float(losses[choosing(losses.sum(axis=-1) / sizes.sum(), means)].sum() / sizes.sum())
    return total / count


def _losses(risks: Sequence[Risk], iterates: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return estimated losses (L, T, units) of rows, or of groups of them, and their sizes.

    Each has the mean that its risk has: what was added to a risk is added to each loss.
    """
    found, first = [], risks[0]
    tested = None if first.found is None else first.found.tested
    rows = np.arange(first.path.n_samples) if tested is None else tested
    for risk in risks:
        each = []
        for t in iterates.tolist():
            predictions = risk.predictions.of(slice(t, t + 1))
            losses = observation_losses(risk.criterion, risk.path.response, predictions)
            own = to_numpy(losses)[0, rows].astype(float)
            each.append(own + (float(risk.values[t]) - own.mean()))
        found.append(np.stack(each))
    losses, sizes = np.stack(found), np.ones(len(rows))
    if first.groups is not None:
        _, codes = np.unique(first.groups[rows], return_inverse=True)
        losses, sizes = group_sums(losses, codes), np.bincount(codes).astype(float)
    return losses, sizes
