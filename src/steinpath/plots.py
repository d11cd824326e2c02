"""Plots. Matplotlib is imported when one is drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np

from steinpath._arrays import to_numpy
from steinpath._validation import check_choice

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from steinpath.risk import Risk
    from steinpath.tuning import Tuning

# Colour-blind safe (Okabe and Ito, 2008).
BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#777777"


def import_pyplot() -> Any:
    """Return ``matplotlib.pyplot``, or say how to get it."""
    try:
        from matplotlib import pyplot
    except ImportError:
        raise ImportError("plots need matplotlib: pip install 'steinpath[plot]'") from None
    return pyplot


def new_axes(ax: Axes | None = None) -> Axes:
    """Return ``ax``, or the axes of a new figure."""
    if ax is not None:
        return ax
    _, axes = import_pyplot().subplots(figsize=(6.4, 4.0), layout="constrained")
    return cast("Axes", axes)


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
    values, stderr, train = (to_numpy(a) for a in (risk.values, risk.stderr, risk.train))
    ax = _draw_path(new_axes(ax), values, stderr, train, risk.best_iter)
    t = np.arange(len(values))
    if risk.audit is not None and np.any(np.abs(to_numpy(risk.audit.repair)) > stderr / 4):
        ax.plot(t, to_numpy(risk.raw), color=BLUE, lw=0.8, ls="-.", label="before the audit")
    if true_risk is not None:
        ax.plot(t, to_numpy(true_risk), color=GREEN, ls=":", lw=2, label="true risk")
    ax.set_ylabel(_title(risk))
    ax.legend(frameon=False)
    return ax


def plot_tuning(tuning: Tuning, ax: Axes | None = None) -> Axes:
    """Draw the risk over penalties and iterations, and the choice.

    Parameters
    ----------
    tuning : Tuning
        What to draw.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure by default.
    """
    ax = _draw_surface(new_axes(ax), to_numpy(tuning.risk), tuning.lams, tuning.best)
    ax.set_ylabel("penalty λ")
    ax.set_title(_title(tuning.risks[0]), fontsize="medium")
    return ax


class RiskPathDisplay:
    """The risk that an estimator was chosen by, in the style of scikit-learn's displays.

    Make it with `from_estimator`.

    Parameters
    ----------
    risk_path, risk_stderr, train_path : ndarray of shape (n_alphas, n_iter + 1)
        Estimated risks, their standard errors, and training errors.
    alphas : ndarray of shape (n_alphas,)
        The penalties.
    best : tuple of int
        Index of the chosen penalty, and the chosen iterate.

    Attributes
    ----------
    ax_ : matplotlib.axes.Axes
        Where it was drawn.
    figure_ : matplotlib.figure.Figure
        The figure of `ax_`.

    Examples
    --------
    >>> import steinpath as sp
    >>> X, y = sp.simulate.paper_model(30, noise="t2").sample(100, rng=0)
    >>> model = sp.LADLasso(n_alphas=5, n_iter=50, random_state=0).fit(X, y)
    >>> display = sp.RiskPathDisplay.from_estimator(model, kind="surface")
    >>> display.ax_.get_xlabel()
    'iteration'
    """

    ax_: Axes
    figure_: Figure

    def __init__(
        self,
        *,
        risk_path: np.ndarray,
        risk_stderr: np.ndarray,
        train_path: np.ndarray,
        alphas: np.ndarray,
        best: tuple[int, int],
    ):
        self.risk_path, self.risk_stderr, self.train_path = risk_path, risk_stderr, train_path
        self.alphas, self.best = alphas, best

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, kind: str = "path", ax: Axes | None = None
    ) -> RiskPathDisplay:
        """Draw the risk of a fitted estimator.

        Parameters
        ----------
        estimator : PathRegressor or another estimator of this package
            Fitted.
        kind : {"path", "surface"}, default="path"
            Every iterate for the chosen penalty, with training error and standard errors; or every
            iterate for every penalty.
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        RiskPathDisplay
        """
        from sklearn.utils.validation import check_is_fitted

        from steinpath.estimators import PathEstimator

        if not isinstance(estimator, PathEstimator):
            raise TypeError(
                "RiskPathDisplay draws estimators of steinpath, such as LADLasso; got "
                f"{type(estimator).__name__} (of a pipeline, pass the last step)"
            )
        check_is_fitted(estimator)
        if not hasattr(estimator, "risk_path_"):
            raise ValueError(
                "the estimator knows no risk: it was fitted with sample_weight, or with method=None"
            )
        display = cls(
            risk_path=estimator.risk_path_,
            risk_stderr=estimator.risk_stderr_,
            train_path=estimator.train_path_,
            alphas=estimator.alphas_,
            best=(estimator.best_index_, estimator.best_iter_),
        )
        return display.plot(ax, kind=kind)

    def plot(self, ax: Axes | None = None, *, kind: str = "path") -> RiskPathDisplay:
        """Draw it.

        Parameters
        ----------
        ax, kind
            As for `from_estimator`.

        Returns
        -------
        RiskPathDisplay
            Itself.
        """
        check_choice("kind", kind, ("path", "surface"))
        ax = new_axes(ax)
        if kind == "surface":
            _draw_surface(ax, self.risk_path, self.alphas, self.best)
            ax.set_ylabel("penalty α")
        else:
            k, best = self.best
            _draw_path(ax, self.risk_path[k], self.risk_stderr[k], self.train_path[k], best)
            ax.set(ylabel="test loss", title=f"α = {self.alphas[k]:.3g}")
            ax.legend(frameon=False)
        figure = ax.get_figure(root=True)
        assert figure is not None
        self.ax_, self.figure_ = ax, figure
        return self


def _draw_path(
    ax: Axes, values: np.ndarray, stderr: np.ndarray, train: np.ndarray, best: int
) -> Axes:
    t = np.arange(len(values))
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
    ax.plot(best, values[best], "o", color=ORANGE, label=f"chosen iterate {best}")
    ax.set(xlabel="iteration", xlim=(0, t[-1]))
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def _draw_surface(ax: Axes, risk: np.ndarray, strengths: np.ndarray, best: tuple[int, int]) -> Axes:
    """Draw risks over penalties, the largest on top, and iterations on a logarithmic scale."""
    order = np.argsort(strengths)
    rows, times = np.arange(len(strengths) + 1) - 0.5, np.arange(risk.shape[1] + 1) - 0.5
    # what is far above the minimum would leave no colours for what is near it
    low, high = float(risk.min()), float(np.quantile(risk, 0.8))
    mesh = ax.pcolormesh(
        times,
        rows,
        risk[order],
        cmap="viridis_r",
        vmin=low,
        vmax=high if high > low else low + 1,
        rasterized=True,
    )
    bar = ax.get_figure(root=True).colorbar(mesh, ax=ax, extend="max", label="estimated risk")  # type: ignore[union-attr]
    bar.outline.set_visible(False)
    k, t = best
    place = int(np.flatnonzero(order == k)[0])
    label = f"iterate {t} at {strengths[k]:.3g}"
    ax.plot(t, place, "o", color=ORANGE, mec="white", ms=8, label=label)
    ax.set_xscale("symlog", linthresh=1)
    ax.set(xlabel="iteration", xlim=(times[0], times[-1]))
    L = len(strengths)
    shown = np.unique(np.linspace(0, L - 1, min(L, 6)).round().astype(int))
    ax.set_yticks(shown, [f"{strengths[order[i]]:.3g}" for i in shown])
    ax.legend(loc="upper right", frameon=True, framealpha=0.9)
    return ax


def _title(risk: Risk) -> str:
    return f"{risk.test_loss.replace('_', '-')} loss"
