"""What notebooks show: HTML with charts, summaries, data frames, progress."""

import re
import xml.etree.ElementTree as ET

import numpy as np
import pandas as pd
import polars as pl
import pytest

import steinpath as sp
from backends import skip_frames_without_names
from steinpath._support.charts import interval_chart, line_chart, text
from steinpath._support.printing import Summary, fragment
from steinpath._support.progress import begin, listener, printing, tell

HOSTILE = '<script>alert("x")</script> & \x1b[31m'


@pytest.fixture(scope="module")
def data():
    return sp.simulate.paper_model(12, noise="t2").sample(80, rng=0)


@pytest.fixture(scope="module")
def path(data):
    return sp.run(*data, sp.LAD(), sp.Lasso(0.3), n_iter=40, fit_intercept=True)


@pytest.fixture(scope="module")
def risk(path):
    return sp.estimate_risk(path, rng=0)


@pytest.fixture(scope="module")
def tuning(data):
    return sp.tune(*data, sp.LAD(), sp.Lasso, lams=5, n_iter=40, fit_intercept=True, rng=0)


@pytest.fixture(scope="module")
def intervals(path):
    names = [HOSTILE, *(f"feature {j}" for j in range(1, 12))]
    return sp.coefficient_intervals(path, rng=0, names=names)


def check(html):
    """Well-formed, small, without scripts and without colours of the page."""
    ET.fromstring(html.replace("&nbsp;", " "))
    assert len(html) < 20_000
    assert "<script" not in html
    assert "\x1b" not in html
    assert "currentColor" in html or "<svg" not in html


@pytest.mark.parametrize("name", ["path", "risk", "tuning", "intervals"])
def test_html_is_small_and_well_formed(request, name):
    html = request.getfixturevalue(name)._repr_html_()
    check(html)
    assert "<svg" in html
    assert "<table" in html


def test_html_does_not_adjust_for_selection(data):
    tuning = sp.tune(*data, sp.LAD(), sp.Lasso, lams=3, n_iter=20, rng=0)
    assert "not adjusted for selection" in tuning._repr_html_()
    assert "chosen" not in vars(tuning)  # nothing expensive was computed
    assert tuning.best_risk
    assert "not adjusted for selection" not in tuning._repr_html_()


def test_names_are_escaped(intervals):
    for html in (intervals._repr_html_(), intervals.summary()._repr_html_()):
        check(html)
        assert "&lt;script" in html
    assert "\x1b" not in str(intervals.summary())
    assert text("a<b", 2) == "a…"
    check(fragment(HOSTILE, [(HOSTILE, HOSTILE)], notes=[HOSTILE]))


@pytest.mark.parametrize(
    "values", [[1.0, np.inf, np.nan], [0.0, 0.0, 0.0], [1e300, -1e300, 0.0], [3.0]]
)
def test_charts_of_extreme_values(values):
    x = np.arange(len(values))
    svg = line_chart(x, {"a": values}, x_label="t", marked=0, errors=np.ones(len(values)))
    ET.fromstring(svg)
    assert not re.search(r"nan|inf", svg)
    assert line_chart([0], {"a": [np.nan]}, x_label="t") == ""
    assert interval_chart(["a"], [0.0], [-np.inf], [np.inf], x_label="b") == ""


def test_the_marked_point_is_drawn_where_it_is():
    values = np.zeros(1000)
    values[501] = -1.0
    svg = line_chart(np.arange(1000), {"a": values}, x_label="t", marked=501)
    lowest = max(float(y) for y in re.findall(r",([\d.]+)", re.search('points="(.*?)"', svg)[1]))
    assert float(re.search(r'cy="([\d.]+)"', svg)[1]) == lowest


def test_summary_is_a_table():
    summary = Summary(
        "Results",
        (("n", "100"), ("p", "5"), ("Algorithm", "x" * 50)),
        ("coef", "std err"),
        (("a", "1.0", "0.1"), ("a long name " * 5, "2.0", "0.2")),
        ("a note " * 20, "another"),
    )
    lines = str(summary).splitlines()
    assert all(len(line) <= 78 for line in lines)
    assert lines[0].strip() == "Results"
    assert [line for line in lines if line.startswith("[")][1] == "[2] another"
    assert repr(summary) == str(summary)
    check(summary._repr_html_())


