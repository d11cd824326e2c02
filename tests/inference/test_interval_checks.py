"""Each check of coefficient intervals speaks where it should, and only there."""

import numpy as np
import pytest

import steinpath as sp
from steinpath.inference._debias import Debiased
from steinpath.inference._estimate_intervals import check_intervals
from steinpath.inference._scores import known_scores

NAMES = (
    *("few rows", "not identified", "total response", "Monte Carlo error"),
    *("correlated scores", "dominant rows", "row norms"),
)


def drawn(n, p, seed=0, rho=0.3):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p)) @ np.linalg.cholesky(sp.simulate.toeplitz(p, rho)).T
    return X, X[:, 0] + rng.standard_normal(n)


def warning_names(found):
    return [each.name for each in found.diagnostics if each.warns]


def intervals(X, y, loss=None, n_iter=30, **options):
    path = sp.run(X, y, loss or sp.LAD(), sp.Lasso(0.2), n_iter=n_iter, fit_intercept=True)
    return sp.coefficient_intervals(path, rng=0, **options)


HOW = {
    "covariance": {"covariance": sp.simulate.toeplitz(60, 0.3)},
    "residuals": {"scores": "residuals"},
    "node-wise lasso": {"scores": "node-wise lasso"},
}


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("loss", [sp.LAD(), sp.SquareRoot(), sp.Huber(1.0)], ids=repr)
@pytest.mark.parametrize("row_scale", [None, "norm"])
def test_nothing_is_said_about_data_as_the_theory_has_them(how, loss, row_scale):
    found = intervals(*drawn(300, 60), loss, row_scale=row_scale, **HOW[how])
    assert found.warnings == ()
    names = [each.name for each in found.diagnostics]
    expected = [name for name in NAMES if name != "correlated scores" or how == "node-wise lasso"]
    assert names == expected
    assert all(each.meaning.endswith("?") for each in found.diagnostics)


@pytest.mark.parametrize("shape", [(40, 5), (60, 15), (100, 30), (200, 60)])
@pytest.mark.parametrize("loss", [sp.LAD(), sp.SquareRoot()], ids=repr)
def test_no_row_of_small_gaussian_data_is_said_to_decide(shape, loss):
    names = [warning_names(intervals(*drawn(*shape, seed), loss)) for seed in range(6)]
    assert not any("dominant rows" in each or "row norms" in each for each in names)


@pytest.mark.parametrize(
    ("shape", "options", "what"),
    [
        ((25, 4), {"scores": "node-wise lasso"}, "25 rows"),
        ((40, 4), {"scores": "node-wise lasso"}, None),
        ((45, 15), {"scores": "residuals"}, "29 degrees of freedom"),  # those that are left
        ((300, 10), {"groups": np.arange(300) % 12}, "12 groups"),
        ((300, 10), {"groups": np.arange(300) % 60}, None),
    ],
)
def test_few_rows(shape, options, what):
    found = intervals(*drawn(*shape), **options)
    assert ("few rows" in warning_names(found)) == (what is not None)
    if what is not None:
        message = f"with {what} the normal approximation is inaccurate"
        assert message in " ".join(found.warnings)


def test_columns_that_are_not_identified_are_named():
    for constant, start in (
        (slice(7), "7 coefficients are not identified (columns 0, 1, 2, 3, 4, …)"),
        (3, "1 coefficient is not identified (columns 3)"),
    ):
        X, y = drawn(200, 12)
        X[:, constant] = 1.0
        (message,) = intervals(X, y).warnings
        assert message.startswith(start)


