"""Plots. Matplotlib is imported when one is drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from steinpath._arrays import to_numpy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from steinpath.risk import Risk

# Colour-blind safe (Okabe and Ito, 2008).
BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#777777"


def new_axes(ax: Axes | None = None) -> Axes:
    """Return ``ax``, or the axes of a new figure."""
    if ax is not None:
        return ax
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError("plots need matplotlib: pip install 'steinpath[plot]'") from None
    return Figure(figsize=(6.4, 4.0), layout="constrained").add_subplot()


def save(ax: Axes, file: str) -> None:
    """Write the figure of ``ax`` to a file; the ending says in which format."""
    figure = ax.get_figure(root=True)
    assert figure is not None
    figure.savefig(file, dpi=150)


def plot_risk(risk: Risk, ax: Axes | None = None, true_risk: Any = None) -> Axes:
    """Draw training error, estimated risk with its band, and the chosen iterate.

    Where an audit repaired the estimate visibly, what it was before is drawn as a thin line.

    Parameters
    ----------
    risk : Risk
        What to draw.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure by default.
    true_risk : array-like of shape (n_iter + 1,), optional
        The truth, where it is known.
    """
    ax = new_axes(ax)
    values, stderr, train = (to_numpy(a) for a in (risk.values, risk.stderr, risk.train))
    t, best = np.arange(len(values)), risk.best_iter
    ax.plot(t, train, color=GREY, ls="--", label="training error")
    ax.plot(t, values, color=BLUE, label="estimated risk")
    ax.fill_between(
        t,
        values - 2 * stderr,
        values + 2 * stderr,
        color=BLUE,
        alpha=0.15,
        lw=0,
        label="± 2 standard errors",
    )
    if risk.audit is not None and np.any(np.abs(to_numpy(risk.audit.repair)) > stderr / 4):
        ax.plot(t, to_numpy(risk.raw), color=BLUE, lw=0.8, ls="-.", label="before the audit")
    if true_risk is not None:
        ax.plot(t, to_numpy(true_risk), color=GREEN, ls=":", lw=2, label="true risk")
    ax.plot(best, values[best], "o", color=ORANGE, label=f"chosen iterate {best}")
    ax.set(xlabel="iteration", ylabel=f"{risk.test_loss.replace('_', '-')} loss", xlim=(0, t[-1]))
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False)
    return ax
