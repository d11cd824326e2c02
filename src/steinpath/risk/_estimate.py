"""Estimates of the out-of-sample risk of every iterate."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from steinpath._support.arrays import Array, like, namespace, to_numpy
from steinpath._support.caching import cached_property
from steinpath._support.cells import to_frame
from steinpath._support.charts import fragment, line_chart
from steinpath._support.printing import Summary, with_error
from steinpath._support.validation import (
    check_choice,
    check_count,
    check_instance,
    check_rng,
    spawned,
)
from steinpath.engine._batch import Batch
from steinpath.engine._path import Path
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
from steinpath.risk._options import LEAVE_OUT, NEED_ALL_ROWS, RiskOptions
from steinpath.risk._problem import Problem, make_problems
from steinpath.risk._scores import Fitted, score
from steinpath.risk._splits import Splits

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, eq=False)
class Risk:
    """Estimated risk of every iterate. Returned by `estimate_risk`.

    Attributes
    ----------
    values : Array of shape (n_iter + 1,)
        Estimated risk of ``b^t``; bias-corrected by the audit, if there was one.
    raw : Array of shape (n_iter + 1,)
        The estimate before the correction by the audit.
    train : Array of shape (n_iter + 1,)
        Training error with the same scoring loss.
    stderr : Array of shape (n_iter + 1,)
        Standard error of `values`. It includes the variation of the losses over rows and the
        sampling of the audited rows. Where rows were left out one at a time (by an audit or by
        "loo") it also includes the dependence between their losses, without which it is too small
        for flexible fits. It does not include the Monte Carlo error of the probes.
    probe_stderr : Array of shape (n_iter + 1,)
        Monte Carlo error of `values` from the random probes: zero without probes, infinite
        (unknown) for a single one.
    corrected : Array of shape (n_iter + 1, n)
        Corrected fitted values, computed at first access. The risk for another scoring loss is
        ``loss(y, risk.corrected[t]).mean()``. Rows that are in no test set of
        ``cv`` keep their fitted values.
    best_iter : int
        Iteration with the smallest estimated risk.
    test_loss : str
        Name of the scoring loss.
    method : str
        How the corrections were computed.
    n_probes : int
        Number of random probes.
    covariance_known : bool
        Whether this is the paper's R̃ (True) or R̂.
    row_scale : None, "norm" or "given"
        The row scale that was used.
    centered : bool
        Whether the loss of the zero prediction was subtracted.
    audit : Audit or None
        Comparison of the estimate with refits without some rows.
    diagnostics : tuple of Diagnostic
        Checks of the data, the path and the estimate near `best_iter`; computed at first access.
    warnings : tuple of str
        Messages of the diagnostics that advise against trusting the estimate; an empty tuple means
        no warnings. Designs without row norms skip the checks of rows.
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
    #: Intermediate results, so that a more accurate estimate need not compute them again.
    found: Estimate | None = field(default=None, repr=False)
    left_out: LeftOut | None = field(default=None, repr=False)

    @cached_property
    def corrected(self) -> Array:
        """Corrected fitted values."""
        return self.path.above_level(self.predictions.of(slice(0, self.values.shape[0])))

    @property
    def path(self) -> Path:
        """The path."""
        return self.predictions.path

    def with_path(self, path: Path) -> Risk:
        """Return the same estimate for another object that holds the same path."""
        assert self.found is not None
        predictions = replace(self.predictions, path=path)
        return replace(
            self, predictions=predictions, found=self.found._replace(predictions=predictions)
        )

    def residuals(self, t: int) -> Array:
        """Return ``y`` minus the corrected fitted values of one iterate.

        Parameters
        ----------
        t : int
            The iteration.

        Returns
        -------
        Array of shape (n,)
            The corrected residuals.
        """
        return self.path.response - self.predictions.of(slice(t, t + 1))[0, ...]

    @cached_property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """Checks of the data, the path and the estimate."""
        return self.diagnose()

    def diagnose(self, at: int | None = None) -> tuple[Diagnostic, ...]:
        """Check the data, the path and the estimate near an iteration.

        Parameters
        ----------
        at : int, optional
            The selected iteration; by default the one with the smallest estimated risk.

        Returns
        -------
        tuple of Diagnostic
            A diagnostic warns if its ``value`` is above its ``threshold``.
        """
        if at is not None:
            at = check_count("at", at, low=0, high=self.values.shape[0] - 1)
        return diagnose(self, at)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about the estimate."""
        return tuple(found.message for found in self.diagnostics if found.warns)

    @property
    def best_iter(self) -> int:
        """Iteration with the smallest estimated risk."""
        return int(namespace(self.values).argmin(self.values))

    def compare(self, t1: int, t2: int) -> tuple[float, float]:
        """Return the estimated risk at iteration ``t1`` minus that at ``t2``, with standard error.

        The standard error is that of the mean difference over the rows, which is much smaller than
        those of the two risks. It includes the dependence between rows where that is known, the
        error of the audit and the Monte Carlo error. These are treated as independent, which is
        conservative.

        Parameters
        ----------
        t1, t2 : int
            The iterations.

        Returns
        -------
        tuple of float
            The difference and its standard error.
        """
        return compare_risks(self, t1, self, t2)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot training error and estimated risk against the iteration.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Axes to draw on; a new figure by default.

        Returns
        -------
        matplotlib.axes.Axes
            The axes.
        """
        from steinpath.plots import plot_risk

        return plot_risk(self, ax)

    def plot_residuals(self, t: int | None = None, ax: Axes | None = None) -> Axes:
        """Plot corrected against raw residuals.

        Parameters
        ----------
        t : int, optional
            The iteration; by default the one with the smallest risk.
        ax : matplotlib.axes.Axes, optional
            Axes to draw on; a new figure by default.

        Returns
        -------
        matplotlib.axes.Axes
            The axes.
        """
        from steinpath.plots import plot_residuals

        return plot_residuals(self, t, ax)

    def plot_diagnostics(self, ax: Axes | None = None) -> Axes:
        """Plot the value of each diagnostic relative to its threshold.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Axes to draw on; a new figure by default.

        Returns
        -------
        matplotlib.axes.Axes
            The axes.
        """
        from steinpath.plots import plot_diagnostics

        return plot_diagnostics(self, ax)

    def to_dict(self) -> dict[str, Any]:
        """Return a table as columns by name: one row for each iteration.

        Returns
        -------
        dict
            Columns "iteration", "risk", "stderr", "probe_stderr" and "train".
        """
        columns = (self.values, self.stderr, self.probe_stderr, self.train)
        names = ("risk", "stderr", "probe_stderr", "train")
        found = {name: to_numpy(each) for name, each in zip(names, columns, strict=True)}
        return {"iteration": np.arange(self.values.shape[0]), **found}

    def to_frame(self, library: str | None = None) -> Any:
        """Return the table of `to_dict` as a data frame.

        Parameters
        ----------
        library : {"pandas", "polars"}, optional
            The library; by default the first of these that is installed.

        Returns
        -------
        pandas.DataFrame or polars.DataFrame
            One row for each iteration.
        """
        return to_frame(self.to_dict(), library)

    def summary(self) -> Summary:
        """Summarise the estimate at its minimum as a table, in the style of statsmodels.

        Returns
        -------
        Summary
            ``print`` it for plain text; notebooks show it as HTML. The estimated risk is the
            smallest along the path, not adjusted for selection of the iteration; `steinpath.tune`
            adjusts for it.
        """
        best, path = self.best_iter, self.path
        coef = to_numpy(path.coef[best, :])
        facts = [
            *model_facts(path),
            ("Selected Iteration", f"{best} of {path.n_iter}"),
            ("Scoring Loss", self.test_loss),
            ("Estimated Risk", self._at_best()),
            ("Training Error", f"{float(self.train[best]):.4g}"),
            ("Risk at Last Iteration", f"{float(self.values[-1]):.4g}"),
            ("Method", self.method),
            ("Audited Rows", str(0 if self.audit is None else len(self.audit.rows))),
        ]
        if path.fit_intercept and not self.centered:
            facts.append(("Constant-Prediction Error", f"{float(self.train[0]):.4g}"))
        facts.append(("Nonzero Coefficients", f"{np.count_nonzero(coef)} of {len(coef)}"))
        note = "Estimated risk not adjusted for selection of the iteration; ± one standard error."
        return Summary("Risk Estimation Results", tuple(facts), notes=(note, *self.warnings))

    def _at_best(self) -> str:
        best = self.best_iter
        return with_error(float(self.values[best]), float(self.stderr[best]))

    def _repr_html_(self) -> str:
        best, path = self.best_iter, self.path
        facts = [
            ("Model", f"{path.loss!r}, {path.penalty!r}"),
            ("Data", f"n = {path.n_samples}, p = {path.n_features}"),
            ("Scoring loss", self.test_loss),
            ("Method", self.method + (", audited" if self.audit is not None else "")),
            ("Best iteration", f"{best} of {path.n_iter}"),
            ("Estimated risk", self._at_best()),
            ("Training error", f"{float(self.train[best]):.4g}"),
        ]
        # diagnostics are expensive for rows elsewhere: they are shown once they are known
        notes = self.warnings if "diagnostics" in self.__dict__ else ()
        return fragment("Estimated risk of every iterate", facts, self._chart(best), notes=notes)

    def _chart(self, marked: int, x_label: str = "iteration") -> str:
        """Return a small chart of the risk along iterations as SVG, for notebooks."""
        lines = {"estimated risk": self.values, "training error": self.train}
        times = np.arange(self.values.shape[0])
        return line_chart(times, lines, x_label=x_label, marked=marked, errors=self.stderr)

    def __repr__(self) -> str:
        best = self.best_iter
        return (
            f"<Risk ({self.test_loss}, {self.method}) of {self.values.shape[0]} iterates: best is "
            f"{best} with {with_error(float(self.values[best]), float(self.stderr[best]))}>"
        )


