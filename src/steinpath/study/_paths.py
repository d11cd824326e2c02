"""Studies of paths: risk, universality, rates, stopping, coverage, mis-specified and late."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from steinpath._support.charts import BLACK, BLUE, GREEN, GREY, ORANGE
from steinpath.study import _tables as tab
from steinpath.study._base import Exhibit, Results, Row, Sizes, Study, Table, all_pairs
from steinpath.study._settings import LIGHTER_NOISE, PAPER_NOISE, Configuration, Curves, pair_title
from steinpath.study._tables import PLAIN, STYLES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BOTH = ("tilde", "hat")
NAMES = ("truth", *BOTH)
FULL = Sizes(reps=100, n=(2000,), p=(1000, 2400), iters=300)
QUICK = Sizes(reps=8, n=(400,), p=(200, 480), iters=100)


def _start(config: Configuration, curves: Curves) -> Row:
    """Return the first columns of a summary."""
    reps = len(curves["truth"])
    return {"pair": config.pair, "n": config.n, "p": config.p, "reps": reps}


def _by_estimator(
    results: Results, ways: tuple[str, ...], statistics: Callable[[Curves, str], Row]
) -> Table:
    """Return a row for each configuration and estimator."""
    return [
        _start(s, curves) | {"estimate": PLAIN[way]} | statistics(curves, way)
        for s, curves in results.items()
        for way in ways
    ]


def _thinned(table: Table) -> Table:
    """Return at most 301 rows with both ends, which are enough for a figure."""
    return [table[t] for t in np.unique(np.linspace(0, len(table) - 1, 301).round().astype(int))]


# Risk


def _risk_label(loss: str) -> str:
    return f"{'absolute' if loss == 'lad' else 'squared'} risk"


def _risk_exhibits(results: Results) -> list[Exhibit]:
    def curves_of(s: Configuration, curves: Curves) -> Table:
        return tab.mean_curves(s, curves, (*NAMES, "train"))

    def errors_of(s: Configuration, curves: Curves) -> Table:
        errors = {way: tab.centered(curves[way] - curves["truth"]) for way in BOTH}
        return tab.mean_curves(s, errors, BOTH)

    return [
        *tab.exhibits_by_size("risk", results, curves_of, _draw_risk),
        *tab.exhibits_by_size("risk-errors", results, errors_of, _draw_errors),
    ]


def _draw_risk(table: Table) -> Figure:
    return tab.draw_pairs(table, NAMES, _risk_label)


def _draw_errors(table: Table) -> Figure:
    """Draw mean errors with ± 2 s.e. bands, which contain zero unless there is a bias."""

    def zero(ax: Axes) -> None:
        ax.axhline(0, color=BLACK, lw=1)

    return tab.draw_pairs(table, BOTH, lambda loss: f"{_risk_label(loss)}, error", zero)


def _risk_statistics(curves: Curves, way: str) -> Row:
    error = curves[way] - curves["truth"]
    # The loss of the zero prediction is common to all iterates, and its variance is infinite under
    # Student's t₂: subtract it.
    bias, spread = tab.mean_and_error(tab.centered(error))
    worst = int(np.argmax(np.abs(bias)))
    return {
        "within 2 s.e.": float(tab.inside(error).mean()),
        "centred": float(tab.inside(tab.centered(error))[1:].mean()),
        "worst bias": float(bias[worst]),
        "its s.e.": float(spread[worst]),
        "at": worst,
        "risk": float(curves["truth"][:, worst].mean()),
    }


RISK = Study(
    name="risk",
    question="Do both estimates track the true risk along the path? (the paper's Figures 1 and 3)",
    plan=partial(all_pairs, ways=BOTH),
    exhibits=_risk_exhibits,
    summary=partial(_by_estimator, ways=BOTH, statistics=_risk_statistics),
    full=FULL,
    quick=QUICK,
)


# Universality

DESIGNS = ("gaussian", "uniform")


def _both_designs(results: Results) -> list[tuple[Configuration, Curves, Curves]]:
    """Return configurations with their replications under both designs."""
    return [
        (s, curves, results[replace(s, rows="uniform")])
        for s, curves in results.items()
        if s.rows == "gaussian"
    ]


def _universality_exhibits(results: Results) -> list[Exhibit]:
    tables: dict[str, Table] = {}
    for s, *both in _both_designs(results):
        table = tables.setdefault(f"universality-{s.loss.replace('_', '-')}-n{s.n}-p{s.p}", [])
        for design, curves in zip(DESIGNS, both, strict=True):
            table += tab.mean_curves(s, curves, NAMES, design=design)
    return [Exhibit(name, table, _draw_universality) for name, table in tables.items()]


def _draw_universality(table: Table) -> Figure:
    titles = {"truth": "true risk $R$", "tilde": r"$\tilde R$", "hat": r"$\hat R$"}
    styles: dict[str, Any] = {
        "gaussian": {"label": "Gaussian design", "color": BLUE, "ls": "-", "lw": 1.3},
        "uniform": {"label": "uniform design", "color": ORANGE, "ls": "--", "lw": 1.3},
    }
    pairs = tab.distinct(table, "loss", "penalty")
    figure, axes = tab.panels(len(pairs), len(NAMES), sharey="row", sharex=True, height=1.9)
    for row, (loss, penalty) in zip(axes, pairs, strict=True):
        for ax, name in zip(row, NAMES, strict=True):
            for design, style in styles.items():
                rows = tab.select(table, loss=loss, penalty=penalty, design=design)
                tab.draw_curves(ax, rows, [name], **style)
        row[0].set_ylabel(pair_title(loss, penalty), fontsize="small")
    for ax, name in zip(axes[0], NAMES, strict=True):
        ax.set_title(titles[name], fontsize="small")
    return tab.share_legend(figure, axes, xlabel="iteration")


def _universality_summary(results: Results) -> Table:
    table = []
    for s, gaussian, uniform in _both_designs(results):
        for name in NAMES:
            (m1, e1), (m2, e2) = (tab.mean_and_error(own[name]) for own in (gaussian, uniform))
            overlap = (np.abs(m1 - m2) <= 2 * (e1 + e2))[1:]  # the risk at iteration 0 is constant
            row = _start(s, gaussian)
            row |= {"curve": PLAIN[name], "bands overlap": float(overlap.mean())}
            # replications share their noise, so paired differences are more precise
            paired = tab.inside(uniform[name] - gaussian[name])[1:]
            row["paired difference within 2 s.e."] = float(paired.mean())
            table.append(row | {"largest, %": 100 * float(np.max(np.abs(m1 - m2) / m1))})
    return table


UNIVERSALITY = Study(
    name="universality",
    question="Do a uniform and a Gaussian design give the same curves? (Figures 2 and 4–11)",
    plan=partial(all_pairs, ways=BOTH, designs=DESIGNS),
    exhibits=_universality_exhibits,
    summary=_universality_summary,
    full=FULL,
    quick=QUICK,
)


# Rates: decrease of the errors with n, for fixed p/n and number of iterations

#: Errors, each the difference of two columns.
ERRORS = {"tilde": ("tilde", "truth"), "hat": ("hat", "truth"), "gap": ("hat", "tilde")}

#: Errors whose slopes are fitted, with the exponents of the theorems. The gap between the estimates
#: is mostly Monte Carlo error, which by default is proportional to the sampling error, so its slope
#: is not informative.
THEOREMS = {"tilde": -0.5, "hat": -0.25}


def _rates_plan(sizes: Sizes) -> list[Configuration]:
    if len(sizes.n) < 2:
        raise ValueError("the study 'rates' requires at least two values of n")
    shapes = [replace(sizes, n=(n,), p=(n // 2,)) for n in sizes.n]
    pairs = list(product(PAPER_NOISE, ("ridge", "lasso")))
    return [s for shape in shapes for s in all_pairs(shape, BOTH, pairs=pairs)]


def _rates_table(results: Results) -> Table:
    """Return mean absolute errors over the replications, averaged over the iterates."""
    table = []
    for s, curves in results.items():
        # relative to the zero prediction, as in the paper's assumptions on the scoring loss
        columns = {name: tab.centered(values) for name, values in curves.items()}
        errors = {
            name: np.abs(columns[one] - columns[other])[:, 1:].mean(axis=1)
            for name, (one, other) in ERRORS.items()
        }
        table.append(tab.labels_of(s, curves) | tab.means(errors))
    return table


def slope(n: np.ndarray, error: np.ndarray, stderr: np.ndarray) -> tuple[float, float]:
    """Return the exponent of n by least squares on logarithms, and its standard error."""
    x = np.log(n) - np.log(n).mean()
    weights = x / (x @ x)
    return float(weights @ np.log(error)), float(np.linalg.norm(weights * stderr / error))


def _rates_summary(results: Results) -> Table:
    table, summary = _rates_table(results), []
    for loss, penalty in tab.distinct(table, "loss", "penalty"):
        rows = tab.select(table, loss=loss, penalty=penalty)
        n = tab.column(rows, "n")
        for name, theory in THEOREMS.items():
            one, other = ERRORS[name]
            exponent, error = slope(n, tab.column(rows, name), tab.column(rows, f"{name}_se"))
            row: Row = {"pair": pair_title(loss, penalty), "n": f"{n[0]}…{n[-1]}"}
            row |= {"reps": rows[0]["reps"], "error": f"|{PLAIN[one]} − {PLAIN[other]}|"}
            summary.append(row | {"slope": exponent, "s.e.": error, "theorem": theory})
    return summary


def _draw_rates(table: Table) -> Figure:
    pairs = tab.distinct(table, "loss", "penalty")
    gap = r"$|\hat R - \tilde R|$, including Monte Carlo error"
    styles: dict[str, Any] = {
        "tilde": {"label": r"$|\tilde R - R|$", "marker": "o", "color": BLUE},
        "hat": {"label": r"$|\hat R - R|$", "marker": "s", "color": ORANGE},
        "gap": {"label": gap, "marker": "^", "color": GREEN},
    }
    figure, axes = tab.panels(1, len(pairs), height=3.0, sharey=True)
    for ax, (loss, penalty) in zip(axes[0], pairs, strict=True):
        rows = tab.select(table, loss=loss, penalty=penalty)
        n = tab.column(rows, "n")
        for k, (name, style) in enumerate(styles.items()):
            error, spread = tab.column(rows, name), tab.column(rows, f"{name}_se")
            shifted = n * 1.06 ** (k - 1)  # avoids overlap
            ax.errorbar(shifted, error, 2 * spread, ls="none", ms=4, **style)
            if name not in THEOREMS:
                continue
            exponent, uncertain = slope(n, error, spread)
            fit = np.exp(np.log(error).mean()) * (n / np.exp(np.log(n).mean())) ** exponent
            ax.plot(shifted, fit, color=style["color"], lw=1)
            text = f"{style['label']}: {exponent:.2f}, s.e. {uncertain:.2f}".replace("-0", "−0")
            place = {"x": 0.04, "y": 0.105 - 0.065 * k, "transform": ax.transAxes}
            ax.text(s=text, fontsize="x-small", color=style["color"], **place)
        start = 1.8 * tab.column(rows, "tilde")[0]
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
    return tab.share_legend(figure, axes)


RATES = Study(
    name="rates",
    question="How fast do the errors decrease with n? (theorems: n^(-1/2) and n^(-1/4))",
    plan=_rates_plan,
    exhibits=lambda results: [Exhibit("rates", _rates_table(results), _draw_rates)],
    summary=_rates_summary,
    full=Sizes(reps=100, n=(250, 500, 1000, 2000, 4000, 8000), p=(), iters=30),
    quick=Sizes(reps=12, n=(100, 200, 400, 800), p=(), iters=20),
)


# Stopping: regret of the iteration selected by each estimator

SELECTING = ("hat", "audited", "tilde", "five", "ten", "loo")
LAST = "last"  # no selection


def _regret(curves: Curves, way: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the relative excess risk of the selected iteration, and its number."""
    truth = curves["truth"]
    selected = np.full(len(truth), truth.shape[1] - 1)
    if way != LAST:
        selected = np.argmin(curves[way], axis=1)
    risk = np.take_along_axis(truth, selected[:, None], axis=1)[:, 0]
    return risk / truth.min(axis=1) - 1, selected


