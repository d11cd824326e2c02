"""Designs distributed over the workers of a Dask cluster as blocks of rows.

Create a design with `from_dask_array`, `from_files` or `from_delayed` and pass it to
`steinpath.run`, `steinpath.tune` or an estimator in place of X. These also accept Dask arrays
directly. Dask is imported on first use.
"""

from __future__ import annotations

from steinpath.cluster._calls import OutOfStep, WorkerLost
from steinpath.cluster._design import DistributedDesign, from_dask_array, from_delayed, from_files

__all__ = ["DistributedDesign", "OutOfStep", "WorkerLost", "from_dask_array", "from_delayed"]
__all__ += ["from_files"]
