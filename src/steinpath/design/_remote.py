"""Rows stored in other processes."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np

from steinpath.design._base import Design


class RemoteDesign(Design):
    """Design with rows in other processes, to which runs are sent."""

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
        """Run as `steinpath.run`, with algorithm, penalty and ``n_iter`` already checked."""

    @abstractmethod
    def scaled(self, scale: Any) -> RemoteDesign:
        """Return the same rows with columns divided by ``scale`` in each product."""

    @abstractmethod
    def column_moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Return means and standard deviations of the columns."""

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
        """Tune as `steinpath.tune`, with the algorithm, the options and ``n_iter`` already checked.

        ``lams`` and ``lam_ratio`` define the grid.
        """
