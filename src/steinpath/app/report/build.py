"""The report of a fitted model: its content as plain data, and its HTML page.

The content security policy admits only the page's own style and script, by their hashes, so that
the page cannot load or send anything. jinja2 is imported when a page is rendered.
"""

from __future__ import annotations

import base64
import hashlib
import math
import os
import platform
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.interpolate import interp1d

from steinpath._support.arrays import to_numpy
from steinpath._support.charts import BLUE, ORANGE, SKY
from steinpath._support.files import write_text
from steinpath._support.messages import Remedy, worded
from steinpath._support.printing import number, places_of, to_digits_of, with_error
from steinpath.app import FDR, LEVEL
from steinpath.app.fitted import FitIntervals, Fitted, Ranked, count_shown, fit_intervals
from steinpath.app.models import installed_version
from steinpath.design._dense import DenseDesign
from steinpath.design._transformed import InterceptDesign
from steinpath.estimators._columns import Column
from steinpath.estimators._scores import ERROR_RATE, OF_CLASSES, SCORES
from steinpath.plots import (
    QUANTILES,
    contribution,
    held_out,
    largest_levels,
    largest_sizes,
    reliability,
    roc_curve,
    shorten,
)
from steinpath.problem._margins import class_probabilities

if TYPE_CHECKING:
    import jinja2

# What a page can show, and a browser can redraw quickly.
_MOST_ITERATES, _MOST_CURVES, _MOST_ROWS, _MOST_COEFFICIENTS = 400, 20, 2000, 1000
_MOST_POINTS = 400  # of the curve of a class
# Curves of columns; points of each side of a heat map, share of it within the range of colours, and
# the smallest share of that range that is shown.
_MOST_COLUMNS, _CELLS, _INSIDE, _VISIBLE = 12, 36, 0.98, 0.05
# Levels of prediction intervals whose average width is reported.
_LEVELS = 0.5, 0.8, 0.9, 0.95

# Prediction intervals in Python, of an estimator and of a pipeline.
_PREDICT = (
    "model.predict_interval(X_new, level=0.9)",
    "model[-1].predict_interval(model[:-1].transform(X_new), level=0.9)",
)
# How the estimate is adjusted for the selection of alpha and iteration; see `ChosenRisk.method`.
_ADJUSTED_BY = {"nested": "nested folds", "bootstrap": "bootstrap"}
_FIXED = "not needed: nothing was selected"
# Bars in the panel beside the risk curve; confidence intervals drawn; ticks of their axis.
_BARS, _DRAWN, _TICKS = 8, 40, 4
# How much larger corrected residuals have to be, on average, to be visibly larger.
_LARGER = 1.05
# One script in five files: the others only define what the last one runs.
_SCRIPTS = "drawing.js", "charts.js", "classes.js", "columns.js", "page.js"
# Parts of a name, between which a line may end; the script has the same.
_PARTS = re.compile(r"[^_=./:-]*[_=./:-]|[^_=./:-]+")
# Fields of the charts that the script takes.
_FIELDS = """alphas iterates risk stderr train nonzeros chosen coefficients coefficient_names raw
corrected actual predicted quantiles test_loss left_out_rows curves surfaces limit"""


@dataclass(frozen=True, eq=False)
class Result:
    """A fitted model, and what is reported beside it."""

    fitted: Fitted
    target: str = "the response"
    #: Name of the data; and the command, or lines of Python, that produce the same report.
    source: str = ""
    command: str = ""
    notes: Sequence[str] = ()
    ranking: Sequence[Ranked] = ()
    #: The score by which classifiers are ranked.
    score: str | None = None
    intervals: FitIntervals | None = None
    #: How each column is used (`ColumnSummary`), as far as listed.
    columns: Sequence[Any] = ()
    n_columns: int = 0
    #: Lines of Python for prediction intervals; the command by default.
    predict: str = ""
    #: Words remedies.
    remedy: Callable[[Remedy], str] = str
    interrupted: bool = False


