"""Diagnostics: the assumptions of the estimate, checked on the path and the data.

Each check is a function of the `Evidence` that returns a `Diagnostic`, or None if it does not
apply: a number, the threshold above which it warns, and a message with the consequence and a
remedy. The thresholds were set so that default fits of well-specified models give no warnings;
``docs/results/reliability.md`` has the reasons and the measured rates.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from steinpath.risk._estimate_checks import (
    aspect_ratio,
    audited_difference,
    correction_size,
    monte_carlo_error,
    movement,
    projection_boundary,
    step_sizes,
    zero_coefficients,
)
from steinpath.risk._evidence import Diagnostic, Evidence
from steinpath.risk._row_checks import (
    dominant_row,
    few_rows,
    near_duplicates,
    row_norms,
    serial_residuals,
    serial_rows,
)

if TYPE_CHECKING:
    from steinpath.risk._risk import Risk

#: All checks, in the order in which they are reported.
CHECKS: tuple[Callable[[Evidence], Diagnostic | None], ...] = (
    zero_coefficients,
    dominant_row,
    audited_difference,
    movement,
    near_duplicates,
    serial_rows,
    serial_residuals,
    row_norms,
    aspect_ratio,
    few_rows,
    step_sizes,
    projection_boundary,
    correction_size,
    monte_carlo_error,
)


def diagnose(risk: Risk, at: int | None = None) -> tuple[Diagnostic, ...]:
    """Run all checks that apply to an estimate.

    Parameters
    ----------
    risk : Risk
        Estimate.
    at : int, optional
        Selected iteration, near which the estimate should be accurate; by default that with the
        smallest estimated risk.
    """
    evidence, found = Evidence(risk, at), []
    for check in CHECKS:
        with contextlib.suppress(NotImplementedError):  # designs without row norms
            diagnostic = check(evidence)
            if diagnostic is not None:
                meaning = (check.__doc__ or "").split("\n")[0]
                found.append(replace(diagnostic, meaning=meaning))
    return tuple(found)


__all__ = ["CHECKS", "Diagnostic", "Evidence", "diagnose"]
