"""Plots: contents, axes, and files."""

import math
import sys
from dataclasses import replace

import matplotlib as mpl
import numpy as np
import pytest
import torch
from matplotlib import pyplot
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.text import Text
from numpy.testing import assert_allclose, assert_array_equal

import steinpath as sp
from problems import draw
from steinpath import plots
from steinpath.app.fitted import Ranked
from steinpath.plots._coefficients import shorten
from steinpath.risk._evidence import Diagnostic


@pytest.fixture(scope="module")
def tuning():
    X, y = sp.simulate.paper_model(30, noise="t2").sample(120, rng=0)
    return sp.tune(
        X, y, sp.LAD(), sp.Lasso, lams=5, n_iter=60, method="compressed", audit=16, rng=0
    )


@pytest.fixture(scope="module")
def risk(tuning):
    """An estimate with an audit."""
    return tuning.risks[tuning.best[0]]


RANKING = [
    Ranked("squared", "ridge", 0.1, 3, 9, 1.5, 0.1, 0.5, 0.05),
    Ranked("LAD", "lasso", 0.1, 7, 4, 1.0, 0.1, 0.0, 0.0),
    Ranked("Huber", "lasso", 0.1, 7, 4, 1.1, 0.1, 0.1, 0.025),
]

PLOTS = {
    "risk": lambda tuning, risk, ax: plots.plot_risk(risk, ax, log_time=True),
    "tuning": lambda tuning, risk, ax: plots.plot_tuning(tuning, ax),
    "penalties": lambda tuning, risk, ax: plots.plot_penalties(tuning, ax),
    "coefficients": lambda tuning, risk, ax: plots.plot_coefficients(risk.path, best=5, ax=ax),
    "residuals": lambda tuning, risk, ax: plots.plot_residuals(risk, ax=ax),
    "predicted": lambda tuning, risk, ax: plots.plot_predicted(tuning, ax),
    "left out": lambda tuning, risk, ax: plots.plot_left_out_residuals(tuning, ax),
    "diagnostics": lambda tuning, risk, ax: plots.plot_diagnostics(risk, ax),
    "audit": lambda tuning, risk, ax: plots.plot_audit(risk, ax),
    "ranking": lambda tuning, risk, ax: plots.plot_ranking(RANKING, ax),
}
every_plot = pytest.mark.parametrize("plot", PLOTS.values(), ids=PLOTS)


def curves_of(ax):
    return {line.get_label(): line.get_ydata() for line in ax.lines}


def texts_of(ax):
    return [text.get_text() for text in ax.texts]


# ----- Style and files -----


@every_plot
def test_plots_leave_the_settings_of_matplotlib_alone(plot, tuning, risk, tmp_path):
    before, files = dict(mpl.rcParams), [tmp_path / name for name in ("a.svg", "b.svg")]
    ax = plot(tuning, risk, None)
    for file in files:
        plots.save(ax, file)
    assert files[0].read_bytes() == files[1].read_bytes()
    assert dict(mpl.rcParams) == before
    sizes = {label.get_fontsize() for label in (ax.xaxis.label, *ax.get_xticklabels())}
    assert sizes <= {8.0, 8.5}  # also of ticks, which are made when they are drawn


@every_plot
def test_plots_on_given_axes_touch_no_others(plot, tuning, risk):
    figure = Figure()
    first, second = figure.subplots(1, 2)
    size = second.xaxis.label.get_fontsize(), second.spines["left"].get_linewidth()
    open_figures = pyplot.get_fignums()
    assert plot(tuning, risk, second) is second
    assert not first.has_data()
    assert pyplot.get_fignums() == open_figures
    assert (second.xaxis.label.get_fontsize(), second.spines["left"].get_linewidth()) == size
    figure.draw_without_rendering()


@pytest.mark.parametrize("ending", ["png", "pdf", "svg"])
def test_files_are_the_same_each_time(ending, tuning, risk, tmp_path):
    files = [tmp_path / f"{name}.{ending}" for name in "abc"]
    ax = plots.plot_risk(risk)
    plots.save(ax, files[0])
    plots.save(ax.figure, str(files[1]))
    plots.save(plots.plot_risk(risk), files[2])
    first, second, third = (file.read_bytes() for file in files)
    assert first == second == third
    if ending == "svg":
        assert b">estimated risk</text>" in first
        assert b"<dc:date>" not in first
    if ending == "pdf":
        assert b"/FontFile2" in first  # TrueType, embedded
        assert b"/Type3" not in first
        assert b"CreationDate" not in first


