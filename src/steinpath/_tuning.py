"""The penalty and the iterate, chosen together by their estimated risk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from steinpath._support.arrays import Array, namespace
from steinpath._support.equality import key
from steinpath._support.printing import with_error
from steinpath._support.progress import begin, listener
from steinpath._support.threads import in_threads, one_thread_unless
from steinpath._support.validation import (
    check_choice,
    check_count,
    check_instance,
    check_rng,
    is_own,
)
from steinpath.algorithms._base import ProximalAlgorithm
from steinpath.algorithms._family import HalpernPDHG
from steinpath.engine._batch import Batch
from steinpath.engine._data import RunData, prepare
from steinpath.engine._deferred import DeferredBatch, run_all
from steinpath.engine._loop import Watch
from steinpath.engine._null_model import check_lams
from steinpath.engine._path import Path
from steinpath.engine._start import start
from steinpath.problem._grid import PenaltyOf, make_penalty
from steinpath.problem._losses import Loss
from steinpath.problem._scoring import TestLoss
from steinpath.risk._estimate import Risk, compare_risks, estimate, estimate_together
from steinpath.risk._leave_out import FoldRuns
from steinpath.risk._methods import (
    fold_runs,
    folds_pay,
    left_out_by,
    n_folds,
    noise_allowed,
    noise_near,
    portions,
    pose,
)
from steinpath.risk._options import RiskOptions
from steinpath.risk._stopping import growing_horizons, promises_less

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: What is run unless something else is asked for.
DEFAULT_ALGORITHM = HalpernPDHG(ratio="auto", warmup=10)
#: How a penalty is chosen; see `tune`.
RULES = ("min", "one_se")
# Differences up to this share of the sampling error, times the number of careful estimates so far,
# are no reason for another one: neighbours have much the same errors, and risks.
_CHANCE = 0.1


@dataclass(frozen=True, eq=False)
class Tuning:
    """Estimated risk of every iterate for every penalty. Made by `tune`.

    Attributes
    ----------
    lams : ndarray of shape (L,)
        The penalties.
    risk : Array of shape (L, n_iter + 1)
        Estimated risk of each iterate of each path.
    stderr, train : Array of shape (L, n_iter + 1)
        Their standard errors, and the training error.
    best : tuple of int
        Index of the chosen penalty, and the chosen iterate.
    best_lam : float
        The chosen penalty.
    best_iter : int
        The chosen iterate.
    path : Path
        The path of the chosen penalty.
    coef : Array of shape (p,)
        Its coefficients.
    intercept : float
        Its intercept; zero without one.
    risks : tuple of Risk
        One for each penalty, with its path.
    settled : ndarray of bool of shape (L,)
        Which penalties contended for the minimum, and were looked at closely: audited, the chosen
        one also with all the probes it needs. The others have had a first look alone.
    rule : {"min", "one_se"}
        How the choice was made.
    stop : {"risk", "limit", "n_iter", "interrupted"}
        Why the iterations ended: the estimated risk no longer falls, it still does at the limit for
        data of this size, their number was given, or they were interrupted.
    warnings : tuple of str
        Reasons not to trust the estimate of the chosen iterate, in plain words.
    still_falls : bool
        Whether the risk still fell when the iterations ended: more may be better.
    """

    lams: np.ndarray
    risks: tuple[Risk, ...] = field(repr=False)
    settled: np.ndarray
    rule: str
    best: tuple[int, int]
    stop: str

    @cached_property
    def risk(self) -> Array:
        """Estimated risk."""
        return self._stack("values")

    @cached_property
    def stderr(self) -> Array:
        """Standard errors."""
        return self._stack("stderr")

    @cached_property
    def train(self) -> Array:
        """Training error."""
        return self._stack("train")

    @property
    def best_lam(self) -> float:
        """The chosen penalty."""
        return float(self.lams[self.best[0]])

    @property
    def best_iter(self) -> int:
        """The chosen iterate."""
        return self.best[1]

    @property
    def path(self) -> Path:
        """The path of the chosen penalty."""
        return self.risks[self.best[0]].path

    @property
    def coef(self) -> Array:
        """Coefficients of the chosen iterate."""
        return self.path.coef[self.best_iter, :]

    @property
    def intercept(self) -> float:
        """Intercept of the chosen iterate."""
        return float(self.path.intercept[self.best_iter])

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """Reasons not to trust the estimate of the chosen iterate."""
        k, t = self.best
        return tuple(found.message for found in self.risks[k].diagnose(t) if found.warns)

    @property
    def still_falls(self) -> bool:
        """Whether the risk still fell when the iterations ended."""
        if self.stop == "limit":
            return True
        (k, t), last = self.best, self.path.n_iter
        if self.stop == "risk" or t <= last // 2 or not promises_less([self.risks[k]]):
            return False
        fall, stderr = self.compare((k, last // 2), (k, t))
        return fall > stderr

    def compare(self, first: tuple[int, int], second: tuple[int, int]) -> tuple[float, float]:
        """Return the estimated risk of ``first`` less that of ``second``, and its standard error.

        Parameters
        ----------
        first, second : tuple of int
            Each the index of a penalty and an iterate, such as ``tuning.best``.
        """
        indices = []
        for name, pair in (("first", first), ("second", second)):
            if not hasattr(pair, "__len__") or len(pair) != 2:
                raise TypeError(f"{name} must be a pair (penalty, iterate), got {pair!r:.60}")
            indices.append(check_count(f"{name}[0]", pair[0], low=0, high=len(self.lams) - 1))
        return compare_risks(self.risks[indices[0]], first[1], self.risks[indices[1]], second[1])

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the risk over penalties and iterations.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        matplotlib.axes.Axes
        """
        from steinpath.plots import plot_tuning

        return plot_tuning(self, ax)

    def __repr__(self) -> str:
        k, t = self.best
        risk = self.risks[k]
        return (
            f"<Tuning ({risk.test_loss}) of {len(self.lams)} penalties and {risk.path.n_iter} "
            f"iterations: best is iterate {t} at lam = {self.best_lam:.4g} with "
            f"{with_error(float(risk.values[t]), float(risk.stderr[t]))}>"
        )

    def _stack(self, name: str) -> Array:
        arrays = [getattr(risk, name) for risk in self.risks]
        return namespace(*arrays).stack(arrays)


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
    rng: Any = None,
    *,
    rule: str = "min",
    iterate: int | None = None,
    lam_ratio: float | None = None,
) -> Tuning:
    """Choose the penalty and the iterate with the smallest estimated risk.

    All penalties advance together, as columns of the same products with X, as long as the risk
    falls. The risk of every iterate of every path is first estimated roughly: mostly by a few folds
    of all paths at once. The penalty that has the minimum is then estimated with care: with an
    audit and as many probes as it needs; by ten folds if there are ten times as many rows as
    columns; by leave-one-out if there are fewer rows than columns and it takes a second or two.
    If that raises its risk clearly above that of another, the other is next. Rough estimates that
    are still lower by chance are raised by what they lack, all alike. So rows of `Tuning.risk` may
    come from different methods: see ``risks[k].method``.

    Parameters
    ----------
    X, y, loss, fit_intercept
        As for `steinpath.run`.
    penalty : callable
        A penalty for each ``lam``: ``sp.Lasso`` itself, or such as
        ``functools.partial(sp.MCP, gamma=2.5)``.
    lams : int or array-like, default=20
        The penalties, or how many of them: then in equal ratios from the smallest with all
        coefficients zero down; for ridge, from one that shrinks every direction tenfold.
    n_iter : int or "auto", default="auto"
        Number of iterations. "auto" begins with 100 and doubles them as long as that promises to
        lower the risk by half a percent, up to a limit in work: see `Tuning.stop`.
    algorithm : ProximalAlgorithm, default=HalpernPDHG(ratio="auto", warmup=10)
        What to run, such as ``sp.ChambollePock()``.
    test_loss, covariance, method, row_scale
        As for `steinpath.estimate_risk`; rows are taken to be of unequal size by default.
    audit : int or "folds", default="folds"
        As for `steinpath.estimate_risk`; 0 for none. Ten folds see all rows at the price of ten
        columns: for a choice that is worth more than 32 rows that are left out one at a time.
    rng : None, int or numpy.random.Generator
        Randomness of the probes and of the folds, which are the same for all penalties.
    rule : {"min", "one_se"}, default="min"
        "one_se" takes the largest penalty whose best iterate has a risk within one standard error
        of the minimum: that of their difference, which is much smaller than those of the risks.
    iterate : int, optional
        Choose the penalty for this iterate (-1 for the last one) instead of choosing both.
    lam_ratio : float, optional
        Smallest penalty of the grid relative to the largest: 0.01 by default with fewer rows than
        columns, 0.001 with more, 0.0001 for ridge.

    Returns
    -------
    Tuning

    Notes
    -----
    The paths of all penalties take ``16 L N (n + p)`` bytes in double precision. Up to half a
    gigabyte they are kept; beyond that they are run a few at a time, and those that are looked at
    closely once more. Rows that count unequally have no risk estimate, so that there are no sample
    weights.

    Examples
    --------
    >>> import steinpath as sp
    >>> X, y = sp.simulate.paper_model(60, noise="t2").sample(200, rng=0)
    >>> tuning = sp.tune(X, y, sp.LAD(), sp.Lasso, lams=10, n_iter=100, rng=0)
    >>> tuning.risk.shape, tuning.coef.shape
    ((10, 101), (60,))
    >>> bool(tuning.risk[tuning.best] == tuning.risk.min())
    True
    """
    check_instance("algorithm", algorithm, ProximalAlgorithm, "sp.ChambollePock()")
    length = check_n_iter(n_iter)
    options = RiskOptions(
        test_loss=test_loss,
        covariance=covariance,
        method=method,
        row_scale=row_scale,
        audit=audit,
    )
    data = prepare(X, y, loss, fit_intercept)
    lams = check_lams(data, penalty, lams, lam_ratio)
    batch = start_all(data, penalty, lams, algorithm)
    return Search(batch, lams, options, rng, rule, iterate).run(length)


