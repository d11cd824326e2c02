"""Curves, products, and the encoder's features for them."""

import json
import pickle

import numpy as np
import pytest

from steinpath import TableEncoder
from steinpath._support.messages import DataError
from steinpath.estimators._basis import Basis, Terms, basis_of, fit_curves, strongest_pairs


def number(rng, n=400):
    return rng.gamma(2.0, size=n)


def test_functions_of_a_number_are_uncorrelated_and_the_smoothest_come_first():
    x = number(np.random.default_rng(0))
    [curve] = fit_curves("x", False, x, 8, 1)
    values = curve(x)
    together = np.column_stack([x, values])
    np.testing.assert_allclose(np.cov(together.T, bias=True)[1:, 1:], np.eye(6), atol=1e-8)
    np.testing.assert_allclose(np.corrcoef(together.T)[0, 1:], 0, atol=1e-8)
    at_knots = curve(np.array(curve.knots))
    turns = (np.diff(np.sign(np.diff(at_knots, axis=0)), axis=0) != 0).sum(axis=0)
    assert turns[0] == 1
    assert turns[-1] >= 5
    # with x and 1 they span all piecewise linear functions with these knots
    spanned = np.column_stack([np.ones(len(x)), together])
    for knot in curve.knots[1:-1]:
        hinge = np.maximum(x - knot, 0)
        fitted = spanned @ np.linalg.lstsq(spanned, hinge, rcond=None)[0]
        np.testing.assert_allclose(fitted, hinge, atol=1e-8)


@pytest.mark.parametrize("degree", [1, 3])
def test_curves_are_linear_beyond_the_data(degree):
    [curve] = fit_curves("x", False, number(np.random.default_rng(1)), 8, degree)
    beyond = curve(np.array([100.0, 200.0, 300.0]))
    np.testing.assert_allclose(np.diff(beyond, 2, axis=0), 0, atol=1e-6 * np.abs(beyond).max())


@pytest.mark.parametrize(
    ("name", "values", "period"),
    [
        ("hour", np.arange(24), 24),
        ("pickup_hour", np.arange(24), 24),
        ("Month", np.arange(1, 13), 12),
        ("weekday", np.arange(7), 7),
        ("day_of_week", np.arange(1, 8), 7),
        ("hours", np.arange(60), 0),
        ("hourly_rate", np.arange(24), 0),
        ("month", np.arange(1, 30), 0),
        ("hour", np.arange(24) + 0.5, 0),
    ],
)
def test_hours_months_and_weekdays_are_periodic(name, values, period):
    [curve] = fit_curves(name, False, np.tile(values, 40).astype(float), 8, 1)
    assert curve.period == period
    if period:
        np.testing.assert_allclose(curve(values + 0.0), curve(values + period + 0.0), atol=1e-9)


def test_dates_have_a_trend_and_periods():
    days = 18262 + np.arange(0, 1000, 1.0)
    assert [curve.period for curve in fit_curves("d", True, days, 8, 1)] == [365.25, 7, 0]
    assert [curve.period for curve in fit_curves("d", True, days[:200], 8, 1)] == [7, 0]
    assert [c.period for c in fit_curves("d", True, 18262 + np.arange(0, 70, 0.1), 8, 1)] == [
        7,
        1,
        0,
    ]
    week = fit_curves("d", True, days, 8, 1)[1]
    np.testing.assert_allclose(week(days[:7]), week(days[700:707]), atol=1e-9)
    assert week.size == 6


def test_few_values_have_no_curve():
    assert fit_curves("x", False, np.tile([1.0, 2, 3, 4], 50), 8, 1) == ()
    assert fit_curves("x", False, np.array([1.0, 2, 3, 4, 5]), 8, 1) == ()
    assert fit_curves("x", False, np.tile([1.0, 2, 3, 4, 5], 50), 8, 1)[0].size == 2


def frame(n=300):
    rng = np.random.default_rng(3)
    return {
        "x": number(rng, n),
        "hour": rng.integers(0, 24, n),
        "town": rng.choice(["Ulm", "Bonn", "Kiel"], n),
        "old": rng.choice(["yes", "no"], n),
    }