def test_files_of_other_kinds_are_refused(risk):
    with pytest.raises(ValueError, match=r"must end in \.png, \.pdf, \.svg; got 'plot\.jpeg'"):
        plots.save(risk.plot(), "plot.jpeg")
    ax = Figure().subplots()
    ax.remove()
    with pytest.raises(ValueError, match="no longer belong to a figure"):
        plots.save(ax, "plot.png")


@pytest.mark.parametrize("layout", [None, "constrained"])
def test_the_legend_covers_no_curve(layout, risk):
    figure = Figure(figsize=(5, 4), layout=layout)
    ax = plots.plot_risk(risk, figure.subplots())
    figure.draw_without_rendering()
    box = ax.get_legend().get_window_extent()
    for line in ax.lines:
        points = ax.transData.transform(line.get_xydata())
        assert not np.any([box.contains(*point) for point in points])
    band = ax.collections[0].get_paths()[0].vertices
    assert not np.any([box.contains(*point) for point in ax.transData.transform(band)])
    if layout:
        assert box.y1 < ax.xaxis.label.get_window_extent().y0
        assert box.y0 >= 0


# ----- The risk -----


def test_plot_shows_what_an_audit_repaired():
    X, y, _ = draw(60, 30)
    path = sp.run(X, y, sp.LAD(), sp.Lasso(0.3), n_iter=60)
    risk = sp.estimate_risk(path, method="compressed", audit=60, rng=0)
    curves = curves_of(risk.plot())
    assert_array_equal(curves["before audit correction"], risk.raw)
    assert_array_equal(curves["estimated risk"], risk.values)


def test_plots_say_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    X, y, _ = draw(60, 30)
    risk = sp.estimate_risk(sp.run(X, y, sp.LAD(), sp.Lasso(0.3), n_iter=3))
    with pytest.raises(ImportError, match=r"pip install 'steinpath\[plot\]'"):
        risk.plot()


def test_the_minimum_shows_beside_a_start_and_a_tail_that_are_huge(risk):
    values = np.array(risk.values)
    values[0], values[-5:] = 1e4, 1e6
    ax = plots.plot_risk(replace(risk, values=values, audit=None))
    low, high = ax.get_ylim()
    best = values.min()
    assert low < best < high
    assert high < 2 * values[1:-5].max()
    assert texts_of(ax) == ["6 iterations off the scale, up to 1,000,000"]
    assert_array_equal(curves_of(ax)["estimated risk"], values)  # all there, for who zooms out


def test_all_of_an_ordinary_path_shows(risk):
    ax = plots.plot_risk(risk)
    low, high = ax.get_ylim()
    for drawn in (risk.values - 2 * risk.stderr, risk.values + 2 * risk.stderr, risk.train):
        assert low < drawn.min()
        assert drawn.max() < high
    assert not ax.texts


@pytest.mark.parametrize("last", [1, 3, 9, 60, 5000])
def test_time_on_a_logarithmic_scale(last, risk):
    ones = np.ones(last + 1)
    flat = replace(risk, values=ones, stderr=0 * ones, train=0.9 * ones, audit=None)
    ax = plots.plot_risk(flat, log_time=True)
    ticks = ax.get_xticks()
    assert [label.get_text() for label in ax.get_xticklabels()] == [f"{t:g}" for t in ticks]
    assert {0, 1} <= set(ticks)
    assert max(ticks) <= last
    assert len(ticks) <= 8
    assert ax.get_xlim() == (0, last)


def test_another_iterate_may_be_the_chosen_one(risk):
    ax = plots.plot_risk(risk, best=4, true_risk=list(risk.values))
    assert_array_equal(curves_of(ax)["selected iteration 4"], [risk.values[4]])
    assert_array_equal(curves_of(ax)["true risk"], risk.values)
    with pytest.raises(ValueError, match="best must be at most 60"):
        plots.plot_risk(risk, best=61)


