"""Tuning: paths for a grid of ``lam`` are run together and searched for the smallest risk.

All risks are estimated roughly, the best accurately.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise, product
from typing import Any, NamedTuple

import numpy as np

from steinpath._support.arrays import Array, namespace, to_numpy
from steinpath._support.cells import library_of
from steinpath._support.printing import with_error
from steinpath._support.progress import Lines, begin, listener, printing, tell
from steinpath._support.threads import in_threads, one_thread_unless, threads_of_tasks
from steinpath._support.validation import (
    check_choice,
    check_count,
    check_instance,
    check_rng,
    is_own,
)
from steinpath.algorithms._base import ProximalAlgorithm
from steinpath.algorithms._family import HalpernPDHG
from steinpath.design._conversion import as_design
from steinpath.engine._batch import Batch, DeferredBatch, NotAlike, run_all
from steinpath.engine._data import RunData, prepare
from steinpath.engine._loop import Watch
from steinpath.engine._null_model import check_lams
from steinpath.engine._run import start
from steinpath.problem._grid import PenaltyOf, make_penalty, values_of
from steinpath.problem._losses import Loss
from steinpath.problem._penalties import Penalty
from steinpath.problem._scoring import TestLoss
from steinpath.risk._after_choice import lowest_and_selected
from steinpath.risk._estimate import estimate, estimate_together
from steinpath.risk._leave_out import FoldRuns
from steinpath.risk._methods import (
    fold_runs,
    folds_pay,
    leave_out_method,
    n_folds,
    noise_allowed,
    noise_near,
    portions,
)
from steinpath.risk._options import RiskOptions
from steinpath.risk._risk import Risk
from steinpath.risk._stopping import (
    contenders,
    far_enough,
    growing_horizons,
    may_reach,
    may_still_improve,
)
from steinpath.tuning._tuning import ChoiceContext, Grid, Tuning

#: How a penalty is selected; see `tune`.
RULES = ("min", "one_se")
#: The default algorithm.
DEFAULT_ALGORITHM = HalpernPDHG(ratio="auto", warmup=10)


def tune(
    X: Any,
    y: Any,
    loss: Loss,
    penalty: PenaltyOf,
    lams: Any = 20,
    n_iter: int | str = "auto",
    algorithm: ProximalAlgorithm = DEFAULT_ALGORITHM,
    fit_intercept: bool = False,
    test_loss: TestLoss = None,
    covariance: Any = None,
    method: str = "auto",
    row_scale: Any = "norm",
    audit: int | str = "folds",
    groups: Any = None,
    rng: Any = None,
    *,
    params: Mapping[str, Any] | None = None,
    sample_weight: Any = None,
    cv: Any = None,
    rule: str = "min",
    iterate: int | None = None,
    lam_ratio: float | None = None,
    verbose: bool | int = False,
) -> Tuning:
    """Select ``lam`` and the iteration with the smallest estimated risk.

    The paths of all values of ``lam`` are run together, as long as the estimated risk decreases.
    First, the risk of every iterate of every path is estimated roughly, usually by cross-validation
    with a few folds; before the number of iterations is doubled, values of ``lam`` that have
    clearly fallen behind are dropped. Then the risk of the best ``lam`` is estimated accurately:
    with an audit and as many probes as needed; by ten folds if there are ten times as many rows as
    columns; or by leave-one-out if there are fewer rows than columns and it takes half a second. If
    another ``lam`` then has a clearly smaller risk, it is estimated accurately next. Finally, all
    rough estimates are raised by the same amount if some are still lower by chance. Rows of
    `Tuning.risk` may therefore come from different methods; see ``risks[k].method``.

    The smallest of many estimates is biased downwards. Report `Tuning.best_risk`, which is adjusted
    for selection: the selection is repeated without the rows that it is evaluated on.

    Parameters
    ----------
    X : array-like, sparse matrix or Design of shape (n, p)
        The features, as for `steinpath.run`.
    y : array-like of shape (n,)
        The responses.
    loss : Loss
        The loss, such as ``sp.LAD()``.
    penalty : callable
        A function of ``lam`` that returns a penalty: ``sp.Lasso``, or
        ``functools.partial(sp.MCP, gamma=2.5)``.
    lams : int or array-like, default=20
        The values of ``lam``, or their number. A number gives a geometric grid that starts at the
        smallest value for which all coefficients are zero (for ridge, at a value that shrinks every
        direction tenfold).
    n_iter : int or "auto", default="auto"
        Number of iterations. "auto" starts with 25 and doubles it as long as that is expected to
        lower the risk by half a percent and a tenth of its standard error, up to a limit on the
        cost: see `Tuning.stop`. The risk is then not estimated, and NaN, for iterations without
        which a ``lam`` was dropped, and for those beyond twice the best one. With a number, the
        risk of all iterations of all paths is estimated.
    algorithm : ProximalAlgorithm, default=HalpernPDHG(ratio="auto", warmup=10)
        The algorithm to run, such as ``sp.ChambollePock()``.
    fit_intercept : bool, default=False
        Whether to fit an intercept.
    test_loss : None, str, Loss or callable, default=None
        The scoring loss, as for `steinpath.estimate_risk`; by default matched to ``loss``.
    covariance : array-like of shape (p, p), optional
        Covariance of the rows of X, if it is known.
    method : str, default="auto"
        How the risk is estimated, as for `steinpath.estimate_risk`.
    row_scale : None, "norm", "auto" or array-like of shape (n,), default="norm"
        Row scales of the correction, as for `steinpath.estimate_risk`; the row norms by default.
    audit : int or "folds", default="folds"
        As for `steinpath.estimate_risk`; 0 for none. For selection, ten folds, which use all rows,
        are more informative than 32 rows left out one at a time.
    groups : array-like of shape (n,), optional
        Group labels of the rows, such as subjects with repeated measurements. Whole groups are
        held out, and the estimated risk is that on new groups.
    rng : None, int or numpy.random.Generator
        Random numbers for the probes and the folds, which are the same for all values of ``lam``.
    params : mapping of str to sequences of float, optional
        Values of other parameters to select from together with ``lam``: of the penalty, such as
        ``{"l1_ratio": [0.1, 0.5, 0.9]}`` for `ElasticNet`, or of the loss, such as
        ``{"delta": [0.5, 1.35, 3]}`` for `Huber`. Each combination has its own grid of ``lam``.
        With several losses, the scoring loss is the absolute error by default.
    sample_weight : array-like of shape (n,), optional
        Nonnegative weights of the losses of the rows, as for `steinpath.run`. The estimated risk is
        the weighted mean on new rows; see `steinpath.estimate_risk` for the weights for which this
        is valid.
    cv : int, splitter or iterable, optional
        How rows are held out: a number of folds, a scikit-learn splitter such as
        ``TimeSeriesSplit(5)``, or pairs of arrays with the indices of training and test rows.
    rule : {"min", "one_se"}, default="min"
        "one_se" selects the largest ``lam`` whose risk is within one standard error of the minimum.
        The standard error is that of the difference, which is much smaller than that of the risks.
    iterate : int, optional
        Use this iteration (-1 for the last one), and select ``lam`` only.
    lam_ratio : float, optional
        Ratio of the smallest to the largest ``lam`` of the grid. By default 0.01 with fewer rows
        than columns, 0.001 with more, 0.0001 for ridge.
    verbose : bool or int, default=False
        Whether to print progress: one line per stage, and with 2 or more every tenth of a stage.

    Returns
    -------
    Tuning
        The estimated risk of every iterate for every ``lam``, and the selected model.

    Notes
    -----
    The paths for L values of ``lam`` and N iterations take ``16 L N (n + p)`` bytes in double
    precision. Up to half a gigabyte they are kept in memory. Beyond that they are run a few at a
    time, and those that are estimated accurately are run again.

    Examples
    --------
    >>> import steinpath as sp
    >>> X, y = sp.simulate.paper_model(60, noise="t2").sample(200, rng=0)
    >>> tuning = sp.tune(X, y, sp.LAD(), sp.Lasso, lams=10, n_iter=100, rng=0)
    >>> tuning.risk.shape, tuning.coef.shape
    ((10, 101), (60,))
    >>> bool(tuning.risk[tuning.best] == tuning.risk.min())
    True
    >>> tuning.best_risk > tuning.naive_risk  # adjusted for selection
    True
    >>> tuning.predict_interval(X[:3], level=0.8).shape
    (3, 2)
    """
    check_instance("algorithm", algorithm, ProximalAlgorithm, "sp.ChambollePock()")
    length = check_n_iter(n_iter)
    how = RiskOptions.among(locals()), rng, length, rule, iterate
    design = as_design(X)

    def prepared(own: Loss) -> RunData:
        return prepare(design, y, own, fit_intercept, sample_weight)

    variants = variants_of({} if params is None else params, loss, penalty, prepared)
    several = variants[0].data is not variants[-1].data
    test_loss = "absolute" if test_loss is None and several else test_loss
    with printing(verbose, "tune"):
        [tuning] = search([Problem(variants, lams, lam_ratio, test_loss)], algorithm, *how)
    return replace(tuning, library=library_of(X))


def check_n_iter(n_iter: Any) -> int | None:
    """Return a number of iterations, or None for "auto"."""
    if isinstance(n_iter, str):
        if n_iter != "auto":
            raise ValueError(f"n_iter must be 'auto' or a number of iterations; got {n_iter!r:.60}")
        return None
    return check_count("n_iter", n_iter)


def variants_of(
    params: Mapping[str, Any],
    loss: Loss,
    penalty: PenaltyOf,
    prepared: Callable[[Loss], RunData],
) -> list[Variant]:
    """Return a variant for each combination of values of parameters of the loss or the penalty."""
    if not isinstance(params, Mapping):
        raise TypeError(f"params must be a dict of parameters and their values; got {params!r:.60}")
    kinds: tuple[Any, Any] = type(loss), getattr(penalty, "func", penalty)
    specs = {kind: getattr(kind, "parameter_spec", None) for kind in kinds}
    # other quantiles are other models
    known = {spec.name: kind for kind, spec in specs.items() if spec and spec.name != "q"}
    for name in params:
        if name not in known:
            raise ValueError(
                f"params has {name!r}, but the parameters of the loss and the penalty are "
                f"{', '.join(map(repr, known)) or 'none'}"
            )
    grids = {name: values_of(known[name], params[name]) for name in known if name in params}
    of_loss = [name for name in grids if known[name] is kinds[0]]
    of_penalty = [name for name in grids if name not in of_loss]
    variants = list[Variant]()
    # those of the loss first, so that penalties for the same data are adjacent
    for loss_values in product(*(grids[name] for name in of_loss)):
        given = dict(zip(of_loss, loss_values, strict=True))
        data = prepared(replace(loss, **given) if given else loss)  # type: ignore[type-var]
        for values in product(*(grids[name] for name in of_penalty)):
            own = dict(zip(of_penalty, values, strict=True))
            variants.append(Variant(data, partial(penalty, **own) if own else penalty, given | own))
    return variants


class Variant(NamedTuple):
    """Data with a loss, and a penalty as a function of ``lam``, with these other parameters."""

    data: RunData
    penalty: PenaltyOf
    params: Mapping[str, float] = {}


class Problem(NamedTuple):
    """Variants among which a search selects, and their grid of ``lam``; see `tune`."""

    variants: Sequence[Variant]
    lams: Any
    lam_ratio: float | None = None
    test_loss: TestLoss = None

    @property
    def data(self) -> RunData:
        """Data of the first variant."""
        return self.variants[0].data


def search(
    problems: Sequence[Problem],
    algorithm: ProximalAlgorithm,
    options: RiskOptions,
    rng: Any,
    n_iter: int | None = None,
    rule: str = "min",
    iterate: int | None = None,
    resume: Callable[[Batch], Batch] | None = None,
    watch: Callable[[RunData, int], Watch | None] | None = None,
    limit: float = math.inf,
) -> list[Tuning]:
    """Do as `tune` for several problems, with the same folds; their data have the same X.

    ``resume`` may replace new runs by those of an earlier search. Runs are not continued if the
    smallest risk exceeds a limit, that of another model.
    """
    design = problems[0].data.design
    if design.is_remote:
        begin("tuning on the cluster", 0)
        resume = watch = None
    rng, how = check_rng(rng), (rule, iterate, limit)
    if len(problems) > 1 and not design.is_remote and resume is None:
        with suppress(NotAlike):
            return _search(problems, algorithm, n_iter, None, None, options, deepcopy(rng), *how)
    each = list[Tuning]()
    for one in problems:
        own = rng if one is problems[-1] else deepcopy(rng)  # the same numbers for all
        parts = algorithm, n_iter, resume, watch, options, own, *how
        each += one.data.design.on_blocks(_search, [one], *parts)
    return each


def _search(
    problems: Sequence[Problem],
    algorithm: ProximalAlgorithm,
    n_iter: int | None,
    resume: Callable[[Batch], Batch] | None,
    watch: Callable[[RunData, int], Watch | None] | None,
    *how: Any,
) -> list[Tuning]:
    """Do as `search`, with checked data, all together."""
    grids, of_data = list[Grid](), dict[int, tuple[RunData, list[Penalty]]]()
    for one in problems:
        parts = list[np.ndarray]()
        for data, penalty, _ in one.variants:
            parts.append(check_lams(data, penalty, one.lams, one.lam_ratio))
            made = [make_penalty(penalty, lam) for lam in parts[-1]]
            of_data.setdefault(id(data), (data, []))[1].extend(made)
        sizes = [len(part) for part in parts]
        names = one.variants[0].params
        params = {k: np.repeat([own.params[k] for own in one.variants], sizes) for k in names}
        grids.append(Grid(np.concatenate(parts), params))
    batches = [start_all(data, penalties, algorithm) for data, penalties in of_data.values()]
    batch = Batch.joined(batches) if len(batches) > 1 else batches[0]
    batch = batch if resume is None else resume(batch)
    watched = None if watch is None else watch(problems[0].data, batch.n_iter)
    own = [one.test_loss for one in problems]
    with one_thread_unless(math.prod(problems[0].data.design.shape) * len(batch)):
        # a warm start continues the runs of all penalties
        return Search(batch, grids, own, *how).run(n_iter, watched, race=resume is None)


def start_all(data: RunData, penalties: Sequence[Penalty], algorithm: ProximalAlgorithm) -> Batch:
    """Return runs of all penalties, at iteration 0."""
    first, *others = penalties
    for member in penalties:
        data.own(member).check_size(data.design.shape[1])
    return start(data, first.beside(others), algorithm, len(penalties))


@dataclass(eq=False)
class Search:
    """Selection of penalties and iterations, on runs of increasing length; see `tune`.

    The members of the batch are the grids of each problem in turn.
    """

    batch: Batch
    grids: Sequence[Grid]
    test_losses: Sequence[TestLoss]
    options: RiskOptions
    rng: Any
    rule: str = "min"
    iterate: int | None = None
    limit: float = math.inf

    def __post_init__(self) -> None:
        check_choice("rule", self.rule, RULES)
        self.options = self.options.for_rows(to_numpy(self.batch.data.all_y))
        if self.options.method == self.options.audit == "folds":
            self.options = self.options.but(audit=0)
        # the same probes, folds and audited rows for all: their Monte Carlo errors are then similar
        self._seed = int(check_rng(self.rng).integers(2**63))
        self._all = self.batch  # of all penalties; `batch` is of those that are still extended
        sizes = [len(grid.lams) for grid in self.grids]
        ends = np.cumsum([0, *sizes]).tolist()
        self._of = [range(*pair) for pair in pairwise(ends)]  # members of each problem
        self._problem = np.repeat(np.arange(len(sizes)), sizes)
        self._members = list(range(len(self.batch)))
        # of the rough estimates, extended later; members in portions that are run at a time
        self._runs: dict[tuple[int, ...], FoldRuns] = {}

    def run(
        self, n_iter: int | None, watch: Watch | None = None, race: bool = True
    ) -> list[Tuning]:
        """Run ``n_iter`` iterations, or until the risks no longer decrease, and select.

        In a ``race``, penalties that fall behind are not extended.
        """
        if self.iterate is not None:
            most = 10**9 if n_iter is None else n_iter
            check_count("iterate", self.iterate, low=-most - 1, high=most)
            if n_iter is None and self.iterate >= 0:
                n_iter = max(self.iterate, 1)
        if n_iter is None:
            horizons, stop = growing_horizons(self.batch, self.options, len(self.grids)), "limit"
        else:
            horizons, stop = [n_iter], "n_iter"
        known, risks = self.batch.n_iter, dict[int, Risk]()  # from a warm start; of all penalties
        stops = [stop] * len(self.grids)
        active = list(range(len(self.grids)))
        for horizon in [length for length in horizons if length >= known] or [known]:
            before = self.batch
            self._extend(horizon, watch)
            rough, interrupted = self._rough_estimates()
            if len(rough) < len(self._members) and risks:
                # earlier estimates of all are better than these of some
                self.batch, interrupted = before, True
            else:
                risks |= rough
                interrupted |= self.batch.n_iter < horizon
                self._tell("best estimated risk so far", [risks[k] for k in sorted(risks)])
            kept = list[int]()
            for p in active.copy():
                own = [k for k in self._members if k in self._of[p] and k in rough]
                newest = [rough[k] for k in own]
                last = None if self.iterate is None else self.batch.n_iter  # to be selected
                if interrupted:
                    stops[p] = "interrupted"
                elif n_iter is None and not (
                    may_reach(newest, self.limit) and may_still_improve(newest, last, early=True)
                ):
                    stops[p] = "risk"
                elif race and self.iterate is None and horizon < horizons[-1]:
                    own = [own[place] for place in contenders(newest)]
                if stops[p] in ("risk", "interrupted"):
                    active.remove(p)
                else:
                    kept += own
            if not active:
                break
            if horizon < horizons[-1]:
                self._keep([self._members.index(k) for k in kept])
        self._runs = {}
        automatic = n_iter is None and len(self._of[0]) > 1

        def settle(p: int) -> Tuning:
            found = {k: risk for k, risk in risks.items() if k in self._of[p]}
            return self._settle(p, found, stops[p], automatic)

        batch = self._all
        ours = all(map(is_own, (batch.data.loss, batch.penalty, batch.algorithm)))
        quiet = listener.get() is None and batch.on_processor
        size = math.prod(batch.data.design.shape) * len(batch) / len(self.grids)
        threads = threads_of_tasks(size) if ours and quiet else 1
        return in_threads(settle, range(len(self.grids)), threads)

    def _keep(self, places: list[int]) -> None:
        """Extend some of the penalties only from now on."""
        if len(places) == len(self._members):
            return
        batch = self.batch.unmoved() if isinstance(self.batch, DeferredBatch) else self.batch
        self.batch = batch.part(places)
        self._members = [self._members[place] for place in places]
        runs, self._runs = self._runs, {}
        for members, earlier in runs.items():
            kept = [place for place, k in enumerate(members) if k in self._members]
            if kept:
                self._runs[tuple(members[place] for place in kept)] = earlier.some(kept)

    def _extend(self, horizon: int, watch: Watch | None) -> None:
        if horizon == self.batch.n_iter:
            return
        batch = self.batch
        if isinstance(batch, DeferredBatch):  # iterations that were not kept are run again
            batch = batch.unmoved()
        done = begin(f"running {len(batch)} penalties", horizon - batch.n_iter)

        def after(t: int, b: Array) -> bool:
            enough = watch is not None and watch(t, b)
            return done() or enough

        unseen = watch is None and listener.get() is None
        self.batch = run_all(batch, horizon, None if unseen else after)

    def _tell(self, what: str, risks: Sequence[Risk], best: tuple[int, int] | None = None) -> None:
        """Print the best model so far, if progress is printed."""
        if not isinstance(listener.get(), Lines):
            return
        at = [risk.best_iter for risk in risks]
        if self.iterate is not None:  # which an interrupted run may not have reached
            last = risks[0].path.n_iter
            at = [min(self.iterate + (last + 1) * (self.iterate < 0), last)] * len(risks)
        values = [float(risk.values[t]) for risk, t in zip(risks, at, strict=True)]
        k, t = best or min(enumerate(at), key=lambda place: values[place[0]])
        value = with_error(float(risks[k].values[t]), float(risks[k].stderr[t]))
        tell(f"{what}: {value} (penalty {k + 1} of {len(risks)}, iteration {t})")

    def _runs_of(self, members: list[int]) -> Batch:
        """Return the runs of the penalties that have an estimate."""
        batch = self.batch if len(self.batch) == len(self._all) else self._all
        if len(members) == len(self._all):
            return batch
        return (batch.unmoved() if isinstance(batch, DeferredBatch) else batch).part(members)

    @property
    def _automatic(self) -> bool:
        return self.options.method == "auto" and self.options.covariance is None

    def _rough_estimates(self) -> tuple[dict[int, Risk], bool]:
        """Estimate risks roughly, in portions; return whether it was interrupted, too."""
        batch, options = self.batch, self.options
        by_folds = options.has_splits
        if self._automatic and not by_folds:
            by_folds = folds_pay(batch, RiskOptions(rough=True))
        options = options.but(
            method="folds" if by_folds else options.method,
            row_scale=None if options.scale_by_audit else options.row_scale,
            audit=0,
            near=None,
            rough=options.method != "folds",
        )
        done, risks, threads = begin("estimating their risks", len(batch)), dict[int, Risk](), 1
        if by_folds and all(own is None or is_own(own) for own in self.test_losses):
            threads = batch.threads(n_folds(batch, options))
        if isinstance(batch, DeferredBatch):
            self._runs = {}
        groups = list(self._runs) or [
            tuple(self._members[place] for place in places) for places in portions(batch, options)
        ]
        for first in range(0, len(groups), threads):
            some = groups[first : first + threads]
            parts = in_threads(partial(self._estimate_part, options), some, threads)
            for members, part in zip(some, parts, strict=True):
                risks |= zip(members, part, strict=True)
            if any(done() for part in parts for _ in part):
                return dict(sorted(risks.items())), True
        return dict(sorted(risks.items())), False

    def _estimate_part(self, options: RiskOptions, members: tuple[int, ...]) -> list[Risk]:
        """Estimate the risks of some penalties."""
        batch, runs, places = self.batch, None, [self._members.index(k) for k in members]
        part, rngs = batch.part(places), [np.random.default_rng(self._seed) for _ in members]
        own = [self.test_losses[self._problem[k]] for k in members]
        if options.method == "folds":
            runs = self._runs.get(members)
            runs = runs or fold_runs(options.resolved(part, rngs, own), part)
            if not isinstance(batch, DeferredBatch):
                self._runs[members] = runs
        risks = estimate_together(part, options, rngs, runs, own)
        if isinstance(batch, DeferredBatch):  # so that nothing keeps the states in memory
            pairs = zip(places, risks, strict=True)
            risks = [risk.with_path(batch.keep(place, risk.path)) for place, risk in pairs]
        return risks

    def _settle(self, p: int, found: dict[int, Risk], stop: str, automatic: bool) -> Tuning:
        """Estimate accurately the risks of penalties that would be selected, and select.

        If the number of iterations was ``automatic``, only as far as the choice of one needs.
        """
        members = sorted(found)  # fewer than all if they were interrupted
        risks = [found[k] for k in members]
        of_problem = self.options.but(test_loss=self.test_losses[p])
        method, audit, iterate = of_problem.method, of_problem.audit, self.iterate
        paths = [risk.path for risk in risks]
        last = max(path.n_iter for path in paths)
        if iterate is not None:
            if stop == "interrupted":  # before that iteration was reached
                iterate = min(iterate, last)
            iterate = check_count("iterate", iterate, low=-last - 1, high=last) % (last + 1)
        options = of_problem.but(near=iterate)
        careful = bool(audit) and self._automatic

        def closely(k: int, rough: bool) -> Risk:
            """Estimate the risk of a path accurately."""
            known, path, own = risks[k], paths[k], options.but(rough=rough)
            t, length = iterates[k], 0
            while not length or 4 * t > 3 * length:
                length = far_enough(t, path.n_iter) if automatic else path.n_iter
                start = path.until(length)
                if careful and (leave_out := leave_out_method(start, options)):
                    # then there is nothing to audit
                    own = options.but(method=leave_out, row_scale=None, audit=0)
                elif known.method != "folds":  # its corrections are known for all iterates
                    return estimate(known.path, own, self._seed, known, rough)
                risk = estimate(start, own, self._seed)
                t = risk.best_iter if iterate is None else t
                if length == path.n_iter:
                    break
            return risk

        # an audit and more probes expose an estimate that is too small by chance
        efforts = [True, False] if audit or risks[0].method == "folds" else [False]
        grid = self.grids[p].some([k - self._of[p][0] for k in members])
        final = method == "folds" and not audit  # or leave-one-out: nothing is more accurate
        left = [[] if final or risk.method == "loo" else efforts[:] for risk in risks]
        done, enough = begin("auditing the best", 0), False
        while True:
            iterates = [risk.best_iter if iterate is None else iterate for risk in risks]
            known = [k for k in range(len(risks)) if len(left[k]) < len(efforts)]
            lowest, chosen = lowest_and_selected(risks, iterates, self.rule, grid.strength, known)
            unsettled = [k for k in (lowest, chosen) if left[k]]
            if enough or not unsettled:
                settled = np.array([len(those) < len(efforts) for those in left])
                best = chosen, iterates[chosen]
                if not enough:
                    _raise_others(risks, iterates, settled, lowest)
                self._tell("selected, estimated risk", risks, best)
                context = ChoiceContext(self._runs_of(members), of_problem, self._seed, iterate)
                path = paths[chosen]
                how = settled, self.rule, best, stop, path, context
                return Tuning(grid.lams, tuple(risks), *how, params=grid.params)
            k = unsettled[0]
            rough = left[k].pop(0)
            # the Monte Carlo error may be within the default tolerance already
            risk, t = risks[k], iterates[k]
            quiet = noise_near(t, risk.probe_stderr) <= noise_allowed(risk.estimate.stderr[t])
            if left[k] or not quiet:
                risks[k] = closely(k, rough)
                enough = done()


def _raise_others(
    risks: list[Risk], iterates: Sequence[int], settled: np.ndarray, lowest: int
) -> None:
    """Raise rough estimates that are by chance below the best accurate one, all by one shift."""
    rough = [k for k in range(len(risks)) if not settled[k]]
    if not rough or not settled[lowest]:
        return
    least = min(float(risks[k].values[iterates[k]]) for k in rough)
    shift = float(risks[lowest].values[iterates[lowest]]) - least
    if shift > 0:
        for k in rough:
            rounding = float(namespace(risks[k].values).finfo(risks[k].values.dtype).eps)
            shift += rounding * abs(float(risks[k].values[iterates[k]]))  # not to end below it
            risks[k] = replace(risks[k], values=risks[k].values + shift)
