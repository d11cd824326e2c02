"""Calls and results between the client and the blocks, as pickles.

The design of the client stands for the design of each block, and the reverse. Paths, risks and
batches stay on the workers: the client gets a `Path` or `Risk` whose arrays over rows are fetched
when they are indexed, and which stands for the object of each block when it is passed to another
call. Other arrays over rows are cut into those of the blocks, or put together from them. Random
generators advance as if the client had used them.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from steinpath._support.arrays import Array
from steinpath.algorithms._base import ProximalAlgorithm
from steinpath.design._base import Design, TransformedDesign
from steinpath.design._transformed import InterceptDesign, ScaledDesign, WeightedDesign
from steinpath.engine._batch import Batch
from steinpath.engine._data import RunData
from steinpath.engine._path import Path
from steinpath.problem._scoring import OnScaleOfY
from steinpath.risk._audit import Audit
from steinpath.risk._held_out import HeldOut, RowSample
from steinpath.risk._leave_out import LeftOutModels
from steinpath.risk._methods import Estimate, Predictions
from steinpath.risk._risk import Risk

try:
    from cloudpickle import Pickler
except ImportError:  # it comes with Dask, without which there is no cluster
    from pickle import Pickler

if TYPE_CHECKING:
    from steinpath.cluster._calls import CallResult

#: Attributes with one entry per row that are sent with a result, and their axis of the rows.
_OVER_ROWS: dict[type, tuple[tuple[str, ...], int]] = {
    HeldOut: (("predictions", "losses"), 1),
    LeftOutModels: (("predictions",), 0),
    OnScaleOfY: (("y",), 0),
}

# Attributes of an audit that are computed from all rows.
_CURVES = ("difference", "stderr", "significance", "share", "error", "misfit")

#: Objects that a block keeps for later calls, by the key of a call and their number in its result.
KeptObjects = dict[tuple[int, int], Any]


class OverRows(NamedTuple):
    """An array over rows: all of them on the client, those of the block on a worker."""

    values: Array
    axis: int = 0


class NotOnWorkers(Exception):
    """A path of the client that no worker has, such as a copy."""


class Reference(NamedTuple):
    """An object that the blocks keep: one of those in the result of a call."""

    result: CallResult
    number: int


class RemoteArray:
    """Array of shape (iterations, …) on the workers, fetched when it is indexed or converted."""

    def __init__(self, owner: Any, name: str, shape: tuple[int, ...], dtype: Any):
        self._owner, self._name = owner, name
        self.shape, self.dtype, self.ndim = shape, dtype, len(shape)
        self._values: Array | None = None

    def __getitem__(self, index: Any) -> Array:
        first, *rest = index if isinstance(index, tuple) else (index,)
        if self._values is not None or not isinstance(first, slice | int) or first == slice(None):
            return np.asarray(self)[index]
        if isinstance(first, slice):
            return self._fetch(first)[(slice(None), *rest)]
        first %= self.shape[0]
        return self._fetch(slice(first, first + 1))[(0, *rest)]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if self._values is None:
            self._values = self._fetch(slice(None))
        return np.array(self._values, dtype) if copy else np.asarray(self._values, dtype)

    def __len__(self) -> int:
        return self.shape[0]

    def _fetch(self, t: slice) -> np.ndarray:
        values: np.ndarray = self._owner.result.calls.call(_fetched, self._owner, self._name, t)
        return values


def _fetched(owner: Any, name: str, t: slice) -> Array | OverRows:
    """Return some iterations of an array of a block."""
    if name in ("products", "predictions"):
        at = owner.products_at if name == "products" else owner.of
        return OverRows(at(t), 1)
    values = getattr(owner, name)[t, :]
    return values if name in ("iterates", "etas") else OverRows(values, 1)


class _Unpickler(pickle.Unpickler):
    """Replaces what a pickle refers to by the objects of this side."""

    def __init__(self, packed: bytes, sources: dict[str, Callable[..., Any]]):
        super().__init__(BytesIO(packed))
        self._sources = sources

    def persistent_load(self, pid: Any) -> Any:
        source, *place = pid
        return self._sources[source](*place)


def _design_parts(obj: Any) -> Any:
    """Return how to make a transformed design of other rows; None for other objects."""
    if isinstance(obj, InterceptDesign):
        return InterceptDesign, (obj.inner, obj.means, obj.intercept_scale), {"_norm": obj._norm}
    if isinstance(obj, ScaledDesign):
        return ScaledDesign, (obj.inner, obj.scale), {"_norm": obj._norm}
    if isinstance(obj, WeightedDesign):  # each block takes the weights of its own rows
        return WeightedDesign.of_sample, (obj.inner, obj.all_weights), {"_norm": obj._norm}
    return None


def transformations(design: Design) -> tuple[Any, ...]:
    """Return how a design is made of the one that it transforms; the same for equal designs."""
    if (parts := _design_parts(design)) is None:
        return ()
    cls, (inner, *args), _ = parts
    return cls, *(np.asarray(one).tobytes() for one in args), *transformations(inner)


# Calls: from the client to the blocks


class CallPickler(Pickler):  # type: ignore[misc]
    """Packs a call for all blocks, with ``known`` references of objects and norms of designs."""

    def __init__(
        self,
        function: Callable[..., Any],
        args: Any,
        design: Design,
        known: Any,
        norms: dict[tuple[Any, ...], Any],
    ):
        file = BytesIO()
        super().__init__(file, protocol=5)
        self._design, self._known, self._norms = design, known, norms
        self.over_rows: list[np.ndarray] = []
        self.generators: list[np.random.Generator] = []
        self.results: list[CallResult] = []
        self.dump((function, args))
        self.packed = file.getvalue()

    def persistent_id(self, obj: Any) -> Any:
        if obj is self._design:
            return "design", self._norms.get(())
        if isinstance(obj, Path | Risk):
            obj = self._known.get(obj)
        if isinstance(obj, Reference):
            self.results.append(obj.result)
            return "kept", (obj.result.key, obj.number)
        if isinstance(obj, OverRows):
            self.over_rows.append(obj.values)
            return "rows", len(self.over_rows) - 1
        if isinstance(obj, np.random.Generator):
            self.generators.append(obj)
            return "generator", len(self.generators) - 1
        return None

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, RunData):
            return _data_of_block, (obj.y[:, 0], obj.loss, obj.design, obj.level)
        if isinstance(obj, Path):
            raise NotOnWorkers
        if isinstance(obj, TransformedDesign) and obj._norm is None:
            obj._norm = self._norms.get(transformations(obj))
        return _design_parts(obj) or super().reducer_override(obj)


def _data_of_block(y: Array, loss: Any, design: Design, level: np.ndarray) -> RunData:
    """Return the data of a run for the rows of a block, given the responses of all rows."""
    inner = design
    while isinstance(inner, TransformedDesign):
        inner = inner.inner
    inner.all_y = y
    return RunData(design.local(y)[:, None], loss, design, level)


def unpack_call(
    packed: bytes,
    design: Design,
    parts: Sequence[np.ndarray],
    generators: Sequence[np.random.Generator],
    kept: KeptObjects,
) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Return the function and its arguments, for the rows of a block."""

    def own_design(norm: Any) -> Design:
        design._norm = norm
        return design

    sources: dict[str, Callable[..., Any]] = {
        "design": own_design,
        "kept": kept.__getitem__,
        "rows": parts.__getitem__,
        "generator": generators.__getitem__,
    }
    function, args = _Unpickler(packed, sources).load()
    return function, args


