"""One replication, or a batch of them: draw data, run the path, estimate its risk, compare."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed, parallel_config

from steinpath._support.arrays import namespace, to_numpy
from steinpath._support.threads import exit_with_parent
from steinpath.engine._batch import Batch
from steinpath.engine._path import Path
from steinpath.engine._run import run, run_batch
from steinpath.problem._scoring import Criterion, resolve_test_loss
from steinpath.risk._estimate import estimate_risk, estimate_risk_batch
from steinpath.risk._leave_out import cross_validate_path, leave_one_out_path
from steinpath.study._kinds import KINDS
from steinpath.study._scenarios import BY_DESIGN, SCENARIOS, Generator, Sample, model_of
from steinpath.study._settings import (
    ALGORITHM,
    LOSSES,
    PENALTIES,
    Configuration,
    Curves,
    generators,
)

# Audit all iterates, because studies evaluate each of them.
_AUDIT: dict[str, Any] = {"audit": 32}
#: Options of `estimate_risk` for each corrected estimator; `_options` adds a known covariance.
CORRECTIONS: dict[str, dict[str, Any]] = {
    "tilde": {},
    "hat": {},
    "scaled": {"row_scale": "norm"},
    "audited": _AUDIT,
    "safe": _AUDIT | {"row_scale": "auto"},
    "unaudited": {},  # "hat", with its warnings
}
#: Estimators of the risk of every iterate that studies compare. New ones come last: the place gives
#: the stream of random numbers.
WAYS = (
    *("tilde", "hat", "scaled", "audited", "safe"),
    *("five", "ten", "loo", "unaudited", "folds"),
)
#: Estimators whose warnings are counted.
WATCHED = frozenset({"safe", "unaudited"})


def _options(way: str, covariance: np.ndarray) -> dict[str, Any]:
    known = {"covariance": covariance} if way == "tilde" else {}
    return CORRECTIONS[way] | known


def _estimate(way: str, path: Path, covariance: np.ndarray, rng: Generator) -> Any:
    """Estimate the risk of a path whose features have the given covariance."""
    if way == "loo":
        return leave_one_out_path(path)
    if way in ("five", "ten"):
        return cross_validate_path(path, 5 if way == "five" else 10, rng=rng)
    if way == "folds":
        return estimate_risk(path, method="folds", rng=rng)
    # the same method for all pairs and sizes, even where another is cheaper
    return estimate_risk(path, method="compressed", rng=rng, **_options(way, covariance))


def replicate(config: Configuration, seed: int) -> Curves:
    """Compute one replication; for the same seed, n and p, all penalties use the same data.

    The columns have an entry for every iterate: ``truth``, the true risk; for each estimator its
    name, with ``_stderr`` and, if warnings are counted, ``_warned``; and the error ``train``.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # those of interest are counted
        if config.kind != "path":
            return KINDS[config.kind](config, seed)
        if config.backend != "numpy":
            (curves,) = replicate_batch(config, (seed,))
            return curves
        drawn, rngs = draw(config, seed)
        loss, penalty = LOSSES[config.loss], PENALTIES[config.penalty]
        path = run(drawn.X, drawn.y, loss, penalty, ALGORITHM, config.iters)
        curves, covariance = {"truth": drawn.risk(path.coef, loss)}, model_of(config.p).covariance
        for way in config.ways:
            curves |= _columns(way, _estimate(way, path, covariance, rngs[way]))
        return curves


def draw(config: Configuration, seed: int, **options: Any) -> tuple[Sample, dict[str, Generator]]:
    """Return the data of a replication, and a random generator for each estimator."""
    (rng,), rngs = generators(config, seed, 1, WAYS)
    return SCENARIOS[config.rows](config.n, config.p, config.noise, rng, **options), rngs


def _columns(way: str, risk: Any) -> Curves:
    """Return the columns stored for an estimate."""
    curves = {way: to_numpy(risk.values), f"{way}_stderr": to_numpy(risk.stderr)}
    if way in WATCHED:
        curves[f"{way}_warned"] = np.full(len(curves[way]), float(bool(risk.warnings)))
    if way in CORRECTIONS:
        curves["train"] = to_numpy(risk.train)
    return curves


# Batches on a device

#: Maximum number of members of a batch; larger batches are not faster.
MOST_MEMBERS = 128
# Maximum memory of a batch on a CPU, in bytes.
_MEMORY = 2 * 2**30


