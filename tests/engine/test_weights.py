"""Rows that count unequally: as good as repeated rows, and minima of the weighted objective."""

from dataclasses import dataclass

import numpy as np
import pytest

from backends import everywhere, sp
from problems import PENALTY_EXAMPLES, SOME_LOSSES, draw, responses
from steinpath.problem._penalties import Penalty

INTERCEPT = pytest.mark.parametrize("intercept", [False, True], ids=["plain", "intercept"])
LOSSES = pytest.mark.parametrize("loss", SOME_LOSSES.values(), ids=SOME_LOSSES)
LAD = sp.LAD()
CHAMBOLLE_POCK = sp.ChambollePock()
FRACTIONS = np.random.default_rng(1).uniform(0.1, 3, 40)


@dataclass(frozen=True, eq=False)
class Times(Penalty):
    """A penalty times a factor."""

    penalty: Penalty
    factor: float

    def value(self, b):
        return self.factor * self.penalty.value(b)

    def prox(self, b, step):
        return self.penalty.prox(b, self.factor * step)

    def jacobian(self, b, step):
        raise NotImplementedError

    def null_lam(self, gradient):
        raise NotImplementedError

    @property
    def max_step(self):
        return self.penalty.max_step / self.factor


def problem(n, p, seed=0, loss=LAD):
    X, y, _ = draw(n, p, seed)
    counts = np.random.default_rng(seed).integers(1, 5, n)
    return X + np.linspace(-1, 1, p), responses(loss, y + 2.0), counts


# ------------------------------------------------------------------------------------------------
# Copies
# ------------------------------------------------------------------------------------------------


def assert_counts_are_copies(X, y, counts, loss, penalty, algorithm=CHAMBOLLE_POCK, **how):
    """``lam`` goes with the root of the number of rows, so that of the copies is larger."""
    factor = float(np.sqrt(counts.mean()))
    every = np.repeat(np.arange(len(y)), counts)
    weighted = sp.run(X, y, loss, penalty, algorithm, 20, sample_weight=counts, **how)
    copied = sp.run(X[every], y[every], loss, Times(penalty, factor), algorithm, 20, **how)
    for name, found in (
        ("coef", weighted.coef),
        ("intercept", weighted.intercept),
        ("fitted", weighted.fitted[:, every]),
        ("objective", factor * weighted.objective),
    ):
        wanted = getattr(copied, name)
        np.testing.assert_allclose(found, wanted, atol=1e-10, rtol=1e-10, err_msg=name)
    plain = sp.run(X, y, loss, penalty, algorithm, 20, **how)
    assert not np.allclose(plain.coef, weighted.coef, atol=1e-3)


@everywhere(every=13)
@LOSSES
@pytest.mark.parametrize("name", PENALTY_EXAMPLES)
@INTERCEPT
def test_counts_are_copies(loss, name, intercept):
    for shape in ((15, 7), (7, 15)):
        penalty = PENALTY_EXAMPLES[name](shape[1])
        assert_counts_are_copies(
            *problem(*shape, loss=loss), loss, penalty, fit_intercept=intercept
        )


@LOSSES
@pytest.mark.parametrize("dtype", [np.float64, np.float32], ids=["double", "single"])
def test_intercepts_start_where_those_of_copies_do(loss, dtype):
    """Also where the minimum is not unique, which happens often with counts."""
    rng = np.random.default_rng(0)
    for _ in range(60):
        n = int(rng.integers(4 if loss.margin else 3, 12))
        y, counts = rng.standard_normal(n).astype(dtype), rng.integers(1, 4, n)
        y = responses(loss, y)
        start = [
            sp.run(np.ones((len(y), 1), dtype), y, loss, sp.Lasso(1.0), n_iter=1, **how)
            for y, how in (
                (y, {"fit_intercept": True, "sample_weight": counts}),
                (np.repeat(y, counts), {"fit_intercept": True}),
            )
        ]
        weighted, copied = (float(path.intercept[0]) for path in start)
        assert weighted == pytest.approx(copied, abs=100 * float(np.finfo(dtype).eps)), (y, counts)


# ------------------------------------------------------------------------------------------------
# Proportions
# ------------------------------------------------------------------------------------------------


@everywhere
@LOSSES
@INTERCEPT
def test_only_proportions_matter(loss, intercept):
    X, y, _ = problem(40, 6, loss=loss)
    how = {"n_iter": 20, "fit_intercept": intercept}
    for same in (
        [FRACTIONS, 7.3 * FRACTIONS, 1e-9 * FRACTIONS, 1e9 * FRACTIONS],
        [None, np.full(40, 0.3)],
    ):
        first, *others = (
            sp.run(X, y, loss, sp.Lasso(0.3), **how, sample_weight=weights) for weights in same
        )
        for path in others:
            for name in ("coef", "dual", "fitted", "intercept", "objective"):
                found, wanted = getattr(path, name), getattr(first, name)
                np.testing.assert_allclose(found, wanted, atol=1e-10)