def _regrets(s: Configuration, curves: Curves) -> Table:
    """Return a row for each replication and estimator."""
    table, best = [], np.argmin(curves["truth"], axis=1)
    for way in (*SELECTING, LAST):
        for r, (regret, selected) in enumerate(zip(*_regret(curves, way), strict=True)):
            row: Row = {"n": s.n, "p": s.p, "loss": s.loss, "penalty": s.penalty}
            row |= {"replication": r, "way": way, "regret": float(regret)}
            table.append(row | {"chosen": int(selected), "best": int(best[r])})
    return table


def _draw_stopping(table: Table) -> Figure:
    jitter = np.random.default_rng(0)

    def draw(ax: Axes, rows: Table) -> None:
        # without the last iteration, whose regret is much larger
        for k, way in enumerate(SELECTING):
            regret = 100 * tab.column(tab.select(rows, way=way), "regret")
            mean, error = tab.mean_and_error(regret)
            colour = STYLES[way]["color"]
            place = k + jitter.uniform(-0.25, 0.25, len(regret))
            ax.plot(place, regret, "o", color=colour, ms=2.5, alpha=0.4, mew=0)
            ax.errorbar(k, mean, 2 * error, fmt="D", color=colour, ms=4, mec="black", mew=0.5)
        labels = [STYLES[way]["label"].removesuffix(", covariance known") for way in SELECTING]
        ax.set_xticks(range(len(SELECTING)), labels, rotation=60, ha="right")
        ax.set_ylim(bottom=0)

    return tab.pair_panels(table, draw, lambda _: "regret, %", sharey="row")[0]


