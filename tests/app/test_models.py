"""Models in files: what is loaded predicts as what was saved, and nothing else is accepted."""

import json
import warnings
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import KFold
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

import steinpath as sp
from steinpath._support.messages import DataError
from steinpath.app.models import (
    intervals_to_json,
    load_model,
    load_model_file,
    save_model,
    save_model_file,
)
from steinpath.estimators._encoder import TableEncoder
from steinpath.inference._prediction_intervals import PredictionIntervals

DATA = Path(__file__).parent / "data"
RNG = np.random.default_rng(0)
X = RNG.standard_normal((120, 6))
Y = 2 * X[:, 0] + RNG.standard_t(3, 120)
CODES = np.digitize(X[:, 0] + 0.5 * RNG.standard_normal(120), [-0.5, 0.5])
FEW = {"n_alphas": 4, "random_state": 0}

MODELS = {
    "lad": (sp.LADLasso(**FEW), Y),
    "huber": (sp.HuberLasso(delta=2.0, **FEW), Y),
    "sqrt": (sp.SqrtLasso(**FEW), Y),
    "quantile": (sp.QuantileLasso(q=0.3, **FEW), Y),
    "quantiles": (sp.QuantileLasso(q=(0.1, 0.5, 0.9), **FEW), Y),
    "objects": (sp.PathRegressor(loss=sp.Huber(3.0), penalty=partial(sp.MCP, gamma=2.5), **FEW), Y),
    "groups": (
        sp.PathRegressor(penalty=partial(sp.GroupLasso, groups=[0, 0, 1, 1, 2, 2]), **FEW),
        Y,
    ),
    "unweighted": (sp.PathRegressor(alpha=0.1, method=None, select="last", n_iter=200), Y),
    "booleans": (sp.LogisticLasso(**FEW), CODES > 0),
    "numbers": (sp.LogisticLasso(class_weight={0: 1.0, 1: 2.0, 2: 1.5}, **FEW), CODES),
    "texts": (sp.HingeLasso(**FEW), np.array(["a", "b", "ç"])[CODES]),
}


@pytest.fixture(scope="module", params=MODELS)
def fitted(request):
    model, y = MODELS[request.param]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about so few values of alpha
        return model.fit(X, y), y


def loaded(model, folder, **options):
    save_model(model, folder / "m.json", **options)
    return load_model(folder / "m.json")


def test_the_loaded_model_predicts_the_same_to_the_last_bit(fitted, tmp_path):
    model, y = fitted
    again = loaded(model, tmp_path)
    assert type(again) is type(model)
    for name in ("predict", "decision_function", "predict_proba", "predict_interval"):
        assert hasattr(again, name) == hasattr(model, name)
        if hasattr(model, name) and (name != "predict_interval" or hasattr(model, "best_risk_")):
            np.testing.assert_array_equal(getattr(again, name)(X), getattr(model, name)(X))
    assert again.score(X, y) == model.score(X, y)
    first = (tmp_path / "m.json").read_bytes()
    loaded(again, tmp_path)
    assert (tmp_path / "m.json").read_bytes() == first


def test_parameters_and_attributes_are_kept(fitted, tmp_path):
    model, _ = fitted
    again = loaded(model, tmp_path)
    for name, value in model.get_params().items():
        if name not in ("penalty", "q"):
            assert repr(getattr(again, name)) == repr(value)
    names = {"alpha_", "best_iter_", "n_iter_", "n_samples_", "best_risk_", "best_risk_stderr_"}
    names |= {"alphas_", "constant_risk_", "error_rate_", "error_rate_stderr_", "y_scale_"}
    for name in {*names, "coef_", "intercept_", "classes_", "n_features_in_"} & set(vars(model)):
        np.testing.assert_array_equal(getattr(again, name), getattr(model, name))
    assert getattr(again, "warnings_", ()) == tuple(map(str, getattr(model, "warnings_", ())))
    if hasattr(model, "loss_"):
        assert repr(again.loss_) == repr(model.loss_)
        assert repr(again.penalty_) == repr(model.penalty_)
    if "estimators_" in vars(model):
        assert str(again.summary()) == str(model.summary())


def test_the_training_data_are_not_in_the_file(tmp_path):
    again = loaded(sp.LADLasso(**FEW).fit(X, Y), tmp_path)
    with pytest.raises(ValueError, match="rows of the fit"):
        again.coef_intervals()


def test_what_cannot_be_stored_has_its_default(tmp_path):
    model = sp.PathRegressor(
        penalty=lambda lam: sp.Lasso(lam), cv=KFold(5), test_loss=lambda y, z: abs(y - z), **FEW
    )
    again = loaded(model.fit(X, Y), tmp_path)
    assert (again.penalty, again.cv, again.test_loss) == ("lasso", None, None)
    assert not hasattr(again, "test_parameter_")
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


