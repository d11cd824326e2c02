"""Paths with their risk options resolved: the input of all methods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from steinpath._support.arrays import Array, to_numpy
from steinpath.engine._batch import Batch
from steinpath.engine._path import Path
from steinpath.engine._traces import row_squares_of, second_moments
from steinpath.problem._scoring import PerObservation, about_level
from steinpath.risk._options import RiskOptions


class Problem(NamedTuple):
    """A path with its risk options resolved."""

    path: Path
    options: RiskOptions
    criterion: PerObservation
    rng: np.random.Generator
    moments: Array | None = None
    row_squares: Array | None = None


def make_problems(
    batch: Batch, options: RiskOptions, rngs: Sequence[np.random.Generator]
) -> list[Problem]:
    """Resolve the options for each path of a batch."""
    options = options.for_rows(to_numpy(batch.data.all_y))
    scale = None if options.scale_by_audit else options.row_scale
    test_loss = options.criterion(batch.data.loss)
    problems: list[Problem] = []
    for path, rng in zip(batch, rngs, strict=True):
        known = problems[0] if problems and path.design is problems[0].path.design else None
        if known is not None:  # for the same design
            moments, squares = known.moments, known.row_squares
        else:
            moments = None
            if options.covariance is not None:
                # without an intercept, they are the same for all members
                same = problems and not path.fit_intercept
                moments = problems[0].moments if same else second_moments(path, options.covariance)
            squares = row_squares_of(path, scale)
        # class weights depend on the labels of all rows
        y = path.data.all_y if path.loss.margin else path.y
        criterion = about_level(test_loss, y, path.level)
        problems.append(Problem(path, options, criterion, rng, moments, squares))
    return problems
