"""Fits to data of a file, several losses compared."""

import math
from dataclasses import replace

import numpy as np
import pytest

import steinpath as sp
from steinpath._support.printing import with_error
from steinpath.app.encoding import encode
from steinpath.app.fitting import Fit, _on_the_same_rows, compare_models, fit_model, prepare_data
from steinpath.app.model_spec import ModelSpec, make_criterion
from steinpath.app.report.build import build_charts, build_content
from steinpath.app.tables import as_table
from steinpath.problem._scoring import CRITERIA
from steinpath.problem._spread import robust_spread
from steinpath.risk._after_choice import compare_chosen


def rows(n=150, p=6, seed=0, noise="t2"):
    X, y = sp.simulate.paper_model(p, noise=noise).sample(n, rng=seed)
    return {**{f"x{j}": X[:, j] for j in range(p)}, "y": y}


def data(columns=None, **options):
    encoded = encode(as_table(rows() if columns is None else columns), "y")
    return prepare_data(encoded, **{"n_iter": 50, "n_alphas": 5} | options)


def spec(loss="lad", penalty="lasso", y=None, **parameters):
    return ModelSpec.from_names(loss, penalty, rows()["y"] if y is None else y, **parameters)


@pytest.mark.parametrize("n_iter", [50, 10**6])  # in double precision, and in single
def test_columns_are_centred_before_they_are_rounded(n_iter):
    days = 1e9 + np.random.default_rng(0).permutation(150)
    found = data(rows() | {"days": days}, n_iter=n_iter)
    j = found.encoded.encoding.feature_names.index("days")
    assert found.design.example.dtype == (np.float64 if n_iter == 50 else np.float32)
    expected = (days - days.mean()) / days.std()
    np.testing.assert_allclose(found.design.example[:, j], expected, rtol=1e-6)
    assert found.centre[j] == pytest.approx(days.mean(), rel=1e-12)
    assert found.scale[j] == pytest.approx(days.std(), rel=1e-12)


def test_the_fit_does_not_depend_on_units_or_origins():
    columns = rows()
    fit = fit_model(data(columns), spec())
    moved = {name: 1e3 * x + 1e6 for name, x in columns.items()}
    other = fit_model(data(moved), spec())
    assert other.tuning.best == fit.tuning.best
    assert other.estimate == pytest.approx([1e3 * value for value in fit.estimate], rel=1e-6)
    np.testing.assert_allclose(other.coef, fit.coef, rtol=1e-6, atol=1e-8)
    predicted = np.column_stack([moved[f"x{j}"] for j in range(6)]) @ other.coef + other.intercept
    original = np.column_stack([columns[f"x{j}"] for j in range(6)]) @ fit.coef + fit.intercept
    np.testing.assert_allclose((predicted - 1e6) / 1e3, original, rtol=1e-5, atol=1e-6)


def test_the_training_error_is_that_of_the_predictions():
    columns = rows(60, 80)
    fit = fit_model(data(columns), spec("huber"), "absolute")
    X = np.column_stack([columns[f"x{j}"] for j in range(80)])
    residuals = columns["y"] - X @ fit.coef - fit.intercept
    assert fit.train == pytest.approx(np.abs(residuals).mean(), rel=1e-9)
    charts = build_charts(fit, fit.data.encoded.encoding.feature_names)
    np.testing.assert_allclose(charts.raw, residuals, rtol=1e-9, atol=1e-9)
    assert fit.risk.method == "loo"  # folds have a correction of their mean beside
    assert np.abs(charts.corrected).mean() == pytest.approx(fit.naive[0], rel=1e-9)


def test_many_rows_leave_room_for_fewer_values_of_alpha():
    small, large = ({"x": np.arange(n) % 7.0, "y": np.arange(n) % 5.0} for n in (100, 100_000))
    found = data(small, n_iter=None, n_alphas=None)
    assert (found.n_iter, found.n_alphas, found.notes) == ("auto", 20, ())
    found = data(large, n_iter=None, n_alphas=None)
    assert (found.n_iter, found.n_alphas) == ("auto", 9)
    assert found.design.example.dtype == np.float32
    assert found.notes[0] == (
        "because of the number of rows, the grid has 9 values of alpha instead of 20; use "
        "--n-alphas 20 for all"
    )
    asked = data(large, n_iter=400, n_alphas=20)
    assert (asked.n_iter, asked.n_alphas, asked.notes) == (400, 20, ())


