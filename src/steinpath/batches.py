"""Many runs at once: replications with their own X, or many penalties and responses on one X.

Small problems leave a device idle. In a batch, all members take each step together: iterates have
the shape (p, members), tangents (p, members, columns), and one call multiplies, clips or shrinks
all of them. Losses, penalties, algorithms and tangents work on columns as it is; only the design
has to know whose columns they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, overload

import array_api_compat
import numpy as np

from steinpath._arrays import Array, cast, namespace, take, to_numpy
from steinpath._validation import (
    check_array,
    check_choice,
    check_count,
    check_flag,
    check_instance,
    check_magnitude,
    check_rng,
    spawned,
)
from steinpath.algorithms import ChambollePock, ProximalAlgorithm, ProximalMaps
from steinpath.compression import (
    Columns,
    Readings,
    compress_all,
    follow,
    probe_columns,
    rows_are_less_noisy,
    usual_probes,
)
from steinpath.corrections import row_squares_of, second_moments
from steinpath.designs import DenseDesign, Design, InterceptDesign, as_design
from steinpath.losses import Loss
from steinpath.methods import Found, Problem, probes_wanted, scored
from steinpath.path import Path, Setting, State, extend_together, maps_side_by_side, prepare
from steinpath.penalties import Penalty
from steinpath.precision import design_in
from steinpath.risk import Risk, assemble, name_of_scale
from steinpath.scoring import TestLoss, resolve_test_loss
from steinpath.tangents import Linearization

# Steps of the power method that tells which members of a batch may have the largest norm, and how
# far below the largest one their estimates may be.
_POWER_STEPS, _NEARLY_LARGEST = 12, 0.9


# ------------------------------------------------------------------------------------------------
# Designs
# ------------------------------------------------------------------------------------------------


class _OfMembers(Design):
    """A design whose columns each belong to a member of a batch, with a design of its own."""

    members: Sequence[Design]

    def _largest_singular_value(self, tol: float) -> float:
        xp = namespace(self.example)
        # not signs, to which a singular vector of a small matrix may be orthogonal
        start = np.random.default_rng(0).standard_normal((self.shape[1], len(self.members)))
        block = self.array(start)
        for _ in range(_POWER_STEPS):
            block = self.rmatmat(self.matmat(block))
            sizes = xp.linalg.vector_norm(block, axis=0)
            block = block / xp.where(sizes > 0, sizes, sizes + 1)
        rough = to_numpy(sizes)
        # for a warning it is enough to look at one
        least = rough.max() * (1.0 if tol >= 1e-3 else _NEARLY_LARGEST)
        near = np.flatnonzero(rough >= least).tolist()
        return max(self.members[k].norm(tol) for k in near)


class StackedDesign(_OfMembers):
    """Matrices of one shape, one for each member of a batch.

    Parameters
    ----------
    X : Array of shape (members, n, p)
        Checked before.
    """

    def __init__(self, X: Array):
        self.example, self.shape = X, (int(X.shape[1]), int(X.shape[2]))
        self.members = [DenseDesign.of_checked(X[k, ...]) for k in range(X.shape[0])]

    def matmat(self, block: Array) -> Array:
        return self._times(self.example, block)

    def rmatmat(self, block: Array) -> Array:
        return self._times(namespace(block).matrix_transpose(self.example), block)

    def astype(self, dtype: Any) -> StackedDesign:
        return StackedDesign(cast(self.example, dtype))

    @staticmethod
    def _times(matrices: Array, block: Array) -> Array:
        """Multiply the columns of each member, of shape (size, members[, columns]), by its own."""
        xp = namespace(block)
        columns = block[:, :, None] if block.ndim == 2 else block
        product = xp.permute_dims(matrices @ xp.permute_dims(columns, (1, 0, 2)), (1, 0, 2))
        return product[:, :, 0] if block.ndim == 2 else product


class StackedInterceptDesign(_OfMembers, InterceptDesign):
    """The same with intercepts."""

    def __init__(self, features: StackedDesign, members: Sequence[InterceptDesign]):
        self.members, xp = members, namespace(features.example)
        means = xp.stack([each.means for each in members], axis=1)
        super().__init__(features, means, features.array([each.height for each in members]))

    def astype(self, dtype: Any) -> StackedInterceptDesign:
        assert isinstance(self.features, StackedDesign)
        members = [each for each in self.members if isinstance(each, InterceptDesign)]
        return StackedInterceptDesign(self.features.astype(dtype), members)


class SharedDesign(Design):
    """One design for all members of a batch.

    Parameters
    ----------
    design : Design
        The design.
    """

    def __init__(self, design: Design):
        self.design, self.example, self.shape = design, design.example, design.shape
        self.dear = design.dear

    def matmat(self, block: Array) -> Array:
        return self._flat(self.design.matmat, block)

    def rmatmat(self, block: Array) -> Array:
        return self._flat(self.design.rmatmat, block)

    def astype(self, dtype: Any) -> SharedDesign:
        return SharedDesign(self.design.astype(dtype))

    @staticmethod
    def _flat(product: Any, block: Array) -> Array:
        xp, (size, *columns) = namespace(block), block.shape
        found = product(xp.reshape(block, (size, -1)))
        return xp.reshape(found, (found.shape[0], *columns))

    def _largest_singular_value(self, tol: float) -> float:
        return self.design.norm(tol)


# ------------------------------------------------------------------------------------------------
# Paths
# ------------------------------------------------------------------------------------------------


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
        if isinstance(_features(design), StackedDesign):
            features = StackedDesign(take(_features(design).example, chosen))
            design = _batch_design(features, [path.design for path in paths])
        return Batch(paths, design, states)


def _features(design: Design) -> Design:
    return design.features if isinstance(design, InterceptDesign) else design


def _batch_design(features: Design, members: Sequence[Design]) -> Design:
    """Return the features of all members, with the intercepts that each of them may have."""
    first = members[0]
    if not isinstance(first, InterceptDesign):
        return features
    if not isinstance(features, StackedDesign):
        return InterceptDesign(features, first.means, first.height)
    return StackedInterceptDesign(
        features, [each for each in members if isinstance(each, InterceptDesign)]
    )


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
    X : array-like of shape (members, n, p) or (n, p), or a `steinpath.designs.Design`
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
    design = _batch_design(features, [setting.design for setting in settings])
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
    X, y = (np.asarray(data) if isinstance(data, list | tuple) else data for data in (X, y))
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


# ------------------------------------------------------------------------------------------------
# Risks
# ------------------------------------------------------------------------------------------------


def estimate_risk_batch(
    batch: Batch,
    test_loss: TestLoss = None,
    covariance: Any = None,
    row_scale: Any = None,
    rng: Any = None,
    *,
    n_probes: int | None = None,
    precision: str = "float32",
    centered: bool = False,
) -> list[Risk]:
    """Estimate the risk of every iterate of every member, their tangents advancing together.

    Always by the method "compressed", and without an audit: for those, and for other methods,
    call `steinpath.estimate_risk` with a member of the batch.

    Parameters
    ----------
    batch : Batch
        What `run_batch` returned.
    test_loss, covariance, n_probes, precision, centered
        As for `steinpath.estimate_risk`, the same for all members.
    row_scale : None or "norm"
        As for `steinpath.estimate_risk`.
    rng : None, int, numpy.random.Generator, or a sequence of these
        Randomness of the probes; a sequence has one for each member, which then has the probes
        that it would have alone.

    Returns
    -------
    list of Risk
        One for each member.
    """
    check_instance("batch", batch, Batch, "sp.run_batch(X, y, loss, penalty)")
    check_choice("precision", precision, ("float32", "float64"))
    check_flag("centered", centered)
    if row_scale is not None:
        check_choice("row_scale", row_scale, ("norm",))
    if n_probes is not None:
        n_probes = check_count("n_probes", n_probes)
    first = batch[0]
    criterion = resolve_test_loss(test_loss, first.loss)
    moments = [None] * len(batch)
    if covariance is not None:
        common = second_moments(first, covariance)
        # with an intercept, each member has one entry of its own
        own = first.fit_intercept and first.design is not batch[-1].design
        moments = [second_moments(path, covariance) if own else common for path in batch]
    problems = [
        Problem(
            path,
            criterion,
            generator,
            centered=centered,
            moments=known,
            row_squares=row_squares_of(path, row_scale),
            n_probes=n_probes,
            precision=precision,
        )
        for path, known, generator in zip(batch, moments, _generators(rng, batch), strict=True)
    ]
    with np.errstate(over="ignore", invalid="ignore"):  # the result is checked instead
        return [
            assemble(problem, "compressed", found, name_of_scale(row_scale))
            for problem, found in zip(problems, _compressed(problems, batch), strict=True)
        ]


def _generators(rng: Any, batch: Batch) -> list[np.random.Generator]:
    if isinstance(rng, Sequence | np.ndarray) and not isinstance(rng, str):
        if len(rng) != len(batch):
            raise ValueError(f"rng has {len(rng)} entries for a batch of {len(batch)}")
        return [check_rng(each) for each in rng]
    rng = check_rng(rng)
    return [spawned(rng) for _ in batch]


def _compressed(problems: Sequence[Problem], batch: Batch) -> list[Found]:
    compression = BatchCompression(problems, batch)
    wanted = dict.fromkeys(range(len(batch)), problems[0].n_probes or usual_probes(batch[0]))
    found: dict[int, Found] = {}
    first: dict[int, int] = {}
    while wanted:
        compression.draw(wanted)
        for k in list(wanted):
            readings, problem = compression.readings[k], problems[k]
            found[k] = scored(problem, readings.corrections(), readings.n_probes)
            more = probes_wanted(problem, found[k], first.setdefault(k, readings.n_probes))
            if more is None:
                del wanted[k]
            else:
                wanted[k] = more
    return [found[k] for k in range(len(batch))]


class BatchCompression:
    """A batch prepared for compressed corrections, and the probes drawn so far."""

    def __init__(self, problems: Sequence[Problem], batch: Batch):
        self._problems, self._batch = problems, batch
        together, rngs = batch.together(), [problem.rng for problem in problems]
        self._dtype = getattr(namespace(together.y), problems[0].precision)
        self._whole = Linearization(together, design_in(together, self._dtype, *rngs))
        self._dtype = self._whole.design.example.dtype
        self.readings = [
            Readings(trajectory, problem.row_squares)
            for trajectory, problem in zip(compress_all(together, rngs), problems, strict=True)
        ]
        self._on_rows = [
            problem.moments is None and rows_are_less_noisy(problem.path, problem.row_squares)
            for problem in problems
        ]

    def draw(self, wanted: dict[int, int]) -> None:
        """Draw more probes for some members, until these have about so many."""
        labels = {k: self.readings[k].missing(count) for k, count in wanted.items()}
        for on_rows in (False, True):
            members = [k for k, new in labels.items() if len(new) and self._on_rows[k] == on_rows]
            if members:
                self._draw(members, [labels[k] for k in members])

    def _draw(self, members: Sequence[int], labels: Sequence[np.ndarray]) -> None:
        linearization = self._whole
        if len(members) < len(self._batch):
            part = self._batch.part(members).together()
            linearization = Linearization(part, part.design.astype(self._dtype))
        design = linearization.design
        xp, width = namespace(design.example), max(map(len, labels))

        def stacked(blocks: Iterable[Array]) -> Array:
            """Return the members' blocks as one, with columns of zeros up to the same width."""
            return xp.stack(
                [
                    xp.concat(
                        [x, cast(design.zeros(x.shape[0], width - x.shape[1]), x.dtype)], axis=1
                    )
                    for x in blocks
                ],
                axis=1,
            )

        n, p = design.shape
        on_rows = self._on_rows[members[0]]
        probes = stacked(
            design.signs(self._problems[k].rng, n if on_rows else p, len(new))
            for k, new in zip(members, labels, strict=True)
        )
        coordinates = stacked(
            self.readings[k].coordinates(new) for k, new in zip(members, labels, strict=True)
        )
        columns = self._columns(design, members, probes, on_rows)
        found = to_numpy(follow(linearization, coordinates, columns))
        for place, (k, new) in enumerate(zip(members, labels, strict=True)):
            self.readings[k].add(new, found[:, place, : len(new)])

    def _columns(
        self, design: Design, members: Sequence[int], probes: Array, on_rows: bool
    ) -> Columns:
        xp, problems = namespace(probes), [self._problems[k] for k in members]
        known = [problem.moments for problem in problems]
        if known[0] is not None and any(each is not known[0] for each in known):
            own = [cast(each, probes.dtype) @ probes[:, k, :] for k, each in enumerate(known)]
            return Columns(probes, None, xp.stack(own, axis=1))
        scales = None
        if any(problem.row_squares is not None for problem in problems):
            one = xp.ones_like(problems[0].path.y)  # constant columns have no sizes
            scales = xp.stack(
                [one if p.row_squares is None else p.row_squares for p in problems], axis=1
            )
        return probe_columns(design, known[0], scales, probes, on_rows)