def build_content(result: Result) -> SimpleNamespace:
    """Return the content of a report: a result, and what is derived from it."""
    fitted, remedy = result.fitted, result.remedy
    names, coef, effects, intercept = fitted.coefficients()
    nonzeros = int(np.count_nonzero(coef))
    listed = np.argsort(-np.abs(effects), kind="stable")[: min(nonzeros, _MOST_COEFFICIENTS)]
    checks = fitted.risk.diagnostics
    return SimpleNamespace(
        **vars(result),
        title=f"Predicting {result.target}" + f" from {result.source}" * bool(result.source),
        ranked_by=fitted.words_of(result.score),
        verdict=" ".join(_sentences("verdict", fitted)),
        model=" ".join(_sentences("model", fitted, "n_iter" if remedy is str else "--n-iter")),
        facts=facts(fitted),
        warnings=[worded(text, remedy) for text in fitted.estimator.warnings_],
        assumptions=_sentences("assumptions", fitted, *map(remedy, map(Remedy, ("groups", "cv")))),
        checks=[replace(check, message=worded(check.message, remedy)) for check in checks],
        intercept=intercept,
        # names, per unit, per s.d.: nonzero ones, the largest effect first; some of very many
        coefficients=[(names[j], float(coef[j]), float(effects[j])) for j in listed],
        levels=fitted.levels,
        compared=" ".join(_sentences("compared_terms", fitted)),
        importance=_importance(fitted),
        unlisted_curves=max(len(fitted.curves) - _MOST_COLUMNS, 0),
        log_target=fitted.log_target,
        charts=build_charts(fitted),
        provenance=(
            ("steinpath", installed_version()),
            *((name, version(name)) for name in ("numpy", "scipy", "scikit-learn")),
            ("python", platform.python_version()),
            ("seed", str(fitted.main.random_state)),
            ("risk estimation method", fitted.risk.method),
            ("adjustment for selection", _ADJUSTED_BY.get(fitted.tuning.chosen.method, _FIXED)),
        ),
        unlisted_columns=max(result.n_columns - len(result.columns), 0),
        unlisted_coefficients=nonzeros - len(listed),
        widths=_interval_widths(fitted),
        caption=fitted.caption[:1].upper() + fitted.caption[1:],
    )


def _sentences(name: str, *known: Any) -> list[str]:
    """Return the paragraphs of a macro in ``sentences.txt``, each on one line."""
    text = getattr(_template("sentences.txt").module, name)(*known)
    return [" ".join(paragraph.split()) for paragraph in text.split("\n\n") if paragraph.strip()]


def _percentage(percent: float) -> str:
    text = f"{percent:.{int(abs(percent) < 10)}f}%"
    return "0%" if text.strip("-") == "0.0%" else text


def _interval_widths(fitted: Fitted) -> tuple[tuple[float, float], ...] | None:
    """Return the average width of prediction intervals; None if the model has none."""
    if fitted.classes:
        return None
    design = fitted.tuning.path.data.design
    features = design.inner if isinstance(design, InterceptDesign) else design
    if not isinstance(features, DenseDesign):  # its rows are not in memory
        return ()
    rows, found = to_numpy(features.example)[_some_rows(features.shape[0])], []
    for level in _LEVELS:
        with suppress(ValueError):  # too few residuals for the level
            ends = fitted.tuning.intervals.interval(rows, level)
            low, high = fitted.main._untransformed(ends).T
            found.append((level, float(np.mean(high - low))))
    return tuple(found)


def facts(fitted: Fitted) -> tuple[tuple[str, str], ...]:
    """Return the key figures."""
    main, (n, p) = fitted.main, fitted.shape
    found = (_facts_of_classes if fitted.classes else _facts_of_numbers)(fitted)
    if not fitted.several:
        found.append(("selected iteration", f"{main.best_iter_} of {main.n_iter_}"))
        if fitted.penalised:
            selected = main.best_params_.items()
            found += [(f"selected {name}", number(value, 3)) for name, value in selected]
    what = "features used" if fitted.several else "nonzero coefficients"
    return (*found, (what, f"{fitted.nonzeros} of {p}"), ("rows", f"{n:,}"))