def test_single_precision_stays(tmp_path):
    single = X.astype("float32")
    model = sp.LADLasso(**FEW).fit(single, Y.astype("float32"))
    again = loaded(model, tmp_path)
    assert again.coef_.dtype == model.coef_.dtype
    np.testing.assert_array_equal(again.predict(single), model.predict(single))


def test_names_of_features(tmp_path):
    frame = pd.DataFrame(X, columns=[*"abcdé", "f"])
    model = sp.LADLasso(**FEW).fit(frame, Y)
    again = loaded(model, tmp_path)
    assert list(again.feature_names_in_) == [*"abcdé", "f"]
    coef = json.loads((tmp_path / "m.json").read_text(encoding="utf-8"))["model"]["coef"]
    assert coef == dict(zip([*"abcdé", "f"], model.coef_.tolist(), strict=True))
    with pytest.raises(ValueError, match="feature names"):
        again.predict(frame[[*"fabcdé"]])


TOWNS = np.array(["A", "B", "C"])[CODES]
FRAME = pd.DataFrame({"size": X[:, 0], "town": TOWNS, "new": np.where(X[:, 1] > 0, "yes", "no")})


@pytest.mark.parametrize("classes", [False, True])
def test_a_pipeline_is_loaded_as_a_pipeline(classes, tmp_path):
    last = sp.LogisticLasso(**FEW) if classes else sp.LADLasso(**FEW)
    model = Pipeline([("table", TableEncoder()), ("model", last)])
    model.fit(FRAME, TOWNS if classes else Y)
    save_model_file(model, tmp_path / "m.json", "price", {"delimiter": ";", "na": ["-"]})
    saved = load_model_file(tmp_path / "m.json")
    assert (saved.target, saved.format) == ("price", {"delimiter": ";", "na": ["-"]})
    assert [name for name, _ in saved.model.steps] == ["table", "model"]
    assert classes or saved.model[-1].test_loss_ == "absolute"
    np.testing.assert_array_equal(saved.model.predict(FRAME), model.predict(FRAME))
    if classes:
        np.testing.assert_array_equal(saved.model.predict_proba(FRAME), model.predict_proba(FRAME))
    else:
        features = saved.model[:-1].transform(FRAME)
        bounds = saved.model[-1].predict_interval(features)
        np.testing.assert_array_equal(bounds, model[-1].predict_interval(features))


@pytest.mark.parametrize(
    "model",
    [
        make_pipeline(StandardScaler(), sp.LADLasso()),
        make_pipeline(sp.LADLasso()),
        make_pipeline(TableEncoder(), StandardScaler(), sp.LADLasso()),
        StandardScaler(),
        type("Own", (sp.LADLasso,), {})(),
    ],
    ids=range(5),
)
def test_other_models_are_refused(model, tmp_path):
    with pytest.raises(TypeError, match=r"a pipeline of sp\.TableEncoder and such an estimator"):
        save_model(model, tmp_path / "m.json")
    assert not list(tmp_path.iterdir())


def test_models_without_a_fit_are_refused(tmp_path):
    with pytest.raises(ValueError, match="not fitted"):
        save_model(sp.LADLasso(), tmp_path / "m.json")


@pytest.mark.parametrize("name", ["lasso", "quantile", "huber", "reading"])
def test_regressions_of_version_0_1_0_predict_as_before(name, tmp_path):
    """The predictions were written by ``steinpath predict`` of version 0.1.0."""
    table = {"lasso": "new.csv", "reading": "new_de.csv"}.get(name, "new_full.csv")
    sep = ";" if name == "reading" else ","
    frame = pd.read_csv(DATA / table, sep=sep, dtype=str, keep_default_na=False)
    wanted = json.loads((DATA / f"{name}.predictions.json").read_text(encoding="utf-8"))
    saved = load_model_file(DATA / f"{name}.json")
    for model in (saved.model, loaded(saved.model, tmp_path)):
        unknown = pytest.warns(UserWarning, match="'town' has 1 value")
        with unknown if name == "lasso" else nullcontext():
            features = model[:-1].transform(frame)
        np.testing.assert_allclose(model[-1].predict(features), wanted["predictions"], rtol=1e-13)
        bounds = model[-1].predict_interval(features, wanted["level"])
        np.testing.assert_allclose(bounds.T, [wanted["lower"], wanted["upper"]], rtol=1e-13)
    entries = json.loads((DATA / f"{name}.json").read_text(encoding="utf-8"))
    model = saved.model[-1]
    assert (saved.target, saved.format) == ("price", entries.get("reading", {}))
    criterion = entries["test_loss"], entries["test_parameter"]
    assert (model.test_loss_, model.test_parameter_) == criterion
    assert (model.best_risk_, model.best_risk_stderr_) == (entries["risk"], entries["stderr"])
    assert (model.best_iter_, model.n_samples_) == (entries["iterate"], entries["rows"])
    assert (model.loss_.name, model.penalty_.name) == (entries["loss"], entries["penalty"])
    parameters = vars(model.loss_) | vars(model.penalty_)
    assert {key: parameters[key] for key in entries["parameters"]} == entries["parameters"]


