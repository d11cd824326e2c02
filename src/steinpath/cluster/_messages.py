"""Calls and results between the client and the blocks, as pickles.

The design of the client stands for the design of each block, and the reverse. Paths, risks and
batches stay on the workers: the client gets a `Path` or `Risk` whose arrays over rows are fetched
when they are indexed, and which stands for the object of each block when it is passed to another
call. Other arrays over rows are cut into those of the blocks, or put together from them. Random
generators advance as if the client had used them.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Sequence
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
from steinpath.risk._methods import Predictions
from steinpath.risk._risk import Risk

try:
    from cloudpickle import Pickler
except ImportError:  # it comes with Dask, without which there is no cluster
    from pickle import Pickler

if TYPE_CHECKING:
    from steinpath.cluster._calls import CallResult

#: Attributes with one entry per row that are sent with a result, all along the first axis.
_OVER_ROWS: dict[type, tuple[str, ...]] = {
    LeftOutModels: ("predictions",),
    OnScaleOfY: ("y",),
}


class OverRows(NamedTuple):
    """An array over rows: all of them on the client, those of the block on a worker."""

    values: Array
    axis: int = 0


class NotOnWorkers(Exception):
    """A path of the client that no worker has, such as a copy."""


class _Kept(NamedTuple):
    """Stands for an object that a block keeps, in its result."""

    number: int


class KeptObjects:
    """Objects that a block keeps for later calls, by the key of the call that returned them."""

    def __init__(self) -> None:
        self._objects: dict[int, list[Any]] = {}

    def add(self, key: int, value: Any) -> _Kept:
        """Keep an object."""
        objects = self._objects.setdefault(key, [])
        objects.append(value)
        return _Kept(len(objects) - 1)

    def get(self, key: int, number: int) -> Any:
        """Return an object."""
        return self._objects[key][number]

    def release(self, keys: Iterable[int]) -> None:
        """Drop the objects of some calls."""
        for key in keys:
            self._objects.pop(key, None)

    def places(self) -> dict[int, tuple[int, int]]:
        """Return the key and the index of each object, by its id."""
        pairs = ((key, k, one) for key, some in self._objects.items() for k, one in enumerate(some))
        return {id(one): (key, k) for key, k, one in pairs}


class RemoteArray:
    """Array of shape (iterations, …) on the workers, fetched when it is indexed or converted.

    Parameters
    ----------
    reference : Reference
        The object of the blocks that has the array.
    name : str
        Name of the attribute.
    shape, dtype
        Shape on the client, and type of the entries.
    """

    def __init__(self, reference: Reference, name: str, shape: tuple[int, ...], dtype: Any):
        self._reference, self._name = reference, name
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
        found: np.ndarray = self._reference.result.call(_some_of, self._reference, self._name, t)
        return found


def _some_of(owner: Any, name: str, t: slice) -> Array | OverRows:
    """Return some iterations of an array of a block."""
    if name == "products":
        return OverRows(owner.products_at(t), 1)
    if name == "predictions":
        return OverRows(owner.of(t), 1)
    values = getattr(owner, name)[t, :]
    return OverRows(values, 1) if name in ("duals", "differences") else values


class Reference(NamedTuple):
    """An object that the blocks keep: one of those in the result of a call."""

    result: CallResult
    number: int


# ------------------------------------------------------------------------------------------------
# Calls: from the client to the blocks
# ------------------------------------------------------------------------------------------------


def pack_call(
    function: Callable[..., Any], args: Sequence[Any], design: Design, known: Any
) -> CallPickler:
    """Pack a function and its arguments for all blocks; ``known`` has the references of objects."""
    pickler = CallPickler(design, known)
    pickler.dump((function, tuple(args)))
    return pickler


class CallPickler(Pickler):  # type: ignore[misc]
    """Packs a call, and collects what is sent beside it."""

    def __init__(self, design: Design, known: Any):
        self._file = BytesIO()
        super().__init__(self._file, protocol=5)
        self._design, self._known = design, known
        self.over_rows: list[np.ndarray] = []
        self.generators: list[np.random.Generator] = []
        self.results: list[CallResult] = []

    @property
    def packed(self) -> bytes:
        """The pickle."""
        return self._file.getvalue()

    def persistent_id(self, obj: Any) -> Any:
        if obj is self._design:
            return ("design",)
        if isinstance(obj, Path | Risk):
            obj = self._known.get(obj)
        if isinstance(obj, Reference):
            self.results.append(obj.result)
            return "kept", obj.result.key, obj.number
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
        if isinstance(obj, WeightedDesign):
            raise ValueError("sample_weight is not supported for a distributed design; omit it")
        if isinstance(obj, Path):
            raise NotOnWorkers
        return _design_parts(obj) or super().reducer_override(obj)


def _data_of_block(y: Array, loss: Any, design: Design, level: np.ndarray) -> RunData:
    """Return the data of a run for the rows of a block, given the responses of all rows."""
    inner = design
    while isinstance(inner, TransformedDesign):
        inner = inner.inner
    inner.all_y = y
    return RunData(design.local(y)[:, None], loss, design, level)


def _design_parts(obj: Any) -> Any:
    """Return how to make a transformed design of another block of rows; None for other objects."""
    if isinstance(obj, InterceptDesign):
        return InterceptDesign, (obj.features, obj.means, obj.intercept_scale), {"_norm": obj._norm}
    if isinstance(obj, ScaledDesign):
        return ScaledDesign, (obj.features, obj.scale), {"_norm": obj._norm}
    return None


def unpack_call(
    packed: bytes,
    design: Design,
    parts: Sequence[np.ndarray],
    generators: Sequence[np.random.Generator],
    kept: KeptObjects,
) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Return the function and its arguments, for the rows of a block."""
    sources: dict[str, Callable[..., Any]] = {
        "design": lambda: design,
        "kept": kept.get,
        "rows": parts.__getitem__,
        "generator": generators.__getitem__,
    }
    function, args = _Unpickler(packed, sources).load()
    return function, args


