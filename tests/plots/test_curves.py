"""Contributions of the columns of a table, and their plots."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from numpy.testing import assert_allclose
from sklearn.pipeline import make_pipeline

import steinpath as sp
from steinpath import plots
from steinpath.estimators._effects import column_curves, pair_surfaces

LONG = "a_very_long_name_with_$money$_in_it_and_more_of_it"


LOG = sp.LADLasso()
LOG.transform_target_ = "log"


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    n = 300
    x = pd.DataFrame(
        {
            LONG: 1e6 * rng.normal(size=n),
            "hour": rng.integers(0, 24, n),
            "when": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, n), "D"),
            "city": rng.choice([f"city number {k}" for k in range(20)], n),
            "yes": rng.choice(["no", "yes"], n),
            **{f"x{j}": rng.normal(size=n) for j in range(4)},
        }
    )
    y = np.sin(x[LONG] / 1e6) + np.cos(x["hour"] * np.pi / 12) + x["x0"] ** 2
    y += (x["when"] - x["when"].min()).dt.days / 300 + x["x1"] * (x["yes"] == "yes")
    y += np.linspace(-2, 2, 20)[x["city"].str.split().str[-1].astype(int)]
    return x, y + rng.standard_t(3, n) / 4


@pytest.fixture(scope="module")
def model(table):
    encoder = sp.TableEncoder(curves=True, products=[("x1", "yes"), ("x0", "x1")])
    return make_pipeline(encoder, sp.LADLasso(n_alphas=5, random_state=0)).fit(*table)


def predictions(model, table, **columns):
    """Predictions for the first row, with some columns replaced by arrays."""
    count = len(next(iter(columns.values())))
    rows = table[0].iloc[np.zeros(count, int)].reset_index(drop=True)
    return model.predict(rows.assign(**columns))


def test_curves_are_differences_of_predictions(model, table):
    shown = {curve.name: curve for curve in column_curves(model)}
    assert set(shown) >= {LONG, "hour", "when", "city", "x0"}
    for name in (LONG, "hour", "when", "city"):  # not in products
        _, at, effect, stderr = shown[name]
        if name == "when":
            at = pd.Timestamp("1970-01-01") + pd.to_timedelta(at, "D")
        rest = predictions(model, table, **{name: at}) - effect
        assert_allclose(rest, rest[0], atol=1e-6)
        assert_allclose(effect.mean(), 0, atol=1e-9)
        assert np.all(stderr >= 0)


def test_surfaces_are_what_curves_leave_of_predictions(model, table):
    surfaces = pair_surfaces(model)
    assert {surface.names for surface in surfaces} == {("yes", "x1"), ("x0", "x1")}
    for names, at, effect in surfaces:
        grid = dict(zip(names, (side.ravel() for side in np.meshgrid(*at)), strict=True))
        found = predictions(model, table, **grid).reshape(effect.T.shape).T
        # without functions of one of the two columns
        rest = [a - a[:1] - a[:, :1] + a[0, 0] for a in (found, effect)]
        assert_allclose(*rest, atol=1e-6)


def test_each_column_has_a_panel_on_the_same_scale(model):
    figure = plots.plot_curves(model, most=30)
    names = [curve.name for curve in column_curves(model)]
    axes = figure.axes
    assert len(axes) == len(names)
    assert len({ax.get_ylim() for ax in axes}) == 1
    by_name = dict(zip(names, axes, strict=True))
    assert "…" in by_name[LONG].get_title()
    assert_allclose(by_name["hour"].get_xticks(), [0, 6, 12, 18, 24])
    assert len(by_name["city"].get_xticks()) == 12
    assert "12 of 20 levels" in [text.get_text() for text in by_name["city"].texts]
    figure.draw_without_rendering()
    dates = [tick.get_text() for tick in by_name["when"].get_xticklabels()]
    assert any("202" in date for date in dates)
    plots.close(figure)


def test_plots_draw_on_the_figure_of_the_user(model):
    figure = Figure()
    parts = figure.subfigures(1, 2)
    assert plots.plot_curves(model, ["x0", "city"], fig=parts[0]) is parts[0]
    assert [ax.get_title() for ax in parts[0].axes] == ["x0", "city"]
    assert plots.plot_products(model, fig=parts[1]) is parts[1]
    assert len(parts[1].axes) == 3  # two products and the colours
    ax = Figure().subplots()
    assert plots.plot_importance(model, ax, most=3) is ax
    assert len(ax.patches) == 3
    assert ax.get_yticklabels()[0].get_text() == sp.column_effects(model).column[0]


def test_curves_without_standard_errors_have_no_band(model, monkeypatch):
    curves = [c._replace(stderr=np.full(len(c.at), np.nan)) for c in column_curves(model)]
    monkeypatch.setattr("steinpath.plots._curves.column_curves", lambda *_: curves)
    figure = plots.plot_curves(model)
    figure.draw_without_rendering()
    assert all(np.isfinite(ax.get_ylim()).all() for ax in figure.axes)
    plots.close(figure)


@pytest.mark.filterwarnings("ignore:class")
def test_several_classes_and_logarithms_are_named(table):
    x, y = table[0][["x0", "hour"]], table[1]
    model = make_pipeline(
        sp.TableEncoder(curves=True), sp.LogisticLasso(n_alphas=3, n_iter=50, random_state=0)
    ).fit(x, np.digitize(y, [0, 1]))
    figure = plots.plot_curves(model, which=2)
    assert figure.get_supylabel() == "contribution to the decision value"
    plots.close(figure)
    assert plots.contribution(LOG) == "contribution to log(prediction)"


def test_what_cannot_be_plotted_is_refused(model):
    with pytest.raises(ValueError, match="'nothing' is not a column with nonzero"):
        plots.plot_curves(model, ["nothing"])
    rng = np.random.default_rng(0)
    plain = make_pipeline(sp.TableEncoder(), sp.LADLasso(alpha=1e3, n_iter=5, random_state=0))
    with pytest.warns(UserWarning, match="all coefficients are zero"):
        plain.fit(pd.DataFrame({"a": rng.normal(size=50)}), rng.normal(size=50))
    for plot in (plots.plot_curves, plots.plot_products, plots.plot_importance):
        with pytest.raises(ValueError, match="nothing to plot"):
            plot(plain)
    with pytest.raises(TypeError, match="pipeline of a TableEncoder"):
        plots.plot_importance(plain[-1])
