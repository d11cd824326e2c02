"""Start of runs, including the search for the ratio of the step sizes.

The product of the two steps is bounded by the norm of X, but their ratio is free. The best ratio
depends on the data: between a third and 1 for designs with independent columns, a tenth or less for
collinear ones, where it saves most of the iterations (``benchmarks/speed/algorithms.py``).
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from steinpath._support.arrays import namespace
from steinpath.algorithms._base import Algorithm, PrimalDual
from steinpath.engine._batch import Batch
from steinpath.engine._data import RunData
from steinpath.engine._loop import Iteration, beginning, iterate
from steinpath.problem._penalties import Penalty

#: Ratios to try, and the number of iterations for each.
RATIOS = tuple(float(x) for x in 10.0 ** np.arange(-2, 0.51, 0.5))
ITERATIONS = 24
# Number of final iterates whose objectives are averaged, since single ones oscillate.
_LAST = 12
# Ratios whose progress from the start is within this share of the best are considered equal; among
# these, the one nearest to the second number is used.
_CLOSE, _PREFERRED = 0.01, 10.0**-0.5
# Differences of objectives up to this many units of rounding are ignored.
_ROUNDING = 1e3


def start(data: RunData, penalty: Penalty, algorithm: Algorithm, members: int = 1) -> Batch:
    """Return runs at iteration 0 with all step sizes fixed.

    All members use the same steps: those of the penalty that allows the smallest.
    """
    if isinstance(algorithm, PrimalDual) and algorithm.searches:
        algorithm = replace(algorithm, ratio=best_ratio(data, penalty, algorithm, members))  # type: ignore[type-var]
    return Batch.start(data, penalty, algorithm, members)


def best_ratio(data: RunData, penalty: Penalty, algorithm: PrimalDual, members: int) -> float:
    """Return the ratio of steps with the lowest objective after a few iterations.

    With several responses, the first is used. With several penalties, the smallest and the middle
    one are used, since large ones need few iterations with any ratio. Among ratios of about equal
    quality, the one nearest to a third is used: on the paper's model its best early iterates have
    the lowest risk, and very unequal steps are slow later on.
    """
    one = RunData(data.y[:, :1], data.loss, data.design.member(0), data.level[:1])
    kinds = [penalty]
    if members > 1 and penalty.member(0) is not penalty:
        every = (penalty.member(k) for k in range(members))
        kinds = sorted(every, key=lambda each: -each.largest_lam)  # unchanged if it is not known
        kinds = [kinds[k] for k in sorted({len(kinds) // 2, len(kinds) - 1})]
    # each ratio has the steps that the runs would have
    alone = [one.bind(replace(algorithm, ratio=ratio), penalty)[0] for ratio in RATIOS]  # type: ignore[type-var]
    steps = {}
    for name in algorithm.steps:
        sizes = np.tile([getattr(each, name) for each in alone], len(kinds))
        steps[name] = one.design.array(sizes)[:, None]
    own = [each for each in kinds for _ in RATIOS]
    tried = replace(algorithm, ratio=1.0, **steps)  # type: ignore[type-var]
    found = _objectives(one, own, tried).reshape(len(kinds), len(RATIOS))
    lowest = found.min(axis=1, keepdims=True)
    start = float(one.loss.value(one.target[:, 0, 0], one.rows))
    # if the penalty is so large that nothing moves, objectives differ only by rounding
    rounding = _ROUNDING * float(namespace(one.y).finfo(one.response.dtype).eps) * abs(start)
    progress = np.where(start - lowest > rounding, start - lowest, max(abs(start), 1.0))
    behind = np.mean((found - np.where(np.isfinite(lowest), lowest, 0.0)) / progress, axis=0)
    close = np.flatnonzero(behind <= behind.min() + _CLOSE)
    return min((RATIOS[k] for k in close), key=lambda each: abs(math.log(each / _PREFERRED)))


def _objectives(data: RunData, penalties: list[Penalty], algorithm: PrimalDual) -> np.ndarray:
    """Return the mean objective of the last iterates of each member, or infinity.

    No states are kept; for tall tables they would take more memory than the data.
    """
    first, *others = penalties
    _, maps = data.bind(algorithm, first.beside(others))
    iteration, past = Iteration(maps, data), beginning(data, len(penalties))
    p = data.design.shape[1] - data.fit_intercept
    sums = np.zeros(len(penalties))
    with np.errstate(over="ignore", invalid="ignore"):  # iterates of the run are checked later
        steps = iterate(iteration, past, range(1, ITERATIONS + 1), maps.memory)
        for t, newest in enumerate(steps, 1):
            if t <= ITERATIONS - _LAST:
                continue
            residuals = data.target - newest.reading[0]
            losses = data.loss.value(residuals[:, :, 0], data.rows)
            for k, penalty in enumerate(penalties):
                sums[k] += float(losses[k] + penalty.value(newest.b[:p, k, 0]))
    return np.where(np.isfinite(sums), sums / _LAST, np.inf)
