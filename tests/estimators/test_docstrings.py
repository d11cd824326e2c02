"""Docstrings of estimators and results are complete."""

import inspect

import numpy as np
import pytest
from numpydoc.docscrape import NumpyDocString
from numpydoc.validate import validate

import steinpath as sp
from steinpath.estimators._base import PathEstimator

ESTIMATORS = sorted(
    name
    for name in sp.__all__
    if inspect.isclass(getattr(sp, name)) and issubclass(getattr(sp, name), PathEstimator)
)
RESULTS = ["CoefficientIntervals", "Path", "Risk", "Tuning"]
FUNCTIONS = [
    *("coefficient_intervals", "coefficient_intervals_batch", "estimate_risk"),
    *("estimate_risk_batch", "load_model", "report", "save_model", "tune"),
]
# Docstrings begin on the line of their quotes. Results are made by functions, not by their users.
IGNORED = {"GL01", "PR01"}


def test_all_named_estimators_are_here():
    assert len(ESTIMATORS) == 16


@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_parameter_is_documented_with_its_default(name):
    docstring = NumpyDocString(inspect.getdoc(getattr(sp, name)))
    model = getattr(sp, name)()
    assert [entry.name for entry in docstring["Parameters"]] == list(
        inspect.signature(getattr(sp, name)).parameters
    )
    defaults = {each.name: each.type.rpartition("default=")[2] for each in docstring["Parameters"]}
    for parameter, value in model.get_params().items():
        assert eval(defaults[parameter]) == value, parameter


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_every_fitted_attribute_is_documented(name):
    pd = pytest.importorskip("pandas")
    X, y = sp.simulate.paper_model(5).sample(60, rng=0)
    X = pd.DataFrame(X, columns=list("abcde"))
    model = getattr(sp, name)(n_iter=10, n_alphas=3, random_state=0)
    entries = NumpyDocString(inspect.getdoc(getattr(sp, name)))["Attributes"]
    assert all(entry.desc for entry in entries)
    known = {each for entry in entries for each in entry.name.split(", ")}
    known -= {"tuning_", "best_params_"}  # properties
    targets = [y > 0, np.digitize(y, [-1, 1])] if hasattr(model, "class_weight") else [y]
    found = set()
    for target in targets:
        found |= {key for key in vars(model.fit(X, target)) if key.endswith("_")}
    if "q" in model.get_params():
        found |= {key for key in vars(model.set_params(q=(0.2, 0.8)).fit(X, y)) if key[-1] == "_"}
    basis = sp.TableEncoder(curves="auto").fit_transform(X)
    found |= {
        key for key in vars(model.set_params(n_iter=5).fit(basis, targets[0])) if key[-1] == "_"
    }
    assert found == known


@pytest.mark.parametrize("name", ESTIMATORS)
def test_docstrings_have_all_sections(name):
    docstring = NumpyDocString(inspect.getdoc(getattr(sp, name)))
    for section in ("Summary", "Parameters", "Attributes", "See Also", "Examples"):
        assert docstring[section], section
    if name not in ("PathRegressor", "PathClassifier"):
        assert f"sp.{name}(" in "\n".join(docstring["Examples"])
    assert all(len(line) <= 100 for line in inspect.getdoc(getattr(sp, name)).splitlines())


def methods(name):
    """Public methods that this package defines."""
    members = inspect.getmembers(getattr(sp, name), inspect.isfunction)
    return [
        key
        for key, member in members
        if not key.startswith("_") and member.__module__.startswith("steinpath")
    ]


# Methods for other parts of the package.
INTERNAL = {
    *("above_level", "but", "check_names", "column_fits", "encode", "end_of_grid", "fit_columns"),
    *("from_json", "on", "products_at", "refuse_weights"),
    *("to_json", "with_path"),
}


@pytest.mark.parametrize("name", [*ESTIMATORS, "TableEncoder", *RESULTS, *FUNCTIONS])
def test_numpydoc_finds_nothing_wrong(name):
    targets = [f"steinpath.{name}"]
    if inspect.isclass(getattr(sp, name)):
        targets += [f"steinpath.{name}.{key}" for key in methods(name) if key not in INTERNAL]
    for target in targets:
        ignored = IGNORED if target == f"steinpath.{name}" and name in RESULTS else {"GL01"}
        errors = [error for error in validate(target)["errors"] if error[0] not in ignored]
        assert not [error for error in errors if error[0][:2] in ("GL", "PR", "RT")], target
