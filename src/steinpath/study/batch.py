"""Replications of a setting as a batch, which fills a device where a single one would not."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from steinpath._arrays import to_numpy
from steinpath.batches import Batch, estimate_risk_batch, run_batch
from steinpath.study.replicate import CORRECTIONS, WAYS, Columns, columns_of, draw, unheard
from steinpath.study.scenarios import Drawn, Generator
from steinpath.study.settings import ALGORITHM, LOSSES, PENALTIES, Setting

# Members of a batch, beyond which there is nothing to gain, and memory that it may take on a CPU.
_MOST_MEMBERS, _MEMORY = 128, 2 * 2**30
# Members whose true risks are computed by one call: integrals over more rows at once cost less
# per row, until there is nothing left to do side by side.
_TOGETHER = 4


class BatchData(NamedTuple):
    """Data of several replications, with X and y on their device."""

    drawn: list[Drawn]
    rngs: list[dict[str, Generator]]
    X: Any
    y: Any


def law(setting: Setting) -> tuple[Any, ...]:
    """Return what the data depend on, besides the seed."""
    return setting.rows, setting.n, setting.p, setting.loss, setting.noise


def draw_batch(setting: Setting, seeds: Sequence[int], jobs: int = 1) -> BatchData:
    """Draw the data of replications, in so many threads."""
    import torch

    with ThreadPoolExecutor(jobs) as threads:
        drawn, rngs = zip(*threads.map(lambda seed: draw(setting, seed), seeds), strict=True)
    X = torch.empty((len(seeds), setting.n, setting.p), dtype=torch.float64, device=setting.device)
    for k, each in enumerate(drawn):
        X[k] = torch.from_numpy(each.X)
    y = torch.asarray(np.stack([each.y for each in drawn]), device=setting.device)
    light = [each._replace(X=np.empty((0, 0))) for each in drawn]
    return BatchData(light, list(rngs), X, y)


def replicate_batch(
    setting: Setting, seeds: Sequence[int], data: BatchData | None = None, jobs: int = 1
) -> list[Columns]:
    """Do replications as a batch; see `steinpath.study.replicate.replicate`.

    Parameters
    ----------
    setting : Setting
        What to do; its backend is "torch".
    seeds : sequence of int
        Of the replications.
    data : BatchData, optional
        Their data, if they have been drawn.
    jobs : int
        Threads that compute true risks.
    """
    data = draw_batch(setting, seeds, jobs) if data is None else data
    loss, penalty = LOSSES[setting.loss], PENALTIES[setting.penalty]
    batch = run_batch(data.X, data.y, loss, penalty, ALGORITHM, setting.iters)
    results: list[Columns] = [{} for _ in seeds]
    with unheard():
        for way in setting.ways:
            for columns, found in zip(results, _estimates(way, batch, data), strict=True):
                columns |= columns_of(way, found)
    for columns, truth in zip(results, _truths(batch, data.drawn, jobs), strict=True):
        columns["truth"] = truth
    return results


def _estimates(way: str, batch: Batch, data: BatchData) -> list[Any]:
    # new generators, since others may use the same data
    rngs = [_copy(rngs[way]) for rngs in data.rngs]
    covariance = data.drawn[0].covariance
    options = CORRECTIONS[way](covariance) if way in CORRECTIONS else {"audit": None}
    if "audit" not in options:
        return list(estimate_risk_batch(batch, rng=rngs, **options))
    return [WAYS[way](path, covariance, rng) for path, rng in zip(batch, rngs, strict=True)]


def _copy(rng: Generator) -> Generator:
    copied = np.random.default_rng()
    copied.bit_generator.state = rng.bit_generator.state
    return copied


def _truths(batch: Batch, drawn: Sequence[Drawn], jobs: int) -> list[np.ndarray]:
    coef = to_numpy(batch.coef)
    size = _TOGETHER if drawn[0].repeats else 1

    def risks(first: int) -> list[np.ndarray]:
        part = coef[first : first + size]
        found = drawn[first].risk(part.reshape(-1, coef.shape[2]))
        return list(found.reshape(part.shape[:2]))

    with ThreadPoolExecutor(jobs) as threads:
        parts = threads.map(risks, range(0, len(drawn), size))
        return [truth for part in parts for truth in part]


def most_members(setting: Setting) -> int:
    """How many replications fit on the device at once."""
    import torch

    n, p, T = setting.n, setting.p, setting.iters + 1
    # X in both precisions, the path twice, and some dozens of blocks of tangents
    each = 16 * n * p + 48 * T * (n + p) + 4000 * (n + p)
    device = torch.device(setting.device)
    room = torch.cuda.mem_get_info(device)[0] // 2 if device.type == "cuda" else _MEMORY
    return int(min(max(room // each, 1), _MOST_MEMBERS))
