"""Estimates of the out-of-sample risk of every iterate."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from steinpath._support.arrays import Array, like, namespace
from steinpath._support.printing import with_error
from steinpath._support.validation import (
    check_choice,
    check_count,
    check_instance,
    check_rng,
    spawned,
)
from steinpath.engine._batch import Batch
from steinpath.engine._path import Path, RemotePath
from steinpath.engine._traces import row_squares_of
from steinpath.problem._scoring import (
    Criterion,
    PerObservation,
    TestLoss,
    observation_losses,
)
from steinpath.risk._audit import NOISE, Audit, LeftOut, compare, leave_rows_out, reach
from steinpath.risk._diagnostics import Diagnostic, diagnose
from steinpath.risk._fold_runs import FoldRuns, mean_and_error, mean_losses
from steinpath.risk._interactions import Interactions
from steinpath.risk._method_costs import cheapest
from steinpath.risk._methods import METHODS, Estimate, by_folds, compressed
from steinpath.risk._options import LEAVE_OUT, RiskOptions
from steinpath.risk._problem import Problem, make_problems
from steinpath.risk._scores import Fitted, score
from steinpath.risk._splits import Splits

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, eq=False)
class Risk:
    """Estimated risk of every iterate. Made by `estimate_risk`.

    Attributes
    ----------
    values : Array of shape (n_iter + 1,)
        Estimated risk of ``b^t``; repaired by the audit, if there was one.
    raw : Array of shape (n_iter + 1,)
        The same without the audit's repair.
    train : Array of shape (n_iter + 1,)
        Training error with the same test loss.
    stderr : Array of shape (n_iter + 1,)
        Standard error of `values`: from the spread of the losses; where rows were left out one at
        a time (by an audit, or "loo"), from their dependence on each other, without which it is
        too small once the fit is flexible; and from the sampling of the audited rows. The noise
        of the probes is not in it.
    probe_stderr : Array of shape (n_iter + 1,)
        Standard error of `values` from the random probes alone: zero where there are none,
        infinite (unknown) for a single one.
    corrected : Array of shape (n_iter + 1, n)
        Corrected fitted values, computed when asked for. The risk for another test loss is
        ``loss(y, risk.corrected[t]).mean()``. Rows that no split of ``cv`` tests have their fitted
        values as they are.
    best_iter : int
        Iterate with the smallest estimated risk.
    test_loss : str
        Name of the test loss.
    method : str
        How the corrections were computed.
    n_probes : int
        Number of random probes.
    covariance_known : bool
        Whether this is the paper's R̃ (True) or R̂.
    row_scale : None, "norm" or "given"
        Which sizes of the rows were used.
    centered : bool
        Whether the loss of the zero prediction was subtracted.
    audit : Audit or None
        How the estimate compares with runs that leave rows out.
    diagnostics : tuple of Diagnostic
        What was checked of the data, the path and the estimate near `best_iter`; computed when
        asked for.
    warnings : tuple of str
        Messages of those diagnostics that say not to trust the estimate, in plain words. Checks
        of the rows are left out for designs that do not know their sizes.
    """

    values: Array
    raw: Array
    train: Array
    stderr: Array
    probe_stderr: Array
    test_loss: str
    method: str
    n_probes: int
    covariance_known: bool
    row_scale: str | None
    centered: bool
    audit: Audit | None
    criterion: PerObservation = field(repr=False)
    predictions: Fitted = field(repr=False)
    interactions: Interactions | None = field(repr=False)
    #: The group of each row, if there are groups.
    groups: np.ndarray | None = field(default=None, repr=False)
    #: The splits that left rows out, if they were given.
    splits: Splits | None = field(default=None, repr=False)
    #: What it was made of, so that a closer look need not compute it again.
    found: Estimate | None = field(default=None, repr=False)
    left_out: LeftOut | None = field(default=None, repr=False)

    @cached_property
    def corrected(self) -> Array:
        """Corrected fitted values."""
        return self.path.above_level(self.predictions.of(slice(0, self.values.shape[0])))

    @property
    def path(self) -> Path:
        """The path whose risk this is."""
        return self.predictions.path

    def on(self, path: Path) -> Risk:
        """Return the same estimate of the same path, which is another object."""
        assert self.found is not None
        predictions = replace(self.predictions, path=path)
        return replace(
            self, predictions=predictions, found=self.found._replace(predictions=predictions)
        )

    def residuals(self, t: int) -> Array:
        """``y`` less the corrected fitted values of one iterate."""
        return self.path.response - self.predictions.of(slice(t, t + 1))[0, ...]

    @cached_property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """What was checked of the data, the path and the estimate."""
        return self.diagnose()

    def diagnose(self, at: int | None = None) -> tuple[Diagnostic, ...]:
        """Check the data, the path and the estimate near an iterate.

        Parameters
        ----------
        at : int, optional
            The iterate that was chosen; that with the smallest estimated risk by default.

        Returns
        -------
        tuple of Diagnostic
            Those that warn have a ``value`` above their ``threshold``.
        """
        if at is not None:
            at = check_count("at", at, low=0, high=self.values.shape[0] - 1)
        return diagnose(self, at)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Reasons not to trust the estimate, in plain words."""
        return tuple(found.message for found in self.diagnostics if found.warns)

    @property
    def best_iter(self) -> int:
        """Iterate with the smallest estimated risk."""
        return int(namespace(self.values).argmin(self.values))

    def compare(self, t1: int, t2: int) -> tuple[float, float]:
        """Return the estimated risk of iterate ``t1`` less that of ``t2``, and its standard error.

        The error is that of the mean difference over the observations, which is much smaller
        than those of the two risks, with their dependence on each other where it is known, that of
        the audit, and that of the random probes, as if these were independent: on the safe side.

        Parameters
        ----------
        t1, t2 : int
            Iterates.
        """
        return compare_risks(self, t1, self, t2)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw training error and estimated risk against the iteration.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        matplotlib.axes.Axes
        """
        from steinpath.plots import plot_risk

        return plot_risk(self, ax)

    def plot_residuals(self, t: int | None = None, ax: Axes | None = None) -> Axes:
        """Draw corrected against raw residuals.

        Parameters
        ----------
        t : int, optional
            The iterate; that with the smallest risk by default.
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        matplotlib.axes.Axes
        """
        from steinpath.plots import plot_residuals

        return plot_residuals(self, t, ax)

    def plot_diagnostics(self, ax: Axes | None = None) -> Axes:
        """Draw what each diagnostic found relative to its threshold.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        matplotlib.axes.Axes
        """
        from steinpath.plots import plot_diagnostics

        return plot_diagnostics(self, ax)

    def __repr__(self) -> str:
        best = self.best_iter
        return (
            f"<Risk ({self.test_loss}, {self.method}) of {self.values.shape[0]} iterates: best is "
            f"{best} with {with_error(float(self.values[best]), float(self.stderr[best]))}>"
        )


def estimate_risk(
    path: Path,
    test_loss: TestLoss = None,
    covariance: Any = None,
    method: str = "auto",
    row_scale: Any = None,
    audit: int | str = 0,
    groups: Any = None,
    rng: Any = None,
    *,
    audit_until: int | None = None,
    cv: Any = None,
    n_probes: int | None = None,
    probe_tol: float | None = None,
    near: int | None = None,
    precision: str = "float32",
    centered: bool = False,
) -> Risk:
    """Estimate the out-of-sample risk of every iterate of a path, from the path alone.

    Each fitted value is corrected by a weighted combination of past dual iterates, so that it is
    close to what the iterate would predict had the observation been left out. The risk is the
    mean test loss at the corrected values.

    Parameters
    ----------
    path : Path
        What `run` returned.
    test_loss : None, str, Loss or callable, default=None
        What a prediction costs. None is the loss's own: absolute for LAD, squared for the square
        root and squared losses, and so on. A name: "absolute", "squared", "huber",
        "pseudo_huber", "epsilon_insensitive", "quantile", with the parameter of the path's loss
        if that is of the same kind and the loss class's default otherwise. A loss such as
        ``sp.Quantile(0.8)`` brings its own. A callable gets copies of ``(y, prediction)`` of all
        observations and returns one finite real number for each.
    covariance : array-like of shape (p, p), optional
        Covariance of the rows of X. Given, the estimate is the paper's R̃; otherwise R̂.
    method : str, default="auto"
        How the corrections are computed:

        - "compressed": compressed in time, with random probes, at the cost of one to three runs.
        - "spectral": by the singular values of X, without probes, for the square-root or squared
          loss with an isotropic penalty; leaves out terms of relative order ``1 / p``.
        - "exact": the paper's traces, by basis vectors. Small problems only.
        - "hutchinson": the paper's traces, by random vectors.
        - "loo": no estimate, but leave-one-out itself, at n columns.
        - "folds": ten-fold cross-validation with Burman's correction of its bias.
        - "auto": the cheapest of these: "loo" up to about ``n² p = 5e6`` (more with an audit),
          "spectral" where it applies and p is not small, else "compressed"; with a covariance,
          "exact" where it takes no longer; for the hinge loss with a penalty that sets coefficients
          to zero, "folds".
    row_scale : None, "norm", "auto" or array-like of shape (n,)
        Sizes of rows that are unequal, as in elliptical designs: the correction of row ``i`` is
        multiplied by its squared size, relative to the mean. None is the paper's estimator; "auto"
        lets the audit choose between it and "norm". "loo" and "folds" need no such help.
    audit : int or "folds", default=0
        Check the estimate against runs that leave rows out, and repair it where they disagree by
        more than chance: exact leave-one-out of this many random rows (32 are enough; two at
        least), or ten folds with Burman's correction. See `Risk.audit`.
    audit_until : int, optional
        The last iterate to audit. By default, as far as a choice needs it: a little more than twice
        the iterate with the smallest risk after the audit. Later iterates are repaired as this
        one; use ``path.n_iter`` to audit all of them.
    groups : array-like of shape (n,), optional
        Labels of groups of rows that belong together, such as measurements of one subject. Whole
        groups are then left out, by "loo", by "folds" and by audits, and standard errors take
        groups to be independent, not rows. Methods that leave nothing out take rows to be
        independent: with groups they need an audit, all of whose difference is added. "auto" is
        "loo" for up to 30 groups, and "folds" for more.
    rng : None, int or numpy.random.Generator
        Randomness of the probes, of the folds and of the audited rows.
    cv : int, splitter or iterable, optional
        How "folds", and an audit by folds, leave rows out: a number of folds, a splitter of
        scikit-learn such as ``TimeSeriesSplit(5)``, or pairs of arrays of indices, of the rows to
        train and to test on. "auto" is then "folds". Unless the splits are folds of all rows, there
        is no correction for training on fewer rows.
    n_probes : int, optional
        Random probes to begin with: tangent columns of "compressed" (16 to 28, by their
        cost), vectors of "hutchinson" (5).
    probe_tol : float, optional
        How large the noise of the probes may be near the minimum: as root mean square over the
        iterates from half to twice the best one. "compressed" adds probes until it is no larger,
        up to 16 times as many as at first, and warns if that is not enough. A quarter of the
        sampling standard error at the minimum by default.
    near : int, optional
        The iterate near which the noise of the probes is to be small, in place of the minimum.
    precision : {"float32", "float64"}, default="float32"
        Precision of the tangents of "compressed"; the path and all else stay in their own.
    centered : bool, default=False
        Subtract the loss of the prediction 0 from every observation's. Minimum and differences
        stay the same; standard errors are much smaller under heavy-tailed noise.

    Returns
    -------
    Risk

    Examples
    --------
    >>> import numpy as np
    >>> import steinpath as sp
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((200, 100))
    >>> y = X[:, :5].sum(axis=1) + rng.standard_t(2, size=200)
    >>> path = sp.run(X, y, sp.LAD(), sp.Lasso(0.5), n_iter=40)
    >>> risk = sp.estimate_risk(path)
    >>> bool(risk.values[risk.best_iter] < risk.values[-1])
    True
    """
    options = RiskOptions(
        test_loss=test_loss,
        covariance=covariance,
        method=method,
        row_scale=row_scale,
        audit=audit,
        audit_until=audit_until,
        groups=groups,
        cv=cv,
        n_probes=n_probes,
        probe_tol=probe_tol,
        near=near,
        precision=precision,
        centered=centered,
    )
    return estimate(path, options, rng)


def estimate(
    path: Path,
    options: RiskOptions,
    rng: Any,
    known: Risk | None = None,
    same_probes: bool = False,
) -> Risk:
    """Do as `estimate_risk`, with options that were checked.

    What is known from an estimate of the same path with the same randomness is not computed again:
    what its audit left out and, if it has the probes that are wanted, what its method found.
    """
    check_instance("path", path, Path, "sp.run(X, y, loss, penalty)")
    path.refuse_weights()
    if options.near is not None:
        check_count("near", options.near, low=0, high=path.n_iter)
    if isinstance(path, RemotePath):
        remote: Risk = path.estimate_risk(options, rng)
        return remote
    (problem,) = make_problems(Batch.of(path), options, [check_rng(rng)])
    options, method, audit = problem.options, options.method, options.audit
    if method == "auto":
        method = cheapest(problem, options.audited_rows)
        if method == audit == "folds":  # there is nothing else to leave out
            audit = 0
    if method == audit == "folds":
        raise ValueError("an audit by folds has nothing to say of method 'folds'; use audit=32")
    # what is left out does not depend on how many probes were drawn, nor the other way round
    aside = problem._replace(rng=spawned(problem.rng)) if audit else problem
    problems = {options.scale_name: problem}
    if method in LEAVE_OUT:
        problems = {None: problem}
    elif options.scale_by_audit:
        problems = {
            None: problem,
            "norm": problem._replace(row_squares=row_squares_of(path, "norm")),
        }
    with np.errstate(over="ignore", invalid="ignore"):  # the result is checked instead
        results: dict[str | None, Estimate] = {}
        for scale, each in problems.items():
            before = _found_before(known, method, scale) if same_probes else None
            results[scale] = METHODS[method](each) if before is None else before
        audits: dict[str | None, Audit | None] = dict.fromkeys(results)
        left_out: LeftOut | None = None
        pairs: Interactions | None = next(iter(results.values())).interactions
        if audit:
            earlier = None if known is None else known.left_out
            found, left_out = _audited(aside, audit, method, results, earlier)
            audits |= found
            pairs = left_out.interactions
            pairs = None if pairs is None else pairs.held(path.n_iter)
        chosen = min(audits, key=lambda scale: _misfit(audits[scale]))
        return assemble(problem, method, results[chosen], chosen, audits[chosen], pairs, left_out)


def _audited(
    problem: Problem,
    audit: int | str,
    method: str,
    results: Mapping[str | None, Estimate],
    known: LeftOut | None,
) -> tuple[dict[str | None, Audit], LeftOut]:
    """Audit estimates as far as the choice of an iterate needs it.

    Parameters
    ----------
    problem : Problem
        The path, and the randomness of the audit.
    audit : int or "folds"
        What to leave out.
    method : str
        By which the estimates were found.
    results : mapping
        The estimates, by their row scales.
    known : LeftOut, optional
        What the same audit left out before.
    """
    path, options = problem.path, problem.options
    # without rows left out, an estimate for independent rows is wrong for others
    noise = 0.0 if options.has_splits and method not in LEAVE_OUT else NOISE
    exact = results[None] if method == "loo" else None
    if exact is not None:
        until = path.n_iter
    elif options.audit_until is not None:
        until = min(options.audit_until, path.n_iter)
    else:
        until = max(_needed(problem, it.score.values) for it in results.values())
    drawn = problem.rng.bit_generator.state
    while True:
        left_out = known
        if left_out is None or left_out.until < until:
            problem.rng.bit_generator.state = drawn  # the same rows, if it has to go further
            left_out = leave_rows_out(problem._replace(path=path.until(until)), audit, exact)
        audits = {scale: compare(problem, it, left_out, noise) for scale, it in results.items()}
        if options.audit_until is not None:
            return audits, left_out
        chosen = min(audits, key=lambda scale: _misfit(audits[scale]))
        repaired = results[chosen].score.values + audits[chosen].repair
        needed = _needed(problem, repaired)
        if needed <= left_out.until:
            return audits, left_out
        until = min(max(needed, 2 * left_out.until), path.n_iter)


def _needed(problem: Problem, values: Array) -> int:
    """Return how far an audit of estimated risks goes."""
    near = problem.options.near
    best = int(namespace(values).argmin(values)) if near is None else near
    return reach(best, problem.path.n_iter)


def _found_before(known: Risk | None, method: str, scale: str | None) -> Estimate | None:
    """Return what the same method found for the same row scale, if it did."""
    if known is None or known.method != method or known.row_scale != scale:
        return None
    return known.found


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
        that it would have alone (more of them, alone, for the square-root and squared losses where
        members have an X of their own).

    Returns
    -------
    list of Risk
        One for each member.
    """
    check_instance("batch", batch, Batch, "sp.run_batch(X, y, loss, penalty)")
    if row_scale is not None:
        check_choice("row_scale", row_scale, ("norm",))
    options = RiskOptions(
        test_loss=test_loss,
        covariance=covariance,
        method="compressed",
        row_scale=row_scale,
        n_probes=n_probes,
        precision=precision,
        centered=centered,
    )
    return estimate_together(batch, options, _generators(rng, batch))


