"""Monte Carlo studies: the paper's experiments and further checks of its theory.

>>> import tempfile
>>> from steinpath.study import STUDIES, Sizes, run_study
>>> sizes = Sizes(reps=2, n=(40,), p=(20,), iters=5)
>>> with tempfile.TemporaryDirectory() as folder:
...     report = run_study(STUDIES["risk"], folder, sizes)
>>> report.finished, len(report.summary)
(16, 16)

A study is a list of configurations with functions that turn their replications into tables and
figures (`base`). A replication draws data, runs a path and estimates its risk (`replicate`; for
classification, `classify`), computes confidence intervals for coefficients (`infer`), or tunes a
model and checks its error estimate and prediction intervals (`choose`). Each replication is stored
in its own file (`store`). The runner computes missing replications (`runner`) on this machine or a
cluster (`parallel`), or in batches on a device (`lanes`).
"""

from steinpath.study._base import Exhibit, Sizes, Study
from steinpath.study._choice import CHOICE
from steinpath.study._coverage import COVERAGE
from steinpath.study._curves import RISK, UNIVERSALITY
from steinpath.study._intervals import INTERVALS
from steinpath.study._margins import MARGINS
from steinpath.study._misspecified import MISSPECIFIED
from steinpath.study._rates import RATES
from steinpath.study._runner import Report, run_study
from steinpath.study._settings import Configuration
from steinpath.study._stopping import STOPPING
from steinpath.study._store import StudyError

#: All studies by name.
STUDIES: dict[str, Study] = {
    study.name: study
    for study in (
        RISK,
        UNIVERSALITY,
        RATES,
        STOPPING,
        COVERAGE,
        MISSPECIFIED,
        CHOICE,
        MARGINS,
        INTERVALS,
    )
}

__all__ = [
    "STUDIES",
    "Configuration",
    "Exhibit",
    "Report",
    "Sizes",
    "Study",
    "StudyError",
    "run_study",
]
