"""Sparse designs: all that is true of their dense copies, without making one."""

import tracemalloc

import numpy as np
import pytest
from scipy import sparse

import steinpath as sp
from problems import PENALTY_EXAMPLES, SOME_LOSSES, responses
from steinpath.design._dense import DenseDesign
from steinpath.design._sparse import SparseDesign
from steinpath.design._transformed import InterceptDesign, ScaledDesign

FORMATS = ("csr", "csc", "coo", "bsr", "dia", "dok", "lil")
KINDS = [getattr(sparse, f"{name}_{kind}") for name in FORMATS for kind in ("array", "matrix")]
INTERCEPT = pytest.mark.parametrize("intercept", [False, True], ids=["plain", "intercept"])


def problem(n=40, p=12, seed=0):
    """Mostly zeros, some rows and columns without an entry, and large means."""
    rng = np.random.default_rng(seed)
    X = rng.integers(-3, 9, (n, p)) * (rng.random((n, p)) < 0.3)
    X[3], X[:, 5] = 0, 0
    y = X[:, :3] @ [1.0, -0.5, 0.3] + rng.standard_t(2, n) + 3
    return X.astype(float), y


@pytest.fixture(autouse=True)
def _never_dense(monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("a sparse matrix was made dense")

    for kind in KINDS:
        for name in ("toarray", "todense", "__array__"):
            monkeypatch.setattr(kind, name, refuse, raising=False)


def assert_same(found, expected, names, **close):
    for name in names:
        np.testing.assert_allclose(
            getattr(found, name), getattr(expected, name), err_msg=name, **close
        )


PATH = ("coef", "dual", "fitted", "intercept", "objective")
RISK = ("values", "raw", "train", "stderr", "probe_stderr", "corrected")


# ------------------------------------------------------------------------------------------------
# Paths
# ------------------------------------------------------------------------------------------------


def test_the_guard_guards():
    for kind in KINDS:
        with pytest.raises(AssertionError, match="made dense"):
            kind(np.eye(2)).toarray()
        with pytest.raises(AssertionError, match="made dense"):
            kind(np.eye(2)).todense()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "int8", "bool"])
@INTERCEPT
def test_every_kind_of_matrix(kind, dtype, intercept):
    X, y = problem()
    X = X.astype(dtype)
    how = {"n_iter": 20, "fit_intercept": intercept}
    expected = sp.run(X, y, sp.LAD(), sp.Lasso(0.3), **how)
    path = sp.run(kind(X), y, sp.LAD(), sp.Lasso(0.3), **how)
    single = dtype == "float32"
    assert path.coef.dtype == (np.float32 if single else np.float64)
    assert_same(path, expected, PATH, atol=2e-4 if single else 1e-11)
    assert path.coef[-1].any()


@pytest.mark.parametrize("loss", SOME_LOSSES.values(), ids=SOME_LOSSES)
@INTERCEPT
def test_every_loss_and_penalty(loss, intercept):
    X, y = problem()
    y = responses(loss, y)
    for penalty in PENALTY_EXAMPLES.values():
        how = {"n_iter": 20, "fit_intercept": intercept}
        found, expected = (
            sp.run(data, y, loss, penalty(12), **how) for data in (sparse.csr_array(X), X)
        )
        assert_same(found, expected, PATH, atol=1e-10)


@pytest.mark.parametrize("shape", [(90, 60), (60, 90)], ids=["tall", "wide"])
@INTERCEPT
def test_norms_and_rows(shape, intercept):
    """Beyond the size at which the norm is computed of the whole matrix."""
    X, y = problem(*shape)
    found, expected = (
        sp.run(data, y, sp.LAD(), sp.Lasso(1.0), n_iter=1, fit_intercept=intercept).design
        for data in (sparse.csc_array(X), X)
    )
    Z = X - X.mean(axis=0) * intercept
    np.testing.assert_allclose(found.row_squares(), (Z**2).sum(axis=1), rtol=1e-12, atol=1e-10)
    np.testing.assert_allclose(found.norm_bounds(), expected.norm_bounds(), rtol=1e-6)
    if not intercept:
        assert found.norm_bounds().high >= np.linalg.norm(X, 2) * (1 - 1e-9)


