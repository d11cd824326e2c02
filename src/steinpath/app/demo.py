"""Demonstration on simulated data: run, estimate, select, compare with the true risk."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from steinpath.algorithms._family import ChambollePock
from steinpath.engine._path import Path
from steinpath.engine._run import run
from steinpath.problem._losses import LAD
from steinpath.problem._penalties import Lasso
from steinpath.risk._estimate import Risk, estimate_risk
from steinpath.simulate import paper_model


class Demo(NamedTuple):
    """Results of the demonstration."""

    path: Path
    risk: Risk
    true_risk: np.ndarray


def lad_lasso_demo(n: int = 600, p: int = 300, n_iter: int = 200, seed: int = 0) -> Demo:
    """Run LAD–lasso on heavy-tailed data with the settings of the paper."""
    rng = np.random.default_rng(seed)
    model = paper_model(p, noise="t2")
    X, y = model.sample(n, rng)
    path = run(X, y, LAD(), Lasso(0.5), ChambollePock(0.1, 0.1, 0.5), n_iter)
    return Demo(path, estimate_risk(path, audit=32, rng=rng), model.risk(path.coef, "absolute"))


def iterates_to_show(n_iter: int, best: int) -> list[int]:
    """Return a few iterations, denser at the start, including the selected one."""
    steps = np.geomspace(1, n_iter, 12).round().astype(int)
    return sorted({0, best, *steps.tolist()})
