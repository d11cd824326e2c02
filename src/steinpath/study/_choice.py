"""Study ``choice``: estimated and true error of tuned models, coverage of prediction intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from steinpath._support.charts import BLACK, BLUE, GREY, ORANGE
from steinpath.study._base import (
    Exhibit,
    Results,
    Sizes,
    Study,
    Table,
    columns_under,
    mean_and_error,
)
from steinpath.study._choice_data import LAWS, SKEWED
from steinpath.study._choose import LEVEL
from steinpath.study._coverage import NOMINAL
from steinpath.study._figures import column, panels, share_legend
from steinpath.study._settings import LIGHTER_NOISE, Configuration, pair_title

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Numbers of features by number of observations, for independent rows; for other n, p = n / 2 with
#: both losses.
SHAPES = {"lad": {100: 200, 120: 60, 300: 150, 1000: 500}, "square_root": {100: 50, 400: 200}}
#: Further noise distributions, for at most `MOST_ROWS` rows. Squares of Student's t₂ have no mean.
OTHER_NOISE = {"lad": (SKEWED, "t2"), "square_root": (SKEWED,)}
MOST_ROWS = 400

#: Display names.
LEFT_OUT = {"rows": "rows", "groups": "clusters", "time": "later rows"}
ESTIMATES = {"naive": "not adjusted for selection", "honest": "adjusted for selection"}


def _plan(sizes: Sizes) -> list[Configuration]:
    plan = []
    for n in sizes.n:
        known = {loss: shapes[n] for loss, shapes in SHAPES.items() if n in shapes}
        for loss, p in (known or dict.fromkeys(SHAPES, max(2, n // 2))).items():
            others = OTHER_NOISE[loss] if n <= MOST_ROWS else ()
            for noise in (LIGHTER_NOISE[loss], *others):
                plan.append(_config(loss, n, p, sizes.iters, "independent", noise))
    if sizes.n:  # dependent rows: only the middle size
        n = sorted(sizes.n)[len(sizes.n) // 2]
        for rows in LAWS:
            if rows != "independent":
                for loss in SHAPES:
                    plan.append(_config(loss, n, max(2, n // 5), sizes.iters, rows, "normal"))
    return plan


def _config(loss: str, n: int, p: int, iters: int, rows: str, noise: str) -> Configuration:
    ways = {"independent": ("rows",), "time series": ("rows", "time")}.get(rows, ("rows", "groups"))
    return Configuration(loss, "lasso", n, p, iters, ways, rows, noise)


def _table(results: Results) -> Table:
    """Return a row for each configuration and each type of cross-validation."""
    table = []
    for s, columns in results.items():
        for way in s.ways:
            found = {name: each[:, 0] for name, each in columns_under(columns, way).items()}
            truth = found["truth"]
            row: dict[str, Any] = {"data": s.rows, "noise": s.noise, "loss": s.loss}
            row |= {"penalty": s.penalty, "n": s.n, "p": s.p, "reps": len(truth), "left_out": way}
            row["truth"] = float(truth.mean())
            for name in ESTIMATES:
                error = found[name] - truth
                bias, spread = mean_and_error(100 * error / truth.mean())
                row |= {f"{name}_bias": float(bias), f"{name}_bias_se": float(spread)}
                within = np.abs(error) <= 2 * found[f"{name}_stderr"]
                row[f"{name}_covers"] = float(within.mean())
            for name, values in (("interval", found["covered"]), ("width", found["width"])):
                mean, spread = mean_and_error(values)
                row |= {name: float(mean), f"{name}_se": float(spread)}
            table.append(row)
    return table


def _summary(results: Results) -> Table:
    summary = []
    for row in _table(results):
        short: dict[str, Any] = {"data": row["data"], "noise": row["noise"]}
        short |= {"pair": pair_title(row["loss"], row["penalty"]), "n": row["n"], "p": row["p"]}
        short |= {"reps": row["reps"], "left out": LEFT_OUT[row["left_out"]], "error": row["truth"]}
        for name in ESTIMATES:
            short |= {
                f"{name} bias, %": row[f"{name}_bias"],
                f"{name} s.e.": row[f"{name}_bias_se"],
                f"{name} ± 2 s.e. covers": row[f"{name}_covers"],
            }
        short |= {f"{LEVEL:.0%} interval covers": row["interval"], "its s.e.": row["interval_se"]}
        summary.append(short | {"width": row["width"]})
    return summary


def _draw(table: Table) -> Figure:
    figure, axes = panels(1, 3, width=3.0, height=0.24 * len(table) + 0.6, sharey=True)
    bias, covers, interval = axes[0]
    place, reps = np.arange(len(table)), table[0]["reps"]
    for name, label, colour, marker, shift in (
        ("naive", ESTIMATES["naive"], ORANGE, "o", -0.15),
        ("honest", ESTIMATES["honest"], BLUE, "D", 0.15),
    ):
        style: dict[str, Any] = {"fmt": marker, "color": colour, "ms": 4, "lw": 1, "label": label}
        mean, error = column(table, f"{name}_bias"), column(table, f"{name}_bias_se")
        bias.errorbar(mean, place + shift, xerr=2 * error, **style)
        covers.plot(column(table, f"{name}_covers"), place + shift, marker, color=colour, ms=4)
    shares, errors = column(table, "interval"), column(table, "interval_se")
    interval.errorbar(shares, place, xerr=2 * errors, fmt="s", color=BLACK, ms=4, lw=1)
    bias.axvline(0, color=GREY, lw=1)
    chance = 2 * np.sqrt(NOMINAL * (1 - NOMINAL) / reps)
    label = f"{NOMINAL:.1%}, ± 2 s.e. of {reps} replications"
    band = (NOMINAL - chance, min(1.0, NOMINAL + chance))
    covers.axvspan(*band, color=GREY, alpha=0.15, lw=0, label=label)
    interval.axvline(LEVEL, color=GREY, lw=1)
    _titles(bias, "bias of the estimated risk", "%")
    _titles(covers, "coverage of ± 2 s.e.", "fraction of data sets")
    _titles(interval, f"coverage of {LEVEL:.0%} prediction intervals", "fraction of new rows")
    bias.set_yticks(place, [_label(row) for row in table], fontsize="x-small")
    bias.set_ylim(len(table) - 0.5, -0.5)  # first row on top
    share_legend(figure, axes)
    return figure


def _titles(ax: Axes, title: str, unit: str) -> None:
    ax.set_title(title, fontsize="small")
    ax.set_xlabel(unit, fontsize="small")


def _label(row: dict[str, Any]) -> str:
    about = row["noise"] if row["data"] == "independent" else row["data"]
    left_out = "" if row["data"] == "independent" else f", {LEFT_OUT[row['left_out']]} held out"
    pair = pair_title(row["loss"], row["penalty"])
    return f"{pair} {row['n']}×{row['p']}, {about}{left_out}"


CHOICE = Study(
    name="choice",
    question="Is the estimated error of a tuned model unbiased, and do prediction intervals have "
    "nominal coverage? (independent rows, clusters, time series)",
    plan=_plan,
    exhibits=lambda results: [Exhibit("choice", _table(results), _draw)],
    summary=_summary,
    full=Sizes(reps=20, n=(100, 120, 300, 400, 1000), p=(), iters=0),
    quick=Sizes(reps=4, n=(100,), p=(), iters=0),
)
