"""Leaving rows out: every path without some rows is that of a run on the others alone."""

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    LeaveOneOut,
)

from backends import everywhere, on_backend, sp
from problems import (
    ALGORITHM_EXAMPLES,
    LOSS_EXAMPLES,
    PENALTY_EXAMPLES,
    draw,
    draw_for,
    handles,
    responses,
    ridge_hat,
)
from small_paths import plain_losses
from steinpath.engine._batch import Batch
from steinpath.problem import _scoring as scoring
from steinpath.risk import _leave_out as baselines
from steinpath.risk import _splits

cross_validate, leave_one_out = map(on_backend, (baselines.cross_validate, baselines.leave_one_out))
batch_of, random_folds = map(on_backend, (Batch.of, _splits.random_folds))
resolve_test_loss = on_backend(scoring.resolve_test_loss)

PROBLEMS = pytest.mark.parametrize(
    ("loss", "penalty", "algorithm"),
    [
        pytest.param(loss, penalty, sp.ChambollePock(), id=f"{a}-{b}")
        for a, loss in LOSS_EXAMPLES.items()
        for b, penalty in PENALTY_EXAMPLES.items()
    ]
    + [
        pytest.param(loss, PENALTY_EXAMPLES["lasso"], algorithm, id=f"{a}-{b}")
        for a, loss in LOSS_EXAMPLES.items()
        for b, algorithm in ALGORITHM_EXAMPLES.items()
        if handles(algorithm, loss) and algorithm != sp.ChambollePock()
    ],
)
# The same step sizes on fewer rows may be a little beyond the limit: no matter here.
SAME_STEPS = pytest.mark.filterwarnings("ignore:.*may diverge")


def safe(algorithm, share):
    """An algorithm with steps for a share of the rows; a recursion has none that could be known."""
    return algorithm.on_fewer_rows(share) if hasattr(algorithm, "on_fewer_rows") else algorithm


def by_leaving_one_out(X, path):
    """What a run to which a row is zero predicts for it, one row after the other."""
    found = []
    for i, row in enumerate(X):
        kept = np.arange(len(X)) != i
        y = np.where(kept, path.y, 1.0 * path.loss.margin)  # no label is zero
        problem = X * kept[:, None], y, path.loss, path.penalty, path.algorithm, path.n_iter
        found.append(sp.run(*problem).coef @ row)
    return np.stack(found, axis=1)


def folds_of(path, n_folds, seed):
    """Random folds of a path's rows."""
    splits = random_folds(batch_of(path), n_folds, np.random.default_rng(seed))
    return splits._replace(test=splits.test.astype(int))  # not an array of the backend


def averaging():
    """Clipped descent that remembers all residuals and two past states."""
    return sp.Recursion(
        dual=lambda t, u, v: -np.clip(sum(v) / t, -0.15, 0.15) + 0.2 * u[max(t - 3, 0)],
        primal=lambda t, b, eta: b[-1] + 0.3 * (b[-1] - b[max(t - 2, 0)]) - 0.5 * eta[-1],
        dual_jvp=lambda *_: None,
        primal_jvp=lambda *_: None,
    )


# ----- Leave-one-out -----


@everywhere(every=17)
@PROBLEMS
@pytest.mark.parametrize("shape", [(12, 7), (7, 12)], ids=["tall", "wide"])
def test_leaving_a_row_out_is_a_run_whose_row_is_zero(loss, penalty, algorithm, shape):
    X, y, _ = draw_for(loss, *shape)
    path = sp.run(X, y, loss, penalty(shape[1]), algorithm, n_iter=8)
    found = leave_one_out(path, width=5)  # several batches, the last one incomplete
    np.testing.assert_allclose(found, by_leaving_one_out(X, path), atol=1e-10)
    assert not np.allclose(found, path.fitted, atol=1e-3)


@everywhere
def test_recursions_that_move_a_zero_residual():
    """Descent on a tilted loss, written out without the row in plain NumPy."""
    X, y, _ = draw(12, 7)
    tilted = sp.Recursion(
        dual=lambda t, u, v: -np.clip(v[-1], -0.1, 0.1) - 0.05,
        primal=lambda t, b, eta: b[-1] - 0.5 * eta[-1],
        dual_jvp=lambda *_: None,
        primal_jvp=lambda *_: None,
    )
    found = leave_one_out(sp.run(X, y, sp.Huber(), sp.NoPenalty(), tilted, n_iter=6))
    for i in range(12):
        X_rest, y_rest, b = np.delete(X, i, axis=0), np.delete(y, i), np.zeros(7)
        for t in range(7):
            assert found[t, i] == pytest.approx(X[i] @ b, abs=1e-12)
            u = -np.clip((y_rest - X_rest @ b) / np.sqrt(12), -0.1, 0.1) - 0.05
            b = b - 0.5 * X_rest.T @ u / np.sqrt(12)


