"""Replications of a configuration run as one batch, to make full use of a device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import BrokenExecutor, Executor, ThreadPoolExecutor
from copy import deepcopy
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from steinpath._support.arrays import namespace, to_numpy
from steinpath.engine._batch import Batch
from steinpath.engine._run import run_batch
from steinpath.problem._scoring import Criterion, resolve_test_loss
from steinpath.risk._estimate import estimate_risk_batch
from steinpath.simulate import LinearModel
from steinpath.study._replicate import CORRECTIONS, WAYS, Curves, curves_of, draw, ignore_warnings
from steinpath.study._scenarios import BY_DESIGN, Drawn, Generator
from steinpath.study._settings import ALGORITHM, LOSSES, PENALTIES, Configuration

#: Maximum number of members of a batch; larger batches are not faster.
MOST_MEMBERS = 128
# Maximum memory of a batch on a CPU, in bytes.
_MEMORY = 2 * 2**30


class BatchData(NamedTuple):
    """Data of several replications, and the random generators of their estimators."""

    drawn: list[Drawn]
    rngs: list[dict[str, Generator]]
    X: Any  # (members, n, p), on the device
    y: Any  # (members, n)


def law(config: Configuration) -> tuple[Any, ...]:
    """Return all parameters that the data depend on, except the seed."""
    return config.rows, config.n, config.p, config.loss, config.noise


def draw_batch(config: Configuration, seeds: Sequence[int], jobs: int = 1) -> BatchData:
    """Draw the data of replications in ``jobs`` threads."""
    import torch

    n, p = config.n, config.p
    X = torch.empty((len(seeds), n, p), dtype=torch.float64, device=config.device)
    y = torch.empty((len(seeds), n), dtype=torch.float64, device=config.device)
    options = {"like_this": y} if config.rows in BY_DESIGN else {}

    def fill(place: int, seed: int) -> tuple[Drawn, dict[str, Generator]]:
        drawn, rngs = draw(config, seed, **options)
        for batch, own in ((X, drawn.X), (y, drawn.y)):
            batch[place] = torch.asarray(own, device=config.device)
        return drawn._replace(X=None, y=None), rngs

    first, *others = enumerate(seeds)
    found = [fill(*first)]  # first, because it may compute and cache the root of the covariance
    with ThreadPoolExecutor(jobs) as threads:
        found += threads.map(lambda each: fill(*each), others)
    drawn, rngs = zip(*found, strict=True)
    if torch.device(config.device).type == "cuda":
        torch.cuda.synchronize(config.device)  # the data are used in another stream
    return BatchData(list(drawn), list(rngs), X, y)


#: Waits for the true risks of an otherwise finished replication, and returns its curves.
Finish = Callable[[], Curves]


def replicate_batch(config: Configuration, seeds: Sequence[int]) -> list[Curves]:
    """Compute replications as a batch; see `steinpath.study._replicate.replicate`."""
    return [finish() for finish in start_batch(config, draw_batch(config, seeds))]


def start_batch(
    config: Configuration, data: BatchData, workers: Executor | None = None
) -> list[Finish]:
    """Compute replications on their device, with true risks computed separately.

    Parameters
    ----------
    config : Configuration
        Configuration with backend "torch".
    data : BatchData
        Data of the replications.
    workers : Executor, optional
        Executor that computes the true risks concurrently. By default they are computed when
        requested.
    """
    loss, penalty = LOSSES[config.loss], PENALTIES[config.penalty]
    batch = run_batch(data.X, data.y, loss, penalty, ALGORITHM, config.iters)
    curves: list[Curves] = [{} for _ in batch]
    with ignore_warnings():
        for way in config.ways:
            for each, found in zip(curves, _estimates(way, batch, data), strict=True):
                each |= curves_of(way, found)
    truths = _truths(batch, data.drawn, workers)
    return [partial(_finish, *each) for each in zip(truths, curves, strict=True)]


def _finish(truth: Callable[[], np.ndarray], curves: Curves) -> Curves:
    return {"truth": truth(), **curves}


def _estimates(way: str, batch: Batch, data: BatchData) -> list[Any]:
    rngs = [deepcopy(each[way]) for each in data.rngs]  # the data may be used again
    covariance = data.drawn[0].covariance
    options = CORRECTIONS[way](covariance) if way in CORRECTIONS else {}
    if way in CORRECTIONS and "audit" not in options:
        return list(estimate_risk_batch(batch, rng=rngs, **options))
    return [WAYS[way](path, covariance, rng) for path, rng in zip(batch, rngs, strict=True)]


def _truths(
    batch: Batch, drawn: Sequence[Drawn], workers: Executor | None
) -> list[Callable[[], np.ndarray]]:
    """Return, for each member, a function that computes the true risks or waits for them."""
    model, criterion = drawn[0].model, resolve_test_loss(None, batch[0].loss)
    if model is None or not isinstance(criterion, Criterion):
        coef = to_numpy(batch.coef)
        return [lambda k=k: drawn[k].risk(coef[k]) for k in range(len(batch))]  # type: ignore[misc]
    results: list[Callable[[], np.ndarray]] = []
    for spread, shift in _deviations(model, batch):
        task = partial(model.errors.risk, spread, shift, criterion)
        results.append(task if workers is None else _elsewhere(workers, task))
    return results


def _elsewhere(workers: Executor, task: Callable[[], np.ndarray]) -> Callable[[], np.ndarray]:
    """Submit a task to workers; if they die, compute it locally when its result is requested."""
    try:
        future = workers.submit(task)
    except BrokenExecutor:
        return task

    def result() -> np.ndarray:
        try:
            return future.result()
        except BrokenExecutor:
            return task()

    return result


def _deviations(model: LinearModel, batch: Batch) -> list[tuple[np.ndarray, np.ndarray]]:
    # operations of size p run on the device; only small arrays are copied from it
    xp, coef = namespace(batch.coef), batch.coef
    spread, shift = model.deviation(xp.reshape(coef, (-1, coef.shape[2])))
    spread, shift = to_numpy(model.errors.reduce(spread)), to_numpy(shift)
    members = len(batch)
    return list(zip(np.split(spread, members), np.split(shift, members), strict=True))


def most_members(config: Configuration, lanes: int = 1) -> int:
    """Return how many replications fit on the device if ``lanes`` processes share it."""
    import torch

    n, p, T = config.n, config.p, config.iters + 1
    # X in both precisions, the path twice, and dozens of blocks of tangents
    each = 16 * n * p + 48 * T * (n + p) + 4000 * (n + p)
    device = torch.device(config.device)
    # one share of the memory per process, and one for the data of the next batches
    room = torch.cuda.mem_get_info(device)[0] // (lanes + 1) if device.type == "cuda" else _MEMORY
    return int(min(max(room // each, 1), MOST_MEMBERS))