def model_facts(path: Path) -> list[tuple[str, str]]:
    """Return the model and the size of the data, for summaries."""
    return [
        ("Loss", repr(path.loss)),
        ("Penalty", repr(path.penalty)),
        ("Algorithm", type(path.algorithm).__name__),
        ("No. Observations", str(path.n_samples)),
        ("No. Features", str(path.n_features)),
        ("Intercept", "yes" if path.fit_intercept else "no"),
    ]


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

    Each fitted value is corrected by a weighted combination of past dual iterates, so that it
    approximates the prediction of the iterate with that row left out. The estimated risk is the
    mean scoring loss at the corrected values.

    Parameters
    ----------
    path : Path
        The path, as returned by `run`.
    test_loss : None, str, Loss or callable, default=None
        The scoring loss. None uses the one that matches the loss of the path: absolute for LAD,
        squared for the square-root and squared losses, and so on. A name is one of "absolute",
        "squared", "huber", "pseudo_huber", "epsilon_insensitive", "quantile". Its parameter is that
        of the path's loss if both have the same parameter, and otherwise the default of the loss
        class. A loss such as ``sp.Quantile(0.8)`` has its own parameter. A callable receives
        copies of ``(y, prediction)`` for all rows and returns one finite number for each.
    covariance : array-like of shape (p, p), optional
        Covariance of the rows of X. If given, the estimate is the paper's R̃; otherwise R̂.
    method : str, default="auto"
        How the corrections are computed:

        - "compressed": the correction compressed in time, with random probes, at the cost of one to
          three runs.
        - "spectral": from the singular values of X, without probes, for the square-root or squared
          loss with an isotropic penalty; omits terms of relative order ``1 / p``.
        - "exact": the paper's traces, computed with basis vectors. For small problems only.
        - "hutchinson": the paper's traces, estimated with random vectors.
        - "loo": leave-one-out cross-validation, at the cost of n runs.
        - "folds": ten-fold cross-validation with Burman's bias correction.
        - "auto": the cheapest of these: "loo" up to about ``n² p = 5e6`` (more with an audit),
          "spectral" where it applies and p is not small, otherwise "compressed". With a covariance,
          "exact" where it is not slower. For the hinge loss with a penalty that sets coefficients
          to zero, "folds".
    row_scale : None, "norm", "auto" or array-like of shape (n,)
        Row scales, for rows whose norms vary as in elliptical designs: the correction of row ``i``
        is multiplied by its squared scale relative to the mean. None gives the paper's estimator;
        "auto" lets the audit select between it and "norm". "loo" and "folds" do not use it.
    audit : int or "folds", default=0
        Check the estimate against refits without some rows, and correct its bias where they differ
        by more than chance: exact leave-one-out for this many random rows (at least 2; 32 are
        enough), or ten folds with Burman's correction. See `Risk.audit`.
    groups : array-like of shape (n,), optional
        Group labels of the rows, such as subjects with repeated measurements. Whole groups are then
        held out by "loo", "folds" and audits, and standard errors treat groups instead of rows as
        independent. The other methods assume independent rows: with groups they require an audit,
        whose correction is then applied in full. "auto" uses "loo" for up to 30 groups, and "folds"
        for more.
    rng : None, int or numpy.random.Generator
        Random numbers for the probes, the folds and the audited rows.
    audit_until : int, optional
        The last iteration to audit. By default a little more than twice the iteration with the
        smallest risk after the audit. Later iterations get the correction of this one; use
        ``path.n_iter`` to audit all.
    cv : int, splitter or iterable, optional
        How "folds" and an audit by folds hold out rows: a number of folds, a scikit-learn splitter
        such as ``TimeSeriesSplit(5)``, or pairs of arrays with the indices of training and test
        rows. "auto" then uses "folds". Unless the splits are folds of all rows, there is no
        correction for training on fewer rows.
    n_probes : int, optional
        Initial number of random probes: tangent columns of "compressed" (16 to 28, depending on
        their cost), vectors of "hutchinson" (5).
    probe_tol : float, optional
        Tolerance for the Monte Carlo error near the minimum: the root mean square over the
        iterations from half to twice the best one. "compressed" adds probes until it is met, up to
        16 times the initial number, and warns if that is not enough. By default a quarter of the
        standard error at the minimum.
    near : int, optional
        The iteration near which the Monte Carlo error must be small, in place of the minimum.
    precision : {"float32", "float64"}, default="float32"
        Precision of the tangents of "compressed"; everything else has the precision of the path.
    centered : bool, default=False
        Subtract the loss of the zero prediction from the loss of each row. The minimum and
        differences stay the same; standard errors are much smaller for heavy-tailed noise.

    Returns
    -------
    Risk
        The estimated risk of every iterate.

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
    check_instance("path", path, Path, "sp.run(X, y, loss, penalty)")
    risk: Risk = path.design.on_blocks(estimate, path, options, check_rng(rng))
    return risk