@pytest.mark.parametrize("fit_intercept", [False, True], ids=["plain", "intercept"])
def test_ridge_has_a_closed_form(fit_intercept):
    """Leave-one-out residuals are ``r_i / (1 - h_i)`` with the leverages of the hat matrix."""
    n, p, lam = 40, 10, 0.8
    X, y, _ = draw(n, p)
    X, y = X + 1.0, y + 3.0
    path = sp.run(X, y, sp.Squared(), sp.Ridge(lam), n_iter=800, fit_intercept=fit_intercept)
    hat = ridge_hat(X, lam, fit_intercept)
    expected = (y - hat @ y) / (1 - np.diag(hat))
    np.testing.assert_allclose(path.response - leave_one_out(path)[-1], expected, atol=1e-8)


@pytest.mark.parametrize("loss", [sp.LAD(), sp.Huber(), sp.SquareRoot()], ids=repr)
def test_corrected_values_are_close_to_leave_one_out(loss):
    X, y = sp.simulate.paper_model(30, "t2", mean=2.0, intercept=3.0).sample(150, rng=0)
    path = sp.run(X, y, loss, sp.Lasso(0.2), n_iter=15, fit_intercept=True)
    exact, loo = (sp.estimate_risk(path, "absolute", method=m) for m in ("exact", "loo"))
    np.testing.assert_allclose(exact.values, loo.values, atol=0.03)
    assert (loo.values - loo.train)[5:].min() > 0.1
    distance = np.abs(exact.corrected - loo.corrected).mean()
    assert distance < np.abs(path.fitted - loo.corrected).mean() / 3


# ----- Cross-validation -----


@everywhere(every=7)
@SAME_STEPS
@PROBLEMS
def test_folds_are_runs_on_their_training_rows(loss, penalty, algorithm):
    X, y, _ = draw_for(loss, 17, 9)
    path = sp.run(X, y, loss, penalty(9), algorithm, n_iter=8)
    for criterion in (resolve_test_loss(None, loss), plain_losses):
        (found,) = cross_validate(batch_of(path), [criterion], folds_of(path, 5, seed=1))
        predictions, error = np.full((9, 17), np.nan), np.zeros(9)
        for left_out in folds_of(path, 5, seed=1).test.T > 0:
            assert left_out.sum() in (3, 4)
            fitted = refit(X, path, ~left_out)
            predictions[:, left_out] = fitted[:, left_out]
            error += left_out.mean() * criterion(y, fitted).mean(axis=1)
        train, tested = (criterion(y, z).mean(axis=1) for z in (path.fitted, predictions))
        optimism = np.sqrt(np.clip(train / tested, 0, 1)) * (train - error)
        np.testing.assert_allclose(path.above_level(found.predictions), predictions, atol=1e-10)
        np.testing.assert_allclose(found.optimism, optimism, atol=1e-10)
        assert (np.abs(optimism[3:]) > 1e-5).all()


@pytest.mark.parametrize("fit_intercept", [False, True], ids=["plain", "intercept"])
def test_single_precision_is_close(fit_intercept):
    X, y, _ = draw(40, 20)
    path = sp.run(X, y, sp.LAD(), sp.Lasso(0.3), n_iter=20, fit_intercept=fit_intercept)
    criterion = resolve_test_loss("absolute")
    results = []
    for design in (None, path.design.astype(np.float32)):
        (folds,) = cross_validate(batch_of(path), [criterion], folds_of(path, 6, 0), design)
        left_out = leave_one_out(path, design=design)
        results.append((left_out, folds.predictions, folds.optimism))
    for expected, found in zip(*results, strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-4)
        assert np.abs(found - expected).max() > 0
        assert found.dtype == np.float64


# ----- Refits -----

