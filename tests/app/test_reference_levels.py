"""Reported coefficients are relative to reference levels, and predict as the model does."""

import numpy as np
import pytest

from steinpath.app.encoding import Column, Encoding, encode
from steinpath.app.fitting import fit_model, prepare_data
from steinpath.app.model_spec import ModelSpec
from steinpath.app.reference_levels import report_coefficients
from steinpath.app.report.build import build_content
from steinpath.app.tables import as_table

ENCODING = Encoding(
    "y",
    (
        Column("x", "number"),
        Column("town", "category", ("A", "B", "C")),
        Column("garden", "binary", ("no", "yes")),
        Column("kind", "category", ("u", "(other)")),
    ),
)


def test_coefficients_are_differences_from_the_most_frequent_level():
    coef, scale = np.array([2.0, 5.0, 7.0, 0.0, 3.0, -1.0, 4.0]), np.arange(1.0, 8.0)
    found = report_coefficients(ENCODING, coef * scale, scale, 10.0)
    assert found.names == ["x", "town=B", "town=C", "garden=yes", "kind=(other)"]
    assert found.coef.tolist() == [2.0, 2.0, -5.0, 3.0, 5.0]
    assert found.effects.tolist() == [2.0, 6.0, -20.0, 15.0, 35.0]
    assert found.intercept == 14.0
    assert found.nonzeros == 5
    assert found.caption == (
        "coefficients of a category are differences from its most frequent level ('town=A', "
        "'kind=u')"
    )
    assert coef[1] == 5.0  # of the model, unchanged


def test_without_categories_coefficients_are_those_of_the_model():
    encoding = Encoding("y", (Column("x", "number"), Column("z", "binary", ("a", "b"))))
    found = report_coefficients(encoding, np.array([2.0, 3.0]), np.ones(2), 1.0)
    assert (found.coef.tolist(), found.intercept) == ([2.0, 3.0], 1.0)
    assert (found.references, found.caption) == ([], "")


@pytest.mark.parametrize("penalty", ["lasso", "none"])
def test_predictions_are_those_of_the_model(penalty):
    rng = np.random.default_rng(0)
    x, town = rng.standard_normal(80), rng.choice(["A", "B", "C"], 80, p=[0.6, 0.2, 0.2])
    y = x + 3.0 * (town == "B") + 0.1 * rng.standard_normal(80)
    data = prepare_data(encode(as_table({"x": x, "town": town, "y": y}), "y"), 60, 3)
    fit = fit_model(data, ModelSpec.from_names("lad", penalty, y))
    found, X = fit.reported, fit.data.encoded.X
    assert found.references == ["town=A"]
    kept = [0, 2, 3]
    np.testing.assert_allclose(
        X[:, kept] @ found.coef + found.intercept, X @ fit.coef + fit.intercept, atol=1e-10
    )
    content = build_content(fit, file="f", command="c", seed=0)
    reported = {each.name: each.value for each in content.coefficients}
    assert reported == {
        name: value for name, value in zip(found.names, found.coef, strict=True) if value
    }
    assert content.intercept == found.intercept
