"""Plots of out-of-fold predictions."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.model_selection import TimeSeriesSplit

import steinpath as sp
from steinpath import plots


@pytest.fixture(scope="module")
def tuning():
    X, y = sp.simulate.paper_model(10, noise="t2").sample(120, rng=0)
    options = {"lams": 4, "n_iter": 40, "fit_intercept": True, "rng": 0}
    return sp.tune(X, y + 7.0, sp.LAD(), sp.Lasso, **options)


def labelled(ax, label):
    return next(line for line in ax.lines if line.get_label() == label)


def test_predictions_and_actual_values_of_every_row_are_drawn(tuning):
    ax = plots.plot_predicted(tuning, offset=100.0)
    drawn, outside = (
        np.stack(labelled(ax, each).get_data()) for each in ("out-of-fold", "outside")
    )
    low, high = ax.get_xlim()
    assert ax.get_ylim() == (low, high)
    assert low < drawn.min() <= drawn.max() < high
    expected = np.stack([tuning.chosen.predictions, np.asarray(tuning.path.y)]) + 100.0
    inside = np.all((expected > low) & (expected < high), axis=0)
    assert_allclose(drawn, expected[:, inside])
    assert outside.shape[1] == np.sum(~inside) > 0  # of the heavy tails
    assert_allclose(outside, np.clip(expected[:, ~inside], low, high))
    said = [text.get_text() for text in ax.texts]
    assert said == [f"{np.sum(~inside)} of 120 outside, marked on the frame"]


def test_the_histogram_has_every_row_and_the_quantiles(tuning):
    ax = plots.plot_left_out_residuals(tuning)
    residuals = np.asarray(tuning.path.y) - tuning.chosen.predictions
    low, high = ax.get_xlim()
    counts = [bar.get_height() for bar in ax.containers[0]]
    assert sum(counts) == 120
    edges = np.linspace(low, high, len(counts) + 1)
    assert_array_equal(counts, np.histogram(np.clip(residuals, low, high), edges)[0])
    median = next(line for line in ax.lines if line.get_label().startswith("median"))
    assert_allclose(median.get_xdata(), np.median(residuals))
    spans = {patch.get_label(): patch.get_bbox() for patch in ax.patches}
    for label, share in (("central 50%", 0.25), ("central 90%", 0.05)):
        ends = spans[label].x0, spans[label].x1
        assert_allclose(ends, np.quantile(residuals, [share, 1 - share]))


def test_rows_of_a_time_series_that_were_not_left_out_are_not_drawn():
    X, y = sp.simulate.paper_model(5, noise="normal").sample(90, rng=1)
    tuning = sp.tune(X, y, sp.LAD(), sp.Lasso, 3, 20, cv=TimeSeriesSplit(5), rng=0)
    count = len(tuning.chosen.rows)
    assert count < 90
    assert sum(len(line.get_xdata()) for line in plots.plot_predicted(tuning).lines[1:]) == count
    bars = plots.plot_left_out_residuals(tuning).containers[0]
    assert sum(bar.get_height() for bar in bars) == count
