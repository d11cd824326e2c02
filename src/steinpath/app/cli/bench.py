"""``steinpath bench``: time of risk estimation on this machine, compared with cross-validation."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import click

from steinpath.app.cli.declare import FLAG, declared, iterations, number, simulated


@click.command()
@simulated(n=number(20, 1000), p=number(1, 500), n_iter=iterations(2, 300))
@declared("--json  Print the result as JSON.", json={"name": "as_json", **FLAG})
def bench(n: int, p: int, n_iter: int, seed: int, as_json: bool) -> None:
    """Time risk estimates and cross-validation on this machine.

    Fits a LAD–lasso on simulated data with known true risk. For a comparison with other packages,
    use `make bench` in a checkout.
    """
    from steinpath.app.cli.display import make_console, print_table

    rows = _measure(n, p, n_iter, seed)
    if as_json:
        click.echo(json.dumps({"n": n, "p": p, "iters": n_iter, "seed": seed, "rows": rows}))
        return
    console = make_console()
    console.print(f"LAD–lasso, n={n}, p={p}, {n_iter} iterations, seed {seed}")
    cells = (
        (what, f"{seconds:.3f}", f"{ratio:.1f}", "" if error is None else f"{error:.3f}")
        for what, seconds, ratio, error in (row.values() for row in rows)
    )
    print_table(console, ["", "seconds", "relative to the path", "RMS error"], cells, left=1)
    console.print("RMS error: root mean square difference from the true risk over all iterations.")


def _measure(n: int, p: int, n_iter: int, seed: int) -> list[dict[str, Any]]:
    import numpy as np

    from steinpath.engine._run import run
    from steinpath.problem._losses import LAD
    from steinpath.problem._penalties import Lasso
    from steinpath.risk._estimate import estimate_risk
    from steinpath.risk._leave_out import cross_validate_path
    from steinpath.simulate import paper_model

    model = paper_model(p, noise="t2")
    X, y = model.sample(n, rng=seed)

    path, alone = _timed(lambda: run(X, y, LAD(), Lasso(0.5), n_iter=n_iter))
    truth = model.risk(path.coef, "absolute")
    estimate = partial(estimate_risk, path, method="compressed", rng=seed)
    validate = partial(cross_validate_path, path, rng=seed)
    methods: dict[str, Callable[[], Any]] = {
        "steinpath": estimate,
        "steinpath, audited": partial(estimate, audit=32),
        "5-fold cross-validation": partial(validate, cv=5),
        "10-fold cross-validation": partial(validate, cv=10),
    }
    rows = [{"what": "path only", "seconds": alone, "ratio": 1.0, "error": None}]
    for what, method in methods.items():
        found, seconds = _timed(method)
        error = float(np.sqrt(np.mean((found.values - truth) ** 2)))
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
