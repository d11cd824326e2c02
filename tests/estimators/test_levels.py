"""Selection between linear terms, curves and products, and of the logarithm of the target."""

import json
from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import LeaveOneOut
from sklearn.pipeline import Pipeline, make_pipeline

import steinpath as sp
from steinpath.risk._after_choice import select_model

FEW = {"n_alphas": 5, "n_iter": 60, "random_state": 0}
pytestmark = pytest.mark.filterwarnings("ignore")


def table(n=400, seed=0):
    rng = np.random.default_rng(seed)
    return {
        "x": rng.uniform(-2, 2, n),
        "z": rng.standard_normal(n),
        "hour": rng.integers(0, 24, n),
        "kind": rng.choice(["a", "b", "c"], n),
    }


SHAPES = {
    "linear": lambda t: t["x"] - t["z"],
    "curves": lambda t: t["x"] ** 2 + np.cos(2 * np.pi * t["hour"] / 24),
    "curves and products": lambda t: t["x"] ** 2 + 2 * t["z"] * (t["kind"] == "a"),
}


def target(shape, data, noise=0.3, seed=1):
    signal = SHAPES[shape](data)
    return signal + noise * np.random.default_rng(seed).standard_normal(len(signal))


def pipeline(estimator=None, **how):
    encoder = sp.TableEncoder(**{"curves": "auto", "products": "auto"} | how)
    return make_pipeline(encoder, sp.LADLasso(**FEW) if estimator is None else estimator)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_level_of_the_truth_is_selected_and_its_error_is_right(shape):
    data, new = table(), table(4000, seed=5)
    model = pipeline().fit(data, target(shape, data))
    fitted = model[-1]
    [selected] = [level for level in fitted.levels_ if level.selected]
    assert selected.name == shape
    assert [level.name for level in fitted.levels_] == list(SHAPES)
    error = np.abs(target(shape, new, seed=6) - model.predict(new)).mean()
    assert fitted.best_risk_ == pytest.approx(error, abs=3 * fitted.best_risk_stderr_)
    # it counts the selection, and is that of a simpler model otherwise
    assert fitted.best_risk_ >= selected.risk
    alone = sp.LADLasso(**FEW).fit(sp.TableEncoder().fit_transform(data), target(shape, data))
    assert fitted.levels_[0].risk == alone.best_risk_
    assert min(level.difference for level in fitted.levels_) == 0
    assert fitted.coef_.shape == fitted.scale_.shape == (selected.n_features,)


def test_predictions_are_those_of_the_terms():
    data = table()
    model = pipeline().fit(data, target("curves and products", data))
    X, fitted = model[0].transform(data), model[-1]
    np.testing.assert_allclose(
        model.predict(data), fitted.terms_(np.asarray(X)) @ fitted.coef_ + fitted.intercept_
    )
    names = fitted.terms_.names(model[0].get_feature_names_out())
    strongest = names[int(np.argmax(np.abs(fitted.coef_ * fitted.scale_)))]
    assert strongest in ("x (curve 1)", "z × kind=a")
    # arrays without the columns' kinds are as good
    np.testing.assert_array_equal(fitted.predict(np.asarray(X)), fitted.predict(X))
    with pytest.raises(ValueError, match="features"):
        fitted.predict(X[:, :3])


def test_neither_the_order_of_rows_nor_pickling_matters(tmp_path):
    data = table()
    y = target("curves and products", data)
    model = pipeline().fit(data, y)
    order = np.random.default_rng(3).permutation(len(y))
    other = pipeline().fit({name: values[order] for name, values in data.items()}, y[order])
    assert other[-1].best_risk_ == pytest.approx(model[-1].best_risk_, rel=0.05)
    file = tmp_path / "model.json"
    sp.save_model(model, file)
    loaded = sp.load_model(file)
    np.testing.assert_allclose(loaded.predict(data), model.predict(data))
    np.testing.assert_allclose(sp.predict_interval(loaded, data), sp.predict_interval(model, data))
    state = json.loads(file.read_text())
    state["model"]["attributes"]["terms_"]["pairs"][0][0] = 10**6
    file.write_text(json.dumps(state))
    with pytest.raises(ValueError, match="do not fit the features"):
        sp.load_model(file)


def test_integer_weights_are_repeated_rows():
    data = table(200)
    y = target("curves", data)
    weights = np.random.default_rng(4).integers(1, 3, 200)
    rows = np.repeat(np.arange(200), weights)
    X = sp.TableEncoder(curves="auto", products="auto").fit_transform(data)
    one = sp.LADLasso(**FEW).fit(X, y, sample_weight=weights)
    two = sp.LADLasso(**FEW).fit(X[rows], y[rows])
    assert one.levels_[0].risk == pytest.approx(two.levels_[0].risk)
    assert one.levels_[1].risk == pytest.approx(two.levels_[1].risk)
    np.testing.assert_allclose(one.coef_, two.coef_)


