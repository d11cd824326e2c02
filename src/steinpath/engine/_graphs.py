"""CUDA graphs: iterations on a device without launching each kernel separately.

A small problem leaves a GPU idle: launching the some twenty kernels of an iteration takes longer
than running them. A graph of one iteration is recorded once, from the same code, and then launched
as a whole. Inputs that differ between iterations, such as Jacobians, are copied into it first.

Graphs are used for torch arrays on a CUDA device if the updates of the algorithm are the same in
every iteration up to some numbers (`Maps.steady`). Iterations that differ otherwise, such as
restarts, run one by one. Set ``STEINPATH_CUDA_GRAPHS=0`` in the environment to disable them.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Generator, Iterator
from dataclasses import fields, is_dataclass, replace
from itertools import count
from typing import TYPE_CHECKING, Any

import array_api_compat
import numpy as np

from steinpath._support.arrays import Array, like, on_cuda
from steinpath.algorithms._base import History, Maps, Moment

if TYPE_CHECKING:
    from steinpath.engine._loop import Histories, Newest, Step

    #: One iteration: a step, its data, the histories to extend, and readings of the newest ``b``.
    Advance = Callable[[Step, Any, Histories, list[Array]], Newest]

# Number of iterations from which on a recording pays off: it takes about as long as three.
_FEWEST = 8
# Number of iterations whose numbers are copied to the device at a time.
_BLOCK = 512


def recording_of(maps: Maps, example: Array, n_iter: int) -> Recording | None:
    """Return a recording for ``n_iter`` iterations, if it is possible and pays off."""
    if not maps.steady or n_iter < _FEWEST or os.environ.get("STEINPATH_CUDA_GRAPHS") == "0":
        return None
    return Recording(maps) if on_cuda(example) else None


class Recording:
    """CUDA graph of one iteration, recorded when it is first needed."""

    def __init__(self, maps: Maps) -> None:
        self._maps = maps
        self._graph: Any = None
        self._weight = 1.0
        self._step: Step | None = None
        # numbers of iterations on the device, in blocks
        self._numbers: dict[int, Array] = {}
        #: Whether recording failed because the step synchronises with the device.
        self.failed = False

    def replay(
        self, advance: Advance, step: Step, past: Histories, times: Iterator[int]
    ) -> Generator[Newest, None, int | None]:
        """Record ``advance`` and launch it for all times up to one that is not like the others.

        Returns that time, or None at the end.
        """
        loaded = False
        try:
            for t in times:
                if not loaded:
                    begun = len(past.b) > 1 and past.v
                    carried = past.u.carried is not None or not self._maps.carries
                    if self.failed or not (begun and carried):
                        return t
                if self._maps.numbers(t) is None:
                    return t
                now = step.now(t, self._moment(t, past.u[-1]))
                if not loaded:
                    weight, old = self._maps.weight(t), self._weight
                    if self._graph is None or old != weight or not step.resembles(self._step):
                        self._weight = weight
                        self._record(advance, step, past, now)
                    if self.failed:
                        return t
                    self._load(past)
                    loaded = True
                self._inputs.fill(now)
                self._graph.replay()
                yield self._newest
        finally:
            if loaded:
                self._store(past)
        return None

    def _moment(self, t: int, example: Array) -> Moment:
        """Return an iteration with its numbers on the device."""
        block, place = divmod(t, _BLOCK)
        if block not in self._numbers:
            every = [self._maps.numbers(block * _BLOCK + k) or () for k in range(_BLOCK)]
            table = np.zeros((_BLOCK, max(map(len, every))))
            for row, numbers in zip(table, every, strict=True):
                row[: len(numbers)] = numbers
            self._numbers = {block: like(table, example)}
        return Moment(self._numbers[block][place, :], t)

    def _record(self, advance: Advance, step: Step, past: Histories, now: Any) -> None:
        self._step, self._inputs = step, _Inputs(now)
        self._u, self._v = past.u[-1].clone(), past.v[-1].clone()
        self._b = [b.clone() for b in past.b[-2:]]
        self._carried = [_mapped(h.carried, lambda x: x.clone()) for h in (past.u, past.b)]
        self._reading = [reading.clone() for reading in step.reading(self._u, self._b[-1])]

        def body() -> Newest:
            u, v, b, eta = map(History, ([self._u], [self._v], self._b, []))
            u.carried, b.carried = self._carried
            held = past._replace(u=u, v=v, b=b, eta=eta)
            newest = advance(step, self._inputs.now, held, self._reading)
            self._b[0].copy_(self._b[-1])
            self._keep(held, newest.reading)
            return newest

        self._on_device(body)

    def _on_device(self, body: Callable[[], Newest]) -> None:
        """Record an iteration, unless that fails."""
        import torch

        device = self._u.device
        self._graph, stream = torch.cuda.CUDAGraph(), _side_stream(device)
        stream.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(stream):
            body()  # initialises what cannot be recorded, such as library workspaces
            try:
                self._graph.capture_begin(capture_error_mode="thread_local")
                try:
                    self._newest = body()
                finally:
                    self._graph.capture_end()
            except RuntimeError:
                self.failed = True
        torch.cuda.current_stream(device).wait_stream(stream)

    def _keep(self, past: Histories, reading: list[Array]) -> None:
        """Copy the newest entry of each history to the inputs of the next iteration."""
        for buffer, history in zip((self._u, self._v, self._b[-1]), past[:3], strict=True):
            buffer.copy_(history[-1])
        for buffers, history in zip(self._carried, (past.u, past.b), strict=True):
            for buffer, value in zip(buffers or (), history.carried or (), strict=True):
                if value is not buffer:
                    buffer.copy_(value)
        for buffer, value in zip(self._reading, reading, strict=True):
            buffer.copy_(value)

    def _load(self, past: Histories) -> None:
        assert self._step is not None
        self._b[0].copy_(past.b[-2:][0])
        self._keep(past, self._step.reading(past.u[-1], past.b[-1]))

    def _store(self, past: Histories) -> None:
        """Update the histories as if the iterations had run one by one."""
        kept = ([self._u], [self._v], self._b, [self._newest.eta])
        for history, buffers in zip(past, kept, strict=True):
            history[:] = [buffer.clone() for buffer in buffers]
        for history, buffers in zip((past.u, past.b), self._carried, strict=True):
            history.carried = _mapped(buffers, lambda x: x.clone())


class _Inputs:
    """Inputs that differ between iterations, in arrays at fixed addresses."""

    def __init__(self, now: Any):
        self._sources: list[Array] = []
        self._buffers: list[Array] = []
        self.now = _mapped(now, self._hold)

    def _hold(self, array: Array) -> Array:
        self._sources.append(array)
        self._buffers.append(array.clone())
        return self._buffers[-1]

    def fill(self, now: Any) -> None:
        """Copy the arrays of an iteration, unless they are those of the last one."""
        places = count()

        def copy(array: Array) -> Array:
            k = next(places)
            if array is not self._sources[k]:
                self._buffers[k].copy_(array)
                self._sources[k] = array
            return array

        _mapped(now, copy)


def _mapped(tree: Any, change: Callable[[Array], Array]) -> Any:
    """Return nested tuples and dataclasses with their arrays replaced."""
    if array_api_compat.is_torch_array(tree):
        return change(tree)
    if isinstance(tree, tuple):
        parts = [_mapped(part, change) for part in tree]
        return tree._make(parts) if hasattr(tree, "_make") else tuple(parts)
    if is_dataclass(tree) and not isinstance(tree, type):
        own = {field.name: getattr(tree, field.name) for field in fields(tree) if field.init}
        changed = {name: _mapped(value, change) for name, value in own.items()}
        some = any(changed[name] is not own[name] for name in own)
        return replace(tree, **changed) if some else tree
    return tree


def _side_stream(device: Any) -> Any:
    """Return the stream on which this thread records the graphs of a device."""
    import torch

    name = str(device)
    if not hasattr(_own, name):
        setattr(_own, name, torch.cuda.Stream(device))  # type: ignore[no-untyped-call]
    return getattr(_own, name)


_own = threading.local()
