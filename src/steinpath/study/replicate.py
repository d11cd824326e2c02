"""One replication: draw data, run the path, estimate its risk in several ways, know the truth."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from steinpath._arrays import to_numpy
from steinpath._validation import check_choice
from steinpath.baselines import cross_validate_path, leave_one_out_path
from steinpath.path import Path, run
from steinpath.risk import estimate_risk
from steinpath.study.scenarios import SCENARIOS, Generator
from steinpath.study.settings import ALGORITHM, LOSSES, PENALTIES, Setting

#: Arrays of one length, one entry per iterate, by name.
Columns = dict[str, np.ndarray]

#: Estimates the risk of a path whose features have this covariance: something with `values` and
#: `stderr`.
Way = Callable[[Path, np.ndarray, Generator], Any]


def _estimate(path: Path, rng: Generator, **options: Any) -> Any:
    # one method for all pairs and sizes, whatever would be cheapest
    return estimate_risk(path, method="compressed", rng=rng, **options)


#: The ways to know the risk of every iterate that studies compare.
WAYS: dict[str, Way] = {
    "tilde": lambda path, covariance, rng: _estimate(path, rng, covariance=covariance),
    "hat": lambda path, _, rng: _estimate(path, rng),
    "scaled": lambda path, _, rng: _estimate(path, rng, row_scale="norm"),
    "audited": lambda path, _, rng: _estimate(path, rng, audit=32),
    "safe": lambda path, _, rng: _estimate(path, rng, audit=32, row_scale="auto"),
    "five": lambda path, _, rng: cross_validate_path(path, 5, rng=rng),
    "ten": lambda path, _, rng: cross_validate_path(path, 10, rng=rng),
    "loo": lambda path, _, rng: leave_one_out_path(path),
}

#: Ways whose warnings are counted.
WATCHED = frozenset({"safe"})


def replicate(setting: Setting, seed: int) -> Columns:
    """Do one replication.

    Parameters
    ----------
    setting : Setting
        What to do.
    seed : int
        Of all its randomness. With the same seed, n and p, all penalties see the same data.

    Returns
    -------
    dict of ndarray
        For every iterate: ``truth``; for each way its estimate under the way's name, and the
        standard error under the name with ``_stderr`` appended; ``_warned``, where warnings are
        counted, is 1 if there was one; ``train``, where a way knows the training error.
    """
    loss = LOSSES[setting.loss]
    data, *streams = np.random.SeedSequence([seed, setting.n, setting.p]).spawn(1 + len(WAYS))
    rngs = dict(zip(WAYS, map(np.random.default_rng, streams), strict=True))
    rng = np.random.default_rng(data)
    drawn = SCENARIOS[setting.rows](setting.n, setting.p, loss, setting.noise, rng)
    X = _on_backend(drawn.X, setting)
    path = run(X, drawn.y, loss, PENALTIES[setting.penalty], ALGORITHM, setting.iters)
    columns = {"truth": drawn.risk(to_numpy(path.coef))}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what they say is counted where it matters
        for way in setting.ways:
            found = WAYS[way](path, drawn.covariance, rngs[way])
            columns[way] = to_numpy(found.values)
            columns[f"{way}_stderr"] = to_numpy(found.stderr)
            if way in WATCHED:
                columns[f"{way}_warned"] = np.full(setting.iters + 1, float(bool(found.warnings)))
            if hasattr(found, "train"):
                columns["train"] = to_numpy(found.train)
    return columns


def _on_backend(X: np.ndarray, setting: Setting) -> Any:
    if setting.backend == "numpy":
        return X
    import torch

    torch.set_num_threads(1)  # as for all that replications do: see `parallel`
    return torch.asarray(X, device=setting.device)


def check_backend(backend: str, device: str) -> None:
    """Refuse a backend or a device that this machine does not have."""
    check_choice("backend", backend, ("numpy", "torch"))
    if backend == "numpy":
        if device != "cpu":
            raise ValueError(f"NumPy's arrays are on the device 'cpu', not on {device!r}")
        return
    try:
        import torch

        torch.zeros(1, device=device)
    except ImportError:
        raise ValueError("the backend 'torch' needs torch: pip install torch") from None
    except (RuntimeError, AssertionError) as error:  # torch says either of a missing device
        raise ValueError(f"torch cannot use the device {device!r}: {error}") from None