def test_the_encoder_adds_curves_and_products():
    data = frame()
    plain, curves = TableEncoder().fit(data), TableEncoder(curves=True).fit(data)
    names = curves.get_feature_names_out().tolist()
    own = [name for name in names if "(curve" not in name]
    assert own == plain.get_feature_names_out().tolist()
    assert len(names) == 6 + 6 + 11
    X = curves.transform(data)
    assert type(X) is np.ndarray
    np.testing.assert_array_equal(X[:, [names.index(n) for n in own]], plain.transform(data))
    both = TableEncoder(products=[("x", "town")]).fit(data)
    features = dict(zip(both.get_feature_names_out(), both.transform(data).T, strict=True))
    assert len(features) == 6 + 3
    middle = np.median(data["x"])
    ulm = np.equal(data["town"], "Ulm")
    np.testing.assert_allclose(features["x × town=Ulm"], (data["x"] - middle) * ulm)
    assert len(TableEncoder(products=True).fit(data).get_feature_names_out()) == 6 + 12


def test_levels_are_left_to_the_estimator():
    data = frame()
    for how, levels in {
        ("auto", False): ("linear", "curves"),
        ("auto", "auto"): ("linear", "curves", "curves and products"),
        (False, "auto"): ("linear", "linear and products"),
        (True, "auto"): ("curves", "curves and products"),
    }.items():
        X = TableEncoder(curves=how[0], products=how[1]).fit_transform(data)
        assert basis_of(X).levels == levels
    assert basis_of(X[:100]).levels == levels
    assert basis_of(X[:, :3]) is None
    assert basis_of(np.asarray(X)) is None
    assert basis_of(X[::-1, ...]).levels == levels
    assert basis_of(X[:, ::-1]) is None
    assert basis_of(2 * X) is None
    again = pickle.loads(pickle.dumps(X))
    assert basis_of(again).levels == levels
    np.testing.assert_array_equal(again.kinds, X.kinds)
    assert set(X.kinds) == {"number", "curve", "level"}
    assert X.order[X.kinds == "number"].tolist() == [0, 0]


def test_state_as_plain_data():
    data = frame()
    for how in ({"curves": True, "products": [("x", "hour")]}, {"curves": "auto"}):
        encoder = TableEncoder(**how).fit(data)
        state = json.loads(json.dumps(encoder.to_json()))
        again = TableEncoder.from_json(state)
        np.testing.assert_array_equal(again.transform(data), encoder.transform(data))
        assert again.get_feature_names_out().tolist() == encoder.get_feature_names_out().tolist()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"knots": [1.0, 1.0, 2.0]}, "are not those of a curve"),
        ({"degree": 9}, "are not those of a curve"),
        ({"weights": [[1.0]]}, "do not fit the knots"),
        ({"period": "7"}, "period"),
    ],
)
def test_invalid_curves_of_files_are_refused(change, message):
    state = TableEncoder(curves=True).fit(frame()).to_json()
    state["columns"][0]["curves"][0] |= change
    with pytest.raises(DataError, match=message):
        TableEncoder.from_json(json.loads(json.dumps(state)))


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"curves": "yes"}, "curves must be True, False or 'auto'; got 'yes'"),
        (
            {"products": 3},
            "products must be True, False or 'auto', or pairs of column names; got 3",
        ),
        ({"products": [("x", "x")]}, "or pairs of column names"),
        ({"products": [("x", "town", "old")]}, "or pairs of column names"),
        ({"products": ["xy"]}, "or pairs of column names"),
        ({"curves": "auto", "products": True}, "with curves='auto', products must be"),
        ({"products": [("x", "size")]}, "size"),
        ({"knots": 2}, "knots"),
        ({"degree": 0}, "degree"),
    ],
)
def test_invalid_parameters_are_refused(how, message):
    with pytest.raises((DataError, ValueError), match=message):
        TableEncoder(**{"curves": True} | how).fit(frame())