REFITS = [
    pytest.param(loss, penalty, sp.ChambollePock(), id=f"{name}-{penalty.name}")
    for name, loss in LOSS_EXAMPLES.items()
    for penalty in (sp.Lasso, sp.Ridge)
] + [
    pytest.param(LOSS_EXAMPLES["huber"], sp.Lasso, sp.FISTA(), id="huber-lasso-fista"),
    *(
        pytest.param(LOSS_EXAMPLES[name], sp.Lasso, sp.LinearizedADMM(), id=f"{name}-lasso-admm")
        for name in ("lad", "square_root", "huber")
    ),
]
refits = pytest.mark.parametrize(("loss", "penalty", "algorithm"), REFITS)
INTERCEPT = pytest.mark.parametrize("fit_intercept", [False, True], ids=["plain", "intercept"])


def far_from_zero(n=23, p=6):
    """Columns of different sizes with large means, and a response with one."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, p)) * np.linspace(0.5, 3, p) + 30 * rng.standard_normal(p)
    return X, (X - X.mean(axis=0)) @ rng.standard_normal(p) + rng.standard_t(3, n) + 50


def refit(X, path, rows, algorithm=None, penalty=None):
    """What a user's own run on some rows alone, with safe step sizes, predicts for all rows."""
    algorithm = algorithm or safe(path.algorithm, len(X[rows]) / len(X))
    penalty = penalty or path.penalty
    run = sp.run(
        *(X[rows], path.y[rows], path.loss, penalty, algorithm, path.n_iter),
        fit_intercept=path.fit_intercept,
    )
    return run.coef @ X.T + run.intercept[:, None]


def of_fewer_rows(path, penalty, kept):
    """Step sizes and a penalty that do to fewer rows what the path's do when rows are left out.

    Leaving out changes no scale, while a run on ``kept`` rows divides ``X'u`` by their number, and
    the losses but for the square root's, which is a norm, by its square root.
    """
    share, algorithm = kept / path.n_samples, path.algorithm
    root = np.sqrt(share)
    if path.loss.name == "square_root":
        steps = {"sigma": root, "tau": root, "rho": share, "alpha": 1.0}
        lam = path.penalty.lam
    else:
        steps = {"sigma": 1.0, "tau": share, "rho": root, "alpha": root, "step": share}
        lam = path.penalty.lam / root
    names = [name for name in steps if getattr(algorithm, name, None) is not None]
    known = {name: steps[name] * getattr(algorithm, name) for name in names}
    kind = type(getattr(algorithm, "inner", algorithm))
    return kind(**known), penalty(lam)


@everywhere(every=9)
@SAME_STEPS
@refits
@INTERCEPT
def test_folds_equal_refits(loss, penalty, algorithm, fit_intercept):
    X, y = far_from_zero()
    y = responses(loss, y)
    path = sp.run(X, y, loss, penalty(0.3), algorithm, n_iter=20, fit_intercept=fit_intercept)
    expected = np.full((21, 23), np.nan)
    for train, test in KFold(5).split(X):
        expected[:, test] = refit(X, path, train)[:, test]
    found = sp.cross_validate_path(path, KFold(5), "absolute")
    np.testing.assert_allclose(found.values, np.abs(y - expected).mean(axis=1), atol=1e-9)
    # the folds of the risk estimate are random
    for left_out in folds_of(path, 10, seed=3).test.T > 0:
        expected[:, left_out] = refit(X, path, ~left_out)[:, left_out]
    risk = sp.estimate_risk(path, "absolute", method="folds", rng=3)
    np.testing.assert_allclose(risk.corrected, expected, atol=1e-9)
    assert not np.allclose(risk.corrected, path.fitted, atol=0.03)


@everywhere(every=9)
@SAME_STEPS
@refits
@INTERCEPT
def test_leaving_one_out_equals_refits(loss, penalty, algorithm, fit_intercept):
    X, y = far_from_zero()
    y = responses(loss, y)
    path = sp.run(X, y, loss, penalty(0.3), algorithm, n_iter=20, fit_intercept=fit_intercept)
    same = of_fewer_rows(path, penalty, 22)
    rows = np.arange(23)
    expected = np.stack([refit(X, path, rows != i, *same)[:, i] for i in rows], axis=1)
    losses = np.abs(y - expected).mean(axis=1)
    np.testing.assert_allclose(sp.leave_one_out_path(path, "absolute").values, losses, atol=1e-9)
    risk = sp.estimate_risk(path, "absolute", method="loo")
    np.testing.assert_allclose(risk.corrected, expected, atol=1e-9)
    np.testing.assert_allclose(risk.values, losses, atol=1e-9)
    assert not np.allclose(risk.corrected, path.fitted, atol=0.03)