def estimate_together(
    batch: Batch,
    options: RiskOptions,
    rngs: Sequence[np.random.Generator],
    runs: FoldRuns | None = None,
) -> list[Risk]:
    """Estimate the risks of all paths of a batch without audits, all of them together.

    By "compressed" as one stream of tangents, by "folds" (of paths that differ in their penalties
    alone) as members of the same runs, which may be known as far as they went before. By "auto",
    each path has the cheapest method, and those for which that is "compressed" are one stream.
    """
    problems = make_problems(batch, options.but(audit=0), rngs)
    methods = [options.method] * len(batch)
    if options.method == "auto":
        methods = [cheapest(problem) for problem in problems]
    found: dict[int, Estimate] = {}
    with np.errstate(over="ignore", invalid="ignore"):  # the result is checked instead
        of_folds = partial(by_folds, runs=runs)
        for method, joint in (("compressed", compressed), ("folds", of_folds)):
            members = [k for k, each in enumerate(methods) if each == method]
            if members:
                some = joint([problems[k] for k in members], batch.part(members))
                found |= dict(zip(members, some, strict=True))
        for k, method in enumerate(methods):
            if k not in found:
                found[k] = METHODS[method](problems[k])
        return [
            assemble(
                problem,
                method,
                found[k],
                None if method in LEAVE_OUT else options.scale_name,
                pairs=found[k].interactions,
            )
            for k, (problem, method) in enumerate(zip(problems, methods, strict=True))
        ]


