"""What the package may call, and what it asks to be installed: read from its sources."""

import ast
import re
import sys
import tomllib
from pathlib import Path

import pytest

import steinpath

ROOT = Path(steinpath.__file__).parent
PROJECT = Path(__file__).parents[2] / "pyproject.toml"

# What reads or runs something as code, or reaches beyond this process.
FORBIDDEN_MODULES = {
    "_pickle", "code", "codeop", "commands", "ctypes", "dill", "ftplib", "http", "httpx",
    "imaplib", "marshal", "nntplib", "pickle", "poplib", "pty", "requests", "runpy", "shelve",
    "smtplib", "socket", "socketserver", "ssl", "subprocess", "telnetlib", "urllib", "urllib3",
    "webbrowser", "xmlrpc", "cloudpickle", "yaml",
}  # fmt: skip
FORBIDDEN_CALLS = {
    "eval", "exec", "compile", "__import__", "breakpoint", "os.system", "os.popen", "os.execv",
    "os.execve", "os.execvp", "os.fork", "os.spawnv", "os.posix_spawn", "joblib.load",
    "torch.load", "pandas.read_pickle", "pd.read_pickle", "importlib.import_module",
    "import_module",
}  # fmt: skip
# What is forbidden and there all the same, each with its reason.
ALLOWED = {
    ("cluster/_session.py", "pickle"): "an error of its own, to see whether it can be sent",
    ("cluster/_messages.py", "pickle"): "messages between the workers of one computation",
    ("cluster/_messages.py", "cloudpickle"): "messages between the workers of one computation",
    ("cluster/_dask.py", "cloudpickle"): "messages between the workers of one computation",
    ("_support/cells.py", "import_module"): "pandas or polars, for results as data frames",
    ("_public.py", "import_module"): "names imported on first use, from a table of its own",
    ("app/cli/entry.py", "import_module"): "commands by their names, from a table of its own",
    ("design/_conversion.py", "import_module"): "its own folder for Dask's arrays, by a fixed name",
}
TREES = {
    path.relative_to(ROOT).as_posix(): ast.parse(path.read_text(encoding="utf-8"))
    for path in sorted(ROOT.rglob("*.py"))
}


def modules(tree):
    """Names of the modules that are imported, wherever it may be."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield node.module


def calls(tree):
    """Calls, by the dotted name of what is called."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func), node


def offences(name, tree):
    for module in modules(tree):
        if module.split(".")[0] in FORBIDDEN_MODULES:
            yield name, module.split(".")[0]
    for called, node in calls(tree):
        if called in FORBIDDEN_CALLS:
            yield name, called
        if re.fullmatch(r"(np|numpy)\.(.*\.)?(load|fromfile)", called):
            given = {keyword.arg: ast.unparse(keyword.value) for keyword in node.keywords}
            if given.get("allow_pickle") != "False":
                yield name, called


def test_nothing_in_the_sources_runs_data_or_reaches_a_network():
    assert len(TREES) > 80
    found = {offence for name, tree in TREES.items() for offence in offences(name, tree)}
    assert found == set(ALLOWED)


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "def f():\n    from urllib.request import urlopen",
        "eval(x)",
        "os.system(x)",
        "np.load(x)",
        "np.load(x, allow_pickle=True)",
        "np.load(x, allow_pickle=flag)",
        "__import__(x)",
    ],
)
def test_the_scan_finds_what_it_looks_for(source):
    assert list(offences("a.py", ast.parse(source)))


def test_csv_is_written_in_one_place():
    """Which is where formulas are made harmless."""
    writing = {
        name
        for name, tree in TREES.items()
        for called, _ in calls(tree)
        if called.split(".")[-1] in ("writer", "DictWriter", "to_csv", "savetxt", "write_csv")
    }
    assert writing == {"_support/files.py"}


def test_scripts_of_the_report_make_no_markup_and_fetch_nothing():
    banned = re.compile(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|"
        r"\bfetch\(|XMLHttpRequest|WebSocket|sendBeacon|\bimport\(|importScripts|https?:(?!//www\.w3)"
    )
    scripts = sorted((ROOT / "app/report").glob("*.js"))
    assert len(scripts) == 5
    for script in scripts:
        assert not banned.search(script.read_text(encoding="utf-8")), script.name


def requirements():
    """All requirements, with where they are: the package's own extras are no requirements."""
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    groups = {"dependencies": project["dependencies"], **project["optional-dependencies"]}
    return [
        (group, text)
        for group, texts in groups.items()
        for text in texts
        if not text.startswith(f"{project['name']}[")
    ]


@pytest.mark.parametrize(("group", "text"), requirements(), ids=str)
def test_every_dependency_has_a_lower_bound(group, text):
    assert re.fullmatch(r"[A-Za-z0-9-]+(\[[a-z,]+\])?(>=|==)\d+(\.\d+)*", text), (group, text)


def test_all_third_party_imports_are_dependencies():
    names = {"scikit-learn": "sklearn"}
    known = {
        names.get(name, name).replace("-", "_")
        for _, text in requirements()
        for name in [re.match("[A-Za-z0-9-]+", text).group()]
    }
    found = {module.split(".")[0] for tree in TREES.values() for module in modules(tree)}
    assert found - set(sys.stdlib_module_names) - {"steinpath"} <= known


def test_the_oldest_versions_are_those_of_the_bounds():
    sys.path.insert(0, str(PROJECT.parent / "tools"))
    try:
        from oldest import oldest_versions
    finally:
        sys.path.pop(0)
    found = oldest_versions(PROJECT)
    direct = [text for group, text in requirements() if group in ("dependencies", "plot", "files")]
    assert set(direct) <= {line.replace("==", ">=") for line in found}
    assert any(line.startswith("dask==") for line in found)
    assert not any("[" in line or line.startswith(("torch", "pytest")) for line in found)
