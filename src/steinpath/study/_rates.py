"""Study ``rates``: decrease of the errors with n, for fixed p/n and number of iterations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from steinpath._support.charts import BLUE, GREEN, GREY, ORANGE
from steinpath.study._base import Exhibit, Results, Sizes, Study, Table, centered, mean_and_error
from steinpath.study._figures import PLAIN, column, distinct, panels, select, share_legend
from steinpath.study._settings import PAPER_NOISE, Configuration, pair_title

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAIRS = tuple((loss, penalty) for loss in ("lad", "square_root") for penalty in ("ridge", "lasso"))

#: Errors, each the difference of two columns.
ERRORS = {"tilde": ("tilde", "truth"), "hat": ("hat", "truth"), "gap": ("hat", "tilde")}

#: Errors whose slopes are fitted, with the exponents of the theorems. The gap between the estimates
#: is mostly Monte Carlo error, which by default is proportional to the sampling error, so its slope
#: is not informative.
THEOREMS = {"tilde": -0.5, "hat": -0.25}


def _plan(sizes: Sizes) -> list[Configuration]:
    if len(sizes.n) < 2:
        raise ValueError("the study 'rates' requires at least two values of n")
    return [
        Configuration(
            loss, penalty, n, n // 2, sizes.iters, ("tilde", "hat"), "gaussian", PAPER_NOISE[loss]
        )
        for n in sizes.n
        for loss, penalty in PAIRS
    ]


def _table(results: Results) -> Table:
    """Return mean absolute errors over the replications, averaged over the iterates."""
    table = []
    for s, columns in results.items():
        row = {"loss": s.loss, "penalty": s.penalty, "n": s.n, "p": s.p}
        row["reps"] = len(columns["truth"])
        for name, (one, other) in ERRORS.items():
            # relative to the zero prediction, as in the paper's assumptions on the scoring loss
            error = np.abs(centered(columns[one]) - centered(columns[other]))[:, 1:]
            mean, spread = mean_and_error(error.mean(axis=1))
            row |= {name: float(mean), f"{name}_se": float(spread)}
        table.append(row)
    return table


def slope(n: np.ndarray, error: np.ndarray, stderr: np.ndarray) -> tuple[float, float]:
    """Return the exponent of n by least squares on logarithms, and its standard error."""
    x = np.log(n) - np.log(n).mean()
    weights = x / (x @ x)
    return float(weights @ np.log(error)), float(np.linalg.norm(weights * stderr / error))


def _summary(results: Results) -> Table:
    return _slopes(_table(results))


def _slopes(table: Table) -> Table:
    summary = []
    for loss, penalty in distinct(table, "loss", "penalty"):
        rows = select(table, loss=loss, penalty=penalty)
        n = column(rows, "n")
        for name, theory in THEOREMS.items():
            one, other = ERRORS[name]
            found, error = slope(n, column(rows, name), column(rows, f"{name}_se"))
            row: dict[str, Any] = {"pair": pair_title(loss, penalty), "n": f"{n[0]}…{n[-1]}"}
            row |= {"reps": rows[0]["reps"], "error": f"|{PLAIN[one]} − {PLAIN[other]}|"}
            summary.append(row | {"slope": found, "s.e.": error, "theorem": theory})
    return summary


def _draw(table: Table) -> Figure:
    pairs = distinct(table, "loss", "penalty")
    styles: dict[str, Any] = {
        "tilde": {"label": r"$|\tilde R - R|$", "marker": "o", "color": BLUE},
        "hat": {"label": r"$|\hat R - R|$", "marker": "s", "color": ORANGE},
        "gap": {
            "label": r"$|\hat R - \tilde R|$, including Monte Carlo error",
            "marker": "^",
            "color": GREEN,
        },
    }
    figure, axes = panels(1, len(pairs), height=3.0, sharey=True)
    for ax, (loss, penalty) in zip(axes[0], pairs, strict=True):
        rows = select(table, loss=loss, penalty=penalty)
        n = column(rows, "n")
        for k, (name, style) in enumerate(styles.items()):
            error, spread = column(rows, name), column(rows, f"{name}_se")
            shifted = n * 1.06 ** (k - 1)  # avoids overlap
            ax.errorbar(shifted, error, 2 * spread, ls="none", ms=4, **style)
            if name not in THEOREMS:
                continue
            found, uncertain = slope(n, error, spread)
            fit = np.exp(np.log(error).mean()) * (n / np.exp(np.log(n).mean())) ** found
            ax.plot(shifted, fit, color=style["color"], lw=1)
            text = f"{style['label']}: {found:.2f}, s.e. {uncertain:.2f}".replace("-0", "−0")
            place = {"x": 0.04, "y": 0.105 - 0.065 * k, "transform": ax.transAxes}
            ax.text(s=text, fontsize="x-small", color=style["color"], **place)
        start = 1.8 * column(rows, "tilde")[0]
        for exponent, ls in ((-0.5, "--"), (-0.25, ":")):
            label = f"slope {exponent:g}".replace("-", "−")
            ax.plot(n, start * (n / n[0]) ** exponent, color=GREY, ls=ls, lw=1, label=label)
        ax.set_xscale("log", base=2)
        ax.set_yscale("log")
        ax.set_xticks(n, [str(k) for k in n], rotation=45)
        ax.minorticks_off()
        ax.set_xlabel("n", fontsize="small")
        ax.set_title(pair_title(loss, penalty), fontsize="small")
    low, high = axes[0, 0].get_ylim()
    axes[0, 0].set_ylim(low / 3, high)  # room for the slopes
    axes[0, 0].set_ylabel("mean absolute error", fontsize="small")
    share_legend(figure, axes)
    return figure


RATES = Study(
    name="rates",
    question="How fast do the errors decrease with n? (theorems: n^(-1/2) and n^(-1/4))",
    plan=_plan,
    exhibits=lambda results: [Exhibit("rates", _table(results), _draw)],
    summary=_summary,
    full=Sizes(reps=100, n=(250, 500, 1000, 2000, 4000, 8000), p=(), iters=30),
    quick=Sizes(reps=12, n=(100, 200, 400, 800), p=(), iters=20),
)
