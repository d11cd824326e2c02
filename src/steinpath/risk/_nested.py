r"""Nested cross-validation of a selection, with inner runs shared by the outer folds.

For each split :math:`k`, the penalty and the iteration are selected by cross-validation on its
training rows, using the other splits :math:`j`. The run without the rows tested by either split
serves both selections, so K folds need :math:`K (K - 1) / 2` runs in addition to the K that leave
out one fold. All are members of the same products, and only sums of their losses are kept.

Losses of different folds are dependent: leaving out fold :math:`j` changes the selection and the
fit that predict fold :math:`k`, and vice versa. With :math:`a_{kj}` the change of the mean loss of
fold :math:`k`, the variance of the mean of all n losses is

.. math:: \mathrm{Var}(\text{loss}) / n + \mathrm{Cov}(a_{kj}, a_{jk}) ,

as in `steinpath.risk._held_out`, with folds in place of single rows. The selection without both
folds uses the existing runs: those for :math:`k`, without the losses of :math:`j`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from steinpath._support.arrays import like, namespace, to_numpy
from steinpath._support.threads import in_threads
from steinpath._support.validation import is_own
from steinpath.design._base import Design
from steinpath.design._transformed import sums_of_weights
from steinpath.engine._batch import Batch, at_a_time
from steinpath.problem._scoring import PerObservation
from steinpath.risk._held_out import Interactions, RowSample
from steinpath.risk._leave_out import BLOCKS, LeftOutRuns, losses_of_runs, shrunk_burman
from steinpath.risk._methods import split_members
from steinpath.risk._splits import Splits


class SelectionRule(NamedTuple):
    """Rule for selecting a penalty and an iteration; see `steinpath.tune`."""

    lams: np.ndarray
    rule: str
    iterate: int | None  # if it is given
    reach: np.ndarray | None = None  # (L,): number of iterations to select from; None for all

    def __call__(self, risks: np.ndarray, parts: np.ndarray) -> tuple[int, int]:
        """Return the indices of the selected penalty and iteration, given risks (L, T).

        Mean losses in J parts of the rows, (J, L, T), give the noise of their differences.
        """
        members = np.arange(len(risks))
        if self.reach is not None:
            beyond = np.arange(risks.shape[1]) >= self.reach[:, None]
            risks = np.where(beyond, np.inf, risks)
        at = risks.argmin(axis=1) if self.iterate is None else np.full(len(risks), self.iterate)
        behind = risks[members, at] - risks[members, at].min()
        chosen = int(behind.argmin())
        if self.rule == "one_se" and len(parts) > 1:
            gaps = parts[:, members, at] - parts[:, [chosen], [at[chosen]]]
            close = behind <= gaps.std(axis=0, ddof=1) / math.sqrt(len(parts))
            chosen = int(np.where(close, self.lams, -np.inf).argmax())
        return chosen, int(at[chosen])


def cells_of(splits: Splits) -> tuple[Splits, np.ndarray]:
    """Return the splits of cells, sets of rows that all splits treat alike, and each row's cell."""
    K = splits.n_splits
    if splits.complete and splits.fold is not None:
        alike = Splits.of_folds(np.arange(K), K)
        return alike, splits.fold
    both = np.concatenate([splits.train, splits.test], axis=1)
    kinds, cell = np.unique(both, axis=0, return_inverse=True)
    return Splits(kinds[:, :K] > 0, kinds[:, K:]), cell.reshape(-1)


class InnerRuns(NamedTuple):
    """Runs of nested cross-validation, without the rows of one split and without those of two."""

    #: Training rows of each run, of shape (n, R); those of the K splits come first.
    train: np.ndarray
    #: Run that serves the selection for the first split by testing on the second. Pairs without
    #: training or test rows are omitted.
    of_pair: dict[tuple[int, int], int]

    @classmethod
    def of(cls, splits: Splits) -> InnerRuns:
        """Return the runs for splits, with each set of rows once."""
        K, columns = splits.n_splits, list(splits.train.T)
        known = {column.tobytes(): k for k, column in reversed([*enumerate(columns)])}
        of_pair = {}
        for k in range(K):
            for j in range(K):
                # a run that never uses the rows tested by k serves as it is, e.g. that of an
                # earlier window
                both = splits.train[:, j]
                if (both & (splits.test[:, k] > 0)).any():
                    both = splits.train[:, k] & both
                tested = splits.train[:, k] & (splits.test[:, j] > 0)
                if j == k or not both.any() or not tested.any():
                    continue
                name = both.tobytes()
                if name not in known:
                    known[name] = len(columns)
                    columns.append(both)
                of_pair[k, j] = known[name]
        return cls(np.stack(columns, axis=1), of_pair)


class _Tests(NamedTuple):
    """Results of J other splits on the training rows of one split."""

    others: list[int]
    rows: np.ndarray  # (J,): number of these rows that each tests, or their weight
    losses: list[np.ndarray]  # (L, T) each: their mean losses
    #: For Burman's correction: mean loss over all of these rows of the runs without the tested ones
    #: (J, L, T), and of the run with them (L, T).
    everywhere: Any = None
    train: Any = None


