"""One replication of ``intervals``: coverage of coefficient intervals at several iterations."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import ndtri

from steinpath.engine._run import run
from steinpath.inference._coefficient_intervals import CoefficientIntervals
from steinpath.inference._estimate_intervals import intervals_along
from steinpath.risk._estimate import estimate_risk
from steinpath.simulate import Noise
from steinpath.study._scenarios import BY_DESIGN, model_of
from steinpath.study._settings import (
    ALGORITHM,
    LOSSES,
    PENALTIES,
    SCORES,
    Configuration,
    interval_times,
)

#: Pointwise confidence level; nominal false discovery rate (Benjamini–Hochberg) and family-wise
#: error rate (Bonferroni).
LEVEL, FDR, FAMILY = 0.95, 0.1, 0.05

#: Maximum number of coefficients for node-wise regressions; half of them nonzero.
_FEATURES = 50

#: Columns stored at each iteration: its number; coverage of all, of zero and of nonzero
#: coefficients; mean width; whether the diagnostic "total response" warns; false discovery
#: proportion; power; whether there is any false discovery.
COLUMNS = ("iterate", "covers", "zero", "nonzero", "width", "warned", "false", "power", "any_false")


def infer(config: Configuration, seed: int) -> dict[str, np.ndarray]:
    """Compute one replication.

    Parameters
    ----------
    config : Configuration
        Configuration of the replication.
    seed : int
        Random seed. For the same seed, n and p, all losses and penalties use the same data.

    Returns
    -------
    dict of ndarray
        `COLUMNS` for each type of scores, prefixed by its name and an underscore. Entries are those
        at `steinpath.study._settings.interval_times`, then at the default iteration (shortest
        intervals), then at the iteration with the smallest estimated risk.
    """
    seeds = np.random.SeedSequence([seed, config.n, config.p]).spawn(3 + len(SCORES))
    data, errors, risk, *probes = map(np.random.default_rng, seeds)
    rngs = dict(zip(SCORES, probes, strict=True))
    model = model_of(config.p).under(noise=config.noise, design=BY_DESIGN[config.rows])
    X = model.sample(config.n, data).X
    noise = Noise(config.noise).sample(config.n, errors)
    loss, penalty = LOSSES[config.loss], PENALTIES[config.penalty]
    path = run(X, X @ model.coef + noise, loss, penalty, ALGORITHM, config.iters)
    by_risk = max(1, estimate_risk(path, method="compressed", rng=risk).best_iter)
    times = [*interval_times(config.iters), None, by_risk]
    found: dict[str, np.ndarray] = {}
    for way in config.ways:
        options: dict[str, Any] = {"covariance": model.covariance}
        if way == "nodewise":
            options = {"scores": "node-wise lasso", "features": _some(model.coef)}
        along = intervals_along(path, times, level=LEVEL, rng=rngs[way], **options)
        values = [_counts(each, model.coef[each.features]) for each in along]
        found |= {f"{way}_{name}": np.array([row[name] for row in values]) for name in COLUMNS}
    return found


def _some(coef: np.ndarray) -> np.ndarray:
    """Return a subset of the features, evenly spaced, half of them with nonzero coefficients."""
    parts = []
    for which in (np.flatnonzero(coef), np.flatnonzero(coef == 0)):
        places = np.linspace(0, len(which) - 1, min(_FEATURES // 2, len(which)))
        parts.append(which[places.astype(int)])
    return np.concatenate(parts)


def _counts(found: CoefficientIntervals, coef: np.ndarray) -> dict[str, float]:
    """Return `COLUMNS` at one iteration."""
    covered, zero = (found.lower <= coef) & (coef <= found.upper), coef == 0
    discovered = found.significant(FDR)
    family = found.pvalue <= FAMILY / len(coef)
    return {
        "iterate": float(found.t),
        "covers": float(covered.mean()),
        "zero": float(covered[zero].mean()),
        "nonzero": float(covered[~zero].mean()),
        "width": float(2 * ndtri(0.5 + LEVEL / 2) * found.stderr.mean()),
        "warned": float(any(c.warns for c in found.diagnostics if c.name == "total response")),
        "false": float(np.sum(discovered & zero) / max(1, np.sum(discovered))),
        "power": float(discovered[~zero].mean()),
        "any_false": float(np.any(family & zero)),
    }


def columns_of_intervals(config: Configuration) -> set[str]:
    """Return the names of the columns of a replication."""
    return {f"{way}_{name}" for way in config.ways for name in COLUMNS}