def test_correlated_scores():
    """Where many columns explain each of them a little."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 40)) @ rng.standard_normal((40, 150))
    X += rng.normal(0, 0.02, X.shape)
    y = X[:, 0] + rng.standard_normal(200)
    found = intervals(X, y, sp.SquareRoot())
    assert "correlated scores" in warning_names(found)
    (message,) = [each for each in found.warnings if "still correlated" in each]
    assert "of 150 columns" in message
    (value,) = [each.value for each in found.diagnostics if each.name == "correlated scores"]
    assert value == pytest.approx(float(message.split("up to ")[1][:4]), abs=0.01)
    covariance = np.eye(150)
    assert "correlated scores" not in warning_names(intervals(X, y, covariance=covariance))


def test_columns_that_neighbours_explain_are_fine():
    X, y = drawn(100, 80, rho=0.97)
    assert "correlated scores" not in warning_names(intervals(X, y, sp.SquareRoot()))


@pytest.mark.parametrize("rows", [1, 20])
def test_rows_that_decide_an_interval(rows):
    X, y = drawn(200, 12)
    X[:, 5] = 0.0
    X[:rows, 5] = 1.0
    found = intervals(X, y, sp.SquareRoot())
    assert ("dominant rows" in warning_names(found)) == (rows == 1)
    if rows == 1:
        (message,) = [each for each in found.warnings if "a single row" in each]
        assert "(1 of 12 columns checked are affected, such as 5," in message


def test_unequal_row_norms():
    rng = np.random.default_rng(0)
    X, _ = drawn(300, 60)
    X *= np.sqrt(1 / rng.chisquare(3, 300))[:, None]
    y = 3 * X[:, 0] + 3 * X[:, 30] + 0.3 * rng.standard_normal(300)
    found = intervals(X, y, sp.SquareRoot(), t=1, scores="node-wise lasso")
    (message,) = [each for each in found.warnings if "row norms" in each]
    assert message.endswith("use row_scale='norm'")
    allowed_for = intervals(X, y, sp.SquareRoot(), t=1, scores="node-wise lasso", row_scale="norm")
    (message,) = [each for each in allowed_for.warnings if "row norms" in each]
    assert "depend on few rows" in message
    moderate = intervals(*drawn(300, 60), sp.SquareRoot(), row_scale=rng.uniform(0.3, 1.5, 300))
    assert "row norms" not in warning_names(moderate)


def checked(**changes):
    """Checks of estimates that are nobody's, with nothing wrong but the changes."""
    X, y = drawn(100, 3)
    path = sp.run(X, y, sp.LAD(), sp.Lasso(0.1), n_iter=4)
    scores = known_scores(path, np.eye(3), None, np.arange(3), None)
    fields = {
        "t": 3,
        "estimate": np.ones(3),
        "stderr": np.ones(3),
        "second": np.zeros(3),
        "noise": np.full(3, 0.1),
        "total": 5.0,
        "doubt": 0.1,
        "relative_width": np.array([np.inf, 3, 2, 1, 1.5]),
    }
    debiased = Debiased(**fields | changes)
    checks = check_intervals(scores, debiased, debiased.stderr, None)
    return {check.name: check for check in checks if check.warns}


def widths(*values):
    return {"relative_width": np.array([np.inf, *values])}


def noisy(size):
    """Monte Carlo errors of this size where there are standard errors."""
    return {"noise": np.array([size, size, 100]), "stderr": np.array([1, 1, np.inf])}


NO_RESPONSE = widths(0, 0, 1, 0) | {"total": 0.0, "doubt": np.inf, "stderr": np.full(3, np.inf)}
THRESHOLDS = [
    ({}, None, ""),
    (widths(3, 0.51, 1, np.nan), None, ""),
    (widths(3, 0.49, 1, np.nan), "total response", "iteration 3 is near zero"),
    ({"doubt": 0.32}, None, ""),
    ({"doubt": 0.35}, "total response", "uncertain (relative standard error 35%)"),
    (NO_RESPONSE, "total response", "near zero"),
    (noisy(0.24), None, ""),
    (noisy(0.26), "Monte Carlo error", "is 26% of the standard errors"),
]


@pytest.mark.parametrize(("changes", "name", "message"), THRESHOLDS)
def test_thresholds(changes, name, message):
    warning = checked(**changes)
    assert list(warning) == ([] if name is None else [name])
    if name is not None:
        assert message in warning[name].message


def test_late_iterates_of_small_data_are_uncertain():
    """Where the theory ends: T fixed, n large."""
    X, y = drawn(60, 40)
    path = sp.run(X, y, sp.LAD(), sp.Lasso(0.05), n_iter=400)
    found = sp.coefficient_intervals(path, 400, covariance=sp.simulate.toeplitz(40, 0.3), rng=0)
    assert "total response" in warning_names(found)
