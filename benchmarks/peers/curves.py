r"""Curves and products, selected by the estimated error, beside linear terms and boosting.

    python -m benchmarks.peers.curves                 # all tables: half an hour on two cores
    python -m benchmarks.peers.curves --sets cars nox --splits 1
    python -m benchmarks.peers.curves --json benchmarks/results/curves.json
    python -m benchmarks.peers.curves --from benchmarks/results/curves.json --noise 200 \
        --json benchmarks/results/curves.json --page docs/results/curves.md

The second command adds data without any relation, and updates the page.

Each table of `datasets.py` is split into random halves. Each half is the training data once, and
the other half is predicted. Errors are mean absolute errors:

- **linear**: `TableEncoder` and `LADLasso`, with default parameters.
- **selected**: the same with ``curves="auto"``, ``products="auto"`` and
  ``transform_target="auto"``.
- **boosting**: scikit-learn's gradient-boosted trees for absolute error.
- **skrub**: the same in skrub's tabular pipeline, if skrub is installed.

The error that a fit promises, `best_risk_`, is compared with that on the other half: z is their
difference per standard error of both. Each fit uses one thread.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OrdinalEncoder

import steinpath as sp
from benchmarks.common.datasets import TABLES
from benchmarks.common.measuring import in_parallel, machine
from benchmarks.common.pages import filled

Record = dict[str, Any]
BOOSTING = partial(HistGradientBoostingRegressor, loss="absolute_error", random_state=0)
AUTO: dict[str, Any] = {"curves": "auto", "products": "auto"}


def boosting() -> Any:
    codes = OrdinalEncoder(
        handle_unknown="use_encoded_value",
        unknown_value=np.nan,
        min_frequency=2,
        max_categories=200,
    )
    texts = make_column_selector(dtype_exclude="number")
    return make_pipeline(
        make_column_transformer((codes, texts), remainder="passthrough"), BOOSTING()
    )


def methods() -> dict[str, Any]:
    found = {
        "linear": make_pipeline(sp.TableEncoder(), sp.LADLasso(random_state=0)),
        "selected": make_pipeline(
            sp.TableEncoder(**AUTO), sp.LADLasso(transform_target="auto", random_state=0)
        ),
        "boosting": boosting(),
    }
    if find_spec("skrub"):
        from skrub import tabular_pipeline

        found["skrub"] = tabular_pipeline(BOOSTING())
    return found


def measure(name: str, split: int) -> Record:
    """Return errors and times of all methods trained on one half of a table."""
    X, y = TABLES[name].frame()
    order = np.random.default_rng(split // 2).permutation(len(y))
    halves = order[: len(y) // 2], order[len(y) // 2 :]
    train, test = halves if split % 2 == 0 else halves[::-1]
    record: Record = {"table": name, "split": split, "n": len(train), "methods": {}}
    for label, model in methods().items():
        start = time.perf_counter()
        model.fit(X.iloc[train], y[train])
        seconds = time.perf_counter() - start
        losses = np.abs(y[test] - model.predict(X.iloc[test]))
        found: Record = {"seconds": seconds, "error": losses.mean()}
        found["stderr"] = losses.std(ddof=1) / np.sqrt(len(test))
        if hasattr(model[-1], "best_risk_"):
            found["promised"] = float(model[-1].best_risk_)
            found["promised_stderr"] = float(model[-1].best_risk_stderr_)
            found["features"] = int(model[-1].coef_.shape[0])
        if hasattr(model[-1], "levels_"):
            [found["terms"]] = [level.words for level in model[-1].levels_ if level.selected]
        record["methods"][label] = found
    return record


def measure_noise(seed: int) -> Record:
    """Return the promised error of data in which nothing can be predicted."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.standard_normal((200, 30)), columns=[f"x{k}" for k in range(30)])
    X.iloc[:, ::3], X.iloc[:, 1::3] = np.exp(X.iloc[:, ::3]), rng.integers(0, 8, (200, 10))
    model = make_pipeline(sp.TableEncoder(**AUTO), sp.LADLasso(random_state=0))
    fitted = model.fit(X, rng.standard_t(3, 200))[-1]
    names = "best_risk_", "best_risk_stderr_", "constant_risk_"
    return {name.strip("_"): float(getattr(fitted, name)) for name in names}


# ------------------------------------------------------------------------------------------------
# Tables of the page
# ------------------------------------------------------------------------------------------------


def ratio(record: Record, first: str, second: str) -> float:
    of = record["methods"]
    return float(of[first]["error"] / of[second]["error"])


def z_of(found: Record) -> float:
    spread = np.hypot(found["stderr"], found["promised_stderr"])
    return float((found["error"] - found["promised"]) / spread)


def by_table(records: list[Record]) -> dict[str, list[Record]]:
    tables: dict[str, list[Record]] = {}
    for record in records:
        tables.setdefault(record["table"], []).append(record)
    return tables


