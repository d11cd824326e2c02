"""Plots of the risk over iterations and regularisation strengths."""

import numpy as np
import pytest
from matplotlib.figure import Figure
from numpy.testing import assert_allclose
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Lasso
from sklearn.pipeline import make_pipeline

import steinpath as sp

ALPHAS = [0.1, 0.5, 0.02]  # unsorted
KINDS = ("path", "surface")


@pytest.fixture(scope="module")
def data():
    return sp.simulate.paper_model(20, noise="t2").sample(100, rng=0)


@pytest.fixture(scope="module")
def model(data):
    return sp.LADLasso(alpha=ALPHAS, n_iter=60, random_state=0).fit(*data)


@pytest.fixture(scope="module")
def tuning(data):
    return sp.tune(*data, sp.LAD(), sp.Lasso, lams=5, n_iter=60, rng=0)


def labels(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def lines(ax):
    return {line.get_label(): line.get_xydata() for line in ax.get_lines()}


def assert_surface(ax, risk, alphas, best):
    """All risks are drawn, the largest penalty on top, and the selected model is marked."""
    (mesh,) = [each for each in ax.collections if hasattr(each, "get_coordinates")]
    corners = mesh.get_coordinates()
    assert (np.diff(corners[:, 0, 1]) > 0).all()
    assert_allclose(np.asarray(mesh.get_array()).reshape(risk.shape), risk[np.argsort(alphas)])
    ((t, place),) = ax.get_lines()[0].get_xydata()
    row = int(np.searchsorted(corners[:, 0, 1], place)) - 1
    column = int(np.searchsorted(corners[0, :, 0], t)) - 1
    assert np.sort(alphas)[row] == alphas[best[0]]
    assert column == t == best[1]
    # the whole surface is visible
    assert ax.get_ylim()[0] <= corners[0, 0, 1] < corners[-1, 0, 1] <= ax.get_ylim()[1]
    assert ax.get_xlim()[0] <= 0 < risk.shape[1] - 1 <= ax.get_xlim()[1]
    assert mesh.norm.vmin == risk.min()
    symbol = ax.get_ylabel()[-1]
    assert labels(ax) == [f"selected: {symbol} = {alphas[best[0]]:.3g}, iteration {best[1]}"]
    assert mesh.colorbar is not None
    ticks = [float(label.get_text()) for label in ax.get_yticklabels()]
    assert (np.diff(ticks) > 0).all()


def assert_path(ax, values, stderr, train, best):
    drawn = lines(ax)
    t = np.arange(len(values))
    assert_allclose(drawn["estimated risk"], np.column_stack([t, values]))
    assert_allclose(drawn["training error"], np.column_stack([t, train]))
    assert_allclose(drawn[f"selected iteration {best}"], [[best, values[best]]])
    (band,) = ax.collections
    edges = band.get_paths()[0].vertices
    for at in (0, best, t[-1]):
        mine = edges[edges[:, 0] == at, 1]
        assert_allclose([mine.min(), mine.max()], values[at] + [-2 * stderr[at], 2 * stderr[at]])
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("iteration", "scoring loss")
    assert len(labels(ax)) == 4


def test_path_of_an_estimator(model):
    display = sp.RiskPathDisplay.from_estimator(model)
    k = ALPHAS.index(pytest.approx(model.alpha_))
    assert display.best == (k, model.best_iter_)
    curves = (model.risk_path_[k], model.risk_stderr_[k], model.train_path_[k])
    assert_path(display.ax_, *curves, model.best_iter_)
    assert f"{model.alpha_:.3g}" in display.ax_.get_title()
    assert display.figure_ is display.ax_.figure


@pytest.mark.parametrize("select", ["last", 5])
def test_the_selected_iterate_is_marked(select, data):
    model = sp.LADLasso(select=select, n_alphas=3, n_iter=30, tol=1e6, random_state=0).fit(*data)
    display = sp.RiskPathDisplay.from_estimator(model)
    assert display.best == (model.best_index_, 30 if select == "last" else 5)


@pytest.mark.parametrize("kind", KINDS)
def test_given_axes(kind, model):
    figure = Figure()
    axes = figure.subplots(1, 2)
    display = sp.RiskPathDisplay.from_estimator(model, kind=kind, ax=axes[1])
    assert display.ax_ is axes[1]
    assert display.figure_ is figure
    assert not axes[0].has_data()
    part = Figure().subfigures(1, 2)[0]  # figure_ is the root figure
    inner = sp.RiskPathDisplay.from_estimator(model, kind=kind, ax=part.subplots())
    assert inner.figure_ is part.figure


def test_the_surface_is_another_plot(model):
    display = sp.RiskPathDisplay.from_estimator(model)
    first = display.ax_
    assert display.plot(kind="surface") is display
    assert display.ax_ is not first
    assert_surface(display.ax_, model.risk_path_, model.alphas_, display.best)
    assert "α" in display.ax_.get_ylabel()
    with pytest.raises(ValueError, match="kind must be one of 'path', 'surface'; got 'curve'"):
        sp.RiskPathDisplay.from_estimator(model, kind="curve")


@pytest.mark.parametrize("kind", KINDS)
def test_no_risk_no_plot(kind, data, model):
    with pytest.raises(NotFittedError):
        sp.RiskPathDisplay.from_estimator(sp.LADLasso(), kind=kind)
    without = sp.LADLasso(alpha=0.1, select="last", n_iter=20, tol=1e6, method=None).fit(*data)
    with pytest.raises(ValueError, match="method=None"):
        sp.RiskPathDisplay.from_estimator(without, kind=kind)
    for other in (Lasso().fit(*data), make_pipeline(model)):
        with pytest.raises(TypeError, match="must be a steinpath estimator"):
            sp.RiskPathDisplay.from_estimator(other)


def test_tuning(tuning):
    ax = tuning.plot()
    assert_surface(ax, tuning.risk, tuning.lams, tuning.best)
    assert "λ" in ax.get_ylabel()
    assert "absolute" in ax.get_title()
