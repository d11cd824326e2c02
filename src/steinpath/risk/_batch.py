"""Risks of all members of a batch, whose tangents advance together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from steinpath._support.arrays import Array, cast, namespace, to_numpy
from steinpath._support.validation import (
    check_choice,
    check_count,
    check_flag,
    check_instance,
    check_rng,
    spawned,
)
from steinpath.design._designs import Design
from steinpath.engine._basis import compress_all
from steinpath.engine._batches import Batch
from steinpath.engine._compression import (
    Columns,
    Readings,
    follow,
    probe_columns,
    rows_are_less_noisy,
    usual_probes,
)
from steinpath.engine._precision import design_in
from steinpath.engine._tangents import Linearization
from steinpath.engine._traces import row_squares_of, second_moments
from steinpath.problem._scoring import TestLoss, resolve_test_loss
from steinpath.risk._estimate import Risk, assemble, name_of_scale
from steinpath.risk._methods import Found, Problem, probes_wanted, scored


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
