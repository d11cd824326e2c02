"""Studies ``risk`` and ``universality``: the paper's figures."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from steinpath._support.charts import BLACK, BLUE, ORANGE
from steinpath.study._base import (
    Exhibit,
    Results,
    Sizes,
    Study,
    Table,
    all_pairs,
    centered,
    inside,
    mean_and_error,
)
from steinpath.study._figures import (
    PLAIN,
    distinct,
    draw_curve,
    label_iterations,
    pair_panels,
    panels,
    select,
    share_legend,
)
from steinpath.study._replicate import Curves
from steinpath.study._settings import Configuration, pair_title

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WAYS = ("tilde", "hat")
NAMES = ("truth", *WAYS)
FULL = Sizes(reps=100, n=(2000,), p=(1000, 2400), iters=300)
QUICK = Sizes(reps=8, n=(400,), p=(200, 480), iters=100)


def _sizes(results: Results) -> list[tuple[int, int]]:
    return list(dict.fromkeys((config.n, config.p) for config in results))


def mean_curves(curves: Curves, names: tuple[str, ...], **labels: Any) -> Table:
    """Return rows with the mean over replications of each iterate's risks, and its s.e."""
    means = {name: mean_and_error(curves[name]) for name in names}
    return [
        labels
        | {"iterate": t}
        | {name: float(mean[t]) for name, (mean, _) in means.items()}
        | {f"{name}_se": float(error[t]) for name, (_, error) in means.items()}
        for t in range(curves[names[0]].shape[1])
    ]


# ------------------------------------------------------------------------------------------------
# Risk
# ------------------------------------------------------------------------------------------------


def _risk_exhibits(results: Results) -> list[Exhibit]:
    exhibits = []
    for n, p in _sizes(results):
        rows, errors = [], []
        for s, curves in results.items():
            if (s.n, s.p) != (n, p):
                continue
            pair = {"loss": s.loss, "penalty": s.penalty}
            rows += mean_curves(curves, (*NAMES, "train"), **pair)
            away = {way: centered(curves[way] - curves["truth"]) for way in WAYS}
            errors += mean_curves(away, WAYS, **pair)
        exhibits.append(Exhibit(f"risk-n{n}-p{p}", rows, partial(_draw_pairs, names=NAMES)))
        exhibits.append(Exhibit(f"risk-errors-n{n}-p{p}", errors, _draw_errors))
    return exhibits


def _draw_pairs(table: Table, names: tuple[str, ...]) -> Figure:
    figure, axes, found = pair_panels(table)
    for ax, rows in found:
        for name in names:
            draw_curve(ax, rows, name)
    for row, loss in zip(axes, distinct(table, "loss"), strict=True):
        row[0].set_ylabel("absolute risk" if loss == "lad" else "squared risk", fontsize="small")
    label_iterations(axes)
    share_legend(figure, axes)
    return figure


def _draw_errors(table: Table) -> Figure:
    """Draw mean errors with ± 2 s.e. bands, which contain zero unless there is a bias."""
    figure = _draw_pairs(table, WAYS)
    for ax in figure.axes:
        ax.axhline(0, color=BLACK, lw=1)
        ax.set_ylabel(ax.get_ylabel().replace("risk", "risk, error"), fontsize="small")
    return figure


def _risk_summary(results: Results) -> Table:
    table = []
    for s, curves in results.items():
        for way in WAYS:
            error = curves[way] - curves["truth"]
            # The loss of the zero prediction is common to all iterates, and its variance is
            # infinite under Student's t₂: subtract it.
            bias, spread = mean_and_error(centered(error))
            worst = int(np.argmax(np.abs(bias)))
            row: dict[str, Any] = {"pair": s.pair, "n": s.n, "p": s.p, "reps": len(error)}
            row |= {"estimate": PLAIN[way], "within 2 s.e.": float(inside(error).mean())}
            row["centred"] = float(inside(centered(error))[1:].mean())
            row |= {"worst bias": float(bias[worst]), "its s.e.": float(spread[worst])}
            table.append(row | {"at": worst, "risk": float(curves["truth"][:, worst].mean())})
    return table


