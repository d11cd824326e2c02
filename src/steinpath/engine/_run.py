"""The public functions `run`, for one problem, and `run_batch`, for many that advance together."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, Protocol

import numpy as np

from steinpath._support.arrays import Array, in_own_precision, namespace, to_numpy
from steinpath._support.docstrings import describes_as
from steinpath._support.validation import (
    check_array,
    check_count,
    check_flag,
    check_instance,
    check_magnitude,
    read_array,
    shown,
)
from steinpath.algorithms._base import Algorithm, PrimalDual, ProximalAlgorithm
from steinpath.algorithms._family import ChambollePock
from steinpath.algorithms._recursion import Recursion
from steinpath.design._base import Design
from steinpath.design._conversion import as_design
from steinpath.design._dense import DenseDesign, StackedDesign
from steinpath.design._transformed import InterceptDesign, WeightedDesign
from steinpath.engine._batch import Batch
from steinpath.engine._data import RunData, prepare
from steinpath.engine._loop import beginning, iterates
from steinpath.engine._path import Path
from steinpath.problem._losses import Loss
from steinpath.problem._penalties import Penalty


class StoppingRule(Protocol):
    """Rule that may stop a run early; see `steinpath.StopOnRisk`."""

    def horizons(self, n_iter: int) -> Iterable[int]:
        """Return the iterations to check after, in increasing order; the last is ``n_iter``."""

    def evaluate(self, path: Path) -> tuple[Path, bool]:
        """Return the path with its estimated risk, and whether to stop."""


def run(
    X: Any,
    y: Any,
    loss: Loss,
    penalty: Penalty,
    algorithm: Algorithm = ChambollePock(),
    n_iter: int = 300,
    fit_intercept: bool = False,
    stop: StoppingRule | None = None,
    sample_weight: Any = None,
) -> Path:
    """Run an algorithm from zero and keep every iterate.

    Parameters
    ----------
    X : array-like of shape (n, p), or a `steinpath.design.Design`
        Design matrix. Its array namespace, dtype and device are used for the whole path, except
        that values on the scale of y have the precision of y. X is not copied and is read again by
        the risk estimates, so do not modify it before then. A SciPy sparse matrix stays sparse. A
        `numpy.memmap` stays on disk (unless it is small) and is read in blocks, so X may be larger
        than memory; the path itself takes ``2 * n_iter * (n + p)`` numbers.
    y : array-like of shape (n,)
        Responses.
    loss : Loss
        Loss, such as ``sp.LAD()``.
    penalty : Penalty
        Penalty, such as ``sp.Lasso(0.5)``.
    algorithm : Algorithm, default=ChambollePock()
        Algorithm to run.
    n_iter : int, default=300
        Number of iterations.
    fit_intercept : bool, default=False
        Whether to fit an unpenalised intercept; unlike in scikit-learn, False by default. The
        columns of X are then centred (by a rank-one correction of the products; X is not copied)
        and the intercept starts at the best constant fit.
    stop : StopOnRisk, optional
        Rule that may stop the run before ``n_iter``; ``path.risk`` is then its estimate.
        User-defined rules implement the same two methods: ``horizons(n_iter)`` returns the
        iterations after which to check, up to ``n_iter``, and ``evaluate(path)`` returns the path,
        possibly with a risk, and whether to stop.
    sample_weight : array-like of shape (n,), optional
        Nonnegative weights of the losses of the rows. Only their proportions matter: integer
        weights are equivalent to repeated rows with a penalty larger by the square root of their
        mean. Risks are weighted, too; see `steinpath.estimate_risk`.

    Returns
    -------
    Path
        All iterates, and the data needed by the risk estimates.

    Raises
    ------
    DivergenceError
        If an iterate is not finite.

    Examples
    --------
    >>> import numpy as np
    >>> import steinpath as sp
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((100, 20))
    >>> y = X[:, 0] + rng.standard_t(2, size=100)
    >>> path = sp.run(X, y, sp.LAD(), sp.Lasso(0.5), n_iter=50)
    >>> path.coef.shape, path.dual.shape, path.fitted.shape
    ((51, 20), (50, 100), (51, 100))
    """
    check_instance("penalty", penalty, Penalty, "sp.Lasso(0.5)")
    if isinstance(getattr(penalty, "lam", None), np.ndarray):
        raise ValueError(f"{penalty!r} has several values of lam; use sp.run_batch or sp.tune")
    check_instance("algorithm", algorithm, Algorithm, "sp.ChambollePock()")
    n_iter = check_count("n_iter", n_iter)
    methods = (getattr(stop, name, None) for name in ("horizons", "evaluate"))
    if stop is not None and (isinstance(stop, type) or not all(map(callable, methods))):
        raise TypeError(
            f"stop must be a rule such as sp.StopOnRisk(), an object with the methods horizons and "
            f"evaluate; got {shown(stop)}"
        )
    data = prepare(as_design(X), y, loss, fit_intercept, sample_weight)
    path: Path = data.design.on_blocks(run_data, data, penalty, algorithm, n_iter, stop)
    return path


def run_data(
    data: RunData,
    penalty: Penalty,
    algorithm: Algorithm,
    n_iter: int,
    stop: StoppingRule | None = None,
) -> Path:
    """Do as `run`, with checked data."""
    if not data.design.is_whole and stop is not None:
        raise ValueError("stop is not supported for a distributed design; omit it")
    if not data.design.is_whole and isinstance(algorithm, Recursion):
        raise ValueError("Recursion is not supported for a distributed design: it needs all rows")
    batch = start(data, penalty, algorithm)
    if stop is None:
        return batch.extended(n_iter)[0]
    for horizon in stop.horizons(n_iter):
        batch = batch.extended(horizon, room=n_iter)
        path, done = stop.evaluate(batch[0])
        if done:
            break
    return path


@describes_as(run)
def run_batch(
    X: Any,
    y: Any,
    loss: Loss,
    penalty: Penalty | Sequence[Penalty],
    algorithm: ProximalAlgorithm = ChambollePock(),
    n_iter: int = 300,
    fit_intercept: bool = False,
    sample_weight: Any = None,
) -> Batch:
    """Run an algorithm on many problems of the same shape together.

    Every member of the result equals the result of `steinpath.run` with the same step sizes. This
    is faster if one problem does not fill the device, and for many penalties on one X, which is
    then read once for all of them.

    Parameters
    ----------
    X : array-like of shape (members, n, p) or (n, p), or a `steinpath.design.Design`
        Design matrix of each member, or one shared by all.
    y : array-like of shape (members, n) or (n,)
        Responses of each member, or one vector for all if they share X.
    penalty : Penalty or sequence of Penalty
        Penalty, such as ``sp.Lasso(0.5)``, for all members or one per member.
    algorithm : ChambollePock, HalpernPDHG, LinearizedADMM, ProximalGradient or FISTA
        Algorithm to run. Step sizes that are None are determined from the first member's y and are
        stable for all members.

    Returns
    -------
    Batch
        Sequence of paths, one per member.

    Raises
    ------
    DivergenceError
        If any member has an iterate that is not finite.

    Examples
    --------
    >>> import numpy as np
    >>> import steinpath as sp
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((5, 100, 20))
    >>> y = X[:, :, 0] + rng.standard_t(2, size=(5, 100))
    >>> batch = sp.run_batch(X, y, sp.LAD(), sp.Lasso(0.5), n_iter=30)
    >>> batch.coef.shape, batch[0].coef.shape
    ((5, 31, 20), (31, 20))
    >>> risks = sp.estimate_risk_batch(batch, rng=0)
    >>> len(risks), risks[0].values.shape
    (5, (31,))
    """
    check_instance("loss", loss, Loss, "sp.LAD()")
    check_instance("algorithm", algorithm, ProximalAlgorithm, "sp.ChambollePock()")
    check_flag("fit_intercept", fit_intercept)
    n_iter = check_count("n_iter", n_iter)
    penalties = _penalties(penalty)
    data = _data_of_members(X, y, loss, fit_intercept, len(penalties), sample_weight)
    members = max(data.y.shape[1], len(penalties))
    for own in penalties:
        data.own(own).check_size(data.design.shape[1])
    first, *others = penalties
    return start(data, first.beside(others), algorithm, members).extended(n_iter)


def _penalties(penalty: Any) -> list[Penalty]:
    """Return one penalty for all members, or one per member."""
    several = not isinstance(penalty, Penalty | type) and isinstance(penalty, Iterable)
    penalties: list[Any] = [*penalty] if several else [penalty]
    for own in penalties:
        check_instance("penalty", own, Penalty, "sp.Lasso(0.5)")
    lam = getattr(penalties[0], "lam", None) if len(penalties) == 1 else None
    if isinstance(lam, np.ndarray):
        return [penalties[0].member(k) for k in range(len(lam))]
    return penalties


def _data_of_members(
    X: Any, y: Any, loss: Loss, fit_intercept: bool, n_penalties: int, sample_weight: Any
) -> RunData:
    """Check the data of all members."""
    X = read_array("X", X) if isinstance(X, list | tuple) else X
    y = read_array("y", y)
    if getattr(X, "ndim", 2) == 3:
        design, y = _designs_of_members(X, y, n_penalties)
        pairs = [(design.member(k), y[k, ...]) for k in range(y.shape[0])]
    else:
        responses = [y] if y.ndim < 2 else [y[k, ...] for k in range(y.shape[0])]
        _check_counts({"y": len(responses), "penalty": n_penalties})
        design = as_design(X)
        pairs = [(design, response) for response in responses]
    members = [prepare(*pair, loss, False, sample_weight) for pair in pairs]
    weights = members[0].sample_weight
    if weights is not None:
        design = WeightedDesign.of_sample(design, weights)
    loss = members[0].loss  # adapted to the responses
    if any(member.loss != loss for member in members):
        raise ValueError(
            "class_weight='balanced' gives the members of this batch different weights; pass a "
            "dict of weights for all, or use sp.run for each member"
        )
    levels = [0.0] * len(members)
    if fit_intercept:
        levels = [member.loss.start(member.y[:, 0], weights) for member in members]
    y = namespace(members[0].y).concat([member.y for member in members], axis=1)
    return RunData(y, loss, InterceptDesign(design) if fit_intercept else design, np.array(levels))


def _designs_of_members(X: Any, y: Any, n_penalties: int) -> tuple[Design, Array]:
    """Check matrices and responses, one of each per member."""
    X = check_array("X", X, ndim=3)
    check_magnitude("X", X)
    y, (members, n, p) = check_array("y", y, ndim=2, reference=in_own_precision(y, X)), X.shape
    if tuple(y.shape) != (members, n):
        raise ValueError(
            f"X is a batch of shape {(members, n, p)}, so y must have shape {(members, n)}; got "
            f"{tuple(y.shape)}"
        )
    _check_counts({"X": members, "penalty": n_penalties})
    if n_penalties > members:
        raise ValueError(
            f"X is a batch of one, but there are {n_penalties} penalties; pass X[0] of shape (n, p)"
        )
    if members > 1:
        return StackedDesign(X), y
    design = DenseDesign.of_checked(X[0, ...])
    design.has_gram = False  # so that it is estimated in the same way as in larger batches
    return design, y


def _check_counts(counts: dict[str, int]) -> None:
    """Refuse arguments unless each has one entry, or one per member."""
    several = {count for count in counts.values() if count != 1}
    if len(several) > 1 or 0 in several:
        given = ", ".join(f"{count} of {name}" for name, count in counts.items())
        raise ValueError(
            f"a batch requires one entry for all members, or one per member; got {given}"
        )


# ------------------------------------------------------------------------------------------------
# The start of runs
# ------------------------------------------------------------------------------------------------
#
# The product of the two steps is bounded by the norm of X, but their ratio is free. The best one is
# between a third and 1 for independent columns, and a tenth or less for collinear ones, where it
# saves most of the iterations (`benchmarks`).

#: Ratios to try, and the number of iterations for each.
RATIOS = tuple(float(x) for x in 10.0 ** np.arange(-2, 0.51, 0.5))
ITERATIONS = 24
# Number of final iterates whose objectives are averaged, since single ones oscillate.
_LAST = 12
# Ratios with progress within this share of the best are equal; the one nearest to this is used.
_CLOSE, _PREFERRED = 0.01, 10.0**-0.5
# Differences of objectives up to this many units of rounding are ignored.
_ROUNDING = 1e3


def start(data: RunData, penalty: Penalty, algorithm: Algorithm, members: int = 1) -> Batch:
    """Return runs at iteration 0, with steps that are small enough for all their penalties."""
    if isinstance(algorithm, PrimalDual) and algorithm.searches:
        algorithm = replace(algorithm, ratio=best_ratio(data, penalty, algorithm, members))  # type: ignore[type-var]
    return Batch.start(data, penalty, algorithm, members)


def best_ratio(data: RunData, penalty: Penalty, algorithm: PrimalDual, members: int) -> float:
    """Return the ratio of steps with the lowest objective after a few iterations.

    It is for the smallest and the middle penalty, since large ones need few iterations anyway. Of
    about equal ratios it is the one nearest to a third, whose early iterates have the lowest risk.
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
        sizes = np.tile([getattr(bound, name) for bound in alone], len(kinds))
        steps[name] = one.design.array(sizes)[:, None]
    own = [kind for kind in kinds for _ in RATIOS]
    tried = replace(algorithm, ratio=1.0, **steps)  # type: ignore[type-var]
    objectives = _objectives(one, own, tried).reshape(len(kinds), len(RATIOS))
    lowest = objectives.min(axis=1, keepdims=True)
    start = float(one.loss.value(one.target[:, 0, 0], one.rows))
    # if the penalty is so large that nothing moves, objectives differ only by rounding
    rounding = _ROUNDING * float(namespace(one.y).finfo(one.response.dtype).eps) * abs(start)
    progress = np.where(start - lowest > rounding, start - lowest, max(abs(start), 1.0))
    behind = np.mean((objectives - np.where(np.isfinite(lowest), lowest, 0.0)) / progress, axis=0)
    close = np.flatnonzero(behind <= behind.min() + _CLOSE)
    return min((RATIOS[k] for k in close), key=lambda each: abs(math.log(each / _PREFERRED)))


def _objectives(data: RunData, penalties: list[Penalty], algorithm: PrimalDual) -> np.ndarray:
    """Return the mean objective of the last iterates of each member, or infinity."""
    # no states are kept; for tall tables they would take more memory than the data
    _, maps = data.bind(algorithm, penalties[0].beside(penalties[1:]))
    p, found = data.design.shape[1] - data.fit_intercept, list[Array]()
    xp = namespace(data.y)
    with np.errstate(over="ignore", invalid="ignore"):  # iterates of the run are checked later
        steps = islice(iterates(maps, data, beginning(data, len(penalties))), ITERATIONS + 1)
        for b, products in islice(steps, ITERATIONS + 1 - _LAST, None):
            losses = data.loss.value(data.target[:, :, 0] - products, data.rows)
            values = [losses[k] + own.value(b[:p, k]) for k, own in enumerate(penalties)]
            found.append(xp.stack(values))
        sums = to_numpy(xp.sum(xp.stack(found), axis=0)).astype(float)
    return np.where(np.isfinite(sums), sums / _LAST, np.inf)
