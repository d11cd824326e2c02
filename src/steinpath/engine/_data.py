"""Data of runs: checked, centred if there is an intercept, for all members together."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from steinpath._support.arrays import Array, cast, largest, like, namespace, take, to_numpy
from steinpath._support.caching import cached_property
from steinpath._support.validation import check_flag, check_instance, check_size
from steinpath.algorithms._base import Algorithm, Maps
from steinpath.design._base import Design
from steinpath.design._conversion import as_design, check_response
from steinpath.design._screened import ScreenedDesign
from steinpath.design._transformed import InterceptDesign, WeightedDesign, check_sample_weight
from steinpath.problem._losses import Loss
from steinpath.problem._penalties import FreeIntercept, Penalty
from steinpath.problem._rows import Rows

# Size of runs from which on single precision is enough, for responses within a moderate range, and
# the number of iterations that is assumed.
_LARGE, _MODERATE, _USUAL_ITERATIONS = 5e6, 1e7, 100


@dataclass(frozen=True, eq=False)
class RunData:
    """Data shared by runs that differ only in their penalties."""

    y: Array  # (n, 1), (n, members) or (n, problems): responses, in their own precision
    loss: Loss  # its parameter may be an array over members
    design: Design  # X, or X centred with a column for the intercept
    #: One for each column of y: constant fits to the responses if there is an intercept, else 0.
    #: Subtracted in the precision of y, as responses far from 0 may coincide in that of X.
    level: np.ndarray
    #: Initial intercepts of the members relative to the level, (members,); 0 by default.
    offset: Array | None = None
    #: The problem of each member, a column of y, if there are several with several members each.
    problem: np.ndarray | None = None

    @cached_property
    def response(self) -> Array:
        """Responses minus their level, of shape (n, members or 1), in the design's precision."""
        return cast(self.y - like(self.level, self.y), self.design.example.dtype)

    @cached_property
    def target(self) -> Array:
        """Target of the recursion, of shape (n, members or 1, 1), in the design's precision."""
        response = self._of_members(self.response)
        return (response if self.offset is None else response - self.offset)[:, :, None]

    @cached_property
    def rows(self) -> Rows:
        """Number of rows, how to sum over them, and their classes if any."""
        if self.labels is None:
            return self.design.rows
        labels = self.labels
        if self.y.shape[1] > 1:
            labels = self._of_members(cast(self.y, self.design.example.dtype))[:, :, None]
        return replace(self.design.rows, labels=labels)

    @cached_property
    def labels(self) -> Array | None:
        """Classes of the rows of the first member; None unless the loss is a margin loss."""
        return cast(self.y[:, 0], self.design.example.dtype) if self.loss.margin else None

    @property
    def all_y(self) -> Array:
        """Responses of all rows of the first member, including rows that are not local."""
        known = self.design.all_y
        return self.y[:, 0] if known is None else known

    @property
    def all_responses(self) -> Array:
        """The same minus their level, in the design's precision."""
        return cast(self.all_y - float(self.level[0]), self.design.example.dtype)

    @property
    def all_targets(self) -> Array:
        """Labels of all rows for a margin loss, else responses minus their level."""
        return self.all_y if self.loss.margin else self.all_responses

    @property
    def all_labels(self) -> np.ndarray | None:
        """Classes of all rows; None unless the loss is a margin loss."""
        return to_numpy(self.all_y) if self.loss.margin else None

    @property
    def sample_weight(self) -> np.ndarray | None:
        """Sample weights of all rows, with mean 1; None if all are equal."""
        return self.design.all_weights

    @property
    def fit_intercept(self) -> bool:
        """Whether models have an intercept."""
        return isinstance(self.design, InterceptDesign)

    def of_copies(self, values: Array) -> Array:
        """Sum duals (…, n) over the copies that sample weights make of each row.

        Weighted sums of the columns are zero with an intercept, so the duals are then centred.
        """
        weights = self.design.rows.weights
        if weights is None:
            return values
        if self.fit_intercept:
            sums = namespace(values).sum(values * weights, axis=-1, keepdims=True)
            values = values - self.design.over_rows(sums) / self.design.n_rows
        return values * weights

    def _of_members(self, values: Array) -> Array:
        return values if self.problem is None else take(values, self.problem, axis=1)

    def some(self, members: np.ndarray) -> RunData:
        """Return the data of some members; their design is that of all."""
        y, level, problem = self.y, self.level, None
        loss = self.loss.some(members) if len(members) > 1 else self.loss.member(int(members[0]))
        if self.problem is not None:
            used, problem = np.unique(self.problem[members], return_inverse=True)
            y, level = take(y, used, axis=1), level[used]
            if len(used) == 1:  # whose members have the same loss
                problem, loss = None, self.loss.member(int(members[0]))
        elif y.shape[1] > 1:
            y, level = take(y, members, axis=1), level[members]
        return replace(self, y=y, level=level, loss=loss, problem=problem, offset=None)

    @property
    def levels(self) -> np.ndarray:
        """The level of each member, or of all."""
        return self.level if self.problem is None else self.level[self.problem]

    def members_of_problems(self, count: int) -> list[np.ndarray]:
        """Return the members of each problem, given their number."""
        if self.problem is None:
            return [np.arange(count)]
        return [np.flatnonzero(self.problem == k) for k in range(self.y.shape[1])]

    def own(self, penalty: Penalty) -> Penalty:
        """Return the penalty of the recursion, which leaves the intercept unpenalised."""
        return FreeIntercept(penalty) if self.fit_intercept else penalty

    def bind(self, algorithm: Algorithm, penalty: Penalty) -> tuple[Algorithm, Maps]:
        """Fix the step sizes of an algorithm for the first member's y, and return its maps."""
        example = self.design.example
        limit = 1e-8 * float(namespace(example).finfo(example.dtype).max)
        if penalty.largest_lam > limit:
            raise ValueError(
                f"lam is too large for {example.dtype}: with weights it is "
                f"{penalty.largest_lam:.3g} in {penalty!r}, and the limit is {limit:.1g}; use a "
                "smaller lam, or float64"
            )
        penalty = self.own(penalty)
        penalty.check_size(self.design.shape[1])
        with np.errstate(over="ignore", invalid="ignore"):  # each iterate is checked instead
            start = self.target[:, 0, 0]
            if self.labels is None:
                return algorithm.bind(self.design, start, self.loss, penalty)
            # step sizes depend on the loss at the start, a function of labels times residuals
            bound, maps = algorithm.bind(self.design, self.labels * start, self.loss, penalty)
            return bound, maps.for_rows(self.rows, 1)

    def without(self, left_out: np.ndarray, count: Any = None, copies: int = 1) -> RunData:
        """Return the data of K members without some rows, as by `InterceptDesign.without`."""
        design, K = self.design, left_out.shape[1]
        several, kept = self.problem is not None, ~left_out
        # each column is of one member, or all are of each of the copies
        paired = several and copies == 1
        problem = self.problem if paired or not several else np.repeat(self.problem, K)  # type: ignore[arg-type]
        if not isinstance(design, InterceptDesign):
            masked = WeightedDesign.without(design, left_out, count, copies)
            return replace(self, design=masked, problem=problem)
        starts = np.stack([self._starts(k, kept) for k in range(self.y.shape[1] if several else 1)])
        if paired:
            offset = starts[self.problem, np.arange(K)]
        else:
            offset = starts[np.zeros(copies, int) if self.problem is None else self.problem].ravel()
        design = design.without(left_out, count, copies)
        return replace(self, design=design, offset=design.array(offset), problem=problem)

    def _starts(self, problem: int, kept: np.ndarray) -> np.ndarray:
        """Return initial intercepts of a problem, relative to its level, with some rows (n, K)."""
        one, weights = self, self.sample_weight
        if self.problem is not None:
            one = self.some(np.flatnonzero(self.problem == problem)[:1])
        # labels minus a level would no longer be labels
        y, level = to_numpy(one.all_targets), float(one.level[0]) if self.loss.margin else 0.0
        each = [(y[rows], None if weights is None else weights[rows]) for rows in kept.T]
        return np.array([one.loss.start(*rows) - level for rows in each])