def test_entries_may_be_stored_in_any_way():
    """In parts that add up, in any order, zeros among them."""
    X, y = problem()
    expected = sp.run(X, y, sp.LAD(), sp.Lasso(0.3), n_iter=10, fit_intercept=True)
    wanted = sp.estimate_risk(expected, method="exact", row_scale="norm")
    rows, columns = (np.ravel(index) for index in np.indices(X.shape))
    order = np.random.default_rng(0).permutation(3 * X.size)
    parts = np.concatenate([X.ravel() - 2, np.full(X.size, 3.0), np.full(X.size, -1.0)])[order]
    rows, columns = np.tile(rows, 3)[order], np.tile(columns, 3)[order]
    for kind, major, minor in (
        (sparse.csr_array, rows, columns),
        (sparse.csc_array, columns, rows),
    ):
        order = np.argsort(major, kind="stable")
        starts = np.searchsorted(major[order], np.arange(major.max() + 2))
        Z = kind((parts[order], minor[order], starts), shape=X.shape)
        path = sp.run(Z, y, sp.LAD(), sp.Lasso(0.3), n_iter=10, fit_intercept=True)
        assert Z.nnz == 3 * X.size  # left as it was
        assert_same(path, expected, PATH, atol=1e-11)
        risk = sp.estimate_risk(path, method="exact", row_scale="norm")
        assert_same(risk, wanted, RISK, atol=1e-10)


@pytest.mark.parametrize("mean", [0.1, 100.0])
@pytest.mark.parametrize("spread", [0.0, 1e-2])
@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["single", "double"])
def test_columns_far_from_their_spread(mean, spread, dtype):
    """What centring leaves of the squares of the rows must not drown in rounding."""
    rng = np.random.default_rng(0)
    X = (mean + spread * rng.standard_normal((50, 4))).astype(dtype)
    y = X @ np.ones(4) + rng.standard_normal(50)
    paths = [
        sp.run(data, y, sp.LAD(), sp.Lasso(0.01), n_iter=10, fit_intercept=True)
        for data in (sparse.csr_array(X), X)
    ]
    found, expected = paths
    if spread:
        assert expected.design.intercept_scale == pytest.approx(spread, rel=0.2)
        assert found.design.intercept_scale == pytest.approx(
            expected.design.intercept_scale, rel=0.05
        )
    np.testing.assert_allclose(found.fitted, expected.fitted, rtol=1e-2)


def test_no_entries_at_all():
    for dtype in (np.float64, np.float32):
        empty = sparse.csr_array((6, 2), dtype=dtype)
        path = sp.run(empty, np.arange(6.0), sp.LAD(), sp.Lasso(0.1), n_iter=3, fit_intercept=True)
        assert not path.coef.any()
        np.testing.assert_allclose(path.intercept, 2.5)
        assert path.coef.dtype == dtype


@pytest.mark.parametrize(
    ("X", "error", "message"),
    [
        (sparse.csr_array([[1.0, np.nan], [0, 1]]), ValueError, "X has 1 value that is NaN"),
        (sparse.csc_array([[1.0, np.inf], [0, 1]]), ValueError, "X has 1 value that is NaN"),
        (sparse.csr_array([[1.0, 2j], [0, 1]]), TypeError, "X must be real"),
        (sparse.csr_array((2, 0)), ValueError, "X is empty"),
        (sparse.coo_array([1.0, 0.0]), ValueError, "X must have 2 dimensions"),
        (sparse.csr_array([[1.0], [0], [1]]), ValueError, "X has 3 rows, but y has 2"),
        (sparse.csr_array([[1e200], [1.0]]), ValueError, "X has entries of magnitude up to 1e"),
    ],
)
def test_bad_matrices(X, error, message):
    with pytest.raises(error, match=message):
        sp.run(X, [1.0, 2.0], sp.LAD(), sp.Lasso(0.1))
    with pytest.raises(TypeError, match="y must be dense, got a sparse matrix"):
        sp.run([[1.0], [2.0]], sparse.csr_array([[1.0], [2.0]]), sp.LAD(), sp.Lasso(0.1))


