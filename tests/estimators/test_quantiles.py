"""Several quantiles in one estimator: as single ones, in order, with intervals between them."""

import math
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.metrics import r2_score
from sklearn.model_selection import TimeSeriesSplit

import steinpath as sp
from callbacks import Counter

LEVELS = (0.05, 0.5, 0.95)
FAST = {"n_alphas": 3, "n_iter": 40, "random_state": 0}
# what single estimators say of these small data is not what is tested here
pytestmark = pytest.mark.filterwarnings("ignore:q=", "ignore:the ", "ignore:sample_weight")


def draw(rng, n, p=5):
    """Responses whose standard deviation, also returned, depends on the first feature."""
    X = rng.uniform(size=(n, p))
    sizes = 0.2 + 2 * X[:, 0]
    return X, X[:, 1] - X[:, 2] + sizes * rng.standard_normal(n), sizes


@pytest.fixture(scope="module")
def data():
    X, y, _ = draw(np.random.default_rng(0), 90)
    return X, y


@pytest.fixture(scope="module", params=[sp.QuantileLasso, sp.QuantileRidge])
def model(request, data):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return request.param(q=LEVELS, **FAST).fit(*data)


# ----- Quantiles -----


def assert_levels_are(model, singles):
    """Check that a model of several quantiles is that of single ones."""
    for name in ("coef_", "intercept_", "alpha_", "best_iter_", "best_index_", "n_iter_"):
        np.testing.assert_allclose(getattr(model, name), [getattr(s, name) for s in singles])
    for name in ("best_risk_", "best_risk_stderr_", "naive_risk_"):
        assert hasattr(model, name) == hasattr(singles[0], name)
        if hasattr(model, name):
            values = [getattr(single, name) for single in singles]
            np.testing.assert_allclose(getattr(model, name), values)
    for one, single in zip(model.estimators_, singles, strict=True):
        assert one.q == single.q
        np.testing.assert_allclose(one.coef_, single.coef_, atol=1e-12)


def test_each_level_is_a_fit_of_its_own(model, data):
    singles = [type(model)(q=q, **FAST).fit(*data) for q in LEVELS]
    assert_levels_are(model, singles)
    assert model.coef_.shape == (3, 5)
    assert model.intercept_.shape == model.alpha_.shape == model.best_risk_stderr_.shape == (3,)
    assert model.n_features_in_ == 5
    predictions = np.column_stack([single.predict(data[0]) for single in singles])
    np.testing.assert_allclose(model.predict(data[0]), np.sort(predictions, axis=1), rtol=1e-12)


