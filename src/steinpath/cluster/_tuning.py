"""Selection of regularisation strength and iteration on a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import numpy as np

from steinpath._support.validation import check_rng
from steinpath.algorithms._base import ProximalAlgorithm
from steinpath.cluster import _calls as calls
from steinpath.cluster._calls import Problem, TuningFacts
from steinpath.cluster._conversation import Conversation
from steinpath.cluster._path import DistributedPath
from steinpath.cluster._risk import remote_risk, settled_options
from steinpath.cluster._sessions import Call
from steinpath.problem._grid import PenaltyOf
from steinpath.risk._after_choice import ChosenRisk
from steinpath.risk._leave_out import LeftOutModels
from steinpath.risk._options import RiskOptions
from steinpath.tuning._tuning import ChoiceContext, Tuning

if TYPE_CHECKING:
    from steinpath.cluster._design import DistributedDesign


class DistributedTuning(Tuning):
    """Estimated risk over regularisation strengths and iterations, returned by `steinpath.tune`.

    It has the attributes of `steinpath.Tuning`. Models for out-of-fold predictions are fitted on
    the workers on demand.
    """

    @classmethod
    def run(
        cls,
        design: DistributedDesign,
        problem: Problem,
        penalty: PenaltyOf,
        grid: tuple[Any, float | None],
        algorithm: ProximalAlgorithm,
        options: RiskOptions,
        rng: Any,
        rule: str,
        iterate: int | None,
        n_iter: int | None,
    ) -> DistributedTuning:
        """Implement `steinpath.tune` with validated arguments."""
        settled, criterion = settled_options(options, problem.y, problem.loss, problem.level)
        generator = check_rng(rng)
        used = deepcopy(generator)
        generator.integers(2**63)  # advance it as if used locally
        conversation = Conversation(design.carrier())
        how = settled, used, rule, iterate, n_iter
        call = Call(calls.tune_paths, (problem, penalty, grid, algorithm, *how))
        blocks = len(design.blocks)
        found: TuningFacts = conversation.ask([call] * blocks, remember=True)[0]
        risks = []
        for k, told in enumerate(found.risks):
            path = DistributedPath(
                design,
                conversation,
                k,
                problem,
                found.penalties[k],
                found.algorithms[k],
                found.n_iter,
                found.design,
            )
            risks.append(remote_risk(path, told, criterion, ("tuned", k), None))
        nowhere: Any = None  # the runs are on the workers
        return cls(
            found.lams,
            tuple(risks),
            found.settled,
            rule,
            found.best,
            found.stop,
            ChoiceContext(nowhere, found.options, found.seed, found.iterate),
        )

    def adjust_for_selection(self) -> ChosenRisk:
        found = self._ask(calls.risk_of_choice)
        predictions, losses, of_models = (
            np.concatenate([each[j] for each in found]) for j in range(3)
        )
        same = found[0][3]
        same["models"] = same["models"]._replace(predictions=of_models)
        return ChosenRisk(**same, predictions=predictions, losses=losses)

    def models_without(
        self, members: Sequence[int], train: np.ndarray, at: Sequence[int]
    ) -> LeftOutModels:
        found = self._ask(calls.fit_left_out_models, list(members), train, list(at))
        predictions = np.concatenate([each.predictions for each in found])
        first: LeftOutModels = found[0]
        return first._replace(predictions=predictions)

    def _ask(self, function: Any, *args: Any) -> list[Any]:
        path = self.path
        assert isinstance(path, DistributedPath)
        return path.ask(function, *args)
