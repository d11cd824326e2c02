"""Cluster-robust standard errors, and checks of coefficient intervals."""

from __future__ import annotations

import math

import numpy as np

from steinpath._support.arrays import to_numpy
from steinpath.design._base import Design
from steinpath.engine._path import Path
from steinpath.inference._debias import Debiased
from steinpath.inference._scores import Scores
from steinpath.risk._evidence import Diagnostic

# Coefficients whose scores are read together, and how many the checks use.
_BLOCK, _LOOKED_AT = 256, 64
# Monte Carlo error, in standard errors, above which there is a warning.
_NOISY = 0.25
# Relative standard error of the total response above which there is a warning.
_DOUBTFUL = 1 / 3
# Width relative to the shortest intervals above which there is a warning.
_WIDE = 2.0
# Threshold for the share of one row in the variance of a coefficient: its minimum and maximum, and
# between these the factor over the usual maximum for products of normal variables.
_SHARE, _MOST_SHARE, _UNUSUAL = 0.25, 0.9, 1.3
# Rows, or groups, from which on the normal approximation is adequate.
_ENOUGH = 30
# Relative change of variances by the row norms above which there is a warning.
_UNEQUAL = 0.25


def between_groups(scores: Scores, found: Debiased, groups: np.ndarray) -> np.ndarray:
    """Return cluster-robust standard errors, from the contributions of groups of rows."""
    dual, design = _dual(scores, found.t), scores.path.design
    codes, sizes = np.unique(groups, return_counts=True)
    own = design.local(groups)
    membership = own[:, None] == codes if len(codes) <= 64 else None
    n = len(groups)
    squares = []
    for k in range(0, len(scores.features), _BLOCK):
        which = np.arange(k, min(k + _BLOCK, len(scores.features)))
        parts = scores.columns(which) * dual[:, None]
        parts -= design.over_rows(parts.sum(axis=0)) / n
        if membership is not None:
            sums = membership.T @ parts
        else:
            sums = np.zeros((len(codes), len(which)))
            np.add.at(sums, own, parts)
        squares.append(np.sum(design.over_rows(sums) ** 2, axis=0))
    small = len(sizes) / (len(sizes) - 1)
    free = scores.dimension or float(n)
    spread = np.sqrt(np.concatenate(squares) * small * n / free)
    if not found.total:
        return np.full(len(spread), np.inf)
    first = scores.factor * spread / abs(found.total)
    return np.where(scores.identified, np.hypot(first, found.second), np.inf)


def check_intervals(
    scores: Scores, found: Debiased, stderr: np.ndarray, groups: np.ndarray | None
) -> tuple[Diagnostic, ...]:
    """Check the assumptions of the intervals.

    Parameters
    ----------
    scores : Scores
        The scores.
    found : Debiased
        The estimates.
    stderr : ndarray of shape (k,)
        Their standard errors.
    groups : ndarray of int of shape (n,), optional
        Groups of the rows.
    """
    checks = [
        _few_rows(scores, groups),
        _not_identified(scores),
        _total_response(found),
        _monte_carlo(found, stderr),
        _correlated_scores(scores),
        _dominant_rows(scores, found),
        _row_norms(scores, found),
    ]
    return tuple(check for check in checks if check is not None)


def _few_rows(scores: Scores, groups: np.ndarray | None) -> Diagnostic:
    count, what = scores.dimension or scores.path.n_samples, "rows"
    if scores.dimension is not None:
        what = "degrees of freedom"
    if groups is not None and int(groups.max()) + 1 < count:
        count, what = int(groups.max()) + 1, "groups"
    return Diagnostic(
        "few rows",
        1 / max(count, 1),
        1 / _ENOUGH,
        f"with {count:.0f} {what} the normal approximation is inaccurate, and intervals may be too "
        "short; collect more rows, or use fewer columns",
        "Are there enough rows for the normal approximation?",
    )


def _not_identified(scores: Scores) -> Diagnostic:
    count = int(np.sum(~scores.identified))
    first = np.flatnonzero(~scores.identified)[:5].tolist()
    return Diagnostic(
        "not identified",
        float(count),
        0.0,
        f"{count} coefficient{'s are' if count != 1 else ' is'} not identified (columns "
        f"{scores.listed(first)}{', …' * (count > 5)}): the column is constant, or a linear "
        "combination of others; drop columns, such as one category of each one-hot encoding",
        "Is each coefficient identified?",
    )