RISK = Study(
    name="risk",
    question="Do both estimates track the true risk along the path? (the paper's Figures 1 and 3)",
    plan=partial(all_pairs, ways=WAYS),
    exhibits=_risk_exhibits,
    summary=_risk_summary,
    full=FULL,
    quick=QUICK,
)


# ------------------------------------------------------------------------------------------------
# Universality
# ------------------------------------------------------------------------------------------------

DESIGNS = ("gaussian", "uniform")


def _both_designs(results: Results) -> list[tuple[Configuration, Curves, Curves]]:
    """Return configurations with their replications under both designs."""
    by_design: dict[str, dict[tuple[Any, ...], Curves]] = {design: {} for design in DESIGNS}
    first: dict[tuple[Any, ...], Configuration] = {}
    for s, curves in results.items():
        place = (s.n, s.p, s.loss, s.penalty)
        first.setdefault(place, s)
        by_design[s.rows][place] = curves
    gaussian, uniform = (by_design[design] for design in DESIGNS)
    return [(first[k], gaussian[k], uniform[k]) for k in gaussian if k in uniform]


def _universality_exhibits(results: Results) -> list[Exhibit]:
    tables: dict[str, Table] = {}
    for s, *both in _both_designs(results):
        table = tables.setdefault(f"universality-{s.loss.replace('_', '-')}-n{s.n}-p{s.p}", [])
        for design, curves in zip(DESIGNS, both, strict=True):
            table += mean_curves(curves, NAMES, loss=s.loss, penalty=s.penalty, design=design)
    return [Exhibit(name, table, _draw_universality) for name, table in tables.items()]


def _draw_universality(table: Table) -> Figure:
    titles = {"truth": "true risk $R$", "tilde": r"$\tilde R$", "hat": r"$\hat R$"}
    styles: dict[str, Any] = {
        "gaussian": {"label": "Gaussian design", "color": BLUE, "ls": "-", "lw": 1.3},
        "uniform": {"label": "uniform design", "color": ORANGE, "ls": "--", "lw": 1.3},
    }
    pairs = distinct(table, "loss", "penalty")
    figure, axes = panels(len(pairs), len(NAMES), sharey="row", sharex=True, height=1.9)
    for row, (loss, penalty) in zip(axes, pairs, strict=True):
        for ax, name in zip(row, NAMES, strict=True):
            for design, style in styles.items():
                draw_curve(
                    ax, select(table, loss=loss, penalty=penalty, design=design), name, **style
                )
        row[0].set_ylabel(pair_title(loss, penalty), fontsize="small")
    for ax, name in zip(axes[0], NAMES, strict=True):
        ax.set_title(titles[name], fontsize="small")
    label_iterations(axes)
    share_legend(figure, axes)
    return figure


def _universality_summary(results: Results) -> Table:
    table = []
    for s, gaussian, uniform in _both_designs(results):
        for name in NAMES:
            (m1, e1), (m2, e2) = mean_and_error(gaussian[name]), mean_and_error(uniform[name])
            reps = len(gaussian[name])
            row: dict[str, Any] = {"pair": s.pair, "n": s.n, "p": s.p, "reps": reps}
            overlap = (np.abs(m1 - m2) <= 2 * (e1 + e2))[1:]  # the risk at iteration 0 is constant
            row |= {"curve": PLAIN[name], "bands overlap": float(overlap.mean())}
            # replications share their noise, so paired differences are more precise
            paired = inside(uniform[name] - gaussian[name])[1:]
            row["paired difference within 2 s.e."] = float(paired.mean())
            row["largest, %"] = 100 * float(np.max(np.abs(m1 - m2) / m1))
            table.append(row)
    return table


UNIVERSALITY = Study(
    name="universality",
    question="Do a uniform and a Gaussian design give the same curves? (Figures 2 and 4–11)",
    plan=partial(all_pairs, ways=WAYS, designs=DESIGNS),
    exhibits=_universality_exhibits,
    summary=_universality_summary,
    full=FULL,
    quick=QUICK,
)
