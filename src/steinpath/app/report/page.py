"""Render the content of a report as one self-contained HTML page.

The content security policy admits only the page's own style and script, by their hashes, so that
the page cannot load or send anything. jinja2 is imported when a page is rendered.
"""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from steinpath._support.charts import BLUE, ORANGE, SKY
from steinpath._support.printing import places_of, to_digits_of
from steinpath.app.defaults import FDR, LEVEL
from steinpath.app.fitted import Ranked
from steinpath.app.intervals import FitIntervals
from steinpath.plots import shorten

if TYPE_CHECKING:
    import jinja2

# Bars in the panel beside the risk curve; confidence intervals drawn; ticks of their axis.
_BARS, _DRAWN, _TICKS = 8, 40, 4
# How much larger corrected residuals have to be, on average, to be visibly larger.
_LARGER = 1.05
# One script in four files: the others only define what the last one runs.
_SCRIPTS = "drawing.js", "charts.js", "classes.js", "page.js"
# Names of the numbers in the script, and of the same in the content.
_SAME = "alphas iterates risk stderr train nonzeros chosen coefficients raw corrected actual"
_FIELDS = {name: name for name in [*_SAME.split(), "predicted", "quantiles"]}
_FIELDS |= {"testLoss": "test_loss", "names": "coefficient_names", "leftOutRows": "left_out_rows"}


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
    return f"{value:.3g}".replace("-", "−") if math.isfinite(value) else "–"


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
    numbers = {name: _rounded(getattr(charts, field)) for name, field in _FIELDS.items()}
    for name in ("roc", "reliability") if charts.classes else ():
        numbers[name] = _rounded(charts.classes[name])
    row, at = charts.chosen
    for name in ("risk", "stderr", "train"):
        # in full, so that the panel agrees with the rest of the page
        numbers[name][row][at] = _finite(getattr(charts, name)[row][at])
    return numbers


def _rounded(value: Any) -> Any:
    """Round all numbers in nested sequences."""
    if isinstance(value, dict):
        return {name: _rounded(each) for name, each in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_rounded(each) for each in value]
    return _finite(float(f"{value:.5g}")) if isinstance(value, float) else value


def _finite(value: float) -> float | None:
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
    both = zip(charts.raw, charts.corrected, strict=True)
    known = [(abs(r), abs(c)) for r, c in both if math.isfinite(r) and math.isfinite(c)]
    raw, corrected = (sum(pair[k] for pair in known) for k in (0, 1))
    return bool(corrected > _LARGER * raw)


def _forest(found: FitIntervals) -> dict[str, Any]:
    """Return confidence intervals in the order of the table: those with a drawing first."""
    known = [row for row in found.by_evidence if row.identified]
    drawn, others = (
        sorted(part, key=lambda row: -row.estimate * row.scale)
        for part in (known[:_DRAWN], known[_DRAWN:])
    )
    ends = [0.0, *(end * row.scale for row in drawn for end in (row.lower, row.upper))]
    unknown = [row for row in found.rows if not row.identified]
    return {
        "rows": [*drawn, *others, *unknown],
        "n_drawn": len(drawn),
        "scale": Scale(min(ends), max(ends)),
        "level": LEVEL,
        "fdr": FDR,
    }


def _differences(ranking: Sequence[Ranked]) -> tuple[Scale, list[tuple[float, float, float]]]:
    """Return the scale of the differences from the best model, and each with ± 2 s.e."""
    errors = [r.behind_stderr if math.isfinite(r.behind_stderr) else 0.0 for r in ranking]
    spans = [
        (r.behind - 2 * error, r.behind, r.behind + 2 * error)
        for r, error in zip(ranking, errors, strict=True)
    ]
    ends = [end for span in spans for end in span if math.isfinite(end)]
    return Scale(min(ends, default=0.0), max(ends, default=0.0)), spans


def render(content: Any) -> str:
    """Return a report as one HTML document, to be written as UTF-8."""
    style, script = _verbatim(_style()), _verbatim("".join(map(_text, _SCRIPTS)))
    scale, spans = _differences(content.ranking)
    page = _template().render(
        content=content,
        charts=content.charts,
        classes=content.charts.classes,
        data=chart_data(content.charts),
        panel=_panel(content.charts),
        effects=_symmetric(c.effect for c in content.coefficients),
        visibly_larger=_visibly_larger(content.charts),
        forest=None if content.intervals is None else _forest(content.intervals),
        widths={
            "levels": [f"#{level:.0%}" for level, _ in content.widths or ()],
            "lengths": [figure(width) for _, width in content.widths or ()],
        },
        ranking=list(zip(content.ranking, spans, strict=True)),
        ranking_scale=scale,
        plus_minus=plus_minus,
        style=style,
        script=script,
        style_hash=_hash(style),
        script_hash=_hash(script),
    )
    # names of columns may contain lone surrogates, which cannot be encoded
    return page.encode("utf-8", "replace").decode("utf-8")


@cache
def _template() -> jinja2.Template:
    import jinja2

    environment = jinja2.Environment(
        autoescape=True,
        loader=jinja2.FunctionLoader(_text),
        lstrip_blocks=True,
        trim_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    environment.filters |= {"figure": figure, "short": short, "shorten": shorten}
    environment.filters |= {"count": "{:,}".format, "to_digits_of": _to_digits_of}
    return environment.get_template("page.html")


def _to_digits_of(value: float, stderr: float) -> str:
    return to_digits_of(value, stderr).replace("-", "−")


def _style() -> str:
    """Return the page's style, in the colours of the plots."""
    colours = f":root {{ --blue: {BLUE}; --orange: {ORANGE}; --sky: {SKY}; }}\n"
    return colours + _text("style.css")


def _verbatim(text: str) -> str:
    """Return the text of a style or a script, which ends at the first closing tag."""
    if "</" in text or "<!--" in text:
        raise ValueError("a style or a script must not contain '</' or '<!--'")
    return text


def _text(file: str) -> str:
    return (resources.files("steinpath.app.report") / file).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