@pytest.mark.parametrize("name", ["two_classes", "three_classes"])
def test_classes_of_version_0_1_0_are_predicted_as_before(name, tmp_path):
    frame = pd.read_csv(DATA / "new_full.csv", dtype=str)
    wanted = json.loads((DATA / f"{name}.predictions.json").read_text(encoding="utf-8"))
    saved = load_model_file(DATA / f"{name}.json")
    for model in (saved.model, loaded(saved.model, tmp_path)):
        assert model.predict(frame).tolist() == wanted["predictions"]
        shares = [wanted[f"probability of {label}"] for label in model.classes_]
        np.testing.assert_allclose(model.predict_proba(frame).T, shares, rtol=1e-13)
    entries = json.loads((DATA / f"{name}.json").read_text(encoding="utf-8"))
    rate = saved.model[-1].error_rate_, saved.model[-1].error_rate_stderr_
    assert rate == (entries["error_rate"], entries["error_rate_stderr"])


def intervals_of(n=90, p=6, folds=3, seed=0, **options):
    rng = np.random.default_rng(seed)
    coef = rng.standard_normal((folds, p)) * (rng.random((folds, p)) < 0.6)
    return PredictionIntervals(
        coef, rng.standard_normal(folds), rng.integers(0, folds, n), rng.standard_t(2, n), **options
    )


@pytest.fixture(scope="module")
def model():
    return sp.LADLasso(**FEW).fit(X, Y)


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("centred", [False, True])
def test_intervals_are_the_same_after_saving(model, symmetric, centred, tmp_path):
    model = loaded(model, tmp_path)
    centre = (np.array([0.0, 1.0, 0.0, 0.0, 2.0, 0.0]), 3.0) if centred else None
    model.intervals_ = intervals_of(symmetric=symmetric, model=centre)
    after = loaded(model, tmp_path)
    assert after.intervals_.symmetric == symmetric
    np.testing.assert_array_equal(after.predict_interval(X, 0.8), model.predict_interval(X, 0.8))


def test_a_file_keeps_a_bounded_number_of_residuals_and_no_zeros(model, tmp_path):
    many, model = intervals_of(n=50_000), loaded(model, tmp_path)
    model.intervals_ = many
    kept = loaded(model, tmp_path).intervals_
    assert len(kept.residuals) <= 2000
    assert (tmp_path / "m.json").stat().st_size < 100_000
    found = json.loads((tmp_path / "m.json").read_text(encoding="utf-8"))["model"]["intervals"]
    assert [len(fold["coef"]) for fold in found["folds"]] == np.count_nonzero(
        many.coef, axis=1
    ).tolist()
    # conservative, and close to those of all residuals
    whole, thin = many.interval(X, 0.9), kept.interval(X, 0.9)
    assert (thin[:, 0] <= whole[:, 0]).all()
    assert (thin[:, 1] >= whole[:, 1]).all()
    np.testing.assert_allclose(thin, whole, atol=0.1 * np.ptp(whole, axis=1).mean())


def test_quantiles_keep_the_residuals_of_the_same_rows(tmp_path):
    rng = np.random.default_rng(1)
    many = rng.standard_normal((5000, 2))
    y = many[:, 0] + (1 + np.abs(many[:, 1])) * rng.standard_normal(5000)
    model = sp.QuantileLasso(q=(0.1, 0.9), alpha=0.01, n_iter=50, random_state=0).fit(many, y)
    again = loaded(model, tmp_path)
    low, high = (one.intervals_ for one in again.estimators_)
    assert len(low.residuals) == len(high.residuals) <= 2000
    whole, thin = model.predict_interval(many), again.predict_interval(many)
    assert (thin[:, 0] <= whole[:, 0]).all()
    assert (thin[:, 1] >= whole[:, 1]).all()
    np.testing.assert_allclose(thin, whole, atol=0.05 * np.ptp(whole, axis=1).mean())


