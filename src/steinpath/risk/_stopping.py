"""Stopping rules based on the estimated risk."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from steinpath._support import timings
from steinpath._support.arrays import to_numpy
from steinpath._support.validation import check_count, check_rng, store_number
from steinpath.engine._batch import Batch
from steinpath.engine._path import Path
from steinpath.problem._scoring import TestLoss
from steinpath.risk._estimate import estimate
from steinpath.risk._methods import n_folds
from steinpath.risk._options import RiskOptions
from steinpath.risk._risk import Risk, compare_risks
from steinpath.risk._splits import check_cv

# Initial number of iterations, growth factor, and maximum number of iterations.
_FIRST, _GROWTH, _MOST = 25, 2, 1600
# The maximum is at least this for large problems.
_LEAST = 50
# Iterations beyond the selected one that are estimated, at least.
_MARGIN = 8
#: Standard errors of the difference by which a path is behind that is not continued or selected.
BEHIND = 2.0
# A doubling of this many iterations or more lowers the risk by this share of the last fall.
_EARLY, _LATER = 100, 0.25
# Further iterations or penalties are worthwhile if they lower the risk by this share.
_WORTH = 5e-3
# Or by this share of the risk at the start, below which rounding and noise dominate.
_NOTHING = 1e-5
# Further iterations must also be expected to lower it by this share of its standard error.
_SEEN = 0.1


def growing_horizons(
    batch: Batch, options: RiskOptions | None = None, problems: int = 1
) -> list[int]:
    """Return the iterations after which to check whether more are worthwhile; the last is a limit.

    The limit is in terms of work on each problem, so that large ones terminate, too.
    """
    folds = n_folds(batch, (options or RiskOptions()).rough_folds)
    step = len(batch) / problems * (1 + folds) * work_of_a_step(batch)
    most = int(min(max(timings.HALF_A_MINUTE / step, _LEAST), _MOST))
    horizons = [min(_FIRST, most)]
    while horizons[-1] < most:
        horizons.append(min(_GROWTH * horizons[-1], most))
    return horizons


def work_of_a_step(batch: Batch) -> int:
    """Return the work of a step of one run: multiplications with X, and entries of an iterate."""
    n, p = batch.data.design.whole_shape
    return n * p + timings.STATE_WORK * (n + p)


def may_still_improve(risks: Sequence[Risk], at: int | None = None, early: bool = False) -> bool:
    """Whether more iterations are likely to lower the smallest risk of all paths noticeably.

    A doubling of the iterations is expected to lower the smallest risk of a path by a quarter of
    what the last one did or, ``early`` in a search, by as much. Less than a tenth of the standard
    error would make no visible difference. At a given iteration, the criterion is how much its risk
    still changes.
    """
    curves = _curves(risks)
    if at is not None:
        k = int(np.argmin(curves[:, at]))
        change = abs(float(curves[k, at] - curves[k, at // 2]))
        return change > worth(risks[k], at)
    lowest, fall = _lowest_and_fall(curves)
    k = int(lowest.argmin())
    t = int(curves[k].argmin())
    least = max(worth(risks[k], t), _SEEN * float(risks[k].stderr[t]))
    share = 1.0 if early and curves.shape[1] <= _EARLY else _LATER
    return bool(np.any(lowest - fall * share < lowest[k] - least))


def contenders(risks: Sequence[Risk]) -> list[int]:
    """Return the paths that are not clearly behind the best one.

    Each may fall as much again as in the last doubling of the iterations.
    """
    lowest, fall = _lowest_and_fall(_curves(risks))
    k, kept = int(lowest.argmin()), list[int]()
    for j, risk in enumerate(risks):
        behind = float(lowest[j] - lowest[k] - max(fall[j], 0.0))
        stderr = compare_risks(risk, risk.best_iter, risks[k], risks[k].best_iter)[1]
        if behind <= BEHIND * stderr:
            kept.append(j)
    return kept


def may_reach(risks: Sequence[Risk], limit: float) -> bool:
    """Whether a path may fall to a limit; early on, by twice what the last doubling lowered it."""
    curves = _curves(risks)
    lowest, fall = _lowest_and_fall(curves)
    further = 2 * np.maximum(fall, 0.0) if curves.shape[1] <= _EARLY else 0.0
    return bool(np.any(lowest - further <= limit))


def _curves(risks: Sequence[Risk]) -> np.ndarray:
    """Return risks of paths of the same length, of shape (paths, n_iter + 1)."""
    return np.stack([to_numpy(risk.values).astype(float) for risk in risks])


def _lowest_and_fall(curves: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the smallest risk of each path, and by how much the last doubling lowered it."""
    half = (curves.shape[1] - 1) // 2
    fall = curves[:, : half + 1].min(axis=1) - curves[:, half + 1 :].min(axis=1)
    return curves.min(axis=1), fall


