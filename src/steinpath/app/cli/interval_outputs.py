"""Output of the commands for confidence intervals of coefficients."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from rich.console import Console

from steinpath._support.printing import to_digits_of
from steinpath.app.cli.display import make_table, print_warnings, say, shown
from steinpath.app.coefficient_intervals import FitIntervals, Interval
from steinpath.app.defaults import FDR, LEVEL

# Number of intervals that are printed; intervals.csv has all.
_SHOWN = 20
_UNKNOWN = "–"


def json_of_intervals(found: FitIntervals) -> dict[str, Any]:
    """Return the intervals as a JSON object."""
    return {
        "t": found.t,
        "level": LEVEL,
        "scores": found.scores,
        "fdr": FDR,
        "fdr_features": found.n_tests,
        "warnings": list(found.warnings),
        "notes": list(found.notes),
        "features": list(interval_rows(found)),
    }


def interval_rows(found: FitIntervals) -> Iterator[dict[str, Any]]:
    """Yield the numbers of each feature; None if its coefficient is not identified."""
    for row in found.rows:
        numbers = {
            name: getattr(row, name) for name in ("estimate", "stderr", "lower", "upper", "pvalue")
        }
        known = {
            name: value if row.identified and math.isfinite(value) else None
            for name, value in numbers.items()
        }
        yield {"name": row.name, **known, "significant": row.significant}


def draw_intervals(found: FitIntervals) -> Any:
    """Draw a forest plot, per standard deviation of the features so that they are comparable."""
    assert found.effects is not None
    axes = found.effects.plot(fdr=FDR, n_tests=found.n_tests)
    axes.set_xlabel(f"coefficient per s.d., {LEVEL:.0%} confidence interval")
    return axes


def print_intervals(console: Console, found: FitIntervals) -> None:
    """Print the intervals with the smallest p-values, and their assumptions."""
    say(
        console,
        f"{LEVEL:.0%} confidence intervals for the coefficients, from iteration {found.t} of "
        f"{found.n_iter}:",
    )
    head = ("feature", "estimate", "std. error", "lower", "upper", "p-value", "")
    table = make_table(*head, left=1)
    for row in found.by_evidence[:_SHOWN]:
        table.add_row(shown(row.name), *_cells(row), "*" if row.significant else "")
    console.print(table)
    if len(found.rows) > _SHOWN:
        console.print(f"… and {len(found.rows) - _SHOWN} more, in intervals.csv")
    say(
        console,
        f"* significant by the Benjamini–Hochberg procedure, false discovery rate {FDR:.0%}.",
    )
    say(console, found.assumptions)
    print_warnings(console, found.warnings)
    for note in found.notes:
        say(console, f"Note: {note}.")


def _cells(row: Interval) -> list[str]:
    if not row.identified:
        return [_UNKNOWN] * 5
    values = (row.estimate, row.stderr, row.lower, row.upper)
    return [*(to_digits_of(value, row.stderr) for value in values), row.short_pvalue]
