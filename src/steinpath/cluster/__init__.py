"""X as blocks of rows on the workers of a Dask cluster.

Make a design by `from_dask_array`, `from_files` or `from_delayed` and give it to `steinpath.run`,
`steinpath.tune` or an estimator in place of X; Dask arrays may be given to them as they are. Dask
is imported only when one of these is called.
"""

from __future__ import annotations

from steinpath.cluster._conversation import OutOfStep, WorkerLost
from steinpath.cluster._design import DistributedDesign, from_dask_array, from_delayed, from_files
from steinpath.cluster._path import DistributedPath
from steinpath.cluster._tuning import DistributedTuning

__all__ = [
    "DistributedDesign",
    "DistributedPath",
    "DistributedTuning",
    "OutOfStep",
    "WorkerLost",
    "from_dask_array",
    "from_delayed",
    "from_files",
]