# ------------------------------------------------------------------------------------------------
# What else a user may do
# ------------------------------------------------------------------------------------------------


def test_arrays_may_change_afterwards():
    X, y, counts = problem(15, 7)
    weights = counts / counts.mean()
    path = sp.run(X, y, sp.LAD(), sp.Lasso(0.3), n_iter=5, sample_weight=weights)
    again = sp.run(X, y, sp.LAD(), sp.Lasso(0.3), n_iter=5, sample_weight=weights.copy())
    expected = np.array(again.objective)
    weights[:], y[:] = 1.0, 0.0
    np.testing.assert_array_equal(path.objective, expected)


@everywhere(every=5)
@LOSSES
@INTERCEPT
def test_rows_of_weight_zero_do_not_count(loss, intercept):
    X, y, _ = problem(40, 6, loss=loss)
    weights = np.where(np.arange(40) % 4 == 1, 0.0, FRACTIONS)
    kept = weights > 0
    how = {"n_iter": 20, "fit_intercept": intercept}
    lam = 0.3 * np.sqrt(kept.mean())
    path = sp.run(X, y, loss, sp.Lasso(0.3), **how, sample_weight=weights)
    other = sp.run(X[kept], y[kept], loss, sp.Lasso(lam), **how, sample_weight=weights[kept])
    np.testing.assert_allclose(path.coef, other.coef, atol=1e-9)
    np.testing.assert_allclose(path.intercept, other.intercept, atol=1e-9)


@everywhere(every=5)
@LOSSES
@INTERCEPT
def test_risks(loss, intercept):
    X, y, _ = problem(40, 12, loss=loss)
    how = {"n_iter": 10, "fit_intercept": intercept, "sample_weight": FRACTIONS}
    path = sp.run(X, y, loss, sp.Lasso(0.2), **how)
    exact = sp.estimate_risk(path, method="exact").values
    found = sp.estimate_risk(path, method="compressed", n_probes=1000, rng=0).values
    np.testing.assert_allclose(found, exact, rtol=0.1)
    left_out = sp.estimate_risk(path, method="loo", audit=8, rng=0).values
    np.testing.assert_allclose(left_out, sp.leave_one_out_path(path).values, rtol=1e-6)


@everywhere(every=5)
@pytest.mark.parametrize("members", [1, 3])
def test_batches(members):
    X, y, _ = problem(40, 6)
    X, y = (np.stack([a + k for k in range(members)]) for a in (X, y))
    how = {"n_iter": 10, "fit_intercept": True, "sample_weight": FRACTIONS}
    batch = sp.run_batch(X, y, LAD, sp.Lasso(0.3), **how)
    for k, risk in enumerate(sp.estimate_risk_batch(batch, rng=[0] * members)):
        path = sp.run(X[k], y[k], LAD, sp.Lasso(0.3), batch[k].algorithm, **how)
        np.testing.assert_allclose(batch[k].coef, path.coef, atol=1e-10)
        expected = sp.estimate_risk(path, method="compressed", rng=0)
        np.testing.assert_allclose(risk.values, expected.values, rtol=1e-5)


@pytest.mark.parametrize(
    ("weights", "error", "message"),
    [
        ([1, 2, -1, 1], ValueError, r"must be nonnegative, but sample_weight\[2\] is -1"),
        ([0, 0, 0, 0], ValueError, "sample_weight is zero for all rows"),
        ([1, 2, 1], ValueError, "X has 4 rows, but sample_weight has 3 entries"),
        ([1, 2, 1, 3, 1], ValueError, "X has 4 rows, but sample_weight has 5 entries"),
        ([1, 2, np.nan, 1], ValueError, "sample_weight has 1 value that is NaN or infinite"),
        ([[1], [2], [1], [3]], ValueError, "sample_weight must have 1 dimension"),
        (2.0, ValueError, "sample_weight must have 1 dimension"),
        ([], ValueError, "sample_weight is empty"),
        (["a", "b", "c", "d"], TypeError, "sample_weight must hold real numbers"),
        ([1, 2, 1j, 1], TypeError, "sample_weight must be real"),
    ],
    ids=repr,
)
def test_bad_weights(weights, error, message):
    X, y, _ = problem(4, 2)
    with pytest.raises(error, match=message):
        sp.run(X, y, sp.LAD(), sp.Lasso(0.3), n_iter=2, sample_weight=weights)