def test_smallest_risk_for_each_penalty(tuning):
    curves = curves_of(plots.plot_penalties(tuning))
    order = np.argsort(tuning.lams)
    assert_allclose(curves["smallest estimated risk"], tuning.risk.min(axis=1)[order])
    where = order, tuning.risk.argmin(axis=1)[order]
    assert_allclose(curves["training error"], tuning.train[where])
    chosen = curves[f"selected λ = {tuning.best_lam:.3g}"]
    assert_allclose(chosen, [tuning.risk[tuning.best]])


# ----- Coefficients -----


def named(ax):
    """Return the curves of labelled coefficients."""
    curves = curves_of(ax)
    return {label[1:]: curve for label, curve in curves.items() if label.startswith("_x")}


def grey(ax):
    (lines,) = [each for each in ax.collections if isinstance(each, LineCollection)]
    return lines.get_segments()


def test_coefficients(risk):
    path, best = risk.path, risk.best_iter
    ax = path.plot(best=best)
    sizes = [abs(curve[best]) for curve in named(ax).values()]
    assert_array_equal(sizes, np.sort(np.abs(path.coef[best]))[::-1][:10])
    for name, curve in named(ax).items():
        assert_array_equal(curve, path.coef[:, int(name[1:])])
    others = {tuple(segment[:, 1]) for segment in grey(ax)}
    drawn = {tuple(curve) for curve in named(ax).values()}
    nonzero = np.abs(path.coef).max(axis=0) > 0
    assert others | drawn == {tuple(curve) for curve in path.coef.T[nonzero]}
    assert_array_equal(ax.lines[-1].get_xdata(), [best, best])
    assert f"{best}" in texts_of(ax)


def test_coefficients_with_names_and_a_scale(risk):
    p = risk.path.n_features
    scale = np.linspace(0.1, 2, p)
    names = [f"{j}: price in $ or $, of a house with a garden_and a garage" for j in range(p)]
    ax = plots.plot_coefficients(risk.path, names, scale=scale, top=3)
    effects = risk.path.coef * scale
    largest = np.argsort(-np.abs(effects[-1]))[:3]
    for line, j in zip(ax.lines, largest, strict=False):
        assert_array_equal(line.get_ydata(), effects[:, j])
    assert texts_of(ax) == [shorten(names[j], 24) for j in largest]
    assert not [line for line in ax.lines if line.get_label().startswith("iteration")]


@pytest.mark.parametrize("top", [0, 10, 60])
@pytest.mark.parametrize("height", [1.2, 3.2])
def test_names_do_not_overlap(top, height):
    X, y, _ = draw(60, 40)
    path = sp.run(X, y, sp.Squared(), sp.Ridge(0.1), sp.FISTA(), n_iter=10)
    figure = Figure(figsize=(4, height), layout="constrained")
    ax = plots.plot_coefficients(path, top=top, ax=figure.subplots())
    figure.draw_without_rendering()
    boxes = [Text.get_window_extent(text) for text in ax.texts]  # without the connecting lines
    assert 0 < len(boxes) <= min(top, 40) or top == 0
    assert all(0 <= box.x0 < box.x1 <= figure.bbox.x1 for box in boxes)
    centres = np.sort([(box.y0 + box.y1) / 2 for box in boxes])
    assert (np.diff(centres) > 7.5 * figure.dpi / 72).all()  # of type of 8 points


def test_at_most_500_grey_lines():
    X, y, _ = draw(20, 700)
    path = sp.run(X, y, sp.Squared(), sp.Ridge(0.1), sp.FISTA(), n_iter=4)
    ax = plots.plot_coefficients(path)
    segments = grey(ax)
    assert len(segments) == 500
    sizes = np.sort(np.abs(path.coef[-1]))[::-1]
    assert_allclose([abs(segment[-1, 1]) for segment in segments], sizes[10:510])


def test_coefficients_that_are_all_zero():
    X, y, _ = draw(60, 5)
    ax = sp.run(X, y, sp.LAD(), sp.Lasso(1e3), n_iter=3).plot(best=0)
    assert not named(ax)
    ax.figure.draw_without_rendering()


def test_wrong_coefficients_are_refused(risk):
    with pytest.raises(ValueError, match="names must have length 30, one per column of X; got 1"):
        risk.path.plot(["a"])
    with pytest.raises(ValueError, match=r"scale must have shape \(30,\)"):
        plots.plot_coefficients(risk.path, scale=[1.0])
    with pytest.raises(ValueError, match="best must be at most 60"):
        risk.path.plot(best=61)
    with pytest.raises(ValueError, match="top must be at least 0"):
        plots.plot_coefficients(risk.path, top=-1)


