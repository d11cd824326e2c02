"""``steinpath bench``: what the risk of every iterate costs on this machine, beside its rivals."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import click
import numpy as np

from steinpath._support.progress import Clock
from steinpath.engine._path import Path
from steinpath.engine._run import run
from steinpath.problem._losses import LAD
from steinpath.problem._penalties import Lasso
from steinpath.risk._estimate import estimate_risk
from steinpath.risk._validation import cross_validate_path
from steinpath.simulate import paper_model


@click.command()
@click.option("--n", default=1000, show_default=True, type=click.IntRange(20), help="Observations.")
@click.option("--p", default=500, show_default=True, type=click.IntRange(1), help="Features.")
@click.option("--iters", default=300, show_default=True, type=click.IntRange(2), help="Iterations.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0), help="Random seed.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def bench(n: int, p: int, iters: int, seed: int, as_json: bool) -> None:
    """Time risk estimates and cross-validation on this machine.

    LAD–lasso on simulated data whose true risk is known. `make bench` in a checkout compares many
    more.
    """
    from steinpath.app.cli.display import make_console, make_table

    rows = _measure(n, p, iters, seed)
    if as_json:
        click.echo(json.dumps({"n": n, "p": p, "iters": iters, "seed": seed, "rows": rows}))
        return
    table = make_table("", "seconds", "× the path", "error", left=1)
    for row in rows:
        error = "" if row["error"] is None else f"{row['error']:.3f}"
        table.add_row(row["what"], f"{row['seconds']:.3f}", f"{row['ratio']:.1f}", error)
    console = make_console()
    console.print(f"LAD–lasso, n={n}, p={p}, {iters} iterations, seed {seed}")
    console.print(table)
    console.print("The error is the root mean square over the iterates, against the true risk.")


def _measure(n: int, p: int, iters: int, seed: int) -> list[dict[str, Any]]:
    model = paper_model(p, noise="t2")
    X, y = model.sample(n, rng=seed)

    def run_once() -> Path:
        return run(X, y, LAD(), Lasso(0.5), n_iter=iters)

    path, alone = _timed(run_once)
    truth = model.risk(path.coef, "absolute")
    rivals: dict[str, Callable[[], Any]] = {
        "steinpath": lambda: estimate_risk(path, method="compressed", rng=seed).values,
        "steinpath, audited": lambda: (
            estimate_risk(path, method="compressed", audit=32, rng=seed).values
        ),
        "5 folds of the path": lambda: cross_validate_path(path, cv=5, rng=seed).values,
        "10 folds of the path": lambda: cross_validate_path(path, cv=10, rng=seed).values,
    }
    rows = [{"what": "the path alone", "seconds": alone, "ratio": 1.0, "error": None}]
    for what, estimate in rivals.items():
        values, seconds = _timed(estimate)
        error = float(np.sqrt(np.mean((values - truth) ** 2)))
        rows.append({"what": what, "seconds": seconds, "ratio": seconds / alone, "error": error})
    return rows


def _timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """Return a result, and the time that it took: the shorter of two."""
    seconds = []
    for _ in range(2):
        clock = Clock()
        result = work()
        seconds.append(max(clock(), 1e-9))  # it divides, even where the clock went back
    return result, min(seconds)
