"""Time on a device: large problems, batches of small ones, tuning, and estimators.

    python -m benchmarks.scale.device --device cuda --json benchmarks/results/device.json

*Algorithms*: one path of the paper's model at n = 2000, p = 1000, and its risk, with
`ChambollePock` and with `HalpernPDHG`, the default of `tune`. *Large*: one problem that fills the
device (100,000 × 20,000 by default): seconds of a path and of its risk, their ratio, and the error
of the estimate. *Batches*: the paper's model at n = 2000,
p = 1000, in batches of 1, 10 and 100 replications: milliseconds per replication of the path and of
each estimator. *Tune*: `sp.tune` and `best_risk` on the paper's model and on the large problem.
*Estimators*: fits of `LADLasso` and `LogisticLasso` to tensors on the device, and to NumPy arrays
on the CPU. Each runs once beforehand as a warm-up. ``--parts`` selects parts.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import time
import warnings
from collections.abc import Callable
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
import torch

import steinpath as sp
from benchmarks.common.measuring import machine
from steinpath.study._replicate import draw_batch
from steinpath.study._scenarios import model_of
from steinpath.study._settings import ALGORITHM, LOSSES, PENALTIES, Configuration

LARGE = (("lad", "lasso"), ("square_root", "lasso"), ("lad", "ridge"))
BATCHES = (("lad", "lasso"), ("lad", "ridge"), ("square_root", "lasso"), ("square_root", "ridge"))


def timed(device: torch.device, call: Callable[..., Any], *arguments: Any) -> tuple[float, Any]:
    """Return the seconds of a call and its result, after synchronising the device."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    start = time.perf_counter()
    result = call(*arguments)
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter() - start, result


def algorithms(n: int, p: int, iters: int, device: torch.device) -> list[Any]:
    """Time one path and its risk for several algorithms: the shortest of three."""
    drawn = sp.simulate.paper_model(p, noise="t2").sample(n, rng=0)
    X, y = (torch.asarray(each, dtype=torch.float64, device=device) for each in drawn)
    rows = []
    for name, algorithm in (
        ("ChambollePock", sp.ChambollePock()),
        ("HalpernPDHG", sp.HalpernPDHG()),
    ):

        def path(n_iter: int, algorithm: Any = algorithm) -> sp.Path:
            return sp.run(X, y, sp.LAD(), sp.Lasso(0.3), algorithm, n_iter)

        def risk(path: sp.Path) -> sp.Risk:
            return sp.estimate_risk(path, method="compressed", rng=0)

        risk(path(5))
        seconds, found = min((timed(device, path, iters) for _ in range(3)), key=itemgetter(0))
        more, _ = min((timed(device, risk, found) for _ in range(3)), key=itemgetter(0))
        name = type(algorithm).__name__
        row = {"part": "algorithms", "algorithm": name, "n": n, "p": p, "iters": iters}
        rows.append(row | {"path seconds": seconds, "risk seconds": more})
        print(rows[-1], flush=True)
    return rows


