"""Forest plot of coefficient intervals."""

from dataclasses import replace

import numpy as np
import pytest
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure

from steinpath._support.charts import GREY, ORANGE
from steinpath.inference._coefficient_intervals import CoefficientIntervals
from steinpath.plots import plot_intervals


def made(estimate, stderr, names=None, level=0.9):
    k = len(estimate)
    return CoefficientIntervals(
        estimate=np.asarray(estimate, float),
        stderr=np.asarray(stderr, float),
        t=3,
        features=np.arange(10, 10 + k),
        level=level,
        df=np.full(k, np.inf),
        probe_stderr=np.zeros(k),
        relative_width=np.ones(5),
        scores="residuals",
        names=names,
    )


ESTIMATES, ERRORS = [0.5, -3.0, 2.0, 0.1, 9.0], [1.0, 0.5, 0.4, 0.2, np.inf]


def bars(ax):
    """Return the intervals drawn, from the top: their ends, estimates and colours."""
    zero, *lines = ax.get_lines()
    assert set(zero.get_xdata()) == {0}
    pairs = list(zip(lines[::2], lines[1::2], strict=True))
    for line, mark in pairs:
        assert {*line.get_ydata()} == {*mark.get_ydata()}
        assert line.get_color() == mark.get_color()
    return [(*line.get_xdata(), *mark.get_xdata(), line.get_color()) for line, mark in pairs]


def labels(ax):
    return [text.get_text() for text in ax.get_yticklabels()]


def test_each_interval_is_drawn_in_its_place():
    intervals = made(ESTIMATES, ERRORS)
    ax = intervals.plot()
    assert labels(ax) == ["column 12", "column 10", "column 13", "column 11"]  # by estimates
    order = [2, 0, 3, 1]
    found = bars(ax)
    assert len(found) == 4  # one is not identified
    for (low, high, middle, colour), k in zip(found, order, strict=True):
        assert (low, high) == (intervals.lower[k], intervals.upper[k])
        assert middle == intervals.estimate[k]
        assert to_rgba(colour) == to_rgba(ORANGE if k in (1, 2) else GREY)
    assert ax.get_xlabel() == "coefficient, 90% confidence interval"
    index = replace(intervals, scale="index").plot()
    assert index.get_xlabel() == "coefficient up to a common factor, 90% confidence interval"
    bottom, top = ax.get_ylim()
    assert bottom > 3 > 0 > top  # the first is on top, and all can be seen
    text = " ".join(each.get_text() for each in ax.texts)
    assert "4 of 5" in text
    assert "FDR 10%" in text


def test_the_smallest_p_values_are_drawn_where_there_are_many():
    own, names = Figure().add_subplot(), ("a", "b", "c", "d", "e")
    ax = plot_intervals(made(ESTIMATES, ERRORS, names), own, most=2, fdr=0.3)
    assert ax is own
    assert labels(ax) == ["c", "b"]
    text = " ".join(each.get_text() for each in ax.texts)
    assert "2 of 5" in text
    assert "30%" in text


def test_nothing_to_draw():
    with pytest.raises(ValueError, match="most must be"):
        made(ESTIMATES, ERRORS).plot(most=0)
    with pytest.raises(ValueError, match="no coefficient is identified"):
        made([1.0], [np.inf]).plot()
