"""The penalty and the iterate, chosen together by their estimated risk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from steinpath._support.arrays import Array, namespace
from steinpath._support.equality import key
from steinpath._support.printing import with_error
from steinpath._support.progress import begin
from steinpath._support.validation import check_choice, check_count, check_instance, check_rng
from steinpath.algorithms._base import ProximalAlgorithm
from steinpath.algorithms._family import HalpernPDHG
from steinpath.engine._batch import Batch
from steinpath.engine._data import RunData, prepare
from steinpath.engine._deferred import DeferredBatch, run_all
from steinpath.engine._null_model import check_lams
from steinpath.engine._path import Path
from steinpath.engine._start import start
from steinpath.problem._grid import PenaltyOf, make_penalty
from steinpath.problem._losses import Loss
from steinpath.problem._scoring import TestLoss
from steinpath.risk._estimate import Risk, compare_risks, estimate, estimate_together
from steinpath.risk._methods import folds_pay, noise_allowed, noise_near, portions, should_leave_out
from steinpath.risk._options import RiskOptions

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: How a penalty is chosen; see `tune`.
RULES = ("min", "one_se")
# How large the noise of the probes may be where the minimum is not: as it comes.
_ANY_NOISE = float(np.finfo(float).max)


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
    warnings : tuple of str
        Reasons not to trust the estimate for the chosen penalty, in plain words.
    still_falls : bool
        Whether the risk at the choice still fell when the iterations ended: more may be better.
    """

    lams: np.ndarray
    risks: tuple[Risk, ...] = field(repr=False)
    settled: np.ndarray
    rule: str
    best: tuple[int, int]

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

    @property
    def warnings(self) -> tuple[str, ...]:
        """Reasons not to trust the estimate for the chosen penalty."""
        return self.risks[self.best[0]].warnings

    @property
    def still_falls(self) -> bool:
        """Whether the risk at the choice still fell when the iterations ended."""
        (k, t), last = self.best, self.path.n_iter
        if t <= 0.9 * last:
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
    n_iter: int = 300,
    algorithm: ProximalAlgorithm = HalpernPDHG(ratio="auto"),
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

    All penalties advance together, as columns of the same products with X. The risk of every
    iterate of every path is then estimated without an audit; on small problems, where calls cost
    more than products, by ten folds of all paths at once. The penalty that has the minimum is then
    estimated with an audit and as many probes as it needs (on small problems, and on less small
    ones with fewer rows than columns, by leave-one-out),
    which may raise its risk above that of another; and so on, until the minimum is where this has
    been done. So rows of `Tuning.risk` may come from different methods: see ``risks[k].method``.

    Parameters
    ----------
    X, y, loss, n_iter, fit_intercept
        As for `steinpath.run`.
    penalty : callable
        A penalty for each ``lam``: ``sp.Lasso`` itself, or such as
        ``functools.partial(sp.MCP, gamma=2.5)``.
    lams : int or array-like, default=20
        The penalties, or how many of them: then in equal ratios from the smallest with all
        coefficients zero down; for ridge, from one that shrinks every direction tenfold.
    algorithm : ChambollePock, LinearizedADMM, ProximalGradient or FISTA
        What to run.
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
    n_iter = check_count("n_iter", n_iter)
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
    done = begin(f"running {len(lams)} penalties", n_iter)
    batch = run_all(batch, n_iter, lambda t, b: done())
    return choose(batch, lams, options, rng, rule, iterate)


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


def choose(
    batch: Batch,
    lams: np.ndarray,
    options: RiskOptions,
    rng: Any,
    rule: str = "min",
    iterate: int | None = None,
) -> Tuning:
    """Estimate the risk of paths with different penalties, and choose; see `tune`."""
    check_choice("rule", rule, RULES)
    N = batch.n_iter
    if iterate is not None:
        iterate = check_count("iterate", iterate, low=-N - 1, high=N) % (N + 1)
    method, audit = options.method, options.audit
    if method == audit == "folds":
        options, audit = options.but(audit=0), 0
    options = options.but(near=iterate)
    # the same probes, folds and audited rows for all: their noise is then much the same
    seed = int(check_rng(rng).integers(2**63))
    automatic = method == "auto" and options.covariance is None
    careful = automatic and should_leave_out(batch)

    def closely(k: int, probe_tol: float | None) -> Risk:
        if audit and careful:
            return estimate(batch[k], RiskOptions(options.test_loss, method="loo", near=iterate), 0)
        wanted, same_probes = options.but(probe_tol=probe_tol), probe_tol is not None
        return estimate(batch[k], wanted, seed, risks[k], same_probes)

    # as cheaply as possible for all; then with an audit, and with as many probes as it takes, for
    # those that would be chosen: an estimate that is too small by chance does not survive that
    by_folds = method == "folds" or (automatic and folds_pay(batch))
    efforts = [_ANY_NOISE, None] if audit or by_folds else [None]
    first_look = options.but(
        method="folds" if by_folds else method,
        row_scale=None if options.scale_by_audit else options.row_scale,
        audit=0,
        probe_tol=_ANY_NOISE,
    )
    risks = _first_look(batch, first_look, seed)
    lams = lams[: len(risks)]
    left = [[] if _is_exact(risk, method, audit) else efforts[:] for risk in risks]
    done, enough = begin("looking closely at the best", 0), False
    while True:
        iterates = [risk.best_iter if iterate is None else iterate for risk in risks]
        lowest, chosen = _lowest_and_chosen(risks, iterates, rule, lams)
        unsettled = [k for k in (lowest, chosen) if left[k]]
        if enough or not unsettled:
            settled = np.array([len(those) < len(efforts) for those in left])
            return Tuning(lams, tuple(risks), settled, rule, (chosen, iterates[chosen]))
        k = unsettled[0]
        probe_tol = left[k].pop(0)
        if left[k] or not _is_quiet(risks[k], iterates[k]):
            risks[k] = closely(k, probe_tol)
            enough = done()


def _first_look(batch: Batch, options: RiskOptions, seed: int) -> list[Risk]:
    """Estimate the risks of all paths together, in as many portions as may be interrupted."""
    done, risks = begin("estimating their risks", len(batch)), []
    for members in portions(batch, options):
        rngs = [np.random.default_rng(seed) for _ in members]
        found = estimate_together(batch.part(members), options, rngs)
        if isinstance(batch, DeferredBatch):  # that nothing holds on to the states
            pairs = zip(members, found, strict=True)
            found = [risk.on(batch.keep(k, risk.path)) for k, risk in pairs]
        risks += found
        told = [done() for _ in members]
        if any(told):
            break
    return risks


def _is_quiet(risk: Risk, t: int) -> bool:
    """Whether the noise of the probes is as small as `estimate_risk` wants it by default."""
    return noise_near(t, risk.probe_stderr) <= noise_allowed(risk.stderr[t])


def _is_exact(risk: Risk, method: str, audit: int | str) -> bool:
    """Whether nothing can be added to the first estimate."""
    return risk.method == "loo" or (method == "folds" and not audit)


def _lowest_and_chosen(
    risks: Sequence[Risk], iterates: Sequence[int], rule: str, lams: np.ndarray
) -> tuple[int, int]:
    """Return which penalty has the smallest risk, and which one the rule takes."""
    places = list(zip(risks, iterates, strict=True))
    lowest = int(np.argmin([float(risk.values[t]) for risk, t in places]))
    if rule == "one_se":
        for k in np.argsort(-lams, kind="stable"):
            risk, t = places[k]
            difference, stderr = compare_risks(risk, t, *places[lowest])
            if difference <= stderr:
                return lowest, int(k)
    return lowest, lowest
