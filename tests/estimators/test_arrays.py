"""Estimators on arrays of other libraries than NumPy: the same numbers, where the arrays are."""

import copy
import pickle
from dataclasses import dataclass
from typing import Any

import array_api_strict
import numpy as np
import pytest
import sklearn
import torch
from array_api_compat import device
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.model_selection import TimeSeriesSplit
from sklearn.utils import estimator_checks

import steinpath as sp
from steinpath._support.arrays import to_numpy
from steinpath.estimators._base import PathEstimator

FAST = {"n_alphas": 3, "n_iter": 20, "random_state": 0}
# what is said of handfuls of rows, and of counts
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


@dataclass(frozen=True)
class Place:
    """An array library, and a device of it."""

    library: Any
    where: Any

    def __str__(self):
        return self.library.__name__

    def put(self, values):
        values = np.asarray(values)
        return values if values.dtype.kind == "U" else self.library.asarray(values, **self._device)

    @property
    def _device(self):
        return {"device": self.where}

    def assert_here(self, array):
        example = self.put(0.0)
        assert type(array) is type(example)
        assert device(array) == device(example)


TORCH = Place(torch, "cpu")
# whose arrays neither mix with those of other devices nor become NumPy's by themselves
STRICT = Place(array_api_strict, array_api_strict.Device("device1"))
everywhere = pytest.mark.parametrize("place", [TORCH, STRICT], ids=str)


@pytest.fixture(autouse=True)
def dispatch(monkeypatch):
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")  # which scikit-learn wants to see
    with sklearn.config_context(array_api_dispatch=True):
        yield


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((48, 5))
    y = 2 * X[:, 0] - 3 * X[:, 1] + rng.standard_t(2, size=48)
    X[:, 1] = 20 + 3 * X[:, 1]
    return X, y