def _stopping_summary(results: Results) -> Table:
    """Return mean regrets in percent."""
    summary = []
    for s, curves in results.items():
        row = _start(s, curves)
        row["best iterate"] = float(np.median(np.argmin(curves["truth"], axis=1)))
        regrets = {way: 100 * _regret(curves, way)[0] for way in (*SELECTING, LAST)}
        row |= {PLAIN.get(way, way): float(regret.mean()) for way, regret in regrets.items()}
        gain, spread = tab.mean_and_error(regrets["hat"] - regrets["ten"])
        summary.append(row | {"R̂ − 10-fold": float(gain), "its s.e.": float(spread)})
    return summary


STOPPING = Study(
    name="stopping",
    question="What is the regret of the selected iteration? (compared with cross-validation and "
    "leave-one-out)",
    plan=partial(all_pairs, ways=SELECTING),
    exhibits=partial(tab.exhibits_by_size, "stopping", rows=_regrets, draw=_draw_stopping),
    summary=_stopping_summary,
    full=Sizes(reps=50, n=(400,), p=(200, 480), iters=200),
    quick=Sizes(reps=6, n=(200,), p=(100,), iters=100),
)


# Coverage: how often the band of two standard errors covers the true risk

COVERING = ("tilde", "hat", "audited")


def _covered(curves: Curves, way: str) -> np.ndarray:
    error = np.abs(curves[way] - curves["truth"])
    return np.asarray(error <= 2 * curves[f"{way}_stderr"])


