"""The benchmark of tuned models: its arithmetic, and that all methods run."""

import math
import warnings

import numpy as np
import pytest
from scipy import stats
from sklearn.linear_model import Lasso
from sklearn.model_selection import KFold

from benchmarks.accuracy import choice


def test_summary_by_hand():
    records = [
        {"seconds": 1.0, "truth": 2.0, "estimate": 1.5, "stderr": 0.25, "covered": 0.9, "width": 3},
        {"seconds": 9.0, "truth": 4.0, "estimate": 4.3, "stderr": 0.1, "covered": 0.8, "width": 5},
        {"seconds": 2.0, "truth": 3.0, "estimate": 2.9, "stderr": 0.1, "covered": 1.0, "width": 4},
    ]
    found = choice.summary(records)
    assert found["seconds"] == 2
    assert found["truth"] == 3
    assert found["bias"] == pytest.approx((1.5 + 4.3 + 2.9) / 9 - 1)
    assert found["bias_stderr"] == pytest.approx(stats.sem([-0.5, 0.3, -0.1]) / 3)
    assert found["covers"] == pytest.approx(2 / 3)
    assert found["interval_covers"] == pytest.approx(0.9)
    assert found["interval_covers_stderr"] == pytest.approx(0.1 / math.sqrt(3))
    assert found["width"] == 4
    line = choice.line(choice.CASES[0], 3, "estimator", found)
    cells = ["LAD–lasso 120 × 60", "3", "LADLasso", "2.00", "3.000", "-3.3 ± 7.7%", "67%"]
    assert line == f"| {' | '.join([*cells, '90.0 ± 5.8%', '4.00'])} |"
    alone = [{"seconds": 1.0, "truth": 2.0} for _ in records]
    assert choice.line(choice.CASES[3], 3, "nested", choice.summary(alone)).count(" – ") == 4
    assert choice.HEAD.splitlines()[0].count("|") == line.count("|")


def test_nested_cross_validation_is_what_its_name_says():
    case = choice.Case("square_root", 40, 4, sets=2)
    X, y = case.model.sample(40, rng=0)
    found = choice.nested(case, X, y, 7)
    alphas = np.geomspace(1.0, 0.01, 10)

    def fitted(rows, alpha):
        mean, scale = X[rows].mean(axis=0), X[rows].std(axis=0)
        model = Lasso(alpha=alpha, max_iter=10_000).fit((X[rows] - mean) / scale, y[rows])
        return lambda new: model.predict((new - mean) / scale)

    def chosen(rows):
        errors = np.zeros(10)
        for inside, outside in KFold(5, shuffle=True, random_state=7).split(rows):
            for k, alpha in enumerate(alphas):
                predict = fitted(rows[inside], alpha)
                test = rows[outside]
                errors[k] += np.mean((y[test] - predict(X[test])) ** 2) / 5
        return fitted(rows, alphas[errors.argmin()])

    scores = []
    for train, test in KFold(10, shuffle=True, random_state=8).split(X):
        scores.append(np.mean((y[test] - chosen(train)(X[test])) ** 2))
    assert found.error == pytest.approx((np.mean(scores), stats.sem(scores)))
    np.testing.assert_allclose(found.predict(X), chosen(np.arange(40))(X))


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["lad", "square_root"])
def test_all_methods_run_on_the_same_data(loss):
    pytest.importorskip("mapie")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # as the benchmark does
        found = choice.data_set(choice.Case(loss, 40, 4, sets=2), 0)
    assert list(found) == list(choice.METHODS)
    for name, record in found.items():
        assert record["seconds"] > 0
        assert ("estimate" in record) == ("MAPIE" not in name)
        assert ("covered" in record) == ("nested" not in name and "smallest" not in name)
        assert 0.6 < record.get("covered", 0.9) <= 1
        if "estimate" in record:
            assert abs(record["estimate"] - record["truth"]) < 5 * record["stderr"]
    truths = [record["truth"] for record in found.values()]
    assert max(truths) < 1.3 * min(truths)
