"""The data of runs: checked, centred where there is an intercept, all members of it in one."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from steinpath._support.arrays import Array, cast, copied, like, namespace, to_numpy
from steinpath._support.validation import check_flag, check_instance
from steinpath.algorithms._base import Algorithm, Maps
from steinpath.design._base import Design
from steinpath.design._reading import as_design, check_response
from steinpath.design._transformed import InterceptDesign, WeightedDesign, check_sample_weight
from steinpath.problem._losses import Loss
from steinpath.problem._penalties import FreeIntercept, Penalty
from steinpath.problem._rows import Rows


@dataclass(frozen=True, eq=False)
class RunData:
    """What runs on the same data have in common, but for their penalties.

    Attributes
    ----------
    y : Array of shape (n, 1) or (n, members)
        The responses.
    loss : Loss
        What is minimised.
    design : Design
        The design that the recursion sees: X, or X centred with the intercept's column.
    offset : Array of shape (1,) or (members,)
        Where intercepts start; the recursion works on ``y - offset``.
    """

    y: Array
    loss: Loss
    design: Design
    offset: Array

    @cached_property
    def target(self) -> Array:
        """What the recursion fits, of shape (n, members or 1, 1), in the design's precision."""
        return cast((self.y - self.offset)[:, :, None], self.design.example.dtype)

    @cached_property
    def rows(self) -> Rows:
        """How many rows there are, and how sums over them are taken."""
        return self.design.rows

    @property
    def fit_intercept(self) -> bool:
        """Whether models have an intercept."""
        return isinstance(self.design, InterceptDesign)

    def own(self, penalty: Penalty) -> Penalty:
        """Return the penalty as the recursion sees it: the intercept goes free."""
        return FreeIntercept(penalty) if self.fit_intercept else penalty

    def bind(self, algorithm: Algorithm, penalty: Penalty) -> tuple[Algorithm, Maps]:
        """Fix the step sizes of an algorithm, for the first member's y; return its maps."""
        penalty = self.own(penalty)
        penalty.check_size(self.design.shape[1])
        with np.errstate(over="ignore", invalid="ignore"):  # each iterate is checked instead
            return algorithm.bind(self.design, self.target[:, 0, 0], self.loss, penalty)

    def without(self, left_out: np.ndarray, count: Any = None, copies: int = 1) -> RunData:
        """Return the data of members that leave rows out: each is as if it had never had them.

        Columns are centred by the rows that are kept, and intercepts start where those say.

        Parameters
        ----------
        left_out : ndarray of bool of shape (n, K)
            Rows that each member leaves out. This has a single member.
        count : int or ndarray of int of shape (K,), optional
            Sample sizes in the scaling of loss and steps; that of all rows by default.
        copies : int, default=1
            How often there are all of these members, one set after the other.
        """
        design = self.design
        if not isinstance(design, InterceptDesign):
            masked = WeightedDesign.without(design, left_out, count, copies)
            return RunData(self.y, self.loss, masked, self.offset)
        y = to_numpy(self.y[:, 0])
        offsets = [self.loss.location(y[~left_out[:, k]]) for k in range(left_out.shape[1])]
        offset = like(np.tile(np.asarray(offsets), copies), self.y)
        return RunData(self.y, self.loss, design.without(left_out, count, copies), offset)


def prepare(X: Any, y: Any, loss: Loss, fit_intercept: bool, sample_weight: Any = None) -> RunData:
    """Check the data of a run."""
    check_instance("loss", loss, Loss, "sp.LAD()")
    check_flag("fit_intercept", fit_intercept)
    design = as_design(X)
    y = check_response(y, design)
    counts = None
    if sample_weight is not None:
        counts = check_sample_weight(sample_weight, design)
        xp = namespace(counts)
        if xp.all(counts == counts[0]):
            counts = None
        else:
            design = WeightedDesign(design, counts / xp.mean(counts))
    offset = 0.0
    if fit_intercept:
        design, offset = InterceptDesign(design), loss.location(copied(y), counts)
    return RunData(design.here(y)[:, None], loss, design, like(np.array([offset]), y))
