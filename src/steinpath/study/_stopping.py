"""Study ``stopping``: regret of the iteration selected by each estimator."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from steinpath.study._base import Exhibit, Results, Sizes, Study, Table, all_pairs, mean_and_error
from steinpath.study._figures import PLAIN, STYLES, column, distinct, pair_panels, select
from steinpath.study._replicate import Curves

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WAYS = ("hat", "audited", "tilde", "five", "ten", "loo")
LAST = "last"  # no selection


def _regret(curves: Curves, way: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the relative excess risk of the selected iteration, and its number."""
    truth = curves["truth"]
    selected = np.full(len(truth), truth.shape[1] - 1)
    if way != LAST:
        selected = np.argmin(curves[way], axis=1)
    risk = np.take_along_axis(truth, selected[:, None], axis=1)[:, 0]
    return risk / truth.min(axis=1) - 1, selected


def _table(results: Results) -> Table:
    """Return a row for each replication and estimator."""
    table = []
    for s, curves in results.items():
        best = np.argmin(curves["truth"], axis=1)
        for way in (*WAYS, LAST):
            for r, (regret, selected) in enumerate(zip(*_regret(curves, way), strict=True)):
                row: dict[str, Any] = {"n": s.n, "p": s.p, "loss": s.loss, "penalty": s.penalty}
                row |= {"replication": r, "way": way, "regret": float(regret)}
                table.append(row | {"chosen": int(selected), "best": int(best[r])})
    return table


def _exhibits(results: Results) -> list[Exhibit]:
    table = _table(results)
    return [
        Exhibit(f"stopping-n{n}-p{p}", select(table, n=n, p=p), _draw)
        for n, p in distinct(table, "n", "p")
    ]


def _draw(table: Table) -> Figure:
    figure, axes, found = pair_panels(table, sharey="row")
    jitter = np.random.default_rng(0)
    for ax, rows in found:
        for k, way in enumerate(WAYS):  # without the last iteration, whose regret is much larger
            regret = 100 * column(select(rows, way=way), "regret")
            mean, error = mean_and_error(regret)
            colour = STYLES[way]["color"]
            place = k + jitter.uniform(-0.25, 0.25, len(regret))
            ax.plot(place, regret, "o", color=colour, ms=2.5, alpha=0.4, mew=0)
            ax.errorbar(k, mean, 2 * error, fmt="D", color=colour, ms=4, mec="black", mew=0.5)
        labels = [STYLES[way]["label"].removesuffix(", covariance known") for way in WAYS]
        ax.set_xticks(range(len(WAYS)), labels, rotation=60, ha="right")
    for row in axes:
        row[0].set_ylabel("regret, %", fontsize="small")
        row[0].set_ylim(bottom=0)
    return figure


def _summary(results: Results) -> Table:
    """Return mean regrets in percent."""
    summary = []
    for s, curves in results.items():
        row: dict[str, Any] = {"pair": s.pair, "n": s.n, "p": s.p, "reps": len(curves["truth"])}
        row["best iterate"] = float(np.median(np.argmin(curves["truth"], axis=1)))
        regrets = {way: 100 * _regret(curves, way)[0] for way in (*WAYS, LAST)}
        row |= {PLAIN.get(way, way): float(regret.mean()) for way, regret in regrets.items()}
        gain, spread = mean_and_error(regrets["hat"] - regrets["ten"])
        summary.append(row | {"R̂ − 10-fold": float(gain), "its s.e.": float(spread)})
    return summary


STOPPING = Study(
    name="stopping",
    question="What is the regret of the selected iteration? (compared with cross-validation and "
    "leave-one-out)",
    plan=partial(all_pairs, ways=WAYS),
    exhibits=_exhibits,
    summary=_summary,
    full=Sizes(reps=50, n=(400,), p=(200, 480), iters=200),
    quick=Sizes(reps=6, n=(200,), p=(100,), iters=100),
)