@everywhere
@pytest.mark.parametrize("method", ["loo", "folds"])
def test_without_the_only_row_of_a_column_there_is_the_mean(method):
    X, y = np.zeros((30, 1)), np.random.default_rng(0).standard_normal(30) + 3
    X[5] = 1.0
    path = sp.run(X, y, sp.Squared(), sp.Lasso(0.1), n_iter=200, fit_intercept=True)
    risk = sp.estimate_risk(path, method=method, rng=0)
    others = np.arange(30) != 5
    if method == "folds":
        (others,) = (train for train in folds_of(path, 10, seed=0).train.T if not train[5])
    assert risk.corrected[-1, 5] == pytest.approx(y[others].mean(), abs=1e-6)


# ----- As risk estimates -----


@pytest.mark.parametrize("fit_intercept", [False, True], ids=["plain", "intercept"])
def test_folds_do_not_depend_on_the_order_of_the_rows(fit_intercept):
    X, y, _ = draw(23, 9)
    X[3:6], y[3:6] = X[3], y[3]  # nor on that of equal ones
    order = np.random.default_rng(0).permutation(23)
    first, second = (
        sp.estimate_risk(
            sp.run(
                *(X[rows], y[rows], sp.LAD(), sp.Lasso(0.3), sp.ChambollePock(0.3, 0.3), 8),
                fit_intercept=fit_intercept,
            ),
            method="folds",
            rng=0,
        )
        for rows in (np.arange(23), order)
    )
    np.testing.assert_allclose(second.values, first.values, rtol=1e-9)


@pytest.mark.parametrize(
    "options", [{}, {"method": "loo"}, {"method": "exact", "audit": 32}], ids=str
)
def test_a_single_observation_is_predicted_from_nothing(options):
    path = sp.run([[1.0, 2.0]], [3.0], sp.LAD(), sp.Lasso(0.1), n_iter=3)
    risk = sp.estimate_risk(path, **options)
    np.testing.assert_allclose(risk.values, 3.0, rtol=1e-12)
    assert np.isinf(risk.stderr).all()
    for folds in ({"method": "folds"}, {"method": "exact", "audit": "folds"}):
        with pytest.raises(ValueError, match="at least two observations"):
            sp.estimate_risk(path, **folds)


def test_folds_refuse_steps_too_long_for_fewer_rows():
    X, y = sp.simulate.paper_model(10, "normal").sample(50, rng=0)
    tau = 2.45 * np.sqrt(50)
    sigma = 50 / (tau * np.linalg.norm(X, 2) ** 2)
    path = sp.run(X, y, sp.LAD(), sp.MCP(0.3, gamma=2.5), sp.ChambollePock(sigma, tau), n_iter=3)
    with pytest.raises(ValueError, match="single-valued only for steps below"):
        sp.estimate_risk(path, method="folds")


# ----- As a user calls them -----

N = 17


@everywhere
def test_a_number_of_folds():
    X, y, _ = draw(N, 9)
    path = sp.run(X, y, sp.LAD(), sp.Lasso(0.3), n_iter=8)
    first, again, other, generator = (
        sp.cross_validate_path(path, 4, rng=rng).values
        for rng in (0, 0, 1, np.random.default_rng(0))
    )
    np.testing.assert_array_equal(first, again)
    np.testing.assert_array_equal(first, generator)
    assert not np.allclose(first[1:], other[1:])
    # each row is tested once, whatever the number
    for folds in (2, 5, np.int64(6)):
        found = sp.cross_validate_path(path, folds, lambda y, _: y**2, rng=0)
        np.testing.assert_allclose(found.values, np.mean(y**2))
        assert found.n_splits == folds
    ours, theirs = (sp.cross_validate_path(path, cv, rng=0).values for cv in (N, LeaveOneOut()))
    np.testing.assert_allclose(ours, theirs, atol=1e-12)


