"""Grids of penalties: several values of ``lam`` and the corresponding penalties."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from steinpath._support.arrays import to_numpy
from steinpath._support.validation import check_array, check_number
from steinpath.problem._penalties import Penalty

#: Function from ``lam`` to a penalty.
PenaltyOf = Callable[[float], Penalty]

#: Maximum number of penalties on a grid; each has its own path.
MOST_LAMS = 10**4
#: Upper bound of ``lam`` that leaves room for other factors before overflow.
LARGEST_LAM = 1e300


def check_lam_values(name: str, values: Any) -> np.ndarray:
    """Return an array of nonnegative values of ``lam``."""
    lams = to_numpy(check_array(name, values, ndim=1)).astype(float)
    for extreme in (lams.min(), lams.max()):
        check_number(name, float(extreme), low=0, high=LARGEST_LAM)
    return lams


def make_penalty(penalty: PenaltyOf, lam: float) -> Penalty:
    """Return the penalty for one ``lam``; refuse arguments that are not functions of it."""
    if isinstance(penalty, Penalty) or not callable(penalty):
        raise TypeError(
            "penalty must be a function of lam, such as sp.Lasso itself or "
            f"functools.partial(sp.MCP, gamma=2.5); got {penalty!r:.60}"
        )
    try:
        made = penalty(float(lam))
    except TypeError as error:
        raise TypeError(f"penalty must be a function of lam alone: {error}") from error
    if not isinstance(made, Penalty):
        raise TypeError(
            f"penalty(lam) must return a Penalty such as sp.Lasso(lam), got {made!r:.60}"
        )
    return made
