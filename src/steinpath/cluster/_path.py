"""Paths whose rows are on a cluster: what is known here, and what is fetched when asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import fields
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from steinpath._support.arrays import Array, copied, largest
from steinpath._support.validation import check_rng, check_size
from steinpath.algorithms._base import Algorithm, ProximalAlgorithm
from steinpath.cluster._conversation import Conversation
from steinpath.cluster._sessions import Call, Share
from steinpath.design._base import Design
from steinpath.design._transformed import InterceptDesign
from steinpath.engine._batch import Batch
from steinpath.engine._compression import CompressedCorrections
from steinpath.engine._data import RunData
from steinpath.engine._path import Path, RemotePath
from steinpath.problem._losses import Loss
from steinpath.problem._penalties import Penalty
from steinpath.problem._scoring import MarginCriterion, about_level
from steinpath.risk._estimate import Risk, estimate
from steinpath.risk._methods import Compressed
from steinpath.risk._options import RiskOptions

if TYPE_CHECKING:
    from steinpath.cluster._design import DistributedDesign

# Iterates whose objective is computed at a time.
_ITERATES = 32


class DistributedPath(RemotePath):
    """The iterates of a run on a cluster. Made by `steinpath.run`.

    It has the attributes of `steinpath.Path`. Coefficients and intercepts are here; what has one
    entry per row (``fitted``, ``dual``) is fetched from the workers when asked for, and the
    objective is computed there.
    """

    @classmethod
    def run(
        cls,
        design: DistributedDesign,
        y: Array,
        loss: Loss,
        penalty: Penalty,
        algorithm: Algorithm,
        n_iter: int,
        fit_intercept: bool,
    ) -> DistributedPath:
        """Do as `steinpath.run`, with arguments that were checked."""
        loss = loss.on(copied(y))
        level = loss.start(copied(y)) if fit_intercept else 0.0
        check_size("y", largest(y - level), design.example.dtype, y.shape)
        conversation = Conversation(design.carrier())
        known = design.norms.get(fit_intercept)
        settled = loss, penalty, algorithm, n_iter, fit_intercept, level, known
        calls = [Call(_run, (part, *settled)) for part in design.split(y)]
        found = conversation.ask(calls, remember=True)[0]
        return cls(design, conversation, y, loss, penalty, level, **found)

    def __init__(
        self,
        features: DistributedDesign,
        conversation: Conversation,
        y: Array,
        loss: Loss,
        penalty: Penalty,
        level: float,
        algorithm: Algorithm,
        iterates: Array,
        means: Array | None,
        intercept_scale: float,
        norm: tuple[float, float] | None,
    ):
        design: Design = features
        if means is not None:
            design = InterceptDesign(features, means, intercept_scale)
        data = RunData(y[:, None], loss, design, np.array([level]))
        assert isinstance(algorithm, ProximalAlgorithm)
        maps = algorithm.maps(loss, data.own(penalty), data.rows)
        # a frozen class, whose other attributes are fetched when asked for
        self.__dict__ |= {
            "y": y,
            "loss": loss,
            "penalty": penalty,
            "algorithm": algorithm,
            "design": design,
            "maps": maps,
            "level": level,
            "iterates": iterates,
            "risk": None,
            "_blocks": len(features.blocks),
            "_conversation": conversation,
        }
        if norm is not None:
            design._norm = features.norms[means is not None] = norm

    @cached_property
    def products(self) -> Array:
        """``X b^t`` of the recursion, for each iterate."""
        return self._rows_of("products", slice(None))

    @cached_property
    def duals(self) -> Array:
        """Dual iterates, the first being ``u^0``."""
        return self._rows_of("duals", slice(None))

    @cached_property
    def etas(self) -> Array:
        """``Xᵀ u^t / √n``, for each iterate."""
        return self._ask(_etas)[0]

    @cached_property
    def objective(self) -> Array:
        """Loss plus penalty of each iterate."""
        return self._ask(_objective)[0]

    @property
    def gap(self) -> Array:
        """The duality gap is not available: its bounds need all rows in one place."""
        raise ValueError(
            "the duality gap is not available for rows on a cluster; compare objectives of runs "
            "with more iterations, or run on rows in this process"
        )

    def products_at(self, t: slice) -> Array:
        """``X b^t`` of some iterates: their fitted values less the level."""
        if "products" in self.__dict__:
            return self.products[t, :]
        return self._rows_of("products", t)

    def estimate_risk(self, options: RiskOptions, rng: Any) -> Risk:
        """Do as `steinpath.estimate_risk`, whose options were checked."""
        if options.has_splits:
            raise ValueError("groups and cv are not available for rows on a cluster")
        if options.audit:
            raise ValueError("an audit is not available for rows on a cluster; use audit=0")
        if options.method not in ("auto", "compressed"):
            raise ValueError(
                f"method {options.method!r} is not available for rows on a cluster; use "
                "'compressed'"
            )
        row_scale = options.row_scale
        if not (row_scale is None or (isinstance(row_scale, str) and row_scale == "norm")):
            raise ValueError(
                f"row_scale must be None or 'norm' for rows on a cluster; got {row_scale!r:.60}"
            )
        criterion = options.criterion(self.loss)
        about = about_level(criterion, self.y, self.level)
        if isinstance(criterion, MarginCriterion):  # weights depend on the labels of all blocks
            criterion = about
        generator = check_rng(rng)
        settled = options.but(test_loss=criterion, method="compressed")
        found = self._ask(_estimate, settled, generator)
        facts, coefficients, variances, state = found[0][1:]
        generator.bit_generator.state = state  # as if it had been used here
        directions = np.concatenate([each[0] for each in found])
        corrections = CompressedCorrections(directions, coefficients, variances)
        return Risk(
            **facts,
            audit=None,
            criterion=about,
            predictions=Compressed(self, corrections),
            interactions=None,
        )

    def _rows_of(self, name: str, t: slice) -> Array:
        return np.concatenate(self._ask(_history, name, t), axis=1)

    def _ask(self, function: Callable[..., Any], *args: Any) -> list[Any]:
        return self._conversation.ask([Call(function, args)] * self._blocks)

    def __repr__(self) -> str:
        return super().__repr__().replace("<Path", "<DistributedPath")

    # what `__init__` keeps, for readers of types
    _blocks: int
    _conversation: Conversation


# ------------------------------------------------------------------------------------------------
# What sessions are called to do
# ------------------------------------------------------------------------------------------------


def _run(
    share: Share,
    y: Array,
    loss: Loss,
    penalty: Penalty,
    algorithm: Algorithm,
    n_iter: int,
    fit_intercept: bool,
    level: float,
    norm: tuple[float, float] | None,
) -> dict[str, Any] | None:
    """Run an algorithm, and keep its path; say what is the same at all blocks, but only once."""
    design: Design = InterceptDesign(share.design) if fit_intercept else share.design
    if norm is not None:
        design._norm = norm
    data = RunData(y[:, None], loss, design, np.array([level]))
    share.path = path = Batch.start(data, penalty, algorithm).extended(n_iter)[0]
    if share.index:
        return None
    return {
        "algorithm": path.algorithm,
        "iterates": path.iterates,
        "means": design.means if isinstance(design, InterceptDesign) else None,
        "intercept_scale": design.intercept_scale if isinstance(design, InterceptDesign) else 0.0,
        "norm": design._norm,
    }


def _estimate(share: Share, options: RiskOptions, rng: np.random.Generator) -> Sequence[Any]:
    """Estimate the risk; return the directions of the corrections in these rows, and the rest."""
    rng = deepcopy(rng)  # which sessions in one process would share
    risk = estimate(_path_of(share), options, rng)
    predictions = risk.predictions
    assert isinstance(predictions, Compressed)
    corrections = predictions.corrections
    if share.index:
        return (corrections.directions,)
    here = ("audit", "criterion", "predictions", "interactions", "found", "left_out")
    facts = {each.name: getattr(risk, each.name) for each in fields(risk) if each.name not in here}
    state = rng.bit_generator.state
    return corrections.directions, facts, corrections.coefficients, corrections.variances, state


def _history(share: Share, name: str, t: slice) -> Array:
    return getattr(_path_of(share), name)[t, :]


def _etas(share: Share) -> Array | None:
    return None if share.index else _path_of(share).etas


def _objective(share: Share) -> Array:
    path = _path_of(share)
    rows, values = path.data.rows, []
    for start in range(0, path.n_iter + 1, _ITERATES):
        some = slice(start, start + _ITERATES)
        losses = path.loss.value((path.response - path.products_at(some)).T, rows)
        values.append(
            losses + np.asarray([path.penalty.value(copied(b)) for b in path.coef[some, :]])
        )
    return np.concatenate(values)


def _path_of(share: Share) -> Path:
    assert share.path is not None
    return share.path