def kinds_of_labels(y):
    places = np.digitize(y, np.quantile(y, [0.3, 0.6]))
    return {"numbers": np.array([3, 5, 8])[places], "texts": np.array(["a", "b"])[places // 2]}


CASES = {
    "lad": (sp.LADLasso(**FAST), {}),
    "scoring loss": (sp.HuberRidge(test_loss="absolute", **FAST), {}),
    "plain": (sp.PathRegressor("huber", "elastic_net", fit_intercept=False, cv=3, **FAST), {}),
    "time": (sp.SqrtLasso(cv=TimeSeriesSplit(3), rule="one_se", **FAST), {}),
    "counts": (sp.LADRidge(**FAST), {"sample_weight": np.arange(48) % 3}),
    "weights": (
        sp.HuberLasso(alpha=0.1, select="last", n_iter=20, tol=10.0, random_state=0),
        {"sample_weight": 0.5 + np.arange(48) % 3},
    ),
    "quantiles": (sp.QuantileLasso(q=(0.1, 0.9), **FAST), {}),
    "numbers": (sp.LogisticLasso(class_weight={3: 1.0, 5: 2.0}, **FAST), {}),
    "texts": (sp.HingeRidge(**FAST), {"groups": np.arange(48) // 2}),
}
METHODS = ("predict", "decision_function", "predict_proba", "predict_log_proba")


def both(name, data, place):
    """Return a fit on NumPy, one elsewhere, and their data."""
    estimator, options = CASES[name]
    X, y = data
    y = kinds_of_labels(y).get(name, y)
    elsewhere = {key: place.put(values) for key, values in options.items()}
    ours, theirs = (X, y), (place.put(X), place.put(y))
    return (
        clone(estimator).fit(*ours, **options),
        clone(estimator).fit(*theirs, **elsewhere),
        ours,
        theirs,
    )


@everywhere
@pytest.mark.parametrize("name", CASES)
def test_fits_are_those_of_numpy(name, data, place):
    expected, found, (X, y), (X_there, y_there) = both(name, data, place)
    close = {"rtol": 1e-8, "atol": 1e-8}
    public = {key: value for key, value in vars(expected).items() if not key.startswith("_")}
    arrays = {key for key, value in public.items() if isinstance(value, np.ndarray)}
    assert {"coef_"} <= arrays
    for key in arrays - {"classes_"}:
        place.assert_here(getattr(found, key))
        assert_allclose(to_numpy(getattr(found, key)), getattr(expected, key), **close)
    for key in ("intercept_", "best_risk_", "best_risk_stderr_", "error_rate_", "alpha_"):
        if hasattr(expected, key):
            assert_allclose(to_numpy(getattr(found, key)), getattr(expected, key), **close)
    place.assert_here(found.intercept_)
    for method in (method for method in METHODS if hasattr(expected, method)):
        predictions = getattr(found, method)(X_there)
        if name == "texts" and method == "predict":
            assert_array_equal(predictions, expected.predict(X))
            continue
        place.assert_here(predictions)
        assert_allclose(to_numpy(predictions), getattr(expected, method)(X), **close)
    if hasattr(expected, "intervals_") or name == "quantiles":
        intervals = found.predict_interval(X_there, level=0.7)
        place.assert_here(intervals)
        assert_allclose(to_numpy(intervals), expected.predict_interval(X, level=0.7), **close)
    assert found.score(X_there, y_there) == pytest.approx(expected.score(X, y), abs=1e-12)


@everywhere
def test_labels_are_of_the_kind_of_y(data, place):
    X, y = data
    for labels in (y > 0, (y > 0).astype(np.uint8), (y > 0) * 2.0):
        model = sp.HingeLasso(n_iter=5, alpha=0.1, select=5, method=None)
        predicted = model.fit(place.put(X), place.put(labels)).predict(place.put(X))
        place.assert_here(predicted)
        assert to_numpy(predicted).dtype == labels.dtype


def test_intervals_of_coefficients(data):
    expected, found, *_ = both("lad", data, TORCH)
    ours, theirs = expected.coef_intervals(), found.coef_intervals()
    # tangents are in single precision
    assert_allclose(theirs.estimate, ours.estimate, rtol=1e-5)
    assert_allclose(theirs.stderr, ours.stderr, rtol=1e-5)


@pytest.mark.parametrize("precisions", [("float32", "float32"), ("float32", "float64")], ids=str)
def test_precision_is_that_of_x_and_on_the_scale_of_y_that_of_y(data, precisions):
    X, y = (torch.asarray(a.astype(dtype)) for a, dtype in zip(data, precisions, strict=True))
    model = sp.LADLasso(**FAST).fit(X, y)
    assert [to_numpy(a).dtype for a in (model.coef_, model.risk_path_)] == ["float32"] * 2
    for values in (model.intercept_, model.predict(X), model.predict_interval(X, level=0.7)):
        assert to_numpy(values).dtype == precisions[1]
    expected = sp.LADLasso(**FAST).fit(*data)
    assert_allclose(to_numpy(model.coef_), expected.coef_, rtol=1e-3, atol=1e-4)
    model = sp.LogisticLasso(**FAST).fit(X, y > 0)
    for values in (model.intercept_, model.predict_proba(X), model.left_out_decision_):
        assert to_numpy(values).dtype == "float32"


@pytest.mark.parametrize("far", [False, True], ids=["near", "far"])
def test_large_tables_are_run_in_single_precision_as_those_of_numpy(data, monkeypatch, far):
    monkeypatch.setattr("steinpath.engine._data._LARGE", 0)
    X, y = data
    X = X + 1e6 * far
    expected = sp.LADLasso(**FAST).fit(X, y)
    found = sp.LADLasso(**FAST).fit(torch.asarray(X), torch.asarray(y))
    assert found.risk_path_.dtype == torch.float32
    assert found.coef_.dtype == torch.float64
    assert_allclose(found.predict(torch.asarray(X)), expected.predict(X), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    "convert", [list, np.asarray, STRICT.put, TORCH.put], ids=["list", "numpy", "strict", "torch"]
)
def test_what_goes_with_the_rows_follows_x(data, convert):
    X, y = data
    counts = np.arange(48) % 2 + 1.0
    model = sp.LADLasso(alpha=0.1, select=5, method=None)
    expected = clone(model).fit(X, y, sample_weight=counts)
    there = clone(model).fit(torch.asarray(X), convert(y), sample_weight=convert(counts))
    TORCH.assert_here(there.coef_)
    assert_allclose(there.coef_, expected.coef_, rtol=1e-10)
    here = clone(model).fit(X, convert(y), sample_weight=convert(counts))
    assert_array_equal(here.coef_, expected.coef_)


def test_other_libraries_and_devices_are_refused_in_predictions(data):
    X, y = data
    model = sp.LogisticLasso(**FAST).fit(STRICT.put(X), STRICT.put(y > 0))
    others = X, torch.asarray(X), array_api_strict.asarray(X)
    for other, name in zip(others, ("NumPy", "torch on cpu", "CPU_DEVICE"), strict=True):
        for method in METHODS:
            with pytest.raises(ValueError, match="must use the same namespace") as error:
                getattr(model, method)(other)
            assert f"LogisticLasso.{method}()" in str(error.value)
            assert name in str(error.value)
    numpy = sp.LADLasso(**FAST).fit(X, y)
    with pytest.raises(ValueError, match=r"LADLasso.predict_interval\(\) arrays of torch on cpu"):
        numpy.predict_interval(torch.asarray(X))


def test_without_dispatch_arrays_become_numpy_s_and_other_devices_are_refused(data):
    X, y = data
    model = sp.LADLasso(**FAST).fit(torch.asarray(X), torch.asarray(y))
    with sklearn.config_context(array_api_dispatch=False):
        found = sp.LADLasso(**FAST).fit(torch.asarray(X), torch.asarray(y))
        assert_array_equal(found.coef_, sp.LADLasso(**FAST).fit(X, y).coef_)
        assert type(found.predict(torch.asarray(X))) is np.ndarray
        for arrays in ((STRICT.put(X), y), (X, STRICT.put(y))):
            with pytest.raises(TypeError, match=r"device1.*array_api_dispatch=True"):
                sp.LADLasso(**FAST).fit(*arrays)
        with pytest.raises(ValueError, match="array_api_dispatch=True"):
            model.predict(torch.asarray(X))


@pytest.mark.parametrize("estimator", [sp.LADLasso(), sp.LogisticLasso()], ids=["lad", "logistic"])
def test_tensors_that_are_no_plain_numbers_are_refused(data, estimator):
    arrays = dict(zip("Xy", map(torch.asarray, data), strict=True))
    arrays["sample_weight"] = torch.ones(48)
    arrays["y"] = 1.0 * (arrays["y"] > 0)
    for name, array in arrays.items():
        with pytest.raises(TypeError, match=rf"{name} requires gradients.*{name}.detach\(\)"):
            estimator.fit(**arrays | {name: array.clone().requires_grad_()})
    with pytest.raises(TypeError, match="X must be real"):
        estimator.fit(**arrays | {"X": arrays["X"] + 1j})
    with pytest.raises(TypeError, match="sparse"):
        estimator.fit(**arrays | {"X": arrays["X"].to_sparse()})
    with pytest.raises(ValueError, match="NaN"):
        estimator.fit(**arrays | {"X": arrays["X"] / 0 * 0})


def test_warm_starts_go_on_from_the_same_arrays_alone(data, monkeypatch):
    X, y = (torch.asarray(a.copy()) for a in data)
    known, goes_on = PathEstimator._continued, []

    def noted(self, new):
        found = known(self, new)
        goes_on.append(found is not new)
        return found

    monkeypatch.setattr(PathEstimator, "_continued", noted)
    model = sp.LADLasso(warm_start=True, **FAST).fit(X, y)
    model.set_params(n_iter=30).fit(X, y)
    expected = sp.LADLasso(**FAST | {"n_iter": 30}).fit(X, y)
    assert torch.equal(model.coef_, expected.coef_)
    X[0, 0] += 1.0
    model.set_params(n_iter=40).fit(X, y)
    model.set_params(n_iter=50).fit(data[0], data[1])
    assert goes_on == [False, True, False, False]


def test_models_are_copied_and_saved(data):
    _, found, _, (X, _) = both("numbers", data, TORCH)
    for other in (pickle.loads(pickle.dumps(found)), copy.deepcopy(found)):
        assert torch.equal(other.predict_proba(X), found.predict_proba(X))


# ----- scikit-learn's own checks -----


@pytest.mark.skipif(
    not hasattr(estimator_checks, "check_array_api_same_namespace"), reason="of scikit-learn 1.9"
)
@pytest.mark.parametrize(
    "name", ["LogisticLasso", pytest.param("QuantileLasso", marks=pytest.mark.slow)]
)
def test_checks_of_scikit_learn(name):
    estimator, checks = getattr(sp, name)(n_alphas=2, n_iter=5), []
    for check in estimator_checks._yield_array_api_checks(estimator):
        try:
            check(name, estimator)
        except Exception as error:
            if type(error).__name__ != "SkipTest":  # of libraries and devices that are not here
                raise
        else:
            checks.append(check.func.__name__)
    kinds = ("input", "mixed_inputs", "same_namespace")
    assert {f"check_array_api_{kind}" for kind in kinds} <= set(checks)
    estimator_checks.check_array_api_input_and_values(
        name, estimator, "torch", check_sample_weight=True
    )
