"""Designs distributed over a Dask cluster: the public names of `steinpath.cluster`.

Create a design with `from_dask_array`, `from_files` or `from_delayed` and pass it to
`steinpath.run`, `steinpath.tune` or an estimator in place of X.
"""

from steinpath.cluster import *  # noqa: F403
from steinpath.cluster import __all__ as __all__
