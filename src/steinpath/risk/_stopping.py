"""How long to run: until the minimum of the estimated risk is behind, or it no longer falls."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from steinpath._support.arrays import to_numpy
from steinpath._support.validation import check_count, check_rng, store_number
from steinpath.engine._batch import Batch
from steinpath.engine._path import Path
from steinpath.problem._scoring import TestLoss
from steinpath.risk._estimate import Risk, estimate
from steinpath.risk._methods import n_folds
from steinpath.risk._options import RiskOptions
from steinpath.risk._splits import check_cv

# Iterations at first, how many times as many next, and how many at most.
_FIRST, _GROWTH, _MOST = 100, 2, 1600
# The limit in work, about half a minute: multiplications with entries of X, over all runs and their
# folds. A number of an iterate costs as much as so many of them.
_WORK, _NUMBER = 2e11, 200
# Iterations, or other penalties, pay if they lower the risk by this share of it.
_WORTH = 5e-3
# Or by this share of the risk of the start, below which rounding and chance decide.
_NOTHING = 1e-5


def growing_horizons(batch: Batch, options: RiskOptions | None = None) -> list[int]:
    """Numbers of iterations after which to ask whether more of them pay; the last is a limit.

    The limit is in work, so that large problems end, too.
    """
    folds = n_folds(batch, (options or RiskOptions()).rough_folds)
    step = len(batch) * (1 + folds) * work_of_a_step(batch)
    most = int(min(max(_WORK / step, _FIRST / 2), _MOST))
    horizons = [min(_FIRST, most)]
    while horizons[-1] < most:
        horizons.append(min(_GROWTH * horizons[-1], most))
    return horizons


def work_of_a_step(batch: Batch) -> int:
    """Work of a step of one run: multiplications with X, and as much for numbers of an iterate."""
    n, p = batch.data.design.whole_shape
    return n * p + _NUMBER * (n + p)


def promises_less(risks: Sequence[Risk], at: int | None = None) -> bool:
    """Whether more iterations may lower the smallest risk by more than a trifle.

    The last doubling of the iterations lowered the smallest risk of each path by so much; the
    next one is taken to lower it by a quarter of that.

    Parameters
    ----------
    risks : sequence of Risk
        One for each path, all of the same length.
    at : int, optional
        The iterate that will be taken, if it is not that with the smallest risk: then what counts
        is how much its risk still changes.
    """
    curves = np.stack([to_numpy(risk.values).astype(float) for risk in risks])
    half = (curves.shape[1] - 1) // 2
    if at is not None:
        k = int(np.argmin(curves[:, at]))
        change = abs(float(curves[k, at] - curves[k, at // 2]))
        return change > worth(risks[k], at)
    lowest = curves.min(axis=1)
    fall = curves[:, : half + 1].min(axis=1) - curves[:, half + 1 :].min(axis=1)
    k = int(lowest.argmin())
    return bool(np.any(lowest - fall / 4 < lowest[k] - worth(risks[k], int(curves[k].argmin()))))


def worth(risk: Risk, t: int) -> float:
    """Return by how much a risk is to fall below that of iterate t for it to matter.

    Classes that can be told apart have no smallest risk: it falls towards zero as coefficients
    grow, by large shares of next to nothing. So what counts there is the share of the risk at the
    start.
    """
    value, start = abs(float(risk.values[t])), abs(float(risk.values[0]))
    if getattr(risk.criterion, "margin", False):
        return _WORTH * start
    return max(_WORTH * value, _NOTHING * start)


@dataclass(frozen=True, eq=False)
class StopOnRisk:
    """Stop a run when the minimum of the estimated risk is clearly behind.

    The run is extended in growing chunks, and the risk of all its iterates is estimated after
    each. It stops at the first chunk whose last iterate is `patience` iterations past the best
    one and worse by more than a standard error of the difference (two would run several times as
    long, and choose no better). Iterates and estimates are those of the full run, up to the noise
    of the probes and of the audit: neither has anything to do with what comes later.

    Parameters
    ----------
    patience : int, default=20
        Iterations that must have passed since the best one. The first chunk is twice as long.
    growth : float, default=1.5
        Each chunk makes the run this many times as long.
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
        object.__setattr__(self, "cv", check_cv(self.cv))  # an iterator is read once
        self._options()

    def horizons(self, n_iter: int) -> Iterator[int]:
        """Numbers of iterations after which to look, the last being ``n_iter``."""
        horizon = 2 * self.patience
        while horizon < n_iter:
            yield horizon
            horizon = math.ceil(min(self.growth * horizon, n_iter))
        yield n_iter

    def judge(self, path: Path) -> tuple[Path, bool]:
        """Return the path with its estimated risk, and whether to stop."""
        risk = estimate(path, self._options(), self.rng)
        last, best = path.n_iter, risk.best_iter
        rise, stderr = risk.compare(last, best)
        return path.but(risk=risk), last - best >= self.patience and rise > stderr

    def _options(self) -> RiskOptions:
        return RiskOptions(
            test_loss=self.test_loss,
            covariance=self.covariance,
            method=self.method,
            row_scale=self.row_scale,
            # single rows are not what cv leaves out
            audit=self.audit if self.cv is None or self.audit == "folds" else 0,
            groups=self.groups,
            cv=self.cv,
        )
