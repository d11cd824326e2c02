"""The ratio of step sizes, given or searched for."""

import numpy as np
import pytest
from scipy import sparse

import steinpath as sp
from backends import OTHERS
from problems import Products, draw
from steinpath.engine._run import RATIOS

SEARCHES = [
    sp.ChambollePock(ratio="auto"),
    sp.HalpernPDHG(ratio="auto"),
    sp.LinearizedADMM(ratio="auto"),
]
KINDS = pytest.mark.parametrize("kind", [type(each) for each in SEARCHES])
ALGORITHMS = pytest.mark.parametrize("algorithm", SEARCHES, ids=lambda each: type(each).__name__)


LAD, LASSO = sp.LAD(), sp.Lasso(0.1)


def used(X, y, algorithm, loss=LAD, penalty=LASSO, **options):
    """The algorithm with the steps that it takes."""
    return sp.run(X, y, loss, penalty, algorithm, n_iter=1, **options).algorithm


def factors(n=200, p=30, own=0.1):
    """Columns that are mixtures of three factors."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 3)) @ rng.standard_normal((3, p)) + own * rng.standard_normal(
        (n, p)
    )
    return X, X @ rng.standard_normal(p) + rng.standard_normal(n)


# ------------------------------------------------------------------------------------------------
# A number
# ------------------------------------------------------------------------------------------------


@KINDS
@pytest.mark.parametrize("ratio", [0.01, 0.5, 7])
def test_a_number_multiplies_the_dual_step_and_divides_the_primal_one(kind, ratio):
    X, y, _ = draw(80, 50)
    plain, scaled = used(X, y, kind()), used(X, y, kind(ratio=ratio))
    dual, primal = kind.steps
    assert getattr(scaled, dual) == pytest.approx(ratio * getattr(plain, dual))
    assert getattr(scaled, primal) == pytest.approx(getattr(plain, primal) / ratio)


@KINDS
@pytest.mark.parametrize("ratio", [0.01, "auto"])
@pytest.mark.parametrize("which", [0, 1])
def test_it_is_not_used_where_a_step_is_given(kind, ratio, which):
    X, y, _ = draw(80, 50)
    given = {kind.steps[which]: 0.3}
    expected, found = used(X, y, kind(**given)), used(X, y, kind(**given, ratio=ratio))
    assert [getattr(found, s) for s in kind.steps] == [getattr(expected, s) for s in kind.steps]


@KINDS
@pytest.mark.parametrize(
    "ratio", [0, -1, float("nan"), float("inf"), "best", "", None, [1.0], True]
)
def test_impossible_ratios_are_refused(kind, ratio):
    with pytest.raises((ValueError, TypeError), match="ratio must be a"):
        kind(ratio=ratio)


# ------------------------------------------------------------------------------------------------
# The search
# ------------------------------------------------------------------------------------------------


@ALGORITHMS
@pytest.mark.parametrize("loss", [sp.LAD(), sp.SquareRoot(), sp.Huber()], ids=repr)
def test_equal_steps_where_columns_are_independent(algorithm, loss):
    X, y, _ = draw(300, 100)
    lam = 0.1 * sp.lam_max(X, y, loss, sp.Lasso(1.0))
    assert 0.3 <= used(X, y, algorithm, loss, sp.Lasso(lam)).ratio <= 3.2


@ALGORITHMS
@pytest.mark.parametrize("loss", [sp.LAD(), sp.SquareRoot(), sp.Huber()], ids=repr)
def test_small_ratios_where_columns_are_collinear(algorithm, loss):
    X, y = factors()
    penalty = sp.Lasso(0.003 * sp.lam_max(X, y, loss, sp.Lasso(1.0)))
    found = used(X, y, algorithm, loss, penalty)
    assert found.ratio in RATIOS
    assert found.ratio < 1
    searched, plain = (
        sp.run(X, y, loss, penalty, each, n_iter=100).objective[-1]
        for each in (algorithm, type(algorithm)())
    )
    assert searched < plain


@ALGORITHMS
def test_the_run_is_that_with_the_ratio_it_found(algorithm):
    X, y = factors()
    found = sp.run(X, y, sp.LAD(), sp.Lasso(0.1), algorithm, n_iter=20)
    kind = type(algorithm)
    again = sp.run(X, y, sp.LAD(), sp.Lasso(0.1), kind(ratio=found.algorithm.ratio), n_iter=20)
    np.testing.assert_array_equal(found.coef, again.coef)
    assert found.algorithm == again.algorithm


@ALGORITHMS
@pytest.mark.parametrize("loss", [sp.LAD(), sp.SquareRoot(), sp.Quantile(0.3)], ids=repr)
@pytest.mark.parametrize("fit_intercept", [False, True], ids=["plain", "intercept"])
def test_units_do_not_matter(algorithm, loss, fit_intercept):
    X, y = factors()
    options = {"fit_intercept": fit_intercept}
    lam = 0.01 * sp.lam_max(X, y, loss, sp.Lasso(1.0))
    expected = used(X, y, algorithm, loss, sp.Lasso(lam), **options).ratio
    assert used(X, 1e6 * y, algorithm, loss, sp.Lasso(lam), **options).ratio == expected
    small = sp.Lasso(1e-3 * lam)
    assert used(1e-3 * X, y, algorithm, loss, small, **options).ratio == expected


@ALGORITHMS
def test_a_usual_ratio_where_there_is_nothing_to_go_by(algorithm):
    X, y, _ = draw(30, 5)
    usual = pytest.approx(10**-0.5)
    assert used(X, y, algorithm, penalty=sp.Lasso(1e4)).ratio == usual
    assert used(X, 0 * y, algorithm).ratio == usual
    assert used(0 * X, y, algorithm).ratio == usual


@ALGORITHMS
@pytest.mark.parametrize("penalty", [sp.MCP(0.1, gamma=1.5), sp.SCAD(0.1, a=2.5)], ids=repr)
@pytest.mark.parametrize("scale", [1e-6, 1.0])
def test_steps_stay_where_proximal_maps_are_single_valued(algorithm, penalty, scale):
    X, y, _ = draw(60, 20)
    path = sp.run(scale * X, y, sp.LAD(), penalty, algorithm, n_iter=3)
    assert path.algorithm.prox_step(path.design.rows) < penalty.max_step
    # also where members differ in what they allow
    other = type(penalty)(0.2, 6.0)
    batch = sp.run_batch(scale * X, y, sp.LAD(), [other, penalty], algorithm, n_iter=3)
    assert batch.algorithm.prox_step(path.design.rows) < penalty.max_step


@ALGORITHMS
def test_one_ratio_for_all_members(algorithm):
    """That of the smallest and the middle penalty; of several responses, that of the first."""
    X, y = factors()
    small, large = sp.Lasso(0.01), sp.Lasso(100.0)
    for penalties in ([small, small, large], [large, small, small]):
        batch = sp.run_batch(X, y, sp.LAD(), penalties, algorithm, n_iter=1)
        assert batch.algorithm.ratio == used(X, y, algorithm, penalty=small).ratio
    batch = sp.run_batch(X, np.stack([y, y[::-1]]), sp.LAD(), small, algorithm, n_iter=1)
    assert batch.algorithm.ratio == used(X, y, algorithm, penalty=small).ratio
    both = np.stack([X, X[::-1]])
    batch = sp.run_batch(both, np.stack([y, y]), sp.LAD(), small, algorithm, n_iter=1)
    assert batch.algorithm.ratio == used(X, y, algorithm, penalty=small).ratio


@ALGORITHMS
def test_the_ratio_with_sample_weights_is_that_of_repeated_rows(algorithm):
    X, y = factors()
    counts = np.arange(len(y)) % 3 + 1
    again, larger = np.repeat(np.arange(len(y)), counts), sp.Lasso(0.05 * np.sqrt(counts.mean()))
    weighted = used(X, y, algorithm, penalty=sp.Lasso(0.05), sample_weight=counts)
    assert weighted.ratio == used(X[again], y[again], algorithm, penalty=larger).ratio


@ALGORITHMS
@pytest.mark.parametrize("fit_intercept", [False, True], ids=["plain", "intercept"])
def test_sparse_matrices_and_designs_of_the_users_own(algorithm, fit_intercept):
    X, y = factors()
    X = X * (np.abs(X) > 1)
    expected = used(X, y, algorithm, fit_intercept=fit_intercept).ratio
    assert used(sparse.csr_array(X), y, algorithm, fit_intercept=fit_intercept).ratio == expected
    if not fit_intercept:
        assert used(Products(X), y, algorithm).ratio == expected


@ALGORITHMS
@pytest.mark.parametrize("backend", OTHERS, ids=str)
def test_other_array_libraries_and_precisions(algorithm, backend):
    X, y = factors()
    expected = used(X, y, algorithm, fit_intercept=True).ratio
    X, y = map(backend.asarray, (X, y))
    path = sp.run(X, y, sp.LAD(), sp.Lasso(0.1), algorithm, 5, fit_intercept=True)
    assert path.algorithm.ratio == expected
    backend.assert_own(path.coef)