# ------------------------------------------------------------------------------------------------
# Risks
# ------------------------------------------------------------------------------------------------


def both(loss, intercept, n_iter=15, shape=(40, 12)):
    X, y = problem(*shape)
    return [
        sp.run(data, y, loss, sp.Lasso(0.3), n_iter=n_iter, fit_intercept=intercept)
        for data in (sparse.csr_array(X), X)
    ]


@pytest.mark.parametrize("loss", [sp.LAD(), sp.SquareRoot(), sp.Huber()], ids=repr)
@pytest.mark.parametrize("method", ["compressed", "exact", "hutchinson", "loo", "folds"])
@INTERCEPT
def test_risks(loss, method, intercept):
    paths = both(loss, intercept)
    for how in ({}, {"audit": 8}, {"audit": "folds"}, {"row_scale": "norm"}):
        if method == how.get("audit"):
            continue
        if method == "compressed" and loss.isotropic:
            continue  # other probes than those of a dense matrix; see below
        found, expected = (
            sp.estimate_risk(path, method=method, rng=0, precision="float64", **how)
            for path in paths
        )
        assert_same(found, expected, RISK, rtol=1e-7, atol=1e-7)
        assert found.warnings == expected.warnings
        if how.get("audit"):
            audits = ("rows", "difference", "stderr", "share", "repair", "error")
            assert_same(found.audit, expected.audit, audits, rtol=1e-7, atol=1e-7)


@INTERCEPT
def test_probes_of_isotropic_losses(intercept):
    path, _ = both(sp.SquareRoot(), intercept)
    exact = sp.estimate_risk(path, method="exact")
    for seed in range(3):
        risk = sp.estimate_risk(path, method="compressed", n_probes=100, rng=seed)
        assert (np.abs(risk.values - exact.values) <= 4 * risk.probe_stderr + 1e-4).all()
        assert (risk.probe_stderr < exact.stderr / 4).all()


@INTERCEPT
def test_correction_matrices(intercept):
    for kwargs in ({"covariance": np.eye(12)}, {"method": "hutchinson", "rng": 0}):
        found, expected = (
            sp.correction_matrices(p, **kwargs) for p in both(sp.LAD(), intercept, 6)
        )
        for one, other in zip(found, expected, strict=True):
            if one is not None:
                np.testing.assert_allclose(one, other, atol=1e-10)


@INTERCEPT
def test_baselines(intercept):
    sparse_path, dense_path = both(sp.LAD(), intercept)
    for validate in (
        lambda path: sp.cross_validate_path(path, 4, burman=True, rng=0),
        sp.leave_one_out_path,
        lambda path: sp.hold_out_path(path, rng=0),
    ):
        found, expected = validate(sparse_path), validate(dense_path)
        assert_same(found, expected, ("values", "stderr"), atol=1e-10)


def test_early_stopping():
    X, y = problem(60, 12)
    found, expected = (
        sp.run(data, y, sp.LAD(), sp.Lasso(0.01), n_iter=200, stop=sp.StopOnRisk(rng=0))
        for data in (sparse.csr_array(X), X)
    )
    assert found.n_iter == expected.n_iter < 200
    assert found.risk.best_iter == expected.risk.best_iter