def _total_response(found: Debiased) -> Diagnostic:
    widths = found.relative_width
    known = np.where(np.isnan(widths), np.inf, widths)
    best = int(np.argmin(known))
    ratio = 1 / known[best] if 0 < known[best] < math.inf else math.inf
    problem = "near zero, so that the intervals are wide"
    if ratio <= _WIDE:
        problem = f"uncertain (relative standard error {found.doubt:.0%}), and so are the intervals"
    return Diagnostic(
        "total response",
        max(ratio / _WIDE, found.doubt / _DOUBTFUL),
        1.0,
        f"the total response C_t of the duals to the residuals at iteration {found.t} is "
        f"{problem}; use an iteration with short intervals, more rows, or another loss",
        "Is the total response C_t of the duals to the residuals large enough?",
    )


def _monte_carlo(found: Debiased, stderr: np.ndarray) -> Diagnostic:
    known = np.isfinite(stderr) & (stderr > 0)
    share = found.noise[known] / stderr[known]
    value = float(np.sqrt(np.mean(share**2))) if known.any() else 0.0
    return Diagnostic(
        "Monte Carlo error",
        value,
        _NOISY,
        f"the Monte Carlo error is {value:.0%} of the standard errors at iteration {found.t}, "
        "which include it; an earlier iteration needs fewer random probes",
        "Are the traces estimated accurately?",
    )


def _correlated_scores(scores: Scores) -> Diagnostic | None:
    if scores.correlation is None:
        return None
    n, p = scores.path.n_samples, scores.path.n_features
    allowed = 2 * math.sqrt(2 * math.log(max(p, 2)) / n)
    worst = np.argsort(-scores.correlation)
    many = int(np.sum(scores.correlation > allowed))
    return Diagnostic(
        "correlated scores",
        float(scores.correlation[worst[0]]),
        allowed,
        f"{many} of {len(worst)} columns are still correlated with others after the node-wise "
        f"lasso (columns {scores.listed(worst[:5].tolist())}, up to "
        f"{scores.correlation[worst[0]]:.2f}): their intervals may be biased; use more rows, a "
        "known covariance, or drop columns that nearly duplicate others",
        "Are the scores uncorrelated with the other columns?",
    )


def _dominant_rows(scores: Scores, found: Debiased) -> Diagnostic | None:
    which = np.flatnonzero(scores.identified)
    if not len(which):
        return None
    which = which[np.unique(np.linspace(0, len(which) - 1, _LOOKED_AT).astype(int))]
    parts = scores.columns(which) ** 2
    # also without the duals: that of the only row in which a column is nonzero vanishes
    design, n = scores.path.design, scores.path.n_samples
    weighted = parts * _dual(scores, found.t)[:, None] ** 2
    shares = np.maximum(_largest_shares(parts, design), _largest_shares(weighted, design))
    worst = np.argsort(-shares)
    usual = math.log(n * len(which)) ** 2 / n
    allowed = max(_SHARE, min(_UNUSUAL * usual, _MOST_SHARE))
    many = int(np.sum(shares > allowed))
    return Diagnostic(
        "dominant rows",
        float(shares[worst[0]]),
        allowed,
        f"a single row contributes {shares[worst[0]]:.0%} of the variance of a coefficient ({many} "
        f"of {len(which)} columns checked are affected, such as "
        f"{scores.listed(which[worst[:3]].tolist())}): the normal approximation is inaccurate "
        "for rare categories and heavy-tailed columns; transform or merge these",
        "Is every interval supported by many rows?",
    )


def _largest_shares(parts: np.ndarray, design: Design) -> np.ndarray:
    """Return the share of the largest entry of each column in its sum."""
    totals = design.over_rows(parts.sum(axis=0))
    return np.asarray(design.largest(parts.max(axis=0)) / np.where(totals > 0, totals, 1.0))


def _row_norms(scores: Scores, found: Debiased) -> Diagnostic | None:
    squares = _row_squares(scores.path)
    if scores.row_squares is not None or squares is None:
        return None
    dual = _dual(scores, found.t) ** 2
    sums = scores.path.design.over_rows(np.array([np.sum(squares * dual), np.sum(dual)]))
    ratio = float(sums[0] / (sums[1] or 1.0))
    return Diagnostic(
        "row norms",
        abs(ratio - 1) if math.isfinite(ratio) else 0.0,
        _UNEQUAL,
        f"row norms of X vary, and rows with large norms have larger duals (variances are off by "
        f"{abs(ratio - 1):.0%}); use row_scale='norm'",
        "Are row norms similar, or accounted for?",
    )


def _row_squares(path: Path) -> np.ndarray | None:
    try:
        squares = to_numpy(path.design.row_squares()).astype(float)
    except NotImplementedError:
        return None
    mean = float(path.design.over_rows(squares.sum())) / path.n_samples
    return squares / mean if mean > 0 else None


def _dual(scores: Scores, t: int) -> np.ndarray:
    """Return the component of ``u^t`` in the space in which the scores vary."""
    dual = scores.path.duals[t, :]
    return to_numpy(scores.varying(dual[:, None])[:, 0]).astype(float)
