"""Confidence intervals for coefficients: the scores, the debiased estimates, and their checks."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from steinpath._support.arrays import to_numpy
from steinpath._support.docstrings import describes_as
from steinpath._support.printing import number
from steinpath._support.validation import (
    check_choice,
    check_count,
    check_instance,
    check_number,
    check_rng,
    spawned,
)
from steinpath.engine._batch import Batch
from steinpath.engine._path import Path
from steinpath.inference._coefficient_intervals import CoefficientIntervals
from steinpath.inference._debias import Debiased, debias, share_of_noise
from steinpath.inference._scores import Scores, blocks_of, scores_of
from steinpath.risk._evidence import Diagnostic
from steinpath.risk._held_out import RowSample
from steinpath.risk._splits import check_groups


def coefficient_intervals(
    path: Path,
    t: int | None = None,
    features: Any = None,
    covariance: Any = None,
    level: float = 0.95,
    rng: Any = None,
    *,
    precision: Any = None,
    row_scale: Any = None,
    groups: Any = None,
    scores: str = "auto",
    names: Any = None,
) -> CoefficientIntervals:
    r"""Return confidence intervals for coefficients of a linear model, from any iterate of a path.

    The estimates are debiased for the penalty and early stopping, with the derivatives of the dual
    iterates with respect to the residuals. This is valid for every regression loss and every
    penalty, also with more columns than rows, if the model is linear and the rows of X are
    independent and approximately Gaussian. For margin losses (classification), and for any loss if
    the response depends on a linear combination of the columns in another way, the estimates are of
    its coefficients up to one common factor.

    Parameters
    ----------
    path : Path
        The path, as returned by `run`.
    t : int, optional
        The iteration, at least 1. By default that with the shortest intervals, where each
        :math:`C_t` (see Notes) is reduced by three standard errors and widths are averaged over
        neighbouring iterations. The search ends at four times the best iteration so far.
    features : array-like of int, optional
        Indices of columns of X; all by default.
    covariance : array-like of shape (p, p), optional
        Covariance of the rows of X, if it is known.
    level : float, default=0.95
        Confidence level of each interval.
    rng : None, int or numpy.random.Generator
        Random numbers for the probes.
    precision : array-like of shape (p, p), optional
        Inverse of the covariance, as an alternative to ``covariance``.
    row_scale : None, "norm" or array-like of shape (n,)
        Row scales, for rows whose norms vary; see `steinpath.estimate_risk`.
    groups : array-like of shape (n,), optional
        Group labels of rows that depend on each other. Standard errors are then cluster-robust:
        they treat groups as independent.
    scores : {"auto", "residuals", "node-wise lasso"}, default="auto"
        How to compute the part of each column that the others do not explain, if the covariance is
        not known: by least squares, which needs more rows than columns and widens intervals by
        :math:`\sqrt{n / (n - p)}`; or by least squares on the columns that the scaled lasso
        selects, with penalty :math:`\sqrt{2 \log p / n}` times the standard deviation of the
        residuals. "auto" uses the former if there are three times as many rows as columns.
    names : sequence of str of length p, optional
        Names of the columns, for tables, plots and warnings.

    Returns
    -------
    CoefficientIntervals
        Estimates, standard errors, intervals and p-values.

    Notes
    -----
    With :math:`\Omega` the inverse covariance of the rows and
    :math:`z_j = X \Omega e_j / \Omega_{jj}`, the estimate at iteration t is
    :math:`(\Omega_{jj} z_j^\top u^t + \sum_s c_{t,s} b_j^s) / C_t` with
    :math:`c_{t,s} = n^{-1/2}\, \mathrm{tr}(\partial u^t / \partial v^s)` and
    :math:`C_t = \sum_s c_{t,s}`. Its variance is
    :math:`(\Omega_{jj} \|u^t\|^2 + \|M_j\|_F^2) / C_t^2` with
    :math:`M_j = n^{-1/2} \sum_s (b^*_j - b_j^s)\, \partial u^t / \partial v^s`: the second term,
    from the second-order Stein formula, is the uncertainty of :math:`C_t`, and matters for
    coefficients that are far from zero. Where the scores are estimated, their norms replace
    :math:`\Omega_{jj}`, and :math:`(\Omega_{jj} z_j^\top u^t)^2 / n` is subtracted from either
    term, since the component along a score does not vary then; with the node-wise lasso, traces and
    norms are those in the complement of the selected columns. The traces are estimated with random
    signs. If :math:`t` is not given, the second term counts twice, since an iterate with short
    intervals is likely to be one whose :math:`C_t` is too large.

    None of this needs a linear model for a coefficient that is zero: if the response depends on the
    other columns only, its estimate divided by the standard error is approximately standard normal,
    whatever the loss. So p-values and false discovery rates are valid for classification, and for
    regression with a misspecified model; the size of nonzero coefficients then is not.

    Examples
    --------
    >>> import numpy as np
    >>> import steinpath as sp
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((300, 150))
    >>> y = X[:, :3].sum(axis=1) + rng.standard_t(2, size=300)
    >>> path = sp.run(X, y, sp.LAD(), sp.Lasso(0.5), n_iter=100)
    >>> ci = sp.coefficient_intervals(path, features=[0, 1, 2], rng=0)
    >>> bool(np.all((ci.lower < 1) & (1 < ci.upper)))
    True
    """
    check_instance("path", path, Path, "sp.run(X, y, loss, penalty)")
    options = covariance, precision, row_scale, groups, scores, names
    args = path, [t], features, level, check_rng(rng), *options
    at_times: list[list[CoefficientIntervals]] = path.design.on_blocks(intervals_along, *args)
    return at_times[0][0]


@describes_as(coefficient_intervals)
def coefficient_intervals_batch(
    batch: Batch,
    t: int | None = None,
    features: Any = None,
    covariance: Any = None,
    level: float = 0.95,
    rng: Any = None,
    *,
    precision: Any = None,
    row_scale: Any = None,
    scores: str = "auto",
) -> list[CoefficientIntervals]:
    """Return confidence intervals for the coefficients of every path of a batch, in one pass.

    Parameters
    ----------
    batch : Batch
        The paths, as returned by `run_batch`.
    covariance : array-like of shape (p, p), optional
        Covariance of the rows of X, the same for all paths.
    row_scale : None or "norm"
        As for `coefficient_intervals`.

    Returns
    -------
    list of CoefficientIntervals
        One for each path.
    """
    check_instance("batch", batch, Batch, "sp.run_batch(X, y, loss, penalty)")
    if row_scale is not None:
        check_choice("row_scale", row_scale, ("norm",))
    options = covariance, precision, row_scale, None, scores, None
    (intervals,) = intervals_along(batch, [t], features, level, check_rng(rng), *options)
    return intervals


def intervals_along(
    source: Path | Batch,
    times: Sequence[int | None],
    features: Any,
    level: float,
    rng: np.random.Generator,
    covariance: Any = None,
    precision: Any = None,
    row_scale: Any = None,
    groups: Any = None,
    kind: str = "auto",
    names: Any = None,
) -> list[list[CoefficientIntervals]]:
    """Return intervals at several iterations, of one path or of each path of a batch."""
    if isinstance(source, Path):
        batch, paths, rngs = Batch.of(source), [source], [rng]
    else:
        batch, paths, rngs = source, list(source), [spawned(rng) for _ in source]
    path = paths[0]
    times = [t if t is None else check_count("t", t, high=path.n_iter) for t in times]
    level = check_number("level", level, low=0, high=1, open_low=True, open_high=True)
    features = _check_features(features, path.n_features)
    groups = None if groups is None else check_groups(groups)
    if groups is not None and len(groups) != path.n_samples:
        raise ValueError(f"groups has {len(groups)} labels, but X has {path.n_samples} rows")
    if names is not None:
        if isinstance(names, str) or len(names) != path.n_features:
            raise ValueError(
                f"names must have one entry for each of {path.n_features} columns; got "
                f"{names!r:.60}"
            )
        names = tuple(str(names[j]) for j in features)
    scores = [
        replace(scores_of(own, features, kind, covariance, precision, row_scale), names=names)
        for own in paths
    ]
    return [
        [_intervals(own, at_t, level, groups) for own, at_t in zip(scores, debiased, strict=True)]
        for debiased in debias(batch, scores, times, rngs)
    ]


def _intervals(
    scores: Scores, debiased: Debiased, level: float, groups: np.ndarray | None
) -> CoefficientIntervals:
    stderr = debiased.stderr if groups is None else between_groups(scores, debiased, groups)
    stderr = np.hypot(stderr, debiased.noise)
    df = scores.degrees_of_freedom
    if groups is not None:
        df = np.minimum(df, max(int(groups.max()), 1))
    return CoefficientIntervals(
        debiased.estimate,
        stderr,
        debiased.t,
        scores.features,
        level,
        df,
        debiased.noise,
        debiased.relative_width,
        scores.kind,
        check_intervals(scores, debiased, stderr, groups),
        scores.names,
        "index" if scores.path.loss.margin else "coefficient",
    )


def _check_features(features: Any, p: int) -> np.ndarray:
    """Return indices of columns of X, as non-negative integers."""
    indices = np.arange(p)
    with contextlib.suppress(IndexError):
        wanted = indices if features is None else np.atleast_1d(indices[np.asarray(features)])
        if wanted.ndim == 1 and wanted.size:
            return wanted
    raise ValueError(
        f"features must be column indices of X, integers from 0 to {p - 1}; got {features!r:.60}"
    )


def between_groups(scores: Scores, debiased: Debiased, groups: np.ndarray) -> np.ndarray:
    """Return cluster-robust standard errors, from the contributions of groups of rows."""
    if not np.all(debiased.total):
        return np.full(len(scores.features), np.inf)
    dual, n = _dual(scores, debiased.t), len(groups)
    sample = RowSample.of(n, groups=groups).local_to(scores.path.design)
    errors = [
        sample.mean_and_error((scores.columns(which) * dual[:, None]).T)[1]
        for which in blocks_of(len(scores.features))
    ]
    spread = n * np.concatenate(errors) * math.sqrt(n / (scores.dimension or n))
    first = scores.factor * spread / np.abs(debiased.total)
    return np.where(scores.identified, np.hypot(first, debiased.second), np.inf)


# ----- Checks of the assumptions -----


def check_intervals(
    scores: Scores, debiased: Debiased, stderr: np.ndarray, groups: np.ndarray | None
) -> tuple[Diagnostic, ...]:
    """Check the assumptions of the intervals, which have these standard errors."""
    squares = _dual(scores, debiased.t) ** 2
    checks = (
        _few_rows(scores, groups),
        _not_identified(scores),
        _total_response(debiased),
        _monte_carlo(debiased, stderr),
        _correlated_scores(scores),
        _dominant_rows(scores, squares),
        _row_norms(scores, squares),
    )
    return tuple(check for check in checks if check is not None)


def _few_rows(scores: Scores, groups: np.ndarray | None) -> Diagnostic:
    what = "rows" if scores.dimension is None else "degrees of freedom"
    count = scores.dimension or scores.path.n_samples
    if groups is not None and int(groups.max()) + 1 < count:
        count, what = int(groups.max()) + 1, "groups"
    message = (
        f"with {count:.0f} {what} the normal approximation is inaccurate, and intervals may be too "
        "short; collect more rows, or use fewer columns"
    )
    meaning = "Are there enough rows for the normal approximation?"
    return Diagnostic("few rows", 1 / max(count, 1), 1 / 30, message, meaning)


def _not_identified(scores: Scores) -> Diagnostic:
    count = int(np.sum(~scores.identified))
    first = np.flatnonzero(~scores.identified)[:5].tolist()
    message = (
        f"{count} coefficient{'s are' if count != 1 else ' is'} not identified (columns "
        f"{scores.listed(first)}{', …' * (count > 5)}): the column is constant, or a linear "
        "combination of others; drop columns, such as one category of each one-hot encoding"
    )
    meaning = "Is each coefficient identified?"
    return Diagnostic("not identified", float(count), 0.0, message, meaning)


def _total_response(debiased: Debiased) -> Diagnostic:
    best, doubt = float(np.nanmin(debiased.relative_width)), debiased.doubt
    ratio = 1 / best if 0 < best < math.inf else math.inf
    problem = "near zero, so that the intervals are wide"
    if ratio <= 2:
        size = f" (relative standard error {doubt:.0%})" if math.isfinite(doubt) else ""
        problem = f"uncertain{size}, and so are the intervals"
    message = (
        f"the total response C_t of the duals to the residuals at iteration {debiased.t} is "
        f"{problem}; use an iteration with short intervals, more rows, or another loss"
    )
    meaning = "Is the total response C_t of the duals to the residuals large enough?"
    return Diagnostic("total response", max(ratio / 2, doubt / (1 / 3)), 1.0, message, meaning)


def _monte_carlo(debiased: Debiased, stderr: np.ndarray) -> Diagnostic:
    value = math.sqrt(share_of_noise(debiased.noise, stderr))
    message = (
        f"the Monte Carlo error is {value:.0%} of the standard errors at iteration {debiased.t}, "
        "which include it; an earlier iteration needs fewer random probes"
    )
    meaning = "Are the traces estimated accurately?"
    return Diagnostic("Monte Carlo error", value, 0.25, message, meaning)


def _correlated_scores(scores: Scores) -> Diagnostic | None:
    if scores.correlation is None:
        return None
    n, p = scores.path.n_samples, scores.path.n_features
    allowed = 2 * math.sqrt(2 * math.log(max(p, 2)) / n)
    worst = np.argsort(-scores.correlation)
    largest, many = float(scores.correlation[worst[0]]), int(np.sum(scores.correlation > allowed))
    message = (
        f"{many} of {len(worst)} columns are still correlated with others after the node-wise "
        f"lasso (columns {scores.listed(worst[:5].tolist())}, up to {largest:.2f}): their "
        "intervals may be biased; use more rows, a known covariance, or drop columns that nearly "
        "duplicate others"
    )
    meaning = "Are the scores uncorrelated with the other columns?"
    return Diagnostic("correlated scores", largest, allowed, message, meaning)


def _dominant_rows(scores: Scores, dual_squares: np.ndarray) -> Diagnostic | None:
    which = np.flatnonzero(scores.identified)
    if not len(which):
        return None
    which = which[np.unique(np.linspace(0, len(which) - 1, 64).astype(int))]
    parts = scores.columns(which) ** 2
    # also without the duals: that of the only row in which a column is nonzero vanishes
    design, n = scores.path.design, scores.path.n_samples
    sets = np.hstack([parts, parts * dual_squares[:, None]])
    totals = design.over_rows(sets.sum(axis=0))
    shares = design.largest(sets.max(axis=0)) / np.where(totals > 0, totals, 1.0)
    shares = np.asarray(shares).reshape(2, -1).max(axis=0)
    worst = np.argsort(-shares)
    # the usual maximum for products of normal variables, and a margin
    allowed = max(0.25, min(1.3 * (math.log(n * len(which)) ** 2 / n), 0.9))
    largest, many = float(shares[worst[0]]), int(np.sum(shares > allowed))
    message = (
        f"a single row contributes {largest:.0%} of the variance of a coefficient ({many} of "
        f"{len(which)} columns checked are affected, such as "
        f"{scores.listed(which[worst[:3]].tolist())}): the normal approximation is inaccurate "
        "for rare categories and heavy-tailed columns; transform or merge these"
    )
    meaning = "Is every interval supported by many rows?"
    return Diagnostic("dominant rows", largest, allowed, message, meaning)


def _row_norms(scores: Scores, dual_squares: np.ndarray) -> Diagnostic | None:
    path, over_rows = scores.path, scores.path.design.over_rows
    meaning = "Are row norms similar, or accounted for?"
    if scores.row_squares is not None:
        squares = to_numpy(scores.row_squares).astype(float)
        spread = float(over_rows(np.sum(squares**2))) / path.n_samples - 1
        message = (
            "row norms of X vary widely (the relative variance of their squares is "
            f"{number(spread, 2)}): the intervals depend on few rows and may be too short; "
            "transform heavy-tailed columns"
        )
        return Diagnostic("row norms", spread, 1.0, message, meaning)
    try:
        squares = to_numpy(path.design.row_squares()).astype(float)
    except NotImplementedError:
        return None
    mean = float(over_rows(squares.sum())) / path.n_samples
    if not mean > 0:
        return None
    sums = over_rows(np.array([np.sum(squares / mean * dual_squares), np.sum(dual_squares)]))
    error = abs(float(sums[0] / (sums[1] or 1.0)) - 1)
    message = (
        "row norms of X vary, and rows with large norms have larger duals (variances are off by "
        f"{error:.0%}); use row_scale='norm'"
    )
    return Diagnostic("row norms", error if error < math.inf else 0.0, 0.25, message, meaning)


def _dual(scores: Scores, t: int) -> np.ndarray:
    """Return the component of ``u^t`` in the space in which the scores vary."""
    dual = scores.duals(slice(t, t + 1))[0, :]
    return to_numpy(scores.varying(dual[:, None])[:, 0]).astype(float)