def test_the_fit_says_how_long_it_ran_and_why(monkeypatch):
    given = fit_model(data(n_iter=60), spec())
    assert given.length == "Iterations ended at 60: as set by --n-iter."
    assert given.warnings == given.tuning.warnings
    auto = fit_model(data(n_iter=None), spec())
    n_iter = auto.tuning.path.n_iter
    assert (
        auto.length
        == f"Iterations ended at {n_iter}: more are not expected to lower the estimated risk."
    )
    assert auto.warnings == auto.tuning.warnings


@pytest.mark.parametrize("n_iter", [3, None], ids=["given", "limit"])
def test_a_risk_that_still_falls_is_the_first_warning(n_iter, monkeypatch):
    monkeypatch.setattr("steinpath.tuning._search.growing_horizons", lambda *_: [3])
    fit = fit_model(data(n_iter=n_iter), spec())
    limit = "" if n_iter else ", the limit for data of this size"
    said = f"the estimated risk was still decreasing after 3 iterations{limit}; use a larger number"
    assert fit.warnings[0] == f"{said}, such as --n-iter 6"
    assert fit.warnings[1:] == fit.tuning.warnings
    if n_iter is None:
        assert fit.length.endswith("at 3: the limit for data of this size (use --n-iter for more).")
    content = build_content(fit, file="f", command="c", seed=0)
    assert content.warnings == fit.warnings
    assert fit.length in content.model


def test_shapes_go_where_they_belong():
    y = rows()["y"]
    spread = robust_spread(y)
    assert spec("huber").loss == sp.Huber(1.35 * spread)
    assert spec("huber", delta=2.0).loss == sp.Huber(2.0 * spread)
    assert spec("epsilon_insensitive", eps=0.0).loss == sp.EpsilonInsensitive(0.0)
    assert spec("quantile", q=0.9).loss == sp.Quantile(0.9)
    assert spec(penalty="mcp", gamma=5.0, a=4.0).penalty_of(2.0) == sp.MCP(2.0, gamma=5.0)
    assert spec(penalty="scad", gamma=5.0, a=4.0).penalty_of(2.0) == sp.SCAD(2.0, a=4.0)
    assert spec(penalty="elastic_net", l1_ratio=0.2).penalty_of(1.0) == sp.ElasticNet(1.0, 0.2)
    assert spec("square_root", "none").words == "square root + no penalty"


def test_the_spread_is_that_of_a_gaussian():
    y = np.random.default_rng(0).normal(3.0, 2.0, 100_000)
    assert robust_spread(y) == pytest.approx(2.0, rel=0.02)
    assert robust_spread(np.array([0.0] * 9 + [1.0])) == pytest.approx(0.3)


def test_ranks_and_differences():
    specs = [spec("squared"), spec("lad"), spec("lad", "ridge")]
    best, ranking = compare_models(data(), specs, make_criterion("absolute", rows()["y"]))
    assert [row.risk for row in ranking] == sorted(row.risk for row in ranking)
    assert ranking[0].risk == best.estimate[0]
    assert (ranking[0].behind, ranking[0].behind_stderr) == (0.0, 0.0)
    # the difference of two that are estimated on the same rows is known better than each
    for row in ranking[1:]:
        assert row.behind == pytest.approx(row.risk - ranking[0].risk)
        assert 0 < row.behind_stderr < math.hypot(row.stderr, ranking[0].stderr)


def test_test_losses_have_their_parameters_in_units_of_the_target():
    y = rows()["y"]
    spread = robust_spread(y)
    assert make_criterion("absolute", y) == CRITERIA["absolute"]()
    assert make_criterion("quantile", y, q=0.9) == CRITERIA["quantile"](0.9)
    assert make_criterion("huber", y) == CRITERIA["huber"](1.35 * spread)
    assert make_criterion("pseudo_huber", y, delta=2.0) == CRITERIA["pseudo_huber"](2.0 * spread)
    assert make_criterion("epsilon_insensitive", y, eps=0.0).parameter == 0.0


