"""Checks of the rows for dependence and for dominant observations.

Similar rows, or rows similar to their predecessors, are not suspicious by themselves: few columns,
columns with few values, squares and products of columns make independent rows similar, and so does
sorting a file. Similarity is therefore compared with that of independent rows, and with the
residuals.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable

import numpy as np
from scipy.special import betainccinv

from steinpath._support.arrays import to_numpy
from steinpath._support.messages import Message, Remedy
from steinpath._support.printing import number
from steinpath.problem._scoring import Criterion
from steinpath.risk._evidence import Diagnostic, Evidence, blocks_of_columns
from steinpath.risk._held_out import RowSample

# Relative bias due to dependent rows from which on a check warns.
_EFFECT = 0.1
# Share of rows that may have near-duplicates, and the maximum number of these for a row.
_FEW_DUPLICATES, _MOST_DUPLICATES = 0.2, 8
# Standard errors beyond which neighbours agree too often, and the minimum number of pairs.
_AGREE_IN_ORDER, _PAIRS = 4.0, 20
_LEAVE_OUT_GROUPS = "use {groups} to leave out whole groups"
_LEAVE_OUT_LATER = "use {cv} to predict later rows from earlier ones"


def near_duplicates(evidence: Evidence) -> Diagnostic | None:
    """Check for near-duplicate rows, which leak information about held-out rows to the model.

    A row is close to another one if their cosine is above one half, and above the largest value
    expected by chance. The share of such rows among rows reassembled from parts of others is
    subtracted. In addition, up to eight rows are three times as close as any other, or residuals of
    the closest rows agree in sign beyond chance, or the fit is so flexible that its residuals are
    not informative; and leaving the close rows out as well could raise the estimate by a tenth.
    Exact duplicates, of X and of a y with many values, always count.
    """
    if evidence.risk.splits is not None:
        return None
    cosines = evidence.cosines
    # the squared cosine of a random direction in k dimensions has a beta distribution
    other = max(evidence.dimension - 1, 1e-3)
    limit = max(0.5, math.sqrt(betainccinv(0.5, other / 2, 1e-3 / cosines.size)))
    share = value = float(np.mean(cosines.max(axis=1) > limit))
    agree = False
    if share > _FEW_DUPLICATES:
        shuffled = evidence.shuffled_cosines
        expected = np.zeros((1, 1)) if shuffled is None else shuffled
        near = np.flatnonzero(cosines.max(axis=1) > limit)
        pairs = np.sort([evidence.rows[near], cosines[near].argmax(axis=1)], axis=0)
        first, second = np.unique(pairs, axis=1)
        agree = _agreement(evidence.signs[first] * evidence.signs[second])[0] > 3  # standard errors
        informative = agree or evidence.own_effect > 0.3
        excess, weight = max(
            tuple(_close(cosines, limit, apart) - _close(expected, limit, apart))
            for apart in ([True, False] if informative else [True])
        )
        effect = evidence.own_effect * weight if weight > 0 else 0.0
        value = excess if effect > _EFFECT else min(excess, _FEW_DUPLICATES)
        response = to_numpy(evidence.path.response)
        equal = response[evidence.rows, None] == response
        if equal.mean() <= 0.05:  # of a y with many values
            value = max(value, np.mean(np.any(equal & (cosines > 1 - 1e-6), axis=1)))
        value = float(max(value, 0.0))
    message = Message(
        f"{share:.0%} of the rows of X have a near-duplicate, more than independent rows would"
        f"{', and their residuals agree' if agree else ''}: if these are repeated measurements "
        "of the same units, the error on new units can be larger than estimated; "
        f"{_LEAVE_OUT_GROUPS}",
        groups=Remedy("groups"),
    )
    return Diagnostic("near-duplicate rows", value, _FEW_DUPLICATES, message, unit="%")


def _close(cosines: np.ndarray, limit: float, apart: bool) -> np.ndarray:
    """Return the share of rows with close ones, and their mean similarity to up to eight of these.

    With ``apart``, these must also be much closer than all others.
    """
    nearest = -np.sort(-cosines, axis=1)[:, : _MOST_DUPLICATES + 1]
    close = nearest > limit
    selected = close[:, 0]
    if apart:
        distances = np.sqrt(np.where(nearest < 1 - 1e-6, 1 - nearest, 0))  # the rest is rounding
        gaps = distances[:, :-1] < distances[:, 1:] / 3
        selected = np.any(gaps & close[:, :-1], axis=1)
    similarity = np.where(close, nearest**2, 0)[:, :_MOST_DUPLICATES].sum(axis=1)
    return np.array([selected.mean(), (selected * similarity).mean()])


def _agreement(products: np.ndarray) -> tuple[float, int]:
    """Return the sum of products of signs over its standard error, and their number."""
    count = int(np.count_nonzero(products))
    return float(products.sum() / math.sqrt(count)) if count else 0.0, count


def serial_rows(evidence: Evidence) -> Diagnostic | None:
    """Check whether rows are similar to the preceding ones, as in a time series.

    For independent rows the mean cosine of neighbours equals that of any two rows, up to
    ``1 / √(m k)`` for m of them in k dimensions; four of these are significant, and 0.2 relevant if
    leaving the neighbours out as well could raise the estimate by a tenth. Rows sorted by a column
    are no more similar to neighbours, apart from it, than to rows slightly further away.
    """
    if evidence.risk.splits is not None:
        return None
    neighbour = dict(zip(*evidence.neighbours, strict=True))
    inner = np.array([k for k, i in enumerate(evidence.rows) if i in neighbour], int)
    count = len(inner)
    if count < _PAIRS:
        return None
    cosines = evidence.cosines[inner]
    anyone = cosines.sum() / (cosines.size - count)  # without the row itself, for which it is 0
    following = [neighbour[i] for i in evidence.rows[inner]]
    likeness = float(np.mean(cosines[np.arange(count), following]) - anyone)
    threshold = max(0.2, 4 / math.sqrt(count * evidence.dimension))
    effect = evidence.own_effect * 2 * likeness / max(1 - likeness, 0.01)
    harmless = effect < _EFFECT
    if likeness > threshold and not harmless and evidence.is_readable:
        columns = (X[evidence.distinct] for X, _ in blocks_of_columns(evidence.path.design))
        unsorted = (X[:, [not _is_sorted(x) for x in X.T]] for X in columns)
        harmless = _local_likeness(unsorted) <= _AGREE_IN_ORDER
    message = Message(
        "consecutive rows of X are more similar than any two rows: if the rows are a time series, "
        f"the error on later rows can be larger than estimated; {_LEAVE_OUT_LATER}",
        cv=Remedy("cv"),
    )
    value = min(likeness, threshold) if harmless else likeness
    unit = "difference in mean cosine similarity"
    return Diagnostic("serial rows", value, threshold, message, unit=unit)


def serial_residuals(evidence: Evidence) -> Diagnostic | None:
    """Check whether residuals of neighbouring rows agree in sign, as in a time series.

    Signs of independent residuals agree with probability one half: the agreement of n - 1 pairs has
    standard error ``1 / √(n - 1)``, and four of these are significant. In a file sorted by the
    target or by a feature they have a trend. Neighbours must then also be more similar than rows
    slightly further away, and if sorted by the target, their predictions as well.
    """
    if evidence.risk.splits is not None:
        return None
    if evidence.path.loss.margin and np.mean(evidence.signs == 0) > 0.1:
        return None  # the model is nearly constant, and residuals only reflect the classes
    first, second = evidence.neighbours
    agreement, count = _agreement(evidence.signs[first] * evidence.signs[second])
    if count < _PAIRS:
        return None
    value = agreement
    if agreement > _AGREE_IN_ORDER:
        response = to_numpy(evidence.path.response).astype(float)
        key = _sorted_by(evidence, response)
        # given a sorted target, residuals and predictions have a trend, which add up
        series = [evidence.residuals, response - evidence.residuals][: 1 + (key == "target")]
        local = (_local_likeness([values[evidence.distinct, None]]) for values in series)
        if key is not None and min(local) <= _AGREE_IN_ORDER:
            value = _AGREE_IN_ORDER
    message = Message(
        "residuals of neighbouring rows have the same sign more often than by chance: if the order "
        "of the rows is meaningful (time, batches), the rows are not independent, and the estimate "
        "or its standard error can be too small; for batches, "
        f"{_LEAVE_OUT_GROUPS}; for a time series, {_LEAVE_OUT_LATER}",
        groups=Remedy("groups"),
        cv=Remedy("cv"),
    )
    return Diagnostic("serial residuals", value, _AGREE_IN_ORDER, message, unit="standard errors")


def _sorted_by(evidence: Evidence, response: np.ndarray) -> str | None:
    """Return what the rows are sorted by, the target or a column of X; None for neither."""
    order = evidence.distinct
    if _in_pieces(response[order]):
        return "target"
    with contextlib.suppress(NotImplementedError):  # a design without access to its columns
        blocks = blocks_of_columns(evidence.path.design) if evidence.is_readable else ()
        if any(_is_sorted(x) for X, _ in blocks for x in X[order].T):
            return "column"
    return None


def _is_sorted(values: np.ndarray) -> bool:
    """Whether values are sorted, or equal values are adjacent.

    This is von Neumann's ratio of the ranks: 1 on average in random order, ``6 / n²`` if sorted,
    and ``1 - r`` for an autocorrelation of r.
    """
    from scipy.stats import rankdata  # slow to import

    ranks = rankdata(values)
    spread = float(np.sum((ranks - ranks.mean()) ** 2))
    return float(np.sum(np.diff(ranks) ** 2)) <= 2 * max(0.005, 4 / len(ranks)) * spread


def _in_pieces(values: np.ndarray) -> bool:
    """Whether values are sorted in one or a few pieces, or the most frequent value is in one run.

    They have few turning points then; a random walk has three quarters of those in random order.
    """
    distinct, counts = np.unique(values, return_counts=True)
    if _is_sorted(values) or _is_sorted(values == distinct[counts.argmax()]):
        return True
    steps = np.sign(np.diff([values, np.random.default_rng(0).permutation(values)]))
    turning_points = np.count_nonzero(steps[:, 1:] * steps[:, :-1] < 0, axis=1)
    return bool(turning_points[0] < 0.6 * turning_points[1])


def _local_likeness(blocks: Iterable[np.ndarray]) -> float:
    """Return how often rows are closer to neighbours than to rows ten apart, in standard errors.

    Each row is compared with the mean of the two on either side of it, so that a trend cancels.
    Comparisons overlap, which increases the standard error by at most a quarter.
    """
    near, far = np.zeros(1), np.zeros(1)
    for X in blocks:
        apart = min(10, len(X) // 10)
        middle = np.arange(apart, len(X) - apart)
        near, far = (
            total + ((X[middle] - (X[middle - by] + X[middle + by]) / 2) ** 2).sum(axis=1)
            for total, by in ((near, 1), (far, apart))
        )
    return _agreement(np.sign(far - near))[0] / 1.25


def row_norms(evidence: Evidence) -> Diagnostic | None:
    """Check whether row norms vary widely; the plain correction is the same for all rows.

    The squared norms of Gaussian rows vary by ``2 / k`` in k effective dimensions, relative to
    their mean. An excess of a quarter is that of a multivariate t distribution with 12 degrees of
    freedom, for which the plain estimate is biased by several percent. With ``row_scale``, beyond
    two a few rows dominate so much that no standard error is valid, unless the correction is a
    small part of the estimate and an audit of all rows agrees with it.
    """
    squares, scaled = evidence.row_squares, evidence.risk.row_scale is not None
    if not evidence.corrected or not squares.any():
        return None
    natural = 2 / evidence.dimension
    spread = float(np.var(squares / squares.mean()))
    largest = math.sqrt(squares.max() / squares.mean())
    threshold = natural + max(2.0 if scaled else 0.25, natural)
    audit = evidence.risk.audit
    checked = audit is not None and len(audit.rows) == len(squares)
    harmless = evidence.own_effect < _EFFECT and evidence.disagreement < 2
    value = min(spread, threshold) if scaled and checked and harmless else spread
    advice = (
        "row_scale adjusts for that, but a few rows dominate the estimate and its standard error; "
        "transform heavy-tailed columns (log, sklearn.preprocessing.QuantileTransformer), or use "
        "method='loo'"
        if scaled
        else "the estimate may be too low; use row_scale='norm', or row_scale='auto' with audit=32"
    )
    message = (
        f"row norms of X vary widely (the largest is {largest:.1f} times the average; the relative "
        f"variance of the squared norms is {number(spread, 2)}, against {number(natural, 2)} for "
        f"Gaussian rows): {advice}"
    )
    return Diagnostic("row norms", value, threshold, message, unit="relative variance")


def dominant_row(evidence: Evidence) -> Diagnostic | None:
    """Check whether a single row accounts for most of the variation of y."""
    response, criterion = to_numpy(evidence.path.response).astype(float), evidence.risk.criterion
    deviations = np.abs(response - np.median(response))
    if len(response) < 10 or not deviations.any():
        return None
    deviations /= deviations.max()
    what, remedy = "absolute", ""
    if isinstance(criterion, Criterion) and criterion.quadratic:
        what, remedy = "squared", ", or use a robust loss such as sp.LAD()"
        deviations = deviations**2
    if (weights := evidence.path.data.sample_weight) is not None:
        deviations *= evidence.path.design.local(weights)
    row, share = int(np.argmax(deviations)), float(deviations.max() / deviations.sum())
    message = (
        f"row {row} has {share:.0%} of the {what} deviations of y from the median and dominates "
        f"the estimate and its standard error; check this row{remedy}"
    )
    return Diagnostic("dominant row", share, 0.5, message, unit="%")


def few_rows(evidence: Evidence) -> Diagnostic | None:
    """Check whether there are enough observations for a standard error."""
    n, enough, what, how = float(len(evidence.distinct)), 30, "observations", ""
    if evidence.path.data.sample_weight is not None:
        n = RowSample.over(evidence.path.data).effective_units
        how = " (the effective number, given their weights)"
    if evidence.risk.groups is not None:
        n, enough, what, how = float(evidence.risk.groups.max()) + 1, 10, "groups", ""
    message = (
        f"with {number(n, 3)} {what}{how}, standard errors are unreliable and differences between "
        f"models are rough; collect more {what}"
    )
    return Diagnostic("few rows", 1 / n, 1 / enough, message, unit=f"1/{what}")
