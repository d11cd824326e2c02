"""Stopping a run once the minimum of the estimated risk is behind it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from steinpath._support.validation import check_count, check_rng, store_number
from steinpath.engine._path import Path
from steinpath.problem._scoring import TestLoss
from steinpath.risk._estimate import estimate
from steinpath.risk._options import RiskOptions


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
    test_loss, covariance, method, row_scale, audit, rng
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
    rng: Any = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "patience", check_count("patience", self.patience))
        store_number(self, "growth", low=1, open_low=True)
        check_rng(self.rng)
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
            audit=self.audit,
        )
