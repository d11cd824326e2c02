"""Grids of ``lam`` and another parameter, and coefficients that are not negative."""

from functools import partial

import numpy as np
import pytest
from sklearn import linear_model

import steinpath as sp
from problems import draw

X, Y, _ = draw(80, 12)
FAST = {"n_iter": 30, "rng": 0}
FIT = {"n_alphas": 4, "n_iter": 30, "random_state": 0}
LAMS = np.geomspace(2.0, 0.05, 4)


# ----- tune -----


@pytest.mark.parametrize("rule", ["min", "one_se"])
@pytest.mark.parametrize(
    ("loss", "penalty", "params"),
    [
        (sp.LAD(), sp.ElasticNet, {"l1_ratio": [0.1, 0.6, 1.0]}),
        (sp.LAD(), sp.MCP, {"gamma": [2.0, 4.0]}),
        (sp.Quantile(0.3), sp.SCAD, {"a": [2.5, 4.0]}),
        (sp.Huber(), sp.Lasso, {"delta": [0.3, 3.0]}),
        (sp.EpsilonInsensitive(), sp.Ridge, {"eps": [0.0, 1.0]}),
        (sp.Huber(), sp.ElasticNet, {"delta": [0.3, 3.0], "l1_ratio": [0.2, 0.8]}),
    ],
    ids=str,
)
def test_a_grid_has_the_risks_of_each_of_its_values(loss, penalty, params, rule):
    how = FAST | {"fit_intercept": True, "method": "folds", "audit": 0, "rule": rule}
    found = sp.tune(X, Y, loss, penalty, LAMS, params=params, **how)
    names = list(params)
    of_loss = names[0] == loss.parameter_spec.name if loss.parameter_spec else False
    if of_loss:
        assert found.risks[0].test_loss == "absolute"
        how |= {"test_loss": "absolute"}
    places = np.stack([found.params[name] for name in names], axis=1)
    for values in np.unique(places, axis=0):
        own = dict(zip(names, values.tolist(), strict=True))
        which = np.flatnonzero(np.all(places == values, axis=1))
        np.testing.assert_array_equal(found.lams[which], LAMS)
        own_loss = type(loss)(own.pop(names[0])) if of_loss else loss
        alone = sp.tune(X, Y, own_loss, partial(penalty, **own), LAMS, **how)
        np.testing.assert_allclose(found.risk[which], alone.risk, rtol=1e-8)
        if rule == "min":
            assert found.naive_risk <= alone.naive_risk * (1 + 1e-12)
    assert found.best_params == {
        "lam": found.best_lam,
        **{name: found.params[name][found.best[0]] for name in names},
    }
    for name in names:
        has = found.path.loss if hasattr(found.path.loss, name) else found.path.penalty
        assert getattr(has, name) == found.best_params[name]
        assert f"Selected {name}:" in str(found.summary())
    assert found.best_risk > 0
    assert found.chosen.method == "nested"
    assert list(found.to_dict())[1 : 1 + len(names)] == list(found.params)


def test_the_choice_of_the_parameter_counts():
    """Among many values the smallest estimate is too small by chance."""
    rng = np.random.default_rng(0)
    excess = []
    for _ in range(12):
        A, b = rng.standard_normal((50, 20)), rng.standard_normal(50)
        ratios = {"l1_ratio": np.linspace(0.05, 1, 6)}
        found = sp.tune(A, b, sp.LAD(), sp.ElasticNet, 5, params=ratios, **FAST)
        excess.append(found.best_risk - found.naive_risk)
    assert np.mean(excess) > 0.01


