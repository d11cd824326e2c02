"""Tuned models: compared with one exact fit, and their prediction intervals with MAPIE's.

- **tune**: `steinpath.tune` with twenty penalties and all iterations, and `best_risk` (adjusted for
  selection), compared with *one* fit of `QuantileRegressor` at the selected penalty. LAD–lasso with
  an intercept, Student-t₂ noise. *Error*: estimated risk divided by true risk, minus 1. The
  deviation of the sample's noise from its mean, which is large for t₂, is subtracted first.
- **intervals**: coverage and width of 90% prediction intervals for new rows, with the methods of
  ``choice.py`` that have intervals.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import steinpath as sp
from benchmarks.accuracy.choice import METHODS, Case, data_set, summary
from benchmarks.common.measuring import Record, in_parallel
from benchmarks.peers.tuning import CASES, Data, fit_quantile, measured

# ------------------------------------------------------------------------------------------------
# tune and one fit
# ------------------------------------------------------------------------------------------------


def tuned_beside_fit(n: int, p: int, n_sets: int, plain_seconds: float) -> list[Record]:
    """Tune with `best_risk`, then fit once at the selected penalty."""
    records = []
    for seed in range(n_sets):
        data = Data.draw(CASES["lad"], n, p, seed)
        noise, noise_here = data.noise()

        def tune(data: Data = data) -> tuple[sp.Tuning, float]:
            tuning = sp.tune(data.X, data.y, sp.LAD(), sp.Lasso, fit_intercept=True, rng=data.seed)
            return tuning, tuning.best_risk  # computed on first access

        of_tune, (tuning, error) = measured(tune)
        of_fit, model = fit_quantile(data, tuning.best_lam)
        truth = float(data.risk(tuning.coef, tuning.intercept))
        common = {"n": n, "p": p, "seed": seed}
        records += [
            common
            | {
                "method": "tune, 20 penalties, with adjusted error",
                "seconds": of_tune["seconds"],
                "ratio": of_tune["seconds"] / plain_seconds,
                "of_fit": of_tune["seconds"] / of_fit["seconds"],
                "truth": truth,
                "error": (error - noise_here + noise) / truth - 1,
            },
            common
            | {
                "method": "QuantileRegressor, one fit at that penalty",
                "seconds": of_fit["seconds"],
                "ratio": of_fit["seconds"] / plain_seconds,
                "of_fit": 1.0,
                "truth": float(data.risk(model.coef_, model.intercept_)),
                "error": None,
            },
        ]
    return records


def tuned_table(records: list[Record]) -> str:
    lines = [
        "| n × p | method | seconds | plain runs | / one fit | true risk | error of the estimate |",
        "|---|---|---|---|---|---|---|",
    ]
    for n, p, method in dict.fromkeys((r["n"], r["p"], r["method"]) for r in records):
        rows = [r for r in records if (r["n"], r["p"], r["method"]) == (n, p, method)]
        seconds, ratio, of_fit, truth = (
            float(np.median([r[key] for r in rows]))
            for key in ("seconds", "ratio", "of_fit", "truth")
        )
        errors = [f"{100 * r['error']:+.1f}%" for r in rows if r["error"] is not None]
        lines.append(
            f"| {n} × {p} | {method} | {seconds:.2f} | {ratio:.0f} | {of_fit:.2f} | {truth:.3f} "
            f"| {', '.join(errors) or '–'} |"
        )
    return "\n".join(lines)


# ------------------------------------------------------------------------------------------------
# Prediction intervals
# ------------------------------------------------------------------------------------------------

WITH_INTERVALS = tuple(
    name for name in METHODS if name not in ("tune, smallest estimate", "nested GridSearchCV")
)


def intervals(cases: list[tuple[str, int, int, int]], names: Any = WITH_INTERVALS) -> list[Record]:
    """Run the methods on several data sets of each case (loss, rows, columns, data sets)."""
    records = []
    for arguments in cases:
        case = Case(*arguments)
        found = in_parallel(data_set, [(case, seed, names) for seed in range(case.sets)], jobs=1)
        for name in names:
            own = {"estimator": {"lad": "LADLasso", "square_root": "SqrtLasso"}[case.loss]}
            records.append(
                {"case": case.name, "sets": case.sets, "method": own.get(name, name)}
                | summary([each[name] for each in found])
            )
    return records


def intervals_table(records: list[Record]) -> str:
    lines = [
        "| data | sets | method | seconds | true error | coverage of 90% intervals | width |",
        "|---|---|---|---|---|---|---|",
    ]
    for r in records:
        spread = 100 * r["interval_covers_stderr"]
        inside = f"{100 * r['interval_covers']:.1f}"
        inside += f" ± {spread:.1f}%" if math.isfinite(spread) else "%"
        lines.append(
            f"| {r['case']} | {r['sets']} | {r['method']} | {r['seconds']:.2f} "
            f"| {r['truth']:.3f} | {inside} | {r['width']:.2f} |"
        )
    return "\n".join(lines)