def start_all(
    data: RunData, penalty: PenaltyOf, lams: np.ndarray, algorithm: ProximalAlgorithm
) -> Batch:
    """Return runs of all penalties that have not moved yet."""
    penalties, keys = [], []
    for lam in lams:
        penalties.append(make_penalty(penalty, lam))
        keys.append(key(penalties[-1]))
    if list(map(key, penalties)) != keys:
        raise ValueError(
            "penalty(lam) must return a new Penalty each time; it changed one that it had returned "
            "for another lam"
        )
    first, *others = penalties
    for each in penalties:
        data.own(each).check_size(data.design.shape[1])
    return start(data, first.beside(others), algorithm, len(lams))


def check_n_iter(n_iter: Any) -> int | None:
    """Return a number of iterations, or None for as many as pay."""
    if isinstance(n_iter, str):
        if n_iter != "auto":
            raise ValueError(f"n_iter must be 'auto' or a number of iterations; got {n_iter!r:.60}")
        return None
    return check_count("n_iter", n_iter)


class Search:
    """The choice of a penalty and an iterate, on runs that become longer; see `tune`.

    Parameters
    ----------
    batch : Batch
        Runs of all penalties, from where they are to go on.
    lams : ndarray of shape (L,)
        The penalties.
    options : RiskOptions
        How risks are estimated.
    rng, rule, iterate
        As for `tune`.
    """

    def __init__(
        self,
        batch: Batch,
        lams: np.ndarray,
        options: RiskOptions,
        rng: Any,
        rule: str = "min",
        iterate: int | None = None,
    ):
        check_choice("rule", rule, RULES)
        if iterate is not None:
            iterate = check_count("iterate", iterate, low=-(10**9), high=10**9)
        self.batch = batch
        self._lams, self._rule, self._iterate = lams, rule, iterate
        if options.method == options.audit == "folds":
            options = options.but(audit=0)
        self._options = options
        # the same probes, folds and audited rows for all: their noise is then much the same
        self._seed = int(check_rng(rng).integers(2**63))
        self._runs: dict[tuple[int, ...], FoldRuns] = {}  # of the first look, which go on

    def run(self, n_iter: int | None, watch: Watch | None = None) -> Tuning:
        """Run for so many iterations, or for as many as pay, and choose."""
        n, p = self.batch.data.design.shape
        with one_thread_unless(n * p * len(self.batch)):
            return self._run(n_iter, watch)

    def _run(self, n_iter: int | None, watch: Watch | None) -> Tuning:
        given = n_iter
        if given is None and self._iterate is not None and self._iterate >= 0:
            given = max(self._iterate, 1)
        if given is not None and self._iterate is not None:
            check_count("iterate", self._iterate, low=-given - 1, high=given)
        horizons, stop = ([given], "n_iter") if given else (growing_horizons(self.batch), "limit")
        known, risks = self.batch.n_iter, list[Risk]()  # from a warm start, and from the last look
        for horizon in [each for each in horizons if each >= known] or [known]:
            before = self.batch
            self._extend(horizon, watch)
            found, told = self._first_look()
            if len(found) < len(risks):  # what was known of all is better than this of some
                self.batch, stop = before, "interrupted"
                break
            risks = found
            if told or self.batch.n_iter < horizon:
                stop = "interrupted"
                break
            if given is None and not promises_less(risks, self._last(risks)):
                stop = "risk"
                break
        return self._settle(risks, stop)

    def _extend(self, horizon: int, watch: Watch | None) -> None:
        if horizon == self.batch.n_iter:
            return
        done = begin(f"running {len(self._lams)} penalties", horizon)

        def told(t: int, b: Array) -> bool:
            enough = watch is not None and watch(t, b)
            return done() or enough

        unseen = watch is None and listener.get() is None

        batch = self.batch
        if isinstance(batch, DeferredBatch):  # what could not be kept begins again
            batch = batch.unmoved()
        self.batch = run_all(batch, horizon, None if unseen else told)

    def _last(self, risks: Sequence[Risk]) -> int | None:
        """Return the iterate that will be taken, if that is the last."""
        return None if self._iterate is None else risks[0].path.n_iter

    @property
    def _automatic(self) -> bool:
        return self._options.method == "auto" and self._options.covariance is None

    def _first_look(self) -> tuple[list[Risk], bool]:
        """Estimate all risks roughly, in as many portions as may be interrupted.

        Returns the risks, and whether it was told that this is enough.
        """
        batch, options = self.batch, self._options
        by_folds = self._automatic and folds_pay(batch)
        options = options.but(
            method="folds" if by_folds else options.method,
            row_scale=None if options.scale_by_audit else options.row_scale,
            audit=0,
            near=None,
            rough=options.method != "folds",
        )
        done, risks = begin("estimating their risks", len(batch)), list[Risk]()
        groups, threads = portions(batch, options), 1
        if by_folds and (options.test_loss is None or is_own(options.criterion(batch.data.loss))):
            threads = batch.threads(n_folds(batch, rough=True))
        # of other portions than before, nothing can go on
        keys = {tuple(members) for members in groups}
        self._runs = {key: runs for key, runs in self._runs.items() if key in keys}
        for first in range(0, len(groups), threads):
            some = groups[first : first + threads]
            look = partial(self._look, options)
            found = [risk for part in in_threads(look, some, threads) for risk in part]
            risks += found
            told = [done() for _ in found]
            if any(told):
                return risks, True
        return risks, False

    def _look(self, options: RiskOptions, members: list[int]) -> list[Risk]:
        """Estimate the risks of some penalties."""
        batch, runs = self.batch, None
        part, rngs = batch.part(members), [np.random.default_rng(self._seed) for _ in members]
        if options.method == "folds":
            key = tuple(members)
            runs = self._runs.get(key) or fold_runs(pose(part, options, rngs)[0], part)
            if not isinstance(batch, DeferredBatch):
                self._runs[key] = runs
        found = estimate_together(part, options, rngs, runs)
        if isinstance(batch, DeferredBatch):  # that nothing holds on to the states
            pairs = zip(members, found, strict=True)
            found = [risk.on(batch.keep(k, risk.path)) for k, risk in pairs]
        return found

    def _settle(self, risks: list[Risk], stop: str) -> Tuning:
        """Estimate those risks again, with care, that would be chosen; and choose."""
        batch, method, audit = self.batch, self._options.method, self._options.audit
        iterate, last = self._iterate, batch.n_iter
        if iterate is not None:
            if stop == "interrupted":  # before the iterate was reached
                iterate = min(iterate, last)
            iterate = check_count("iterate", iterate, low=-last - 1, high=last) % (last + 1)
        options = self._options.but(near=iterate)
        leave_out = left_out_by(batch) if audit and self._automatic else None

        def closely(k: int, rough: bool) -> Risk:
            if leave_out is not None:  # there is nothing to audit then
                alone = RiskOptions(options.test_loss, method=leave_out, near=iterate)
                return estimate(batch[k], alone, self._seed)
            return estimate(batch[k], options.but(rough=rough), self._seed, risks[k], rough)

        # an estimate that is too small by chance does not survive an audit, and more probes
        efforts = [True, False] if audit or risks[0].method == "folds" else [False]
        lams = self._lams[: len(risks)]
        left = [[] if _is_exact(risk, method, audit) else efforts[:] for risk in risks]
        done, enough = begin("auditing the best", 0), False
        while True:
            iterates = [risk.best_iter if iterate is None else iterate for risk in risks]
            known = [k for k in range(len(risks)) if len(left[k]) < len(efforts)]
            lowest, chosen = _lowest_and_chosen(risks, iterates, self._rule, lams, known)
            unsettled = [k for k in (lowest, chosen) if left[k]]
            if enough or not unsettled:
                settled = np.array([len(those) < len(efforts) for those in left])
                best = chosen, iterates[chosen]
                if not enough:
                    _raise_others(risks, iterates, settled, lowest)
                return Tuning(lams, tuple(risks), settled, self._rule, best, stop)
            k = unsettled[0]
            rough = left[k].pop(0)
            if left[k] or not _is_quiet(risks[k], iterates[k]):
                risks[k] = closely(k, rough)
                enough = done()