def test_rows_of_weight_zero_are_ignored():
    data = table(200)
    y = target("curves and products", data)
    weights = np.where(np.arange(200) < 40, 0, 1)
    X = sp.TableEncoder(curves="auto", products="auto").fit_transform(data)
    wild = np.where(weights, y, 1e9)
    one = sp.LADLasso(**FEW).fit(X, wild, sample_weight=weights)
    two = sp.LADLasso(**FEW).fit(X[40:], y[40:])
    assert [level.risk for level in one.levels_] == [level.risk for level in two.levels_]
    np.testing.assert_allclose(one.predict(X), two.predict(X))


@pytest.mark.parametrize("kind", ["linear", "curves", "curves and products"])
def test_with_sample_weights(kind):
    data = table(200)
    X = sp.TableEncoder(curves="auto", products="auto").fit_transform(data)
    rng = np.random.default_rng(0)
    weights = rng.choice([0.4, 2.2], 200)
    y = target(kind, data) + rng.standard_normal(200) / weights
    found = sp.LADLasso(**FEW).fit(X, y, sample_weight=weights)
    again = sp.LADLasso(**FEW).fit(X, y, sample_weight=3.3 * weights)
    assert [level.name for level in found.levels_] == [level.name for level in again.levels_]
    assert found.best_risk_ == pytest.approx(again.best_risk_)
    assert abs(found.best_risk_ / sp.LADLasso(**FEW).fit(X, y).best_risk_ - 1) > 0.05


def test_responses_of_any_form():
    data = table(100)
    X = sp.TableEncoder(curves="auto", products="auto").fit_transform(data)
    y = target("curves and products", data)
    expected = sp.LADLasso(**FEW).fit(X, y)
    column = sp.LADLasso(**FEW).fit(X, y[:, None])
    np.testing.assert_array_equal(column.coef_, expected.coef_)
    with pytest.raises(TypeError, match="y must hold real numbers"):
        sp.LADLasso(transform_target="auto", **FEW).fit(X, np.full(100, "a"))


def test_many_splits_of_the_user():
    data = table(60)
    X = sp.TableEncoder(curves=False, products="auto").fit_transform(data)
    y = data["x"] * data["z"] + 0.1 * target("linear", data)
    fitted = sp.LADLasso(cv=LeaveOneOut(), **FEW).fit(X, y)
    assert [level.name for level in fitted.levels_ if level.selected] == ["linear and products"]


def test_encoded_rows_may_be_cached(tmp_path):
    data = table(200)
    y = target("curves", data)
    fits = [
        Pipeline(pipeline().steps, memory=str(tmp_path)).fit(data, y)[-1].levels_ for _ in range(2)
    ]
    assert fits[0] == fits[1]


def test_groups_and_splits_are_kept_in_all_levels():
    data = table(300)
    groups = np.arange(300) // 3
    noise = np.random.default_rng(8).standard_normal(100)[groups]
    y = target("curves", data) + noise
    fitted = pipeline().fit(data, y, ladlasso__groups=groups)[-1]
    assert len(fitted.levels_) == 3
    assert fitted.intervals_.coef.shape[0] >= 2
    early = [(np.arange(k), np.arange(k, k + 50)) for k in (150, 200, 250)]
    later = pipeline(sp.LADLasso(cv=early, **FEW)).fit(data, y)[-1]
    assert len(later.levels_) == 3


@pytest.mark.parametrize("classes", [2, 3])
def test_classes(classes):
    data, new = table(400), table(4000, seed=5)
    signal, held_out = (part["x"] * part["z"] + part["x"] for part in (data, new))
    cuts = [0.5] if classes == 2 else [-0.5, 0.5]
    model = pipeline(sp.LogisticLasso(**FEW), curves=False).fit(data, np.digitize(signal, cuts))
    fitted = model[-1]
    assert [level.name for level in fitted.levels_ if level.selected] == ["linear and products"]
    wrong = 1 - model.score(new, np.digitize(held_out, cuts))
    assert fitted.error_rate_ == pytest.approx(wrong, abs=4 * fitted.error_rate_stderr_)
    assert fitted.coef_.shape[0] == (1 if classes == 2 else 3)
    assert model.predict_proba(new).shape == (4000, classes)


def test_several_quantiles_have_the_same_terms():
    data, new = table(600), table(4000, seed=5)
    y = target("curves and products", data, noise=1.0)
    model = pipeline(sp.QuantileLasso(q=(0.1, 0.9), **FEW)).fit(data, y)
    assert model[-1].coef_.shape[0] == 2
    low, high = sp.predict_interval(model, new, level=0.8).T
    actual = target("curves and products", new, noise=1.0, seed=7)
    assert np.mean((low <= actual) & (actual <= high)) == pytest.approx(0.8, abs=0.06)