class _Unpickler(pickle.Unpickler):
    """Replaces what a pickle refers to by the objects of this side."""

    def __init__(self, packed: bytes, sources: dict[str, Callable[..., Any]]):
        super().__init__(BytesIO(packed))
        self._sources = sources

    def persistent_load(self, pid: Any) -> Any:
        source, *place = pid
        return self._sources[source](*place)


# ------------------------------------------------------------------------------------------------
# Results: from the blocks to the client
# ------------------------------------------------------------------------------------------------


def pack_result(value: Any, key: int, kept: KeptObjects) -> tuple[bytes, list[np.ndarray]]:
    """Pack a result without its arrays over rows; return these, or keep them on the block."""
    pickler = _ResultPickler(key, kept)
    pickler.dump(value)
    return pickler.file.getvalue(), pickler.parts


class _ResultPickler(Pickler):  # type: ignore[misc]
    def __init__(self, key: int, kept: KeptObjects):
        self.file = BytesIO()
        super().__init__(self.file, protocol=5)
        self._key, self._kept, self._places = key, kept, kept.places()
        self.parts: list[np.ndarray] = []

    def persistent_id(self, obj: Any) -> Any:
        if isinstance(obj, Design) and not isinstance(obj, TransformedDesign):
            return ("design",)
        if id(obj) in self._places:  # which the client has from an earlier call
            return "kept", *self._places[id(obj)]
        if isinstance(obj, Batch):
            obj = self._kept.add(self._key, obj)
        if isinstance(obj, _Kept):
            return "new", obj.number
        if isinstance(obj, OverRows):
            self.parts.append(np.asarray(obj.values))
            return "rows", len(self.parts) - 1, obj.axis
        return None

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, Path):
            return _received_path, self._path(obj)
        if isinstance(obj, Risk):
            return _received_risk, (self._keep(obj), _state(obj) | _without_rows(obj))
        if isinstance(obj, HeldOut) and obj.sample.design is not None:
            over_rows = OverRows(obj.predictions, 1), OverRows(obj.losses, 1)
            state = _state(obj) | dict(zip(("predictions", "losses"), over_rows, strict=True))
            return _received, (HeldOut, state)
        if isinstance(obj, RowSample) and obj.design is not None:
            return _received_sample, (obj.whole,)
        if isinstance(obj, Predictions):
            path = obj.path
            return _received_predictions, (self._keep(obj), path, path.response.dtype)
        if isinstance(obj, Audit) and obj.sample.design is not None:
            curves = ("difference", "stderr", "significance", "share", "error", "misfit")
            state = vars(obj) | {name: getattr(obj, name) for name in curves}
            return _received_audit, (self._keep(obj), state | {"differences": None})
        for cls, names in _OVER_ROWS.items():
            if isinstance(obj, cls):
                state = _state(obj)
                return _received, (cls, state | {name: OverRows(state[name]) for name in names})
        return _design_parts(obj) or super().reducer_override(obj)

    def _keep(self, obj: Any) -> _Kept:
        return self._kept.add(self._key, obj)

    def _path(self, path: Path) -> tuple[Any, ...]:
        names = ("loss", "penalty", "algorithm", "design", "level", "risk")
        state = {name: getattr(path, name) for name in names}
        return self._keep(path), path.data.all_y, state, path.n_iter, path.response.dtype