def test_the_part_with_the_selected_value():
    found = sp.tune(X, Y, sp.LAD(), sp.ElasticNet, 5, params={"l1_ratio": [0.2, 0.9]}, **FAST)
    part = found.at_best_params()
    assert len(part.lams) == 5
    assert part.best_lam == found.best_lam
    assert part.naive_risk == found.naive_risk
    assert part.best_risk == found.best_risk
    assert "<svg" in found._repr_html_()
    plain = sp.tune(X, Y, sp.LAD(), sp.Lasso, 5, **FAST)
    assert plain.at_best_params() is plain
    for plot in ("plot_tuning", "plot_penalties"):
        pytest.importorskip("matplotlib")
        from steinpath import plots

        plots.close(getattr(plots, plot)(found).figure)


@pytest.mark.parametrize(
    ("params", "error", "message"),
    [
        ({"gamma": [2.0]}, ValueError, "params has 'gamma', but the parameters .* 'l1_ratio'"),
        ({"q": [0.1, 0.9]}, ValueError, "params has 'q'"),
        ({"l1_ratio": [0.5, 2.0]}, ValueError, "l1_ratio must be"),
        ({"l1_ratio": []}, ValueError, "is empty"),
        ({"l1_ratio": ["half"]}, TypeError, "l1_ratio"),
        ([0.1], TypeError, "params must be a dict"),
    ],
)
def test_bad_grids(params, error, message):
    with pytest.raises(error, match=message):
        sp.tune(X, Y, sp.Quantile(0.5), sp.ElasticNet, 3, params=params, **FAST)


# ----- Estimators -----