def _generators(rng: Any, batch: Batch) -> list[np.random.Generator]:
    if isinstance(rng, Sequence | np.ndarray) and not isinstance(rng, str):
        if len(rng) != len(batch):
            raise ValueError(f"rng has {len(rng)} entries for a batch of {len(batch)}")
        return [check_rng(each) for each in rng]
    rng = check_rng(rng)
    return [spawned(rng) for _ in batch]


def assemble(
    problem: Problem,
    method: str,
    found: Estimate,
    row_scale: str | None = None,
    audit: Audit | None = None,
    pairs: Interactions | None = None,
    left_out: LeftOut | None = None,
) -> Risk:
    """Put together what was found out about a path."""
    values, stderr = found.score.values, found.score.stderr
    xp = namespace(values)
    if audit is not None:
        values, stderr = values + audit.repair, xp.hypot(stderr, audit.error)
    if pairs is not None:
        stderr = xp.hypot(stderr, pairs.stderr())
    return Risk(
        values=values,
        raw=found.score.values,
        train=_training_error(problem, found),
        stderr=stderr,
        probe_stderr=found.score.probe_stderr,
        test_loss=_name(problem.criterion),
        method=method,
        n_probes=found.n_probes,
        covariance_known=problem.moments is not None,
        row_scale=row_scale,
        centered=problem.options.centered,
        audit=audit,
        criterion=problem.criterion,
        predictions=found.predictions,
        interactions=pairs,
        groups=problem.options.groups,
        splits=problem.options.cv if isinstance(problem.options.cv, Splits) else None,
        found=found,
        left_out=left_out,
    )


