"""Plots for classification."""

import numpy as np
import pytest
from matplotlib.figure import Figure
from numpy.testing import assert_allclose
from sklearn.metrics import roc_auc_score
from sklearn.metrics import roc_curve as roc_of_sklearn

import steinpath as sp
from steinpath import plots
from steinpath.estimators._scores import Decisions
from steinpath.plots._classes import reliability, roc_curve
from steinpath.problem._margins import class_probabilities


def tuned(loss, k=1, n=150):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 5))
    codes = np.digitize(X[:, 0] + 0.5 * rng.logistic(size=n), [-0.5, 1.0])
    y = np.where(codes == k, 1.0, -1.0)
    return sp.tune(X, y, loss, sp.Ridge, 3, 20, fit_intercept=True, rng=0)


@pytest.fixture(scope="module")
def several():
    return {f"class {k}": tuned(sp.Logistic(), k) for k in range(3)}


def left_out(tuning):
    y = np.asarray(tuning.path.y)[tuning.chosen.rows]
    return y > 0, np.asarray(tuning.chosen.predictions)


@pytest.mark.parametrize("digits", [8, 0])
def test_roc_curves_are_those_of_scikit_learn(digits):
    rng = np.random.default_rng(1)
    values = rng.standard_normal(200).round(digits)  # with and without ties
    positive = values + rng.standard_normal(200) > 0.5
    found = roc_curve(positive, values)
    false, true, _ = roc_of_sklearn(positive, values, drop_intermediate=False)
    assert_allclose(found.false_positive, false)
    assert_allclose(found.true_positive, true)
    assert found.area == pytest.approx(roc_auc_score(positive, values))
    assert np.isnan(roc_curve(np.ones(200, bool), values).area)  # of a single class


def test_reliability_bins_hold_all_rows():
    rng = np.random.default_rng(2)
    share = rng.random(1000)
    bins = reliability(rng.random(1000) < share, share)
    assert bins.rows.tolist() == [100] * 10
    assert np.all(np.abs(bins.observed - bins.predicted) < 4 * bins.stderr)
    assert bins.predicted @ bins.rows == pytest.approx(share.sum())
    same = reliability(np.arange(60) < 20, np.full(60, 0.4))
    assert (same.rows.tolist(), same.predicted.tolist()) == ([60], [pytest.approx(0.4)])
    assert reliability(np.array([True, False]), np.array([0.2, 0.9])).rows.tolist() == [2]


def test_probabilities_add_up_however_small_they_are():
    values = np.array([[1.0, 2.0, -1.0], [-800.0, -900.0, -1000.0], [900.0, 5.0, -900.0]])
    shares = class_probabilities(values)
    assert_allclose(shares.sum(axis=1), 1)
    assert_allclose(shares[1], [1, np.exp(-100), np.exp(-200)])
    two = class_probabilities(np.array([[0.0], [2.0]]))
    assert_allclose(two[:, 1], [0.5, 1 / (1 + np.exp(-2))])


@pytest.mark.parametrize("loss", [sp.Logistic(), sp.Hinge()])
def test_the_roc_curve_is_that_of_rows_left_out(loss):
    tuning = tuned(loss, 2)
    ax = plots.plot_roc(tuning)
    curve = ax.lines[1]
    found = roc_curve(*left_out(tuning))
    assert_allclose(curve.get_xdata(), found.false_positive)
    assert_allclose(curve.get_ydata(), found.true_positive)
    assert f"AUC {roc_auc_score(*left_out(tuning)):.3f}" in [text.get_text() for text in ax.texts]
    plots.close(ax)


def test_every_class_has_a_curve(several):
    for plot in (plots.plot_roc, plots.plot_reliability):
        given = Figure().subplots()
        ax = plot(several, given)
        assert ax is given
        labels = [line.get_label().split(":")[0] for line in ax.lines[1:]]
        assert labels == list(several)
        assert ax.get_legend() is not None


def test_reliability_is_that_of_coupled_probabilities(several):
    ax = plots.plot_reliability(several)
    signs, values = (
        np.stack(part, axis=1) for part in zip(*map(left_out, several.values()), strict=True)
    )
    decisions = Decisions(values, signs.argmax(axis=1))
    shares = class_probabilities(values, decisions.coupling())
    bins = reliability(left_out(several["class 1"])[0], shares[:, 1])
    assert_allclose(ax.lines[2].get_xdata(), bins.predicted)
    assert_allclose(ax.lines[2].get_ydata(), bins.observed)
    plots.close(ax)


def test_the_summary_of_classes_has_the_roc_curve(several):
    figure = plots.plot_summary(several["class 2"])
    assert figure.axes[4].get_xlabel() == "false positive rate"
    plots.close(figure)


def test_other_losses_are_refused():
    X, y = sp.simulate.paper_model(5).sample(60, rng=0)
    tuning = sp.tune(X, y, sp.LAD(), sp.Lasso, 2, 5, rng=0)
    for plot in (plots.plot_roc, plots.plot_reliability):
        with pytest.raises(ValueError, match="requires a margin loss"):
            plot(tuning)
    with pytest.raises(ValueError, match="requires the logistic loss"):
        plots.plot_reliability(tuned(sp.Hinge()))
