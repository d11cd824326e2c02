"""Estimates of the out-of-sample risk of every iterate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from steinpath._support.arrays import namespace
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
from steinpath.problem._scoring import Criterion, TestLoss, at_least_zero
from steinpath.risk._audit import NOISE, Audit, compare, hold_out_rows
from steinpath.risk._held_out import HeldOut, RowSample
from steinpath.risk._leave_out import FoldRuns, mean_losses
from steinpath.risk._methods import (
    METHODS,
    Estimate,
    Predictions,
    by_folds,
    cheapest,
    compressed,
    score,
)
from steinpath.risk._options import LEAVE_OUT, NEED_ALL_ROWS, ResolvedOptions, RiskOptions
from steinpath.risk._risk import Risk
from steinpath.risk._splits import Splits


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
    cv: Any = None,
    n_probes: int | None = None,
    probe_tol: float | None = None,
    near: int | None = None,
    precision: str = "float32",
    centered: bool = False,
) -> Risk:
    r"""Estimate the out-of-sample risk of every iterate of a path, from the path alone.

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
        ``(y, prediction)`` for all rows and returns one finite number for each; it must not modify
        its arguments, and NumPy arrays are read-only.
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
        - "folds": ten-fold cross-validation, corrected for training on fewer rows.
        - "auto": the cheapest of these: "loo" up to about ``n² p = 5e6`` (more with an audit),
          "spectral" where it applies and p is not small, otherwise "compressed". With a covariance,
          "exact" where it is not slower. "folds" for the hinge loss with a penalty that sets
          coefficients to zero, and without an audit or a covariance for any path whose corrections
          become unreliable (`Risk.unreliable_from`).
    row_scale : None, "norm", "auto" or array-like of shape (n,)
        Row scales, for rows whose norms vary as in elliptical designs: the correction of row ``i``
        is multiplied by its squared scale relative to the mean. None gives the paper's estimator;
        "auto" lets the audit select between it and "norm". "loo" and "folds" do not use it.
    audit : int or "folds", default=0
        Check the estimate against refits without some rows, and correct its bias where they differ
        by more than chance: exact leave-one-out for this many random rows (at least 2; 32 are
        enough), or ten folds. The runs are as long as the path. See `Risk.audit`.
    groups : array-like of shape (n,), optional
        Group labels of the rows, such as subjects with repeated measurements. Whole groups are then
        held out by "loo", "folds" and audits, and standard errors treat groups instead of rows as
        independent. The other methods assume independent rows: with groups they require an audit,
        whose correction is then applied in full. "auto" uses "loo" for up to 30 groups, and "folds"
        for more.
    rng : None, int or numpy.random.Generator
        Random numbers for the probes, the folds and the audited rows.
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

    Notes
    -----
    With sample weights :math:`w_i`, the risk is the weighted mean loss on new rows,
    :math:`E[w \ell] / E[w]`, and standard errors are those of a ratio. Rows are still one
    observation each: a row is held out as a whole, whatever its weight. The corrections are valid
    if the weights do not depend on x, given the noise: precisions of measurements, counts, known
    exposures. Weights that are functions of x, as in surveys and for covariate shift, change the
    distribution of the rows: "folds" and "loo" remain valid, and other methods require an audit,
    which detects and corrects the difference.

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
    options = RiskOptions.among(locals())
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
    if options.near is not None:
        check_count("near", options.near, low=0, high=path.n_iter)
    if options.method in NEED_ALL_ROWS and not path.design.is_whole:
        raise ValueError(
            f"method {options.method!r} is not supported for a distributed design; use 'compressed'"
        )
    (resolved,) = options.resolved(Batch.of(path), [check_rng(rng)])
    method, audit = options.method, options.audit
    if method == "auto":
        method = cheapest(resolved, options.audited_rows)
        if method == audit == "folds":  # an audit would repeat the estimate
            audit = 0
    if method == audit == "folds":
        raise ValueError("audit='folds' cannot check method='folds'; use audit=32 or audit=0")
    # the held-out rows must not depend on the number of probes, nor the other way round
    aside = resolved.but(rng=spawned(resolved.rng)) if audit else resolved
    scales: dict[str | None, ResolvedOptions] = {options.scale_name: resolved}
    if method in LEAVE_OUT:
        scales = {None: resolved}
    elif options.scale_by_audit:
        by_norm = resolved.but(row_squares=row_squares_of(path, "norm"))
        scales = {None: resolved, "norm": by_norm}
    with np.errstate(over="ignore", invalid="ignore"):  # the result is checked instead
        # corrected predictions and their scores, for each row scale
        estimates = {}
        for scale, own in scales.items():
            earlier = known if same_probes else None
            if earlier is not None and (earlier.method, earlier.row_scale) == (method, scale):
                estimates[scale] = earlier.estimate
            else:
                estimates[scale] = METHODS[method](own)
        scale = next(iter(estimates))
        if not audit:
            risk = assemble(resolved, method, estimates[scale], scale)
            if options.method == "auto" and _folds_are_better(risk, options.near):
                return assemble(resolved, "folds", METHODS["folds"](resolved), None)
            return risk
        # rows that are held out, and the comparison with their losses
        exact = estimates[None] if method == "loo" else None
        held_out = None if known is None else known.audited
        if held_out is None:
            held_out = hold_out_rows(aside, audit, exact)
        # an estimate that holds out no rows is valid for independent rows only
        noise = 0.0 if options.has_splits and method not in LEAVE_OUT else NOISE
        audits = {k: compare(aside, one, held_out, noise) for k, one in estimates.items()}
        scale = _closest(audits)
        return assemble(resolved, method, estimates[scale], scale, audits[scale], held_out)


