"""Many runs at once: replications with their own X, or many penalties and responses on one X.

Small problems leave a device idle. In a batch, all members take each step together: iterates have
the shape (p, members), tangents (p, members, columns), and one call multiplies, clips or shrinks
all of them. Losses, penalties, algorithms and tangents work on columns as it is; only the design
has to know whose columns they are (`steinpath.design._members`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, overload

import array_api_compat
import numpy as np

from steinpath._support.arrays import Array, namespace, take
from steinpath._support.validation import (
    as_numpy,
    check_array,
    check_count,
    check_flag,
    check_instance,
    check_magnitude,
)
from steinpath.algorithms._family import ChambollePock, ProximalAlgorithm, ProximalMaps
from steinpath.design._designs import Design, InterceptDesign, as_design
from steinpath.design._members import SharedDesign, StackedDesign, batch_design, features_of
from steinpath.engine._path import Path, Setting, State, prepare
from steinpath.engine._side_by_side import extend_together, maps_side_by_side
from steinpath.problem._losses import Loss
from steinpath.problem._penalties import Penalty


class Batch(Sequence[Path]):
    """Paths that advanced together. Made by `run_batch`.

    A sequence of ordinary paths, each of which has its part of the arrays of all:

    Attributes
    ----------
    coef : Array of shape (members, n_iter + 1, p)
        Coefficients.
    dual : Array of shape (members, n_iter, n)
        Dual iterates.
    fitted : Array of shape (members, n_iter + 1, n)
        Fitted values.
    intercept : Array of shape (members, n_iter + 1)
        Intercepts.
    """

    def __init__(self, paths: Sequence[Path], design: Design, states: State):
        self._paths = list(paths)
        self._design, self._states = design, states

    @overload
    def __getitem__(self, index: int) -> Path: ...
    @overload
    def __getitem__(self, index: slice) -> list[Path]: ...
    def __getitem__(self, index: int | slice) -> Path | list[Path]:
        return self._paths[index]

    def __len__(self) -> int:
        return len(self._paths)

    def __iter__(self) -> Iterator[Path]:
        return iter(self._paths)

    def __repr__(self) -> str:
        return f"<Batch of {len(self)} paths like {self[0]!r}>"

    @property
    def coef(self) -> Array:
        """Coefficients of all iterates of all members."""
        return self._states.b[:, :, : self[0].n_features]

    @property
    def dual(self) -> Array:
        """Dual iterates of all members, the first being ``u^1``."""
        return self._states.u[:, 1:, :]

    @property
    def fitted(self) -> Array:
        """Fitted values of all iterates of all members."""
        return self._stack("fitted")

    @property
    def intercept(self) -> Array:
        """Intercepts of all iterates of all members."""
        return self._stack("intercept")

    def _stack(self, name: str) -> Array:
        arrays = [getattr(path, name) for path in self]
        return namespace(*arrays).stack(arrays)

    def together(self) -> Path:
        """Return all members as one path, whose arrays have them as their last axis."""
        first, xp = self[0], namespace(self[0].y)
        return replace(
            first,
            y=xp.stack([path.y for path in self], axis=1),
            design=self._design,
            maps=_maps(self),
            offset=first.design.array([path.offset for path in self]),
            **{
                name: xp.permute_dims(array, (1, 2, 0))
                for name, array in zip(
                    ("iterates", "products", "duals", "etas"), self._states, strict=True
                )
            },
        )

    def part(self, members: Sequence[int]) -> Batch:
        """Return a batch of some members."""
        if len(members) == len(self):
            return self
        paths, chosen = [self[k] for k in members], np.asarray(members)
        states = State(*(take(array, chosen) for array in self._states))
        design = self._design
        if isinstance(features_of(design), StackedDesign):
            features = StackedDesign(take(features_of(design).example, chosen))
            design = batch_design(features, [path.design for path in paths])
        return Batch(paths, design, states)


def _maps(paths: Sequence[Path]) -> ProximalMaps:
    """Return maps for blocks whose columns are those of the paths."""
    first = paths[0].maps
    assert isinstance(first, ProximalMaps)
    alike = all(path.penalty == paths[0].penalty for path in paths)
    return first if alike else maps_side_by_side(paths)


def run_batch(
    X: Any,
    y: Any,
    loss: Loss,
    penalty: Penalty | Sequence[Penalty],
    algorithm: ProximalAlgorithm = ChambollePock(),
    n_iter: int = 300,
    fit_intercept: bool = False,
) -> Batch:
    """Run an algorithm on many problems of one shape, which take each step together.

    Every member of the result is what `steinpath.run` would have returned with the same step
    sizes. It pays where one problem does not fill the device, and for many penalties on one X,
    which is then read once for all of them.

    Parameters
    ----------
    X : array-like of shape (members, n, p) or (n, p), or a `steinpath.design.Design`
        A design matrix for each member, or one for all.
    y : array-like of shape (members, n) or (n,)
        Responses for each member, or for all if these share X.
    loss : Loss
        Such as ``sp.LAD()``.
    penalty : Penalty or sequence of Penalty
        Such as ``sp.Lasso(0.5)``; one for all, or one for each member.
    algorithm : ChambollePock, LinearizedADMM, ProximalGradient or FISTA
        What to run. Step sizes that are None are chosen for the first member's y, and so that
        they are safe for all.
    n_iter : int, default=300
        Number of iterations.
    fit_intercept : bool, default=False
        As for `steinpath.run`.

    Returns
    -------
    Batch

    Raises
    ------
    DivergenceError
        If an iterate of any member is not finite.

    Examples
    --------
    >>> import numpy as np
    >>> import steinpath as sp
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((5, 100, 20))
    >>> y = X[:, :, 0] + rng.standard_t(2, size=(5, 100))
    >>> batch = sp.run_batch(X, y, sp.LAD(), sp.Lasso(0.5), n_iter=30)
    >>> batch.coef.shape, batch[0].coef.shape
    ((5, 31, 20), (31, 20))
    >>> risks = sp.estimate_risk_batch(batch, rng=0)
    >>> len(risks), risks[0].values.shape
    (5, (31,))
    """
    check_instance("loss", loss, Loss, "sp.LAD()")
    check_instance("algorithm", algorithm, ProximalAlgorithm, "sp.ChambollePock()")
    check_flag("fit_intercept", fit_intercept)
    n_iter = check_count("n_iter", n_iter)
    several = not isinstance(penalty, Penalty | type) and isinstance(penalty, Iterable)
    penalties: list[Any] = [*penalty] if several else [penalty]  # type: ignore[misc]
    for each in penalties:
        check_instance("penalty", each, Penalty, "sp.Lasso(0.5)")
    features, settings = _members(X, y, loss, fit_intercept, len(penalties))
    penalties = penalties * (len(settings) if len(penalties) == 1 else 1)
    design = batch_design(features, [setting.design for setting in settings])
    first = settings[0]
    strictest = min(penalties, key=lambda penalty: penalty.max_step)
    bound, _ = first._replace(design=design).bind(algorithm, strictest)
    assert isinstance(bound, ProximalAlgorithm)
    zeros = State(*(design.zeros(len(settings), 1, x.shape[0]) for x in first.start()))
    paths = []
    for k, (setting, each) in enumerate(zip(settings, penalties, strict=True)):
        setting.own(each).check_size(design.shape[1])
        maps = bound.maps(loss, setting.own(each), design.n_rows)
        paths.append(setting.path(each, bound, maps, zeros.member(k)))
    together = Batch(paths, design, zeros).together()
    states = extend_together(together.setting, bound, _maps(paths), zeros, n_iter)
    paths = [
        path.setting.path(path.penalty, bound, path.maps, states.member(k))
        for k, path in enumerate(paths)
    ]
    return Batch(paths, design, states)


def _members(
    X: Any, y: Any, loss: Loss, fit_intercept: bool, n_penalties: int
) -> tuple[Design, list[Setting]]:
    """Check the data; return the features of the batch, and each member's data."""
    X, y = (
        as_numpy(name, data) if isinstance(data, list | tuple) else data
        for name, data in (("X", X), ("y", y))
    )
    members = _with_designs_of_their_own if getattr(X, "ndim", 2) == 3 else _with_one_design
    return members(X, y, loss, fit_intercept, n_penalties)


