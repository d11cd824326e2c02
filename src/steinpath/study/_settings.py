"""Configuration of a replication: data, algorithm and estimates, as plain values."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from steinpath.algorithms._family import ChambollePock
from steinpath.problem._losses import LAD, Loss, SquareRoot
from steinpath.problem._margins import Hinge, Logistic, MarginLoss, SquaredHinge
from steinpath.problem._penalties import MCP, SCAD, Lasso, Penalty, Ridge

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
#: Margin losses, for the study ``margins`` only.
MARGINS: dict[str, MarginLoss] = {
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
PAIRS = tuple((loss, penalty) for loss in LOSSES for penalty in PENALTIES)

#: Incremented when the results of existing configurations change.
REVISION = 1


@dataclass(frozen=True)
class Configuration:
    """One simulation setting; together with a seed it defines a replication.

    Attributes
    ----------
    loss, penalty : str
        Names in `LOSSES` (for classification, `MARGINS`) and `PENALTIES`.
    n, p, iters : int
        Numbers of observations, features and iterations. For kind "choice", ``iters=0`` stands for
        ``n_iter="auto"``.
    ways : tuple of str
        Estimators to compare: names in `steinpath.study._replicate.WAYS`; for kind "choice", in
        `CHOICES`; for "labels", in `steinpath.study._classify.WAYS`; for "intervals", in `SCORES`.
    rows : str
        Data-generating process: a name in `steinpath.study._scenarios.SCENARIOS`; for kind
        "choice", in `steinpath.study._choice_data.LAWS`; for "labels", in
        `steinpath.study._classify.CLASSES`.
    noise : str
        Noise distribution, as in `steinpath.simulate.Noise`; also "skewed" for kind "choice", and
        "logistic" for "labels".
    backend : str
        Array library: "numpy" or "torch".
    device : str
        Device of the arrays: "cpu", "cuda", ….
    """

    loss: str
    penalty: str
    n: int
    p: int
    iters: int
    ways: tuple[str, ...]
    rows: str
    noise: str
    backend: str = "numpy"
    device: str = "cpu"

    def describe(self) -> dict[str, Any]:
        """Return everything needed to reproduce it, as JSON-serialisable values."""
        return {**asdict(self), "ways": list(self.ways), "revision": REVISION}

    @property
    def text(self) -> bytes:
        """The description as stored with each replication."""
        return _text_and_key(self, REVISION)[0]

    @property
    def key(self) -> str:
        """Hash of the description; equal only for equal configurations."""
        return _text_and_key(self, REVISION)[1]

    @cached_property
    def kind(self) -> str:
        """Kind of replication: a name in `steinpath.study._replicate.KINDS`."""
        if self.loss in MARGINS:
            return "labels"
        kinds = {"choice": CHOICES, "intervals": SCORES}
        own = [kind for kind, ways in kinds.items() if not set(self.ways).isdisjoint(ways)]
        return own[0] if own else "path"

    @property
    def numpy_alone(self) -> bool:
        """Whether replications always use NumPy, regardless of the backend."""
        return self.kind != "path"

    @property
    def entries(self) -> int:
        """Length of each column of a replication: usually one entry per iterate."""
        if self.kind == "choice":
            return 1
        if self.kind == "intervals":
            return len(interval_times(self.iters)) + 2
        return self.iters + 1

    @property
    def pair(self) -> str:
        """Display name of loss and penalty."""
        return pair_title(self.loss, self.penalty)


@lru_cache(maxsize=1024)
def _text_and_key(config: Configuration, revision: int) -> tuple[bytes, str]:
    """Describe a configuration; cached, since it is needed for every replication."""
    text = json.dumps(config.describe(), sort_keys=True).encode()
    return text, hashlib.sha256(text).hexdigest()[:16]


def interval_times(iters: int) -> list[int]:
    """Return the iterations at which confidence intervals are computed."""
    times = np.geomspace(min(5, iters), iters, 9)
    return sorted({round(t) for t in times.tolist()})


def pair_title(loss: str, penalty: str) -> str:
    """Return the display name of a loss and a penalty."""
    name = penalty if penalty in ("ridge", "lasso") else penalty.upper()
    return f"{'LAD' if loss == 'lad' else loss.replace('_', ' ')}–{name}"