def estimate(
    path: Path,
    options: RiskOptions,
    rng: Any,
    known: Risk | None = None,
    same_probes: bool = False,
) -> Risk:
    """Do as `estimate_risk`, with validated options.

    Results of an earlier estimate of the same path with the same random numbers are reused: those
    of its audit and, with the same probes, those of its method.
    """
    check_instance("path", path, Path, "sp.run(X, y, loss, penalty)")
    path.refuse_weights()
    if options.near is not None:
        check_count("near", options.near, low=0, high=path.n_iter)
    if options.method in NEED_ALL_ROWS and not path.design.is_whole:
        raise ValueError(
            f"method {options.method!r} is not supported for a distributed design; use 'compressed'"
        )
    (problem,) = make_problems(Batch.of(path), options, [check_rng(rng)])
    options, method, audit = problem.options, options.method, options.audit
    if method == "auto":
        method = cheapest(problem, options.audited_rows)
        if method == audit == "folds":  # an audit would repeat the estimate
            audit = 0
    if method == audit == "folds":
        raise ValueError("audit='folds' cannot check method='folds'; use audit=32 or audit=0")
    # the held-out rows must not depend on the number of probes, nor the other way round
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
    """Audit estimates up to the iteration that selection needs.

    Parameters
    ----------
    problem : Problem
        The path, and the random numbers of the audit.
    audit : int or "folds"
        What to hold out.
    method : str
        The method of the estimates.
    results : mapping
        The estimates, by their row scales.
    known : LeftOut, optional
        Earlier results of the same audit.
    """
    path, options = problem.path, problem.options
    # an estimate that holds out no rows is valid for independent rows only
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
            problem.rng.bit_generator.state = drawn  # the same rows if the audit is extended
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
    """Return the last iteration that an audit needs."""
    near = problem.options.near
    best = int(namespace(values).argmin(values)) if near is None else near
    return reach(best, problem.path.n_iter)