def _facts_of_numbers(fitted: Fitted) -> list[tuple[str, str]]:
    (risk, stderr), main = fitted.estimate, fitted.main
    found = [(f"expected {fitted.scored_by}", with_error(risk, stderr))]
    squared = getattr(fitted.risk.criterion, "quadratic", False)
    if squared:
        root = to_digits_of(math.sqrt(max(risk, 0.0)), math.sqrt(stderr))
        found.append(("root mean squared error", root))
    # an absolute error has the digits of the risk if that is one, but at least its own first three
    digits = math.inf if squared else min(stderr, main.median_error_ / 10)
    found.append(("median absolute error", to_digits_of(main.median_error_, digits)))
    found.append(("training error", to_digits_of(main.train_risk_, stderr)))
    if hasattr(main, "constant_risk_"):
        constant = main.constant_risk_
        constant = to_digits_of(constant, max(stderr, constant / 1000))
        found.append(("error of a constant prediction", constant))
    if math.isfinite(percent := fitted.improvement):
        found.append(("improvement over a constant", _percentage(percent)))
    return found


def _facts_of_classes(fitted: Fitted) -> list[tuple[str, str]]:
    found, estimator = [], fitted.estimator
    without = {"zero_one": "majority class", "log": "class frequencies"}
    for name, score in estimator.scores_.items():
        words = SCORES[name]
        if not fitted.several and name == fitted.main.test_loss_ != ERROR_RATE:
            words = fitted.scored_by  # with class weights, if there are any
        found.append((f"expected {words}", with_error(score.value, score.stderr)))
        if name == ERROR_RATE:
            ends = " to ".join(f"{end:.1%}" for end in estimator.error_rate_interval_)
            found.append((f"95% interval of the {words}", ends))
        if name not in OF_CLASSES:
            baseline = f"baseline {words} ({without.get(name, 'best constant')})"
            found.append((baseline, to_digits_of(score.constant, score.stderr)))
    training = to_digits_of(estimator.train_error_rate_, estimator.error_rate_stderr_)
    found.append(("training error rate", training))
    return found


def build_charts(fitted: Fitted) -> SimpleNamespace:
    """Return the numbers of the charts."""
    tuning, names = fitted.tuning, fitted.feature_names
    k, best = tuning.best
    shown = _some_iterates(tuning.path.n_iter, best)
    order = np.argsort(-tuning.lams, kind="stable")
    surfaces = (tuning.risk, tuning.stderr, tuning.train)
    risk, stderr, train = (to_numpy(surface)[order][:, shown].tolist() for surface in surfaces)
    nonzeros = np.full(tuning.risk.shape, math.nan)  # beyond the estimated iterates
    for own, one in zip(nonzeros, tuning.risks, strict=True):
        counts = np.count_nonzero(to_numpy(one.path.coef), axis=1)
        own[: len(counts)] = counts
    path = to_numpy(tuning.path.coef)
    sizes = largest_sizes(path)
    largest = [j for j in np.argsort(-sizes, kind="stable")[:_MOST_CURVES].tolist() if sizes[j]]
    return SimpleNamespace(
        test_loss=fitted.scored_by,
        penalty=fitted.main.penalty_.label,
        alphas=to_numpy(fitted.main.alphas_)[order].tolist(),
        iterates=shown,
        # for each alpha and iteration; None where it was not estimated
        complete=bool(np.isfinite(to_numpy(tuning.risk)).all()),
        risk=risk,
        stderr=stderr,
        train=train,
        nonzeros=nonzeros[order][:, shown].tolist(),
        # indices of the selected alpha and iteration
        chosen=(int(np.flatnonzero(order == k)[0]), shown.index(best)),
        # the largest on the path of the selected alpha, per standard deviation of the feature
        coefficient_names=[names[j] for j in largest],
        coefficients=path[:, largest][shown].tolist(),
        at_the_choice=" ".join(_sentences("selected_risk", fitted)),
        left_out_by="fitted and selected" if tuning.chosen.method == "nested" else "fitted",
        classes=_content_of_classes(fitted) if fitted.classes else None,
        contribution=contribution(fitted.main),
        **_contributions(fitted),
        **_residuals(fitted),
    )


