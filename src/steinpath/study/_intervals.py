"""Study ``intervals``: coverage and width of confidence intervals for coefficients."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from steinpath._support.charts import BLUE, GREY, ORANGE
from steinpath.study._base import (
    Exhibit,
    Results,
    Sizes,
    Study,
    Table,
    all_pairs,
    columns_under,
    mean_and_error,
)
from steinpath.study._figures import (
    column,
    distinct,
    draw_curve,
    label_iterations,
    panels,
    select,
    share_legend,
)
from steinpath.study._infer import FDR, LEVEL
from steinpath.study._settings import Configuration, interval_times, pair_title

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DESIGNS = ("gaussian", "uniform")

#: Display names of scores, and styles of the coverage curves.
TITLES = {"known": "covariance", "nodewise": "node-wise lasso"}
COVERAGE: dict[str, dict[str, Any]] = {
    "zero": {"label": "zero coefficients", "color": BLUE, "ls": "-"},
    "nonzero": {"label": "nonzero coefficients", "color": ORANGE, "ls": "--"},
}


def _plan(sizes: Sizes) -> list[Configuration]:
    known = all_pairs(sizes, ("known",), designs=DESIGNS)
    # half as many rows, and p = n / 2
    smaller = {(max(20, n // 2), max(4, n // 4)) for n in sizes.n}
    shapes = [Sizes(sizes.reps, (n,), (p,), sizes.iters) for n, p in sorted(smaller)]
    return known + [s for shape in shapes for s in all_pairs(shape, ("nodewise",))]


def _table(results: Results) -> Table:
    """Return a row for each configuration and type of scores."""
    table = []
    for s, columns in results.items():
        for way in s.ways:
            found, along = columns_under(columns, way), slice(0, len(interval_times(s.iters)))
            shortest, by_risk, last = -2, -1, along.stop - 1
            row: dict[str, Any] = {"design": s.rows, "loss": s.loss, "penalty": s.penalty}
            row |= {"n": s.n, "p": s.p, "reps": len(found["covers"]), "scores": way}
            row["iterate"] = float(np.median(found["iterate"][:, shortest]))
            row["iterate_by_risk"] = float(np.median(found["iterate"][:, by_risk]))
            row["warned"] = float(found["warned"][:, along].mean())
            for kind in ("covers", *COVERAGE):
                # average over iterates first, because those of one path are dependent
                parts = {
                    "": found[kind][:, along].mean(axis=1),
                    "_shortest": found[kind][:, shortest],
                    "_by_risk": found[kind][:, by_risk],
                }
                for name, values in parts.items():
                    mean, spread = mean_and_error(values)
                    row |= {f"{kind}{name}": float(mean), f"{kind}{name}_se": float(spread)}
                each = found[kind][:, along].mean(axis=0)
                row |= {f"{kind}_lowest": float(each.min()), f"{kind}_highest": float(each.max())}
            widths = found["width"]
            row["width"] = float(widths[:, shortest].mean())
            for name, place in (("of_last", last), ("of_by_risk", by_risk)):
                row[f"width_{name}"] = float(np.median(widths[:, shortest] / widths[:, place]))
            for name in ("false", "power", "any_false"):
                mean, spread = mean_and_error(found[name][:, shortest])
                row |= {name: float(mean), f"{name}_se": float(spread)}
            table.append(row)
    return table


def _summary(results: Results) -> Table:
    summary = []
    for row in _table(results):
        short: dict[str, Any] = {"design": row["design"], "scores": TITLES[row["scores"]]}
        short |= {"pair": pair_title(row["loss"], row["penalty"]), "n": row["n"], "p": row["p"]}
        short |= {"reps": row["reps"], "covers": row["covers"], "nonzero": row["nonzero"]}
        short |= {"lowest": row["covers_lowest"], "highest": row["covers_highest"]}
        short |= {"shortest": row["iterate"], "covers there": row["covers_shortest"]}
        short |= {"nonzero there": row["nonzero_shortest"], "width": row["width"]}
        short |= {"relative to last": row["width_of_last"], "FDR": row["false"]}
        short |= {"power": row["power"], "FWER": row["any_false"]}
        summary.append(short | {"smallest risk": row["covers_by_risk"]})
    return summary


def _exhibits(results: Results) -> list[Exhibit]:
    curves: dict[str, Table] = {}
    for s, columns in results.items():
        for way in s.ways:
            name = f"intervals-{way}-{s.rows}-n{s.n}-p{s.p}"
            curves.setdefault(name, []).extend(_curves(s, columns_under(columns, way)))
    numbers = Exhibit("intervals", _table(results), _draw)
    return [numbers, *(Exhibit(name, table, _draw_curves) for name, table in curves.items())]


def _curves(config: Configuration, found: dict[str, np.ndarray]) -> Table:
    """Return coverage and widths at each iteration; widths are relative to the last iteration."""
    times, table = interval_times(config.iters), []
    found = found | {"width": found["width"] / found["width"][:, len(times) - 1, None]}
    for place, t in enumerate(times):
        row: dict[str, Any] = {"loss": config.loss, "penalty": config.penalty, "iterate": t}
        row["reps"] = len(found["covers"])
        for name in (*COVERAGE, "width"):
            mean, spread = mean_and_error(found[name][:, place])
            row |= {name: float(mean), f"{name}_se": float(spread)}
        table.append(row)
    return table


def _draw_curves(table: Table) -> Figure:
    """Draw coverage along the path, and the width of the intervals below."""
    losses, penalties = distinct(table, "loss"), distinct(table, "penalty")
    figure, axes = panels(2 * len(losses), len(penalties), height=1.6, sharex=True, sharey="row")
    for k, loss in enumerate(losses):
        for j, penalty in enumerate(penalties):
            rows = select(table, loss=loss, penalty=penalty)
            covers, width = axes[2 * k, j], axes[2 * k + 1, j]
            covers.set_title(pair_title(loss, penalty), fontsize="small")
            covers.axhline(LEVEL, color=GREY, lw=1)
            for name, style in COVERAGE.items():
                draw_curve(covers, rows, name, **style)
            draw_curve(width, rows, "width", color=GREY, label="width relative to last iteration")
        axes[2 * k, 0].set_ylabel("coverage", fontsize="small")
        axes[2 * k + 1, 0].set_ylabel("width", fontsize="small")
        axes[2 * k + 1, 0].set_ylim(bottom=0)
    times = distinct(table, "iterate")[::2]
    for ax in axes.flat:
        ax.set_xscale("log")
        ax.set_xticks(times, [str(t) for t in times])
        ax.minorticks_off()
    label_iterations(axes)
    share_legend(figure, axes)
    return figure


def _draw(table: Table) -> Figure:
    """Draw coverage, widths and false discovery rate of each configuration."""
    figure, axes = panels(1, 3, width=3.2, height=0.2 * len(table) + 0.8, sharey=True)
    covers, width, false = axes[0]
    place = np.arange(len(table))
    for (name, own), shift in zip(COVERAGE.items(), (-0.15, 0.15), strict=True):
        style: dict[str, Any] = {"fmt": "o", "color": own["color"], "ms": 3, "lw": 1}
        mean, error = column(table, f"{name}_shortest"), column(table, f"{name}_shortest_se")
        covers.errorbar(mean, place + shift, xerr=2 * error, label=own["label"], **style)
    covers.axvline(LEVEL, color=GREY, lw=1)
    width.plot(column(table, "width_of_last"), place, "D", color=BLUE, ms=3)
    width.axvline(1, color=GREY, lw=1)
    width.set_xlim(left=0)
    mean, error = column(table, "false"), column(table, "false_se")
    false.errorbar(mean, place, xerr=2 * error, fmt="s", color=BLUE, ms=3, lw=1)
    false.axvline(FDR, color=GREY, lw=1)
    covers.set_title(f"coverage of shortest {LEVEL:.0%} intervals", fontsize="small")
    width.set_title("width relative to last iteration", fontsize="small")
    false.set_title(f"false discovery rate (nominal {FDR:.0%})", fontsize="small")
    labels = [
        f"{pair_title(r['loss'], r['penalty'])} {r['n']}×{r['p']}, "
        f"{r['design'] if r['scores'] == 'known' else TITLES[r['scores']]}"
        for r in table
    ]
    covers.set_yticks(place, labels, fontsize="x-small")
    covers.set_ylim(len(table) - 0.5, -0.5)  # first row on top
    share_legend(figure, axes)
    return figure


INTERVALS = Study(
    name="intervals",
    question="What are the coverage and width of confidence intervals for coefficients along the "
    "path? (covariance known or unknown, Gaussian and uniform features)",
    plan=_plan,
    exhibits=_exhibits,
    summary=_summary,
    full=Sizes(reps=20, n=(2000,), p=(1000, 2400), iters=300),
    quick=Sizes(reps=4, n=(400,), p=(200,), iters=60),
)
