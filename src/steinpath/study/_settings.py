"""Configuration of a replication: data, algorithm and estimates, as plain values."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np

from steinpath.algorithms._family import ChambollePock
from steinpath.problem._losses import LAD, Loss, SquareRoot
from steinpath.problem._margins import Hinge, Logistic, MarginLoss, SquaredHinge
from steinpath.problem._penalties import MCP, SCAD, Lasso, Penalty, Ridge

#: Arrays of equal length by name: the columns of a replication, usually one entry per iterate.
Curves = dict[str, np.ndarray]

# Step sizes and regularisation strength of the paper's experiments.
ALGORITHM = ChambollePock(sigma=0.1, tau=0.1, theta=0.5)
LAM = 0.5
LOSSES: dict[str, Loss] = {"lad": LAD(), "square_root": SquareRoot()}
PENALTIES: dict[str, Penalty] = {
    "ridge": Ridge(LAM),
    "lasso": Lasso(LAM),
    "mcp": MCP(LAM),
    "scad": SCAD(LAM),
}
PAIRS = tuple((loss, penalty) for loss in LOSSES for penalty in PENALTIES)
#: Losses of the study ``margins``.
MARGIN_LOSSES: dict[str, MarginLoss] = {
    "hinge": Hinge(),
    "squared_hinge": SquaredHinge(),
    "logistic": Logistic(),
}
PAPER_NOISE = {"lad": "t2", "square_root": "normal"}
#: Noise with a finite variance, which standard errors of mean absolute losses require.
LIGHTER_NOISE = {"lad": "laplace", "square_root": "normal"}
#: Cross-validation of the tuned model: held-out rows, groups of rows, or later rows.
CHOICES = ("rows", "groups", "time")
#: Scores of coefficients: from the known covariance, or from node-wise regressions.
SCORES = ("known", "nodewise")

#: Part of every description, and so of the names of existing replications.
REVISION = 1


@dataclass(frozen=True)
class Configuration:
    """One simulation setting; together with a seed it defines a replication.

    Losses, penalties, `ways` (estimators), `rows` (data) and noise are names in tables: `WAYS` of
    `_replicate`, `SCENARIOS`, and for studies of models those of `_kinds`.
    """

    loss: str
    penalty: str
    n: int
    p: int
    iters: int  # 0: n_iter="auto"
    ways: tuple[str, ...]
    rows: str
    noise: str
    backend: str = "numpy"
    device: str = "cpu"

    def describe(self) -> dict[str, Any]:
        """Return everything needed to reproduce it, as JSON-serialisable values."""
        return {**asdict(self), "ways": list(self.ways), "revision": REVISION}

    @cached_property
    def text(self) -> str:
        """The description as stored with each replication."""
        return json.dumps(self.describe(), sort_keys=True)

    @cached_property
    def key(self) -> str:
        """Hash of the description; equal only for equal configurations."""
        return hashlib.sha256(self.text.encode()).hexdigest()[:16]

    @cached_property
    def kind(self) -> str:
        """Kind of replication: "path", or a name in `steinpath.study._kinds.KINDS`."""
        if self.loss in MARGIN_LOSSES:
            return "labels"
        if not self.ways or self.ways[0] not in (*CHOICES, *SCORES):
            return "path"
        return "choice" if self.ways[0] in CHOICES else "intervals"

    @property
    def pair(self) -> str:
        """Display name of loss and penalty."""
        return pair_title(self.loss, self.penalty)


def generators(
    config: Configuration, seed: int, count: int, ways: Iterable[str]
) -> tuple[list[np.random.Generator], dict[str, np.random.Generator]]:
    """Return ``count`` random generators of a replication, and one for each of `ways`."""
    names = list(ways)
    streams = np.random.SeedSequence([seed, config.n, config.p]).spawn(count + len(names))
    rngs = [np.random.default_rng(stream) for stream in streams]
    return rngs[:count], dict(zip(names, rngs[count:], strict=True))


def interval_times(iters: int) -> list[int]:
    """Return the iterations at which confidence intervals are computed."""
    times = np.geomspace(min(5, iters), iters, 9)
    return sorted({round(t) for t in times.tolist()})


def pair_title(loss: str, penalty: str) -> str:
    """Return the display name of a loss and a penalty."""
    name = penalty if penalty in ("ridge", "lasso") else penalty.upper()
    return f"{'LAD' if loss == 'lad' else loss.replace('_', ' ')}–{name}"