@pytest.mark.parametrize(
    ("settings", "fit"),
    [
        ({"cv": 4}, {}),
        ({"cv": TimeSeriesSplit(3)}, {}),
        ({}, {"groups": np.arange(90) // 6}),
        ({}, {"sample_weight": np.arange(90) % 3}),
        ({"alpha": 0.02, "select": "last", "method": None, "tol": 9}, {}),
        ({"alpha": 0.02, "select": "last", "tol": 9}, {"sample_weight": np.linspace(1, 2, 90)}),
    ],
    ids=["folds", "time", "groups", "counts", "no risk", "weights"],
)
def test_every_level_gets_everything(settings, fit, data):
    settings = FAST | settings
    found = sp.QuantileLasso(q=(0.2, 0.8), **settings).fit(*data, **fit)
    assert_levels_are(
        found, [sp.QuantileLasso(q=q, **settings).fit(*data, **fit) for q in (0.2, 0.8)]
    )
    plain = sp.QuantileLasso(q=(0.2, 0.8), **FAST).fit(*data)
    assert not np.array_equal(found.coef_, plain.coef_) or settings.get("cv")


def test_folds_are_the_same_for_all_levels(data):
    states = (0, None, np.random.RandomState(3))
    for state in states:
        model = sp.QuantileLasso(q=(0.1, 0.9), **FAST | {"random_state": state}).fit(*data)
        low, high = (one.intervals_.fold for one in model.estimators_)
        np.testing.assert_array_equal(low, high)


def test_pairs_of_indices_may_come_from_a_generator(data):
    def folds():
        yield from ((np.flatnonzero(np.arange(90) % 3 != k), np.arange(k, 90, 3)) for k in range(3))

    settings = FAST | {"cv": folds()}
    model = sp.QuantileLasso(q=(0.1, 0.9), **settings).fit(*data)
    for one in model.estimators_:
        np.testing.assert_array_equal(one.intervals_.fold, np.arange(90) % 3)


def test_predictions_do_not_cross(data):
    X, y = data
    # runs that have hardly begun, close levels and rows far from the data
    levels = np.linspace(0.3, 0.7, 9)
    model = sp.QuantileLasso(q=levels, alpha=1e-4, select="last", n_iter=15, tol=9, method=None)
    model.fit(X[:30], y[:30])
    far = np.random.default_rng(1).normal(scale=20, size=(200, 5))
    separate = np.column_stack([one.predict(far) for one in model.estimators_])
    assert np.any(np.diff(separate, axis=1) < 0)
    predictions = model.predict(far)
    assert np.all(np.diff(predictions, axis=1) >= 0)
    np.testing.assert_allclose(predictions, np.sort(separate, axis=1))


def test_score_is_of_the_level_nearest_to_the_median(data):
    X, y = data
    model = sp.QuantileLasso(q=(0.1, 0.6, 0.95), **FAST).fit(X, y)
    assert model.score(X, y) == pytest.approx(r2_score(y, model.predict(X)[:, 1]))
    w = np.arange(len(y)) % 4
    expected = r2_score(y, model.predict(X)[:, 1], sample_weight=w)
    assert model.score(X, y, sample_weight=w) == pytest.approx(expected)
    single = sp.QuantileLasso(q=0.6, **FAST).fit(X, y)
    assert single.score(X, y) == pytest.approx(r2_score(y, single.predict(X)))


# ----- Intervals -----


def test_intervals_are_conformalised_quantiles_by_definition(data):
    """Romano et al. (2019), with the models of the folds (CV+), from the fold models themselves."""
    X, y = data
    model = sp.QuantileLasso(q=LEVELS, **FAST, cv=5).fit(X, y)
    low, high = (model.estimators_[k].intervals_ for k in (0, -1))
    np.testing.assert_array_equal(low.fold, high.fold)
    new = np.random.default_rng(4).uniform(size=(7, 5))
    scores, lower, upper = [], [], []
    for i, k in enumerate(low.fold):
        left, right = (float(m.intercept[k] + X[i] @ m.coef[k]) for m in (low, high))
        scores.append(max(left - y[i], y[i] - right))
        lower.append(low.intercept[k] + new @ low.coef[k] - scores[-1])
        upper.append(high.intercept[k] + new @ high.coef[k] + scores[-1])
    rank = math.floor(0.2 * 91)
    expected = np.sort(lower, axis=0)[rank - 1], np.sort(upper, axis=0)[-rank]
    np.testing.assert_allclose(model.predict_interval(new, 0.8).T, expected)


@pytest.mark.slow
def test_coverage_adapts_to_the_spread():
    # beside intervals of left-out residuals, which are as wide everywhere
    level, shares, widths = 0.9, [], []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        X, y, _ = draw(rng, 300)
        Z, z, sizes = draw(rng, 5000)
        where = np.stack([np.full(len(z), True), sizes < 0.7, sizes > 1.7])
        for model in (sp.QuantileLasso(q=(0.05, 0.95), **FAST), sp.LADLasso(**FAST)):
            lower, upper = model.fit(X, y).predict_interval(Z, level).T
            covered = (lower <= z) & (z <= upper)
            shares.append([covered[part].mean() for part in where])
            widths.append([(upper - lower)[part].mean() for part in where])
    shares, widths = (np.reshape(found, (8, 2, 3)) for found in (shares, widths))
    stderr = np.std(shares[:, :, 0], axis=0, ddof=1) / math.sqrt(8)
    (every, small, large), (plain, over, under) = shares.mean(axis=0)
    for found, error in zip((every, plain), stderr, strict=True):
        assert abs(found - level) < 0.01 + 3 * error
    assert abs(small - level) < 0.05
    assert abs(large - level) < 0.05
    assert over > 0.98
    assert under < 0.82
    (width, narrow, wide), (plain_width, *_) = widths.mean(axis=0)
    # the best are 3.29 standard deviations long, which are 0.45 and 1.95 on average there
    assert 3.29 * 0.45 < narrow < plain_width / 2
    assert wide == pytest.approx(3.29 * 1.95, rel=0.15)
    assert width < plain_width


def test_intervals_of_time_series_are_centred_at_the_models_of_all_rows(data):
    X, y = data
    model = sp.QuantileLasso(q=(0.1, 0.9), **FAST, cv=TimeSeriesSplit(3)).fit(X, y)
    lower, upper = model.predict_interval(X, 0.8).T
    # both bounds move by the same
    moves = np.stack(
        [lower - model.estimators_[0].predict(X), upper - model.estimators_[1].predict(X)]
    )
    np.testing.assert_allclose(moves, [[moves[0, 0]] * 90, [-moves[0, 0]] * 90], atol=1e-9)


# ----- scikit-learn -----


@pytest.mark.parametrize("q", [LEVELS, list(LEVELS), np.array(LEVELS), pd.Series(LEVELS)])
def test_kinds_of_sequences(q, data):
    model = sp.QuantileLasso(q=q, **FAST | {"n_iter": 10}).fit(*data)
    assert model.q is q
    assert [one.q for one in model.estimators_] == list(LEVELS)
    again = clone(model)
    assert not hasattr(again, "estimators_")
    np.testing.assert_array_equal(again.q, q)
    assert type(again.q) is type(q)


def test_parameters_and_persistence(model, data):
    X, _ = data
    assert model.get_params()["q"] == LEVELS
    assert "q=(0.05, 0.5, 0.95)" in repr(model)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    np.testing.assert_array_equal(again.predict_interval(X), model.predict_interval(X))
    refitted = clone(model).fit(*data)
    np.testing.assert_array_equal(refitted.coef_, model.coef_)


def test_warm_starts_go_on_and_callbacks_see_all_levels(data):
    counter = Counter()
    settings = FAST | {"n_iter": 10, "warm_start": True}
    model = sp.QuantileLasso(q=(0.1, 0.9), **settings).set_callbacks(counter).fit(*data)
    assert (counter.iterations, counter.open) == (20, 0)
    model.set_params(n_iter=15).fit(*data)
    assert (counter.iterations, counter.open) == (30, 0)
    fresh = sp.QuantileLasso(q=(0.1, 0.9), **FAST | {"n_iter": 15}).fit(*data)
    np.testing.assert_allclose(model.coef_, fresh.coef_, rtol=1e-9)


def test_warnings_say_of_which_level_they_are(data):
    X, y = data
    model = sp.QuantileLasso(q=(0.1, 0.9), alpha=1e-3, select="last", n_iter=3, method=None)
    with pytest.warns(match="did not converge") as caught:
        model.fit(X, y)
    assert [str(each.message)[:6] for each in caught] == ["q=0.1:", "q=0.9:"]
    assert {each.filename for each in caught} == {__file__}
    few = sp.QuantileLasso(q=(0.3, 0.7), n_alphas=3, n_iter=10, random_state=0)
    with pytest.warns(match="observations") as caught:
        few.fit(X[:12], y[:12])
    issued = {str(each.message) for each in caught}
    assert few.warnings_
    assert issued >= set(few.warnings_)
    for message in few.warnings_:
        own = [message.split(": ", 1)[-1] in one.warnings_ for one in few.estimators_]
        said = {(True, False): "q=0.3: ", (False, True): "q=0.7: ", (True, True): ""}[*own]
        assert message.startswith(said)
        assert message.startswith("q=") == bool(said)
    assert len(set(few.warnings_)) == len(few.warnings_)


def test_crossing_quantiles_are_counted(data):
    X, y = data
    many = np.linspace(0.1, 0.9, 17)
    model = sp.QuantileLasso(q=many, **FAST).fit(X, y)
    new = 3 * np.random.default_rng(1).standard_normal((200, 5))
    raw = new @ model.coef_.T + model.intercept_
    crossed = np.any(np.diff(raw, axis=1) < 0, axis=1).mean()
    assert 0 < crossed < 1
    assert model.crossing(new) == crossed
    assert np.all(np.diff(model.predict(new), axis=1) >= 0)
    held_out = np.stack([one.left_out_prediction_ for one in model.estimators_], axis=1)
    assert model.crossing_ == np.any(np.diff(held_out, axis=1) < 0, axis=1).mean()
    assert f"{model.crossing_:.1%} of rows" in str(model.summary())
    single = sp.QuantileLasso(q=0.3, **FAST).fit(X, y)
    assert single.crossing(new) == 0
    assert not hasattr(single, "crossing_")


# ----- Refusals -----


@pytest.mark.parametrize(
    ("q", "message"),
    [
        ((), r"q is empty"),
        ((0.5, 0.1), r"several in increasing order, such as \(0.05, 0.5, 0.95\); got \(0.5, 0.1\)"),
        ((0.5, 0.5), "in increasing order"),
        ((0.0, 0.5), "q must be a level between 0 and 1"),
        ((0.5, 1.0), "q must be a level between 0 and 1"),
        ((-0.1, 0.5), "q must be a level between 0 and 1"),
        ((5, 95), "q must be a level between 0 and 1"),
        ((0.1, np.nan), "q has 1 value that is NaN or infinite; use levels between 0 and 1"),
        (((0.1, 0.9), (0.2, 0.8)), "q must have 1 dimension"),
        (("low", "high"), "q must hold real numbers"),
        ((0.1, None), "q has 1 value that is NaN"),
        ({"low": 0.1}, "q must hold real numbers"),
        ("median", "q must be a real number"),
        (None, "q must be a real number"),
        (1.5, r"q must be a finite number in \(0, 1\)"),
    ],
)
def test_quantiles_that_are_none_are_refused(q, message, data):
    with pytest.raises((ValueError, TypeError), match=message):
        sp.QuantileLasso(q=q, **FAST).fit(*data)


def test_intervals_need_two_levels(data):
    X, y = data
    model = sp.QuantileLasso(q=(0.5,), **FAST | {"n_iter": 10}).fit(X, y)
    assert model.predict(X).shape == (90, 1)
    with pytest.raises(ValueError, match=r"require at least two.*got q=\(0.5,\)"):
        model.predict_interval(X)


def test_intervals_need_a_risk(data):
    X, y = data
    settings = {"alpha": 0.02, "select": "last", "method": None, "tol": 9}
    model = sp.QuantileLasso(q=(0.1, 0.9), **settings).fit(X, y)
    assert not hasattr(model, "best_risk_")
    with pytest.raises(ValueError, match="intervals are not available: no risk was estimated"):
        model.predict_interval(X)


def test_levels_of_intervals_and_features_are_checked(model, data):
    X, _ = data
    with pytest.raises(ValueError, match=r"level must be a finite number in \(0, 1\), got 90"):
        model.predict_interval(X, 90)
    with pytest.raises(ValueError, match=r"the highest possible level is 0\.989"):
        model.predict_interval(X, 0.999)
    with pytest.raises(ValueError, match="features"):
        model.predict_interval(X[:, :3])