def test_intervals_too_large_for_a_file_are_left_out():
    fold, residuals = np.arange(10) % 2, np.ones(10)
    large = PredictionIntervals(np.ones((2, 500_001)), np.zeros(2), fold, residuals)
    assert intervals_to_json([large]) == [None]
    sparse = np.zeros((2, 500_001))
    sparse[:, ::2] = 1.0
    found = PredictionIntervals(sparse, np.zeros(2), fold, residuals)
    assert intervals_to_json([found]) != [None]
    single = PredictionIntervals(
        np.ones((600, 1)), np.zeros(600), np.arange(3000) % 600, np.ones(3000)
    )
    assert intervals_to_json([single]) == [None]


@pytest.fixture(scope="module")
def entries(tmp_path_factory):
    file = tmp_path_factory.mktemp("model") / "m.json"
    frame = pd.DataFrame({"größe": X[:, 0], "town": TOWNS})
    model = make_pipeline(TableEncoder(), sp.LADLasso(**FEW)).fit(frame, Y)
    save_model(model, file, "price")
    return file.read_text(encoding="utf-8")


def change(value, *path):
    def do(entries):
        for key in path[:-1]:
            entries = entries[key]
        if value is ...:
            del entries[path[-1]]
        else:
            entries[path[-1]] = value

    return do


@pytest.mark.parametrize(
    ("do", "said"),
    [
        (change(..., "format"), "'format'"),
        (change(3, "version"), "newer"),
        (change(..., "model", "coef"), "'coef'"),
        (change(..., "model", "coef", "größe"), "'coef'|'index'"),
        (change("2", "model", "coef", "größe"), "not a number"),
        (change(3, "model", "attributes", "stop_"), "not a string"),
        (change(0, "model", "attributes", "tuning_"), "unknown"),
        (change([1], "model", "parameters"), "not a mapping"),
        (change(1, "model", "parameters", "epochs"), "'parameters' are not those of LADLasso"),
        (change("none", "model", "attributes", "warnings_"), "'warnings_'"),
        (change("sklearn.svm.SVC", "model", "class"), "not an estimator of steinpath"),
        (change(["a", "b"], "model", "classes"), "labels of a classifier"),
        (change([], "model", "estimators"), "too few entries"),
        (change("float16", "model", "dtype"), "dtype"),
        (change({}, "encoder", "columns"), "list"),
        (change(-1, "model", "attributes", "best_risk_stderr_"), "out of range"),
        (change(10**6, "model", "attributes", "best_iter_"), "'best_iter_' is not valid"),
        (change(4, "model", "attributes", "best_index_"), "'best_index_' is not valid"),
        (change("nope", "model", "attributes", "test_loss_"), "'test_loss_'"),
        (change("quantile", "model", "attributes", "test_loss_"), "q must be"),
        (
            change({"loss": "nope", "parameters": {}}, "model", "attributes", "loss_"),
            "'loss_' is not valid",
        ),
        (
            change({"loss": "logistic", "parameters": {}}, "model", "attributes", "loss_"),
            "not for its estimator",
        ),
        (
            change({"penalty": "lasso", "parameters": {}}, "model", "attributes", "penalty_"),
            "'penalty_' is not valid",
        ),
    ],
    ids=range(23),
)
def test_models_that_are_none(do, said, entries, tmp_path):
    changed = json.loads(entries)
    do(changed)
    file = tmp_path / "bad.json"
    file.write_text(json.dumps(changed), encoding="utf-8")
    with pytest.raises(DataError, match=said) as caught:
        load_model(file)
    assert "is not a model" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("loss", 3, "not a string"),
        ("loss", "nope", "unknown"),
        ("parameters", [1], "'parameters'"),
        ("columns", {}, "list"),
        ("target", None, "target"),
        ("stderr", -1, "out of range"),
        ("iterate", 10**6, "'best_iter_' is not valid"),
        ("risk", "small", "not a number"),
        ("test_loss", "nope", "'test_loss_'"),
        ("reading", {"decimal": "x"}, "decimal"),
        ("classes", ["a", "b"], "labels of a classifier"),
        ("coef", None, "'coef'"),
    ],
    ids=range(12),
)
def test_models_of_version_0_1_0_that_are_none(key, value, said, tmp_path):
    entries = json.loads((DATA / "huber.json").read_text(encoding="utf-8")) | {key: value}
    (tmp_path / "bad.json").write_text(json.dumps(entries), encoding="utf-8")
    with pytest.raises(DataError, match=said) as caught:
        load_model(tmp_path / "bad.json")
    assert "is not a model" in str(caught.value)


def test_nothing_is_there_to_read(tmp_path):
    with pytest.raises(DataError, match="cannot read"):
        load_model(tmp_path / "none.json")
    with pytest.raises(DataError, match="cannot read"):
        load_model(tmp_path)
