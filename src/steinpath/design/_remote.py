"""Rows that are not in this process."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np

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

    @abstractmethod
    def scaled(self, scale: Any) -> RemoteDesign:
        """Return the same rows with columns divided by numbers, in each product."""

    @abstractmethod
    def column_moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Means and standard deviations of the columns."""

    @abstractmethod
    def tune(
        self,
        y: Any,
        loss: Any,
        penalty: Any,
        grid: tuple[Any, float | None],
        algorithm: Any,
        fit_intercept: bool,
        options: Any,
        rng: Any,
        rule: str,
        iterate: int | None,
        n_iter: int | None,
    ) -> Any:
        """Do as `steinpath.tune`; the algorithm, the options and ``n_iter`` were checked.

        The grid is ``lams`` and ``lam_ratio``.
        """
