"""Paths on a cluster: attributes on the client, and attributes fetched on demand."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np

from steinpath._support.arrays import Array
from steinpath._support.caching import cached_property
from steinpath._support.validation import check_rng
from steinpath.algorithms._base import Algorithm, ProximalAlgorithm
from steinpath.cluster import _calls as calls
from steinpath.cluster._calls import DesignFacts, Problem
from steinpath.cluster._conversation import Conversation
from steinpath.cluster._risk import remote_risk, settled_options
from steinpath.cluster._sessions import Call
from steinpath.design._base import Design
from steinpath.design._transformed import InterceptDesign
from steinpath.engine._data import RunData
from steinpath.engine._path import RemotePath
from steinpath.inference._coefficient_intervals import CoefficientIntervals
from steinpath.problem._penalties import Penalty
from steinpath.risk._estimate import Risk
from steinpath.risk._options import RiskOptions

if TYPE_CHECKING:
    from steinpath.cluster._design import DistributedDesign

_keys = count()


class DistributedPath(RemotePath):
    """Iterates of a run on a cluster, returned by `steinpath.run`.

    It has the attributes of `steinpath.Path`. Coefficients and intercepts are on the client.
    Arrays with one entry per row (``fitted``, ``dual``) are fetched from the workers on demand,
    and the objective is computed there.
    """

    @classmethod
    def run(
        cls,
        design: DistributedDesign,
        problem: Problem,
        penalty: Penalty,
        algorithm: Algorithm,
        n_iter: int,
    ) -> DistributedPath:
        """Implement `steinpath.run` with validated arguments."""
        conversation = Conversation(design.carrier())
        call = Call(calls.run_path, (problem, penalty, algorithm, n_iter))
        found = conversation.ask([call] * len(design.blocks), remember=True)[0]
        algorithm, iterates, facts = found
        path = cls(design, conversation, 0, problem, penalty, algorithm, n_iter, facts)
        path.__dict__["iterates"] = iterates
        return path

    def __init__(
        self,
        features: DistributedDesign,
        conversation: Conversation,
        member: int,
        problem: Problem,
        penalty: Penalty,
        algorithm: Algorithm,
        n_iter: int,
        facts: DesignFacts,
    ):
        design: Design = features
        if facts.means is not None:
            design = InterceptDesign(features, facts.means, facts.intercept_scale)
        y, loss, level = problem.y, problem.loss, problem.level
        data = RunData(y[:, None], loss, design, np.array([level]))
        assert isinstance(algorithm, ProximalAlgorithm)
        # the class is frozen, and its other attributes are fetched on demand
        self.__dict__ |= {
            "y": y,
            "loss": loss,
            "penalty": penalty,
            "algorithm": algorithm,
            "design": design,
            "maps": algorithm.maps(loss, data.own(penalty), data.rows),
            "level": level,
            "risk": None,
            "_blocks": len(features.blocks),
            "_conversation": conversation,
            "_member": member,
            "_length": n_iter,
        }
        if facts.norm is not None:
            design._norm = features.norms[facts.means is not None] = facts.norm

    @property
    def n_iter(self) -> int:
        """Number of iterations."""
        return self._length

    @cached_property
    def iterates(self) -> Array:
        """``b^t`` of the recursion for each iteration."""
        return self.ask(calls.same_everywhere, self._member, "iterates")[0]

    @cached_property
    def products(self) -> Array:
        """``X b^t`` of the recursion for each iteration."""
        return self._rows_of("products", slice(None))

    @cached_property
    def duals(self) -> Array:
        """Dual iterates, starting with ``u^0``."""
        return self._rows_of("duals", slice(None))

    @cached_property
    def etas(self) -> Array:
        """``Xᵀ u^t / √n`` for each iteration."""
        return self.ask(calls.same_everywhere, self._member, "etas")[0]

    @cached_property
    def objective(self) -> Array:
        """Loss plus penalty of each iterate."""
        return self.ask(calls.objective, self._member)[0]

    @property
    def gap(self) -> Array:
        """The duality gap is not supported, because its bounds need all rows in one place."""
        raise ValueError(
            "the duality gap is not supported for a distributed design; compare the objective of "
            "runs with more iterations, or use a design in local memory"
        )

    def products_at(self, t: slice) -> Array:
        """Return ``X b^t`` at some iterations: fitted values minus the constant `level`."""
        if "products" in self.__dict__:
            return self.products[t, :]
        return self._rows_of("products", t)

    def estimate_risk(self, options: RiskOptions, rng: Any) -> Risk:
        """Implement `steinpath.estimate_risk` with validated options."""
        generator, key = check_rng(rng), next(_keys)
        settled, criterion = settled_options(options, self.y, self.loss, self.level)
        found = self.ask(
            calls.estimate_path,
            self._member,
            key,
            settled,
            generator,
            remember=lambda results: results[0][1],
        )
        facts, used = found[0][2]
        used.pass_on(generator)
        directions = None if found[0][1] else np.concatenate([each[0] for each in found])
        return remote_risk(self, facts, criterion, key, directions)

    def coefficient_intervals(
        self, times: Any, features: Any, level: float, rng: Any, options: Any
    ) -> list[CoefficientIntervals]:
        """Implement `steinpath.coefficient_intervals` for several iterations."""
        generator = check_rng(rng)
        args = times, features, level, generator, options
        found, used = self.ask(calls.intervals_of_path, self._member, *args)[0]
        used.pass_on(generator)
        intervals: list[CoefficientIntervals] = found
        return intervals

    def _rows_of(self, name: str, t: slice) -> Array:
        return np.concatenate(self.ask(calls.history, self._member, name, t), axis=1)

    def ask(self, function: Callable[..., Any], *args: Any, remember: Any = False) -> list[Any]:
        """Call a function on every block."""
        return self._conversation.ask([Call(function, args)] * self._blocks, remember)

    def __repr__(self) -> str:
        return super().__repr__().replace("<Path", "<DistributedPath")

    # set in `__init__`; declared for type checkers
    _blocks: int
    _conversation: Conversation
    _member: int
    _length: int
