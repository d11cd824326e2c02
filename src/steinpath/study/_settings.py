"""What a replication is of: the data, the algorithm and the estimates, as plain values."""

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

# The paper's experiments: step sizes, and one strength for all penalties.
ALGORITHM = ChambollePock(sigma=0.1, tau=0.1, theta=0.5)
LAM = 0.5
LOSSES: dict[str, Loss] = {"lad": LAD(), "square_root": SquareRoot()}
PENALTIES: dict[str, Penalty] = {
    "ridge": Ridge(LAM),
    "lasso": Lasso(LAM),
    "mcp": MCP(LAM),
    "scad": SCAD(LAM),
}
#: Losses of labels, of the study of margins alone.
MARGINS: dict[str, MarginLoss] = {
    "hinge": Hinge(),
    "squared_hinge": SquaredHinge(),
    "logistic": Logistic(),
}
PAPER_NOISE = {"lad": "t2", "square_root": "normal"}
#: A standard error of mean absolute losses needs their variance, which Student's t₂ does not have.
LIGHTER_NOISE = {"lad": "laplace", "square_root": "normal"}
#: What is left out to know the error of a tuned model: rows, groups of rows, or later rows.
CHOICES = ("rows", "groups", "time")
#: Where scores of coefficients come from: the covariance, or node-wise regressions.
SCORES = ("known", "nodewise")
PAIRS = tuple((loss, penalty) for loss in LOSSES for penalty in PENALTIES)

#: Raised when replications of the same settings would come out differently.
REVISION = 1


@dataclass(frozen=True)
class Setting:
    """One cell of a study; a seed makes it a replication.

    Attributes
    ----------
    loss, penalty : str
        Names in `LOSSES`, or of labels in `MARGINS`, and in `PENALTIES`.
    n, p, iters : int
        Observations, features, iterations; 0 of the last for as many as pay, with a choice.
    ways : tuple of str
        What is estimated, by names in `steinpath.study._replicate.WAYS`; or how a choice is made,
        by names in `CHOICES`; of labels, names in `steinpath.study._classify.WAYS`; of intervals
        for coefficients, names in `SCORES`.
    rows : str
        Law of the data, a name in `steinpath.study._scenarios.SCENARIOS`; with a choice, in
        `steinpath.study._choice_data.LAWS`; of labels, in `steinpath.study._classify.CLASSES`.
    noise : str
        Law of the noise, as in `steinpath.simulate.Noise`; with a choice, also "skewed"; of labels
        "logistic".
    backend : str
        Array library: "numpy" or "torch".
    device : str
        Where its arrays live: "cpu", "cuda", ….
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
        """All there is to know to do it again, for JSON."""
        return {**asdict(self), "ways": list(self.ways), "revision": REVISION}

    @property
    def text(self) -> bytes:
        """The description as it is kept with each part."""
        return _text_and_key(self, REVISION)[0]

    @property
    def key(self) -> str:
        """Hash of the description: two settings share it only if they are the same."""
        return _text_and_key(self, REVISION)[1]

    @cached_property
    def kind(self) -> str:
        """What a replication is, by name in `steinpath.study._replicate.KINDS`."""
        if self.loss in MARGINS:
            return "labels"
        kinds = {"choice": CHOICES, "intervals": SCORES}
        own = [kind for kind, ways in kinds.items() if not set(self.ways).isdisjoint(ways)]
        return own[0] if own else "path"

    @property
    def numpy_alone(self) -> bool:
        """Whether it is done in NumPy, on whatever backend other paths are run."""
        return self.kind != "path"

    @property
    def entries(self) -> int:
        """How many numbers each column of a replication has: as a rule, one for each iterate."""
        if self.kind == "choice":
            return 1
        if self.kind == "intervals":
            return len(interval_times(self.iters)) + 2
        return self.iters + 1

    @property
    def pair(self) -> str:
        """Loss and penalty, for people."""
        return pair_title(self.loss, self.penalty)


@lru_cache(maxsize=1024)
def _text_and_key(setting: Setting, revision: int) -> tuple[bytes, str]:
    """Describe a setting, once for its many replications."""
    text = json.dumps(setting.describe(), sort_keys=True).encode()
    return text, hashlib.sha256(text).hexdigest()[:16]


def interval_times(iters: int) -> list[int]:
    """Return the iterates at which intervals for coefficients are looked at: 5, and so on."""
    times = np.geomspace(min(5, iters), iters, 9)
    return sorted({round(t) for t in times.tolist()})


def pair_title(loss: str, penalty: str) -> str:
    """Name a loss and a penalty for people."""
    name = penalty if penalty in ("ridge", "lasso") else penalty.upper()
    return f"{'LAD' if loss == 'lad' else loss.replace('_', ' ')}–{name}"