# Results: from the blocks to the client


class _New(NamedTuple):
    """An object that the block keeps from now on: a `Reference` on the client."""

    number: int


class Totals(NamedTuple):
    """Shape, sum and sum of absolute values of an array or a number."""

    shape: tuple[int, ...]
    total: float
    size: float


class ResultPickler(Pickler):  # type: ignore[misc]
    """Packs a result without its arrays over rows; others must be the same on all blocks."""

    def __init__(self, value: Any, key: int, kept: KeptObjects):
        file = BytesIO()
        super().__init__(file, protocol=5)
        self._known = {id(one): place for place, one in kept.items()}
        self._new = list[Any]()
        self.parts: list[np.ndarray] = []
        self.summaries: list[Totals] = []
        self.dump(value)
        self.packed = file.getvalue()
        kept |= {(key, number): one for number, one in enumerate(self._new)}

    def persistent_id(self, obj: Any) -> Any:
        if isinstance(obj, np.ndarray | float):
            self.summaries.append(_summary(obj))
            return None
        if isinstance(obj, Design) and not isinstance(obj, TransformedDesign):
            return ("design",)
        if id(obj) in self._known:  # which the client has from an earlier call
            return "kept", self._known[id(obj)]
        if isinstance(obj, Batch):
            obj = self._keep(obj)
        if isinstance(obj, _New):
            return "new", *obj
        if isinstance(obj, OverRows):
            self.parts.append(np.asarray(obj.values))
            return "rows", len(self.parts) - 1, obj.axis
        return None

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, Path):
            return _received_path, self._path(obj)
        if isinstance(obj, Risk):
            state = {field.name: getattr(obj, field.name) for field in fields(obj)}
            state |= {"estimate": _without_rows(obj.estimate), "audited": None}
            return _received_risk, (self._keep(obj), state)
        if isinstance(obj, RowSample) and obj.design is not None:
            return obj.whole.__reduce_ex__(5)
        if isinstance(obj, Predictions):
            path, number = obj.path, self._keep(obj)
            shape = path.n_iter + 1, path.n_samples
            stored = RemoteArray(number, "predictions", shape, path.response.dtype)
            return Predictions, (path, stored)
        if isinstance(obj, Audit) and obj.sample.design is not None:
            shape, dtype = (len(obj.slope), len(obj.rows)), obj.slope.dtype
            differences = RemoteArray(self._keep(obj), "differences", shape, dtype)
            # computed by all blocks now
            curves = {name: getattr(obj, name) for name in _CURVES}
            state = vars(obj) | curves | {"differences": differences}
            return object.__new__, (Audit,), state
        names, axis = _OVER_ROWS.get(type(obj), ((), 0))
        if names and not (isinstance(obj, HeldOut) and obj.sample.design is None):
            parts = {name: OverRows(getattr(obj, name), axis) for name in names}
            if is_dataclass(obj):
                return object.__new__, (type(obj),), vars(obj) | parts
            return type(obj), tuple((obj._asdict() | parts).values())
        return _design_parts(obj) or super().reducer_override(obj)

    def _keep(self, obj: Any) -> _New:
        self._new.append(obj)
        return _New(len(self._new) - 1)

    def _path(self, path: Path) -> tuple[Any, ...]:
        new, length, dtype = self._keep(path), path.n_iter + 1, path.response.dtype
        names = ("loss", "penalty", "algorithm", "design", "level", "risk")
        state = {name: getattr(path, name) for name in names} | {"y": path.data.all_y}
        n, p = path.design.whole_shape
        for name, size in {"iterates": p, "products": n, "duals": n, "etas": p}.items():
            state[name] = RemoteArray(new, name, (length, size), dtype)
        return new, state, path.design._norm