def test_more_features_than_rows_are_linear():
    rng = np.random.default_rng(0)
    wide = {f"x{k}": rng.standard_normal(20) for k in range(30)}
    fitted = pipeline().fit(wide, wide["x0"])[-1]
    assert [level.name for level in fitted.levels_] == ["linear"]


def test_without_a_risk_nothing_can_be_selected():
    data = table(100)
    how = {"method": None, "select": "last", "alpha": 0.1}
    with pytest.raises(ValueError, match="which method=None does not estimate"):
        pipeline(sp.LADLasso(**how)).fit(data, target("linear", data))


def test_a_later_fit_to_an_array_has_no_terms():
    data = table(200)
    estimator = sp.LADLasso(**FEW)
    X = sp.TableEncoder(curves="auto").fit_transform(data)
    estimator.fit(X, target("curves", data))
    assert hasattr(estimator, "terms_")
    estimator.fit(np.asarray(X)[:, :2], target("curves", data))
    assert not hasattr(estimator, "terms_")
    assert not hasattr(estimator, "levels_")
    assert estimator.coef_.shape == (2,)
    clone(estimator)


# ----- The selection -----


def tuned(shape, data, seeds):
    X = sp.TableEncoder(curves=True).fit_transform(data)
    y = target(shape, data)
    grid = {"lams": 5, "n_iter": 40, "fit_intercept": True, "rng": 0}
    return [sp.tune(X[:, columns], y, sp.LAD(), sp.Lasso, **grid).chosen for columns in seeds]


def test_a_simpler_model_is_selected_within_a_standard_error():
    risks = tuned("linear", table(), [[0], slice(0, 8), slice(None)])
    best, adjusted = select_model(risks, "one_se")
    behind, stderr = risks[1].compare(risks[2])
    assert best == 1
    assert behind < stderr
    assert adjusted.value >= risks[1].value
    assert adjusted.stderr >= risks[1].stderr
    assert risks[0].compare(risks[1])[0] > risks[0].compare(risks[1])[1]


def test_the_risk_of_equal_models_counts_the_selection():
    """The smallest of many estimates of the same risk is raised towards their mean."""
    [risk] = tuned("linear", table(200), [slice(None)])
    rng, n = np.random.default_rng(0), 200
    copies = []
    for _ in range(30):
        losses = risk.losses + rng.standard_normal(n)
        one = risk.with_losses(risk.rows, risk.predictions, losses)
        copies.append(replace(one, value=float(losses.mean())))
    naive = min(one.value for one in copies)
    _best, adjusted = select_model(copies[::-1], "min")
    centre = risk.losses.mean()
    assert naive < centre - 0.1
    assert abs(adjusted.value - centre) < abs(naive - centre)


@pytest.mark.slow
def test_pure_noise_does_not_look_predictable():
    """The adjusted error is rarely below that of a constant by a standard error."""
    below, count = 0, 60
    for seed in range(count):
        rng = np.random.default_rng(seed)
        data = {f"x{k}": rng.standard_normal(200) for k in range(30)}
        y = rng.standard_t(3, 200)
        fitted = pipeline(sp.LADLasso(n_alphas=5, random_state=0)).fit(data, y)[-1]
        below += fitted.best_risk_ < fitted.constant_risk_ - fitted.best_risk_stderr_
    assert below <= 0.05 * count


# ----- Targets -----


def test_the_logarithm_of_the_target_is_on_the_original_scale():
    data, new = table(500), table(4000, seed=5)
    y, actual = (np.exp(target("linear", part, seed=s)) for part, s in ((data, 1), (new, 9)))
    X, Z = (sp.TableEncoder().fit_transform(part) for part in (data, new))
    model = sp.LADLasso(transform_target="log", **FEW).fit(X, y)
    error = np.abs(actual - model.predict(Z)).mean()
    assert model.best_risk_ == pytest.approx(error, abs=3 * model.best_risk_stderr_)
    assert model.constant_risk_ == pytest.approx(np.abs(y - np.median(y)).mean(), rel=1e-6)
    assert model.median_error_ == pytest.approx(np.median(np.abs(y - model.left_out_prediction_)))
    low, high = model.predict_interval(Z, level=0.9).T
    assert np.all(low > 0)
    covered = np.mean((low <= actual) & (actual <= high))  # ± 4 standard errors of 500 rows
    assert covered == pytest.approx(0.9, abs=4 * np.sqrt(0.9 * 0.1 / 500))
    # the same model as that of the logarithm, selected by another scoring loss
    own = sp.LADLasso(**FEW | {"alpha": [model.alpha_], "select": model.best_iter_})
    np.testing.assert_allclose(own.fit(X, np.log(y)).coef_, model.coef_, rtol=1e-6, atol=1e-9)
    automatic = sp.LADLasso(transform_target="auto", **FEW).fit(X, y)
    assert automatic.transform_target_ == "log"
    assert len(automatic.levels_) == 2
    plain = sp.LADLasso(transform_target="auto", **FEW).fit(X, np.log(y))
    assert plain.transform_target_ is None
    assert len(plain.levels_) == 1


