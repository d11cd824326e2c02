"""Study ``coverage``: how often the band of two standard errors covers the true risk."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtr

from steinpath._support.charts import GREY
from steinpath.study._base import Exhibit, Results, Sizes, Study, Table, all_pairs, mean_and_error
from steinpath.study._figures import (
    PLAIN,
    STYLES,
    column,
    label_iterations,
    pair_panels,
    share_legend,
)
from steinpath.study._replicate import Curves
from steinpath.study._settings import LIGHTER_NOISE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WAYS = ("tilde", "hat", "audited")

NOMINAL = float(1 - 2 * ndtr(-2))


def _covered(curves: Curves, way: str) -> np.ndarray:
    error = np.abs(curves[way] - curves["truth"])
    return np.asarray(error <= 2 * curves[f"{way}_stderr"])


def _exhibits(results: Results) -> list[Exhibit]:
    tables: dict[str, Table] = {}
    for s, curves in results.items():
        table = tables.setdefault(f"coverage-n{s.n}-p{s.p}", [])
        shares = {way: _covered(curves, way).mean(axis=0) for way in WAYS}
        for t in range(s.iters + 1):
            row: dict[str, Any] = {"loss": s.loss, "penalty": s.penalty, "iterate": t}
            row["reps"] = len(curves["truth"])
            table.append(row | {way: float(share[t]) for way, share in shares.items()})
    return [Exhibit(name, table, _draw) for name, table in tables.items()]


def _draw(table: Table) -> Figure:
    figure, axes, found = pair_panels(table, sharey=True)
    reps = table[0]["reps"]
    chance = 2 * np.sqrt(NOMINAL * (1 - NOMINAL) / reps)
    band = (NOMINAL - chance, min(1.0, NOMINAL + chance))
    label = f"{NOMINAL:.1%}, ± 2 s.e. of {reps} replications"
    for ax, rows in found:
        for way in WAYS:
            ax.plot(column(rows, "iterate"), column(rows, way), lw=1.3, **STYLES[way])
        ax.axhspan(*band, color=GREY, alpha=0.15, lw=0, label=label)
    for row in axes:
        row[0].set_ylabel("coverage", fontsize="small")
    label_iterations(axes)
    share_legend(figure, axes)
    return figure


def _summary(results: Results) -> Table:
    summary = []
    for s, curves in results.items():
        for way in WAYS:
            covered = _covered(curves, way)
            selected = np.argmin(curves[way], axis=1)[:, None]
            row: dict[str, Any] = {"pair": s.pair, "n": s.n, "p": s.p, "reps": len(covered)}
            share, spread = mean_and_error(covered.mean(axis=1))
            row |= {"estimate": PLAIN[way], "all iterates": float(share), "s.e.": float(spread)}
            row["last"] = float(covered[:, -1].mean())
            row["chosen"] = float(np.take_along_axis(covered, selected, axis=1).mean())
            summary.append(row)
    return summary


COVERAGE = Study(
    name="coverage",
    question="How often does the band of ± 2 standard errors cover the true risk?",
    plan=partial(all_pairs, ways=WAYS, noise=LIGHTER_NOISE),
    exhibits=_exhibits,
    summary=_summary,
    full=Sizes(reps=200, n=(500,), p=(250,), iters=200),
    quick=Sizes(reps=20, n=(150,), p=(75,), iters=60),
)
