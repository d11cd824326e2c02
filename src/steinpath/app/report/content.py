"""The content of a report, as plain data."""

from __future__ import annotations

from dataclasses import dataclass

from steinpath.app.coefficient_intervals import FitIntervals
from steinpath.app.encoding import ColumnSummary
from steinpath.app.fitting import Ranked
from steinpath.risk._diagnostics import Diagnostic


@dataclass(frozen=True)
class ClassCurve:
    """A curve of one class against the rest, from out-of-fold predictions.

    Attributes
    ----------
    name : str
        The class.
    x, y : tuple of float
        The points.
    stderr : tuple of float
        Standard errors of `y`, if available.
    area : float
        Area under an ROC curve.
    """

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    stderr: tuple[float, ...] = ()
    area: float = 0.0


@dataclass(frozen=True)
class ClassContent:
    """The part of a report that is specific to classification.

    Attributes
    ----------
    labels : tuple of str
        The classes.
    confusion : tuple of tuple of int
        Confusion matrix of the out-of-fold predictions; the first axis is the actual class.
    models : tuple of tuple of str
        For more than two classes, for each: name, alpha, iteration, number of nonzero
        coefficients, and expected scoring loss.
    main : str
        For more than two classes, the class whose curves and coefficients are shown.
    roc, reliability : tuple of ClassCurve
        Curves for each class; for two classes, for the second. Only the logistic loss has
        reliability curves.
    """

    labels: tuple[str, ...]
    confusion: tuple[tuple[int, ...], ...]
    models: tuple[tuple[str, ...], ...]
    main: str
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
    """The numbers of the charts.

    Attributes
    ----------
    test_loss : str
        Name of the scoring loss, such as "absolute error".
    penalty : str
        Name of the penalty, such as "lasso".
    alphas : tuple of float
        Values of alpha on the grid, in decreasing order.
    iterates : tuple of int
        Iterations shown, increasing from 0: all, or a subset of very many.
    risk, stderr, train : tuple of tuple of float
        Estimated risk, its standard error and the training error, for each alpha and iteration.
    nonzeros : tuple of tuple of int
        Number of nonzero coefficients for each alpha and iteration.
    chosen : tuple of int
        Index of the selected alpha, and the *index* in `iterates` of the selected iteration.
    coefficient_names : tuple of str
        The features with the largest coefficients on the path of the selected alpha.
    coefficients : tuple of tuple of float
        Their coefficients on that path, one tuple for each of `iterates`, per standard deviation
        of the feature.
    raw, corrected : tuple of float
        Training residuals and corrected residuals of some rows at the selected iteration; empty
        for classification.
    at_the_choice : str
        How the curve at the selected iteration compares with the risk adjusted for selection.
    left_out_by : str
        What was done without the held-out rows: "fitted", or "fitted and selected".
    actual, predicted : tuple of float
        Target and out-of-fold predictions of some rows.
    quantiles : tuple of float
        Quantiles of all out-of-fold residuals at 5, 25, 50, 75 and 95 percent.
    left_out_rows : int
        Number of rows with out-of-fold predictions.
    classes : ClassContent, optional
        For classification, in place of residuals.
    """

    test_loss: str
    penalty: str
    alphas: tuple[float, ...]
    iterates: tuple[int, ...]
    risk: tuple[tuple[float, ...], ...]
    stderr: tuple[tuple[float, ...], ...]
    train: tuple[tuple[float, ...], ...]
    nonzeros: tuple[tuple[int, ...], ...]
    chosen: tuple[int, int]
    coefficient_names: tuple[str, ...]
    coefficients: tuple[tuple[float, ...], ...]
    raw: tuple[float, ...] = ()
    corrected: tuple[float, ...] = ()
    at_the_choice: str = ""
    left_out_by: str = "fitted"
    actual: tuple[float, ...] = ()
    predicted: tuple[float, ...] = ()
    quantiles: tuple[float, ...] = ()
    left_out_rows: int = 0
    classes: ClassContent | None = None


@dataclass(frozen=True)
class Coefficient:
    """A feature of the selected model.

    Attributes
    ----------
    name : str
        The feature.
    value : float
        Change of the prediction per unit of the feature.
    effect : float
        The same per standard deviation of the feature.
    """

    name: str
    value: float
    effect: float


@dataclass(frozen=True)
class Content:
    """The content of a report.

    Attributes
    ----------
    title : str
        Target and file.
    verdict : str
        The expected error and the improvement over a constant prediction, in a sentence.
    model : str
        The selected model, in a sentence or two.
    facts : tuple of (str, str)
        Key figures: name and value.
    warnings : tuple of str
        Reasons not to trust the estimate, each with its remedy.
    assumptions : tuple of str
        Assumptions of the estimate.
    checks : tuple of Diagnostic
        The checks of these assumptions.
    columns : tuple of ColumnSummary
        How each column is used; a subset of very many columns.
    notes : tuple of str
        Changes to the data, such as dropped columns and imputed values.
    intercept : float
        Intercept of the selected model.
    coefficients : tuple of Coefficient
        Nonzero coefficients of the selected model, the largest effect first; a subset of very
        many.
    ranking : tuple of Ranked
        The models compared, the best first; empty for a single one.
    charts : Charts
        The numbers of the charts.
    command : str
        The command that produces the same report.
    provenance : tuple of (str, str)
        Versions, seed and methods.
    unlisted_columns, unlisted_coefficients : int, default=0
        Number of columns and coefficients that are not listed.
    intervals : FitIntervals, optional
        Confidence intervals for the coefficients.
    widths : tuple of (float, float), optional
        Levels of prediction intervals and their average width, as far as known. None if the model
        has no prediction intervals.
    caption : str
        Meaning of the coefficients of categories; empty if there are none.
    """

    title: str
    verdict: str
    model: str
    facts: tuple[tuple[str, str], ...]
    warnings: tuple[str, ...]
    assumptions: tuple[str, ...]
    checks: tuple[Diagnostic, ...]
    columns: tuple[ColumnSummary, ...]
    notes: tuple[str, ...]
    intercept: float
    coefficients: tuple[Coefficient, ...]
    ranking: tuple[Ranked, ...]
    charts: Charts
    command: str
    provenance: tuple[tuple[str, str], ...]
    unlisted_columns: int = 0
    unlisted_coefficients: int = 0
    intervals: FitIntervals | None = None
    widths: tuple[tuple[float, float], ...] | None = None
    caption: str = ""