def _coverage_curves(s: Configuration, curves: Curves) -> Table:
    shares = {way: _covered(curves, way).mean(axis=0) for way in COVERING}
    return [
        {"loss": s.loss, "penalty": s.penalty, "iterate": t, "reps": len(curves["truth"])}
        | {way: float(share[t]) for way, share in shares.items()}
        for t in range(s.iters + 1)
    ]


def _draw_coverage(table: Table) -> Figure:
    def band(ax: Axes) -> None:
        tab.nominal_band(ax.axhspan, table[0]["reps"])

    return tab.draw_pairs(table, COVERING, lambda _: "coverage", band, sharey=True)


def _coverage_statistics(curves: Curves, way: str) -> Row:
    covered = _covered(curves, way)
    selected = np.argmin(curves[way], axis=1)[:, None]
    share, spread = tab.mean_and_error(covered.mean(axis=1))
    return {
        "all iterates": float(share),
        "s.e.": float(spread),
        "last": float(covered[:, -1].mean()),
        "chosen": float(np.take_along_axis(covered, selected, axis=1).mean()),
    }


COVERAGE = Study(
    name="coverage",
    question="How often does the band of ± 2 standard errors cover the true risk?",
    plan=partial(all_pairs, ways=COVERING, noise=LIGHTER_NOISE),
    exhibits=partial(tab.exhibits_by_size, "coverage", rows=_coverage_curves, draw=_draw_coverage),
    summary=partial(_by_estimator, ways=COVERING, statistics=_coverage_statistics),
    full=Sizes(reps=200, n=(500,), p=(250,), iters=200),
    quick=Sizes(reps=20, n=(150,), p=(75,), iters=60),
)


