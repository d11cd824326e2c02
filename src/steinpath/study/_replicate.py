"""One replication: draw data, run the path, estimate its risk in several ways, know the truth."""

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
from steinpath.risk._validation import cross_validate_path, leave_one_out_path
from steinpath.study._choose import choose, columns_of_choices
from steinpath.study._classify import classify, columns_of_labels
from steinpath.study._infer import columns_of_intervals, infer
from steinpath.study._scenarios import SCENARIOS, Drawn, Generator
from steinpath.study._settings import ALGORITHM, LOSSES, PENALTIES, Setting

#: Arrays of one length by name: one entry per iterate as a rule, see `Setting.entries`.
Curves = dict[str, np.ndarray]

#: Estimates the risk of a path whose features have this covariance: something with `values` and
#: `stderr`.
Way = Callable[[Path, np.ndarray, Generator], Any]


# An audit of all iterates: studies look at each of them.
_AUDIT: dict[str, Any] = {"audit": 32, "audit_until": 10**9}
#: What a way by corrections tells `estimate_risk`, given the covariance.
CORRECTIONS: dict[str, Callable[[np.ndarray], dict[str, Any]]] = {
    "tilde": lambda covariance: {"covariance": covariance},
    "hat": lambda _: {},
    "scaled": lambda _: {"row_scale": "norm"},
    "audited": lambda _: _AUDIT,
    "safe": lambda _: _AUDIT | {"row_scale": "auto"},
}


def _corrected(way: str) -> Way:
    # one method for all pairs and sizes, whatever would be cheapest
    def estimate(path: Path, covariance: np.ndarray, rng: Generator) -> Any:
        options = CORRECTIONS[way](covariance)
        return estimate_risk(path, method="compressed", rng=rng, **options)

    return estimate


#: The ways to know the risk of every iterate that studies compare.
WAYS: dict[str, Way] = {
    **{way: _corrected(way) for way in CORRECTIONS},
    "five": lambda path, _, rng: cross_validate_path(path, 5, rng=rng),
    "ten": lambda path, _, rng: cross_validate_path(path, 10, rng=rng),
    "loo": lambda path, _, rng: leave_one_out_path(path),
}

#: Ways whose warnings are counted.
WATCHED = frozenset({"safe"})


def replicate(setting: Setting, seed: int) -> Curves:
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
        counted, is 1 if there was one; ``train``, the training error, with ways by corrections.
        Of other kinds, what these return: see `KINDS`.
    """
    if setting.numpy_alone:
        with unheard():
            return KINDS[setting.kind].replicate(setting, seed)
    if setting.backend != "numpy":
        from steinpath.study._batch import replicate_batch

        (curves,) = replicate_batch(setting, [seed])
        return curves
    drawn, rngs = draw(setting, seed)
    loss, penalty = LOSSES[setting.loss], PENALTIES[setting.penalty]
    path = run(drawn.X, drawn.y, loss, penalty, ALGORITHM, setting.iters)
    curves = {"truth": drawn.risk(path.coef)}
    with unheard():
        for way in setting.ways:
            curves |= curves_of(way, WAYS[way](path, drawn.covariance, rngs[way]))
    return curves


def draw(setting: Setting, seed: int, **options: Any) -> tuple[Drawn, dict[str, Generator]]:
    """Return the data of a replication, and the randomness of each way.

    The options are the scenario's own.
    """
    data, *streams = np.random.SeedSequence([seed, setting.n, setting.p]).spawn(1 + len(WAYS))
    rngs = dict(zip(WAYS, map(np.random.default_rng, streams), strict=True))
    scenario, loss = SCENARIOS[setting.rows], LOSSES[setting.loss]
    rng = np.random.default_rng(data)
    return scenario(setting.n, setting.p, loss, setting.noise, rng, **options), rngs


def curves_of(way: str, found: Any) -> Curves:
    """Return what is kept of an estimate."""
    curves = {way: to_numpy(found.values), f"{way}_stderr": to_numpy(found.stderr)}
    if way in WATCHED:
        curves[f"{way}_warned"] = np.full(len(curves[way]), float(bool(found.warnings)))
    if way in CORRECTIONS:
        curves["train"] = to_numpy(found.train)
    return curves


def _columns_of_paths(setting: Setting) -> set[str]:
    names = {"truth", *setting.ways, *(f"{way}_stderr" for way in setting.ways)}
    names |= {f"{way}_warned" for way in WATCHED.intersection(setting.ways)}
    return names | ({"train"} if CORRECTIONS.keys() & set(setting.ways) else set())


class Kind(NamedTuple):
    """What a replication is: how to do it, and the names of its columns."""

    replicate: Callable[[Setting, int], Curves]
    columns: Callable[[Setting], set[str]]


#: What replications are, by the kind of their setting.
KINDS = {
    "path": Kind(replicate, _columns_of_paths),
    "choice": Kind(choose, columns_of_choices),
    "labels": Kind(classify, columns_of_labels),
    "intervals": Kind(infer, columns_of_intervals),
}


def check_curves(setting: Setting, curves: Curves) -> None:
    """Refuse what cannot be a replication: each of its columns is full of finite numbers."""
    names = KINDS[setting.kind].columns(setting)
    if curves.keys() != names:
        raise ValueError(f"its columns are {sorted(curves)}, not {sorted(names)}")
    for name, values in curves.items():
        if values.dtype != np.float64 or values.shape != (setting.entries,):
            raise ValueError(
                f"column {name!r} has {len(values)} values of type {values.dtype}, not "
                f"{setting.entries} of type float64"
            )
        if not np.isfinite(values).all():
            raise ValueError(f"column {name!r} has values that are not finite")


@contextmanager
def unheard() -> Iterator[None]:
    """Ignore warnings: what they say is counted where it matters."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def check_backend(backend: str, device: str) -> None:
    """Refuse a backend that is not there; its devices are looked at when they are needed."""
    check_choice("backend", backend, ("numpy", "torch"))
    if backend == "numpy" and device != "cpu":
        raise ValueError(f"NumPy's arrays are on the device 'cpu', not on {device!r}")
    if backend == "torch" and find_spec("torch") is None:  # to import it takes seconds
        raise ValueError("the backend 'torch' needs torch: pip install torch")
