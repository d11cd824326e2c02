"""One replication: draw data, run the path, estimate its risk, compute the true risk."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np

from steinpath._support.arrays import to_numpy
from steinpath._support.validation import check_choice
from steinpath.engine._path import Path
from steinpath.engine._run import run
from steinpath.risk._estimate import estimate_risk
from steinpath.risk._leave_out import cross_validate_path, leave_one_out_path
from steinpath.study._choose import choose, columns_of_choices
from steinpath.study._classify import classify, columns_of_labels
from steinpath.study._infer import columns_of_intervals, infer
from steinpath.study._scenarios import SCENARIOS, Drawn, Generator
from steinpath.study._settings import ALGORITHM, LOSSES, PENALTIES, Configuration

#: Arrays of equal length by name; usually one entry per iterate, see `Configuration.entries`.
Curves = dict[str, np.ndarray]

#: Estimates the risk of a path whose features have the given covariance; the result has the
#: attributes `values` and `stderr`.
Way = Callable[[Path, np.ndarray, Generator], Any]


# Audit all iterates, because studies evaluate each of them.
_AUDIT: dict[str, Any] = {"audit": 32, "audit_until": 10**9}
#: Options of `estimate_risk` for each corrected estimator, given the covariance.
CORRECTIONS: dict[str, Callable[[np.ndarray], dict[str, Any]]] = {
    "tilde": lambda covariance: {"covariance": covariance},
    "hat": lambda _: {},
    "scaled": lambda _: {"row_scale": "norm"},
    "audited": lambda _: _AUDIT,
    "safe": lambda _: _AUDIT | {"row_scale": "auto"},
}


def _corrected(way: str) -> Way:
    # the same method for all pairs and sizes, even where another is cheaper
    def estimate(path: Path, covariance: np.ndarray, rng: Generator) -> Any:
        options = CORRECTIONS[way](covariance)
        return estimate_risk(path, method="compressed", rng=rng, **options)

    return estimate


#: Estimators of the risk of every iterate that studies compare.
WAYS: dict[str, Way] = {
    **{way: _corrected(way) for way in CORRECTIONS},
    "five": lambda path, _, rng: cross_validate_path(path, 5, rng=rng),
    "ten": lambda path, _, rng: cross_validate_path(path, 10, rng=rng),
    "loo": lambda path, _, rng: leave_one_out_path(path),
}

#: Estimators whose warnings are counted.
WATCHED = frozenset({"safe"})


def replicate(config: Configuration, seed: int) -> Curves:
    """Compute one replication.

    Parameters
    ----------
    config : Configuration
        Configuration of the replication.
    seed : int
        Random seed. For the same seed, n and p, all penalties use the same data.

    Returns
    -------
    dict of ndarray
        For every iterate: ``truth``, the true risk; for each estimator its estimate under the
        estimator's name, the standard error with ``_stderr`` appended, and if warnings are counted
        an indicator with ``_warned`` appended; for corrected estimators ``train``, the training
        error. For other kinds of replications, see `KINDS`.
    """
    if config.numpy_alone:
        with ignore_warnings():
            return KINDS[config.kind].replicate(config, seed)
    if config.backend != "numpy":
        from steinpath.study._batch import replicate_batch

        (curves,) = replicate_batch(config, [seed])
        return curves
    drawn, rngs = draw(config, seed)
    loss, penalty = LOSSES[config.loss], PENALTIES[config.penalty]
    path = run(drawn.X, drawn.y, loss, penalty, ALGORITHM, config.iters)
    curves = {"truth": drawn.risk(path.coef)}
    with ignore_warnings():
        for way in config.ways:
            curves |= curves_of(way, WAYS[way](path, drawn.covariance, rngs[way]))
    return curves


def draw(config: Configuration, seed: int, **options: Any) -> tuple[Drawn, dict[str, Generator]]:
    """Return the data of a replication, and a random generator for each estimator.

    Options are passed to the scenario.
    """
    data, *streams = np.random.SeedSequence([seed, config.n, config.p]).spawn(1 + len(WAYS))
    rngs = dict(zip(WAYS, map(np.random.default_rng, streams), strict=True))
    scenario, loss = SCENARIOS[config.rows], LOSSES[config.loss]
    rng = np.random.default_rng(data)
    return scenario(config.n, config.p, loss, config.noise, rng, **options), rngs


def curves_of(way: str, found: Any) -> Curves:
    """Return the columns stored for an estimate."""
    curves = {way: to_numpy(found.values), f"{way}_stderr": to_numpy(found.stderr)}
    if way in WATCHED:
        curves[f"{way}_warned"] = np.full(len(curves[way]), float(bool(found.warnings)))
    if way in CORRECTIONS:
        curves["train"] = to_numpy(found.train)
    return curves


def _columns_of_paths(config: Configuration) -> set[str]:
    names = {"truth", *config.ways, *(f"{way}_stderr" for way in config.ways)}
    names |= {f"{way}_warned" for way in WATCHED.intersection(config.ways)}
    return names | ({"train"} if CORRECTIONS.keys() & set(config.ways) else set())


class ReplicationKind(NamedTuple):
    """A kind of replication: the function that computes it, and the names of its columns."""

    replicate: Callable[[Configuration, int], Curves]
    columns: Callable[[Configuration], set[str]]


#: Kinds of replications by name.
KINDS = {
    "path": ReplicationKind(replicate, _columns_of_paths),
    "choice": ReplicationKind(choose, columns_of_choices),
    "labels": ReplicationKind(classify, columns_of_labels),
    "intervals": ReplicationKind(infer, columns_of_intervals),
}


def check_curves(config: Configuration, curves: Curves) -> None:
    """Raise ValueError unless all columns of a replication are present, complete and finite."""
    names = KINDS[config.kind].columns(config)
    if curves.keys() != names:
        raise ValueError(f"expected the columns {sorted(names)}; got {sorted(curves)}")
    for name, values in curves.items():
        if values.dtype != np.float64 or values.shape != (config.entries,):
            raise ValueError(
                f"column {name!r} must have {config.entries} values of type float64; got "
                f"{len(values)} of type {values.dtype}"
            )
        if not np.isfinite(values).all():
            raise ValueError(f"column {name!r} contains NaN or infinite values")


@contextmanager
def ignore_warnings() -> Iterator[None]:
    """Ignore warnings; those of interest are counted instead."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def check_backend(backend: str, device: str) -> None:
    """Raise ValueError if a backend is not available; its devices are checked on first use."""
    check_choice("backend", backend, ("numpy", "torch"))
    if backend == "numpy" and device != "cpu":
        raise ValueError(f"the backend 'numpy' supports only the device 'cpu'; got {device!r}")
    if backend == "torch" and find_spec("torch") is None:  # importing it takes seconds
        raise ValueError("the backend 'torch' requires torch: pip install torch")