def test_content_is_what_was_found():
    fit = fit_model(data(), spec())
    content = build_content(fit, file="f.csv", command="steinpath fit f.csv", seed=3, notes=["a"])
    t = fit.tuning.best_iter
    assert f"iteration {t} of 50" in content.model
    assert with_error(*fit.estimate) in content.verdict
    assert dict(content.facts)["nonzero coefficients"] == f"{fit.nonzeros} of 6"
    assert len(content.coefficients) == fit.nonzeros
    effects = [abs(c.effect) for c in content.coefficients]
    assert effects == sorted(effects, reverse=True)
    charts = content.charts
    k, shown = charts.chosen
    assert charts.iterates[shown] == t
    assert charts.risk[k][shown] == pytest.approx(fit.naive[0])
    assert with_error(*fit.naive) in charts.at_the_choice
    assert with_error(*fit.estimate) in charts.at_the_choice
    assert dict(content.provenance)["adjustment for selection"] == "nested folds"
    assert charts.alphas == tuple(sorted(charts.alphas, reverse=True))
    assert charts.nonzeros[k][shown] == fit.nonzeros
    assert ("seed", "3") in content.provenance
    assert content.notes == ("a",)


def test_very_many_iterates_are_thinned():
    fit = fit_model(data(n_iter=1500, n_alphas=2), spec())
    charts = build_charts(fit, fit.data.encoded.encoding.feature_names)
    assert len(charts.iterates) < 450
    assert charts.iterates[charts.chosen[1]] == fit.tuning.best_iter
    assert (charts.iterates[0], charts.iterates[-1]) == (0, 1500)


@pytest.mark.parametrize(
    ("value", "stderr", "said"),
    [
        (44.0321, 1.613, "44.0 ± 1.6"),
        (0.0123456, 0.00031, "0.01235 ± 0.00031"),
        (123456.7, 2345.6, "123,500 ± 2,300"),
        (1.5, 0.0, "1.5 ± 0"),
        (1.5, math.inf, "1.5"),
        (3e-12, 2e-13, "3e-12 ± 2e-13"),
    ],
)
def test_numbers_have_the_digits_of_their_error(value, stderr, said):
    assert with_error(value, stderr) == said


# ------------------------------------------------------------------------------------------------
# Rows left out
# ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("naive", "smaller"), [(1.0, True), (3.0, False)])
def test_the_curve_is_said_to_be_too_small_where_it_is_smaller(naive, smaller, monkeypatch):
    fit = fit_model(data(), spec())
    monkeypatch.setattr(Fit, "estimate", property(lambda self: (2.0, 0.5)))
    monkeypatch.setattr(Fit, "naive", property(lambda self: (naive, 0.5)))
    said = build_charts(fit, fit.data.encoded.encoding.feature_names).at_the_choice
    assert ("biased downwards" in said) == smaller
    assert said.endswith("it is 2.00 ± 0.50.")


def test_the_estimate_is_the_honest_one():
    fit = fit_model(data(), spec())
    tuning = fit.tuning
    assert fit.estimate == (tuning.best_risk, tuning.best_risk_stderr)
    assert fit.naive == (tuning.risk[tuning.best], tuning.stderr[tuning.best])