def test_summary_of_a_risk(risk):
    shown = str(risk.summary())
    best = risk.best_iter
    assert re.search(rf"Selected Iteration: +{best} of 40", shown)
    assert f"{float(risk.train[best]):.4g}" in shown
    constant = np.abs(risk.path.y - np.median(risk.path.y)).mean()
    assert re.search(rf"Constant-Prediction Error: +{constant:.4g}", shown)
    assert "not adjusted for selection" in shown


def test_summary_of_a_tuning(tuning):
    shown = str(tuning.summary())
    assert re.search(rf"Selected lam: +{tuning.best_lam:.4g}", shown)
    assert re.search(rf"Nonzero Coefficients: +{np.count_nonzero(tuning.coef)} of 12", shown)
    assert "adjusted for selection" in shown
    assert all(note in " ".join(shown.split()) for note in tuning.warnings)


def test_summary_of_intervals(intervals):
    lines = str(intervals.summary()).splitlines()
    head = next(line for line in lines if "P>|t|" in line)
    assert head.split() == ["coef", "std", "err", "P>|t|", "[0.025", "0.975]"]
    row = next(line for line in lines if line.startswith("feature 3 ")).split()[2:]
    names = ["estimate", "stderr", "pvalue", "lower", "upper"]
    values = [getattr(intervals, name)[3] for name in names]
    np.testing.assert_allclose([float(each) for each in row], values, atol=6e-4)


