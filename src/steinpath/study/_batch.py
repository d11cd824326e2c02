"""Replications of a setting as a batch, which fills a device where a single one would not."""

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
from steinpath.study._replicate import CORRECTIONS, WAYS, Curves, curves_of, draw, unheard
from steinpath.study._scenarios import BY_DESIGN, Drawn, Generator
from steinpath.study._settings import ALGORITHM, LOSSES, PENALTIES, Setting

#: Members of a batch, beyond which there is nothing to gain.
MOST_MEMBERS = 128
# Memory that a batch may take on a CPU.
_MEMORY = 2 * 2**30


class BatchData(NamedTuple):
    """Data of several replications, and the randomness of their ways."""

    drawn: list[Drawn]
    rngs: list[dict[str, Generator]]
    X: Any  # (members, n, p), on the device
    y: Any  # (members, n)


def law(setting: Setting) -> tuple[Any, ...]:
    """Return what the data depend on, besides the seed."""
    return setting.rows, setting.n, setting.p, setting.loss, setting.noise


def draw_batch(setting: Setting, seeds: Sequence[int], jobs: int = 1) -> BatchData:
    """Draw the data of replications, in so many threads."""
    import torch

    n, p = setting.n, setting.p
    X = torch.empty((len(seeds), n, p), dtype=torch.float64, device=setting.device)
    y = torch.empty((len(seeds), n), dtype=torch.float64, device=setting.device)
    options = {"like_this": y} if setting.rows in BY_DESIGN else {}

    def fill(place: int, seed: int) -> tuple[Drawn, dict[str, Generator]]:
        drawn, rngs = draw(setting, seed, **options)
        for batch, own in ((X, drawn.X), (y, drawn.y)):
            batch[place] = torch.asarray(own, device=setting.device)
        return drawn._replace(X=None, y=None), rngs

    first, *others = enumerate(seeds)
    found = [fill(*first)]  # alone, since it may have the root of a covariance to find
    with ThreadPoolExecutor(jobs) as threads:
        found += threads.map(lambda each: fill(*each), others)
    drawn, rngs = zip(*found, strict=True)
    if torch.device(setting.device).type == "cuda":
        torch.cuda.synchronize(setting.device)  # those who use them are not in our stream
    return BatchData(list(drawn), list(rngs), X, y)


#: Waits for the true risks of a replication, which is done but for these, and returns it.
Finish = Callable[[], Curves]


def replicate_batch(setting: Setting, seeds: Sequence[int]) -> list[Curves]:
    """Do replications as a batch; see `steinpath.study._replicate.replicate`."""
    return [finish() for finish in start_batch(setting, draw_batch(setting, seeds))]


def start_batch(setting: Setting, data: BatchData, workers: Executor | None = None) -> list[Finish]:
    """Do replications on their device, and leave their true risks to others.

    Parameters
    ----------
    setting : Setting
        What to do; its backend is "torch".
    data : BatchData
        Data of the replications.
    workers : Executor, optional
        Who computes the true risks, while the device goes on; by default they are computed when
        they are asked for.
    """
    loss, penalty = LOSSES[setting.loss], PENALTIES[setting.penalty]
    batch = run_batch(data.X, data.y, loss, penalty, ALGORITHM, setting.iters)
    curves: list[Curves] = [{} for _ in batch]
    with unheard():
        for way in setting.ways:
            for each, found in zip(curves, _estimates(way, batch, data), strict=True):
                each |= curves_of(way, found)
    truths = _truths(batch, data.drawn, workers)
    return [partial(_finish, *each) for each in zip(truths, curves, strict=True)]


def _finish(truth: Callable[[], np.ndarray], curves: Curves) -> Curves:
    return {"truth": truth(), **curves}


def _estimates(way: str, batch: Batch, data: BatchData) -> list[Any]:
    rngs = [deepcopy(each[way]) for each in data.rngs]  # others may use the same data
    covariance = data.drawn[0].covariance
    options = CORRECTIONS[way](covariance) if way in CORRECTIONS else {}
    if way in CORRECTIONS and "audit" not in options:
        return list(estimate_risk_batch(batch, rng=rngs, **options))
    return [WAYS[way](path, covariance, rng) for path, rng in zip(batch, rngs, strict=True)]


def _truths(
    batch: Batch, drawn: Sequence[Drawn], workers: Executor | None
) -> list[Callable[[], np.ndarray]]:
    """Return what computes the true risks of each member, or waits for them."""
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
    """Leave a task to workers; if these die, do it here when its result is asked for."""
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
    # what p enters is computed on the device, and what leaves it is as little as will do
    xp, coef = namespace(batch.coef), batch.coef
    spread, shift = model.deviation(xp.reshape(coef, (-1, coef.shape[2])))
    spread, shift = to_numpy(model.errors.reduce(spread)), to_numpy(shift)
    members = len(batch)
    return list(zip(np.split(spread, members), np.split(shift, members), strict=True))


def most_members(setting: Setting, lanes: int = 1) -> int:
    """How many replications fit on the device at once, if so many processes share it."""
    import torch

    n, p, T = setting.n, setting.p, setting.iters + 1
    # X in both precisions, the path twice, and some dozens of blocks of tangents
    each = 16 * n * p + 48 * T * (n + p) + 4000 * (n + p)
    device = torch.device(setting.device)
    # a share for each process, and one for data of batches to come
    room = torch.cuda.mem_get_info(device)[0] // (lanes + 1) if device.type == "cuda" else _MEMORY
    return int(min(max(room // each, 1), MOST_MEMBERS))
