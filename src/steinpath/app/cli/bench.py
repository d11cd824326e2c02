"""``steinpath bench``: time of risk estimation on this machine, compared with cross-validation."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from steinpath.app.cli.renamed import n_iter_option

if TYPE_CHECKING:
    from steinpath.engine._path import Path


@click.command()
@click.option(
    "--n", default=1000, show_default=True, type=click.IntRange(20), help="Number of observations."
)
@click.option(
    "--p", default=500, show_default=True, type=click.IntRange(1), help="Number of features."
)
@n_iter_option(
    default=300,
    show_default=True,
    type=click.IntRange(2),
    help="Number of iterations.",
)
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0), help="Random seed.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def bench(n: int, p: int, n_iter: int, seed: int, as_json: bool) -> None:
    """Time risk estimates and cross-validation on this machine.

    Fits a LAD–lasso on simulated data with known true risk. For a comparison with other packages,
    use `make bench` in a checkout.
    """
    from steinpath.app.cli.display import make_console, make_table

    rows = _measure(n, p, n_iter, seed)
    if as_json:
        click.echo(json.dumps({"n": n, "p": p, "iters": n_iter, "seed": seed, "rows": rows}))
        return
    table = make_table("", "seconds", "relative to the path", "RMS error", left=1)
    for row in rows:
        error = "" if row["error"] is None else f"{row['error']:.3f}"
        table.add_row(row["what"], f"{row['seconds']:.3f}", f"{row['ratio']:.1f}", error)
    console = make_console()
    console.print(f"LAD–lasso, n={n}, p={p}, {n_iter} iterations, seed {seed}")
    console.print(table)
    console.print("RMS error: root mean square difference from the true risk over all iterations.")


def _measure(n: int, p: int, n_iter: int, seed: int) -> list[dict[str, Any]]:
    import numpy as np

    from steinpath.engine._run import run
    from steinpath.problem._losses import LAD
    from steinpath.problem._penalties import Lasso
    from steinpath.risk._estimate import estimate_risk
    from steinpath.risk._validation import cross_validate_path
    from steinpath.simulate import paper_model

    model = paper_model(p, noise="t2")
    X, y = model.sample(n, rng=seed)

    def run_once() -> Path:
        return run(X, y, LAD(), Lasso(0.5), n_iter=n_iter)

    path, alone = _timed(run_once)
    truth = model.risk(path.coef, "absolute")
    methods: dict[str, Callable[[], Any]] = {
        "steinpath": lambda: estimate_risk(path, method="compressed", rng=seed).values,
        "steinpath, audited": lambda: (
            estimate_risk(path, method="compressed", audit=32, rng=seed).values
        ),
        "5-fold cross-validation": lambda: cross_validate_path(path, cv=5, rng=seed).values,
        "10-fold cross-validation": lambda: cross_validate_path(path, cv=10, rng=seed).values,
    }
    rows = [{"what": "path only", "seconds": alone, "ratio": 1.0, "error": None}]
    for what, estimate in methods.items():
        values, seconds = _timed(estimate)
        error = float(np.sqrt(np.mean((values - truth) ** 2)))
        rows.append({"what": what, "seconds": seconds, "ratio": seconds / alone, "error": error})
    return rows


def _timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """Return a result and the shorter of two running times."""
    from steinpath._support.progress import Clock

    seconds = []
    for _ in range(2):
        clock = Clock()
        result = work()
        seconds.append(max(clock(), 1e-9))  # positive, even if the clock was set back
    return result, min(seconds)