def test_long_names_keep_both_ends():
    assert shorten("short", 10) == "short"
    assert shorten("abcdefghijklmnop", 10) == "abcdef…nop"


# ----- Residuals, diagnostics, audit -----


def test_residuals(risk):
    ax = risk.plot_residuals()
    best, y = risk.best_iter, risk.path.y
    (points,) = [line for line in ax.lines if line.get_label() == "observations"]
    low, high = ax.get_xlim()
    expected = np.stack([y - risk.path.fitted[best], y - risk.corrected[best]])
    outside = np.max(np.abs(expected), axis=0) > high
    assert_allclose(points.get_data(), expected[:, ~outside], atol=1e-14)
    means = np.abs(expected).mean(axis=1)
    assert texts_of(ax)[-1] == f"mean absolute loss\nraw {means[0]:.3g}\ncorrected {means[1]:.3g}"
    assert_allclose(means, [risk.train[best], risk.raw[best]])
    assert not points.get_rasterized()
    assert ax.get_ylim() == (low, high) == (-high, high)
    assert 0 < outside.sum() < 10  # of the heavy tails
    assert texts_of(ax)[0] == f"{outside.sum()} of 120 outside, marked on the frame"
    (marks,) = [line for line in ax.lines if line.get_label() == "outside"]
    assert len(marks.get_xdata()) == outside.sum()
    assert np.abs(marks.get_data()).max() == high
    start = risk.plot_residuals(0).lines[1].get_xdata()
    assert set(start) <= set(risk.path.y)
    with pytest.raises(ValueError, match="t must be at most 60"):
        risk.plot_residuals(61)


def test_many_residuals_are_an_image():
    X, y, _ = draw(2500, 4)
    risk = sp.estimate_risk(sp.run(X, y, sp.Huber(), sp.Ridge(0.1), n_iter=3), rng=0)
    assert risk.plot_residuals().lines[1].get_rasterized()


def test_diagnostics(risk):
    ax = risk.plot_diagnostics()
    drawn = {line.get_label(): line.get_xdata()[0] for line in ax.lines}
    for each in risk.diagnostics:
        assert_allclose(drawn[each.name], max(each.value / each.threshold, 0.01))
    names = [label.get_text() for label in ax.get_yticklabels()]
    assert names == [each.name for each in risk.diagnostics]
    assert drawn["threshold"] == 1


def test_diagnostics_that_warn_differ_in_colour_and_mark(risk):
    found = [
        Diagnostic(name, value, 2.0, "")
        for name, value in (("quiet", 1.0), ("loud", 6.0), ("endless", np.inf), ("none", np.nan))
    ]
    odd = replace(risk)
    odd.__dict__["diagnostics"] = tuple(found)
    ax = odd.plot_diagnostics()
    drawn = {line.get_label(): line for line in ax.lines}
    assert drawn["quiet"].get_color() == drawn["none"].get_color() == plots.BLUE
    assert drawn["loud"].get_color() == drawn["endless"].get_color() == plots.ORANGE
    marks = [drawn[each.name].get_marker() for each in found]
    assert marks == ["o", "D", ">", "<"]
    assert_allclose(drawn["loud"].get_xdata(), [3.0])


def test_audit(risk):
    ax = plots.plot_audit(risk)
    curves, audit = curves_of(ax), risk.audit
    assert_array_equal(curves["leave-one-out − estimated"], audit.difference)
    assert_array_equal(curves["correction applied"], audit.repair)
    edges = ax.collections[0].get_paths()[0].vertices
    last = edges[edges[:, 0] == 60, 1]
    expected = audit.difference[-1] + 2 * audit.stderr[-1] * np.array([-1, 1])
    assert_allclose([last.min(), last.max()], expected)


def test_audit_with_a_huge_tail(risk):
    differences = np.array(risk.audit.differences)
    differences[-3:] += 1e5
    ax = plots.plot_audit(replace(risk, audit=replace(risk.audit, differences=differences)))
    assert texts_of(ax) == ["3 iterations off the scale, up to 100,000"]
    assert ax.get_ylim()[1] < 100
    with pytest.raises(ValueError, match="audit=32"):
        plots.plot_audit(replace(risk, audit=None))


