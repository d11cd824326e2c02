"""What a report says, as plain data."""

from __future__ import annotations

from dataclasses import dataclass

from steinpath.app.encoding import ColumnSummary
from steinpath.app.fitting import Ranked
from steinpath.risk._diagnostics import Diagnostic


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
        Residuals of some rows at the chosen iterate: in sample, and with corrected fitted values.
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
    raw: tuple[float, ...]
    corrected: tuple[float, ...]
    at_the_choice: str = ""
    left_out_by: str = "fitted"
    actual: tuple[float, ...] = ()
    predicted: tuple[float, ...] = ()
    quantiles: tuple[float, ...] = ()
    left_out_rows: int = 0


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
