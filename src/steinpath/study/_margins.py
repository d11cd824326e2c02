"""Study ``margins``: estimated and true risk of classifiers along the path."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from steinpath._support.charts import GREY
from steinpath.study import _settings
from steinpath.study._base import (
    Exhibit,
    Results,
    Sizes,
    Study,
    Table,
    columns_under,
    mean_and_error,
)
from steinpath.study._classify import CLASSES, RISKS, WAYS
from steinpath.study._coverage import NOMINAL
from steinpath.study._curves import mean_curves
from steinpath.study._figures import (
    PLAIN,
    STYLES,
    column,
    draw_curve,
    label_iterations,
    pair_panels,
    panels,
    select,
    share_legend,
)
from steinpath.study._settings import Configuration, pair_title

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PENALTIES = ("lasso", "ridge")

#: Display names of scoring losses.
TITLES = {"zero_one": "error rate", "matched": "loss"}


def _plan(sizes: Sizes) -> list[Configuration]:
    return [
        Configuration(loss, penalty, n, p, sizes.iters, tuple(WAYS), rows, "logistic")
        for n in sizes.n
        for p in sizes.p
        for rows in CLASSES
        for loss in _settings.MARGINS
        for penalty in PENALTIES
    ]


def _table(results: Results) -> Table:
    """Return a row for each configuration, scoring loss and estimator, without iteration 0."""
    table = []
    for s, curves in results.items():
        for risk in RISKS:
            found = columns_under(curves, risk)
            truth = found["truth"]
            for way in s.ways:
                error = found[way] - truth
                row: dict[str, Any] = {"classes": s.rows, "loss": s.loss, "penalty": s.penalty}
                row |= {"n": s.n, "p": s.p, "reps": len(truth), "risk": risk, "way": way}
                row["truth"] = float(truth[:, -1].mean())
                row["train"] = float(found["train"][:, -1].mean())
                within = np.abs(error[:, 1:]) <= 2 * found[f"{way}_stderr"][:, 1:]
                # average over iterates first, because those of one path are dependent
                for name, values in (
                    ("bias", error[:, -1]),
                    ("rms", np.sqrt(np.mean(error[:, 1:] ** 2, axis=1))),
                    ("covers", within.mean(axis=1)),
                ):
                    mean, spread = mean_and_error(values)
                    row |= {name: float(mean), f"{name}_se": float(spread)}
                table.append(row)
    return table


def _summary(results: Results) -> Table:
    summary = []
    for row in _table(results):
        short: dict[str, Any] = {"classes": row["classes"].removesuffix(" classes")}
        short |= {"pair": pair_title(row["loss"], row["penalty"]), "n": row["n"], "p": row["p"]}
        short |= {"reps": row["reps"], "risk": TITLES[row["risk"]], "truth": row["truth"]}
        short |= {"training": row["train"], "estimate": PLAIN[row["way"]]}
        short |= {"bias at the end": row["bias"], "its s.e.": row["bias_se"], "rms": row["rms"]}
        summary.append(short | {"± 2 s.e. covers": row["covers"], "s.e. of that": row["covers_se"]})
    return summary


def _exhibits(results: Results) -> list[Exhibit]:
    curves: dict[str, Table] = {}
    for s, each in results.items():
        name = f"margins-{s.rows.split()[0]}-n{s.n}-p{s.p}"
        labels = {"loss": s.loss, "penalty": s.penalty}
        names = ("truth", *s.ways, "train")
        curves.setdefault(name, []).extend(
            mean_curves(columns_under(each, "zero_one"), names, **labels)
        )
    numbers = Exhibit("margins", _table(results), _draw)
    return [numbers, *(Exhibit(name, table, _draw_curves) for name, table in curves.items())]


def _draw_curves(table: Table) -> Figure:
    figure, axes, found = pair_panels(table, sharey=True)
    for ax, rows in found:
        for name in ("truth", *WAYS, "train"):
            draw_curve(ax, rows, name)
    for row in axes:
        row[0].set_ylabel("error rate", fontsize="small")
    label_iterations(axes)
    share_legend(figure, axes, columns=3)
    return figure


def _draw(table: Table) -> Figure:
    """Draw root mean square errors of the estimates, and the coverage of their bands."""
    first = select(table, risk=RISKS[0], way=table[0]["way"])
    figure, axes = panels(1, 4, width=2.4, height=0.2 * len(first) + 0.8, sharey=True)
    place = np.arange(len(first))
    chance = 2 * np.sqrt(NOMINAL * (1 - NOMINAL) / table[0]["reps"])
    for k, risk in enumerate(RISKS):
        rms, covers = axes[0, 2 * k : 2 * k + 2]
        for way, marker, shift in zip(WAYS, "osD", (-0.2, 0.0, 0.2), strict=True):
            rows = select(table, risk=risk, way=way)
            colour, label = STYLES[way]["color"], STYLES[way]["label"]
            for ax, name in ((rms, "rms"), (covers, "covers")):
                mean, error = column(rows, name), column(rows, f"{name}_se")
                style: dict[str, Any] = {"fmt": marker, "color": colour, "ms": 4, "lw": 1}
                ax.errorbar(mean, place + shift, xerr=2 * error, label=label, **style)
        covers.axvspan(NOMINAL - chance, min(1.0, NOMINAL + chance), color=GREY, alpha=0.15, lw=0)
        rms.set_xlim(left=0)
        covers.set_xlim(max(0.0, covers.get_xlim()[0]), 1.03)
        rms.set_title(f"{TITLES[risk]}, estimation error", fontsize="small")
        rms.set_xlabel("root mean square", fontsize="small")
        covers.set_title(f"{TITLES[risk]}, coverage of ± 2 s.e.", fontsize="small")
        covers.set_xlabel("share", fontsize="small")
    labels = [
        f"{pair_title(r['loss'], r['penalty'])} {r['n']}×{r['p']}, {r['classes'].split()[0]}"
        for r in first
    ]
    axes[0, 0].set_yticks(place, labels, fontsize="x-small")
    axes[0, 0].set_ylim(len(first) - 0.5, -0.5)  # first row on top
    share_legend(figure, axes)
    return figure


MARGINS = Study(
    name="margins",
    question="Do the estimates track the true error rate and loss of classifiers along the path? "
    "(hinge, squared hinge, logistic; balanced and unbalanced classes)",
    plan=_plan,
    exhibits=_exhibits,
    summary=_summary,
    full=Sizes(reps=50, n=(600,), p=(300, 900), iters=150),
    quick=Sizes(reps=4, n=(200,), p=(100,), iters=60),
)