# ------------------------------------------------------------------------------------------------
# Penalties
# ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", SOME_LOSSES.values(), ids=SOME_LOSSES)
@INTERCEPT
def test_largest_penalties(loss, intercept):
    X, y = problem()
    y = responses(loss, y)
    names = ["lasso", "elastic_net", "group_lasso", "scad", "ridge"]
    for name in [*names, "lasso-weighted"] if loss == sp.LAD() else names:
        penalty = PENALTY_EXAMPLES[name](12)
        found, expected = (
            sp.lam_max(data, y, loss, penalty, intercept) for data in (sparse.coo_array(X), X)
        )
        assert found == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("penalty", [sp.Lasso, sp.Ridge])
@INTERCEPT
def test_tuning(penalty, intercept):
    X, y = problem()
    for how in ({}, {"method": "loo"}, {"method": "compressed", "audit": 8}):
        found, expected = (
            sp.tune(data, y, sp.LAD(), penalty, 5, 20, fit_intercept=intercept, rng=0, **how)
            for data in (sparse.csc_matrix(X), X)
        )
        np.testing.assert_allclose(found.lams, expected.lams, rtol=1e-6)
        assert_same(found, expected, ("risk", "stderr", "train"), rtol=2e-3)
        assert found.best == expected.best
        assert_same(found, expected, ("coef", "intercept"), rtol=1e-5, atol=1e-6)


def test_memory_stays_far_below_a_dense_copy():
    n, p = 3000, 2500  # 60 MB
    X = sparse.csr_array(sparse.random(n, p, density=1e-3, random_state=0, format="csr"))
    y = X @ np.ones(p) + np.random.default_rng(0).standard_normal(n)
    tracemalloc.start()
    try:
        sp.tune(X, y, sp.LAD(), sp.Lasso, lams=2, n_iter=4, fit_intercept=True, rng=0)
        path = sp.run(X, y, sp.SquareRoot(), sp.Ridge(1.0), n_iter=4, fit_intercept=True)
        risk = sp.estimate_risk(path, row_scale="norm", audit=4, rng=0)
        assert risk.warnings is not None
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8 * n * p / 3


def test_precisions_of_the_design():
    X, _ = problem()
    design = SparseDesign(sparse.csr_array(X))
    single = design.astype(np.float32)
    assert design.astype(np.float64) is design
    assert single.matmat(np.ones(12, np.float32)).dtype == np.float32
    assert single.example.dtype == np.float32
    np.testing.assert_allclose(single.rmatmat(np.ones((40, 2), np.float32)), X.T @ np.ones((40, 2)))


@pytest.mark.parametrize("kind", KINDS[:4], ids=lambda kind: kind.__name__)
def test_matrices_are_kept_as_they_are(kind):
    X = kind(problem()[0])
    design = SparseDesign(X)
    assert type(design.matrix) is kind
    for name in ("data", "indices", "indptr"):
        assert np.shares_memory(getattr(design.matrix, name), getattr(X, name))


@pytest.mark.parametrize("kind", KINDS[:4], ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["single", "double"])
def test_parts(kind, dtype):
    X, _ = problem()
    rows, columns, none = np.arange(1, 40, 3), np.array([0, 5, 7]), np.arange(0)
    for some_rows in (None, rows, none):
        for some_columns in (None, columns, none):
            expected = X if some_rows is None else X[some_rows]
            expected = expected if some_columns is None else expected[:, some_columns]
            part = SparseDesign(kind(X.astype(dtype))).part(some_rows, some_columns)
            assert part.shape == expected.shape
            b, u = (np.ones((m, 2), dtype) for m in part.shape[::-1])
            assert part.matmat(b).dtype == dtype
            close = {"rtol": 1e-6, "atol": 1e-6 * np.abs(X).max()}
            np.testing.assert_allclose(part.matmat(b), expected @ b, **close)
            np.testing.assert_allclose(part.rmatmat(u), expected.T @ u, **close)


