"""Risks of paths on a cluster: common parts on the client, per-row parts on the workers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from steinpath._support.arrays import Array, take
from steinpath._support.caching import cached_property
from steinpath.cluster import _calls as calls
from steinpath.cluster._calls import RiskFacts
from steinpath.engine._compression import CompressedCorrections
from steinpath.problem._losses import Loss
from steinpath.problem._scoring import MarginCriterion, PerObservation, about_level
from steinpath.risk._audit import Audit
from steinpath.risk._estimate import Risk
from steinpath.risk._methods import Estimate
from steinpath.risk._options import RiskOptions
from steinpath.risk._row_statistics import RowStatistics
from steinpath.risk._scores import Compressed, Fitted

if TYPE_CHECKING:
    from steinpath.cluster._path import DistributedPath

# Methods whose traces need all rows in one place.
_NOT_AVAILABLE = ("exact", "hutchinson")


def settled_options(
    options: RiskOptions, y: Array, loss: Loss, level: float
) -> tuple[RiskOptions, PerObservation]:
    """Return options with everything that depends on all rows resolved, and the scoring loss."""
    if options.method in _NOT_AVAILABLE:
        raise ValueError(
            f"method {options.method!r} is not supported for a distributed design; use 'compressed'"
        )
    options, criterion = options.for_rows(y), options.criterion(loss)
    here = about_level(criterion, y, level)
    if isinstance(criterion, MarginCriterion):  # class weights depend on the labels of all blocks
        criterion = here
    return options.but(test_loss=criterion), here


def remote_risk(
    path: DistributedPath,
    told: RiskFacts,
    criterion: PerObservation,
    key: Any,
    directions: Array | None,
) -> Risk:
    """Return a risk from the parts common to all blocks.

    Parameters
    ----------
    path : DistributedPath
        The path.
    told : RiskFacts
        Parts common to all blocks.
    criterion : callable
        Scoring loss.
    key : object
        Key for requesting the parts on the workers.
    directions : Array of shape (n, r), optional
        Directions of compressed corrections, if on the client.
    """
    predictions: Fitted = RemotePredictions(path, key)
    if told.corrections is not None and directions is not None:
        predictions = Compressed(path, CompressedCorrections(directions, *told.corrections))
    audit = told.audit
    if isinstance(audit, dict):
        audit = RemoteAudit(path, key, audit)
    score, n_probes, optimism, tested = told.found
    return Risk(
        **told.facts,
        audit=audit,
        criterion=criterion,
        predictions=predictions,
        found=Estimate(predictions, score, n_probes, optimism, tested=tested),
    )


@dataclass(frozen=True, eq=False)
class RemotePredictions(Fitted):
    """Predictions fetched on demand."""

    key: Any

    def of(self, t: slice) -> Array:
        path: Any = self.path
        return np.concatenate(path.ask(calls.predictions_of, self.key, t), axis=1)

    def own(self, rows: Any) -> Array:
        found = self.of(slice(None))
        return found if isinstance(rows, slice) else take(found, rows, axis=1)


class RemoteAudit(Audit):
    """An audit of all rows, whose differences per row are fetched on demand."""

    def __init__(self, path: DistributedPath, key: Any, told: dict[str, Any]):
        self.__dict__ |= told | {"shared": None, "_path": path, "_key": key}

    @cached_property
    def differences(self) -> Array:
        """`difference` for each row."""
        return self._fetch(slice(None))

    def differences_at(self, t: int) -> Array:
        return self._fetch(slice(t, t + 1))

    def _fetch(self, t: slice) -> Array:
        return np.concatenate(self._path.ask(calls.differences_of, self._key, t), axis=1)

    @property
    def _over(self) -> RowStatistics:
        return RowStatistics(len(self.rows))

    # set in `__init__`; declared for type checkers
    _path: DistributedPath
    _key: Any