def prepare(X: Any, y: Any, loss: Loss, fit_intercept: bool, sample_weight: Any = None) -> RunData:
    """Check the data of a run."""
    check_instance("loss", loss, Loss, "sp.LAD()")
    check_flag("fit_intercept", fit_intercept)
    design = as_design(X)
    y = check_response(y, design)
    screen, level = design.screen, 0.0
    weights = None if sample_weight is None else check_sample_weight(sample_weight, design)
    if weights is not None:
        design = WeightedDesign.of_sample(design, weights)
    if weights is None:
        loss = loss.on(y)
    else:  # every class needs rows that count
        some = np.flatnonzero(weights)
        loss = loss.on(take(y, some), weights[some])
    if fit_intercept:
        level = loss.start(y, weights)
        design = InterceptDesign(design)
        design = design if screen is None else ScreenedDesign(design, screen)
    check_size("y", largest(y - level), design.example.dtype, y.shape, namespace(y))
    return RunData(design.local(y)[:, None], loss, design, np.array([level]))


def enough_precision(y: np.ndarray, size: float) -> str:
    """Return the precision of runs of this size, for columns that are standardised and centred."""
    spread = float(np.abs(y - np.median(y)).max())
    small = size * _USUAL_ITERATIONS > _LARGE and 1 / _MODERATE < spread < _MODERATE
    return "float32" if small else "float64"