def _importance(fitted: Fitted) -> list[tuple[Any, ...]]:
    """Return the importance of columns with nonzero coefficients, if any has several features."""
    effects = fitted.effects
    if effects is None or not (np.any(effects.features > 1) or np.any(effects.products)):
        return []
    rows = zip(*(value.tolist() for value in effects.to_dict().values()), strict=True)
    return [row for row in rows if row[1]][:_MOST_COEFFICIENTS]


def _contributions(fitted: Fitted) -> dict[str, Any]:
    """Return the most important curves of columns, and surfaces of products."""
    known = {} if fitted.encoder is None else {one.name: one for one in fitted.encoder.columns_}
    curves, surfaces = list[Any](), list[Any]()
    for name, at, effect, stderr in fitted.curves[:_MOST_COLUMNS]:
        levels = largest_levels(np.abs(effect))
        levels = levels[np.argsort(-effect[levels], kind="stable")]
        rows = np.arange(len(at)) if known[name].holds_numbers else levels
        numbers = {"effect": effect[rows].tolist(), "stderr": stderr[rows].tolist()}
        of = len(at) if len(rows) < len(at) else 0
        curves.append({"x": _side(known[name], at[rows]), **numbers, "levels": of})
    limits = [float(np.quantile(np.abs(one.effect), _INSIDE)) for one in fitted.surfaces]
    limit = max(limits, default=0.0)
    for (names, sides, effect), own in zip(fitted.surfaces, limits, strict=True):
        if own <= _VISIBLE * limit:
            continue
        columns, shown = [known[name] for name in names], list[dict[str, Any]]()
        for k, (column, at) in enumerate(zip(columns, sides, strict=True)):
            effect = np.moveaxis(effect, k, 0)
            if column.holds_numbers:
                grid = np.linspace(at[0], at[-1], _CELLS)
                at, effect = grid, interp1d(at, effect, axis=0)(grid)
            else:
                levels = np.sort(largest_levels(np.abs(effect).max(axis=1)))
                at, effect = at[levels], effect[levels]
            effect = np.moveaxis(effect, 0, k)
            shown.append(_side(column, at))
        if not columns[0].holds_numbers:  # levels are on the vertical axis
            shown, effect = shown[::-1], effect.T
        surfaces.append({"x": shown[0], "y": shown[1], "effect": effect.T.tolist()})
    return {"curves": curves, "surfaces": surfaces, "limit": limit}


def _side(column: Column, at: np.ndarray) -> dict[str, Any]:
    """Return values of a column, for an axis."""
    kind = column.kind if column.holds_numbers else "level"
    period = int(column.curves[-1].period) if column.curves else 0
    return {"name": column.name, "kind": kind, "period": period, "at": at.tolist()}


def _residuals(fitted: Fitted) -> dict[str, Any]:
    """Return residuals and out-of-fold predictions of some rows; nothing for classification."""
    names = "raw", "corrected", "actual", "predicted", "quantiles"
    if fitted.classes:
        return dict.fromkeys(names, ()) | {"left_out_rows": 0}
    path, best = fitted.tuning.path, fitted.tuning.best_iter
    rows = _some_rows(path.n_samples)
    raw = path.response - path.products_at(slice(best, best + 1))[0, ...]
    actual, predicted = map(fitted.main._untransformed, held_out(fitted.tuning))
    some = _some_rows(len(actual))
    corrected, quantiles = fitted.risk.residuals(best), np.quantile(actual - predicted, QUANTILES)
    points = to_numpy(raw)[rows], to_numpy(corrected)[rows], actual[some], predicted[some]
    values = (part.tolist() for part in (*points, quantiles))
    return dict(zip(names, values, strict=True)) | {"left_out_rows": len(actual)}