# Mis-specified: the estimates when assumptions of the theory are violated

ROBUST = ("hat", "scaled", "safe")
DATA = (
    "gaussian",
    "elliptical",
    "heavy-tailed features",
    "correlated noise",
    "time series",
    "near-duplicate rows",
    "few rows",
)


def _misspecified_plan(sizes: Sizes) -> list[Configuration]:
    if (len(sizes.n), len(sizes.p)) != (1, 1):
        raise ValueError("the study 'mis-specified' requires exactly one n and one p")
    n, p = max(20, sizes.n[0] // 10), max(2, sizes.p[0] // 10)
    few = replace(sizes, n=(n,), p=(p,), iters=5 * sizes.iters)
    normal = dict.fromkeys(LIGHTER_NOISE, "normal")
    noise = dict.fromkeys(("correlated noise", "time series"), normal)
    pairs = (("lad", "lasso"), ("square_root", "ridge"))
    return [
        s
        for data in DATA
        for size in [few if data == "few rows" else sizes]
        for s in all_pairs(size, ROBUST, noise.get(data, LIGHTER_NOISE), [data], pairs)
    ]


def _misspecified_exhibits(results: Results) -> list[Exhibit]:
    table: Table = []
    for s, curves in results.items():
        warned = float(curves["safe_warned"][:, 0].mean())
        rows = tab.mean_curves(s, curves, ("truth", *ROBUST), n=s.n, p=s.p, warned=warned)
        table += [{"data": s.rows} | row for row in _thinned(rows)]
    return [Exhibit("mis-specified", table, _draw_misspecified)]


def _draw_misspecified(table: Table) -> Figure:
    pairs, kinds = tab.distinct(table, "loss", "penalty"), tab.distinct(table, "data")
    figure, axes = tab.panels(len(kinds), len(pairs), width=4.2, height=1.8)
    for row, kind in zip(axes, kinds, strict=True):
        for ax, (loss, penalty) in zip(row, pairs, strict=True):
            rows = tab.select(table, loss=loss, penalty=penalty, data=kind)
            tab.draw_curves(ax, rows, ("truth", *ROBUST))
            tab.around(ax, rows, ("truth", *ROBUST))
            size = f"n={rows[0]['n']}, p={rows[0]['p']}"
            ax.set_title(f"{kind}, {size}: {rows[0]['warned']:.0%} warn", fontsize="small")
            ax.set_ylabel(pair_title(loss, penalty), fontsize="small")
    return tab.share_legend(figure, axes, columns=4, xlabel="iteration")


def _misspecified_statistics(curves: Curves, way: str) -> Row:
    truth, warned = curves["truth"][:, -1], curves.get(f"{way}_warned")
    bias, spread = tab.mean_and_error(100 * (curves[way][:, -1] - truth) / truth.mean())
    return {
        "bias at the end, %": float(bias),
        "its s.e.": float(spread),
        "± 2 s.e. covers": float(_covered(curves, way)[:, 1:].mean()),
        "warned": "" if warned is None else float(warned[:, 0].mean()),
    }


def _misspecified_summary(results: Results) -> Table:
    data = [s.rows for s in results for _ in ROBUST]
    rows = _by_estimator(results, ROBUST, _misspecified_statistics)
    return [{"data": name} | row for name, row in zip(data, rows, strict=True)]


MISSPECIFIED = Study(
    name="mis-specified",
    question="When does the estimate fail, and do the diagnostics warn? (elliptical rows, "
    "heavy-tailed features, correlated noise, time series, near-duplicate rows, few rows)",
    plan=_misspecified_plan,
    exhibits=_misspecified_exhibits,
    summary=_misspecified_summary,
    full=Sizes(reps=100, n=(500,), p=(250,), iters=200),
    quick=Sizes(reps=6, n=(200,), p=(100,), iters=60),
)


# Late: the estimates past the minimum

CHECKED = ("unaudited", "audited", "folds")


def _late_plan(sizes: Sizes) -> list[Configuration]:
    pairs = [*product(["lad"], ("ridge", "lasso", "mcp"))]
    pairs += product(["square_root"], ("ridge", "lasso"))
    shapes = [replace(sizes, n=(n,), p=(n // 5, n // 2, 2 * n)) for n in sizes.n]
    return [s for shape in shapes for s in all_pairs(shape, CHECKED, LIGHTER_NOISE, pairs=pairs)]


def _late_exhibits(results: Results) -> list[Exhibit]:
    tables: dict[str, Table] = {}
    for s, curves in results.items():
        twice = int(2 * np.median(np.argmin(curves["truth"], axis=1)))
        rows = tab.mean_curves(s, curves, ("truth", *CHECKED), n=s.n, p=s.p, twice_best=twice)
        tables.setdefault(f"late-n{s.n}", []).extend(_thinned(rows))
    return [Exhibit(name, table, _draw_late) for name, table in tables.items()]


def _draw_late(table: Table) -> Figure:
    pairs, shapes = tab.distinct(table, "loss", "penalty"), tab.distinct(table, "n", "p")
    figure, axes = tab.panels(len(pairs), len(shapes), width=3.2, height=1.9)
    line = {"color": GREY, "lw": 1, "label": "twice the best iterate (median)"}
    for row, (loss, penalty) in zip(axes, pairs, strict=True):
        for ax, (n, p) in zip(row, shapes, strict=True):
            rows = tab.select(table, loss=loss, penalty=penalty, n=n, p=p)
            tab.draw_curves(ax, rows, ("truth", *CHECKED))
            tab.around(ax, rows, ("truth", *CHECKED))
            if rows[0]["twice_best"] <= rows[-1]["iterate"]:
                ax.axvline(rows[0]["twice_best"], **line)
            ax.set_title(f"n={n}, p={p}", fontsize="small")
        row[0].set_ylabel(pair_title(loss, penalty), fontsize="small")
    return tab.share_legend(figure, axes, xlabel="iteration")


def _late_statistics(curves: Curves, way: str) -> Row:
    truth, error = curves["truth"], curves[way] - curves["truth"]
    late = np.arange(truth.shape[1]) > 2 * np.argmin(truth, axis=1)[:, None]
    off = late & (np.abs(error) > 3 * curves[f"{way}_stderr"])
    bias, spread = tab.mean_and_error(100 * error[:, -1] / truth[:, -1].mean())
    covered, warned = _covered(curves, way), curves.get(f"{way}_warned")
    row: Row = {
        "late iterates off by 3 s.e.": float(off.sum() / max(late.sum(), 1)),
        "error at the end, %": float(bias),
        "its s.e.": float(spread),
        "± 2 s.e. covers the last": float(covered[:, -1].mean()),
        "all": float(covered.mean()),
    }
    if warned is None:
        return row | {"warned": "", "off, not warned": ""}
    silent = off.any(axis=1) & (warned[:, 0] == 0)
    return row | {"warned": float(warned[:, 0].mean()), "off, not warned": float(silent.mean())}


LATE = Study(
    name="late",
    question="Is the estimate right past the minimum, and does its standard error say so?",
    plan=_late_plan,
    exhibits=_late_exhibits,
    summary=partial(_by_estimator, ways=CHECKED, statistics=_late_statistics),
    full=Sizes(reps=50, n=(200, 500, 2000), p=(), iters=600),
    quick=Sizes(reps=4, n=(100,), p=(), iters=60),
)
