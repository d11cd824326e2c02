"""The content of a report, as plain data for the template."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from steinpath.app.fitted import Ranked
from steinpath.app.intervals import FitIntervals
from steinpath.risk._diagnostics import Diagnostic

Numbers = tuple[float, ...]


@dataclass(frozen=True)
class ClassCurve:
    """A curve of one class against the rest, from out-of-fold predictions."""

    name: str
    x: Numbers
    y: Numbers
    #: Standard errors of y, and the area under an ROC curve, if available.
    stderr: Numbers = ()
    area: float = 0.0


@dataclass(frozen=True)
class ClassContent:
    """The part of a report that is specific to classification."""

    labels: tuple[str, ...]
    #: Confusion matrix of the out-of-fold predictions; the first axis is the actual class.
    confusion: tuple[Numbers, ...]
    #: For more than two classes: name, alpha, iteration, nonzero coefficients and expected loss of
    #: each, and the one whose curves and coefficients are shown.
    models: tuple[tuple[str, ...], ...]
    main: str
    #: For each class, for two classes of the second; reliability only with probabilities.
    roc: tuple[ClassCurve, ...]
    reliability: tuple[ClassCurve, ...]

    @property
    def confusion_titles(self) -> list[str]:
        """Titles of the columns of the confusion matrix."""
        return ["Actual class", *(f"#Predicted {label}" for label in self.labels), "#Correct"]

    @property
    def confusion_rows(self) -> list[list[str]]:
        """Rows of the confusion matrix: class, counts, and share of correct predictions."""
        rows = []
        for k, (label, counts) in enumerate(zip(self.labels, self.confusion, strict=True)):
            total = sum(counts)
            correct = f"{100 * counts[k] / total:.0f}%" if total else "–"
            rows.append([label, *(f"{count:,}" for count in counts), correct])
        return rows


@dataclass(frozen=True)
class Charts:
    """The numbers of the charts."""

    #: Names of the scoring loss and of the penalty.
    test_loss: str
    penalty: str
    #: In decreasing order; and the iterations shown, all or some of very many.
    alphas: Numbers
    iterates: tuple[int, ...]
    #: For each alpha and iteration.
    risk: tuple[Numbers, ...]
    stderr: tuple[Numbers, ...]
    train: tuple[Numbers, ...]
    nonzeros: tuple[tuple[int, ...], ...]
    #: Index of the selected alpha, and index in `iterates` of the selected iteration.
    chosen: tuple[int, int]
    #: The largest coefficients on the path of the selected alpha, per standard deviation of the
    #: feature, for each of `iterates`.
    coefficient_names: tuple[str, ...]
    coefficients: tuple[Numbers, ...]
    #: Training and corrected residuals of some rows at the selected iteration.
    raw: Numbers = ()
    corrected: Numbers = ()
    #: How the curve at the selected iteration compares with the risk adjusted for selection.
    at_the_choice: str = ""
    #: What was done without the held-out rows: "fitted", or "fitted and selected".
    left_out_by: str = "fitted"
    #: Target and out-of-fold predictions of some rows, and quantiles of all residuals.
    actual: Numbers = ()
    predicted: Numbers = ()
    quantiles: Numbers = ()
    left_out_rows: int = 0
    classes: ClassContent | None = None


@dataclass(frozen=True)
class Coefficient:
    """A feature of the selected model: its coefficient per unit and per standard deviation."""

    name: str
    value: float
    effect: float


@dataclass(frozen=True)
class Content:
    """The content of a report."""

    title: str
    #: The expected error and the improvement over a constant prediction; the selected model.
    verdict: str
    model: str
    facts: tuple[tuple[str, str], ...]
    warnings: tuple[str, ...]
    assumptions: tuple[str, ...]
    checks: tuple[Diagnostic, ...]
    #: How each column is used (`ColumnSummary`), and changes to the data.
    columns: tuple[Any, ...]
    notes: tuple[str, ...]
    intercept: float
    #: Nonzero coefficients, the largest effect first; some of very many.
    coefficients: tuple[Coefficient, ...]
    ranking: tuple[Ranked, ...]
    charts: Charts
    #: The command, or lines of Python, that produce the same report; versions, seed and methods.
    command: str
    provenance: tuple[tuple[str, str], ...]
    unlisted_columns: int = 0
    unlisted_coefficients: int = 0
    intervals: FitIntervals | None = None
    #: Levels of prediction intervals and their average width, as far as known; None without any.
    widths: tuple[tuple[float, float], ...] | None = None
    #: Meaning of the coefficients of categories.
    caption: str = ""
    #: Lines of Python for prediction intervals; the command by default.
    predict: str = ""
