r"""Growth of cost with rows, columns, iterations, batched penalties and Dask workers.

    python -m benchmarks.speed.growth --quick             # tiny sizes, half a minute
    python -m benchmarks.speed.growth --json benchmarks/results/growth.json --figures docs/pictures
    python -m benchmarks.speed.growth --from benchmarks/results/growth.json \
        --page docs/results/cost.md

The second command measures two decades of each quantity in under ten minutes; the third updates the
tables of the page.

One quantity varies at a time, the others are as in `Configuration`: LAD–lasso on the paper's model
with Student-t₂ noise, at a tenth of the smallest penalty with all coefficients zero. Each time is
the shortest of several:

- **path**: `run`, including the norm of X for the step sizes; several penalties with `run_batch`.
- **risk** of all iterates: `estimate_risk` with the default choice of the number of probes.
- **audit**: the same with exact leave-one-out runs of 32 rows.
- **tune**: twenty penalties from the smallest with all coefficients zero to a hundredth of it, with
  as many iterations as the path.

Each time is shown with its *limit*: the time of the products with X alone, at the rates measured on
this machine in the same run. Every iteration reads X twice. The limit is the larger of two times:
reading X in each pass, at the rate of reading a vector of the size of X (from the cache if it
fits); and 4 n p operations per iteration and column, at the rate of a large matrix product of that
precision. A path has one column; its risk has one per probe or left-out row, in single precision;
an audit has 32 more. For `tune`, the limit is that of its paths only. The risk multiplies only
active rows and columns where possible, and may be below its limit.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import warnings
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import steinpath as sp
from benchmarks.common.measuring import Record, machine, steady_seconds
from benchmarks.common.pages import filled
from benchmarks.scale.cluster import draw_block
from steinpath._support.charts import BLUE, GREEN, ORANGE, PURPLE

AUDITED, SHARE, LAM_RATIO = 32, 0.1, 0.01
WORKERS = "Dask workers"
COLOURS = {"path": BLUE, "risk": ORANGE, "audit": PURPLE, "tune": GREEN}
OPERATIONS = tuple(COLOURS)


class Configuration(NamedTuple):
    """Default sizes."""

    n: int = 1000
    p: int = 200
    n_iter: int = 300
    members: int = 0  # batched penalties; 0: a single path, and twenty penalties for `tune`


class Sweep(NamedTuple):
    """A quantity, and its values."""

    name: str
    field: str  # of Configuration
    sizes: tuple[int, ...]
    operations: tuple[str, ...] = OPERATIONS


SWEEPS = (
    Sweep("rows n", "n", (100, 300, 1000, 3000, 10_000)),
    Sweep("columns p", "p", (20, 60, 200, 600, 2000)),
    Sweep("iterations T", "n_iter", (30, 100, 300, 1000, 3000)),
    Sweep("penalties", "members", (1, 3, 10, 30, 100), ("path", "risk", "tune")),
)
QUICK = tuple(sweep._replace(sizes=sweep.sizes[:2]) for sweep in SWEEPS)
QUICK_CONFIGURATION = Configuration(n=100, p=20, n_iter=30)


# ------------------------------------------------------------------------------------------------
# Rates of the machine
# ------------------------------------------------------------------------------------------------


class Rates:
    """Bytes and operations per second of this machine."""

    def __init__(self, side: int, enough: float):
        self.enough = enough
        self.flops = {name: matmul_rate(side, name, enough) for name in ("float64", "float32")}
        self._reading: dict[int, float] = {}

    def reading(self, n_bytes: int) -> float:
        """Return bytes per second of reading a vector of this size, up to the next power of two.

        Sizes below 128 kB use the rate of 128 kB, because calls would take longer than reading.
        """
        power = max(17, round(math.log2(n_bytes)))
        if power not in self._reading:
            self._reading[power] = reading_rate(2**power, self.enough)
        return self._reading[power]

    def limit(self, setting: Configuration, columns: int, dtype: str) -> float:
        """Return the seconds of the products with X alone."""
        size = np.dtype(dtype).itemsize * setting.n * setting.p
        reading = 2 * setting.n_iter * size / self.reading(size)
        computing = 4 * setting.n_iter * setting.n * setting.p * columns / self.flops[dtype]
        return float(max(reading, computing))


def matmul_rate(side: int, dtype: str, enough: float) -> float:
    """Return operations per second of a product of square matrices."""
    A = np.ones((side, side), dtype)
    return 2 * side**3 / steady_seconds(lambda: A @ A, enough)[0]


def reading_rate(n_bytes: int, enough: float) -> float:
    """Return bytes per second of inner products of a vector with itself, reading 100 MB."""
    x = np.ones(n_bytes // 8)
    times = max(1, 10**8 // n_bytes)

    def read() -> None:
        for _ in range(times):
            x.dot(x)

    return times * n_bytes / steady_seconds(read, enough)[0]


# ------------------------------------------------------------------------------------------------
# One machine
# ------------------------------------------------------------------------------------------------


def data(setting: Configuration) -> tuple[np.ndarray, np.ndarray, float]:
    """Draw a sample; return it with the smallest penalty with all coefficients zero."""
    X, y = sp.simulate.paper_model(setting.p, "t2").sample(setting.n, rng=0)
    return X, y, sp.lam_max(X, y, sp.LAD(), sp.Lasso(1.0))


def measure(
    setting: Configuration, operations: Iterable[str], rates: Rates, enough: float
) -> list[Record]:
    """Time the operations at one configuration, each with its limit."""
    timed = partial(steady_seconds, enough=enough)
    X, y, largest = data(setting)
    members = max(1, setting.members)
    penalties = setting.members or 20
    grid: Any = largest * np.array([SHARE])
    if penalties > 1:
        grid = largest * np.geomspace(1, LAM_RATIO, penalties)
    tune = partial(sp.tune, X, y, sp.LAD(), sp.Lasso, grid, setting.n_iter, rng=0)
    run: Callable[..., Any]
    if setting.members:
        run = partial(sp.run_batch, X, y, sp.LAD(), sp.Lasso(grid))
    else:
        run = partial(sp.run, X, y, sp.LAD(), sp.Lasso(SHARE * largest))
    of_path, path = timed(partial(run, n_iter=setting.n_iter))
    estimate: Callable[..., Any] = sp.estimate_risk_batch if setting.members else sp.estimate_risk
    of_risk, risk = timed(partial(estimate, path, rng=0))
    risks = risk if setting.members else [risk]
    # each left-out row is a run, each probe a tangent
    columns = sum(setting.n if each.method == "loo" else each.n_probes for each in risks)
    about = setting._asdict() | {"method": risks[0].method, "columns": columns}
    found = {
        "path": (of_path, rates.limit(setting, members, "float64")),
        "risk": (of_risk, rates.limit(setting, columns, "float32")),
    }
    if "audit" in operations:
        audit = partial(sp.estimate_risk, path, audit=AUDITED, rng=0)
        limit = rates.limit(setting, columns + AUDITED, "float32")
        found["audit"] = timed(audit)[0], limit
    found["tune"] = timed(tune)[0], rates.limit(setting, penalties, "float64")
    return [
        {"operation": name, "seconds": took, "limit": limit, **about}
        for name, (took, limit) in found.items()
    ]


def sweep_all(
    sweeps: Iterable[Sweep], base: Configuration, rates: Rates, enough: float
) -> list[Record]:
    """Measure all values of all quantities."""
    records = []
    for sweep in sweeps:
        for size in sweep.sizes:
            setting = base._replace(**{sweep.field: size})
            found = measure(setting, sweep.operations, rates, enough)
            records += [{"quantity": sweep.name, "size": size} | record for record in found]
            times = ", ".join(f"{r['operation']} {r['seconds']:.3g} s" for r in found)
            print(f"  {sweep.name} = {size}: {times}", flush=True)
    return records


# ------------------------------------------------------------------------------------------------
# Dask workers
# ------------------------------------------------------------------------------------------------


def worker_records(counts: Iterable[int], setting: Configuration, rates: Rates) -> list[Record]:
    """Time paths and risks on several local workers with one thread each."""
    from distributed import Client, LocalCluster

    records = []
    for count in counts:
        sizes = [len(part) for part in np.array_split(np.arange(setting.n), count)]
        loaders = [partial(draw_block, seed, size, setting.p) for seed, size in enumerate(sizes)]
        y = np.random.default_rng(0).standard_t(2, setting.n)
        start = {"n_workers": count, "threads_per_worker": 1, "dashboard_address": "127.0.0.1:0"}
        with LocalCluster(**start) as cluster, Client(cluster):
            design = sp.distributed.from_delayed(loaders)
            run = partial(sp.run, design, y, sp.LAD(), sp.Lasso(0.1))
            run(n_iter=1)  # computes the norm of X, once per design
            of_path, path = steady_seconds(partial(run, n_iter=setting.n_iter), enough=3)
            estimate = partial(sp.estimate_risk, path, method="compressed", rng=0)
            of_risk, risk = steady_seconds(estimate, enough=3)
            del path
        found = {
            "path": (of_path, rates.limit(setting, 1, "float64")),
            "risk": (of_risk, rates.limit(setting, risk.n_probes, "float32")),
        }
        for name, (took, limit) in found.items():
            record = {"operation": name, "seconds": took, "limit": limit, **setting._asdict()}
            record |= {"method": risk.method, "columns": risk.n_probes}
            records.append({"quantity": WORKERS, "size": count} | record)
        print(f"  {count} workers: path {of_path:.3g} s, risk {of_risk:.3g} s", flush=True)
    return records


# ------------------------------------------------------------------------------------------------
# Tables
# ------------------------------------------------------------------------------------------------


def curves(records: list[Record], quantity: str) -> dict[str, np.ndarray]:
    """Return sizes, seconds and limits of each operation."""
    found: dict[str, list[tuple[float, float, float]]] = {}
    for r in records:
        if r["quantity"] == quantity:
            found.setdefault(r["operation"], []).append((r["size"], r["seconds"], r["limit"]))
    return {name: np.array(sorted(rows)).T for name, rows in found.items()}


def exponent(sizes: np.ndarray, values: np.ndarray) -> float:
    """Return the least-squares slope of log values over log sizes in the largest decade."""
    last = sizes >= sizes.max() / 10
    return float(np.polyfit(np.log(sizes[last]), np.log(values[last]), 1)[0])


def quantities(found: Record) -> list[str]:
    """Return all quantities except the workers, in order."""
    names = dict.fromkeys(r["quantity"] for r in found["records"])
    return [name for name in names if name != WORKERS]


def exponents_table(found: Record) -> str:
    lines = [
        "| quantity | range | path | risk | audit | tune |",
        "|---|---|---|---|---|---|",
    ]
    for quantity in quantities(found):
        all_curves = curves(found["records"], quantity)
        sizes = next(iter(all_curves.values()))[0]
        cells = [
            f"{exponent(*all_curves[name][:2]):.2f} ({exponent(*all_curves[name][[0, 2]]):.2f})"
            if name in all_curves
            else "–"
            for name in OPERATIONS
        ]
        lines.append(f"| {quantity} | {sizes[0]:.0f} to {sizes[-1]:.0f} | {' | '.join(cells)} |")
    return "\n".join(lines)


def seconds_table(found: Record) -> str:
    lines = [
        "| setting | path | risk | audit | tune |",
        "|---|---|---|---|---|",
    ]
    for quantity in quantities(found):
        all_curves = curves(found["records"], quantity)
        sizes = next(iter(all_curves.values()))[0]
        for k in (0, -1):
            cells = {
                name: f"{took[k]:.2g} s, {took[k] / limit[k]:.1f}×"
                for name, (_, took, limit) in all_curves.items()
            }
            row = " | ".join(cells.get(name, "–") for name in OPERATIONS)
            lines.append(f"| {quantity} = {sizes[k]:.0f} | {row} |")
    return "\n".join(lines)


def workers_table(found: Record) -> str:
    lines = [
        "| workers | path, ms per iteration | risk, ms per iteration |",
        "|---|---|---|",
    ]
    records = [r for r in found["records"] if r["quantity"] == WORKERS]
    for count in dict.fromkeys(r["size"] for r in records):
        cells = [f"{1e3 * r['seconds'] / r['n_iter']:.0f}" for r in records if r["size"] == count]
        lines.append(f"| {count} | {' | '.join(cells)} |")
    return "\n".join(lines)


def measured_line(found: Record) -> str:
    """Return the date and the machine of the measurements."""
    on, rates = found["machine"], found["rates"]
    memory = rates["reading"][max(rates["reading"], key=int)]
    cache = max(rates["reading"].values())
    threads = "one thread" if on["threads"] == 1 else f"{on['threads']} threads"
    return (
        f"Measured {on['date']} on {on['cores']} cores, {on['processor']}, {threads}, NumPy "
        f"{on['numpy']}. This machine reads {memory / 1e9:.1f} GB/s from memory and up to "
        f"{cache / 1e9:.0f} GB/s from its cache, and multiplies matrices at "
        f"{rates['flops']['float64'] / 1e9:.0f} Gflop/s in double and "
        f"{rates['flops']['float32'] / 1e9:.0f} Gflop/s in single precision."
    )


PARTS: dict[str, Callable[[Record], str]] = {
    "measured": measured_line,
    "exponents": exponents_table,
    "seconds": seconds_table,
    "workers": workers_table,
}


# ------------------------------------------------------------------------------------------------
# Figures
# ------------------------------------------------------------------------------------------------


def spread(heights: np.ndarray, least: float) -> np.ndarray:
    """Move heights apart until each is at least ``least`` above the one below it."""
    order = np.argsort(heights)
    moved = np.array(heights, dtype=float)
    for below, above in itertools.pairwise(order):
        moved[above] = max(moved[above], moved[below] + least)
    return moved


def draw(found: Record, folder: Path) -> list[Path]:
    """Draw a figure for each quantity: seconds as solid lines, limits as dashed lines."""
    import matplotlib as mpl
    import matplotlib.pyplot as plt
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    style: Any = {"font.size": 10, "axes.spines.top": False, "axes.spines.right": False}
    written = []
    for quantity in dict.fromkeys(r["quantity"] for r in found["records"]):
        all_curves = curves(found["records"], quantity)
        with mpl.rc_context(style):
            figure, ax = plt.subplots(figsize=(6.4, 3.8), layout="constrained")
            for name, (sizes, took, limit) in all_curves.items():
                ax.loglog(sizes, took, "o-", ms=4, color=COLOURS[name])
                ax.loglog(sizes, limit, "--", lw=0.9, color=COLOURS[name])
            values = np.concatenate([rows[1:].ravel() for rows in all_curves.values()])
            # equal decades, so that slopes are comparable between figures
            bottom, top = np.floor(np.log10(values.min())), np.ceil(np.log10(values.max()))
            ax.set_ylim(10**bottom, 10**top)
            ends = np.log10([rows[1, -1] for rows in all_curves.values()])
            heights = spread(ends, 0.055 * (top - bottom))
            for name, height in zip(all_curves, heights, strict=True):
                ax.annotate(
                    name,
                    (sizes[-1], 10**height),
                    xytext=(8, 0),
                    textcoords="offset points",
                    color=COLOURS[name],
                    va="center",
                )
            ax.plot([], [], "o-", ms=4, color="black", label="measured")
            ax.plot([], [], "--", lw=0.9, color="black", label="limit: products with X alone")
            ax.legend(frameon=False, loc="lower left", bbox_to_anchor=(0, 1), ncols=2)
            ax.xaxis.set_minor_locator(NullLocator())
            ax.set_xticks(sizes, [f"{size:,.0f}" for size in sizes])
            ax.yaxis.set_major_locator(LogLocator(numticks=12))
            ax.yaxis.set_minor_locator(NullLocator())
            ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: in_words(value)))
            ax.set(xlabel=quantity)
            ax.grid(axis="y", lw=0.4, alpha=0.6)
            path = folder / f"growth-{quantity.split()[0].lower()}.png"
            figure.savefig(path, dpi=130, metadata={"Software": None})
            plt.close(figure)
        written.append(path)
    return written


def in_words(seconds: float) -> str:
    """Return a time as 10 s, 10 ms or 10 µs."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= 0.999 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds / 1e-6:.0f} µs"


