"""Estimates of the out-of-sample risk of every iterate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from steinpath._support.arrays import Array, namespace
from steinpath._support.validation import (
    check_choice,
    check_count,
    check_flag,
    check_instance,
    check_number,
    check_rng,
    spawned,
)
from steinpath.engine._path import Path, RemotePath
from steinpath.engine._traces import row_squares_of, second_moments
from steinpath.problem._scoring import (
    Criterion,
    PerObservation,
    TestLoss,
    observation_losses,
    resolve_test_loss,
)
from steinpath.risk._audit import Audit, compare, leave_rows_out
from steinpath.risk._diagnostics import Diagnostic, diagnose
from steinpath.risk._interactions import Interactions
from steinpath.risk._methods import METHODS, Fitted, Found, Problem, by_folds, cheapest, score

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
        ``loss(y, risk.corrected[t]).mean()``.
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
        What was checked of the data, the path and the estimate; computed when asked for.
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

    @cached_property
    def corrected(self) -> Array:
        """Corrected fitted values."""
        return self.predictions.of(slice(0, self.values.shape[0]))

    @property
    def path(self) -> Path:
        """The path whose risk this is."""
        return self.predictions.path

    def predicted(self, t: int) -> Array:
        """Corrected fitted values of one iterate."""
        return self.predictions.of(slice(t, t + 1))[0, ...]

    @cached_property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """What was checked of the data, the path and the estimate."""
        return diagnose(self)

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
            f"{best} with {float(self.values[best]):.4g} ± {float(self.stderr[best]):.2g}>"
        )


def estimate_risk(
    path: Path,
    test_loss: TestLoss = None,
    covariance: Any = None,
    method: str = "auto",
    row_scale: Any = None,
    audit: int | str = 0,
    rng: Any = None,
    *,
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
        ``sp.Quantile(0.8)`` brings its own. A callable gets ``(y, prediction)`` of all
        observations and returns one number for each.
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
          "exact" where it takes no longer.
    row_scale : None, "norm", "auto" or array-like of shape (n,)
        Sizes of rows that are unequal, as in elliptical designs: the correction of row ``i`` is
        multiplied by its squared size, relative to the mean. None is the paper's estimator; "auto"
        lets the audit choose between it and "norm". "loo" and "folds" need no such help.
    audit : int or "folds", default=0
        Check the estimate against runs that leave rows out, and repair it where they disagree by
        more than chance: exact leave-one-out of this many random rows (32 are enough; two at
        least), or ten folds with Burman's correction. See `Risk.audit`.
    rng : None, int or numpy.random.Generator
        Randomness of the probes, of the folds and of the audited rows.
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
    check_instance("path", path, Path, "sp.run(X, y, loss, penalty)")
    path.refuse_weights()
    check_choice("method", method, ("auto", *METHODS))
    check_choice("precision", precision, ("float32", "float64"))
    check_flag("centered", centered)
    if n_probes is not None:
        n_probes = check_count("n_probes", n_probes)
    if probe_tol is not None:
        check_number("probe_tol", probe_tol, low=0, open_low=True)
    if near is not None:
        near = check_count("near", near, low=0, high=path.n_iter)
    audit = check_audit(audit, row_scale)
    if isinstance(path, RemotePath):
        remote: Risk = path.estimate_risk(
            audit,
            rng,
            test_loss=test_loss,
            covariance=covariance,
            method=method,
            row_scale=row_scale,
            n_probes=n_probes,
            probe_tol=probe_tol,
            near=near,
            precision=precision,
            centered=centered,
        )
        return remote
    automatic = is_automatic(row_scale)
    problem = Problem(
        path,
        resolve_test_loss(test_loss, path.loss),
        check_rng(rng),
        centered=centered,
        moments=None if covariance is None else second_moments(path, covariance),
        row_squares=row_squares_of(path, None if automatic else row_scale),
        n_probes=n_probes,
        probe_tol=probe_tol,
        near=near,
        precision=precision,
    )
    if method == "auto":
        method = cheapest(problem, 0 if audit == "folds" else int(audit))
    if method == audit == "folds":
        raise ValueError("an audit by folds has nothing to say of method 'folds'; use audit=32")
    # what is left out does not depend on how many probes were drawn, nor the other way round
    aside = problem._replace(rng=spawned(problem.rng)) if audit else problem
    problems = {name_of_scale(row_scale): problem}
    if method in ("loo", "folds"):
        problems = {None: problem}
    elif automatic:
        problems = {
            None: problem,
            "norm": problem._replace(row_squares=row_squares_of(path, "norm")),
        }
    with np.errstate(over="ignore", invalid="ignore"):  # the result is checked instead
        results = {scale: METHODS[method](each) for scale, each in problems.items()}
        audits: dict[str | None, Audit | None] = dict.fromkeys(results)
        pairs = next(iter(results.values())).interactions
        if audit:
            left_out = leave_rows_out(aside, audit, results[None] if method == "loo" else None)
            audits |= {scale: compare(problem, found, left_out) for scale, found in results.items()}
            pairs = left_out.interactions
        chosen = min(audits, key=lambda scale: _misfit(audits[scale]))
        return assemble(problem, method, results[chosen], chosen, audits[chosen], pairs)


def estimate_by_folds(paths: Sequence[Path], test_loss: TestLoss, rng: Any) -> list[Risk]:
    """Do as `estimate_risk` by folds, for paths that differ in their penalties, all together."""
    criterion, rng = resolve_test_loss(test_loss, paths[0].loss), check_rng(rng)
    problems = [Problem(path, criterion, rng) for path in paths]
    with np.errstate(over="ignore", invalid="ignore"):  # the result is checked instead
        results = by_folds(problems)
        both = zip(problems, results, strict=True)
        return [assemble(problem, "folds", found) for problem, found in both]


def assemble(
    problem: Problem,
    method: str,
    found: Found,
    row_scale: str | None = None,
    audit: Audit | None = None,
    pairs: Interactions | None = None,
) -> Risk:
    """Put together what was found out about a path."""
    values, variance = found.score.values, found.score.stderr**2
    if audit is not None:
        values, variance = values + audit.repair, variance + audit.error**2
    if pairs is not None:
        variance = variance + pairs.variance()
    return Risk(
        values=values,
        raw=found.score.values,
        train=score(problem, Fitted(problem.path)).values,
        stderr=namespace(variance).sqrt(variance),
        probe_stderr=found.score.probe_stderr,
        test_loss=_name(problem.criterion),
        method=method,
        n_probes=found.n_probes,
        covariance_known=problem.moments is not None,
        row_scale=row_scale,
        centered=problem.centered,
        audit=audit,
        criterion=problem.criterion,
        predictions=found.predictions,
        interactions=pairs,
    )


def compare_risks(first: Risk, t1: int, second: Risk, t2: int) -> tuple[float, float]:
    """Do as `Risk.compare`, for iterates of two paths on the same data."""
    sides = []
    for name, t, risk in (("t1", t1, first), ("t2", t2, second)):
        sides.append((check_count(name, t, low=0, high=risk.values.shape[0] - 1), risk))
    y = first.path.y
    xp, n = namespace(y), y.shape[0]
    with np.errstate(over="ignore", invalid="ignore"):
        one, other = (
            observation_losses(risk.criterion, y, risk.predictions.of(slice(t, t + 1)))
            for t, risk in sides
        )
        spread = xp.std(one - other, correction=1.0) if n > 1 else math.inf
        variances = [spread**2 / n, *(risk.probe_stderr[t] ** 2 for t, risk in sides)]
        if first.audit is not None and second.audit is not None:
            variances.append(first.audit.error_between(t1, t2, second.audit) ** 2)
        else:
            variances += [risk.audit.error[t] ** 2 for t, risk in sides if risk.audit is not None]
        if first.interactions is not None and second.interactions is not None:
            variances.append(first.interactions.variance_between(t1, t2, second.interactions))
        else:
            known = [(t, risk.interactions) for t, risk in sides]
            variances += [pairs.variance()[t] for t, pairs in known if pairs is not None]
        difference = float(first.values[sides[0][0]] - second.values[sides[1][0]])
    return difference, math.sqrt(sum(map(float, variances)))


def check_audit(audit: int | str, row_scale: Any) -> int | str:
    """Return a number of rows to audit, or "folds"; refuse what a row scale cannot do with."""
    if is_automatic(row_scale) and not audit:
        raise ValueError("row_scale='auto' lets the audit choose; ask for one, as audit=32")
    if isinstance(audit, str):
        if audit != "folds":
            raise ValueError(f"audit must be a number of rows, or 'folds'; got {audit!r:.60}")
        return audit
    rows = check_count("audit", audit, low=0)
    if rows == 1:
        raise ValueError("audit must be two rows at least, for a standard error, or 0 for none")
    return rows


def is_automatic(row_scale: Any) -> bool:
    """Whether the audit is to choose the row scale."""
    return isinstance(row_scale, str) and row_scale == "auto"


def name_of_scale(row_scale: Any) -> str | None:
    """Name the sizes of rows that were used."""
    return row_scale if row_scale is None or isinstance(row_scale, str) else "given"


def _misfit(audit: Audit | None) -> float:
    """Mean square difference between estimated and left-out losses, over rows and iterates."""
    return 0.0 if audit is None else float(namespace(audit.share).mean(audit.differences**2))


def _name(criterion: Any) -> str:
    if isinstance(criterion, Criterion):
        return criterion.name
    return getattr(criterion, "__name__", type(criterion).__name__)
