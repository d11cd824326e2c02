"""Tuning of a penalty: its paths, run together, and a search over them."""

from __future__ import annotations

from typing import Any

import numpy as np

from steinpath._support.equality import key
from steinpath._support.validation import check_count, check_instance
from steinpath.algorithms._base import ProximalAlgorithm
from steinpath.algorithms._family import HalpernPDHG
from steinpath.design._reading import as_design
from steinpath.design._remote import RemoteDesign
from steinpath.engine._batch import Batch
from steinpath.engine._data import RunData, prepare
from steinpath.engine._null_model import check_lams
from steinpath.engine._start import start
from steinpath.problem._grid import PenaltyOf, make_penalty
from steinpath.problem._losses import Loss
from steinpath.problem._scoring import TestLoss
from steinpath.risk._options import RiskOptions
from steinpath.tuning._search import Search
from steinpath.tuning._tuning import Tuning

#: What is run unless something else is asked for.
DEFAULT_ALGORITHM = HalpernPDHG(ratio="auto", warmup=10)


def tune(
    X: Any,
    y: Any,
    loss: Loss,
    penalty: PenaltyOf,
    lams: Any = 20,
    n_iter: int | str = "auto",
    algorithm: ProximalAlgorithm = DEFAULT_ALGORITHM,
    fit_intercept: bool = False,
    test_loss: TestLoss = None,
    covariance: Any = None,
    method: str = "auto",
    row_scale: Any = "norm",
    audit: int | str = "folds",
    groups: Any = None,
    rng: Any = None,
    *,
    cv: Any = None,
    rule: str = "min",
    iterate: int | None = None,
    lam_ratio: float | None = None,
) -> Tuning:
    """Choose the penalty and the iterate with the smallest estimated risk.

    All penalties advance together, as columns of the same products with X, as long as the risk
    falls. The risk of every iterate of every path is first estimated roughly: mostly by a few folds
    of all paths at once. The penalty that has the minimum is then estimated with care: with an
    audit and as many probes as it needs; by ten folds if there are ten times as many rows as
    columns; by leave-one-out if there are fewer rows than columns and it takes a second or two.
    If that raises its risk clearly above that of another, the other is next. Rough estimates that
    are still lower by chance are raised by what they lack, all alike. So rows of `Tuning.risk` may
    come from different methods: see ``risks[k].method``.

    The smallest of many estimates is too small. The error to report is `Tuning.best_risk`, for
    which the choice is made again without the rows that it is tested on.

    Parameters
    ----------
    X, y, loss, fit_intercept
        As for `steinpath.run`.
    penalty : callable
        A penalty for each ``lam``: ``sp.Lasso`` itself, or such as
        ``functools.partial(sp.MCP, gamma=2.5)``.
    lams : int or array-like, default=20
        The penalties, or how many of them: then in equal ratios from the smallest with all
        coefficients zero down; for ridge, from one that shrinks every direction tenfold.
    n_iter : int or "auto", default="auto"
        Number of iterations. "auto" begins with 100 and doubles them as long as that promises to
        lower the risk by half a percent, up to a limit in work: see `Tuning.stop`.
    algorithm : ProximalAlgorithm, default=HalpernPDHG(ratio="auto", warmup=10)
        What to run, such as ``sp.ChambollePock()``.
    test_loss, covariance, method, row_scale
        As for `steinpath.estimate_risk`; rows are taken to be of unequal size by default.
    audit : int or "folds", default="folds"
        As for `steinpath.estimate_risk`; 0 for none. Ten folds see all rows at the price of ten
        columns: for a choice that is worth more than 32 rows that are left out one at a time.
    groups : array-like of shape (n,), optional
        Labels of groups of rows that belong together, such as measurements of one subject: whole
        groups are left out, wherever rows are, and the risk is that of rows of new groups.
    cv : int, splitter or iterable, optional
        How rows are left out: a number of folds, a splitter of scikit-learn such as
        ``TimeSeriesSplit(5)``, or pairs of arrays of indices, of the rows to train and to test on.
    rng : None, int or numpy.random.Generator
        Randomness of the probes and of the folds, which are the same for all penalties.
    rule : {"min", "one_se"}, default="min"
        "one_se" takes the largest penalty whose best iterate has a risk within one standard error
        of the minimum: that of their difference, which is much smaller than those of the risks.
    iterate : int, optional
        Choose the penalty for this iterate (-1 for the last one) instead of choosing both.
    lam_ratio : float, optional
        Smallest penalty of the grid relative to the largest: 0.01 by default with fewer rows than
        columns, 0.001 with more, 0.0001 for ridge.

    Returns
    -------
    Tuning

    Notes
    -----
    The paths of all penalties take ``16 L N (n + p)`` bytes in double precision. Up to half a
    gigabyte they are kept; beyond that they are run a few at a time, and those that are looked at
    closely once more. Rows that count unequally have no risk estimate, so that there are no sample
    weights.

    Examples
    --------
    >>> import steinpath as sp
    >>> X, y = sp.simulate.paper_model(60, noise="t2").sample(200, rng=0)
    >>> tuning = sp.tune(X, y, sp.LAD(), sp.Lasso, lams=10, n_iter=100, rng=0)
    >>> tuning.risk.shape, tuning.coef.shape
    ((10, 101), (60,))
    >>> bool(tuning.risk[tuning.best] == tuning.risk.min())
    True
    >>> tuning.best_risk > tuning.naive_risk  # since the choice counts
    True
    >>> tuning.predict_interval(X[:3], level=0.8).shape
    (3, 2)
    """
    check_instance("algorithm", algorithm, ProximalAlgorithm, "sp.ChambollePock()")
    length = check_n_iter(n_iter)
    options = RiskOptions(
        test_loss=test_loss,
        covariance=covariance,
        method=method,
        row_scale=row_scale,
        audit=audit,
        groups=groups,
        cv=cv,
    )
    design = as_design(X)
    if isinstance(design, RemoteDesign):
        grid = lams, lam_ratio
        how = algorithm, fit_intercept, options, rng, rule, iterate, length
        found: Tuning = design.tune(y, loss, penalty, grid, *how)
        return found
    data = prepare(design, y, loss, fit_intercept)
    lams = check_lams(data, penalty, lams, lam_ratio)
    batch = start_all(data, penalty, lams, algorithm)
    return Search(batch, lams, options, rng, rule, iterate).run(length)


def start_all(
    data: RunData, penalty: PenaltyOf, lams: np.ndarray, algorithm: ProximalAlgorithm
) -> Batch:
    """Return runs of all penalties that have not moved yet."""
    penalties, keys = [], []
    for lam in lams:
        penalties.append(make_penalty(penalty, lam))
        keys.append(key(penalties[-1]))
    if list(map(key, penalties)) != keys:
        raise ValueError(
            "penalty(lam) must return a new Penalty each time; it changed one that it had returned "
            "for another lam"
        )
    first, *others = penalties
    for each in penalties:
        data.own(each).check_size(data.design.shape[1])
    return start(data, first.beside(others), algorithm, len(lams))


def check_n_iter(n_iter: Any) -> int | None:
    """Return a number of iterations, or None for as many as pay."""
    if isinstance(n_iter, str):
        if n_iter != "auto":
            raise ValueError(f"n_iter must be 'auto' or a number of iterations; got {n_iter!r:.60}")
        return None
    return check_count("n_iter", n_iter)
