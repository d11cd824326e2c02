"""Install the wheel of dist/ in a clean environment and use it; run by `make dist`.

    python tools/check_dist.py

Checks that the wheel and the source archive have one version and all data files, that the wheel
needs nothing but its declared dependencies, and that the command fits, reports and predicts.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "steinpath"


def check_contents(folder: Path) -> Path:
    """Check what the archives hold; return the wheel."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    name = f"steinpath-{project['version']}"
    wheel, archive = folder / f"{name}-py3-none-any.whl", folder / f"{name}.tar.gz"
    if set(folder.iterdir()) != {wheel, archive}:
        raise SystemExit(f"expected {wheel.name} and {archive.name} alone in {folder}")
    files = {
        path.relative_to(PACKAGE.parent).as_posix()
        for path in PACKAGE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    with zipfile.ZipFile(wheel) as opened:
        missing = files - set(opened.namelist())
    with tarfile.open(archive) as packed:
        missing |= (
            {f"src/{file}" for file in files}
            - {member.removeprefix(f"{name}/") for member in packed.getnames()}
            - {f"src/{file}" for file in missing}
        )
    if missing:
        raise SystemExit(f"files missing from the archives: {', '.join(sorted(missing))}")
    return wheel


def check_installed(wheel: Path, folder: Path) -> None:
    """Install the wheel in a new environment, and run the command in a folder of its own."""
    venv.create(folder / "environment", with_pip=True)
    scripts = folder / "environment" / ("Scripts" if os.name == "nt" else "bin")
    shutil.copy(ROOT / "examples" / "data" / "houses.csv", folder / "houses.csv")

    def run(name: str, *arguments: str) -> str:
        command = [str(scripts / name), *arguments]
        environment = {key: x for key, x in os.environ.items() if key != "PYTHONPATH"}
        done = subprocess.run(
            command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True
        )
        if done.returncode:
            raise SystemExit(f"{' '.join(command)} ended with exit code {done.returncode}")
        return done.stdout

    # the extra with which the command reads files
    extra = f"{wheel}[files]"
    run("python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", extra)
    run("python", "-m", "pip", "check")
    run("python", "-c", "import steinpath as sp; sp.LADLasso, sp.load_model")
    print(run("steinpath", "--version").strip())
    run("steinpath", "fit", "houses.csv", "--target", "price", "--no-plots")
    written = {path.name for path in (folder / "houses-fit").iterdir()}
    if not written >= {"model.json", "report.html", "risk.csv"}:
        raise SystemExit(f"steinpath fit wrote {', '.join(sorted(written))} only")
    lines = run("steinpath", "predict", "houses-fit/model.json", "houses.csv").splitlines()
    if len(lines) != 401:
        raise SystemExit(f"steinpath predict wrote {len(lines)} lines instead of 401")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        check_installed(check_contents(ROOT / "dist"), Path(temporary))
    print(f"installed and used in a clean environment: {sys.platform}")