def test_rows_left_out_are_in_units_of_the_target():
    """Moving and scaling the target moves and scales what is said of left-out rows."""
    columns = rows()
    fit = fit_model(data(columns), spec())
    other = fit_model(data(columns | {"y": 1e3 * columns["y"] + 1e6}), spec())
    np.testing.assert_allclose(fit.left_out.actual, columns["y"], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose((other.left_out.actual - 1e6) / 1e3, columns["y"], atol=1e-6)
    residuals = fit.left_out.residuals
    np.testing.assert_allclose(other.left_out.residuals / 1e3, residuals, rtol=1e-4, atol=1e-5)
    assert fit.left_out.median_error == np.median(np.abs(residuals))
    assert other.improvement == pytest.approx(fit.improvement, rel=1e-5)


def test_left_out_predictions_are_by_models_that_did_not_see_the_row():
    """A gross error in one row does not move its own prediction, as it would a fit by squares."""
    columns = rows()
    row = 17
    changed = columns | {"y": columns["y"] + 1e4 * (np.arange(150) == row)}
    fits = [fit_model(data(each, n_alphas=3), spec("squared")) for each in (columns, changed)]
    left_out = [fit.left_out.predicted[row] for fit in fits]
    fitted = [fit.intercept + fit.coef @ fit.data.encoded.X[row] for fit in fits]
    assert abs(fitted[1] - fitted[0]) > 10
    assert abs(left_out[1] - left_out[0]) < 0.2 * abs(fitted[1] - fitted[0])


def test_the_constant_is_the_best_on_the_rows_that_were_left_out():
    columns = rows() | {"t": np.arange(150.0)}
    columns["y"] = columns["y"] + 5 * (np.arange(150) < 25)  # which are never left out
    encoded = encode(as_table(columns), "y", time="t")
    fit = fit_model(prepare_data(encoded, 30, 3, gap=0), spec())
    chosen = fit.tuning.chosen
    assert chosen.rows.min() >= 25
    y = columns["y"][chosen.rows]
    np.testing.assert_allclose(fit.left_out.actual, y)
    assert fit.constant_risk == pytest.approx(np.abs(y - np.median(y)).mean(), rel=1e-6)
    assert fit.improvement == pytest.approx(100 * (1 - fit.estimate[0] / fit.constant_risk))


def test_intervals_are_in_units_of_the_features():
    columns = {**rows(), "x0": 1e3 + 50 * rows()["x0"]}
    fit = fit_model(data(columns), spec())
    X = fit.data.encoded.X
    standard = (X - X.mean(axis=0)) / X.std(axis=0)
    expected = fit.tuning.predict_interval(standard, 0.8) + fit.data.level
    np.testing.assert_allclose(fit.intervals.interval(X, 0.8), expected, rtol=1e-6)


def test_charts_have_quantiles_of_all_rows_and_points_of_some(monkeypatch):
    fit = fit_model(data(), spec())
    monkeypatch.setattr("steinpath.app.report.build._MOST_ROWS", 40)
    charts = build_charts(fit, fit.data.encoded.encoding.feature_names)
    assert len(charts.actual) == len(charts.predicted) == 40
    assert charts.left_out_rows == 150
    shares = [0.05, 0.25, 0.5, 0.75, 0.95]
    np.testing.assert_allclose(charts.quantiles, np.quantile(fit.left_out.residuals, shares))
    pairs = set(zip(fit.left_out.actual, fit.left_out.predicted, strict=True))
    assert set(zip(charts.actual, charts.predicted, strict=True)) <= pairs


@pytest.mark.parametrize(
    ("penalty", "said"),
    [
        ("lasso", "± is one standard error, adjusted for the selection of alpha and iteration"),
        ("none", "± is one standard error, adjusted for the selection of the iteration"),
    ],
)
def test_what_is_counted_is_what_was_chosen(penalty, said):
    assert fit_model(data(), spec(penalty=penalty)).meaning_of_error == said


def test_ranks_of_a_time_series_are_compared_on_the_rows_that_all_left_out():
    """Splits whose choice is not made again leave out the first block, too."""
    encoded = encode(as_table(rows() | {"t": np.arange(150.0)}), "y", time="t")
    prepared = prepare_data(encoded, 30, 3, gap=2)
    first, second = (fit_model(prepared, spec(loss)).tuning.chosen for loss in ("lad", "squared"))
    some = np.arange(20, len(first.rows))
    fewer = replace(first, rows=first.rows[some], losses=first.losses[some],
                    predictions=first.predictions[some], interactions=None)  # fmt: skip
    one, other = _on_the_same_rows(fewer, second)
    np.testing.assert_array_equal(one.rows, other.rows)
    np.testing.assert_array_equal(other.losses, second.losses[some])
    assert compare_chosen(one, other)[1] > 0
    same = _on_the_same_rows(first, second)
    assert same == (first, second)


def test_groups_and_splits_are_handed_on():
    columns = rows() | {"site": np.arange(150) % 30, "t": np.arange(150.0)}
    by_group = fit_model(
        prepare_data(encode(as_table(columns), "y", group="site", drop=["t"]), 20, 3), spec()
    )
    folds = by_group.tuning.chosen.splits.fold
    for site in range(30):
        assert len(set(folds[columns["site"] == site])) == 1
    content = build_content(by_group, file="", command="", seed=0)
    assert content.assumptions[1].startswith("Groups are independent")
    assert content.verdict.startswith("On rows of new groups like these, ")
    by_time = fit_model(
        prepare_data(encode(as_table(columns), "y", time="t", drop=["site"]), 20, 3, gap=3), spec()
    )
    splits = by_time.tuning.chosen.splits
    for train, test in zip(splits.train.T, splits.test.T, strict=True):
        assert np.flatnonzero(train).max() + 3 < np.flatnonzero(test).min()
    content = build_content(by_time, file="", command="", seed=0)
    assert "earlier rows only" in content.assumptions[0]
    assert content.verdict.startswith("On later rows like these, ")