def _found_before(known: Risk | None, method: str, scale: str | None) -> Estimate | None:
    """Return earlier results of the same method and row scale, if there are any."""
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
    """Estimate the risk of every iterate of every path of a batch, all in one pass.

    The method is "compressed", without an audit. For other methods, call `steinpath.estimate_risk`
    with a path of the batch.

    Parameters
    ----------
    batch : Batch
        The paths, as returned by `run_batch`.
    test_loss : None, str, Loss or callable, default=None
        The scoring loss, as for `steinpath.estimate_risk`.
    covariance : array-like of shape (p, p), optional
        Covariance of the rows of X, the same for all paths.
    row_scale : None or "norm"
        As for `steinpath.estimate_risk`.
    rng : None, int, numpy.random.Generator, or a sequence of these
        Random numbers for the probes. With a sequence, which has one entry per path, each path uses
        the same probes as in `steinpath.estimate_risk`. The exception is the square-root and
        squared losses if each path has its own X: `steinpath.estimate_risk` then uses more probes.
    n_probes : int, optional
        Number of random probes, as for `steinpath.estimate_risk`.
    precision : {"float32", "float64"}, default="float32"
        Precision of the tangents.
    centered : bool, default=False
        Subtract the loss of the zero prediction from the loss of each row.

    Returns
    -------
    list of Risk
        One for each path.
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
    """Estimate the risks of all paths of a batch together, without audits.

    "compressed" propagates the tangents of all paths in one pass. "folds", for paths that differ in
    their penalties only, adds its runs to one batch, which may extend earlier ones. With "auto",
    each path has the cheapest method, and those with "compressed" share one pass.
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
    """Return the risk of a path from its parts."""
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
    """Do as `Risk.compare`, for two paths on the same data."""
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
    """Root mean square difference of estimated and held-out losses, over rows and iterations."""
    return 0.0 if audit is None else audit.misfit


def _name(criterion: Any) -> str:
    if isinstance(criterion, Criterion):
        return criterion.name
    return getattr(criterion, "__name__", type(criterion).__name__)
