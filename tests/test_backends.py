"""The numerics use the array API standard and nothing else: all libraries find the same numbers.

In double precision to ten digits, in single precision to three; each in arrays of its own.
"""

from collections import Counter

import array_api_strict
import numpy as np
import pytest
import torch

import steinpath as sp
from backends import OTHERS
from problems import (
    ALGORITHM_EXAMPLES,
    PENALTY_EXAMPLES,
    SOME_LOSSES,
    Products,
    draw,
    draw_for,
    handles,
)
from steinpath.problem._scoring import CRITERIA
from steinpath.risk._methods import METHODS

LAD = sp.LAD()
EVERY_BACKEND = pytest.mark.parametrize("backend", OTHERS, ids=str)
EVERY_LOSS = pytest.mark.parametrize("loss", SOME_LOSSES.values(), ids=SOME_LOSSES)
INTERCEPT = pytest.mark.parametrize("fit_intercept", [False, True], ids=["plain", "intercept"])
PATH = ("coef", "dual", "fitted", "intercept", "objective", "y")
RISK = ("values", "raw", "train", "stderr", "probe_stderr", "corrected")
AUDIT = ("difference", "stderr", "slope", "correlation", "share", "repair", "error", "differences")


def both(backend, compute, n=40, p=9, seed=0, loss=LAD):
    """What ``compute(X, y, precision)`` finds on a backend, and on NumPy in double precision."""
    X, y, _ = draw_for(loss, n, p, seed)
    ours = compute(backend.asarray(X), backend.asarray(y), backend.precision)
    return ours, compute(X, y, "float64")


def assert_same(backend, found, expected, names):
    for name in names:
        backend.assert_same(getattr(found, name), getattr(expected, name))


def assert_same_risk(backend, found, expected):
    assert_same(backend, found, expected, RISK)
    assert (found.method, found.n_probes) == (expected.method, expected.n_probes)
    assert found.best_iter == expected.best_iter
    if expected.audit is not None:
        np.testing.assert_array_equal(found.audit.rows, expected.audit.rows)
        assert_same(backend, found.audit, expected.audit, AUDIT)
    if expected.interactions is not None:
        backend.assert_same(found.interactions.changes, expected.interactions.changes)


# ----- Paths -----

# every loss with every penalty, and with every algorithm that can handle it
PROBLEMS = [
    pytest.param(loss, penalty, algorithm, (i + j) % 2 == 1, id=f"{a}-{b}-{c}")
    for i, (a, loss) in enumerate(SOME_LOSSES.items())
    for j, (b, penalty) in enumerate(PENALTY_EXAMPLES.items())
    for k, (c, algorithm) in enumerate(ALGORITHM_EXAMPLES.items())
    if handles(algorithm, loss) and (i + j - k) % (6 if loss.smoothness else 4) == 0
]


@EVERY_BACKEND
@pytest.mark.parametrize(("loss", "penalty", "algorithm", "fit_intercept"), PROBLEMS)
def test_paths(backend, loss, penalty, algorithm, fit_intercept):
    found, expected = both(
        backend,
        lambda X, y, _: sp.run(X, y, loss, penalty(9), algorithm, 12, fit_intercept),
        loss=loss,
    )
    assert_same(backend, found, expected, PATH)


@EVERY_BACKEND
def test_designs_of_the_user(backend):
    found, expected = both(
        backend, lambda X, y, _: sp.run(Products(X), y, sp.LAD(), sp.Lasso(0.3), n_iter=12)
    )
    assert_same(backend, found, expected, PATH)


@EVERY_BACKEND
def test_recursions(backend):
    """The user's own maps are handed arrays of the library, and return them."""

    def estimates(X, y, precision):
        xp = np if isinstance(X, np.ndarray) else backend.library
        descent = sp.Recursion(
            dual=lambda t, u, v: -xp.clip(v[-1], -0.1, 0.1),
            primal=lambda t, b, eta: b[-1] + 0.3 * (b[-1] - b[max(t - 2, 0)]) - 0.3 * eta[-1],
            dual_jvp=lambda t, u, v, du, dv: xp.where(
                (xp.abs(v[-1]) < 0.1)[:, None], -dv[-1], 0 * dv[-1]
            ),
            primal_jvp=lambda t, b, eta, db, deta: (
                db[-1] + 0.3 * (db[-1] - db[max(t - 2, 0)]) - 0.3 * deta[-1]
            ),
        )
        path = sp.run(X, y, sp.Huber(), sp.NoPenalty(), descent, n_iter=9)
        methods = ("exact", "hutchinson", "compressed", "loo")
        return [
            sp.estimate_risk(path, method=method, audit=6, rng=1, precision=precision)
            for method in methods
        ]

    for found, expected in zip(*both(backend, estimates, n=20, p=7), strict=True):
        assert_same(backend, found.path, expected.path, PATH)
        assert_same_risk(backend, found, expected)


