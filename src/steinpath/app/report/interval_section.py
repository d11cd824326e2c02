"""The part of the page about confidence intervals for coefficients."""

from __future__ import annotations

import math
from collections.abc import Sequence

from steinpath._support.printing import to_digits_of
from steinpath.app.coefficient_intervals import FDR, LEVEL, FitIntervals, Interval
from steinpath.app.report.markup import Markup, Node, section, sentences, short, table, tag

# How many intervals are drawn, and about how many ticks their axis has.
_DRAWN, _TICKS = 40, 4
_UNKNOWN = "–"


def intervals_section(found: FitIntervals | None) -> Markup | None:
    """Return a forest plot with the numbers beside it: those with the smallest p-values."""
    if found is None:
        return None
    lead = (
        f"{LEVEL:.0%} confidence intervals from iterate {found.t} of {found.n_iter}. The bias of "
        "the penalty and of early stopping is removed, so that estimates differ from the "
        "coefficients of the model. Numbers are per unit of the feature; the plot is per standard "
        "deviation (s.d.), so that features compare. In colour: nonzero by the Benjamini–Hochberg "
        f"procedure at a false discovery rate of {FDR:.0%}."
    )
    known = [row for row in found.by_evidence if row.identified]
    drawn, others = known[:_DRAWN], known[_DRAWN:]
    axis = _Axis(drawn)
    rows = [_row(row, axis.draw(row)) for row in _sorted(drawn)]
    if drawn:
        rows.append(("", axis.labels(), *[""] * 6))
    shown = len(rows) or None
    rows += [_row(row, None) for row in _sorted(others)]
    rows += [_row(row, None) for row in found.rows if not row.identified]
    head = ("Feature", "Per s.d.", "#Estimate", "#Std. error", "#Lower", "#Upper", "#p-value",
            "Nonzero")  # fmt: skip
    caution = tag("div", sentences(found.warnings), class_="warnings") if found.warnings else None
    return section(
        "intervals",
        "Confidence intervals for the coefficients",
        lead,
        found.assumptions,
        caution,
        table("Confidence intervals", head, rows, shown),
        sentences(found.notes),
    )


def _sorted(rows: Sequence[Interval]) -> list[Interval]:
    return sorted(rows, key=lambda row: -row.estimate * row.scale)


def _row(row: Interval, line: Markup | None) -> tuple[Node, ...]:
    if not row.identified:
        return row.name, None, *[_UNKNOWN] * 5, "not identified"
    values = (row.estimate, row.stderr, row.lower, row.upper)
    numbers = [to_digits_of(value, row.stderr).replace("-", "−") for value in values]
    return row.name, line, *numbers, row.short_pvalue, "yes" if row.significant else ""


class _Axis:
    """Where coefficients per standard deviation are drawn, in percent of the width.

    Parameters
    ----------
    rows : sequence of Interval
        What is to be drawn.
    """

    def __init__(self, rows: Sequence[Interval]):
        ends = [0.0, *(end * row.scale for row in rows for end in (row.lower, row.upper))]
        self._low, self._high = min(ends), max(ends)

    def _place(self, value: float) -> str:
        share = (value - self._low) / ((self._high - self._low) or 1.0)
        return f"{3 + 94 * share:.2f}%"

    def draw(self, row: Interval) -> Markup:
        """Return an interval as a line with a dot; in percent, so that dots stay round."""
        low, middle, high = (
            self._place(v * row.scale) for v in (row.lower, row.estimate, row.upper)
        )
        zero = tag("line", x1=self._place(0), x2=self._place(0), y1=0, y2="100%", class_="zero")
        reach = tag("line", x1=low, x2=high, y1="50%", y2="50%", class_="reach")
        dot = tag("circle", cx=middle, cy="50%", r=4)
        kind = "forest found" if row.significant else "forest"
        return tag("svg", zero, reach, dot, class_=kind, aria_hidden="true")

    def labels(self) -> Markup:
        """Return the numbers below the lines."""
        marks = [
            (
                tag("line", x1=self._place(v), x2=self._place(v), y1=0, y2=5, class_="tick"),
                tag("text", short(v), x=self._place(v), y=20, class_="middle"),
            )
            for v in _ticks(self._low, self._high)
        ]
        return tag("svg", marks, class_="forest", aria_hidden="true")


def _ticks(low: float, high: float) -> list[float]:
    """Return round numbers between two limits."""
    rough = (high - low) / _TICKS
    if not rough > 0:
        return [0.0]
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(m * power for m in (1, 2, 5, 10) if m * power >= 0.999 * rough)
    return [k * step for k in range(math.ceil(low / step), math.floor(high / step) + 1)]