class NestedSelection:
    """Selections among the first ``length`` iterations, without the rows on which they are tested.

    `choices` has a penalty and an iteration for each split; None if it has no rows to select by.
    """

    def __init__(
        self,
        batch: Batch,
        criteria: Sequence[PerObservation],
        splits: Splits,
        runs: InnerRuns,
        selection_rule: SelectionRule,
        length: int,
        design: Design | None = None,
    ):
        self._splits, self._runs, self._rule = splits, runs, selection_rule
        self._cells, cell = cells_of(splits)
        #: Sums of the weights of the rows of each cell; numbers of rows if all are 1.
        self._sizes = np.bincount(cell, batch.data.sample_weight)
        self._tested = sums_of_weights(batch.data.design, splits.test)
        self._sums = self._loss_sums(batch, criteria, cell, length, design)
        self._all_tests = [self._tests(k) for k in range(splits.n_splits)]
        self.choices = [self._choose(tests) for tests in self._all_tests]

    def _loss_sums(
        self,
        batch: Batch,
        criteria: Sequence[PerObservation],
        cell: np.ndarray,
        length: int,
        design: Design | None,
    ) -> np.ndarray:
        """Return the sums of losses over each cell, of shape (R, C, L, length)."""
        train, xp = self._runs.train, namespace(batch.data.y)
        counts, everyone = sums_of_weights(batch.data.design, train), RowSample.over(batch.data)
        C, R = len(self._sizes), train.shape[1]
        # a user-defined criterion may not be thread-safe
        threads = batch.threads(R) if all(map(is_own, criteria)) else 1
        portions = split_members(batch, at_a_time(batch, R * BLOCKS), threads)
        local = batch.data.design.local(cell)

        def sums(members: list[int]) -> np.ndarray:
            part = batch.part(members)
            runs = LeftOutRuns(part, ~train, counts, design)
            steps, indicator, y = [], None, part.data.response
            problems = part.data.members_of_problems(len(members))
            for fitted in islice(runs, length):
                each = [
                    losses_of_runs(
                        criteria[members[own[0]]],
                        y[:, k],
                        fitted[:, own[0] * R : (own[-1] + 1) * R] if len(problems) > 1 else fitted,
                    )
                    for k, own in enumerate(problems)
                ]
                losses = each[0] if len(each) == 1 else xp.concat(each, axis=0)
                if indicator is None:
                    cells = like(np.arange(C)[:, None] == local, losses)
                    indicator = everyone.counted(cells)
                steps.append(indicator @ losses.T)
            # a copy to the host synchronises with the device: copy all steps at once
            totals = to_numpy(xp.stack(steps)).astype(float, copy=False)
            return totals.reshape(length, C, len(members), R)

        with np.errstate(over="ignore", invalid="ignore"):  # the result is checked instead
            totals = np.concatenate(in_threads(sums, portions, threads), axis=2)
            totals = batch.data.design.over_rows(totals)
        if not np.isfinite(totals).all():
            raise FloatingPointError(
                "the loss on held-out rows is not finite; use smaller step sizes, or None for safe "
                "ones"
            )
        return np.ascontiguousarray(totals.transpose(3, 1, 2, 0))

    def _mean(self, run: int, cells: np.ndarray) -> np.ndarray:
        """Return the mean losses (L, T) of a run over weighted cells."""
        total = np.tensordot(cells, self._sums[run], axes=1)
        return np.asarray(total / (cells @ self._sizes), dtype=float)

    def _tests(self, k: int) -> _Tests:
        """Return the results of the other splits on the training rows of split k."""
        cells, own = self._cells, self._cells.train[:, k].astype(float)
        others = [j for first, j in self._runs.of_pair if first == k]
        tested = [own * cells.test[:, j] for j in others]
        runs = [self._runs.of_pair[k, j] for j in others]
        losses = [self._mean(run, cell) for run, cell in zip(runs, tested, strict=True)]
        sizes = np.array([cell @ self._sizes for cell in tested])
        if not self._splits.complete:
            return _Tests(others, sizes, losses)
        everywhere = np.stack([self._mean(run, own) for run in runs])
        return _Tests(others, sizes, losses, everywhere, self._mean(k, own))

    def _choose(self, tests: _Tests, without: int | None = None) -> tuple[int, int] | None:
        """Select by the tests of a split, except those by another one."""
        used = [place for place, j in enumerate(tests.others) if j != without]
        if not used:
            return None
        weights = tests.rows[used] / tests.rows[used].sum()
        parts = np.stack([tests.losses[place] for place in used])
        risks = np.tensordot(weights, parts, axes=1)
        if self._splits.complete:
            everywhere = np.tensordot(weights, tests.everywhere[used], axes=1)
            risks = risks + shrunk_burman(tests.train, everywhere, risks)
        return self._rule(risks, parts)

    def optimism(self, train: Sequence[np.ndarray]) -> float:
        """Return Burman's correction at the selections, given training errors of all paths."""
        if not self._splits.complete:
            return 0.0
        everyone, totals = np.ones(len(self._sizes)), np.zeros(3)
        for k, choice in enumerate(self.choices):
            assert choice is not None
            share = self._tested[k] / self._tested.sum()
            sets = everyone, self._cells.test[:, k]
            member, t = choice
            means = [train[member][t], *(self._mean(k, cells)[choice] for cells in sets)]
            totals += share * np.array(means)
        return float(shrunk_burman(*totals))

    def changes(self) -> Interactions | None:
        """Return the dependence between the mean losses of pairs of folds; see the module."""
        of_pair, K = self._runs.of_pair, self._splits.n_splits
        pairs = [(k, j) for k in range(K) for j in range(k + 1, K) if (k, j) in of_pair]
        if not self._splits.complete or len(pairs) < 3:
            return None
        changes = np.array([[self._change(k, j), self._change(j, k)] for k, j in pairs])
        # all have the mean effect of training on fewer rows
        return Interactions((changes - changes.mean())[None, ...])

    def _change(self, k: int, j: int) -> float:
        """Return the decrease of the mean loss of fold k when fold j is left out as well."""
        one, both = self.choices[k], self._choose(self._all_tests[k], without=j)
        assert one is not None
        assert both is not None
        tested = self._cells.test[:, k]
        run = self._runs.of_pair[k, j]
        return float(self._mean(k, tested)[one] - self._mean(run, tested)[both])
