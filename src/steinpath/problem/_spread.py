"""Robust standard deviation of y, the unit of residual sizes such as Huber's delta."""

from __future__ import annotations

import numpy as np

from steinpath._support.arrays import Array, to_numpy
from steinpath._support.validation import check_choice
from steinpath.problem._losses import LAD, Loss
from steinpath.problem._scoring import CRITERIA, TestLoss

# Median absolute deviation of the standard Gaussian.
_GAUSSIAN_MAD = 0.6744897501960817


def robust_spread(y: Array, weights: Array | None = None) -> float:
    """Return the median absolute deviation of y, scaled to the standard deviation of a Gaussian.

    If more than half of the responses are equal, the standard deviation is used instead; for
    constant responses their absolute value, and 1 for zeros. The result is positive and in units of
    y.

    Parameters
    ----------
    y : Array of shape (n,)
        The responses.
    weights : Array of shape (n,), optional
        Weight of each response.
    """
    y = to_numpy(y)
    precision = np.finfo(y.dtype if y.dtype.kind == "f" else float).eps
    median = LAD().location(y, weights)
    gaps = y.astype(float) - median
    deviation = LAD().location(np.abs(gaps), weights) / _GAUSSIAN_MAD
    if deviation > 10 * precision * abs(median):  # larger than rounding errors
        return deviation
    largest = float(np.abs(gaps).max())
    if largest > 10 * precision * abs(median):
        gaps = gaps / largest  # squares then neither overflow nor underflow
        mean = np.average(gaps, weights=weights)
        return largest * float(np.sqrt(np.average((gaps - mean) ** 2, weights=weights)))
    return abs(median) or 1.0


def scaled_test_loss(test_loss: TestLoss, loss: Loss, spread: float) -> TestLoss:
    """Return a scoring loss given by name with its width in robust standard deviations.

    Other scoring losses are returned unchanged: those without a width, user-defined ones, and those
    that share the width of the minimised loss.
    """
    if not isinstance(test_loss, str):
        return test_loss
    kind = CRITERIA[check_choice("test_loss", test_loss, CRITERIA)]
    spec, own = kind.parameter_spec, loss.parameter_spec
    if spec is None or not spec.in_units_of_y or (own is not None and own.name == spec.name):
        return test_loss
    return kind(spec.in_units(spec.default, spread))
