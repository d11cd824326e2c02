"""Check whether the selected penalty is at an end of the grid, where a wider grid may be better."""

from __future__ import annotations

import numpy as np

from steinpath.risk._stopping import worth
from steinpath.tuning._tuning import Tuning


def end_of_grid(tuning: Tuning, same_iterate: bool = False) -> str | None:
    """Return the end of the grid that was selected, "smallest" or "largest", if it matters.

    With many more rows than columns the smallest penalty is often the best, and smaller ones are as
    good. So an end is returned only if the risk there is lower than at the next penalty by more
    than a standard error of the difference, and if penalties beyond it promise a noticeable
    improvement. Below the smallest, the risk is extrapolated linearly to a penalty of zero.

    Parameters
    ----------
    tuning : Tuning
        The result of the search.
    same_iterate : bool, default=False
        Whether the iteration was given instead of being selected with the penalty.

    Returns
    -------
    str or None
        None if extending the grid is not worthwhile.
    """
    k, t = tuning.best
    order = np.argsort(tuning.lams, kind="stable")
    place = int(np.flatnonzero(order == k)[0])
    if len(order) < 2 or place not in (0, len(order) - 1):
        return None
    end, neighbour = ("smallest", order[1]) if place == 0 else ("largest", order[-2])
    at = t if same_iterate else tuning.risks[neighbour].best_iter
    fall, stderr = tuning.compare((int(neighbour), at), tuning.best)
    lam, beside = tuning.lams[k], tuning.lams[neighbour]
    promise = (
        fall * float(lam / max(beside - lam, np.spacing(beside))) if end == "smallest" else fall
    )
    return end if fall > stderr and promise > worth(tuning.risks[k], t) else None