@pytest.mark.parametrize(
    ("estimator", "expected"),
    [
        (lambda: sp.LADLasso(), ["LADLasso Results", "LAD()", "lasso", "Estimated Risk"]),
        (lambda: sp.HuberRidge(alpha=0.1, method=None, select=9), ["No risk was estimated"]),
        (lambda: sp.QuantileLasso(q=(0.1, 0.9)), ["q = 0.1", "q = 0.9", "std err", "Quantile"]),
        (lambda: sp.LogisticLasso(), ["Error Rate", "Logistic(", "log"]),
        (lambda: sp.LogisticRidge(), ["\na ", "\nb ", "\nc ", "Error Rate"]),
    ],
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_summary_of_an_estimator(data, estimator, expected):
    model = estimator().set_params(n_iter=30, n_alphas=4, random_state=0)
    X, y = data
    classes = np.array(["a", "b", "c"])[np.digitize(X[:, 0], [-0.5, 0.5])]
    y = {"LogisticLasso": y > 0, "LogisticRidge": classes}.get(type(model).__name__, y)
    model.fit(X, y)
    shown = str(model.summary())
    for part in [*expected, "No. Observations:", "80", "No. Features"]:
        assert part in shown
    for note in getattr(model, "warnings_", ()):
        assert " ".join(note.split()) in " ".join(shown.split())
    if isinstance(model, sp.LADLasso):
        assert f"{model.alpha_:.4g}" in shown
        assert f"{model.best_iter_} of 30" in shown
    check(model.summary()._repr_html_())


def test_frames_have_one_row_for_each_iteration_and_penalty(risk, tuning):
    frame = risk.to_frame()
    assert type(frame) is pd.DataFrame
    np.testing.assert_array_equal(frame["risk"], risk.values)
    assert frame["risk"].idxmin() == risk.best_iter
    frame = tuning.to_frame("polars")
    assert type(frame) is pl.DataFrame
    row = frame.filter(pl.col("selected"))
    assert row["lam"].item() == tuning.best_lam
    assert row["risk"].item() == tuning.naive_risk
    np.testing.assert_array_equal(frame["lam"], tuning.lams)


@pytest.mark.parametrize("library", [pd, pl])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_frames_come_out_as_they_came_in(data, library):
    X, y = data
    frame = library.DataFrame({f"f{j}": X[:, j] for j in range(X.shape[1])})
    skip_frames_without_names(frame)
    model = sp.LADLasso(n_iter=30, n_alphas=4, random_state=0).fit(frame, y)
    assert list(model.feature_names_in_) == list(frame.columns)
    for values in (model.coef_, model.predict(frame), model.predict_interval(frame)):
        assert type(values) is np.ndarray
    found = model.coef_intervals(["f3", "f0"])
    assert type(found.to_frame()) is library.DataFrame
    assert list(found.to_frame()["feature"]) == ["f3", "f0"]
    assert "f3" in str(found.summary())
    tuning = sp.tune(frame, y, sp.LAD(), sp.Lasso, lams=3, n_iter=10, rng=0)
    assert type(tuning.to_frame()) is library.DataFrame


def test_frames_and_charts_have_the_given_iterate(data, monkeypatch):
    options = {"lams": [1.0, 0.3, 0.1], "n_iter": 20, "method": "compressed", "iterate": 3}
    tuning = sp.tune(*data, sp.LAD(), sp.Lasso, **options, rng=0)
    assert tuning.to_dict()["iteration"].tolist() == [3, 3, 3]
    drawn = []
    chart = "steinpath.tuning._tuning.line_chart"
    monkeypatch.setattr(chart, lambda x, lines, **_: drawn.append(lines) or "")
    tuning._repr_html_()
    np.testing.assert_array_equal(drawn[0]["estimated risk"], tuning.risk[:, 3])


def test_tune_prints_progress(data, capsys):
    options = {"lams": 4, "n_iter": 20, "method": "compressed", "rng": 0}
    quiet = sp.tune(*data, sp.LAD(), sp.Lasso, **options)
    assert capsys.readouterr().out == ""
    tuning = sp.tune(*data, sp.LAD(), sp.Lasso, **options, verbose=True)
    lines = capsys.readouterr().out.splitlines()
    assert all(line.startswith("[tune] ") for line in lines)
    assert any("running 4 penalties (20/20), total=" in line for line in lines)
    assert any("best estimated risk so far: " in line for line in lines)
    k, t = tuning.best
    assert lines[-1].endswith(f"(penalty {k + 1} of 4, iteration {t})")
    np.testing.assert_array_equal(quiet.risk, tuning.risk)
    assert listener.get() is None


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_progress_of_a_run_that_ends_before_the_iterate(data, capsys):
    token = listener.set(lambda what, steps: lambda: True)  # stopped at the first iteration
    try:
        options = {"lams": 3, "n_iter": 20, "iterate": 15, "rng": 0, "verbose": True}
        tuning = sp.tune(*data, sp.LAD(), sp.Lasso, **options)
    finally:
        listener.reset(token)
    assert tuning.stop == "interrupted"
    assert "best estimated risk so far" in capsys.readouterr().out


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_estimators_print_progress(data, capsys):
    X, y = data
    model = sp.LADLasso(n_iter=20, n_alphas=3, random_state=0, verbose=1).fit(X, y)
    lines = capsys.readouterr().out.splitlines()
    assert all(line.startswith("[LADLasso] ") for line in lines)
    assert f"{model.best_risk_:.2f}"[:3] in lines[-1]
    assert len(lines) >= 4
    model.set_params(verbose=2).fit(X, y)
    assert len(capsys.readouterr().out.splitlines()) > len(lines)
    model.set_params(verbose=0).fit(X, y)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("verbose", [-1, "yes", 0.5])
def test_verbose_is_checked(data, verbose):
    with pytest.raises((TypeError, ValueError), match="verbose must be"):
        sp.LADLasso(verbose=verbose).fit(*data)
    with pytest.raises((TypeError, ValueError), match="verbose must be"):
        sp.tune(*data, sp.LAD(), sp.Lasso, verbose=verbose)


def test_printing_passes_on_to_another_listener(capsys):
    announced = []

    def other(what, steps):
        announced.append(what)
        return lambda: True

    token = listener.set(other)
    try:
        with printing(True, "work"):
            assert begin("stage", 2)() is True  # the other one has enough
            tell("message")
        assert listener.get() is other
    finally:
        listener.reset(token)
    assert announced == ["stage"]
    assert capsys.readouterr().out.splitlines()[-1] == "[work] message"