# ----- Summary and ranking -----


def panels(figure):
    return {ax.get_title(loc="left"): ax for ax in figure.axes if ax.get_title(loc="left")}


def test_summary(tuning, risk):
    names = [f"x{j}, a feature" for j in range(30)]
    figure = plots.plot_summary(tuning, names, scale=np.full(30, 2.0))
    found = panels(figure)
    assert list(found) == [f"({letter})" for letter in "abcdef"]
    assert all(ax.has_data() for ax in found.values())
    assert_array_equal(curves_of(found["(a)"])["estimated risk"], risk.values)
    assert "leave-one-out − estimated" in curves_of(found["(f)"])
    coefficient = found["(c)"].lines[0]
    j = int(coefficient.get_label()[2:].split(",")[0])
    assert_array_equal(coefficient.get_ydata(), 2 * risk.path.coef[:, j])


@pytest.mark.parametrize(
    ("n", "options"),
    [(20, {"n_iter": 30}), (60, {"n_iter": 3}), (60, {"lams": [0.3], "n_iter": 10, "audit": 0})],
    ids=["few rows", "few iterations", "one penalty"],
)
def test_summary_of_little(n, options):
    X, y, _ = draw(n, 10)
    tuning = sp.tune(X, y, sp.LAD(), sp.Lasso, rng=0, iterate=2, **options)
    figure = plots.plot_summary(tuning)
    figure.draw_without_rendering()
    found = panels(figure)
    assert "selected iteration 2" in curves_of(found["(a)"])
    assert found["(e)"].get_xlabel() == "raw residual at iteration 2"
    # in place of an audit that has no say
    assert "smallest estimated risk" in curves_of(found["(f)"])


def test_ranking():
    ax = plots.plot_ranking(RANKING)
    labels = [label.get_text() for label in ax.get_yticklabels()]
    assert labels == ["LAD + lasso", "Huber + lasso", "squared + ridge"]
    assert ax.get_ylim()[0] > ax.get_ylim()[1]  # the best on top
    dots = [line.get_xydata()[0] for line in ax.lines if len(line.get_xdata()) == 1]
    assert_allclose(dots, [[1.0, 0], [1.1, 1], [1.5, 2]])
    whiskers = [line.get_xdata() for line in ax.lines[1:] if len(line.get_xdata()) == 2]
    assert_allclose(whiskers, [[0.8, 1.2], [0.9, 1.3], [1.3, 1.7]])
    said = ["best", "+0.100 ± 0.025", "+0.500 ± 0.050", "difference ± s.e."]
    assert texts_of(ax) == said


def test_ranking_with_one_far_behind_or_alone():
    far = replace(RANKING[0], loss="Huber", risk=1e6, behind=1e6, behind_stderr=2e4)
    ax = plots.plot_ranking([*RANKING, far])
    assert ax.get_xlim()[1] < 3
    assert ax.lines[-1].get_marker() == ">"
    assert texts_of(ax)[3] == "+1,000,000 ± 20,000"
    assert not plots.plot_ranking(RANKING[:1]).texts
    with pytest.raises(ValueError, match="nothing to rank"):
        plots.plot_ranking([])


def test_ranking_without_standard_errors():
    unknown = {"stderr": math.inf, "behind_stderr": math.inf}
    ax = plots.plot_ranking([replace(row, **unknown) if row.behind else row for row in RANKING])
    whiskers = [line.get_xdata() for line in ax.lines[1:] if len(line.get_xdata()) == 2]
    assert_allclose(whiskers, [[0.8, 1.2], [1.1, 1.1], [1.5, 1.5]])
    assert texts_of(ax)[1:3] == ["+0.1", "+0.5"]


def test_arrays_of_other_libraries():
    X, y, _ = draw(60, 8)
    X, y = torch.asarray(X), torch.asarray(y)
    tuning = sp.tune(
        X, y, sp.LAD(), sp.Lasso, lams=3, n_iter=12, method="compressed", audit=8, rng=0
    )
    figure = plots.plot_summary(tuning, scale=torch.ones(8, dtype=torch.float64))
    risk = tuning.risks[tuning.best[0]]
    drawn = curves_of(panels(figure)["(a)"])
    assert_array_equal(drawn["estimated risk"], risk.values.numpy())
