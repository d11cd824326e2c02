"""Studies of models: choice (tuned models), margins (classifiers), intervals (coefficients)."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from steinpath._support.charts import BLACK, BLUE, GREY, ORANGE
from steinpath.study import _kinds as kinds
from steinpath.study import _tables as tab
from steinpath.study._base import Exhibit, Results, Row, Sizes, Study, Table, all_pairs
from steinpath.study._scenarios import CHOICE_SCENARIOS, SKEWED
from steinpath.study._settings import (
    LIGHTER_NOISE,
    MARGIN_LOSSES,
    Configuration,
    Curves,
    interval_times,
    pair_title,
)
from steinpath.study._tables import PLAIN, STYLES

if TYPE_CHECKING:
    from matplotlib.figure import Figure


# Choice: estimated and true error of tuned models, coverage of prediction intervals

#: Numbers of features by number of observations, for independent rows; for other n, p = n / 2 with
#: both losses.
SHAPES = {"lad": {100: 200, 120: 60, 300: 150, 1000: 500}, "square_root": {100: 50, 400: 200}}
#: Further noise distributions, for at most `MOST_ROWS` rows. Squares of Student's t₂ have no mean.
OTHER_NOISE = {"lad": (SKEWED, "t2"), "square_root": (SKEWED,)}
MOST_ROWS = 400

#: Display names.
LEFT_OUT = {"rows": "rows", "groups": "clusters", "time": "later rows"}
ESTIMATES = {"naive": "not adjusted for selection", "honest": "adjusted for selection"}


def _choice_plan(sizes: Sizes) -> list[Configuration]:
    def configuration(loss: str, n: int, p: int, rows: str, noise: str) -> Configuration:
        special = {"independent": ("rows",), "time series": ("rows", "time")}
        ways = special.get(rows, ("rows", "groups"))
        return Configuration(loss, "lasso", n, p, sizes.iters, ways, rows, noise)

    plan = []
    for n in sizes.n:
        known = {loss: shapes[n] for loss, shapes in SHAPES.items() if n in shapes}
        for loss, p in (known or dict.fromkeys(SHAPES, max(2, n // 2))).items():
            others = OTHER_NOISE[loss] if n <= MOST_ROWS else ()
            for noise in (LIGHTER_NOISE[loss], *others):
                plan.append(configuration(loss, n, p, "independent", noise))
    for n in sorted(sizes.n)[len(sizes.n) // 2 :][:1]:  # dependent rows: only the middle size
        for rows in CHOICE_SCENARIOS:
            if rows != "independent":
                for loss in SHAPES:
                    plan.append(configuration(loss, n, max(2, n // 5), rows, "normal"))
    return plan


def _choice_table(results: Results) -> Table:
    """Return a row for each configuration and each type of cross-validation."""
    table = []
    for s, columns in results.items():
        for way in s.ways:
            own = {name: values[:, 0] for name, values in tab.columns_under(columns, way).items()}
            truth = own["truth"]
            row: Row = {"data": s.rows, "noise": s.noise, **tab.labels_of(s, columns)}
            row |= {"left_out": way, "truth": float(truth.mean())}
            for name in ESTIMATES:
                error = own[name] - truth
                row |= tab.means({f"{name}_bias": 100 * error / truth.mean()})
                within = np.abs(error) <= 2 * own[f"{name}_stderr"]
                row[f"{name}_covers"] = float(within.mean())
            table.append(row | tab.means({"interval": own["covered"], "width": own["width"]}))
    return table


def _choice_summary(results: Results) -> Table:
    titles = {"left_out": "left out", "truth": "error"}
    for name in ESTIMATES:
        titles |= {f"{name}_bias": f"{name} bias, %", f"{name}_bias_se": f"{name} s.e."}
        titles[f"{name}_covers"] = f"{name} ± 2 s.e. covers"
    titles["interval"] = f"{kinds.PREDICTION_LEVEL:.0%} interval covers"
    titles |= {"interval_se": "its s.e.", "width": "width"}
    names = ("data", "noise", "pair", "n", "p", "reps")
    return tab.renamed(_choice_table(results), names, titles, left_out=LEFT_OUT)


def _draw_choice(table: Table) -> Figure:
    labels = []
    for row in table:
        about = f"{row['data']}, {LEFT_OUT[row['left_out']]} held out"
        about = row["noise"] if row["data"] == "independent" else about
        labels.append(f"{tab.size_label(row)}, {about}")
    styles = {"naive": {"color": ORANGE, "marker": "o"}, "honest": {"color": BLUE, "marker": "D"}}

    def series(measure: str) -> tab.Series:
        return [
            (table, f"{name}_{measure}", {**style, "label": ESTIMATES[name]})
            for name, style in styles.items()
        ]

    level = kinds.PREDICTION_LEVEL
    interval: tab.Series = [(table, "interval", {"color": BLACK, "marker": "s"})]
    bars: list[tab.Bars] = [
        ("bias of the estimated risk", series("bias"), "%", 0),
        ("coverage of ± 2 s.e.", series("covers"), "fraction of data sets", None),
        (f"coverage of {level:.0%} prediction intervals", interval, "fraction of new rows", level),
    ]
    figure, axes = tab.draw_bars(labels, bars, width=3.0)
    tab.nominal_band(axes[1].axvspan, table[0]["reps"])
    return tab.share_legend(figure, axes)


CHOICE = Study(
    name="choice",
    question="Is the estimated error of a tuned model unbiased, and do prediction intervals have "
    "nominal coverage? (independent rows, clusters, time series)",
    plan=_choice_plan,
    exhibits=lambda results: [Exhibit("choice", _choice_table(results), _draw_choice)],
    summary=_choice_summary,
    full=Sizes(reps=20, n=(100, 120, 300, 400, 1000), p=(), iters=0),
    quick=Sizes(reps=4, n=(100,), p=(), iters=0),
)


# Margins: estimated and true risk of classifiers along the path

#: Display names of scoring losses.
RISK_TITLES = {"zero_one": "error rate", "matched": "loss"}
CLASS_TITLES = {name: name.split()[0] for name in kinds.CLASSES}


def _margins_plan(sizes: Sizes) -> list[Configuration]:
    ways, noise = tuple(kinds.LABEL_WAYS), dict.fromkeys(MARGIN_LOSSES, "logistic")
    pairs = list(product(MARGIN_LOSSES, ("lasso", "ridge")))
    return all_pairs(sizes, ways, noise, tuple(kinds.CLASSES), pairs)


def _margins_table(results: Results) -> Table:
    """Return a row for each configuration, scoring loss and estimator, without iteration 0."""
    table = []
    for s, curves in results.items():
        for risk in kinds.RISKS:
            own = tab.columns_under(curves, risk)
            truth = own["truth"]
            for way in s.ways:
                error = own[way] - truth
                row: Row = {"classes": s.rows, **tab.labels_of(s, curves), "risk": risk}
                row |= {"way": way, "truth": float(truth[:, -1].mean())}
                row["train"] = float(own["train"][:, -1].mean())
                within = np.abs(error[:, 1:]) <= 2 * own[f"{way}_stderr"][:, 1:]
                # average over iterates first, because those of one path are dependent
                rms = np.sqrt(np.mean(error[:, 1:] ** 2, axis=1))
                columns = {"bias": error[:, -1], "rms": rms, "covers": within.mean(axis=1)}
                table.append(row | tab.means(columns))
    return table


def _margins_summary(results: Results) -> Table:
    names = ("classes", "pair", "n", "p", "reps", "risk", "truth")
    titles = {"train": "training", "way": "estimate", "bias": "bias at the end"}
    titles |= {"bias_se": "its s.e.", "rms": "rms", "covers": "± 2 s.e. covers"}
    titles["covers_se"] = "s.e. of that"
    values = {"classes": CLASS_TITLES, "risk": RISK_TITLES, "way": PLAIN}
    return tab.renamed(_margins_table(results), names, titles, **values)


def _margins_exhibits(results: Results) -> list[Exhibit]:
    def rows(s: Configuration, curves: Curves) -> Table:
        own = tab.columns_under(curves, "zero_one")
        return tab.mean_curves(s, own, ("truth", *s.ways, "train"))

    def name(s: Configuration) -> str:
        return f"margins-{CLASS_TITLES[s.rows]}"

    numbers = Exhibit("margins", _margins_table(results), _draw_margins)
    return [numbers, *tab.exhibits_by_size(name, results, rows, _draw_margin_curves)]


def _draw_margin_curves(table: Table) -> Figure:
    names = ("truth", *kinds.LABEL_WAYS, "train")
    return tab.draw_pairs(table, names, lambda _: "error rate", columns=3, sharey=True)


def _draw_margins(table: Table) -> Figure:
    """Draw root mean square errors of the estimates, and the coverage of their bands."""
    first = tab.select(table, risk=kinds.RISKS[0], way=table[0]["way"])
    labels = [f"{tab.size_label(row)}, {CLASS_TITLES[row['classes']]}" for row in first]

    def series(risk: str, measure: str) -> tab.Series:
        return [
            (tab.select(table, risk=risk, way=way), measure, {**STYLES[way], "marker": marker})
            for way, marker in zip(kinds.LABEL_WAYS, "osD", strict=True)
        ]

    bars: list[tab.Bars] = []
    for risk, title in RISK_TITLES.items():
        rms, covers = series(risk, "rms"), series(risk, "covers")
        bars.append((f"{title}, estimation error", rms, "root mean square", None))
        bars.append((f"{title}, coverage of ± 2 s.e.", covers, "share", None))
    figure, axes = tab.draw_bars(labels, bars, width=2.4)
    for ax in axes[::2]:
        ax.set_xlim(left=0)
    for ax in axes[1::2]:
        tab.nominal_band(ax.axvspan, table[0]["reps"], label=False)
        ax.set_xlim(max(0.0, ax.get_xlim()[0]), 1.03)
    return tab.share_legend(figure, axes)


MARGINS = Study(
    name="margins",
    question="Do the estimates track the true error rate and loss of classifiers along the path? "
    "(hinge, squared hinge, logistic; balanced and unbalanced classes)",
    plan=_margins_plan,
    exhibits=_margins_exhibits,
    summary=_margins_summary,
    full=Sizes(reps=50, n=(600,), p=(300, 900), iters=150),
    quick=Sizes(reps=4, n=(200,), p=(100,), iters=60),
)


# Intervals: coverage and width of confidence intervals for coefficients

#: Display names of scores, and styles of the coverage curves.
SCORE_TITLES = {"known": "covariance", "nodewise": "node-wise lasso"}
COVERAGE: dict[str, dict[str, Any]] = {
    "zero": {"label": "zero coefficients", "color": BLUE, "ls": "-"},
    "nonzero": {"label": "nonzero coefficients", "color": ORANGE, "ls": "--"},
}


def _intervals_plan(sizes: Sizes) -> list[Configuration]:
    known = all_pairs(sizes, ("known",), designs=("gaussian", "uniform"))
    # half as many rows, and p = n / 2
    smaller = {(max(20, n // 2), max(4, n // 4)) for n in sizes.n}
    shapes = [replace(sizes, n=(n,), p=(p,)) for n, p in sorted(smaller)]
    return known + [s for shape in shapes for s in all_pairs(shape, ("nodewise",))]


def _intervals_table(results: Results) -> Table:
    """Return a row for each configuration and type of scores."""
    table = []
    for s, columns in results.items():
        for way in s.ways:
            own, along = tab.columns_under(columns, way), slice(0, len(interval_times(s.iters)))
            shortest, by_risk, last = -2, -1, along.stop - 1
            row: Row = {"design": s.rows, **tab.labels_of(s, columns), "scores": way}
            row["iterate"] = float(np.median(own["iterate"][:, shortest]))
            row["iterate_by_risk"] = float(np.median(own["iterate"][:, by_risk]))
            row["warned"] = float(own["warned"][:, along].mean())
            for name in ("covers", *COVERAGE):
                covered = own[name]
                # average over iterates first, because those of one path are dependent
                row |= tab.means(
                    {
                        name: covered[:, along].mean(axis=1),
                        f"{name}_shortest": covered[:, shortest],
                        f"{name}_by_risk": covered[:, by_risk],
                    }
                )
                shares = covered[:, along].mean(axis=0)
                row[f"{name}_lowest"] = float(shares.min())
                row[f"{name}_highest"] = float(shares.max())
            widths = own["width"]
            row["width"] = float(widths[:, shortest].mean())
            for name, place in (("of_last", last), ("of_by_risk", by_risk)):
                row[f"width_{name}"] = float(np.median(widths[:, shortest] / widths[:, place]))
            discoveries = ("false", "power", "any_false")
            table.append(row | tab.means({name: own[name][:, shortest] for name in discoveries}))
    return table


def _intervals_summary(results: Results) -> Table:
    names = ("design", "scores", "pair", "n", "p", "reps", "covers", "nonzero")
    titles = {"covers_lowest": "lowest", "covers_highest": "highest", "iterate": "shortest"}
    titles |= {"covers_shortest": "covers there", "nonzero_shortest": "nonzero there"}
    titles |= {"width": "width", "width_of_last": "relative to last", "false": "FDR"}
    titles |= {"power": "power", "any_false": "FWER", "covers_by_risk": "smallest risk"}
    return tab.renamed(_intervals_table(results), names, titles, scores=SCORE_TITLES)


def _intervals_exhibits(results: Results) -> list[Exhibit]:
    def rows(s: Configuration, columns: Curves) -> Table:
        """Return coverage and widths at each iteration; widths relative to the last iteration."""
        own, times = tab.columns_under(columns, s.ways[0]), interval_times(s.iters)
        own["width"] = own["width"] / own["width"][:, len(times) - 1, None]
        return [
            {"loss": s.loss, "penalty": s.penalty, "iterate": t, "reps": len(own["covers"])}
            | tab.means({name: own[name][:, place] for name in (*COVERAGE, "width")})
            for place, t in enumerate(times)
        ]

    def name(s: Configuration) -> str:
        return f"intervals-{s.ways[0]}-{s.rows}"

    numbers = Exhibit("intervals", _intervals_table(results), _draw_intervals)
    return [numbers, *tab.exhibits_by_size(name, results, rows, _draw_interval_curves)]


def _draw_interval_curves(table: Table) -> Figure:
    """Draw coverage along the path, and the width of the intervals below."""
    losses, penalties = tab.distinct(table, "loss"), tab.distinct(table, "penalty")
    shape = (2 * len(losses), len(penalties))
    figure, axes = tab.panels(*shape, height=1.6, sharex=True, sharey="row")
    times = tab.distinct(table, "iterate")[::2]
    for k, loss in enumerate(losses):
        for j, penalty in enumerate(penalties):
            rows = tab.select(table, loss=loss, penalty=penalty)
            covers, width = axes[2 * k, j], axes[2 * k + 1, j]
            covers.set_title(pair_title(loss, penalty), fontsize="small")
            covers.axhline(kinds.COEFFICIENT_LEVEL, color=GREY, lw=1)
            for name, style in COVERAGE.items():
                tab.draw_curves(covers, rows, [name], **style)
            label = "width relative to last iteration"
            tab.draw_curves(width, rows, ["width"], color=GREY, label=label)
        axes[2 * k, 0].set_ylabel("coverage", fontsize="small")
        axes[2 * k + 1, 0].set_ylabel("width", fontsize="small")
        axes[2 * k + 1, 0].set_ylim(bottom=0)
    for ax in axes.flat:
        ax.set_xscale("log")
        ax.set_xticks(times, [str(t) for t in times])
        ax.minorticks_off()
    return tab.share_legend(figure, axes, xlabel="iteration")


def _draw_intervals(table: Table) -> Figure:
    """Draw coverage, widths and false discovery rate of each configuration."""
    scores = SCORE_TITLES | {"known": ""}
    labels = [f"{tab.size_label(r)}, {scores[r['scores']] or r['design']}" for r in table]
    level, rate = kinds.COEFFICIENT_LEVEL, kinds.FDR
    covers = [(table, f"{name}_shortest", {**own, "marker": "o"}) for name, own in COVERAGE.items()]
    width = [(table, "width_of_last", {"color": BLUE, "marker": "D"})]
    false = [(table, "false", {"color": BLUE, "marker": "s"})]
    bars: list[tab.Bars] = [
        (f"coverage of shortest {level:.0%} intervals", covers, "", level),
        ("width relative to last iteration", width, "", 1),
        (f"false discovery rate (nominal {rate:.0%})", false, "", rate),
    ]
    figure, axes = tab.draw_bars(labels, bars, width=3.2)
    axes[1].set_xlim(left=0)
    return tab.share_legend(figure, axes)


INTERVALS = Study(
    name="intervals",
    question="What are the coverage and width of confidence intervals for coefficients along the "
    "path? (covariance known or unknown, Gaussian and uniform features)",
    plan=_intervals_plan,
    exhibits=_intervals_exhibits,
    summary=_intervals_summary,
    full=Sizes(reps=20, n=(2000,), p=(1000, 2400), iters=300),
    quick=Sizes(reps=4, n=(400,), p=(200,), iters=60),
)