def test_too_many_products_are_refused():
    wide = {f"x{k}": np.arange(30.0) ** k for k in range(1, 100)}
    with pytest.raises(DataError, match="use products='auto', or name pairs of columns"):
        TableEncoder(curves=True, products=True).fit(wide)


def test_terms_are_columns_and_products_of_centred_columns():
    X = np.arange(12.0).reshape(4, 3)
    terms = Terms.of(3, [0, 2], [(0, 1), (2, 2)], centre=[1.0, 2.0, 0.0])
    expected = [X[:, 0], X[:, 2], (X[:, 0] - 1) * (X[:, 1] - 2), X[:, 2] ** 2]
    np.testing.assert_array_equal(terms(X), np.transpose(expected))
    assert terms.names(["a", "b", "c"]) == ["a", "c", "a × b", "c × c"]
    again = Terms.from_json(json.loads(json.dumps(terms.to_json())))
    np.testing.assert_array_equal(again(X), terms(X))
    with pytest.raises(DataError, match="do not fit the features"):
        Terms.from_json(terms.to_json() | {"n_given": 2})


def basis(rng, n=500, p=6):
    X = rng.standard_normal((n, p))
    return Basis.of(X, np.arange(p), np.zeros(p, int), np.repeat("number", p), ("linear",))


def test_products_are_selected_by_any_set_of_rows():
    rng = np.random.default_rng(5)
    X = basis(rng)
    first = np.arange(500) < 250
    y = np.where(first, X[:, 0] * X[:, 3], X[:, 1] * X[:, 2]) + 0.1 * rng.standard_normal(500)
    kept = np.stack([first, ~first], axis=1)
    found = {tuple(pair) for pair in strongest_pairs(X, np.arange(6), y, kept, most=1)[0].tolist()}
    assert found == {(0, 3), (1, 2)}
    # the additive part does not count
    y = 10 * np.asarray(X)[:, 4] + X[:, 0] * X[:, 3]
    assert strongest_pairs(X, np.arange(6), y, kept[:, :1], most=1)[0].tolist() == [[0, 3]]


def test_products_that_are_hardly_ever_present_are_not_selected():
    rng = np.random.default_rng(6)
    X = rng.standard_normal((200, 3))
    X[:, 2] = np.arange(200) < 4
    kinds = ["number", "number", "level"]
    X = Basis.of(X, [0, 1, 2], [0, 0, 0], kinds, ("linear",))
    y = 100 * X[:, 0] * X[:, 2] + rng.standard_normal(200)
    every = np.ones((200, 1), bool)
    assert strongest_pairs(X, np.arange(3), y, every)[0].tolist() == [[0, 1]]


def test_every_set_of_rows_selects_products_by_itself():
    """What other sets of rows select makes no difference, with many columns as well."""
    rng = np.random.default_rng(7)
    X = basis(rng, n=60, p=50)
    y = rng.standard_normal(60)
    kept = rng.uniform(size=(60, 4)) < 0.8
    pairs, chosen = strongest_pairs(X, np.arange(50), y, kept)
    for k in range(4):
        alone = strongest_pairs(X, np.arange(50), y, kept[:, [k]])[0]
        assert {*map(tuple, pairs[chosen[:, k]].tolist())} == {*map(tuple, alone.tolist())}
    changed = np.where(kept[:, 0], y, 100.0)  # nor do the responses of other rows
    pairs_then, then = strongest_pairs(X, np.arange(50), changed, kept)
    assert {*map(tuple, pairs_then[then[:, 0]].tolist())} == {
        *map(tuple, pairs[chosen[:, 0]].tolist())
    }


def test_columns_of_very_large_numbers_have_no_curve():
    assert fit_curves("x", False, np.array([-1.7e308, 1.7e308, 1, 2, 3, 4, 5.0] * 9), 8, 1) == ()


def test_data_frames_of_features_are_refused_with_auto():
    encoder = TableEncoder(curves="auto").set_output(transform="pandas")
    with pytest.raises(DataError, match="use set_output"):
        encoder.fit_transform(frame())
