r"""How much the losses of two observations have to do with each other.

A mean of n independent losses has the variance of one of them over n. Losses of predictions that
were fitted to the other observations are not independent: with :math:`a_{ij}` the change of the
loss of observation i when j is left out of the fit that predicts it, the error of leave-one-out
as an estimate of the risk of the fit at hand has, besides, the variance

.. math:: \frac1{n^2} \sum_{i<j} (a_{ij} + a_{ji})^2 \approx \tfrac12 E (a_{ij} + a_{ji})^2 ,

the pairs being uncorrelated with each other and with the losses (the second term of Hoeffding's
decomposition). In p dimensions each :math:`a_{ij}` is of order :math:`n^{-1/2}` once p is in
proportion to n, so that this is as large as the first term, or larger for flexible fits.

Runs that leave out a sample of the rows, one each, know all pairs among them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from steinpath._arrays import Array, like, namespace
from steinpath.scoring import PerObservation, observation_losses

# Rows whose pairs are looked at, at most; two thousand pairs are enough for a variance.
_SAMPLE = 64
# Entries that the pairs may have, over all iterates.
_ENTRIES = 2**22


def sample_size(n_rows: int, n_iter: int) -> int:
    """Return how many of the rows to look at."""
    return min(n_rows, _SAMPLE, max(math.isqrt(_ENTRIES // (n_iter + 1)), 2))


@dataclass(frozen=True, eq=False)
class Interactions:
    """Pairs among a sample of k rows.

    Attributes
    ----------
    pairs : Array of shape (n_iter + 1, k, k)
        ``a_ij + a_ji`` of each iterate; zero on the diagonal.
    """

    pairs: Array

    def variance(self) -> Array:
        """Variance of the mean loss that is due to the pairs, for each iterate."""
        return self._variance(self.pairs)

    def variance_between(self, t1: int, t2: int) -> float:
        """Return the same for the difference between two iterates."""
        return float(self._variance(self.pairs[t1 : t1 + 1, ...] - self.pairs[t2 : t2 + 1, ...])[0])

    @staticmethod
    def _variance(pairs: Array) -> Array:
        k = pairs.shape[1]
        return namespace(pairs).sum(pairs**2, axis=(1, 2)) / max(2 * k * (k - 1), 1)


def interactions(
    criterion: PerObservation, y: Array, fitted: Array, left_out: Array
) -> Interactions:
    """Compare the losses of a sample of rows when one or two of them are left out.

    Parameters
    ----------
    criterion : callable
        Test loss.
    y : Array of shape (k,)
        Responses of the rows.
    fitted : Array of shape (n_iter + 1, k)
        Their fitted values.
    left_out : Array of shape (n_iter + 1, k, k)
        Fitted value of row i by the run that leaves out row j.
    """
    xp = namespace(y)
    T, k = fitted.shape
    own = xp.linalg.diagonal(left_out)  # of each row, when it is left out itself
    # without j as well, it moves by as much as the fitted value does
    both = own[:, None, :] + xp.matrix_transpose(left_out) - fitted[:, None, :]
    losses = xp.reshape(observation_losses(criterion, y, xp.reshape(both, (T * k, k))), (T, k, k))
    changes = losses - observation_losses(criterion, y, own)[:, None, :]
    changes = changes * like(1 - np.eye(k), y)
    return Interactions(changes + xp.matrix_transpose(changes))
