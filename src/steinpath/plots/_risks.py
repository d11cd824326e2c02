"""Plots of the estimated risk over iterations and regularisation strengths, and a summary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from steinpath._support.arrays import to_numpy
from steinpath._support.charts import BLACK, BLUE, GREEN, GREY, ORANGE, on_axes
from steinpath._support.printing import number
from steinpath._support.validation import check_choice, check_count
from steinpath.plots._classes import plot_roc
from steinpath.plots._coefficients import plot_coefficients
from steinpath.plots._lists import plot_diagnostics
from steinpath.plots._residuals import plot_residuals
from steinpath.plots._style import (
    TICKS,
    draw_band,
    drawing_on,
    dress,
    figure_of,
    name_of_loss,
    new_figure,
    note,
    place_legend,
    set_time_axis,
    use_log_scale,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from steinpath.risk._risk import Risk
    from steinpath.tuning._tuning import Tuning


@on_axes
def plot_risk(
    risk: Risk,
    ax: Axes | None = None,
    true_risk: Any = None,
    *,
    log_time: bool = False,
    best: int | None = None,
) -> Axes:
    """Plot training error and estimated risk against the iteration, with the selected iteration.

    If the audit changed the estimate visibly, the uncorrected estimate is drawn as a thin line.
    Values much larger than the minimum are off the scale, and counted above the frame. Iterations
    at which the estimate needs an audit and has none are shaded.

    Parameters
    ----------
    true_risk : array-like of shape (n_iter + 1,), optional
        True risk, if known.
    best : int, optional
        Selected iteration; by default, the one with the smallest estimated risk.
    """
    values, stderr, train = (to_numpy(a) for a in (risk.values, risk.stderr, risk.train))
    last = len(values) - 1
    best = risk.best_iter if best is None else check_count("best", best, low=0, high=last)
    others: dict[str, np.ndarray] = {} if true_risk is None else {"true risk": to_numpy(true_risk)}
    if risk.audit is not None and np.any(np.abs(to_numpy(risk.audit.repair)) > stderr / 4):
        others = {"before audit correction": to_numpy(risk.raw)} | others
    with drawing_on(ax) as axes:
        _draw_path(axes, values, stderr, train, best, others, log_time)
        if risk.unreliable_from is not None:
            label = "unreliable without an audit"
            axes.axvspan(risk.unreliable_from, last, color=GREY, alpha=0.15, lw=0, label=label)
        axes.set_ylabel(name_of_loss(risk.test_loss))
        place_legend(axes)
    return axes


@on_axes
def plot_tuning(tuning: Tuning, ax: Axes | None = None) -> Axes:
    """Plot the estimated risk over regularisation strengths and iterations as a heat map.

    Other parameters have their selected values.
    """
    tuning = tuning.at_best_params()
    with drawing_on(ax, whole_frame=True) as axes:
        _draw_surface(axes, to_numpy(tuning.risk), tuning.lams, tuning.best, "λ")
        axes.set_title(name_of_loss(tuning.risks[0].test_loss), fontsize="medium")
    return axes


@on_axes
def plot_penalties(tuning: Tuning, ax: Axes | None = None) -> Axes:
    """Plot the smallest estimated risk for each regularisation strength, ± 2 standard errors.

    Other parameters have their selected values.
    """
    tuning = tuning.at_best_params()
    risk, stderr, train = (to_numpy(a) for a in (tuning.risk, tuning.stderr, tuning.train))
    order = np.argsort(tuning.lams)
    where = order, np.nanargmin(risk[order], axis=1)
    lams, values, error = tuning.lams[order], risk[where], 2 * stderr[where]
    with drawing_on(ax) as axes:
        axes.plot(lams, train[where], color=GREY, ls="--", marker=".", label="training error")
        axes.plot(lams, values, color=BLUE, marker=".", label="smallest estimated risk")
        whiskers: dict[str, Any] = {"elinewidth": 2.5, "ecolor": BLUE, "alpha": 0.25}
        axes.errorbar(lams, values, error, fmt="none", label="± 2 standard errors", **whiskers)
        selected = f"selected λ = {number(tuning.best_lam, 3)}"
        axes.plot(tuning.best_lam, risk[tuning.best], "o", color=ORANGE, label=selected)
        if lams[0] > 0 and len(lams) > 1:
            use_log_scale(axes)
        axes.set_xlabel("regularisation strength λ")
        axes.set_ylabel(name_of_loss(tuning.risks[0].test_loss))
        place_legend(axes)
    return axes


@on_axes
def plot_audit(risk: Risk, ax: Axes | None = None, *, log_time: bool = False) -> Axes:
    """Plot the audit: exact leave-one-out minus estimated risk, and the bias correction applied.

    Parameters
    ----------
    risk : Risk
        Risk estimate with an audit.
    """
    audit = risk.audit
    if audit is None:
        raise ValueError("the estimate has no audit; use estimate_risk(path, audit=32)")
    difference, error, repair = map(to_numpy, (audit.difference, audit.stderr, audit.repair))
    t, low, high = np.arange(len(difference)), difference - 2 * error, difference + 2 * error
    with drawing_on(ax) as axes:
        axes.axhline(0, color=BLACK, lw=0.5)
        axes.plot(t, difference, color=BLUE, label="leave-one-out − estimated")
        draw_band(axes, low, high)
        axes.plot(t, repair, color=ORANGE, ls="--", label="correction applied")
        set_time_axis(axes, len(t) - 1, log_time)
        axes.set_ylabel(f"difference in {name_of_loss(risk.test_loss)}")
        _show_most(axes, low, high)
        place_legend(axes)
    return axes


def _show_most(ax: Axes, low: np.ndarray, high: np.ndarray) -> None:
    """Set the y limits to show the whole band except values far from the rest of it."""
    sizes = np.maximum(np.abs(low), np.abs(high))
    cap = 4 * float(np.quantile(sizes, 0.75)) or float(sizes.max())
    within = sizes <= cap
    _set_limits(ax, min(low[within].min(), 0.0), max(high[within].max(), 0.0), sizes[~within])


@on_axes
def plot_summary(tuning: Tuning, names: Sequence[str] | None = None, scale: Any = None) -> Figure:
    """Plot a summary of a tuning result in six panels.

    (a) Estimated risk by iteration at the selected regularisation strength, (b) estimated risk over
    all regularisation strengths and iterations, (c) coefficients, (d) diagnostics, (e) corrected
    against raw residuals, or for classification the out-of-fold ROC curve, and (f) the audit, or
    without an audit the smallest risk for each regularisation strength.

    Parameters
    ----------
    scale : array-like of shape (p,), optional
        Factors by which the coefficients are multiplied; see `plot_coefficients`.

    Returns
    -------
    matplotlib.figure.Figure
        The figure.
    """
    k, best = tuning.best
    risk = tuning.risks[k]
    with new_figure((9.6, 5.8), **{"legend.fontsize": 7}) as figure:
        axes = figure.subplots(2, 3).ravel()
        for letter, ax in zip("abcdef", axes, strict=True):
            dress(ax)
            ax.set_title(f"({letter})", loc="left", fontweight="bold")
        plot_risk(risk, axes[0], log_time=True, best=best)
        plot_tuning(tuning, axes[1])
        plot_diagnostics(risk, axes[3])
        if risk.path.loss.margin:
            plot_roc(tuning, axes[4])
        else:
            plot_residuals(risk, best, axes[4])
        if risk.audit is not None and np.any(to_numpy(risk.audit.difference)):
            plot_audit(risk, axes[5], log_time=True)
        else:
            plot_penalties(tuning, axes[5])
        # last, because its labels are placed according to the final layout
        plot_coefficients(risk.path, names, scale=scale, best=best, ax=axes[2])
    return figure


@dataclass(eq=False, repr=False, kw_only=True)
class RiskPathDisplay:
    """Plot of the estimated risk of a fitted estimator; create one with `from_estimator`.

    Parameters
    ----------
    risk_path, risk_stderr, train_path : ndarray of shape (n_alphas, n_iter + 1)
        Estimated risks, their standard errors, and training errors.
    alphas : ndarray of shape (n_alphas,)
        Regularisation strengths.
    best : tuple of int
        Index of the selected regularisation strength, and the selected iteration.

    Attributes
    ----------
    ax_ : matplotlib.axes.Axes
        Axes with the plot.
    figure_ : matplotlib.figure.Figure
        Figure containing the plot.

    Examples
    --------
    >>> import steinpath as sp
    >>> X, y = sp.simulate.paper_model(30, noise="t2").sample(100, rng=0)
    >>> model = sp.LADLasso(n_alphas=5, n_iter=50, random_state=0).fit(X, y)
    >>> display = sp.RiskPathDisplay.from_estimator(model, kind="surface")
    >>> display.ax_.get_xlabel()
    'iteration'
    """

    risk_path: np.ndarray
    risk_stderr: np.ndarray
    train_path: np.ndarray
    alphas: np.ndarray
    best: tuple[int, int]
    ax_: Axes = field(init=False)
    figure_: Figure = field(init=False)

    @classmethod
    @on_axes
    def from_estimator(
        cls, estimator: Any, *, kind: str = "path", ax: Axes | None = None
    ) -> RiskPathDisplay:
        """Plot the estimated risk of a fitted estimator.

        Parameters
        ----------
        estimator : PathRegressor or another estimator of this package
            Fitted estimator.
        kind : {"path", "surface"}, default="path"
            "path" plots risk, standard errors and training error of every iteration at the
            selected alpha; "surface" plots the risk over all alphas and iterations.

        Returns
        -------
        RiskPathDisplay
        """
        from sklearn.utils.validation import check_is_fitted

        from steinpath.estimators._base import PathEstimator

        if not isinstance(estimator, PathEstimator):
            raise TypeError(
                "estimator must be a steinpath estimator, such as LADLasso; got "
                f"{type(estimator).__name__} (for a pipeline, pass its last step)"
            )
        check_is_fitted(estimator)
        if not hasattr(estimator, "risk_path_"):
            raise ValueError("the estimator has no risk estimate: it was fitted with method=None")
        display = cls(
            risk_path=to_numpy(estimator.risk_path_),
            risk_stderr=to_numpy(estimator.risk_stderr_),
            train_path=to_numpy(estimator.train_path_),
            alphas=to_numpy(estimator.alphas_),
            best=(estimator.best_index_, estimator.best_iter_),
        )
        return display.plot(ax, kind=kind)

    def plot(self, ax: Axes | None = None, *, kind: str = "path") -> RiskPathDisplay:
        """Plot the estimated risk.

        Parameters
        ----------
        ax, kind
            As for `from_estimator`.

        Returns
        -------
        RiskPathDisplay
            This display.
        """
        check_choice("kind", kind, ("path", "surface"))
        with drawing_on(ax, whole_frame=kind == "surface") as axes:
            if kind == "surface":
                _draw_surface(axes, self.risk_path, self.alphas, self.best, "α")
            else:
                k, best = self.best
                known = np.isfinite(self.risk_path[k])
                every = self.risk_path, self.risk_stderr, self.train_path
                risk, stderr, train = (values[k][known] for values in every)
                _draw_path(axes, risk, stderr, train, best)
                axes.set(ylabel="scoring loss", title=f"α = {number(self.alphas[k], 3)}")
                place_legend(axes)
        self.ax_, self.figure_ = axes, figure_of(axes)
        return self


def _draw_path(
    ax: Axes,
    values: np.ndarray,
    stderr: np.ndarray,
    train: np.ndarray,
    best: int,
    others: Mapping[str, np.ndarray] | None = None,
    log_time: bool = False,
) -> None:
    """Draw the risk with its band and other curves, with y limits that show the minimum."""
    t, others = np.arange(len(values)), others or {}
    ax.plot(t, train, color=GREY, ls="--", label="training error")
    ax.plot(t, values, color=BLUE, label="estimated risk")
    draw_band(ax, values - 2 * stderr, values + 2 * stderr)
    ax.plot(best, values[best], "o", color=ORANGE, label=f"selected iteration {best}", zorder=3)
    for label, curve in others.items():
        ax.plot(t, curve, label=label, **_OTHERS[label])
    set_time_axis(ax, len(t) - 1, log_time)
    _show_minimum(ax, values, stderr, train, *others.values())


#: Line styles of the other curves.
_OTHERS: dict[str, dict[str, Any]] = {
    "before audit correction": {"color": BLUE, "lw": 0.8, "ls": "-."},
    "true risk": {"color": GREEN, "lw": 2, "ls": ":"},
}


def _show_minimum(ax: Axes, values: np.ndarray, stderr: np.ndarray, *others: np.ndarray) -> None:
    """Set the y limits to all curves, training error first, but for values far from the minimum."""
    k, train = int(values.argmin()), others[0]
    lowest = float(values[k])
    # scale of the features near the minimum: standard error, optimism, lower quartile
    seen = max(3 * stderr[k], lowest - train[k], np.quantile(values, 0.25) - lowest)
    drawn = np.concatenate([values, values - 2 * stderr, values + 2 * stderr, *others])
    shown = drawn[np.abs(drawn - lowest) <= (5 * seen or np.inf)]
    _set_limits(ax, min(shown.min(), train.min()), shown.max(), values)


def _set_limits(ax: Axes, bottom: float, top: float, values: np.ndarray) -> None:
    """Set the y limits with a margin; write how many values are above them, and the largest."""
    margin = 0.05 * (top - bottom) or 1.0
    ax.set_ylim(bottom - margin, top + margin)
    beyond = values[values > top + margin]
    if len(beyond):
        plural = "s" * (len(beyond) > 1)
        note(ax, f"{len(beyond)} iteration{plural} off the scale, up to {number(beyond.max(), 2)}")


def _draw_surface(
    ax: Axes, risk: np.ndarray, alphas: np.ndarray, best: tuple[int, int], symbol: str
) -> None:
    """Draw a heat map of the risk: largest alpha on top, iterations on a logarithmic scale."""
    order, (L, T) = np.argsort(alphas), risk.shape
    # values far above the minimum would use up the colour range
    low, high = float(np.nanmin(risk)), float(np.nanquantile(risk, 0.8))
    colours: dict[str, Any] = {"vmin": low, "vmax": high if high > low else low + 1}
    edges = (np.arange(count + 1) - 0.5 for count in (T, L))
    mesh = ax.pcolormesh(*edges, risk[order], cmap="viridis_r", rasterized=True, **colours)
    bar = figure_of(ax).colorbar(mesh, ax=ax, extend="max", label="estimated risk", aspect=25)
    bar.outline.set_visible(False)
    for which, ticks in TICKS.items():  # in the style of the axes
        own = ax.yaxis.get_tick_params(which=which)
        bar.ax.tick_params(which=which, **{name: own[name] for name in ticks if name in own})
    k, t = best
    place = int(np.flatnonzero(order == k)[0])
    selected = f"selected: {symbol} = {number(alphas[k], 3)}, iteration {t}"
    ax.plot(t, place, "o", color=ORANGE, mec="white", ms=7, label=selected, ls="none")
    set_time_axis(ax, T - 1, log=True, margin=0.5)
    shown = np.unique(np.linspace(0, L - 1, min(L, 6)).round().astype(int))
    ax.set_yticks(shown, [number(alphas[order[i]], 3) for i in shown])
    ax.set_ylabel(f"regularisation strength {symbol}")
    place_legend(ax)
