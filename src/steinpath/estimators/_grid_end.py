"""Whether the choice fell on an end of the grid of penalties where it matters."""

from __future__ import annotations

import numpy as np

from steinpath._tuning import Tuning

# A difference of less than this share of the risk is no reason to try other penalties.
_WORTH = 5e-3


def end_of_grid(tuning: Tuning, same_iterate: bool = False) -> str | None:
    """Return which end of the grid was chosen, "smallest" or "largest", if others may be better.

    With many rows for the columns the smallest penalty is often the best, and smaller ones are as
    good. So an end counts only if the risk there is lower than at the next penalty by more than a
    standard error of the difference, and by more than a trifle.

    Parameters
    ----------
    tuning : Tuning
        The choice.
    same_iterate : bool, default=False
        Whether the iterate was given, and not chosen with the penalty.
    """
    k, t = tuning.best
    order = np.argsort(tuning.lams, kind="stable")
    place = int(np.flatnonzero(order == k)[0])
    if len(order) < 2 or place not in (0, len(order) - 1):
        return None
    end, step = ("smallest", 1) if place == 0 else ("largest", -1)
    neighbour = int(order[place + step])
    at = t if same_iterate else tuning.risks[neighbour].best_iter
    fall, stderr = tuning.compare((neighbour, at), tuning.best)
    worth = _WORTH * abs(float(tuning.risks[k].values[t]))
    return end if fall > max(stderr, worth) else None
