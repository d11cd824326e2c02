"""Estimated risk of every iterate, and comparisons of such risks."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from steinpath._support.arrays import Array, first_minimum, to_numpy
from steinpath._support.caching import cached_property
from steinpath._support.charts import line_chart, on_axes
from steinpath._support.printing import Summary, fragment, number, with_error
from steinpath._support.tabular import Tabular
from steinpath._support.validation import check_count
from steinpath.engine._path import Path
from steinpath.problem._scoring import PerObservation, observation_losses
from steinpath.risk._audit import Audit
from steinpath.risk._diagnostics import diagnose
from steinpath.risk._evidence import Diagnostic
from steinpath.risk._held_out import HeldOut, Interactions, RowSample
from steinpath.risk._methods import Estimate, Predictions
from steinpath.risk._splits import Splits

if TYPE_CHECKING:
    from matplotlib.axes import Axes


#: Names and values, for summaries.
Facts = tuple[tuple[str, str], ...]


# Ratio of the shared error to the sampling error above which an estimate is unreliable.
_UNRELIABLE = 4.0


@dataclass(frozen=True, eq=False)
class Risk(Tabular):
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
        Standard error of `values`. It includes the variation of the losses over rows, the sampling
        of the audited rows, and the dependence between the losses of rows, without which it is too
        small for flexible fits. The dependence is measured where rows were left out one at a time
        (by an audit or by "loo"), and otherwise estimated from the optimism and, for "compressed"
        and "hutchinson" without an audit, from the differences between probes. It does not include
        the Monte Carlo error of the probes.
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
    unreliable_from : int or None
        First iteration from which on, without an audit, most of `stderr` is due to the correction:
        the duals then respond in a few directions only, as at a vertex, and the estimate is rough.
        None if there is none, or if it is not known: for methods without random probes.
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
    #: Result of the method, which a more accurate estimate need not compute again.
    estimate: Estimate = field(repr=False)
    interactions: Interactions | None = field(default=None, repr=False)
    #: Part of `stderr` due to the dependence between rows: measured by the interactions, or
    #: estimated without them.
    shared_error: Array = field(default=0.0, repr=False)
    #: The group of each row, if there are groups.
    groups: np.ndarray | None = field(default=None, repr=False)
    #: The splits that left rows out, if they were given.
    splits: Splits | None = field(default=None, repr=False)
    #: The rows that the audit left out.
    audited: HeldOut | None = field(default=None, repr=False)

    @cached_property
    def corrected(self) -> Array:
        """Corrected fitted values."""
        return self.path.above_level(self.predictions.of(slice(0, self.values.shape[0])))

    @property
    def predictions(self) -> Predictions:
        """Predictions of ``path.response`` by each iterate, corrected or stored."""
        return self.estimate.predictions

    @property
    def path(self) -> Path:
        """The path."""
        return self.predictions.path

    def with_path(self, path: Path) -> Risk:
        """Return the same estimate for another object that holds the same path."""
        predictions = replace(self.predictions, path=path)
        return replace(self, estimate=self.estimate._replace(predictions=predictions))

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
        return tuple(check.message for check in self.diagnostics if check.warns)

    @property
    def best_iter(self) -> int:
        """Iteration with the smallest estimated risk."""
        return first_minimum(self.values)

    @cached_property
    def unreliable_from(self) -> int | None:
        """First iteration from which on the standard error is mostly that of the correction."""
        if self.audit is not None or not self.n_probes:
            return None
        reliable = to_numpy(self.shared_error <= _UNRELIABLE * self.estimate.stderr)
        first = int(np.flatnonzero(reliable).max(initial=-1)) + 1
        return first if first < len(reliable) else None

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

    @on_axes
    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot training error and estimated risk against the iteration."""
        from steinpath.plots import plot_risk

        return plot_risk(self, ax)

    @on_axes
    def plot_residuals(self, t: int | None = None, ax: Axes | None = None) -> Axes:
        """Plot corrected against raw residuals.

        Parameters
        ----------
        t : int, optional
            The iteration; by default the one with the smallest risk.
        """
        from steinpath.plots import plot_residuals

        return plot_residuals(self, t, ax)

    @on_axes
    def plot_diagnostics(self, ax: Axes | None = None) -> Axes:
        """Plot the value of each diagnostic relative to its threshold."""
        from steinpath.plots import plot_diagnostics

        return plot_diagnostics(self, ax)

    def to_dict(self) -> dict[str, Any]:
        """Return a table as columns by name: one row for each iteration.

        Returns
        -------
        dict
            Columns "iteration", "risk", "stderr", "probe_stderr" and "train".
        """
        curves = {"risk": self.values, "stderr": self.stderr}
        curves |= {"probe_stderr": self.probe_stderr, "train": self.train}
        columns = {name: to_numpy(curve) for name, curve in curves.items()}
        return {"iteration": np.arange(self.values.shape[0]), **columns}

    def summary(self) -> Summary:
        """Summarise the estimate at its minimum as a table, in the style of statsmodels.

        Returns
        -------
        Summary
            ``print`` it for plain text; notebooks show it as HTML. The estimated risk is the
            smallest along the path, not adjusted for selection of the iteration; `steinpath.tune`
            adjusts for it.
        """
        details: Facts = (
            ("Risk at Last Iteration", number(float(self.values[-1]))),
            ("Method", self.method),
            ("Audited Rows", str(0 if self.audit is None else len(self.audit.rows))),
        )
        if self.unreliable_from is not None:
            details = (*details, ("Audit Needed From", f"iteration {self.unreliable_from}"))
        facts = self._facts_at(self.best_iter, self._at_best(), details=details)
        note = "Estimated risk not adjusted for selection of the iteration; ± one standard error."
        return Summary("Risk Estimation Results", facts, notes=(note, *self.warnings))

    def _facts_at(self, t: int, value: str, selected: Facts = (), details: Facts = ()) -> Facts:
        """Return the key figures of a summary, with this value of the risk at iteration t."""
        path, coef = self.path, to_numpy(self.path.coef[t, :])
        constant = ("Constant-Prediction Error", number(float(self.train[0])))
        return (
            ("Loss", repr(path.loss)),
            ("Penalty", repr(path.penalty)),
            ("Algorithm", type(path.algorithm).__name__),
            ("No. Observations", str(path.n_samples)),
            ("No. Features", str(path.n_features)),
            ("Intercept", "yes" if path.fit_intercept else "no"),
            *selected,
            ("Selected Iteration", f"{t} of {path.n_iter}"),
            ("Scoring Loss", self.test_loss),
            ("Estimated Risk", value),
            ("Training Error", number(float(self.train[t]))),
            *details,
            *([constant] if path.fit_intercept and not self.centered else []),
            ("Nonzero Coefficients", f"{np.count_nonzero(coef)} of {len(coef)}"),
        )

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
            ("Training error", number(float(self.train[best]))),
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
        return (
            f"<Risk ({self.test_loss}, {self.method}) of {self.values.shape[0]} iterates: best is "
            f"{self.best_iter} with {self._at_best()}>"
        )


