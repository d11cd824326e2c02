"""What `import steinpath` loads, and what it leaves for later."""

import subprocess
import sys


def loaded_by(code):
    printed = subprocess.run(
        [sys.executable, "-c", f"{code}; import sys; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    return {name.split(".")[0] for name in printed.stdout.split()}


def test_heavy_things_are_imported_when_used():
    extra = loaded_by("import steinpath") - loaded_by("import sklearn.linear_model")
    heavy = {"matplotlib", "torch", "dask", "distributed", "plotly", "jinja2", "pyarrow", "pandas"}
    assert not extra & heavy


def test_the_command_does_not_draw_before_it_must():
    assert not loaded_by("import steinpath.app.cli") & {
        "matplotlib",
        "torch",
        "dask",
        "distributed",
    }
