"""``steinpath demo`` and ``steinpath bench``, on simulated data with known true risk."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import click

from steinpath.app.cli.commands import FLAG, declared, iterations, number, simulated


@click.command()
@simulated(n=number(2, 600), p=number(1, 300), n_iter=iterations(1, 200))
@declared(
    "--plot  Save a plot to this file (.png, .pdf or .svg).",
    plot={"type": click.Path(dir_okay=False, writable=True)},
)
def demo(n: int, p: int, n_iter: int, seed: int, plot: str | None) -> None:
    """Compare estimated and true risk on simulated data."""
    import numpy as np

    from steinpath._support.printing import with_error
    from steinpath.app.cli.console import make_console, print_table, print_warnings, say
    from steinpath.app.cli.outputs import drawing
    from steinpath.plots import check_ending, plot_risk, save

    if plot:
        try:
            check_ending(plot)
        except ValueError as error:
            raise click.BadParameter(str(error), param_hint="'--plot'") from None
    console = make_console()
    console.print(f"LAD–lasso, Student-t₂ noise, n={n}, p={p}, {n_iter} iterations, seed {seed}")
    path, risk, truth = lad_lasso_demo(n, p, n_iter, seed)
    best = risk.best_iter
    head = "iteration", "training error", "estimated risk", "± s.e.", "true risk", "nonzeros"
    # denser at the start
    shown = sorted({0, best, *np.geomspace(1, n_iter, 12).round().astype(int).tolist()})
    columns = risk.train, risk.values, risk.stderr, truth
    rows = [
        (f"{t}", *(f"{values[t]:.3f}" for values in columns), f"{(path.coef[t] != 0).sum()}")
        for t in shown
    ]
    print_table(console, head, rows, bold=shown.index(best))
    estimated = with_error(risk.values[best], risk.stderr[best])
    console.print(
        f"Selected iteration {best}: estimated risk {estimated}, true risk {truth[best]:.3f}. "
        f"Smallest true risk: {truth.min():.3f} at iteration {truth.argmin()}."
    )
    print_warnings(console, map(str, risk.warnings))
    if plot:
        with drawing():
            save(plot_risk(risk, true_risk=truth), plot)
        say(console, f"Plot saved to {plot}")


def lad_lasso_demo(n: int, p: int, n_iter: int = 200, seed: int = 0) -> tuple[Any, Any, Any]:
    """Run LAD–lasso with the settings of the paper; return the path, its risk and the true risk."""
    from numpy.random import default_rng

    from steinpath.algorithms._family import ChambollePock
    from steinpath.engine._run import run
    from steinpath.problem._losses import LAD
    from steinpath.problem._penalties import Lasso
    from steinpath.risk._estimate import estimate_risk
    from steinpath.simulate import paper_model

    rng = default_rng(seed)
    model = paper_model(p, noise="t2")
    path = run(*model.sample(n, rng), LAD(), Lasso(0.5), ChambollePock(0.1, 0.1, 0.5), n_iter)
    return path, estimate_risk(path, audit=32, rng=rng), model.risk(path.coef, "absolute")


@click.command()
@simulated(n=number(20, 1000), p=number(1, 500), n_iter=iterations(2, 300))
@declared("--json  Print the result as JSON.", json={"name": "as_json", **FLAG})
def bench(n: int, p: int, n_iter: int, seed: int, as_json: bool) -> None:
    """Time risk estimates and cross-validation on this machine.

    Fits a LAD–lasso on simulated data with known true risk. For a comparison with other packages,
    use `make bench` in a checkout.
    """
    from steinpath.app.cli.console import make_console, print_table

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
        risk, seconds = _timed(method)
        error = float(np.sqrt(np.mean((risk.values - truth) ** 2)))
        rows.append({"what": what, "seconds": seconds, "ratio": seconds / alone, "error": error})
    return rows


def _timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """Return a result and the shorter of two running times."""
    seconds = []
    for _ in range(2):
        start = time.perf_counter()
        result = work()
        seconds.append(time.perf_counter() - start)
    return result, min(seconds)