def _summary(value: np.ndarray | float) -> Totals:
    array = np.asarray(value)
    if array.dtype.kind not in "biuf":
        return Totals(array.shape, 0.0, 0.0)
    finite = np.where(np.isfinite(array), array, 0.0).astype(float)
    with np.errstate(over="ignore"):
        return Totals(array.shape, float(finite.sum()), float(np.abs(finite).sum()))


def same_on_all(blocks: Sequence[Sequence[Totals]]) -> bool:
    """Return whether the results of all blocks have the same arrays, except for rounding."""
    # sums over the rows of two blocks differ by far more: an array over rows that was meant to be
    # sent as the part of a block is noticed
    first, *others = blocks
    scale = max((one.size for one in first), default=0.0)
    for summaries in others:
        if [one.shape for one in summaries] != [one.shape for one in first]:
            return False
        for own, one in zip(summaries, first, strict=True):
            if abs(own.total - one.total) > 1e-4 * max(own.size, one.size) + 1e-10 * scale:
                return False
    return True


def _without_rows(estimate: Estimate) -> Estimate:
    """Return the result of a method without the predictions of rows that were left out."""
    if (held_out := estimate.held_out) is None:
        return estimate
    sample, nothing = held_out.sample.whole or held_out.sample, None
    return estimate._replace(
        held_out=held_out._replace(predictions=nothing, losses=None, sample=sample)
    )


def unpack_result(
    packed: bytes, parts: Sequence[Sequence[np.ndarray]], sources: dict[str, Callable[..., Any]]
) -> Any:
    """Return the result of the first block with the arrays over rows of all blocks."""

    def rows(k: int, axis: int) -> np.ndarray:
        return np.concatenate([own[k] for own in parts], axis=axis)

    return _Unpickler(packed, sources | {"rows": rows}).load()


def _received_path(reference: Reference, state: dict[str, Any], norm: Any) -> Path:
    calls = reference.result.calls
    if norm is not None:
        calls.norms[transformations(state["design"])] = norm
    y, algorithm = state["y"], state["algorithm"]
    data = RunData(y[:, None], state["loss"], state["design"], np.array([state["level"]]))
    assert isinstance(algorithm, ProximalAlgorithm)
    maps = algorithm.maps(data.loss, data.own(state["penalty"]), data.rows)
    path = Path(maps=maps, **state)
    calls.register(path, reference)
    return path


def _received_risk(reference: Reference, state: dict[str, Any]) -> Risk:
    risk = Risk(**state)
    reference.result.calls.register(risk, reference)
    return risk