# ----- Estimates -----


@EVERY_BACKEND
@pytest.mark.parametrize(
    ("method", "fit_intercept"), [(method, k % 2 == 1) for k, method in enumerate(METHODS)]
)
def test_methods(backend, method, fit_intercept):
    """With every size of rows, with audits, and with the covariance, where it is of use."""
    _, _, model = draw(40, 9)
    settings = [{"row_scale": scale} for scale in (None, "norm", np.linspace(1, 2, 40))]
    settings += [{"audit": 10}, {"audit": 10, "row_scale": "auto"}, {"centered": True}]
    if method not in ("loo", "folds"):
        settings += [{"covariance": model.covariance}, {"audit": "folds"}]

    def estimates(X, y, precision):
        path = sp.run(X, y, sp.SquareRoot(), sp.Ridge(0.3), n_iter=12, fit_intercept=fit_intercept)
        options = {"method": method, "precision": precision, "rng": 1}
        return [sp.estimate_risk(path, **options, **setting) for setting in settings]

    for found, expected in zip(*both(backend, estimates), strict=True):
        assert_same_risk(backend, found, expected)
        np.testing.assert_allclose(found.compare(3, 9), expected.compare(3, 9), rtol=backend.tol)
        checks = [{d.name: d.warns for d in risk.diagnostics} for risk in (found, expected)]
        assert checks[0] == checks[1]


@EVERY_BACKEND
@pytest.mark.parametrize(("loss", "penalty", "algorithm", "fit_intercept"), PROBLEMS[1::5])
def test_estimates(backend, loss, penalty, algorithm, fit_intercept):
    """R-tilde for smooth losses, R-hat for the others."""
    _, _, model = draw(40, 9)
    covariance = model.covariance if loss.smoothness else None
    methods = ("exact", "hutchinson", "compressed") + ("loo", "folds") * (covariance is None)

    def estimates(X, y, precision):
        path = sp.run(X, y, loss, penalty(9), algorithm, 12, fit_intercept)
        options = {"covariance": covariance, "rng": 1, "precision": precision}
        return [sp.estimate_risk(path, method=method, **options) for method in methods]

    for found, expected in zip(*both(backend, estimates, loss=loss), strict=True):
        assert_same_risk(backend, found, expected)


@EVERY_BACKEND
@pytest.mark.parametrize("known", [False, True], ids=["R-hat", "R-tilde"])
def test_windows_of_few_active_rows_and_columns(backend, known):
    """Parts of X are gathered by indices from the host."""
    _, _, model = draw(60, 40)
    covariance = model.covariance if known else None

    def estimate(X, y, precision):
        path = sp.run(X, y, sp.LAD(), sp.Lasso(1.0), n_iter=50, fit_intercept=True)
        options = {"method": "compressed", "rng": 1, "precision": precision}
        return sp.estimate_risk(path, covariance=covariance, **options)

    assert_same_risk(backend, *both(backend, estimate, 60, 40))


@EVERY_BACKEND
@pytest.mark.parametrize("test_loss", [*CRITERIA, lambda y, z: (y - z) ** 2])
def test_scoring_losses(backend, test_loss):
    margin = getattr(CRITERIA.get(test_loss), "margin", False)
    loss = sp.Logistic() if margin else sp.Huber()

    def estimate(X, y, precision):
        path = sp.run(X, y, loss, sp.Lasso(0.3), n_iter=12, fit_intercept=margin)
        options = {"method": "exact", "audit": 10, "rng": 0, "precision": precision}
        return sp.estimate_risk(path, test_loss, **options)

    assert_same_risk(backend, *both(backend, estimate, loss=loss))


# ----- What is built on them -----


@EVERY_BACKEND
def test_stopping(backend):
    def stopped(X, y, _):
        stop = sp.StopOnRisk(patience=5, audit=10, rng=0)
        return sp.run(X, y, sp.LAD(), sp.Lasso(0.05), n_iter=200, stop=stop)

    found, expected = both(backend, stopped, 60, 30)
    assert expected.n_iter < 200
    assert_same(backend, found, expected, PATH)
    assert_same_risk(backend, found.risk, expected.risk)


# ----- What is handed in -----