def large(n: int, p: int, iters: int, dtype: torch.dtype, device: torch.device) -> list[Any]:
    """Time one large problem for several pairs."""
    generator = torch.Generator(device).manual_seed(0)
    X = torch.randn((n, p), dtype=dtype, device=device, generator=generator)
    coef = torch.zeros(p, dtype=dtype, device=device)
    coef[: p // 10] = math.sqrt(2 / (p // 10))
    y = X @ coef + torch.randn(n, dtype=dtype, device=device, generator=generator)
    rows = []
    for loss, penalty in LARGE:

        def path(n_iter: int, loss: str = loss, penalty: str = penalty) -> sp.Path:
            return sp.run(X, y, LOSSES[loss], PENALTIES[penalty], ALGORITHM, n_iter)

        def risk(path: sp.Path) -> sp.Risk:
            return sp.estimate_risk(path, method="compressed", rng=0)

        risk(path(5))
        seconds, found = timed(device, path, iters)
        more, estimate = timed(device, risk, found)
        spread = torch.sum((found.coef - coef) ** 2, dim=1) + 1  # of the prediction error
        truth = spread if loss == "square_root" else torch.sqrt(2 / torch.pi * spread)
        row = {
            "part": "large",
            "pair": f"{loss}–{penalty}",
            "n": n,
            "p": p,
            "dtype": str(dtype).removeprefix("torch."),
            "GB": X.nbytes / 1e9,
            "iters": iters,
            "path seconds": seconds,
            "risk seconds": more,
            "ratio": more / seconds,
            "probes": estimate.n_probes,
            "largest error": float(torch.max(torch.abs(estimate.values / truth - 1))),
        }
        rows.append(row)
        print(row, flush=True)
        del found, estimate
    return rows


def batches(n: int, p: int, iters: int, sizes: list[int], device: torch.device) -> list[Any]:
    """Time batches of replications of the paper's model."""
    rows = []
    for loss, penalty in BATCHES:
        noise = "t2" if loss == "lad" else "normal"
        config = Configuration(
            loss, penalty, n, p, iters, (), "gaussian", noise, "torch", str(device)
        )
        for members in sizes:
            data = draw_batch(config, range(members), 8)

            def paths(n_iter: int, data: Any = data, config: Configuration = config) -> sp.Batch:
                pair = LOSSES[config.loss], PENALTIES[config.penalty]
                return sp.run_batch(data.X, data.y, *pair, ALGORITHM, n_iter)

            def risks(batch: sp.Batch, covariance: Any = None) -> list[sp.Risk]:
                rng = list(range(len(batch)))
                return sp.estimate_risk_batch(batch, covariance=covariance, rng=rng)

            risks(paths(5))
            seconds, batch = timed(device, paths, iters)
            hat, found = timed(device, risks, batch)
            tilde, _ = timed(device, risks, batch, model_of(p).covariance)
            truth = data.drawn[0].risk(batch[0].coef.cpu().numpy(), LOSSES[loss])
            row = {
                "part": "batches",
                "pair": f"{loss}–{penalty}",
                "n": n,
                "p": p,
                "members": members,
                "iters": iters,
                "path ms": 1e3 * seconds / members,
                "hat ms": 1e3 * hat / members,
                "tilde ms": 1e3 * tilde / members,
                "probes": float(np.mean([risk.n_probes for risk in found])),
                "error of the last": float(found[0].values[-1]) / truth[-1] - 1,
            }
            rows.append(row)
            print(row, flush=True)
            del batch, found, data
    return rows


def tunings(small: tuple[int, int], large: tuple[int, int], device: torch.device) -> list[Any]:
    """Time `sp.tune` and `best_risk` on a small and a large problem."""
    rows = []
    for (n, p), lams, dtype in ((small, 20, torch.float64), (large, 10, torch.float32)):
        if (n, p) == small:  # the paper's model
            drawn = sp.simulate.paper_model(p, noise="t2").sample(n, rng=0)
            X, y = (torch.asarray(each, dtype=dtype, device=device) for each in drawn)
        else:
            generator = torch.Generator(device).manual_seed(0)
            X = torch.randn((n, p), dtype=dtype, device=device, generator=generator)
            noise = torch.randn(n, dtype=dtype, device=device, generator=generator)
            y = X[:, : p // 10].sum(dim=1) * math.sqrt(2 / (p // 10)) + noise

        def tune(X: Any = X, y: Any = y, lams: int = lams, **options: Any) -> sp.Tuning:
            return sp.tune(X, y, sp.LAD(), sp.Lasso, lams, fit_intercept=True, rng=0, **options)

        _ = tune().best_risk  # warm-up
        seconds, tuning = min((timed(device, tune) for _ in range(2)), key=itemgetter(0))
        more, error = timed(device, lambda tuning=tuning: tuning.best_risk)
        fixed = {}
        if (n, p) == small:
            tune(n_iter=300)
            longer, _ = timed(device, partial(tune, n_iter=300))
            fixed = {"seconds with 300 iterations": longer}
        row = {
            "part": "tune",
            "n": n,
            "p": p,
            "dtype": str(dtype).removeprefix("torch."),
            "penalties": lams,
            "iters": tuning.path.n_iter,
            "seconds": seconds,
            "seconds of the error": more,
            "error": error,
            **fixed,
        }
        rows.append(row)
        print(row, flush=True)
        del X, y, tuning, tune
    return rows


def estimators(sizes: list[tuple[int, int]], device: torch.device) -> list[Any]:
    """Time complete fits of estimators on the CPU and on the device."""
    os.environ["SCIPY_ARRAY_API"] = "1"  # required by scikit-learn
    rows = []
    for n, p in sizes:
        X, y = sp.simulate.paper_model(p, noise="t2").sample(n, rng=0)
        for kind in (sp.LADLasso, sp.LogisticLasso):
            response = y if kind is sp.LADLasso else (y > 0).astype(int)
            there = [torch.asarray(a, device=device) for a in (X, response)]

            def fit(arrays: Any, kind: Any = kind, **options: Any) -> Any:
                with sklearn.config_context(array_api_dispatch=True), warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    return kind(random_state=0, **options).fit(*arrays)

            fit(there)
            seconds, found = min((timed(device, fit, there) for _ in range(2)), key=itemgetter(0))
            beside, expected = timed(device, fit, (X, response))
            coef = found.coef_.cpu().numpy()
            row = {
                "part": "estimators",
                "estimator": kind.__name__,
                "n": n,
                "p": p,
                "iters": found.n_iter_,
                "seconds": seconds,
                "seconds with NumPy": beside,
                "error": found.best_risk_,
                "error with NumPy": expected.best_risk_,
                "difference": float(np.abs(coef - expected.coef_).max() / np.abs(coef).max()),
            }
            rows.append(row)
            print(row, flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--n", type=int, default=100_000, help="rows of the large problem")
    parser.add_argument("--p", type=int, default=20_000, help="columns of the large problem")
    parser.add_argument(
        "--small", type=int, nargs=2, default=(2000, 1000), help="n and p of batches"
    )
    parser.add_argument("--members", type=int, nargs="+", default=[1, 10, 100])
    parser.add_argument("--iters", type=int, default=300)
    parts = ("algorithms", "batches", "large", "tune", "estimators")
    parser.add_argument("--parts", nargs="+", choices=parts, default=parts)
    parser.add_argument("--json", type=Path, help="write the results to this file")
    options = parser.parse_args()
    device = torch.device(options.device)
    n, p = options.small
    rows = []
    if "algorithms" in options.parts:
        rows += algorithms(n, p, options.iters, device)
    if "batches" in options.parts:
        rows += batches(n, p, options.iters, options.members, device)
    if "tune" in options.parts:
        rows += tunings((n, p), (options.n, options.p), device)
        if device.type == "cuda":
            torch.cuda.empty_cache()
    if "estimators" in options.parts:
        rows += estimators([(n, p), (10 * n, 2 * p)], device)
    for dtype in (torch.float32, torch.float64) if "large" in options.parts else ():
        rows += large(options.n, options.p, options.iters, dtype, device)
        if device.type == "cuda":
            torch.cuda.empty_cache()
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
    result = {"machine": machine(), "device": name, "torch": torch.__version__, "rows": rows}
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
