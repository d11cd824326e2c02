"""The content of the report of a fit."""

import numpy as np
import pytest

import steinpath as sp
from steinpath.app.classes import fit_classes
from steinpath.app.encoding import encode
from steinpath.app.fitting import Fit, fit_model, prepare_data
from steinpath.app.model_spec import ModelSpec
from steinpath.app.report.build import build_content
from steinpath.app.report.page import render
from steinpath.app.tables import as_table


def columns(n=80, p=4):
    X, y = sp.simulate.paper_model(p, noise="t3").sample(n, rng=0)
    return {**{f"x{j}": X[:, j] for j in range(p)}, "y": y}


def fit(found=None):
    table = columns() if found is None else found
    data = prepare_data(encode(as_table(table), "y"), n_iter=20, n_alphas=3)
    return fit_model(data, ModelSpec.from_names("lad", "lasso", table["y"]))


def classified(k, penalty="lasso"):
    table = columns(120)
    table["y"] = np.digitize(table["y"], np.quantile(table["y"], np.arange(1, k) / k))
    table["y"] = [f"class {code}" for code in table["y"]]
    data = prepare_data(encode(as_table(table), "y"), n_iter=20, n_alphas=3)
    return fit_classes(data, ModelSpec.from_names("logistic", penalty, np.zeros(2)))


def content_of(found):
    return build_content(found, file="f.csv", command="c", seed=0)


def test_widths_are_averages_over_the_rows():
    found = fit()
    content = content_of(found)
    assert [level for level, _ in content.widths] == [0.5, 0.8, 0.9, 0.95]
    widths = [width for _, width in content.widths]
    assert widths == sorted(widths)
    low, high = found.intervals.interval(found.data.encoded.X, 0.9).T
    assert dict(content.widths)[0.9] == pytest.approx(np.mean(high - low))


def test_few_rows_have_no_intervals_of_high_levels():
    few = {name: values[:12] for name, values in columns().items()}
    assert [level for level, _ in content_of(fit(few)).widths] == [0.5, 0.8, 0.9]


def test_models_without_prediction_intervals_have_no_section(monkeypatch):
    monkeypatch.setattr("steinpath.app.report.build.for_file", lambda _: None)
    content = content_of(fit())
    assert content.widths is None
    assert "prediction-intervals" not in render(content).split("<main>")[1]


@pytest.mark.parametrize(
    ("constant", "words"),
    [
        (4.0, "it is 50% below that of a constant prediction (4.00)."),
        (2.1, "it is 4.8% below that of a constant prediction (2.10)."),
        (1.6, "it is 25% above that of a constant prediction (1.60)."),
        (0.0, "compare it with that of a constant prediction (0.00)."),
    ],
)
def test_the_answer_is_compared_with_a_constant_prediction(constant, words, monkeypatch):
    found = fit()
    monkeypatch.setattr(Fit, "estimate", property(lambda self: (2.0, 0.15)))
    monkeypatch.setattr(Fit, "constant_risk", constant)
    verdict = content_of(found).verdict
    assert verdict.startswith(
        "On new rows like these, the expected absolute error is 2.00 ± 0.15 ("
    )
    assert verdict.endswith(words)


@pytest.mark.parametrize("k", [2, 3])
def test_classification_is_described(k):
    content = content_of(classified(k))
    assert content.verdict.startswith("On new rows like these, the expected misclassification rate")
    assert "of always predicting the most frequent class" in content.verdict
    assert content.widths is None
    one = "The selected model is iteration "
    several = "The model has one one-vs-rest classifier per class"
    assert content.model.startswith(one if k == 2 else several)
    assert "the logistic loss with a lasso penalty" in content.model
    titles = content.charts.classes.confusion_titles
    assert titles[1:-1] == [f"#Predicted class {code}" for code in range(k)]
    for row, counts in zip(
        content.charts.classes.confusion_rows, content.charts.classes.confusion, strict=True
    ):
        assert row[1:-1] == [str(count) for count in counts]


def test_models_without_a_penalty_are_described():
    content = content_of(classified(2, "none"))
    assert "the logistic loss without a penalty" in content.model


def test_the_same_fit_has_the_same_page():
    first, second = (render(content_of(fit())) for _ in range(2))
    assert first == second
