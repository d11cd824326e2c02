"""Functions called in sessions: those of the package, applied to the rows of a block."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.sparsefuncs import mean_variance_axis

from steinpath._support.arrays import Array
from steinpath.algorithms._base import Algorithm, ProximalAlgorithm
from steinpath.cluster._sessions import Share
from steinpath.design._base import Design, NormBounds
from steinpath.design._sparse import SparseDesign
from steinpath.design._transformed import InterceptDesign, ScaledDesign
from steinpath.engine._batch import Batch, DeferredPath
from steinpath.engine._data import RunData
from steinpath.engine._null_model import check_lams
from steinpath.engine._path import Path
from steinpath.engine._start import start
from steinpath.inference._estimate_intervals import intervals_along
from steinpath.problem._grid import PenaltyOf
from steinpath.problem._losses import Loss
from steinpath.problem._penalties import Penalty
from steinpath.risk._after_choice import ChosenRisk
from steinpath.risk._audit import CURVES, Audit
from steinpath.risk._estimate import Risk, estimate
from steinpath.risk._leave_out import LeftOutModels, models_without
from steinpath.risk._options import RiskOptions
from steinpath.risk._scores import Compressed
from steinpath.tuning._tune import Search, start_all

# Number of iterates per step of the objective, and number of entries per step of column moments.
_ITERATES, _PIECE = 32, 2**20


@dataclass(frozen=True, eq=False)
class Problem:
    """The model to fit to all rows.

    Attributes
    ----------
    y : Array of shape (n,)
        Responses of all rows.
    loss : Loss
        Loss, adapted to the responses.
    fit_intercept : bool
        Whether to fit an intercept.
    level : float
        Initial value of the intercept.
    scale : ndarray of shape (p,) or None
        Divisors of the columns.
    norm : NormBounds or None
        Bounds of the norm of the design, if known from an earlier run.
    """

    y: Array
    loss: Loss
    fit_intercept: bool
    level: float
    scale: np.ndarray | None
    norm: NormBounds | None

    def data(self, share: Share) -> RunData:
        """Return the data of a run for one block."""
        design: Design = share.design.with_responses(self.y)
        if self.scale is not None:
            design = ScaledDesign(design, self.scale)
        if self.fit_intercept:
            design = InterceptDesign(design)
        if self.norm is not None:
            design._norm = self.norm
        y = design.local(self.y)[:, None]
        return RunData(y, self.loss, design, np.array([self.level]))


class DesignFacts(NamedTuple):
    """Properties of a run's design that are the same for all blocks."""

    means: Array | None
    intercept_scale: float
    norm: NormBounds | None

    @classmethod
    def of(cls, design: Design) -> DesignFacts:
        """Return the properties of a design that are the same for all blocks."""
        if isinstance(design, InterceptDesign):
            return cls(design.means, design.intercept_scale, design._norm)
        return cls(None, 0.0, design._norm)


# ------------------------------------------------------------------------------------------------
# Products, for computations that run on the client
# ------------------------------------------------------------------------------------------------


def multiply(share: Share, block: Array) -> Array:
    """Return ``X @ block`` for the rows of this block."""
    return share.design.matmat(block)


def multiply_transposed(share: Share, block: Array) -> Array:
    """Return ``Xᵀ @ block`` over the rows of this block only."""
    return share.design.own.rmatmat(block)


def squares_of_rows(share: Share, center: Array | None, scale: Array | None) -> Array:
    """Return the squared norms of the rows of this block."""
    return share.design.row_squares(center, scale)


def gram_of_rows(share: Share, dtype: Any, center: Array | None) -> Array:
    """Return ``Xᵀ X`` over the rows of this block only."""
    return share.design.own.gram(False, dtype, center)


def moments_of_columns(share: Share) -> tuple[np.ndarray, np.ndarray] | None:
    """Return means and standard deviations of the columns over all rows."""
    design, n = share.design, share.design.n_rows
    if isinstance(design.own, SparseDesign):
        here, variances = mean_variance_axis(design.own.matrix.astype(float), axis=0)
        means = design.over_rows(design.shape[0] * here) / n
        squares = design.over_rows(design.shape[0] * (variances + (here - means) ** 2))
        return None if share.index else (means, np.sqrt(squares / n))
    ones = np.ones(design.shape[0], design.example.dtype)
    means = design.rmatmat(ones).astype(float) / n
    sums, largest, squares = np.zeros((3, len(means)))
    for gaps in _gaps(design.own, means):
        sums += gaps.sum(axis=0)
        largest = np.maximum(largest, np.abs(gaps).max(axis=0))
    # rounding errors of a long sum must not give a constant column a positive scale
    means = means + design.over_rows(sums) / n
    largest = design.largest(largest)
    unit = np.where(largest > 0, largest, 1)  # so that squares neither underflow nor overflow
    for gaps in _gaps(design.own, means):
        squares += ((gaps / unit) ** 2).sum(axis=0)
    squares = design.over_rows(squares)
    return None if share.index else (means, unit * np.sqrt(squares / n))