def _with_designs_of_their_own(
    X: Any, y: Any, loss: Loss, fit_intercept: bool, n_penalties: int
) -> tuple[Design, list[Setting]]:
    X = check_array("X", X, ndim=3)
    check_magnitude("X", X)
    y = check_array("y", y, ndim=2, reference=X)
    if tuple(y.shape) != tuple(X.shape[:2]):
        raise ValueError(
            f"X is a batch of shape {tuple(X.shape)}, and needs y of shape "
            f"{tuple(X.shape[:2])}; got {tuple(y.shape)}"
        )
    if _same_count({"X": int(X.shape[0]), "penalty": n_penalties}) > X.shape[0]:
        raise ValueError(f"one X for {n_penalties} penalties is given as X[0], of shape (n, p)")
    design = StackedDesign(X)
    settings = [
        prepare(own, y[k, ...], loss, fit_intercept) for k, own in enumerate(design.members)
    ]
    return design, settings


def _with_one_design(
    X: Any, y: Any, loss: Loss, fit_intercept: bool, n_penalties: int
) -> tuple[Design, list[Setting]]:
    y = y if array_api_compat.is_array_api_obj(y) else np.asarray(y)
    responses = [y] if y.ndim < 2 else [y[k, ...] for k in range(y.shape[0])]
    count = _same_count({"y": len(responses), "penalty": n_penalties})
    design = as_design(X)
    if design.weights is not None:
        raise ValueError("the rows of a batch all count alike; use sp.run for weighted ones")
    settings = [prepare(design, each, loss, False) for each in responses]
    if fit_intercept:
        centered = InterceptDesign(design)
        settings = [
            each._replace(design=centered, offset=loss.location(each.y)) for each in settings
        ]
    return SharedDesign(design), settings * (count if len(settings) == 1 else 1)


def _same_count(counts: dict[str, int]) -> int:
    """Return the number of members, of which each argument has one for all, or one for each."""
    several = {name: count for name, count in counts.items() if count != 1}
    if len(set(several.values())) > 1 or 0 in several.values():
        found = ", ".join(f"{count} of {name}" for name, count in counts.items())
        raise ValueError(f"a batch needs one for all of its members, or one for each; got {found}")
    return max(several.values(), default=1)
