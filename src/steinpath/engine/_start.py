"""Starting runs: the ratio of their step sizes is searched for, where that was asked for.

The product of the two steps is bounded by the norm of X; their ratio is free, and what is best
differs by data: about 1 on designs with independent columns, a tenth or less on collinear or
one-hot ones, where it saves most of the iterations.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from steinpath.algorithms._base import Algorithm, PrimalDual
from steinpath.engine._batch import Batch
from steinpath.engine._data import RunData
from steinpath.problem._penalties import Penalty

#: Ratios that are tried, for so many iterations.
RATIOS = tuple(float(x) for x in 10.0 ** np.arange(-2, 0.51, 0.5))
ITERATIONS = 32
# A ratio is as good as another if its objective is larger by no more than this share.
_AS_GOOD = 0.02
# Iterates at the end, over whose objectives the mean is taken: single ones oscillate.
_LAST = 8


def start(data: RunData, penalty: Penalty, algorithm: Algorithm, members: int = 1) -> Batch:
    """Return runs that have not moved yet, with all step sizes fixed.

    All members take the same steps: those of the penalty that allows the least.
    """
    if isinstance(algorithm, PrimalDual) and algorithm.searches:
        algorithm = replace(algorithm, ratio=best_ratio(data, penalty, algorithm, members))  # type: ignore[type-var]
    return Batch.start(data, penalty, algorithm, members)


def best_ratio(data: RunData, penalty: Penalty, algorithm: PrimalDual, members: int) -> float:
    """Return the ratio of steps with the lowest objective after a few iterations.

    Of ratios that are as good, the smallest is taken: on the paper's model the best of its early
    iterates have a lower risk. Of several penalties, the smallest and the one in the middle are tried: large ones need few
    iterations with any ratio.
    """
    one = RunData(data.y[:, :1], data.loss, data.design.member(0), data.level[:1])
    kinds = [penalty.member(k) for k in range(members)] if members > 1 else [penalty]
    kinds = sorted(kinds, key=lambda each: each.largest_lam)
    kinds = [kinds[k] for k in sorted({0, len(kinds) // 2})]
    # each ratio has the steps that a run of its own would have
    alone = [one.bind(replace(algorithm, ratio=ratio), kinds[0])[0] for ratio in RATIOS]  # type: ignore[type-var]
    steps = {}
    for name in algorithm.steps:
        sizes = np.tile([getattr(each, name) for each in alone], len(kinds))
        steps[name] = one.design.array(sizes)[:, None]
    first, *others = [each for each in kinds for _ in RATIOS]
    tried = Batch.start(
        one,
        first.beside(others),
        replace(algorithm, ratio=1.0, **steps),  # type: ignore[type-var]
        len(kinds) * len(RATIOS),
    ).extended(ITERATIONS)
    last = range(ITERATIONS - _LAST + 1, ITERATIONS + 1)
    objectives = [[float(path.objective_at(t)) for t in last] for path in tried]
    found = np.mean(objectives, axis=1).reshape(len(kinds), len(RATIOS))
    lowest = found.min(axis=1, keepdims=True)
    behind = np.mean(found / np.where(lowest > 0, lowest, 1.0), axis=0)
    return RATIOS[int(np.argmax(behind <= behind.min() + _AS_GOOD))]
