"""The numerics use the array API standard and nothing else: NumPy and array-api-strict agree."""

import array_api_strict
import numpy as np
import pytest

import steinpath as sp
from problems import ALGORITHM_EXAMPLES, LOSS_EXAMPLES, PENALTY_EXAMPLES, draw, handles

LOSSES = pytest.mark.parametrize("loss", LOSS_EXAMPLES.values(), ids=LOSS_EXAMPLES)


def namespaces(X, y, loss, penalty, algorithm, **options):
    """The same run in both namespaces."""
    strict = sp.run(
        array_api_strict.asarray(X),
        array_api_strict.asarray(y),
        loss,
        penalty,
        algorithm,
        **options,
    )
    return sp.run(X, y, loss, penalty, algorithm, **options), strict


@LOSSES
@pytest.mark.parametrize("name", PENALTY_EXAMPLES)
@pytest.mark.parametrize("fit_intercept", [False, True], ids=["plain", "intercept"])
def test_losses_and_penalties(loss, name, fit_intercept):
    X, y, model = draw(20, 9)
    options = {"n_iter": 5, "fit_intercept": fit_intercept}
    penalty = PENALTY_EXAMPLES[name](9)
    ours, strict = namespaces(X, y, loss, penalty, sp.ChambollePock(), **options)
    for attribute in ("coef", "dual", "fitted", "intercept", "objective"):
        found = getattr(strict, attribute)
        assert isinstance(found, type(strict.y))
        np.testing.assert_allclose(np.asarray(found), getattr(ours, attribute), atol=1e-12)
    for covariance in (None, model.covariance):
        first, second = (sp.estimate_risk(p, covariance=covariance) for p in (ours, strict))
        assert isinstance(second.values, type(strict.y))
        np.testing.assert_allclose(np.asarray(second.values), first.values, atol=1e-10)
        assert second.best_iter == first.best_iter


@pytest.mark.parametrize(
    ("loss", "algorithm"),
    [
        pytest.param(loss, algorithm, id=f"{a}-{b}")
        for a, loss in LOSS_EXAMPLES.items()
        for b, algorithm in ALGORITHM_EXAMPLES.items()
        if handles(algorithm, loss)
    ],
)
def test_algorithms_and_methods(loss, algorithm):
    X, y, _ = draw(20, 9)
    both = namespaces(X, y, loss, sp.Lasso(0.3), algorithm, n_iter=5)
    for method in ("exact", "hutchinson", "compressed", "loo"):
        for row_scale in (None, "norm"):
            first, second = (
                sp.estimate_risk(
                    path, method=method, row_scale=row_scale, rng=1, precision="float64"
                )
                for path in both
            )
            for attribute in ("values", "probe_stderr", "corrected"):
                found = np.asarray(getattr(second, attribute))
                np.testing.assert_allclose(found, getattr(first, attribute), atol=1e-9)


@pytest.mark.parametrize("loss", [sp.SquareRoot(), sp.Squared()], ids=repr)
@pytest.mark.parametrize("penalty", [sp.Ridge(0.3), sp.Lasso(0.3)], ids=repr)
@pytest.mark.parametrize("fit_intercept", [False, True], ids=["plain", "intercept"])
def test_reduced_coordinates(loss, penalty, fit_intercept):
    X, y, model = draw(40, 9)
    options = {"n_iter": 30, "fit_intercept": fit_intercept}
    both = namespaces(X, y, loss, penalty, sp.ChambollePock(), **options)
    method = "spectral" if penalty.isotropic else "compressed"
    for covariance in (None, model.covariance):
        first, second = (
            sp.estimate_risk(path, None, covariance, method, "norm", rng=1, precision="float64")
            for path in both
        )
        np.testing.assert_allclose(np.asarray(second.values), first.values, rtol=1e-8)


@LOSSES
@pytest.mark.parametrize("fit_intercept", [False, True], ids=["plain", "intercept"])
def test_lam_max(loss, fit_intercept):
    X, y, _ = draw(20, 9)
    expected = sp.lam_max(X, y, loss, sp.Lasso(1.0), fit_intercept)
    strict = (array_api_strict.asarray(a) for a in (X, y))
    assert sp.lam_max(*strict, loss, sp.Lasso(1.0), fit_intercept) == pytest.approx(expected)


def test_other_namespaces_are_not_mixed():
    X, y, _ = draw(20, 9)
    strict = array_api_strict.asarray(y)
    with pytest.raises(TypeError, match="give both in the same array library, or in NumPy"):
        sp.run(X, strict, sp.LAD(), sp.Lasso(0.1))
    path = sp.run(array_api_strict.asarray(X), y, sp.LAD(), sp.Lasso(0.1), n_iter=2)
    assert isinstance(path.y, type(strict))