# ------------------------------------------------------------------------------------------------
# The run
# ------------------------------------------------------------------------------------------------


def run(quick: bool, workers: bool) -> Record:
    """Run all measurements."""
    enough = 0.01 if quick else 0.5  # seconds per measurement
    rates = Rates(200 if quick else 2000, enough)
    rates.reading(2**20 if quick else 2**28)  # from memory
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about small samples: only times matter here
        if quick:
            records = sweep_all(QUICK, QUICK_CONFIGURATION, rates, enough)
        else:
            records = sweep_all(SWEEPS, Configuration(), rates, enough)
        if workers:
            setting = Configuration(400, 20, 5) if quick else Configuration(20_000, 1000, 30)
            records += worker_records((1, 2) if quick else (1, 2, 4), setting, rates)
    reading = {str(2**power): rate for power, rate in sorted(rates._reading.items())}
    return {
        "machine": machine(),
        "rates": {"flops": rates.flops, "reading": reading},
        "records": records,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="use tiny sizes")
    parser.add_argument("--no-workers", action="store_true", help="skip the Dask workers")
    parser.add_argument("--json", type=Path, help="write the results to this file")
    parser.add_argument("--figures", type=Path, help="folder for the figures")
    parser.add_argument("--from", type=Path, dest="source", help="show stored results, run nothing")
    parser.add_argument("--page", type=Path, help="page whose tables to update")
    options = parser.parse_args()
    if options.source:
        found = json.loads(options.source.read_text(encoding="utf-8"))
    else:
        found = run(options.quick, not options.no_workers)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    for name, table in PARTS.items():
        if name != "workers" or not options.no_workers:
            print(f"\n{table(found)}")
    if options.figures:
        draw(found, options.figures)
    if options.page:
        text = options.page.read_text(encoding="utf-8")
        options.page.write_text(filled(text, PARTS, found), encoding="utf-8")


if __name__ == "__main__":
    main()
