"""Several runs on the same data, or of a batch, that advance together as columns of a block."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from steinpath._support.arrays import Array, namespace
from steinpath.algorithms._family import ProximalAlgorithm, ProximalMaps
from steinpath.algorithms._recursion import Algorithm
from steinpath.engine._path import Path, Setting, State, states_from
from steinpath.problem._penalties import Penalty

#: Called after each iteration with its number and the block of iterates; True ends the run.
Watch = Callable[[int, Array], bool]


def start_side_by_side(
    setting: Setting, penalties: Sequence[Penalty], algorithm: ProximalAlgorithm
) -> list[Path]:
    """Return paths that have not moved yet, one for each penalty.

    All take the same step sizes: those of the penalty that allows the least.
    """
    for penalty in penalties:
        setting.own(penalty).check_size(setting.design.shape[1])
    strictest = min(penalties, key=lambda penalty: penalty.max_step)
    bound, _ = setting.bind(algorithm, strictest)
    assert isinstance(bound, ProximalAlgorithm)
    loss, n = setting.working_loss, setting.design.n_rows
    start = State(*(array[None, :] for array in setting.start()))
    return [
        setting.path(penalty, bound, bound.maps(loss, setting.own(penalty), n), start)
        for penalty in penalties
    ]


def maps_side_by_side(paths: Sequence[Path], columns: int = 1) -> ProximalMaps:
    """Return maps for blocks of columns: so many for each path, those of the first one first."""
    each = [path.maps for path in paths if isinstance(path.maps, ProximalMaps)]
    assert len(each) == len(paths)
    first, *others = (maps.primal_map.penalty for maps in each for _ in range(columns))
    primal_map = replace(each[0].primal_map, penalty=first.beside(others))
    return replace(each[0], primal_map=primal_map)


def extend_side_by_side(
    paths: Sequence[Path], n_iter: int, watch: Watch | None = None
) -> list[Path]:
    """Extend paths to ``n_iter`` iterations, as columns of the same two products per step.

    Parameters
    ----------
    paths : sequence of Path
        Of `start_side_by_side`, or what was made of these before.
    n_iter : int
        Number of iterations, those that are there included.
    watch : callable, optional
        Called after each iteration with its number and the block of iterates; the run ends if it
        returns True.
    """
    first, xp = paths[0], namespace(paths[0].y)
    setting, maps = first.setting, maps_side_by_side(paths)
    known = State(
        *(xp.stack(parts) for parts in zip(*(path.states for path in paths), strict=True))
    )
    # one array for all paths, of which each then has its own part
    together = extend_together(setting, first.algorithm, maps, known, n_iter, watch)
    return [
        setting.path(path.penalty, path.algorithm, path.maps, together.member(k))
        for k, path in enumerate(paths)
    ]


def extend_together(
    setting: Setting,
    algorithm: Algorithm,
    maps: ProximalMaps,
    known: State,
    n_iter: int,
    watch: Watch | None = None,
) -> State:
    """Extend all states of several runs, of shape (runs, iterations, size), to ``n_iter``."""
    count, first, _ = known.b.shape
    arrays = State(*(setting.design.zeros(count, n_iter + 1, x.shape[2]) for x in known))
    for array, x in zip(arrays, known, strict=True):
        array[:, :first, :] = x
    remembered = range(max(0, first - ProximalMaps.memory), first)
    past = [State(*(x[:, t, :].T for x in known)) for t in remembered]
    reached = first - 1
    for state in states_from(setting, algorithm, maps, past, first, [n_iter]):
        reached += 1
        for array, block in zip(arrays, state, strict=True):
            array[:, reached, :] = block.T
        if watch is not None and watch(reached, state.b):
            break
    return State(*(array[:, : reached + 1, :] for array in arrays))
