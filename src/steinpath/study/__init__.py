"""Monte Carlo studies: the paper's numerical section, and what its theory suggests besides.

>>> import tempfile
>>> from steinpath.study import STUDIES, Sizes, run_study
>>> sizes = Sizes(reps=2, n=(40,), p=(20,), iters=5)
>>> with tempfile.TemporaryDirectory() as folder:
...     report = run_study(STUDIES["risk"], folder, sizes)
>>> report.finished, len(report.summary)
(16, 16)

A study is a plan of settings, and what to make of their replications (`base`). A replication draws
data, runs a path and estimates its risk (`replicate`; with labels, `classify`), computes intervals
for its coefficients (`infer`), or tunes a model and asks how well its own estimates hold
(`choose`); it is kept as a file of its own (`store`).
The runner does those that are missing (`runner`), here or on a cluster (`parallel`), or in batches
on a device (`lanes`).
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
from steinpath.study._settings import Setting
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
    "Exhibit",
    "Report",
    "Setting",
    "Sizes",
    "Study",
    "StudyError",
    "run_study",
]
