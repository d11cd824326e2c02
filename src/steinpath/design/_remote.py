"""Rows that are not in this process."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from steinpath._support.arrays import Array
from steinpath.design._base import Design


class RemoteDesign(Design):
    """Rows that are not here, so that runs go where they are."""

    @abstractmethod
    def run(
        self,
        y: Any,
        loss: Any,
        penalty: Any,
        algorithm: Any,
        n_iter: int,
        fit_intercept: bool,
        stop: Any,
        sample_weight: Any,
    ) -> Any:
        """Do as `steinpath.run`; algorithm, penalty and ``n_iter`` were checked."""

    def matmat(self, block: Array) -> Array:
        raise self._not_here()

    def rmatmat(self, block: Array) -> Array:
        raise self._not_here()

    def row_squares(self, center: Array | None = None) -> Array:
        raise self._not_here()

    def _not_here(self) -> NotImplementedError:
        return NotImplementedError(
            f"the rows of {self!r} are not in this process: sp.run works on them, and "
            "sp.estimate_risk on its paths with method='compressed' and without an audit; "
            "for all else, give X as an array"
        )
