"""Tuning: paths for a grid of ``lam`` are run together and searched for the smallest risk."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from steinpath._support.frames import library_of
from steinpath._support.progress import printing
from steinpath._support.validation import check_count, check_instance
from steinpath.algorithms._base import ProximalAlgorithm
from steinpath.algorithms._family import HalpernPDHG
from steinpath.design._reading import as_design
from steinpath.problem._grid import PenaltyOf
from steinpath.problem._losses import Loss
from steinpath.problem._scoring import TestLoss
from steinpath.risk._options import RiskOptions
from steinpath.tuning._search import search
from steinpath.tuning._tuning import Tuning

#: The default algorithm.
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
    verbose: bool | int = False,
) -> Tuning:
    """Select ``lam`` and the iteration with the smallest estimated risk.

    The paths of all values of ``lam`` are run together, as long as the estimated risk decreases.
    The search has two stages. First, the risk of every iterate of every path is estimated roughly,
    usually by cross-validation with a few folds. Then the risk of the best ``lam`` is estimated
    accurately: with an audit and as many probes as needed; by ten folds if there are ten times as
    many rows as columns; or by leave-one-out if there are fewer rows than columns and it takes a
    second or two. If another ``lam`` then has a clearly smaller risk, it is estimated accurately
    next. Finally, all rough estimates are raised by the same amount if some are still lower by
    chance. Rows of `Tuning.risk` may therefore come from different methods; see
    ``risks[k].method``.

    The smallest of many estimates is biased downwards. Report `Tuning.best_risk`, which is adjusted
    for selection: the selection is repeated without the rows that it is evaluated on.

    Parameters
    ----------
    X : array-like, sparse matrix or Design of shape (n, p)
        The features, as for `steinpath.run`.
    y : array-like of shape (n,)
        The responses.
    loss : Loss
        The loss, such as ``sp.LAD()``.
    penalty : callable
        A function of ``lam`` that returns a penalty: ``sp.Lasso``, or
        ``functools.partial(sp.MCP, gamma=2.5)``.
    lams : int or array-like, default=20
        The values of ``lam``, or their number. A number gives a geometric grid that starts at the
        smallest value for which all coefficients are zero (for ridge, at a value that shrinks every
        direction tenfold).
    n_iter : int or "auto", default="auto"
        Number of iterations. "auto" starts with 100 and doubles it as long as that is expected to
        lower the risk by half a percent, up to a limit on the cost: see `Tuning.stop`.
    algorithm : ProximalAlgorithm, default=HalpernPDHG(ratio="auto", warmup=10)
        The algorithm to run, such as ``sp.ChambollePock()``.
    fit_intercept : bool, default=False
        Whether to fit an intercept.
    test_loss : None, str, Loss or callable, default=None
        The scoring loss, as for `steinpath.estimate_risk`; by default matched to ``loss``.
    covariance : array-like of shape (p, p), optional
        Covariance of the rows of X, if it is known.
    method : str, default="auto"
        How the risk is estimated, as for `steinpath.estimate_risk`.
    row_scale : None, "norm", "auto" or array-like of shape (n,), default="norm"
        Row scales of the correction, as for `steinpath.estimate_risk`; the row norms by default.
    audit : int or "folds", default="folds"
        As for `steinpath.estimate_risk`; 0 for none. For selection, ten folds, which use all rows,
        are more informative than 32 rows left out one at a time.
    groups : array-like of shape (n,), optional
        Group labels of the rows, such as subjects with repeated measurements. Whole groups are
        held out, and the estimated risk is that on new groups.
    rng : None, int or numpy.random.Generator
        Random numbers for the probes and the folds, which are the same for all values of ``lam``.
    cv : int, splitter or iterable, optional
        How rows are held out: a number of folds, a scikit-learn splitter such as
        ``TimeSeriesSplit(5)``, or pairs of arrays with the indices of training and test rows.
    rule : {"min", "one_se"}, default="min"
        "one_se" selects the largest ``lam`` whose risk is within one standard error of the minimum.
        The standard error is that of the difference, which is much smaller than that of the risks.
    iterate : int, optional
        Use this iteration (-1 for the last one), and select ``lam`` only.
    lam_ratio : float, optional
        Ratio of the smallest to the largest ``lam`` of the grid. By default 0.01 with fewer rows
        than columns, 0.001 with more, 0.0001 for ridge.
    verbose : bool or int, default=False
        Whether to print progress: one line per stage, and with 2 or more every tenth of a stage.

    Returns
    -------
    Tuning
        The estimated risk of every iterate for every ``lam``, and the selected model.

    Notes
    -----
    The paths for L values of ``lam`` and N iterations take ``16 L N (n + p)`` bytes in double
    precision. Up to half a gigabyte they are kept in memory. Beyond that they are run a few at a
    time, and those that are estimated accurately are run again. Sample weights are not supported,
    since there is no risk estimate for non-uniform weights.

    Examples
    --------
    >>> import steinpath as sp
    >>> X, y = sp.simulate.paper_model(60, noise="t2").sample(200, rng=0)
    >>> tuning = sp.tune(X, y, sp.LAD(), sp.Lasso, lams=10, n_iter=100, rng=0)
    >>> tuning.risk.shape, tuning.coef.shape
    ((10, 101), (60,))
    >>> bool(tuning.risk[tuning.best] == tuning.risk.min())
    True
    >>> tuning.best_risk > tuning.naive_risk  # adjusted for selection
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
    how = options, rng, length, rule, iterate, lam_ratio
    with printing(verbose, "tune"):
        tuning = search(as_design(X), y, loss, penalty, lams, algorithm, fit_intercept, *how)
    return replace(tuning, library=library_of(X))


def check_n_iter(n_iter: Any) -> int | None:
    """Return a number of iterations, or None for "auto"."""
    if isinstance(n_iter, str):
        if n_iter != "auto":
            raise ValueError(f"n_iter must be 'auto' or a number of iterations; got {n_iter!r:.60}")
        return None
    return check_count("n_iter", n_iter)