def test_precision_is_that_of_X():
    X, y, model = draw(20, 9)
    for library in (np, torch, array_api_strict):
        X32, y64 = library.asarray(X, dtype=library.float32), library.asarray(y)
        path = sp.run(X32, y64, sp.LAD(), sp.Lasso(0.1), n_iter=2)
        risk = sp.estimate_risk(path, covariance=library.asarray(model.covariance))
        assert path.coef.dtype == path.dual.dtype == risk.values.dtype == library.float32
        assert path.y.dtype == path.fitted.dtype == library.float64
        integers = library.asarray(np.eye(20, 9, dtype=int)), library.asarray(np.arange(20))
        assert sp.run(*integers, sp.LAD(), sp.Lasso(0.1), n_iter=2).coef.dtype == library.float64


@pytest.mark.parametrize("library", [torch, array_api_strict], ids=lambda library: library.__name__)
def test_libraries_are_not_mixed(library):
    """But everything besides X may be in NumPy."""
    X, y, _ = draw(20, 9)
    own = library.asarray(y)
    with pytest.raises(TypeError, match="pass both in the same array library, or in NumPy"):
        sp.run(X, own, sp.LAD(), sp.Lasso(0.1))
    with pytest.raises(TypeError, match="pass both in the same array library, or in NumPy"):
        sp.run(X, y, sp.LAD(), sp.Lasso(0.1), sample_weight=abs(own))
    path = sp.run(library.asarray(X), y, sp.LAD(), sp.Lasso(0.1), n_iter=2, sample_weight=abs(y))
    assert isinstance(path.y, type(own))
    plain = sp.run(X, y, sp.LAD(), sp.Lasso(0.1), n_iter=2)
    with pytest.raises(TypeError, match="pass both in the same array library, or in NumPy"):
        sp.estimate_risk(plain, row_scale=abs(own))


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_half_precision_is_refused(name):
    X, y = (torch.asarray(a) for a in draw(20, 9)[:2])
    with pytest.raises(TypeError, match=f"X has dtype torch.{name}; use float32 or float64"):
        sp.run(X.to(getattr(torch, name)), y, sp.LAD(), sp.Lasso(0.1))


# ----- What stays where it is -----

TO_THE_HOST = ("__bool__", "__float__", "__int__", "__index__", "item", "tolist", "numpy", "cpu")


@pytest.fixture
def copies(monkeypatch):
    """How often each way to copy a tensor to the host was taken."""
    taken = Counter()

    def counting(name, copy):
        def counted(tensor, *args, **options):
            taken[name] += 1
            return copy(tensor, *args, **options)

        return counted

    for name in TO_THE_HOST:
        monkeypatch.setattr(torch.Tensor, name, counting(name, getattr(torch.Tensor, name)))
    return taken


def assert_few_per_window(copies, compute):
    """Over eighty more iterations, copies grow by a few in each window of twenty."""
    taken = []
    for n_iter in (40, 120):
        copies.clear()
        compute(n_iter)
        taken.append(Counter(copies))
    more = taken[1] - taken[0]
    assert more.total() <= 4 * 8, more


@pytest.mark.parametrize(("loss", "penalty", "algorithm", "fit_intercept"), PROBLEMS[::2])
def test_runs_stay_on_the_device(loss, penalty, algorithm, fit_intercept, copies):
    X, y = (torch.asarray(a) for a in draw_for(loss, 40, 9)[:2])
    penalty = penalty(9)
    assert_few_per_window(
        copies, lambda n_iter: sp.run(X, y, loss, penalty, algorithm, n_iter, fit_intercept)
    )


@pytest.mark.parametrize(
    ("loss", "penalty", "methods"),
    [
        (sp.LAD(), sp.Lasso(0.3), ("compressed", "loo", "folds")),
        (sp.LAD(), PENALTY_EXAMPLES["group_lasso"](9), ("compressed",)),
        (sp.SquareRoot(), sp.Lasso(0.3), ("compressed",)),
        (sp.SquareRoot(), sp.Ridge(0.3), ("compressed", "spectral")),
        (sp.Squared(), sp.Ridge(0.3), ("compressed", "spectral")),
        (sp.Hinge(), sp.Lasso(0.3), ("compressed", "loo", "folds")),
        (sp.Logistic(), sp.Ridge(0.3), ("compressed",)),
    ],
    ids=repr,
)
def test_estimates_stay_on_the_device(loss, penalty, methods, copies):
    X, y = (torch.asarray(a) for a in draw_for(loss, 40, 9)[:2])
    paths = {n: sp.run(X, y, loss, penalty, n_iter=n, fit_intercept=True) for n in (40, 120)}
    for method in methods:
        assert_few_per_window(
            copies,
            lambda n_iter, method=method: sp.estimate_risk(
                paths[n_iter], method=method, rng=0, probe_tol=1e9
            ),
        )