def errors(result: Record) -> str:
    """Return a line for each table: errors relative to boosting, averaged over the splits."""
    head = "| table | rows | linear | selected | skrub | terms selected | promised / error "
    head += "| seconds | / linear |"
    lines = [head, "|---|---|---|---|---|---|---|---|---|"]
    for name, some in by_table(result["records"]).items():
        each = [record["methods"] for record in some]
        shares = [
            f"{np.mean([ratio(record, label, 'boosting') for record in some]):.3f}"
            if label in each[0]
            else "–"
            for label in ("linear", "selected", "skrub")
        ]
        promised = np.mean([of["selected"]["promised"] / of["selected"]["error"] for of in each])
        seconds = np.mean([of["selected"]["seconds"] for of in each])
        times = np.mean([of["selected"]["seconds"] / of["linear"]["seconds"] for of in each])
        terms = " · ".join(dict.fromkeys(of["selected"]["terms"] for of in each))
        cells = [name, f"{some[0]['n']:,}", *shares, terms, f"{promised:.2f}"]
        lines.append(f"| {' | '.join([*cells, f'{seconds:.1f}', f'{times:.1f}'])} |")
    return "\n".join(lines)


def summary(result: Record) -> str:
    """Return how often the selected terms are behind or ahead, and how honest the errors are."""
    tables = by_table(result["records"]).values()
    means = {
        pair: np.array([np.mean([ratio(record, *pair) for record in some]) for some in tables])
        for pair in (("linear", "boosting"), ("selected", "boosting"), ("selected", "linear"))
    }
    count = len(tables)
    lines = ["| | linear | selected |", "|---|---|---|"]
    for what, most in (("at most 2% behind boosting", 1.02), ("ahead of boosting", 1.0)):
        pair = (means[label, "boosting"] <= most for label in ("linear", "selected"))
        lines.append(f"| {what} | {' | '.join(f'{each.sum()} of {count}' for each in pair)} |")
    behind = (means["selected", "linear"] > 1.01).sum()
    lines.append(f"| more than 1% behind linear terms | | {behind} of {count} |")
    z = {
        label: np.array([z_of(record["methods"][label]) for record in result["records"]])
        for label in ("linear", "selected")
    }
    within = (f"{np.mean(np.abs(each) <= 2):.1%}" for each in z.values())
    lines.append(
        f"| promised error within 2 s.e. of that on the other half | {' | '.join(within)} |"
    )
    spread = (f"{each.mean():+.2f}, {each.std():.2f}" for each in z.values())
    lines.append(f"| z: mean, s.d. | {' | '.join(spread)} |")
    geometric = (np.exp(np.log(means[k, "boosting"]).mean()) for k in ("linear", "selected"))
    cells = " | ".join(f"{each:.3f}" for each in geometric)
    lines.append(f"| error / that of boosting, geometric mean | {cells} |")
    times = [
        np.mean(
            [r["methods"]["selected"]["seconds"] / r["methods"]["linear"]["seconds"] for r in t]
        )
        for t in tables
    ]
    cells = f"{np.median(times):.1f}, {max(times):.1f}"
    lines.append(f"| time / that of linear terms: median, largest | | {cells} |")
    return "\n".join(lines)


def noise(result: Record) -> str:
    """Return how often the error of pure noise is promised to be below that of a constant."""
    found = result["noise"]
    gaps = np.array([(x["best_risk"] - x["constant_risk"]) / x["best_risk_stderr"] for x in found])
    share = f"{np.sum(gaps < -1)} of {len(gaps)} data sets"
    return f"The promised error is below that of a constant by more than its s.e. in {share}."


PARTS: dict[str, Callable[[Any], str]] = {"errors": errors, "summary": summary, "noise": noise}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    usual = [name for name, table in TABLES.items() if not table.large]
    parser.add_argument("--sets", nargs="*", default=usual, choices=[*TABLES], metavar="NAME")
    parser.add_argument("--splits", type=int, default=2, help="halves that are trained on")
    parser.add_argument("--noise", type=int, default=0, help="data sets of pure noise")
    parser.add_argument("--jobs", type=int, default=1, help="fits at a time")
    parser.add_argument("--json", type=Path, help="write the results to this file")
    parser.add_argument("--from", type=Path, dest="known", help="read results from this file")
    parser.add_argument("--page", type=Path, help="update the tables of this page")
    options = parser.parse_args()
    if options.known:
        result = json.loads(options.known.read_text(encoding="utf-8"))
    else:
        calls = [(name, split) for name in options.sets for split in range(options.splits)]
        result = {"machine": machine(), "records": in_parallel(measure, calls, options.jobs)}
    if options.noise or "noise" not in result:
        seeds = [(seed,) for seed in range(options.noise)]
        result["noise"] = in_parallel(measure_noise, seeds, options.jobs)
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    for name, part in PARTS.items():
        if result["noise" if name == "noise" else "records"]:
            print(part(result), end="\n\n")
    if options.page:
        text = options.page.read_text(encoding="utf-8")
        options.page.write_text(filled(text, PARTS, result), encoding="utf-8")


if __name__ == "__main__":
    main()