def _raise_others(
    risks: list[Risk], iterates: Sequence[int], settled: np.ndarray, lowest: int
) -> None:
    """Raise rough estimates that are lower by chance than the best careful one, all by as much.

    Care changes neighbours much alike: so they are as far above the best as they were.
    """
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


def _is_quiet(risk: Risk, t: int) -> bool:
    """Whether the noise of the probes is as small as `estimate_risk` wants it by default."""
    return noise_near(t, risk.probe_stderr) <= noise_allowed(risk.stderr[t])


def _is_exact(risk: Risk, method: str, audit: int | str) -> bool:
    """Whether nothing can be added to the first estimate."""
    return risk.method == "loo" or (method == "folds" and not audit)


def _lowest_and_chosen(
    risks: Sequence[Risk],
    iterates: Sequence[int],
    rule: str,
    lams: np.ndarray,
    known: Sequence[int],
) -> tuple[int, int]:
    """Return which penalty has the smallest risk, and which one the rule takes.

    Of those that were estimated with care, the best is the smallest unless a rough estimate is
    smaller by more than chance.
    """
    places = list(zip(risks, iterates, strict=True))
    sizes = np.array([float(risk.values[t]) for risk, t in places])
    lowest = int(np.argmin(sizes))
    if len(known) and lowest not in known:
        best = known[int(np.argmin(sizes[known]))]
        found = risks[best].found
        assert found is not None
        chance = _CHANCE * len(known) * float(found.score.stderr[iterates[best]])
        lowest = best if sizes[best] <= sizes[lowest] + chance else lowest
    if rule == "one_se":
        for k in np.argsort(-lams, kind="stable"):
            risk, t = places[k]
            difference, stderr = compare_risks(risk, t, *places[lowest])
            if difference <= stderr:
                return lowest, int(k)
    return lowest, lowest
