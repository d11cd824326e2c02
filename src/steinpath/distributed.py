"""X as blocks of rows on the workers of a Dask cluster: the public names of `steinpath.cluster`."""

from steinpath.cluster import (
    DistributedDesign,
    DistributedPath,
    DistributedTuning,
    OutOfStep,
    WorkerLost,
    from_dask_array,
    from_delayed,
    from_files,
)

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
