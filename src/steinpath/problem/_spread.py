"""The unit in which estimators and the command take sizes of residuals, such as Huber's delta."""

from __future__ import annotations

import numpy as np

from steinpath._support.arrays import Array, to_numpy
from steinpath._support.validation import check_choice
from steinpath.problem._losses import LAD, Loss
from steinpath.problem._scoring import CRITERIA, TestLoss

# Median absolute deviation of the standard Gaussian.
_GAUSSIAN_MAD = 0.6744897501960817


def robust_spread(y: Array, weights: Array | None = None) -> float:
    """Return the standard deviation of a Gaussian of the same median absolute deviation.

    Where that is zero, since more than half of the responses are equal, it is the plain standard
    deviation; of a constant, its size; and of zeros 1. So it is positive, and in units of y.

    Parameters
    ----------
    y : Array of shape (n,)
        The responses.
    weights : Array of shape (n,), optional
        How often each of them counts.
    """
    y = to_numpy(y)
    precision = np.finfo(y.dtype if y.dtype.kind == "f" else float).eps
    median = LAD().location(y, weights)
    gaps = y.astype(float) - median
    deviation = LAD().location(np.abs(gaps), weights) / _GAUSSIAN_MAD
    if deviation > 10 * precision * abs(median):  # and is not rounding
        return deviation
    largest = float(np.abs(gaps).max())
    if largest > 10 * precision * abs(median):
        gaps = gaps / largest  # whose squares neither overflow nor underflow
        mean = np.average(gaps, weights=weights)
        return largest * float(np.sqrt(np.average((gaps - mean) ** 2, weights=weights)))
    return abs(median) or 1.0


def scaled_test_loss(test_loss: TestLoss, loss: Loss, spread: float) -> TestLoss:
    """Return a test loss that was given by name, with its width in robust standard deviations.

    Others are returned as they are: those without a width, those of a user's own, and the one that
    has the width of the loss that is minimised.
    """
    if not isinstance(test_loss, str):
        return test_loss
    kind = CRITERIA[check_choice("test_loss", test_loss, CRITERIA)]
    spec, own = kind.parameter_spec, loss.parameter_spec
    if spec is None or not spec.in_units_of_y or (own is not None and own.name == spec.name):
        return test_loss
    return kind(spec.in_units(spec.default, spread))
