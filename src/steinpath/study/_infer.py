"""One replication of intervals: cover the coefficients of a known model, at several iterates."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri

from steinpath.engine._run import run
from steinpath.inference._coefficient_intervals import (
    CoefficientIntervals,
    IntervalOptions,
    intervals_along,
)
from steinpath.risk._estimate import estimate_risk
from steinpath.simulate import Noise
from steinpath.study._scenarios import BY_DESIGN, model_of
from steinpath.study._settings import (
    ALGORITHM,
    LOSSES,
    PENALTIES,
    SCORES,
    Setting,
    interval_times,
)

#: Level of the intervals, of each by itself; nominal rates of false discoveries and of any false
#: discovery, the first by Benjamini and Hochberg, the second by Bonferroni.
LEVEL, FDR, FAMILY = 0.95, 0.1, 0.05

#: Coefficients that node-wise regressions are for, at most: half of them not zero.
_FEATURES = 50

#: What is kept at each iterate: which it is; shares of coefficients that are covered, of all,
#: of the zeros and of the others; the mean width; whether the total response is warned about; the
#: share of false discoveries, the power, and whether there is any false discovery.
COLUMNS = ("iterate", "covers", "zero", "nonzero", "width", "warned", "false", "power", "any_false")


def infer(setting: Setting, seed: int) -> dict[str, np.ndarray]:
    """Do one replication.

    Parameters
    ----------
    setting : Setting
        What to do.
    seed : int
        Of all its randomness. With the same seed, n and p, all losses and penalties see the same
        data.

    Returns
    -------
    dict of ndarray
        `COLUMNS` of each way to find scores, with the way's name and an underscore before. Entries
        are those of `steinpath.study._settings.interval_times`, then the iterate with short
        intervals that is the default, then the iterate with the smallest estimated risk.
    """
    seeds = np.random.SeedSequence([seed, setting.n, setting.p]).spawn(3 + len(SCORES))
    data, errors, risk, *probes = map(np.random.default_rng, seeds)
    rngs = dict(zip(SCORES, probes, strict=True))
    model = model_of(setting.p).under(noise=setting.noise, design=BY_DESIGN[setting.rows])
    X = model.sample(setting.n, data).X
    noise = Noise(setting.noise).sample(setting.n, errors)
    loss, penalty = LOSSES[setting.loss], PENALTIES[setting.penalty]
    path = run(X, X @ model.coef + noise, loss, penalty, ALGORITHM, setting.iters)
    by_risk = max(1, estimate_risk(path, method="compressed", rng=risk).best_iter)
    times = [*interval_times(setting.iters), None, by_risk]
    found: dict[str, np.ndarray] = {}
    for way in setting.ways:
        options, features = IntervalOptions(covariance=model.covariance), None
        if way == "nodewise":
            options, features = IntervalOptions(scores="node-wise lasso"), _some(model.coef)
        along = intervals_along(path, times, features, LEVEL, rngs[way], options)
        values = [_counts(each, model.coef[each.features]) for each in along]
        found |= {f"{way}_{name}": np.array([row[name] for row in values]) for name in COLUMNS}
    return found


def _some(coef: np.ndarray) -> np.ndarray:
    """Return some features, of which half have coefficients other than zero, spread over all."""
    parts = []
    for which in (np.flatnonzero(coef), np.flatnonzero(coef == 0)):
        places = np.linspace(0, len(which) - 1, min(_FEATURES // 2, len(which)))
        parts.append(which[places.astype(int)])
    return np.concatenate(parts)


def _counts(found: CoefficientIntervals, coef: np.ndarray) -> dict[str, float]:
    """Return `COLUMNS` at one iterate."""
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


def columns_of_intervals(setting: Setting) -> set[str]:
    """Return the names of the columns of a replication."""
    return {f"{way}_{name}" for way in setting.ways for name in COLUMNS}
