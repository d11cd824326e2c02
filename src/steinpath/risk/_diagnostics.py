"""When not to trust an estimate: what the theory asks for, checked on the path and the data.

Each check is a function of the `Evidence` that returns a `Diagnostic`, or None where it has nothing
to say: a number, the threshold above which it is a warning, and the message in plain words. The
thresholds were set so that runs on the paper's model stay quiet; ``docs/trust.md`` has the reasons
and the measured rates.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import betainccinv

from steinpath._support.arrays import Array, take, to_numpy
from steinpath.algorithms._base import History, ProximalAlgorithm, ProximalMaps
from steinpath.design._base import Design
from steinpath.design._transformed import InterceptDesign
from steinpath.engine._batch import Batch
from steinpath.engine._path import Path
from steinpath.problem._losses import SquareRoot
from steinpath.problem._scoring import Criterion, lipschitz
from steinpath.risk._methods import noise_near

if TYPE_CHECKING:
    from steinpath.risk._estimate import Risk

# Rows that are compared with all others, and how many comparisons there may be.
_COMPARED, _COMPARISONS = 128, 2**23
# Columns that are shuffled at a time.
_BLOCK = 128
# Iterates whose movement is compared, evenly spread in logarithmic time.
_TIMES = 24
# Share of rows that may have near copies.
_FEW_COPIES = 0.1


@dataclass(frozen=True)
class Diagnostic:
    """One check of an estimate.

    Attributes
    ----------
    name : str
        What was checked.
    value, threshold : float
        The number found, and the largest that is no cause for concern.
    message : str
        What it means and what to do, in plain words.
    meaning : str
        What is asked, whatever the answer.
    """

    name: str
    value: float
    threshold: float
    message: str
    meaning: str = ""

    @property
    def warns(self) -> bool:
        """Whether the value is beyond the threshold."""
        return self.value > self.threshold


class Evidence:
    """A risk estimate, and what several checks want to know of its rows.

    Parameters
    ----------
    risk : Risk
        The estimate.
    """

    def __init__(self, risk: Risk):
        self.risk, self.path = risk, risk.path
        #: Whether the estimate rests on the theory: leaving rows out needs none.
        self.corrected = risk.method not in ("loo", "folds")
        #: What to do about a correction that may be wrong.
        self.advice = (
            "check and repair it by an audit, as audit=32"
            if risk.audit is None
            else "rely on the audit, with more rows"
        )

    @cached_property
    def row_squares(self) -> np.ndarray:
        """Squared lengths of the rows of X as the path saw them: centred if it has an intercept."""
        return to_numpy(self.path.design.row_squares()).astype(float)

    @cached_property
    def rows(self) -> np.ndarray:
        """Rows that are compared with all: a fixed sample, so that warnings are reproducible."""
        n = self.path.n_samples
        return self.rng.permutation(n)[: min(_COMPARED, _COMPARISONS // n + 1)]

    @property
    def rng(self) -> np.random.Generator:
        """Random numbers, the same each time."""
        return np.random.default_rng(0)

    @cached_property
    def cosines(self) -> np.ndarray:
        """Cosines of `rows` with all rows, centred; 0 with themselves and with rows of zeros."""
        design, rows = self.path.design, self.rows
        n = self.path.n_samples
        chosen = np.zeros((n, len(rows) + 1))
        chosen[rows, np.arange(len(rows))] = 1.0
        chosen[:, -1] = 1 / n
        # the rows, their mean, and the products of both with all rows, by the products there are
        block = design.adjoint(design.array(chosen))
        products = to_numpy(design.forward(block)).astype(float).T
        products, with_mean = products[:-1], products[-1]
        products = products - with_mean - with_mean[rows, None] + with_mean.mean()
        center = None if self.path.fit_intercept else block[:, -1]  # an intercept centres anyway
        squares = to_numpy(design.row_squares(center)).astype(float)
        lengths = np.sqrt(np.where(squares > 1e-12 * squares.max(), squares, np.inf))
        cosines = np.clip(products / lengths[rows, None] / lengths, -1, 1)
        cosines[np.arange(len(rows)), rows] = 0.0
        return np.asarray(cosines)

    @cached_property
    def dimension(self) -> float:
        """Dimension in which random directions would be as much alike as those of the rows.

        In k dimensions the squared cosine of two of them has mean ``1 / k`` and, unless k is
        small, median 0.455 of it; the median does not mind a few copies.
        """
        middle = float(np.median(self.cosines**2))
        return min(max(0.455 / middle, 1.0), self.path.n_features) if middle > 0 else 1.0


def diagnose(risk: Risk) -> tuple[Diagnostic, ...]:
    """Run all checks that apply to an estimate."""
    evidence, found = Evidence(risk), []
    for check in CHECKS:
        with contextlib.suppress(NotImplementedError):  # by designs that do not know their rows
            diagnostic = check(evidence)
            if diagnostic is not None:
                meaning = (check.__doc__ or "").split("\n")[0]
                found.append(replace(diagnostic, meaning=meaning))
    return tuple(found)


# ------------------------------------------------------------------------------------------------
# The rows
# ------------------------------------------------------------------------------------------------


def row_sizes(evidence: Evidence) -> Diagnostic | None:
    """Rows of unequal size: the plain correction is the same for all of them.

    The squared lengths of Gaussian rows vary by ``2 / k`` in k effective dimensions, relative to
    their mean. What exceeds that by a quarter is a multivariate Student t with 12 degrees of
    freedom or fewer, on which the plain estimate is biased by several percent. Scaled by their
    sizes, rows may vary by two before so few of them decide that no standard error holds.
    """
    squares, scaled = evidence.row_squares, evidence.risk.row_scale is not None
    if not evidence.corrected or not squares.any():
        return None
    natural = 2 / evidence.dimension
    spread = float(np.var(squares / squares.mean()))
    largest = math.sqrt(squares.max() / squares.mean())
    advice = (
        "the estimate allows for that, but a few of them decide it, and its standard error"
        if scaled
        else "the estimate may be too low; use row_scale='norm', or 'auto' with an audit"
    )
    return Diagnostic(
        "row sizes",
        spread,
        natural + max(2.0 if scaled else 0.25, natural),
        f"some rows of X are much longer than others (the longest {largest:.1f} times the average; "
        f"their squared lengths vary by {spread:.2g}, Gaussian rows' by {natural:.2g}): {advice}",
    )


def near_copies(evidence: Evidence) -> Diagnostic | None:
    """Rows that nearly repeat each other: one that is left out is still there.

    Independent rows in many dimensions point in different directions. A row has a near copy if its
    cosine with another one is above one half, and above what the largest of all would be by chance.
    Few columns, or such as have few values, make rows alike without making them copies: as many are
    allowed for as there would be if the columns had nothing to do with each other.
    """
    cosines = evidence.cosines
    # of a random direction in k dimensions, the squared cosine follows a beta law
    other = max(evidence.dimension - 1, 1e-3)
    by_chance = math.sqrt(betainccinv(0.5, other / 2, 1e-3 / cosines.size))
    limit = max(0.5, by_chance)
    share = float(np.mean(cosines.max(axis=1) > limit))
    excess = share - _alike_by_chance(evidence, limit) if share > _FEW_COPIES else share
    return Diagnostic(
        "near copies",
        max(excess, 0.0),
        _FEW_COPIES,
        f"{share:.0%} of the rows of X have a near copy among the others (cosine above "
        f"{limit:.{2 if limit < 0.99 else 4}f}): if these are repeated measurements or neighbours "
        "in time, the error on new ones is larger than estimated; hold out whole groups instead",
    )


def _alike_by_chance(evidence: Evidence, limit: float) -> float:
    """Share of rows that have a near copy once each column, or category, is shuffled by itself."""
    design = evidence.path.design
    n, p = design.shape
    if n * p > 4 * _COMPARISONS:
        return 0.0
    rng, rows = evidence.rng, evidence.rows
    products, squares = np.zeros((len(rows), n)), np.zeros(n)
    for X, groups in _blocks_of_columns(design):
        for columns in groups:
            X[:, columns] = X[rng.permutation(n)[:, None], columns]
        X -= X.mean(axis=0)
        products += X[rows] @ X.T
        squares += (X**2).sum(axis=1)
    lengths = np.sqrt(np.where(squares > 1e-12 * squares.max(), squares, np.inf))
    cosines = products / lengths[rows, None] / lengths
    cosines[np.arange(len(rows)), rows] = 0.0
    return float(np.mean(cosines.max(axis=1) > limit))


def _blocks_of_columns(design: Design) -> Iterator[tuple[np.ndarray, list[list[int]]]]:
    """Columns as arrays, some at a time, since of a sparse X not all fit; no category is cut."""
    if isinstance(design, InterceptDesign):  # whose columns are these, up to their means
        design = design.features
    n, p = design.shape
    whole = None
    if design.part(None, np.arange(1)) is None:  # by whichever product has the smaller identity
        whole = (
            design.forward(design.array(np.eye(p)))
            if p <= n
            else design.adjoint(design.array(np.eye(n))).T
        )
    start, width = 0, _BLOCK
    while start < p:
        columns = np.arange(start, min(start + width, p))
        if whole is None:
            part = design.part(None, columns)
            assert part is not None
            X = part.forward(part.array(np.eye(len(columns))))
        else:
            X = take(whole, columns, axis=1)
        X = np.array(to_numpy(X), float)
        groups = _categories(X)
        if columns[-1] + 1 < p:  # the last group may go on
            if len(groups) == 1:
                width *= 2
                continue
            groups.pop()
        size = sum(map(len, groups))
        yield X[:, :size], groups
        start += size


def _categories(X: np.ndarray) -> list[list[int]]:
    """Return the columns, those together that follow each other and say one of several things."""
    groups: list[list[int]] = []
    taken = np.ones(len(X), bool)  # by one of the columns of the last group
    for j, column in enumerate(X.T):
        above = column > column.min()
        binary = bool(np.all(column[above] == column.max()))
        if groups and binary and not np.any(taken & above):
            groups[-1].append(j)
            taken |= above
        else:
            groups.append([j])
            taken = above if binary else np.ones(len(X), bool)
    return groups


def serial_rows(evidence: Evidence) -> Diagnostic | None:
    """Rows that are like the ones before them, as in a time series.

    The mean cosine of neighbours is that of any two for independent rows, up to ``1 / √(m k)`` for
    m of them in k dimensions, of which four are beyond chance. Below 0.2 it does little harm.
    """
    inner = np.flatnonzero(evidence.rows + 1 < evidence.path.n_samples)
    if len(inner) < 20:
        return None
    cosines = evidence.cosines[inner]
    anyone = cosines.sum() / (cosines.size - len(inner))  # its own, which is 0, not counted
    neighbours = float(np.mean(cosines[np.arange(len(inner)), evidence.rows[inner] + 1]) - anyone)
    return Diagnostic(
        "serial rows",
        neighbours,
        max(0.2, 4 / math.sqrt(len(inner) * evidence.dimension)),
        f"rows of X are like their neighbours (mean cosine {neighbours:.2f} above that of any "
        "two): if they are a time series, the error on later rows is larger than estimated; hold "
        "out the end of it instead",
    )


def serial_errors(evidence: Evidence) -> Diagnostic | None:
    """Errors of neighbouring rows with the same sign too often, as in a time series.

    Signs of independent errors agree as often as not, whatever their law: the agreement of n - 1
    pairs has standard error ``1 / √(n - 1)``, of which four are beyond chance.
    """
    risk = evidence.risk
    residuals = to_numpy(risk.residuals(risk.best_iter)).astype(float)
    signs = np.sign(residuals - np.median(residuals))
    products = signs[1:] * signs[:-1]
    count = int(np.count_nonzero(products))
    if count < 20:
        return None
    agreement = float(products.sum() / count)
    return Diagnostic(
        "serial errors",
        agreement * math.sqrt(count),
        4.0,
        f"errors of neighbouring rows have the same sign in {(1 + agreement) / 2:.0%} of all "
        "cases: if the order of the rows means something (time, batches), they are not "
        "independent, and the estimate or its standard error is too small",
    )


# ------------------------------------------------------------------------------------------------
# The problem's shape and the algorithm
# ------------------------------------------------------------------------------------------------


def aspect_ratio(evidence: Evidence) -> Diagnostic | None:
    """Many more columns than rows: the theory has p in proportion to n."""
    if not evidence.corrected:
        return None
    path = evidence.path
    ratio = path.n_features / path.n_samples
    return Diagnostic(
        "columns per row",
        ratio,
        10.0,
        f"X has {ratio:.1f} times as many columns as rows: the correction is then a large "
        f"extrapolation; {evidence.advice}, or use method='loo'",
    )


def few_rows(evidence: Evidence) -> Diagnostic | None:
    """Too few observations for a standard error, let alone for a limit theorem."""
    n = evidence.path.n_samples
    return Diagnostic(
        "few rows",
        1 / n,
        1 / 30,
        f"with {n} observations the standard errors are themselves uncertain",
    )


def step_sizes(evidence: Evidence) -> Diagnostic | None:
    """Step sizes at which the algorithm need not converge, nor its tangents stay bounded."""
    path = evidence.path
    if not evidence.corrected or not isinstance(path.algorithm, ProximalAlgorithm):
        return None
    formula, value, limit = path.algorithm.stability(path.design, path.loss)
    return Diagnostic(
        "step sizes",
        value / limit,
        1 + 1e-6,
        f"{formula} = {value:.3g} is above {limit:g}: the algorithm may diverge, and the "
        "correction before it; leave the step sizes at None",
    )


def projection_boundary(evidence: Evidence) -> Diagnostic | None:
    """Arguments of the square root's projection that lie at its kink, iteration after iteration.

    The paper assumes that their norm stays away from 1, where the derivative jumps. One passage
    does no harm; a tenth of the iterations within a thousandth of it means that the residuals
    have vanished and the path sits there.
    """
    maps = evidence.path.maps
    if not evidence.corrected or not isinstance(maps, ProximalMaps):
        return None
    if not isinstance(maps.dual_map.loss, SquareRoot) or maps.carries:
        return None
    share = float(np.mean(np.abs(_projected_norms(evidence.path, maps) - 1) < 1e-3))
    return Diagnostic(
        "projection boundary",
        share,
        0.1,
        f"in {share:.0%} of the iterations the square root's dual is at the boundary of its "
        "projection, where the correction is not defined: the fit is nearly perfect; use a larger "
        "penalty or fewer iterations",
    )


def _projected_norms(path: Path, maps: ProximalMaps) -> np.ndarray:
    """Norms of what entered the projection onto the unit ball, one per iteration."""
    norms: list[float] = []

    def look(point: Array) -> Array:
        norms.append(float(np.linalg.norm(to_numpy(point))) * maps.dual_map.factor)
        return point

    batch = Batch.of(path)
    for t in range(1, path.n_iter + 1):
        times = [slice(s, s + 1) for s in range(max(0, t - maps.memory), t)]
        u = History(batch.block("u", each) for each in times)
        maps.dual_update(look, t, u, History(batch.residual(each) for each in times))
    return np.asarray(np.asarray(norms) / maps.dual_map.step)


# ------------------------------------------------------------------------------------------------
# The estimate itself
# ------------------------------------------------------------------------------------------------


def correction_size(evidence: Evidence) -> Diagnostic | None:
    """Nearly all of the estimate is correction, because the fit is nearly perfect."""
    risk = evidence.risk
    if not evidence.corrected or risk.centered:
        return None
    best = risk.best_iter
    value, train = float(risk.values[best]), float(risk.train[best])
    share = (value - train) / value if value > 0 else 0.0
    return Diagnostic(
        "correction size",
        share,
        0.8,
        f"{share:.0%} of the estimate at the chosen iterate is correction, the training error "
        f"being {train:.3g}: an error of a few percent in the correction shows in full; "
        f"{evidence.advice}",
    )


def movement(evidence: Evidence) -> Diagnostic | None:
    """Risk that changes by more than the movement of the iterates allows.

    Between two iterates the risk cannot change by more than ``E|xᵀ(b - b')|`` under absolute loss,
    and correspondingly under others. What exceeds it is noise of the estimate.
    """
    risk, path = evidence.risk, evidence.path
    if not evidence.corrected or not isinstance(risk.criterion, Criterion):
        return None
    if risk.centered and risk.criterion.name == "squared":
        return None  # how far squares can change depends on the part that was taken out
    times = np.unique(np.geomspace(1, path.n_iter, _TIMES).astype(int))
    values, stderr, products, iterates = (
        to_numpy(take(x, times)).astype(float)
        for x in (risk.values, risk.stderr, path.products, path.coef)
    )
    # out of sample iterates move a little more than in it; if the columns were independent, by
    # the distance of their coefficients, times the size of the columns
    size = math.sqrt(evidence.row_squares.mean() / path.n_features)
    moved = np.maximum(
        _distances(products) / math.sqrt(path.n_samples), _distances(iterates) * size
    )
    allowed = lipschitz(risk.criterion, values) * moved
    excess = np.abs(values[:, None] - values) - allowed
    first, second = sorted(divmod(int(np.argmax(excess)), len(times)))
    scale = float(stderr.min())
    return Diagnostic(
        "movement",
        float(excess.max()) / scale if scale > 0 else 0.0,
        0.5,
        f"between iterates {times[first]} and {times[second]} the estimate changes by "
        f"{abs(values[first] - values[second]):.2g}, but the iterates move so little that their "
        f"risks differ by {allowed[first, second]:.2g} at most: the rest is noise; stop earlier, "
        f"or {evidence.advice}",
    )


def probe_noise(evidence: Evidence) -> Diagnostic | None:
    """Random probes that are too few: their noise should disappear in that of the sampling."""
    risk = evidence.risk
    stderr = float(risk.stderr[risk.best_iter])
    if not risk.n_probes or not 0 < stderr < math.inf:
        return None
    noise = noise_near(risk.best_iter, risk.probe_stderr)
    size = f"{noise:.2g}, not small" if math.isfinite(noise) else "unknown"
    return Diagnostic(
        "probe noise",
        noise / stderr,
        0.5,
        f"the noise of {risk.n_probes} random probes is {size} beside the sampling error "
        f"({stderr:.2g}); use more n_probes",
    )


def audited_difference(evidence: Evidence) -> Diagnostic | None:
    """Leave-one-out of the audited rows that disagrees with the estimate, and visibly so.

    Beyond chance is three and a half standard errors of the difference, as the worst of many
    iterates; and what is within two of the estimate's own does not show.
    """
    risk, audit = evidence.risk, evidence.risk.audit
    if audit is None:
        return None
    difference, stderr = (to_numpy(x).astype(float) for x in (audit.difference, risk.stderr))
    visible = np.abs(difference) > 2 * stderr
    significance = np.where(visible, audit.significance, 0.0)
    worst = int(np.argmax(significance))
    size = float(significance[worst])
    by = f"{size:.1f} standard errors" if math.isfinite(size) else "beyond any doubt"
    return Diagnostic(
        "audit",
        size,
        3.5,
        f"at iterate {worst} the audited rows, when left out, cost {difference[worst]:+.2g} beside "
        f"the estimate, {by}; the estimate was repaired by "
        f"{float(audit.repair[worst]):+.2g}, and its standard error allows for the rest",
    )


def _distances(points: np.ndarray) -> np.ndarray:
    """Euclidean distances between the rows of a matrix."""
    gram = points @ points.T
    squares = np.diag(gram)
    return np.asarray(np.sqrt(np.maximum(squares[:, None] + squares - 2 * gram, 0)))


#: All checks, in the order in which they are reported.
CHECKS: tuple[Callable[[Evidence], Diagnostic | None], ...] = (
    audited_difference,
    movement,
    near_copies,
    serial_rows,
    serial_errors,
    row_sizes,
    aspect_ratio,
    few_rows,
    step_sizes,
    projection_boundary,
    correction_size,
    probe_noise,
)