class BatchData(NamedTuple):
    """Data of several replications, and the random generators of their estimators."""

    drawn: tuple[Sample, ...]
    rngs: tuple[dict[str, Generator], ...]
    X: Any  # (members, n, p), on the device
    y: Any  # (members, n)


@lru_cache(maxsize=1)  # configurations that share their data follow each other
def draw_batch(config: Configuration, seeds: Sequence[int], jobs: int = 1) -> BatchData:
    """Draw the data of replications in ``jobs`` threads."""
    import torch

    X = torch.empty((len(seeds), config.n, config.p), dtype=torch.float64, device=config.device)
    y = torch.empty((len(seeds), config.n), dtype=torch.float64, device=config.device)
    options = {"like_this": y} if config.rows in BY_DESIGN else {}

    def fill(member: int) -> tuple[Sample, dict[str, Generator]]:
        drawn, rngs = draw(config, seeds[member], **options)
        X[member] = torch.asarray(drawn.X, device=config.device)
        y[member] = torch.asarray(drawn.y, device=config.device)
        return drawn._replace(X=None, y=None), rngs

    first = fill(0)  # before the others, because it may compute and cache the covariance's root
    others = Parallel(jobs, prefer="threads")(delayed(fill)(k) for k in range(1, len(seeds)))
    drawn, rngs = zip(first, *others, strict=True)
    return BatchData(drawn, rngs, X, y)


def replicate_batch(config: Configuration, seeds: tuple[int, ...], jobs: int = 1) -> list[Curves]:
    """Compute replications as a batch on their device; true risks in ``jobs`` processes."""
    data = draw_batch(replace(config, penalty="", iters=0, ways=()), seeds, jobs)
    loss, penalty = LOSSES[config.loss], PENALTIES[config.penalty]
    batch = run_batch(data.X, data.y, loss, penalty, ALGORITHM, config.iters)
    true_risks = _true_risks(batch, data.drawn, jobs)
    with ThreadPoolExecutor(1) as beside, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        truths = beside.submit(true_risks)  # while the device is busy
        members: list[Curves] = [{} for _ in seeds]
        for way in config.ways:
            for curves, risk in zip(members, _estimates(way, batch, data), strict=True):
                curves |= _columns(way, risk)
        pairs = zip(truths.result(), members, strict=True)
        return [{"truth": truth} | curves for truth, curves in pairs]


def _estimates(way: str, batch: Batch, data: BatchData) -> list[Any]:
    rngs = [deepcopy(own[way]) for own in data.rngs]  # the data may be used again
    covariance = model_of(data.X.shape[2]).covariance
    if "audit" not in CORRECTIONS.get(way, _AUDIT):
        return list(estimate_risk_batch(batch, rng=rngs, **_options(way, covariance)))
    return [_estimate(way, path, covariance, rng) for path, rng in zip(batch, rngs, strict=True)]


def _true_risks(batch: Batch, drawn: Sequence[Sample], jobs: int) -> Callable[[], list[np.ndarray]]:
    """Return a function, which does not use the device, of the true risks of each member."""
    loss = batch[0].loss
    criterion = resolve_test_loss(None, loss)
    model = drawn[0].model_for(criterion)
    if model is None or not isinstance(criterion, Criterion):
        coef = to_numpy(batch.coef)
        return lambda: [own.risk(coef[k], loss) for k, own in enumerate(drawn)]
    # operations of size p run on the device; only small arrays are copied from it
    coef = namespace(batch.coef).reshape(batch.coef, (-1, batch.coef.shape[2]))
    spread, shift = model.deviation(coef)
    parts = (np.split(to_numpy(a), len(batch)) for a in (model.errors.reduce(spread), shift))
    tasks = (delayed(model.errors.risk)(*part, criterion) for part in zip(*parts, strict=True))
    workers = {"initializer": exit_with_parent, "initargs": (os.getpid(),)}

    def risks() -> list[np.ndarray]:
        with parallel_config("loky", n_jobs=jobs, inner_max_num_threads=1, **workers):
            return list(Parallel()(tasks))

    return risks


def most_members(config: Configuration) -> int:
    """Return how many replications fit on the device."""
    import torch

    n, p, T = config.n, config.p, config.iters + 1
    # X in both precisions, the path twice, and dozens of blocks of tangents
    size = 16 * n * p + 48 * T * (n + p) + 4000 * (n + p)
    device = torch.device(config.device)
    # half of the memory: the data of the previous batch may still be there
    room = torch.cuda.mem_get_info(device)[0] // 2 if device.type == "cuda" else _MEMORY
    return int(min(max(room // size, 1), MOST_MEMBERS))