def _folds_are_better(risk: Risk, near: int | None) -> bool:
    """Whether corrections that matter are unreliable, and folds of the path can be run."""
    last = risk.path.n_iter if near is None else 2 * near
    structured = risk.path.maps.structured and not risk.covariance_known
    return structured and risk.unreliable_from is not None and risk.unreliable_from <= last


def _closest(audits: dict[str | None, Audit]) -> str | None:
    """Return the row scale whose losses are closest to those of the held-out rows."""
    if len(audits) == 1:
        return next(iter(audits))
    return min(audits, key=lambda scale: audits[scale].misfit)


def assemble(
    options: ResolvedOptions,
    method: str,
    estimate: Estimate,
    row_scale: str | None,
    audit: Audit | None = None,
    audited: HeldOut | None = None,
) -> Risk:
    """Return the risk of a path from an estimate and its audit."""
    values, stderr, interactions = estimate.values, estimate.stderr, estimate.interactions
    xp = namespace(values)
    if audit is not None and audited is not None:
        values, stderr = values + audit.repair, xp.hypot(stderr, audit.error)
        values = values if options.centered else at_least_zero(options.criterion, values)
        interactions = audited.interactions
    criterion: Any = options.criterion
    train = estimate.train
    if options.centered:
        train = score(options, Predictions(options.path)).values
    elif train is None:
        train = mean_losses(options.path, criterion)
    if interactions is not None:
        shared = interactions.stderr()
    else:
        # for a smoother H, tr(H²) / n² times the mean squared residual is of the size of the
        # squared optimism divided by the number of rows; twice this covers it in simulations
        n, tested = options.path.n_samples, estimate.held_out
        optimism = values - train
        optimism = xp.where(optimism > 0, optimism, 0 * optimism)
        if tested is not None and len(tested.rows) < n:  # the training error is of other rows
            optimism = 0 * optimism
        sample = RowSample.over(options.path.data, groups=options.groups)
        shared = math.sqrt(2 / sample.effective_units) * optimism
        if audit is None and estimate.shared_error is not None:
            shared = xp.maximum(shared, estimate.shared_error)
    stderr = xp.hypot(stderr, shared + 0 * stderr)
    name = getattr(criterion, "__name__", type(criterion).__name__)
    return Risk(
        values=values,
        raw=estimate.values,
        train=train,
        stderr=stderr,
        probe_stderr=estimate.probe_stderr,
        test_loss=criterion.name if isinstance(criterion, Criterion) else name,
        method=method,
        n_probes=estimate.n_probes,
        covariance_known=options.moments is not None,
        row_scale=row_scale,
        centered=options.centered,
        audit=audit,
        criterion=criterion,
        estimate=estimate,
        interactions=interactions,
        shared_error=shared,
        groups=options.groups,
        splits=options.cv if type(options.cv) is Splits else None,
        audited=audited,
    )


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
    options = RiskOptions.among(locals()).but(method="compressed")
    return estimate_together(batch, options, _generators(rng, batch))


def _generators(rng: Any, batch: Batch) -> list[np.random.Generator]:
    if isinstance(rng, Sequence | np.ndarray) and not isinstance(rng, str):
        if len(rng) != len(batch):
            raise ValueError(f"rng has {len(rng)} entries for a batch of {len(batch)}")
        return [check_rng(seed) for seed in rng]
    rng = check_rng(rng)
    return [spawned(rng) for _ in batch]


def estimate_together(
    batch: Batch,
    options: RiskOptions,
    rngs: Sequence[np.random.Generator],
    runs: FoldRuns | None = None,
    test_losses: Sequence[TestLoss] | None = None,
) -> list[Risk]:
    """Estimate the risks of all paths of a batch together, without audits.

    "folds" is for paths with the same X, and may extend earlier ``runs``. With "auto", each path
    has the cheapest method; those with "compressed" share one pass. Paths may have their own
    scoring losses.
    """
    resolved = options.but(audit=0).resolved(batch, rngs, test_losses)
    methods = [options.method] * len(batch)
    if options.method == "auto":
        methods = [cheapest(own) for own in resolved]
    estimates: dict[int, Estimate] = {}
    with np.errstate(over="ignore", invalid="ignore"):  # the result is checked instead
        of_folds = partial(by_folds, runs=runs)
        for method, joint in (("compressed", compressed), ("folds", of_folds)):
            members = [k for k, own in enumerate(methods) if own == method]
            if members:
                some = joint([resolved[k] for k in members], batch.part(members))
                estimates |= dict(zip(members, some, strict=True))
        risks = []
        for k, (own, method) in enumerate(zip(resolved, methods, strict=True)):
            if k not in estimates:
                estimates[k] = METHODS[method](own)
            scale = None if method in LEAVE_OUT else options.scale_name
            risks.append(assemble(own, method, estimates[k], scale))
        return risks