def _without_rows(risk: Risk) -> dict[str, Any]:
    """Return the fields of a risk without the predictions of rows that were left out."""
    estimate, nothing = risk.estimate, None
    if estimate.held_out is not None:
        sample = estimate.held_out.sample
        held_out = estimate.held_out._replace(predictions=nothing, losses=None)
        held_out = held_out._replace(sample=sample.whole or sample)
        estimate = estimate._replace(held_out=held_out)
    return {"estimate": estimate, "audited": None}


def _state(obj: Any) -> dict[str, Any]:
    """Return the fields of a dataclass or a named tuple."""
    names = [each.name for each in fields(obj)] if is_dataclass(obj) else obj._fields
    return {name: getattr(obj, name) for name in names}


def unpack_result(packed: bytes, parts: Sequence[Sequence[np.ndarray]], sources: Any) -> Any:
    """Return the result of the first block with the arrays over rows of all blocks.

    ``sources`` are the design of the client, its objects, and references to new ones.
    """

    def rows(k: int, axis: int) -> np.ndarray:
        return np.concatenate([own[k] for own in parts], axis=axis)

    return _Unpickler(packed, sources | {"rows": rows}).load()


def _received(cls: type, state: dict[str, Any]) -> Any:
    return cls(**state)


def _received_sample(sample: RowSample) -> RowSample:
    return sample


def _received_path(
    reference: Reference, y: Array, state: dict[str, Any], n_iter: int, dtype: Any
) -> Path:
    data = RunData(y[:, None], state["loss"], state["design"], np.array([state["level"]]))
    assert isinstance(state["algorithm"], ProximalAlgorithm)
    maps = state["algorithm"].maps(data.loss, data.own(state["penalty"]), data.rows)
    n, p = data.design.shape
    sizes = {"iterates": p, "products": n, "duals": n, "etas": p}
    arrays: dict[str, Any] = {
        name: RemoteArray(reference, name, (n_iter + 1, size), dtype)
        for name, size in sizes.items()
    }
    return reference.result.register(Path(y=y, maps=maps, **state, **arrays), reference)


def _received_predictions(reference: Reference, path: Path, dtype: Any) -> Predictions:
    shape = path.n_iter + 1, path.n_samples
    predictions: Any = RemoteArray(reference, "predictions", shape, dtype)
    return Predictions(path, predictions)


def _received_risk(reference: Reference, state: dict[str, Any]) -> Risk:
    return reference.result.register(Risk(**state), reference)


def _received_audit(reference: Reference, state: dict[str, Any]) -> Audit:
    audit = object.__new__(Audit)
    shape = len(state["slope"]), len(state["rows"])
    differences = RemoteArray(reference, "differences", shape, state["slope"].dtype)
    audit.__dict__.update(state | {"differences": differences})
    return audit