def _gaps(rows: Design, means: np.ndarray) -> Iterator[np.ndarray]:
    """Yield centred rows in pieces."""
    n, p = rows.shape
    length = max(1, _PIECE // p)
    for first in range(0, n, length):
        part = rows.part(np.arange(first, min(first + length, n)), None)
        assert part is not None
        yield part.example.astype(float) - means


# ------------------------------------------------------------------------------------------------
# Paths
# ------------------------------------------------------------------------------------------------


def run_path(
    share: Share, problem: Problem, penalty: Penalty, algorithm: Algorithm, n_iter: int
) -> tuple[Algorithm, Array, DesignFacts] | None:
    """Run an algorithm and keep its path; the first block returns what all blocks share."""
    data = problem.data(share)
    path = start(data, penalty, algorithm).extended(n_iter)[0]
    share.paths = [path]
    if share.index:
        return None
    return path.algorithm, path.iterates, DesignFacts.of(data.design)


def history(share: Share, member: int, name: str, t: slice) -> Array:
    """Return states of a path for the rows of this block."""
    path = path_of(share, member)
    return path.products_at(t) if name == "products" else getattr(path, name)[t, :]


def same_everywhere(share: Share, member: int, name: str) -> Array | None:
    """Return states of a path that are the same for all blocks, from the first block only."""
    found = getattr(path_of(share, member), name)
    return None if share.index else found


def objective(share: Share, member: int) -> Array:
    """Return the objective of each iterate."""
    path = path_of(share, member)
    rows, values, iterates = path.data.rows, [], path.coef
    for first in range(0, path.n_iter + 1, _ITERATES):
        some = slice(first, first + _ITERATES)
        losses = path.loss.value((path.response - path.products_at(some)).T, rows)
        values.append(losses + np.asarray([path.penalty.value(b) for b in iterates[some, :]]))
    return np.concatenate(values)


def path_of(share: Share, member: int) -> Path:
    """Return a path by its index; restarted sessions have the same paths."""
    path = share.paths[member]
    if isinstance(path, DeferredPath):
        path.forget_states()
    return path


# ------------------------------------------------------------------------------------------------
# Risks
# ------------------------------------------------------------------------------------------------


class Used(NamedTuple):
    """State of a random generator after use."""

    state: Any
    children: int | None

    @classmethod
    def of(cls, rng: np.random.Generator) -> Used:
        """Return the state of a generator."""
        seeds: Any = rng.bit_generator.seed_seq
        return cls(rng.bit_generator.state, getattr(seeds, "n_children_spawned", None))

    def pass_on(self, rng: np.random.Generator) -> None:
        """Set another generator to this state."""
        rng.bit_generator.state = self.state
        seeds: Any = rng.bit_generator.seed_seq
        if self.children is not None and (missing := self.children - seeds.n_children_spawned):
            seeds.spawn(missing)


class RiskFacts(NamedTuple):
    """Parts of a risk estimate that are the same for all blocks.

    Attributes
    ----------
    facts : dict
        Attributes that are the same for all blocks.
    audit : tuple or None
        The whole audit, if all blocks have it, or its entries per iterate.
    corrections : tuple or None
        Coefficients and variances of a compressed estimate.
    found : tuple
        Sampling error of the method, and rows tested.
    """

    facts: dict[str, Any]
    audit: Any
    corrections: tuple[Array, Array] | None
    found: tuple[Any, ...]


def estimate_path(
    share: Share, member: int, key: Any, options: RiskOptions, rng: np.random.Generator
) -> tuple[Any, ...]:
    """Estimate the risk of a path; return its common parts, and the parts for these rows.

    The latter are the directions of compressed estimates. Other arrays with one entry per row and
    iterate stay on the worker and are requested by key.
    """
    rng = deepcopy(rng)  # sessions in one process would share it
    risk = estimate(path_of(share, member), options, rng)
    facts, stays = facts_of_risk(risk)
    if stays:
        share.risks[key] = risk
    predictions, directions = risk.predictions, None
    if isinstance(predictions, Compressed) and not stays:
        directions = predictions.corrections.directions
    if share.index:
        return directions, stays
    return directions, stays, (facts, Used.of(rng))


def facts_of_risk(risk: Risk) -> tuple[RiskFacts, bool]:
    """Return the common parts of a risk, and whether other parts stay on the workers."""
    audit, predictions = risk.audit, risk.predictions
    here = ("audit", "criterion", "predictions", "found", "left_out")
    facts = {each.name: getattr(risk, each.name) for each in fields(risk) if each.name not in here}
    told: Any = audit
    if audit is not None and audit.shared is not None:
        told = audit_facts(audit)
    corrections = None
    if isinstance(predictions, Compressed):
        corrections = predictions.corrections.coefficients, predictions.corrections.variances
    assert risk.found is not None
    found = risk.found.score, risk.found.n_probes, risk.found.optimism, risk.found.tested
    stays = corrections is None or isinstance(told, dict)
    return RiskFacts(facts, told, corrections, found), stays


def audit_facts(audit: Audit) -> dict[str, Any]:
    """Return the entries per iterate and the options of an audit."""
    curves = {name: getattr(audit, name) for name in CURVES}
    plain = ("rows", "slope", "correlation", "shrink", "noise", "until")
    return curves | {name: getattr(audit, name) for name in plain}


def predictions_of(share: Share, key: Any, t: slice) -> Array:
    """Return corrected fitted values minus the level at some iterations, for these rows."""
    risk = _risk_of(share, key)
    return risk.predictions.of(t)


def differences_of(share: Share, key: Any, t: slice) -> Array:
    """Return the differences of an audit at some iterations, for these rows."""
    audit = _risk_of(share, key).audit
    assert audit is not None
    return audit.differences[t, :]


def intervals_of_path(
    share: Share,
    member: int,
    times: Sequence[int | None],
    features: Any,
    level: float,
    rng: np.random.Generator,
    options: tuple[Any, ...],
) -> tuple[Any, ...] | None:
    """Return confidence intervals for coefficients, which are the same for all blocks."""
    rng = deepcopy(rng)
    found = intervals_along(path_of(share, member), times, features, level, rng, *options)
    return None if share.index else (found, Used.of(rng))


def _risk_of(share: Share, key: Any) -> Risk:
    risk = share.risks[key]
    if isinstance(risk.path, DeferredPath):
        risk.path.forget_states()
    return risk


# ------------------------------------------------------------------------------------------------
# Tuning
# ------------------------------------------------------------------------------------------------


class TuningFacts(NamedTuple):
    """Parts of a tuning result that are the same for all blocks."""

    lams: np.ndarray
    settled: np.ndarray
    best: tuple[int, int]
    stop: str
    seed: int
    iterate: int | None
    options: RiskOptions
    penalties: list[Penalty]
    algorithms: list[Algorithm]
    n_iter: int
    design: DesignFacts
    risks: list[RiskFacts]


def tune_paths(
    share: Share,
    problem: Problem,
    penalty: PenaltyOf,
    grid: tuple[Any, float | None],
    algorithm: ProximalAlgorithm,
    options: RiskOptions,
    rng: np.random.Generator,
    rule: str,
    iterate: int | None,
    n_iter: int | None,
) -> TuningFacts | None:
    """Select a penalty and an iteration, and keep all paths and their risks."""
    data = problem.data(share)
    lams = check_lams(data, penalty, *grid)
    batch = start_all(data, penalty, lams, algorithm)
    tuning = Search(batch, lams, options, deepcopy(rng), rule, iterate).run(n_iter)
    share.tuning = tuning
    share.paths = [risk.path for risk in tuning.risks]
    share.risks = {("tuned", k): risk for k, risk in enumerate(tuning.risks)}
    told = [facts_of_risk(risk)[0] for risk in tuning.risks]
    if share.index:
        return None
    context = tuning.context
    return TuningFacts(
        tuning.lams,
        tuning.settled,
        tuning.best,
        tuning.stop,
        context.seed,
        context.iterate,
        context.options,
        [path.penalty for path in share.paths],
        [path.algorithm for path in share.paths],
        share.paths[0].n_iter,
        DesignFacts.of(data.design),
        told,
    )


def risk_of_choice(share: Share) -> tuple[Any, ...]:
    """Return the estimated risk of the selected model, and predictions and losses of these rows."""
    assert share.tuning is not None
    for member in range(len(share.paths)):
        path_of(share, member)
    chosen = share.tuning.adjust_for_selection()
    own = chosen.predictions, chosen.losses, chosen.models.predictions
    if share.index:
        return own
    names = [each.name for each in fields(ChosenRisk)]
    same = {name: getattr(chosen, name) for name in names if name not in ("predictions", "losses")}
    return *own, same


def fit_left_out_models(
    share: Share, members: Sequence[int], train: np.ndarray, at: Sequence[int]
) -> LeftOutModels:
    """Fit models to subsets of all rows; return their predictions for the rows of this block."""
    assert share.tuning is not None
    batch: Batch = share.tuning.context.batch.unmoved().part(list(members))
    models = models_without(batch, train, at)
    if share.index:
        return LeftOutModels(models.coef[:0], models.intercept[:0], models.predictions)
    return models