@everywhere
@pytest.mark.parametrize("loss", LOSS_EXAMPLES.values(), ids=LOSS_EXAMPLES)
@pytest.mark.parametrize("fit_intercept", [False, True], ids=["plain", "intercept"])
def test_leaving_every_row_out_is_a_method_of_estimate_risk(loss, fit_intercept):
    X, y, _ = draw_for(loss, N, 9)
    path = sp.run(X, y, loss, sp.Lasso(0.3), n_iter=8, fit_intercept=fit_intercept)
    for test_loss in (None, "pseudo_huber", plain_losses):
        found = sp.leave_one_out_path(path, test_loss)
        risk = sp.estimate_risk(path, test_loss, method="loo")
        np.testing.assert_allclose(found.values, risk.values, rtol=1e-13)
        losses = resolve_test_loss(test_loss, loss)(y, risk.corrected)
        np.testing.assert_allclose(found.stderr, losses.std(axis=1, ddof=1) / np.sqrt(N))
        assert (found.n_splits, found.best_iter) == (N, risk.best_iter)


@everywhere
@SAME_STEPS
@pytest.mark.parametrize("size", [0.25, 0.5, 1, 6])
def test_holding_out(size):
    X, y, _ = draw(N, 9)
    path = sp.run(X, y, sp.LAD(), sp.Lasso(0.3), n_iter=8)
    m = int(np.ceil(size * N)) if isinstance(size, float) else size
    chosen = set()
    for seed in range(4):
        marks = sp.hold_out_path(path, size, lambda y, _: 2.0 ** np.arange(N), rng=seed)
        code = round(m * marks.values[0])  # binary digits tell the rows
        test = [i for i in range(N) if code >> i & 1]
        assert len(test) == m
        train = np.setdiff1d(np.arange(N), test)
        found = sp.hold_out_path(path, size, "squared", rng=seed)
        losses = (y - refit(X, path, train))[:, test] ** 2
        np.testing.assert_allclose(found.values, losses.mean(axis=1), atol=1e-10)
        if m > 1:
            stderr = losses.std(axis=1, ddof=1) / np.sqrt(m)
            np.testing.assert_allclose(found.stderr, stderr, atol=1e-10)
        else:
            assert np.isinf(found.stderr).all()
        assert found.n_splits == 1
        chosen.add(tuple(test))
    assert len(chosen) > 1


@everywhere
def test_validations_are_arrays():
    X, y, _ = draw(N, 9)
    path = sp.run(X, y, sp.LAD(), sp.Lasso(0.3), n_iter=8)
    found = sp.cross_validate_path(path, KFold(4))
    np.testing.assert_array_equal(np.asarray(found), found.values)
    assert np.asarray(found, dtype=np.float32).dtype == np.float32
    assert np.shape(found) == found.shape == (9,)
    assert np.argmin(found) == found.best_iter
    copied = np.array(found, copy=True)
    copied[:] = 0
    assert found.values.min() > 0


@everywhere
def test_validation_of_recursions():
    X, y, _ = draw(12, 7)
    path = sp.run(X, y, sp.Huber(), sp.NoPenalty(), averaging(), n_iter=12)
    expected = by_leaving_one_out(X, path)
    np.testing.assert_allclose(leave_one_out(path), expected, atol=1e-12)
    assert not np.allclose(expected, path.fitted, atol=1e-2)
    expected = resolve_test_loss(sp.Huber())(y, expected).mean(axis=1)
    np.testing.assert_allclose(sp.leave_one_out_path(path).values, expected, atol=1e-12)
    np.testing.assert_allclose(sp.estimate_risk(path, method="loo").values, expected, atol=1e-12)
    for refuses in (sp.cross_validate_path, sp.hold_out_path):
        with pytest.raises(ValueError, match="support a Recursion; use leave_one_out_path"):
            refuses(path)
    with pytest.raises(ValueError, match="does not support a Recursion; use method='loo'"):
        sp.estimate_risk(path, method="folds")


def test_other_arguments_that_are_refused():
    X, y, _ = draw(N, 9)
    path = sp.run(X, y, sp.LAD(), sp.Lasso(0.3), n_iter=3)
    for validate in (sp.cross_validate_path, sp.leave_one_out_path, sp.hold_out_path):
        with pytest.raises(TypeError, match="path must be a Path"):
            validate(X)
        with pytest.raises(ValueError, match="test_loss must be one of"):
            validate(path, test_loss="quadratic")
        with pytest.raises(ValueError, match="test_loss must return one number per observation"):
            validate(path, test_loss=lambda y, z: 1.0)
        with pytest.raises(ValueError, match="NaN or infinite"):
            validate(path, test_loss=lambda y, z: 0 * y + np.nan)
    with pytest.raises(TypeError, match="burman must be True or False"):
        sp.cross_validate_path(path, burman=1)
    wrong = 0, 0.0, 1.0, N, -1, "half", np.nan, None, [1], np.inf, 1e308, True, 10**400
    for size in wrong:
        with pytest.raises(ValueError, match="test_size"):
            sp.hold_out_path(path, size)
    for validate in (sp.cross_validate_path, sp.hold_out_path):
        with pytest.raises(TypeError, match="rng must be None"):
            validate(path, rng="seed")