def _training_error(problem: Problem, found: Estimate) -> Array:
    if problem.options.centered:
        return score(problem, Fitted(problem.path)).values
    return mean_losses(problem.path, problem.criterion) if found.train is None else found.train


def compare_risks(first: Risk, t1: int, second: Risk, t2: int) -> tuple[float, float]:
    """Do as `Risk.compare`, for iterates of two paths on the same data."""
    sides = []
    for name, t, risk in (("t1", t1, first), ("t2", t2, second)):
        sides.append((check_count(name, t, low=0, high=risk.values.shape[0] - 1), risk))
    with np.errstate(over="ignore", invalid="ignore"):
        one, other = (
            observation_losses(
                risk.criterion, risk.path.response, risk.predictions.of(slice(t, t + 1))
            )
            for t, risk in sides
        )
        gaps, counts = one - other, namespace(one).ones_like(one[0, ...])
        for risk in (first, second):
            if risk.found is not None and risk.found.tested is not None:
                tested = np.zeros(gaps.shape[1])
                tested[first.path.design.places(risk.found.tested)[1]] = 1
                counts = like(tested, counts) * counts
        _, spread = mean_and_error(gaps * counts, counts, first.groups, first.path.design)
        errors = [spread[0], *(risk.probe_stderr[t] for t, risk in sides)]
        if first.audit is not None and second.audit is not None:
            errors.append(first.audit.error_between(t1, t2, second.audit))
        else:
            errors += [risk.audit.error[t] for t, risk in sides if risk.audit is not None]
        if first.interactions is not None and second.interactions is not None:
            errors.append(first.interactions.stderr_between(t1, t2, second.interactions))
        else:
            known = [(t, risk.interactions) for t, risk in sides]
            errors += [pairs.stderr()[t] for t, pairs in known if pairs is not None]
        difference = float(first.values[sides[0][0]] - second.values[sides[1][0]])
    return difference, math.hypot(*map(float, errors))


def _misfit(audit: Audit | None) -> float:
    """Root mean square difference between estimated and left-out losses, over rows and iterates."""
    return 0.0 if audit is None else audit.misfit


def _name(criterion: Any) -> str:
    if isinstance(criterion, Criterion):
        return criterion.name
    return getattr(criterion, "__name__", type(criterion).__name__)