@pytest.mark.parametrize(
    ("model", "name", "values"),
    [
        (sp.LADElasticNet(l1_ratio=[0.1, 0.9], **FIT), "l1_ratio", [0.1, 0.9]),
        (sp.HuberLasso(delta=(0.5, 1.35, 3), **FIT), "delta", [0.5, 1.35, 3.0]),
        (sp.HuberRidge(delta=np.array([0.5, 3]), **FIT), "delta", [0.5, 3.0]),
        (
            sp.PathRegressor(penalty="mcp", penalty_params={"gamma": [2.0, 5.0]}, **FIT),
            "gamma",
            [2.0, 5.0],
        ),
        (
            sp.PathRegressor("huber", "scad", {"delta": [1.0, 2.0]}, {"a": [3.0]}, **FIT),
            "delta",
            [1.0, 2.0],
        ),
        (
            sp.PathRegressor("epsilon_insensitive", loss_params={"eps": [0.0, 0.5]}, **FIT),
            "eps",
            [0.0, 0.5],
        ),
    ],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_estimators_select_a_parameter(model, name, values, tmp_path):
    model.fit(X, Y)
    assert model.risk_path_.shape == (4, 31)
    assert len(model.alphas_) == 4
    assert model.alpha_ == model.alphas_[model.best_index_]
    assert model.tuning_.risk.shape == (4 * len(values), 31)
    assert np.nanmin(model.tuning_.risk) == np.nanmin(model.risk_path_)
    assert getattr(model, f"{name}_") in values
    assert model.best_params_["alpha"] == model.alpha_
    assert model.best_params_[name] == getattr(model, f"{name}_")
    unit = 1.0 if name in ("l1_ratio", "gamma") else model.y_scale_
    has = model.loss_ if hasattr(model.loss_, name) else model.penalty_
    assert getattr(has, name) == pytest.approx(unit * getattr(model, f"{name}_"))
    assert model.test_loss_ == "absolute"
    assert f"Selected {name}:" in str(model.summary())
    sp.save_model(model, tmp_path / "m.json")
    again = sp.load_model(tmp_path / "m.json")
    np.testing.assert_allclose(again.predict(X), model.predict(X))
    assert again.best_params_ == model.best_params_
    sp.report(model, tmp_path / "r.html")
    assert f"selected {name}" in (tmp_path / "r.html").read_text()


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_classifiers_select_a_parameter():
    model = sp.LogisticElasticNet(l1_ratio=[0.1, 0.9], **FIT)
    assert model.fit(X, Y > 0).l1_ratio_ in (0.1, 0.9)
    model.fit(X, np.digitize(Y, [-1, 1]))
    assert all(one.l1_ratio_ in (0.1, 0.9) for one in model.estimators_)


def test_what_cannot_be_selected_is_refused():
    with pytest.raises(ValueError, match="several values of q cannot be selected from"):
        sp.PathRegressor("quantile", loss_params={"q": [0.1, 0.9]}).fit(X, Y)
    fixed = {"alpha": 0.1, "select": "last", "method": None}
    with pytest.raises(ValueError, match="several values of l1_ratio require a risk estimate"):
        sp.LADElasticNet(l1_ratio=[0.1, 0.9], **fixed).fit(X, Y)


# ----- Positive coefficients -----


@pytest.mark.parametrize(
    ("penalty", "model"),
    [
        (sp.Lasso, linear_model.Lasso(alpha=0.1, positive=True, tol=1e-10)),
        (sp.ElasticNet, linear_model.ElasticNet(alpha=0.1, positive=True, tol=1e-10)),
        (sp.Ridge, linear_model.Ridge(alpha=8.0, positive=True, tol=1e-12)),
    ],
)
@pytest.mark.parametrize("intercept", [False, True])
def test_positive_minimisers_are_those_of_scikit_learn(penalty, model, intercept):
    positive = penalty(0.1 * np.sqrt(80), positive=True)
    path = sp.run(X, Y, sp.Squared(), positive, n_iter=4000, fit_intercept=intercept)
    expected = model.set_params(fit_intercept=intercept).fit(X, Y)
    np.testing.assert_allclose(path.coef[-1], expected.coef_, atol=1e-6)
    assert path.gap[-1] < 1e-6
    assert path.coef.min() == 0.0
    assert np.any(path.coef[-1] == 0)


@pytest.mark.parametrize(
    "penalty",
    [sp.Lasso, sp.Ridge, sp.ElasticNet, sp.MCP, sp.SCAD],
    ids=lambda penalty: penalty.__name__,
)
def test_risks_with_positive_coefficients(penalty):
    rng = np.random.default_rng(0)
    A = rng.standard_normal((150, 60))
    b = A[:, :5].sum(axis=1) + rng.standard_normal(150)
    path = sp.run(A, b, sp.Huber(1.0), penalty(0.3, positive=True), n_iter=40)
    found, exact = (sp.estimate_risk(path, method=name).values for name in ("exact", "loo"))
    np.testing.assert_allclose(found[2:], exact[2:], rtol=0.05)


def test_the_smallest_lam_looks_at_one_side():
    one = np.array([[1.0], [1.0], [-1.0], [1.0]])
    up, down = np.array([1.0, 1.0, -1.0, 2.0]), np.array([-1.0, -1.0, 1.0, -2.0])
    positive, both = sp.Lasso(1.0, positive=True), sp.Lasso(1.0)
    assert sp.lam_max(one, up, sp.LAD(), positive) == sp.lam_max(one, up, sp.LAD(), both) > 0
    assert sp.lam_max(one, down, sp.LAD(), positive) == 0
    assert np.isinf(positive.value(np.array([-1.0])))


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_estimators_with_positive_coefficients():
    for model in (
        sp.LADLasso,
        sp.HuberRidge,
        sp.SqrtLasso,
        partial(sp.PathRegressor, penalty="scad"),
    ):
        found = model(positive=True, **FIT).fit(X, Y)
        assert found.coef_.min() >= 0
        assert model(**FIT).fit(X, Y).coef_.min() < 0
    with pytest.raises(ValueError, match="positive is not available for penalty='none'"):
        sp.PathRegressor(penalty="none", positive=True).fit(X, Y)
    with pytest.raises(ValueError, match="positive=True requires a name for penalty"):
        sp.PathRegressor(penalty=partial(sp.MCP, gamma=2.0), positive=True).fit(X, Y)
    with pytest.raises(TypeError, match="positive must be"):
        sp.LADLasso(positive="yes").fit(X, Y)