def _content_of_classes(fitted: Fitted) -> dict[str, Any]:
    """Return the confusion matrix and the curves of the out-of-fold predictions."""
    _, actual, values = fitted.left_out_classes
    first, shares = (
        int(not fitted.several),
        class_probabilities(values, getattr(fitted.estimator, "coupling_", (0.0, 1.0))),
    )
    roc, bins, models = [], [], []
    for k, (label, each) in enumerate(zip(fitted.labels, fitted.models, strict=True), start=first):
        curve = roc_curve(actual == k, values[:, k - first])
        places = _some_points(curve.false_positive, curve.true_positive)
        x, y = (part[places].tolist() for part in curve[:2])
        roc.append({"name": label, "x": x, "y": y, "stderr": (), "area": curve.area})
        if hasattr(fitted.estimator, "predict_proba"):
            x, y, stderr = (p.tolist() for p in reliability(actual == k, shares[:, k])[:3])
            bins.append({"name": label, "x": x, "y": y, "stderr": stderr})
        count = np.count_nonzero(to_numpy(each.coef_))
        size = f"{each.best_iter_:,} of {each.n_iter_:,}", f"{count:,}"
        error = with_error(each.best_risk_, each.best_risk_stderr_)
        models.append((label, number(each.alpha_, 3), *size, error))
    confusion = []
    for k, counts in enumerate(fitted.estimator.confusion_.tolist()):
        correct = f"{100 * counts[k] / sum(counts):.0f}%" if sum(counts) else "–"
        confusion.append([fitted.classes[k], *map(count_shown, counts), correct])
    return {
        "titles": ["Actual class", *(f"#Predicted {c}" for c in fitted.classes), "#Correct"],
        "confusion": confusion,
        "models": models if fitted.several else [],
        "main": fitted.main_label,
        "roc": roc,
        "reliability": bins,
    }


