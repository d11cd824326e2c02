"""What a report says, as plain data."""

from __future__ import annotations

from dataclasses import dataclass

from steinpath.app.coefficient_intervals import FitIntervals
from steinpath.app.encoding import ColumnSummary
from steinpath.app.fitting import Ranked
from steinpath.risk._diagnostics import Diagnostic


@dataclass(frozen=True)
class ClassCurve:
    """A curve of one class against the rest, of rows that were left out.

    Attributes
    ----------
    name : str
        The class.
    x, y : tuple of float
        Its points.
    stderr : tuple of float
        Standard errors of `y`, if they are known.
    area : float
        What is under it, of an ROC curve.
    """

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    stderr: tuple[float, ...] = ()
    area: float = 0.0


@dataclass(frozen=True)
class ClassContent:
    """What a report says of classes.

    Attributes
    ----------
    labels : tuple of str
        The classes.
    confusion : tuple of tuple of int
        Number of left-out rows of each class (first axis) that each class was predicted for.
    models : tuple of tuple of str
        Of several classes, for each: its name, alpha, iterate, number of coefficients that are not
        zero, and expected test loss.
    main : str
        Of several classes, the one that curves and coefficients are about.
    roc, reliability : tuple of ClassCurve
        Curves for each class; of two, for the second. Only log-odds have a reliability curve.
    """

    labels: tuple[str, ...]
    confusion: tuple[tuple[int, ...], ...]
    models: tuple[tuple[str, ...], ...]
    main: str
    roc: tuple[ClassCurve, ...]
    reliability: tuple[ClassCurve, ...]


@dataclass(frozen=True)
class Charts:
    """The numbers behind the interactive curves.

    Attributes
    ----------
    test_loss : str
        What an error is, such as "absolute error".
    penalty : str
        Name of the penalty, such as "lasso".
    alphas : tuple of float
        Regularisation strengths that were tried, the largest first.
    iterates : tuple of int
        Iterates that are shown, increasing from 0: all of them, or some of very many.
    risk, stderr, train : tuple of tuple of float
        Estimated risk, its standard error and the training error, for each alpha and iterate.
    nonzeros : tuple of tuple of int
        Number of coefficients that are not zero, likewise.
    chosen : tuple of int
        Index of the chosen alpha, and the *index* in `iterates` of the chosen iterate.
    coefficient_names : tuple of str
        The features whose coefficients are largest on the path of the chosen alpha.
    coefficients : tuple of tuple of float
        Their coefficients on that path, one tuple for each of `iterates`: change of the prediction
        per standard deviation of the feature.
    raw, corrected : tuple of float
        Residuals of some rows at the chosen iterate: in sample, and with corrected fitted values;
        none of classes.
    at_the_choice : str
        How the curve at the chosen iterate compares with the risk of the chosen model.
    left_out_by : str
        What the models were without the rows that they predict: "fitted", or also "chosen".
    actual, predicted : tuple of float
        The target of some rows that were left out, and their predictions.
    quantiles : tuple of float
        Of the residuals of all rows that were left out: at 5, 25, 50, 75 and 95 percent.
    left_out_rows : int
        How many rows were left out.
    classes : ClassContent, optional
        What there is of classes, instead of residuals.
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
    """A feature of the chosen model.

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
    """Everything that a report says.

    Attributes
    ----------
    title : str
        Such as "price, from houses.csv".
    verdict : str
        The result in a sentence or two.
    facts : tuple of (str, str)
        Key figures: what, and how much.
    warnings : tuple of str
        Reasons not to trust the estimate, in plain words; the most important part if there are any.
    assumptions : tuple of str
        What the estimate rests on, in plain words.
    checks : tuple of Diagnostic
        What was checked of that.
    columns : tuple of ColumnSummary
        The data; of very many columns, some.
    notes : tuple of str
        What was done to them: columns left out, values filled in.
    intercept : float
        Of the chosen model.
    coefficients : tuple of Coefficient
        Of the chosen model, those that are not zero, the largest effect first; of very many, some.
    ranking : tuple of Ranked
        Several losses and penalties, the best first; empty for a single one.
    charts : Charts
        The numbers behind the curves.
    command : str
        What to type to get the same again.
    provenance : tuple of (str, str)
        Versions, date, seed and the like.
    unlisted_columns, unlisted_coefficients : int, default=0
        How many more there are.
    intervals : FitIntervals, optional
        Confidence intervals for the coefficients.
    """

    title: str
    verdict: str
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