def far_enough(t: int, n_iter: int) -> int:
    """Return the iteration, at most ``n_iter``, up to which a choice of t needs estimates."""
    return min(max(2 * t, t + _MARGIN), n_iter)


def worth(risk: Risk, t: int) -> float:
    """Return the decrease of the risk below that of iteration t that is noticeable."""
    value, start = abs(float(risk.values[t])), abs(float(risk.values[0]))
    # for separable classes the risk has no minimum: it falls to zero as the coefficients grow
    if getattr(risk.criterion, "margin", False):
        return _WORTH * start
    return max(_WORTH * value, _NOTHING * start)


@dataclass(frozen=True, eq=False)
class StopOnRisk:
    """Stop a run once the estimated risk has clearly passed its minimum.

    The run is extended in growing chunks, and the risk of all iterates is estimated after each. It
    stops after the first chunk whose last iteration is at least `patience` iterations past the best
    one and worse by more than one standard error of the difference (requiring two would run several
    times as long without a better selection). Iterates and estimates are those of the full run, up
    to the Monte Carlo error of the probes and of the audit: both are independent of later
    iterations. Without an audit, the automatic method may take folds for longer chunks.

    Parameters
    ----------
    patience : int, default=20
        Minimum number of iterations since the best one. The first chunk is twice as long.
    growth : float, default=1.5
        Factor by which each chunk extends the run.
    test_loss, covariance, method, row_scale, audit, groups, cv, rng
        As for `steinpath.estimate_risk`; the estimate is audited by default.

    Examples
    --------
    >>> import steinpath as sp
    >>> X, y = sp.simulate.paper_model(150, noise="t2").sample(300, rng=0)
    >>> stop = sp.StopOnRisk(patience=20, rng=0)
    >>> path = sp.run(X, y, sp.LAD(), sp.Lasso(0.2), n_iter=1000, stop=stop)
    >>> path.n_iter < 200, path.risk.best_iter <= path.n_iter - 20
    (True, True)
    """

    patience: int = 20
    growth: float = 1.5
    test_loss: TestLoss = None
    covariance: Any = None
    method: str = "auto"
    row_scale: Any = None
    audit: int | str = 32
    groups: Any = None
    cv: Any = None
    rng: Any = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "patience", check_count("patience", self.patience))
        store_number(self, "growth", low=1, open_low=True)
        check_rng(self.rng)
        if self.cv is not None:  # an iterator can be read only once
            object.__setattr__(self, "cv", check_cv(self.cv))
        self._options()

    def horizons(self, n_iter: int) -> Iterator[int]:
        """Return the iterations after which to check; the last is ``n_iter``."""
        horizon = 2 * self.patience
        while horizon < n_iter:
            yield horizon
            horizon = math.ceil(min(self.growth * horizon, n_iter))
        yield n_iter

    def evaluate(self, path: Path) -> tuple[Path, bool]:
        """Return the path with its estimated risk, and whether to stop."""
        risk = estimate(path, self._options(), self.rng)
        last, best = path.n_iter, risk.best_iter
        rise, stderr = risk.compare(last, best)
        return path.but(risk=risk), last - best >= self.patience and rise > stderr

    def _options(self) -> RiskOptions:
        # cv does not leave out single rows
        audit = self.audit if self.cv is None or self.audit == "folds" else 0
        return RiskOptions.among({**vars(self), "audit": audit})