@pytest.mark.parametrize("name", ["HuberLasso", "SqrtRidge", "QuantileLasso"])
def test_targets_of_all_losses(name):
    data = table(300)
    X, y = sp.TableEncoder().fit_transform(data), np.exp(target("linear", data))
    fits = [getattr(sp, name)(transform_target="log", **FEW).fit(X, c * y) for c in (1.0, 1000.0)]
    unit = 1000.0**2 if name == "SqrtRidge" else 1000.0
    unit = unit if fits[0].test_loss_ != "huber" else 1000.0**2
    assert fits[1].best_risk_ == pytest.approx(unit * fits[0].best_risk_, rel=0.02)
    np.testing.assert_allclose(fits[1].predict(X), 1000 * fits[0].predict(X), rtol=0.02)


def test_targets_that_have_no_logarithm_are_refused():
    X = np.arange(40.0).reshape(20, 2)
    with pytest.raises(ValueError, match=r"requires positive y, but y\[0\] is 0.0"):
        sp.LADLasso(transform_target="log").fit(X, np.arange(20.0))
    with pytest.raises(ValueError, match="transform_target"):
        sp.LADLasso(transform_target="sqrt").fit(X, np.arange(20.0))


def test_intervals_through_pipelines_and_transformed_targets():
    data, new = table(400), table(2000, seed=5)
    y, actual = (np.exp(target("linear", part, seed=s)) for part, s in ((data, 2), (new, 9)))
    model = TransformedTargetRegressor(
        pipeline(curves=False, products=False), func=np.log, inverse_func=np.exp
    ).fit(data, y)
    low, high = sp.predict_interval(model, new, level=0.8).T
    assert np.mean((low <= actual) & (actual <= high)) == pytest.approx(0.8, abs=0.05)
    falling = TransformedTargetRegressor(
        sp.LADLasso(**FEW), func=np.negative, inverse_func=np.negative
    ).fit(sp.TableEncoder().fit_transform(data), y)
    ends = sp.predict_interval(falling, sp.TableEncoder().fit(data).transform(new))
    assert np.all(ends[:, 0] < ends[:, 1])
    with pytest.raises(TypeError, match="got LinearRegression"):
        sp.predict_interval(LinearRegression(), new)


# ----- Missing values -----


def test_missing_levels_that_matter_are_not_imputed():
    rng = np.random.default_rng(0)
    n = 1000
    level, x, gap = (
        rng.choice(["u", "v", "w"], n),
        rng.standard_normal(n),
        rng.uniform(size=n) < 0.4,
    )
    y = x + 2.5 * gap + (level == "w") * ~gap + rng.standard_normal(n)
    data = {"x": x, "c": np.where(gap, None, level)}
    model = make_pipeline(sp.TableEncoder(), sp.LADLasso(**FEW)).fit(data, y)
    coef = dict(zip(model[0].get_feature_names_out(), model[-1].coef_, strict=True))
    assert model[-1].best_risk_ == pytest.approx(np.sqrt(2 / np.pi), abs=0.06)
    assert coef["c=(missing)"] - coef["c=u"] == pytest.approx(2.5, abs=0.3)
    assert abs(coef["c=v"] - coef["c=u"]) < 0.3


def test_importance_of_columns():
    data = table(500)
    model = pipeline().fit(data, target("curves and products", data))
    effects = sp.column_effects(model)
    assert set(effects.column[:3]) == {"x", "z", "kind"}
    assert effects.share.sum() == pytest.approx(1)
    assert effects.products[list(effects.column).index("z")] > 0
    assert effects.to_frame().shape == (4, 6)
    # a curve alone: the standard deviation of its contribution
    y = target("curves", data, noise=0.01)
    model = make_pipeline(sp.TableEncoder(curves=True), sp.LADLasso(**FEW)).fit(data, y)
    effects = sp.column_effects(model)
    contribution = dict(zip(effects.column, effects.importance, strict=True))
    assert contribution["x"] == pytest.approx(np.std(data["x"] ** 2), rel=0.1)
    assert contribution["hour"] == pytest.approx(np.sqrt(0.5), rel=0.1)
    with pytest.raises(TypeError, match="pipeline of a TableEncoder"):
        sp.column_effects(model[-1])
