"""Monte Carlo studies: the paper's experiments and further checks of its theory.

>>> import tempfile
>>> from steinpath.study import STUDIES, Sizes, run_study
>>> sizes = Sizes(reps=2, n=(40,), p=(20,), iters=5)
>>> with tempfile.TemporaryDirectory() as folder:
...     report = run_study(STUDIES["risk"], folder, sizes)
>>> report.finished, len(report.summary)
(16, 16)

A study (`_base`, in `_paths` or `_models`) is a list of configurations (`_settings`). A replication
(`_replicate`, `_kinds`) draws data (`_scenarios`), runs a path and estimates its risk. The runner
(`_runner`, `_parallel`) stores each in its own file (`_store`), and writes tables and figures.
"""

from steinpath.study._base import Exhibit, Sizes, Study
from steinpath.study._models import CHOICE, INTERVALS, MARGINS
from steinpath.study._output import as_markdown, cell
from steinpath.study._parallel import connected
from steinpath.study._paths import COVERAGE, LATE, MISSPECIFIED, RATES, RISK, STOPPING, UNIVERSALITY
from steinpath.study._runner import Report, check_backend, run_study
from steinpath.study._settings import Configuration
from steinpath.study._store import StudyError

_ALL = (
    *(RISK, UNIVERSALITY, RATES, STOPPING, COVERAGE, MISSPECIFIED, LATE),
    *(CHOICE, MARGINS, INTERVALS),
)
#: All studies by name.
STUDIES: dict[str, Study] = {study.name: study for study in _ALL}

__all__ = ["STUDIES", "Configuration", "Exhibit", "Report", "Sizes", "Study", "StudyError"]
__all__ += ["as_markdown", "cell", "check_backend", "connected", "run_study"]
