"""Study ``mis-specified``: the estimates when assumptions of the theory are violated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from steinpath.study._base import Exhibit, Results, Sizes, Study, Table, mean_and_error
from steinpath.study._curves import mean_curves
from steinpath.study._figures import (
    PLAIN,
    around,
    distinct,
    draw_curve,
    label_iterations,
    panels,
    select,
    share_legend,
)
from steinpath.study._settings import LIGHTER_NOISE, Configuration, pair_title

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WAYS = ("hat", "scaled", "safe")
NAMES = ("truth", *WAYS)
PAIRS = (("lad", "lasso"), ("square_root", "ridge"))
DATA = (
    "gaussian",
    "elliptical",
    "heavy-tailed features",
    "correlated noise",
    "time series",
    "near-duplicate rows",
)
FEW = "few rows"


def _plan(sizes: Sizes) -> list[Configuration]:
    if (len(sizes.n), len(sizes.p)) != (1, 1):
        raise ValueError("the study 'mis-specified' requires exactly one n and one p")
    usual = (sizes.n[0], sizes.p[0], sizes.iters)
    few = (max(20, usual[0] // 10), max(2, usual[1] // 10), 5 * sizes.iters)
    return [
        Configuration(loss, penalty, *size, WAYS, data, _noise(data, loss))
        for data, size in [*((data, usual) for data in DATA), (FEW, few)]
        for loss, penalty in PAIRS
    ]


def _noise(data: str, loss: str) -> str:
    return "normal" if data in ("correlated noise", "time series") else LIGHTER_NOISE[loss]


def _exhibits(results: Results) -> list[Exhibit]:
    table: Table = []
    for s, curves in results.items():
        labels = {"data": s.rows, "loss": s.loss, "penalty": s.penalty, "n": s.n, "p": s.p}
        warned = float(curves["safe_warned"][:, 0].mean())
        rows = mean_curves(curves, NAMES, **labels, warned=warned)
        shown = np.unique(np.linspace(0, s.iters, 301).round().astype(int))  # enough for a figure
        table += [rows[t] for t in shown]
    return [Exhibit("mis-specified", table, _draw)]


def _draw(table: Table) -> Figure:
    pairs, kinds = distinct(table, "loss", "penalty"), distinct(table, "data")
    figure, axes = panels(len(kinds), len(pairs), width=4.2, height=1.8)
    for row, kind in zip(axes, kinds, strict=True):
        for ax, (loss, penalty) in zip(row, pairs, strict=True):
            rows = select(table, loss=loss, penalty=penalty, data=kind)
            for name in NAMES:
                draw_curve(ax, rows, name)
            around(ax, rows, NAMES)
            size = f"n={rows[0]['n']}, p={rows[0]['p']}"
            title = f"{kind}, {size}: {rows[0]['warned']:.0%} warn"
            ax.set_title(title, fontsize="small")
            ax.set_ylabel(pair_title(loss, penalty), fontsize="small")
    label_iterations(axes)
    share_legend(figure, axes, columns=4)
    return figure


def _summary(results: Results) -> Table:
    summary = []
    for s, curves in results.items():
        truth = curves["truth"]
        for way in WAYS:
            row: dict[str, Any] = {"data": s.rows, "pair": s.pair, "n": s.n, "p": s.p}
            row |= {"reps": len(truth), "estimate": PLAIN[way]}
            error = curves[way] - truth
            bias, spread = mean_and_error(100 * error[:, -1] / truth[:, -1].mean())
            row |= {"bias at the end, %": float(bias), "its s.e.": float(spread)}
            row["± 2 s.e. covers"] = float(
                np.mean(np.abs(error[:, 1:]) <= 2 * curves[f"{way}_stderr"][:, 1:])
            )
            warned = curves.get(f"{way}_warned")
            row["warned"] = "" if warned is None else float(warned[:, 0].mean())
            summary.append(row)
    return summary


MISSPECIFIED = Study(
    name="mis-specified",
    question="When does the estimate fail, and do the diagnostics warn? (elliptical rows, "
    "heavy-tailed features, correlated noise, time series, near-duplicate rows, few rows)",
    plan=_plan,
    exhibits=_exhibits,
    summary=_summary,
    full=Sizes(reps=100, n=(500,), p=(250,), iters=200),
    quick=Sizes(reps=6, n=(200,), p=(100,), iters=60),
)
