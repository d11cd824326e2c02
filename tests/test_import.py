"""What `import steinpath` loads, and what it leaves for later."""

import subprocess
import sys
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

import pytest

import steinpath as sp
from steinpath.app.cli.entry import COMMANDS

TOOLS = Path(__file__).parents[1] / "tools"


def loaded_by(code):
    printed = run_python(f"{code}; import sys; print(*sys.modules)")
    return {name.split(".")[0] for name in printed.split()}


def run_python(program):
    command = [sys.executable, "-c", program]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_the_package_alone_imports_nothing_that_takes_time():
    assert not loaded_by("import steinpath.__main__") & {"numpy", "scipy", "sklearn", "click"}


def test_all_public_names_come_with_the_first():
    code = "from steinpath import *; import steinpath as sp; assert LAD is sp.LAD; sp.problem.Loss"
    assert "numpy" in loaded_by(code)


def test_studies_import_what_their_replications_need_when_they_do():
    heavy = {"sklearn", "pandas", "torch", "matplotlib"}
    assert not loaded_by("import steinpath.study") & heavy


def test_the_first_use_leaves_the_random_numbers_of_python_alone():
    seeded, draw = "import random; random.seed(0)", "print(random.random())"
    fit = "LADLasso(n_alphas=2, n_iter=20).fit([[k % 5, k % 7] for k in range(40)], range(40))"
    used = run_python(f"{seeded}; import steinpath as sp; sp.{fit}; {draw}")
    assert used == run_python(f"{seeded}; {draw}")


def test_heavy_things_are_imported_when_used():
    extra = loaded_by("import steinpath; steinpath.run") - loaded_by("import sklearn.linear_model")
    heavy = {"matplotlib", "torch", "dask", "distributed", "plotly", "jinja2", "pyarrow", "pandas"}
    assert not extra & heavy


def test_the_command_does_not_draw_before_it_must():
    loaded = loaded_by("import steinpath.app.cli")
    assert not loaded & {"matplotlib", "torch", "dask", "distributed", "jinja2"}
    # scikit-learn imports pandas where it is installed, and that imports pyarrow
    assert not (loaded - loaded_by("import sklearn.linear_model")) & {"pyarrow", "pandas"}


@pytest.mark.parametrize(
    ("arguments", "heavy"),
    [(["--help"], {"numpy", "scipy", "sklearn"})]
    + [([name, "--help"], {"scipy", "sklearn", "rich", "jinja2"}) for name in COMMANDS],
)
def test_help_imports_little(arguments, heavy):
    code = (
        "import atexit, sys; atexit.register(lambda: print(*sys.modules)); "
        f"from steinpath.app.cli import main; main({arguments})"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "--help" in printed.stdout
    loaded = {name.split(".")[0] for name in printed.stdout.splitlines()[-1].split()}
    assert "click" in loaded
    assert not loaded & heavy


@pytest.mark.parametrize("name", list(COMMANDS))
def test_the_list_of_commands_describes_them_as_they_do_themselves(name):
    module, text = COMMANDS[name]
    command = getattr(import_module(f"steinpath.app.cli.{module}"), name)
    assert " ".join(command.help.split("\n\n")[0].split()).replace("`", "") == text


def test_completion_shows_the_public_names_alone():
    assert set(dir(sp)) == {*sp.__all__, "__version__"}
    assert all(getattr(sp, name) is not None for name in dir(sp))
    assert sp.__version__ == version("steinpath")
    with pytest.raises(AttributeError, match="has no attribute 'Lass'"):
        sp.Lass  # noqa: B018


@pytest.mark.parametrize(
    ("module", "source", "said"),
    [
        ("engine/_a.py", "from steinpath.risk._options import RiskOptions", "must not import risk"),
        ("engine/_a.py", "def f():\n    import steinpath.risk._options", "must not import risk"),
        ("risk/_a.py", "import steinpath as sp", "imports the package"),
        ("risk/_a.py", "from steinpath import plots", "must not import plots"),
        ("risk/_a.py", "def f():\n    from steinpath.app import models", "must not import app"),
        ("attic/_a.py", "", "is not assigned to a layer"),
        ("risk/_a.py", "def f():\n    from steinpath.plots import plot_risk", None),
        ("risk/_a.py", "from steinpath.engine._path import Path", None),
        ("risk/_a.py", "from steinpath.risk._options import RiskOptions", None),
    ],
)
def test_imports_from_above_are_found(module, source, said, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(TOOLS))
    from layers import violations

    file = tmp_path / module
    file.parent.mkdir()
    file.write_text(source)
    found = list(violations(file, tmp_path))
    assert len(found) == (said is not None)
    assert not found or said in found[0]


def test_a_dask_array_needs_no_import_of_the_clusters_module():
    """Its rows go to the workers even if `sp.distributed` was never used."""
    program = """
import numpy as np, steinpath as sp
from dask import array
from distributed import Client
with Client(processes=False, n_workers=1, threads_per_worker=2, dashboard_address=None):
    X = np.random.default_rng(0).normal(size=(30, 3))
    rows = array.from_array(X, chunks=(15, 3))
    path = sp.run(rows, X[:, 0], sp.LAD(), sp.Lasso(0.1), n_iter=5)
    print(type(path.design).__name__, sp.estimate_risk(path, rng=0).values.shape)
"""
    assert run_python(program) == "DistributedDesign (6,)"
