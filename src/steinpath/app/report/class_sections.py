"""The parts of the page about classes."""

from __future__ import annotations

from steinpath.app.report.content import Charts, ClassContent
from steinpath.app.report.markup import Markup, Node, chart, section, table, tag


def left_out_classes(charts: Charts) -> Markup | None:
    """Return the confusion matrix and the curves of rows that were left out."""
    found = charts.classes
    if found is None:
        return None
    lead = (
        f"Each row as it was predicted by a model that was {charts.left_out_by} without it. New "
        "rows can be expected to look like this."
    )
    head = ("Actual class", *(f"#Predicted {label}" for label in found.labels), "#Right")
    rows = [
        (label, *(f"{count:,}" for count in counts), _share(counts[k], sum(counts)))
        for k, (label, counts) in enumerate(zip(found.labels, found.confusion, strict=True))
    ]
    curves: list[Node] = [tag("div", _roc(found))]
    if found.reliability:
        curves.append(tag("div", _reliability(found)))
    return section(
        "left-out",
        "Predictions of rows left out",
        lead,
        tag("h3", "Confusion matrix"),
        table("Confusion matrix", head, rows),
        tag("div", curves, class_="two"),
    )


def _share(count: int, of: int) -> str:
    return f"{100 * count / of:.0f}%" if of else "–"


def _roc(found: ClassContent) -> list[Node]:
    areas = "; ".join(f"{curve.name} {curve.area:.3f}" for curve in found.roc)
    text = (
        "For every threshold of the decision value: the share of rows of the class above it, over "
        "that of all other rows. On the diagonal, nothing is told apart."
    )
    return [
        tag("h3", "ROC curve"),
        tag("p", text, class_="quiet"),
        chart("roc"),
        tag("p", f"Area under the curve (AUC): {areas}", class_="quiet", id="roc-areas"),
    ]


def _reliability(found: ClassContent) -> list[Node]:
    text = (
        "Rows in bins by the probability that was predicted for them: the share that is of the "
        "class, with ± 2 standard errors. On the diagonal, probabilities are right."
    )
    return [tag("h3", "Reliability curve"), tag("p", text, class_="quiet"), chart("reliability")]


def models_of_classes(charts: Charts) -> Markup | None:
    """Return what was chosen for each of several classes against the rest."""
    found = charts.classes
    if found is None or not found.models:
        return None
    lead = (
        "Each class has a model of its own, against the rest, and the largest decision value "
        f"decides. The curves and the coefficients below are those of {found.main!r}, which has "
        "the largest estimated risk; model.json has all."
    )
    head = ("Class", "#Alpha", "#Iterate", "#Non-zeros", f"#Expected {charts.test_loss}")
    return section("classes", "One model for each class", lead, table("Models", head, found.models))