def compare_risks(first: Risk, t1: int, second: Risk, t2: int) -> tuple[float, float]:
    """Do as `Risk.compare`, for two paths on the same data."""
    t1 = check_count("t1", t1, low=0, high=first.values.shape[0] - 1)
    t2 = check_count("t2", t2, low=0, high=second.values.shape[0] - 1)
    sides, losses, counts = ((t1, first), (t2, second)), [], np.ones(first.path.n_samples)
    with np.errstate(over="ignore", invalid="ignore"):
        for t, risk in sides:
            predictions, held_out = risk.predictions.of(slice(t, t + 1)), risk.estimate.held_out
            losses.append(observation_losses(risk.criterion, risk.path.response, predictions))
            tests = None if held_out is None else held_out.tests(len(counts))
            counts = counts if tests is None else counts * tests
        gaps = losses[0] - losses[1]
        sample = RowSample.over(first.path.data, None, counts, first.groups)
        _, spread = sample.mean_and_error(gaps)
        errors = [spread[0], *(risk.probe_stderr[t] for t, risk in sides)]
        if first.audit is not None and second.audit is not None:
            errors.append(first.audit.error_between(t1, t2, second.audit))
        else:
            errors += [risk.audit.error[t] for t, risk in sides if risk.audit is not None]
        if first.interactions is not None and second.interactions is not None:
            errors.append(first.interactions.stderr_between(t1, t2, second.interactions))
        else:
            measured = [risk.interactions is not None for _, risk in sides]
            shared = [float(risk.shared_error[t]) for t, risk in sides]
            # of similar models, estimated errors are nearly the same
            same = sum(measured) == 0
            errors += [math.sqrt(abs(shared[0] ** 2 - shared[1] ** 2))] if same else shared
        difference = float(first.values[t1] - second.values[t2])
    return difference, math.hypot(*map(float, errors))