def _some_points(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the indices of the corners of a step curve; a subset of very many."""
    turns = (np.diff(x[1:]) != 0) != (np.diff(x[:-1]) != 0)
    turns |= (np.diff(y[1:]) != 0) != (np.diff(y[:-1]) != 0)
    places = np.concatenate([[0], 1 + np.flatnonzero(turns), [len(x) - 1]])
    if len(places) <= _MOST_POINTS:
        return np.asarray(places)
    return np.asarray(places[np.linspace(0, len(places) - 1, _MOST_POINTS).astype(int)])


def _some_iterates(last: int, best: int) -> list[int]:
    """Return all iterations, or a logarithmically spaced subset of very many."""
    if last < _MOST_ITERATES:
        return [*range(last + 1)]
    spread = np.geomspace(1, last, _MOST_ITERATES).round().astype(int)
    return sorted({0, best, *spread.tolist()})


def _some_rows(count: int) -> np.ndarray:
    """Return all rows, or a random sample of very many."""
    if count <= _MOST_ROWS:
        return np.arange(count)
    return np.sort(np.random.default_rng(0).choice(count, _MOST_ROWS, replace=False))


def figure(value: float, stderr: float = math.nan, of: float | None = None) -> str:
    """Return a number with four significant digits, or the digits of its standard error.

    ``of`` is another number, whose digits to use. The script does the same.
    """
    size = abs(value if of is None else of)
    if not math.isfinite(value):
        return "–"
    if size and not 1e-4 <= size < 1e7:
        mantissa, exponent = f"{value:.3e}".split("e")
        return f"{mantissa}e{int(exponent)}".replace("-", "−")
    places = [0] + [places_of(s) + k for k, s in ((2, size), (0, stderr)) if s > 0]
    return f"{value:,.{min(max(places), 10)}f}".replace("-", "−")


def plus_minus(value: float, stderr: float, of: float | None = None) -> str:
    """Return a number and its standard error, with the same number of decimals."""
    of = value if of is None else of
    if not (math.isfinite(value) and math.isfinite(stderr)):
        return figure(value, of=of)
    return f"{figure(value, stderr, of)} ± {figure(stderr, stderr, of)}"


def short(value: float) -> str:
    """Return a number with at most three significant digits."""
    return number(value, 3).replace("-", "−") if math.isfinite(value) else "–"


@dataclass(frozen=True)
class Scale:
    """A linear scale from values to percentages of the width of a drawing."""

    low: float
    high: float

    def __call__(self, value: float) -> str:
        inside = value if self.low <= value <= self.high else 0.0  # or not a number
        return f"{3 + 94 * (inside - self.low) / ((self.high - self.low) or 1.0):.2f}%"

    def ticks(self) -> list[float]:
        """Return round numbers between the limits."""
        rough = (self.high - self.low) / _TICKS
        if not rough > 0:
            return [0.0]
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(m * power for m in (1, 2, 5, 10) if m * power >= 0.999 * rough)
        first, last = math.ceil(self.low / step), math.floor(self.high / step)
        return [k * step for k in range(first, last + 1)]


def chart_data(charts: Any) -> dict[str, Any]:
    """Return the numbers of the charts for the script; what is not finite is None."""
    numbers = {name: _rounded(getattr(charts, name)) for name in _FIELDS.split()}
    for name in ("roc", "reliability") if charts.classes else ():
        numbers[name] = _rounded(charts.classes[name])
    row, at = charts.chosen
    for name in ("risk", "stderr", "train"):
        # in full, so that the panel agrees with the rest of the page
        numbers[name][row][at] = finite(getattr(charts, name)[row][at])
    return numbers


def _rounded(value: Any) -> Any:
    """Round all numbers in nested sequences."""
    if isinstance(value, dict):
        return {name: _rounded(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(item) for item in value]
    return finite(float(f"{value:.5g}")) if isinstance(value, float) else value


def finite(value: float) -> float | None:
    """Return a number for JSON: None if it is not finite."""
    return value if math.isfinite(value) else None


def _panel(charts: Any) -> dict[str, Any]:
    """Return the numbers of the selected iteration; the script replaces them with others."""
    row, at = charts.chosen
    values = charts.coefficients[at] if charts.coefficients else ()
    pairs = sorted(zip(charts.coefficient_names, values, strict=True), key=lambda c: -abs(c[1]))
    return {
        "iteration": charts.iterates[at],
        "risk": plus_minus(charts.risk[row][at], charts.stderr[row][at]),
        "train": charts.train[row][at],
        "nonzeros": charts.nonzeros[row][at],
        "alpha": charts.alphas[row],
        "bars": [pair for pair in pairs[:_BARS] if pair[1]],
        "scale": _symmetric(value for values in charts.coefficients for value in values),
    }


def _symmetric(values: Iterable[float]) -> Scale:
    largest = max(map(abs, values), default=0.0)
    return Scale(-largest, largest)


def _visibly_larger(charts: Any) -> bool:
    """Whether corrected residuals are larger than training residuals by more than a little."""
    sizes = np.abs([charts.raw, charts.corrected])
    raw, corrected = sizes[:, np.isfinite(sizes).all(axis=0)].sum(axis=1)
    return bool(corrected > _LARGER * raw)


def _forest(found: FitIntervals) -> dict[str, Any]:
    """Return confidence intervals in the order of the table: those with a drawing first."""
    known = [row for row in found.by_evidence if row.identified]
    parts = known[:_DRAWN], known[_DRAWN:]
    drawn, others = (sorted(part, key=lambda row: -row.estimate * row.scale) for part in parts)
    ends = [0.0, *(end * row.scale for row in drawn for end in (row.lower, row.upper))]
    rows = [*drawn, *others, *(row for row in found.rows if not row.identified)]
    scale = Scale(min(ends), max(ends))
    return {"rows": rows, "n_drawn": len(drawn), "scale": scale, "level": LEVEL, "fdr": FDR}


def _with_spans(rows: Iterable[Any], pairs: Iterable[tuple[float, float]]) -> dict[str, Any]:
    """Return rows with their differences from the best, between ends at ± 2 s.e., and a scale."""
    known = [(value, error if math.isfinite(error) else 0.0) for value, error in pairs]
    spans = [(value - 2 * error, value, value + 2 * error) for value, error in known]
    ends = [end for span in spans for end in span if math.isfinite(end)]
    scale = Scale(min(ends, default=0.0), max(ends, default=0.0))
    return {"rows": [*zip(rows, spans, strict=True)], "scale": scale}


def render(content: Any) -> str:
    """Return a report as one HTML document, to be written as UTF-8."""
    colours = f":root {{ --blue: {BLUE}; --orange: {ORANGE}; --sky: {SKY}; }}\n"  # as in plots
    style, script = colours + _text("style.css"), "".join(map(_text, _SCRIPTS))
    ranking, levels = content.ranking, content.levels
    page = _template("page.html").render(
        content=content,
        charts=content.charts,
        classes=content.charts.classes,
        data=chart_data(content.charts),
        panel=_panel(content.charts),
        effects=_symmetric(effect for *_, effect in content.coefficients),
        visibly_larger=_visibly_larger(content.charts),
        forest=None if content.intervals is None else _forest(content.intervals),
        widths={
            "levels": [f"#{level:.0%}" for level, _ in content.widths or ()],
            "lengths": [figure(width) for _, width in content.widths or ()],
        },
        ranking=_with_spans(ranking, ((row.behind, row.behind_stderr) for row in ranking)),
        levels=_with_spans(levels, ((row.difference, row.difference_stderr) for row in levels)),
        importance=Scale(0.0, max((row[1] for row in content.importance), default=0.0)),
        has_bands=any(math.isfinite(s) for one in content.charts.curves for s in one["stderr"]),
        plus_minus=plus_minus,
        style=style,
        script=script,
        style_hash=_hash(style),
        script_hash=_hash(script),
    )
    # names of columns may contain lone surrogates, which cannot be encoded
    return page.encode("utf-8", "replace").decode("utf-8")


@cache
def _template(file: str) -> jinja2.Template:
    import jinja2

    environment = jinja2.Environment(
        autoescape=jinja2.select_autoescape(),  # of HTML
        loader=jinja2.FunctionLoader(_text),
        lstrip_blocks=True,
        trim_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    environment.filters |= {"figure": figure, "short": short, "shorten": shorten}
    environment.filters |= {"count": "{:,}".format, "percentage": _percentage}
    environment.filters |= {"with_error": with_error, "to_digits_of": to_digits_of}
    environment.filters |= {"parts": _PARTS.findall}
    environment.tests["finite"] = math.isfinite
    return environment.get_template(file)


def _text(file: str) -> str:
    return (resources.files("steinpath.app.report") / file).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def report(
    model: Any,
    file: str | os.PathLike[str],
    *,
    target: str | None = None,
    source: str = "",
    intervals: bool = False,
) -> None:
    """Write a report of a fitted model: one self-contained HTML page that needs no network.

    Parameters
    ----------
    model : estimator or Pipeline
        A fitted estimator such as `LADLasso` or `LogisticLasso`, or a pipeline of a `TableEncoder`
        and an estimator. A model that was loaded or copied does not have what a report shows.
    file : str or path
        The file to write, such as "report.html".
    target : str, optional
        Name of the response.
    source : str, optional
        Name of the data, for the title.
    intervals : bool, default=False
        Whether to add confidence intervals for the coefficients; with classes, up to a common
        factor.

    See Also
    --------
    save_model : Write a model to a file.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import steinpath as sp
    >>> X, y = sp.simulate.paper_model(20, noise="t2").sample(200, rng=0)
    >>> model = sp.LADLasso(n_alphas=5, random_state=0).fit(X, y)
    >>> with TemporaryDirectory() as folder:
    ...     sp.report(model, Path(folder, "report.html"), target="price")
    """
    fitted = Fitted(model)
    if fitted.several and not fitted.classes:
        raise ValueError("a report is about one quantile; use one of model.estimators_")
    encoder = fitted.encoder
    result = Result(
        fitted,
        target=target or "the response",
        source=source,
        command=f"{model!r}.fit(X, y)",
        notes=(*(encoder.notes_ if encoder else ()), *fitted.notes),
        intervals=fit_intervals(fitted) if intervals else None,
        columns=encoder.summary_ if encoder else (),
        n_columns=encoder.n_features_in_ if encoder else 0,
        predict=_PREDICT[model is not fitted.estimator],
    )
    write_text(Path(file), render(build_content(result)))
