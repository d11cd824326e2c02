"""The page: a report's content as one HTML document that needs nothing else.

The content security policy lets the page's own style and script in, by their hashes, and nothing
else; it cannot reach a network.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Iterable, Sequence
from importlib import resources
from typing import Any

from steinpath._support.colours import BLUE, ORANGE, SKY
from steinpath.app.fitting import Ranked
from steinpath.app.report.class_sections import left_out_classes, models_of_classes
from steinpath.app.report.content import Charts, ClassCurve, Content
from steinpath.app.report.interval_section import intervals_section
from steinpath.app.report.markup import (
    Markup,
    Node,
    bar,
    button,
    chart,
    figure,
    markup,
    plus_minus,
    section,
    sentences,
    short,
    table,
    tag,
    verbatim,
    whisker,
)
from steinpath.plots._coefficients import shorten
from steinpath.risk._diagnostics import Diagnostic

# Rows of a table that are seen at once; bars in the panel beside the curve, and their names.
_SHOWN_COEFFICIENTS, _SHOWN_COLUMNS, _BARS, _NAME_LENGTH = 15, 30, 8, 64
# How much larger corrected residuals have to be, on average, for it to be seen.
_LARGER = 1.05
# One script in four files: the others only define what the last one runs.
_SCRIPTS = "drawing.js", "charts.js", "classes.js", "page.js"


def data_block(charts: Charts) -> str:
    """Return the numbers behind the curves, as JSON that is harmless within HTML."""
    row, at = charts.chosen
    numbers: dict[str, Any] = {
        "testLoss": charts.test_loss,
        "alphas": _rounded(charts.alphas),
        "iterates": charts.iterates,
        "nonzeros": charts.nonzeros,
        "chosen": charts.chosen,
        "names": charts.coefficient_names,
        "coefficients": [_rounded(values) for values in charts.coefficients],
        "raw": _rounded(charts.raw),
        "corrected": _rounded(charts.corrected),
        "actual": _rounded(charts.actual),
        "predicted": _rounded(charts.predicted),
        "quantiles": _rounded(charts.quantiles),
        "leftOutRows": charts.left_out_rows,
    }
    if charts.classes is not None:
        numbers["roc"] = [_points(curve) for curve in charts.classes.roc]
        numbers["reliability"] = [_points(curve) for curve in charts.classes.reliability]
    for name in ("risk", "stderr", "train"):
        curves = [_rounded(values) for values in getattr(charts, name)]
        # in full, so that the panel says what the rest of the page says
        curves[row][at] = _finite(getattr(charts, name)[row][at])
        numbers[name] = curves
    text = json.dumps(numbers, separators=(",", ":"), allow_nan=False)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _points(curve: ClassCurve) -> dict[str, Any]:
    parts = {name: _rounded(getattr(curve, name)) for name in ("x", "y", "stderr")}
    return {"name": curve.name, **parts}


def _rounded(values: Iterable[float]) -> list[float | None]:
    return [_finite(float(f"{value:.5g}")) for value in values]


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _header(content: Content) -> list[Node]:
    cards = [tag("div", tag("dt", what), tag("dd", value)) for what, value in content.facts]
    caution = tag("p", "No check gave a warning.", id="warnings", class_="quiet calm")
    if content.warnings:
        texts = sentences(content.warnings)
        caution = section("warnings", "Reasons for caution", texts, class_="warnings")
    kicker = tag("p", "Steinpath report", button("theme", "Dark"), class_="kicker")
    verdict = tag("p", content.verdict, class_="verdict")
    header = tag("header", kicker, tag("h1", content.title), verdict)
    figures = tag("dl", cards, class_="facts") if cards else None
    return [header, *((caution, figures) if content.warnings else (figures, caution))]


def _ranking(ranking: Sequence[Ranked]) -> Markup | None:
    if not ranking:
        return None
    both = [(r, r.behind_stderr if math.isfinite(r.behind_stderr) else 0.0) for r in ranking]
    ends = [r.behind + k * error for r, error in both for k in (-2, 2) if math.isfinite(r.behind)]
    low, high = min(ends, default=0.0), max(ends, default=0.0)
    rows = [
        (
            f"{r.loss}, {r.penalty}",
            plus_minus(r.risk, r.stderr),
            f"+{plus_minus(r.behind, r.behind_stderr, r.risk)}" if r.behind > 0 else "best",
            whisker(r.behind, error, low, high) if math.isfinite(r.behind) else None,
            short(r.alpha),
            f"{r.iterate:,}",
            f"{r.nonzeros:,}",
        )
        for r, error in both
    ]
    head = ("Loss and penalty", "#Estimated risk", "#Behind the best", "± 2 s.e.", "#Alpha",
            "#Iterate", "#Non-zeros")  # fmt: skip
    lead = (
        "Each at the alpha and the iterate that are best for it. A difference that is less than "
        "two of its standard errors (s.e.) may well be chance: its line then crosses zero."
    )
    title = "Losses and penalties side by side"
    return section("ranking", title, lead, table("Ranking", head, rows))


def _risk(charts: Charts) -> Markup:
    lead = (
        f"How well each iterate would do on new rows, measured by {charts.test_loss}: lower is "
        "better. Point at the curve, or use the arrow keys, to look at another iterate. "
        f"{charts.at_the_choice}"
    ).rstrip()
    kinds = {
        "estimate": "estimated risk",
        "band": "± 2 standard errors",
        "train": "training error",
        "choice": "chosen iterate",
    }
    buttons = button("back", "Back to the chosen one"), button("axis", "Linear axis")
    strip = tag("p", tag("span", id="alpha-note"), buttons, class_="controls")
    curve = tag("div", _legend(kinds), strip, chart("risk"))
    surface = (
        tag("h3", "Every alpha"),
        tag("p", f"The same for all {len(charts.alphas)} regularisation strengths of the "
            f"{charts.penalty} that were tried, the brighter the better. Click a row to see its "
            "curve above. The risk at the chosen alpha, and at others that came close, was "
            "estimated more precisely than at the rest, which were screened out; so their rows may "
            "differ a little from the ones beside them."),
        chart("surface"),
    )  # fmt: skip
    beside = tag("div", curve, _panel(charts), class_="beside")
    shown = surface if len(charts.alphas) > 1 else None
    return section("risk", "Risk of every iterate", lead, beside, shown)


def _legend(kinds: dict[str, str]) -> Markup:
    swatches = [tag("li", tag("i", class_=f"swatch {k}"), text) for k, text in kinds.items()]
    return tag("ul", swatches, class_="legend")


def _panel(charts: Charts) -> Markup:
    """Return what is known of the chosen iterate; the script puts others in its place."""
    row, at = charts.chosen
    values = charts.coefficients[at] if charts.coefficients else ()
    largest = max((abs(v) for c in charts.coefficients for v in c), default=0.0)
    pairs = sorted(zip(charts.coefficient_names, values, strict=True), key=lambda c: -abs(c[1]))
    bars = [
        tag("li", tag("span", shorten(name, _NAME_LENGTH), title=name), bar(value, largest),
            tag("b", figure(value)))
        for name, value in pairs[:_BARS]
        if value
    ]  # fmt: skip
    figures = (
        ("risk", "Estimated risk", plus_minus(charts.risk[row][at], charts.stderr[row][at])),
        ("train", "Training error", figure(charts.train[row][at])),
        ("nonzeros", "Non-zeros", f"{charts.nonzeros[row][at]:,}"),
        ("alpha", f"Alpha of the {charts.penalty}", figure(charts.alphas[row])),
    )
    number = tag("span", f"{charts.iterates[at]:,}", data_field="iterate")
    return tag(
        "aside",
        tag("h3", "Iterate ", number, tag("em", "chosen", data_field="chosen")),
        tag("dl", (tag("div", tag("dt", what), tag("dd", value, data_field=field))
                   for field, what, value in figures)),
        tag("h4", "Largest coefficients"),
        tag("p", "" if bars else "All are zero.", class_="quiet", data_field="note"),
        tag("ol", bars, data_field="bars"),
        id="panel",
        aria_label="The iterate that is looked at",
    )  # fmt: skip


def _model(content: Content) -> Markup:
    intercept, coefficients = content.intercept, content.coefficients
    what, classes = "prediction", content.charts.classes
    if classes is not None:
        what = f"decision value of {classes.main!r}"
    text = f"All coefficients are zero: the {what} is {figure(intercept)} for every row."
    if coefficients:
        text = (
            f"The {what} is {figure(intercept)} plus, for each feature, its value times the "
            "coefficient per unit. Per standard deviation (s.d.), features compare with each other."
        )
    if classes is not None and not classes.models:
        log_odds = "It is the log-odds of that class, which" if classes.reliability else "The class"
        text += f" {log_odds} is predicted where it is above zero."
    if any("=" in c.name for c in coefficients):
        text += (
            " Every level of a category has a coefficient of its own; the penalty decides between "
            "them."
        )
    largest = max((abs(c.effect) for c in coefficients), default=0.0)
    rows = [
        (c.name, figure(c.value), figure(c.effect), bar(c.effect, largest)) for c in coefficients
    ]
    head = ("Feature", "#Per unit", "#Per s.d.", "")
    listed = table("Coefficients", head, rows, _SHOWN_COEFFICIENTS)
    return section(
        "model", "The model", text, listed, _unlisted(content.unlisted_coefficients, "coefficients")
    )


def _unlisted(count: int, what: str) -> Markup | None:
    return tag("p", f"{count:,} more {what} are not listed.", class_="quiet") if count else None


def _residuals(charts: Charts) -> Markup | None:
    if charts.classes is not None:
        return None
    both = zip(charts.raw, charts.corrected, strict=True)
    known = [(abs(r), abs(c)) for r, c in both if math.isfinite(r) and math.isfinite(c)]
    raw, corrected = (sum(pair[k] for pair in known) for k in (0, 1))
    result = (
        "; here they are hardly larger: the model is simple for so many rows. On the diagonal, "
        "both are the same."
    )
    if corrected > _LARGER * raw:
        result = (
            ", so they are larger: the dots lie steeper than the diagonal, on which both are the "
            "same."
        )
    seen = (
        "Each dot is a row of the data, at the chosen iterate. To the right: how far the model is "
        "off on a row that it was fitted to. Upwards: the corrected residual, how far it would be "
        f"off had it not seen that row. Those are what new rows have to expect{result}"
    )
    scatter = tag("div", chart("residuals"), tag("p", seen), class_="beside square")
    return section("residuals", "Residuals, raw and corrected", scatter)


def _left_out(charts: Charts) -> Markup | None:
    """Return charts of the rows that were left out; of those of which there are some."""
    if not charts.actual:
        return None
    lead = (
        f"Each row as it was predicted by a model that was {charts.left_out_by} without it. New "
        "rows can be expected to look like this."
    )
    scatter = (
        tag("h3", "Predicted against actual"),
        _legend({"point": "a row", "diagonal": "prediction equals actual value"}),
        chart("predicted"),
    )
    errors = (
        tag("h3", "Left-out residuals"),
        _legend({"choice-line": "median", "half": "central 50%", "band": "central 90%"}),
        chart("errors"),
    )
    both = tag("div", tag("div", scatter), tag("div", errors), class_="two")
    return section("left-out", "Predictions of rows left out", lead, both)


def _check_name(check: Diagnostic) -> list[Node]:
    meaning = getattr(check, "meaning", "")
    return [
        check.name,
        tag("p", meaning, class_="meaning") if meaning else None,
        tag("p", check.message, class_="message") if check.warns else None,
    ]


def _later_sections(content: Content) -> list[Markup | None]:
    along = (
        "On the path of the chosen alpha: the change of the prediction per standard deviation "
        "of the feature."
    )
    paths = (along, chart("paths")) if content.charts.coefficient_names else ("All are zero.",)
    checks = [
        (
            _check_name(c),
            short(c.value),
            short(c.threshold),
            tag("span", "▲ warns" if c.warns else "✓ ok", class_="bad" if c.warns else "good"),
        )
        for c in content.checks
    ]
    columns = [
        (c.name, c.kind, c.detail, f"{c.missing:,}", f"{c.features:,}") for c in content.columns
    ]
    titles = ("Column", "Kind", "Values", "#Missing", "#Features")
    code = tag("pre", tag("code", content.command, id="command"))
    return [
        section("paths", "Coefficients along the path", *paths),
        _residuals(content.charts),
        _model(content),
        intervals_section(content.intervals),
        section("trust", "What the estimate rests on", sentences(content.assumptions),
                table("Checks", ("Check", "#Found", "#Limit", "Result"), checks)),
        section("columns", "The data", sentences(content.notes),
                table("Columns", titles, columns, _SHOWN_COLUMNS),
                _unlisted(content.unlisted_columns, "columns")),
        section("again", "How to get this again",
                tag("div", code, button("copy", "Copy"), class_="command"),
                table("Provenance", ("What", "Which"), content.provenance)),
    ]  # fmt: skip


def render(content: Content) -> str:
    """Return a report as one HTML document.

    Parameters
    ----------
    content : Content
        What it says.

    Returns
    -------
    str
        A page of its own: style, script and numbers are in it, and nothing is fetched. Write it
        with ``encoding="utf-8"``.
    """
    style, script = _style(), "".join(map(_text, _SCRIPTS))
    policy = (
        f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("title", f"{content.title} · steinpath"),
        verbatim("style", style),
    )
    charts = content.charts
    left_out = left_out_classes(charts) or _left_out(charts)
    several = models_of_classes(charts)
    first = _header(content), _ranking(content.ranking), several, _risk(charts), left_out
    body = tag(
        "body",
        tag("main", first, _later_sections(content)),
        verbatim("script", data_block(content.charts), type="application/json", id="data"),
        verbatim("script", script, type="module"),
    )
    page = tag("html", head, body, lang="en")
    # names of columns may have halves of characters in them, which no file can hold
    return f"<!DOCTYPE html>\n{markup(page)}\n".encode("utf-8", "replace").decode("utf-8")


def _style() -> str:
    """Return the page's style, in the colours of the plots."""
    colours = f":root {{ --blue: {BLUE}; --orange: {ORANGE}; --sky: {SKY}; }}\n"
    return colours + _text("style.css")


def _text(file: str) -> str:
    return (resources.files("steinpath.app.report") / file).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