@pytest.mark.parametrize("scale", [1e25, 1e45, 1e-45])
def test_entries_that_single_precision_cannot_hold(scale):
    X, y = problem()
    risks = [
        sp.estimate_risk(
            sp.run(data, y, sp.LAD(), sp.Lasso(0.3 * scale), n_iter=10, fit_intercept=True),
            method="compressed",
            audit=4,
            rng=0,
        )
        for data in (sparse.csr_array(scale * X), scale * X)
    ]
    assert_same(*risks, RISK, rtol=1e-7, atol=1e-7)


# ------------------------------------------------------------------------------------------------
# Columns that are divided in each product
# ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [*KINDS[:4], np.asarray], ids=lambda kind: kind.__name__)
@INTERCEPT
def test_scaled_columns(kind, intercept):
    X, _ = problem()
    scale = np.linspace(0.1, 9, 12)
    leaf = DenseDesign if kind is np.asarray else SparseDesign
    found, expected = ScaledDesign(leaf(kind(X)), scale), DenseDesign(X / scale)
    if intercept:
        found, expected = InterceptDesign(found), InterceptDesign(expected)
        assert found.intercept_scale == pytest.approx(expected.intercept_scale)
    p, rng = found.shape[1], np.random.default_rng(0)
    columns = np.append(np.arange(0, 12, 2), [12] * intercept)
    parts = [(None, None), (np.arange(7), columns), (np.arange(3), None), (None, columns)]
    for rows, columns in parts:
        one, other = (design.part(rows, columns) for design in (found, expected))
        assert one.shape == other.shape
        for shape in ((), (3,)):
            b, u = (rng.standard_normal((m, *shape)) for m in one.shape[::-1])
            np.testing.assert_allclose(one.matmat(b), other.matmat(b), atol=1e-11)
            np.testing.assert_allclose(one.rmatmat(u), other.rmatmat(u), atol=1e-11)
            single = one.astype(np.float32)
            assert single.example.dtype == np.float32
            assert single.matmat(b.astype("f4")).dtype == np.float32
            np.testing.assert_allclose(single.matmat(b.astype("f4")), other.matmat(b), atol=1e-3)
    for center in (None, np.linspace(-1, 1, 12)):
        squares = (design.row_squares(center) for design in (found, expected))
        np.testing.assert_allclose(*squares, atol=1e-10)
    np.testing.assert_allclose(found.norm_bounds(), expected.norm_bounds())
    assert p == 12 + intercept


def test_scales_that_single_precision_cannot_hold():
    X, _ = problem()
    for scale in (1e-45, 1e45):
        design = ScaledDesign(SparseDesign(sparse.csr_array(scale * X)), np.full(12, scale))
        assert design.astype(np.float32) is design


@pytest.mark.parametrize("kind", KINDS[:4], ids=lambda kind: kind.__name__)
def test_estimators_copy_nothing(kind, monkeypatch):
    X, y = problem()
    X = kind(X)
    seen = []
    prepare = sp.estimators._base.prepare
    monkeypatch.setattr(
        sp.estimators._base,
        "prepare",
        lambda *args: (seen.append(args[0]), prepare(*args))[1],
    )
    sp.LADLasso(alpha=0.1, select=5, n_iter=5, method=None).fit(X, y)
    assert isinstance(seen[0], ScaledDesign)
    assert np.shares_memory(seen[0].features.matrix.data, X.data)


def test_columns_of_very_different_sizes():
    """Their sizes do not matter once they are standardised, whatever the precision."""
    X, y = problem()
    sizes = np.geomspace(1e-12, 1e12, 12)
    model = sp.LADLasso(alpha=0.05, n_iter=30, select="last", tol=10, method=None)
    expected = model.fit(sparse.csr_array(X.astype("f4")), y).coef_
    found = model.fit(sparse.csr_array((X * sizes).astype("f4")), y).coef_
    np.testing.assert_allclose(found * sizes, expected, rtol=2e-3, atol=2e-4)