class Bootstrap:
    """A splitter of the user's own, which draws rows with replacement."""

    def split(self, X, y=None, groups=None):
        rng = np.random.default_rng(0)
        for _ in range(3):
            trained = rng.integers(0, len(X), len(X))
            yield trained, np.setdiff1d(np.arange(len(X)), trained)

    def get_n_splits(self, X=None, y=None, groups=None):
        return 3


def used_up():
    """A generator that has given its splits before."""
    splits = iter([(np.arange(12), np.arange(12, N))])
    next(splits)
    return splits


@pytest.mark.parametrize(
    ("cv", "message"),
    [
        (1, "cv must be at least 2, got 1"),
        (N + 1, "cv must be at most 17, got 18"),
        (True, "cv must be an integer"),
        (None, "cv must be a number of folds"),
        (5.0, "cv must be a number of folds"),
        ("five", "cv must be a number of folds, a scikit-learn splitter"),
        ([], "cv must have splits"),
        ([([], [1])], "at least one training row and one test row"),
        ([([1], [])], "at least one training row and one test row"),
        ([([1, 2], [N])], "indices from 0 to 16"),
        ([([1, N], [3])], "indices from 0 to 16"),
        ([([1, 2], [-1])], "indices from 0 to 16"),
        (GroupKFold(3), "groups"),
        (Bootstrap(), "split 0 of cv trains on row 10 more than once"),
        ([([1, 2], [3]), ([4, 5, 4], [6])], "split 1 of cv trains on row 4 more than once"),
        ([([1, 2], [2])], "common training and test rows"),
        (used_up(), "cv must have splits"),
        (Bootstrap, "cv is the class Bootstrap; pass an instance"),
        ([(np.arange(3), np.arange(3, 6), [7])], "cv must yield pairs of arrays"),
        ([np.arange(12)], "cv must yield pairs of arrays"),
        ([1, 2], "cv must yield pairs of arrays"),
        ({0: 1}, "cv must yield pairs of arrays"),
        (np.arange(4).reshape(2, 2), "cv must yield indices"),
        ([(np.arange(12.0), [13])], "cv must yield indices"),
        ([(np.ones(5, dtype=bool), [13])], "cv must yield indices"),
        ([(np.ma.masked_less(np.arange(12), 3), [13])], "cv must yield indices"),
        ([([[1], [2]], [3])], "cv must yield indices"),
        ([(["a"], ["b"])], "cv must hold real numbers"),
        ([([2**63], [1])], "cv must yield indices"),
        ([(None, None)], "cv must yield indices"),
        ([([[1, 2], [3]], [4])], "cv cannot be read as an array"),
    ],
)
def test_splits_that_are_refused(cv, message):
    X, y, _ = draw(N, 9)
    path = sp.run(X, y, sp.LAD(), sp.Lasso(0.3), n_iter=3)
    with pytest.raises((TypeError, ValueError), match=message):
        sp.cross_validate_path(path, cv)


def test_splits_of_every_kind_of_index():
    X, y, _ = draw(N, 9)
    path = sp.run(X, y, sp.LAD(), sp.Lasso(0.3), n_iter=8)
    train, test = np.arange(12), np.arange(12, N)
    expected = sp.cross_validate_path(path, [(train, test)]).values
    mask = np.arange(N) < 12
    for pair in (
        [train.tolist(), test.tolist()],
        (range(12), range(12, N)),
        (train[::-1], test[::-1]),
        (train.astype(np.uint64), test.astype(np.int8)),
        (mask, ~mask),
        (mask.tolist(), test),
        (pd.Series(train), pd.Series(test)),
        (torch.tensor(train), torch.tensor(test)),
    ):
        for cv in ([pair], (pair,), iter([pair])):
            np.testing.assert_allclose(sp.cross_validate_path(path, cv).values, expected)
    # a row that is tested twice counts twice
    doubled = sp.cross_validate_path(path, [(train, np.tile(test, 2))])
    np.testing.assert_allclose(doubled.values, expected)
