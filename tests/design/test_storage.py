"""Sparse matrices and mapped files: all that is true of their dense copies, without making one."""

import tracemalloc

import numpy as np
import pytest
from scipy import sparse

import steinpath as sp
from problems import PENALTY_EXAMPLES, SOME_LOSSES, responses
from steinpath.design._dense import DenseDesign
from steinpath.design._memmap import BlockDesign, BlockSizes
from steinpath.design._sparse import SparseDesign
from steinpath.design._transformed import InterceptDesign, ScaledDesign

INTERCEPT = pytest.mark.parametrize("intercept", [False, True], ids=["plain", "intercept"])
PATH = ("coef", "dual", "fitted", "intercept", "objective")
RISK = ("values", "raw", "train", "stderr", "probe_stderr", "corrected")
AUDIT = ("rows", "difference", "stderr", "share", "repair", "error")
KINDS = [
    getattr(sparse, f"{name}_{kind}")
    for name in ("csr", "csc", "coo", "bsr", "dia", "dok", "lil")
    for kind in ("array", "matrix")
]
COMPRESSED = pytest.mark.parametrize("kind", KINDS[:4], ids=lambda kind: kind.__name__)
# Seven rows of twelve numbers: of 40 rows, the last block has fewer.
SMALL = BlockSizes(block=7 * 12 * 8, few_rows=1, largest_block=7 * 12 * 8)


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


@pytest.fixture(params=["sparse", "file"])
def store(request, tmp_path):
    """Return a function that makes a design of an array."""

    def to_file(X):
        np.save(tmp_path / "X.npy", X)
        return BlockDesign(np.load(tmp_path / "X.npy", mmap_mode="r"), sizes=SMALL)

    return to_file if request.param == "file" else lambda X: SparseDesign(sparse.csr_array(X))


def assert_same(one, other, names, **close):
    for name in names:
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), err_msg=name, **close)


def paths(store, loss, penalty, intercept, shape=(40, 12), n_iter=15, dtype=float, **options):
    """Return the paths of a stored matrix and of the same array."""
    X, y = problem(*shape)
    X, y = X.astype(dtype), responses(loss, y)
    how = {"n_iter": n_iter, "fit_intercept": intercept, **options}
    return [sp.run(data, y, loss, penalty, **how) for data in (store(X), X)]


@pytest.mark.parametrize("loss", SOME_LOSSES.values(), ids=SOME_LOSSES)
@INTERCEPT
def test_paths(store, loss, intercept):
    for penalty in PENALTY_EXAMPLES.values():
        stored, dense = paths(store, loss, penalty(12), intercept)
        assert_same(stored, dense, PATH, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "int8", "bool"])
@pytest.mark.parametrize("shape", [(40, 12), (20, 31)], ids=["tall", "wide"])
def test_paths_of_types_and_shapes(store, dtype, shape):
    weights = 1 + np.arange(shape[0]) % 3
    how = {"dtype": dtype, "sample_weight": weights}
    stored, dense = paths(store, sp.LAD(), sp.Lasso(0.3), True, shape, **how)
    single = dtype == "float32"
    assert stored.coef.dtype == dense.coef.dtype == (np.float32 if single else np.float64)
    assert_same(stored, dense, PATH, rtol=1e-4 if single else 1e-9, atol=2e-4 if single else 1e-11)
    assert stored.coef[-1].any()


HOW = [
    {"method": "compressed"},
    {"method": "compressed", "row_scale": "norm"},
    {"method": "compressed", "audit": 8},
    {"method": "compressed", "audit": "folds", "row_scale": "auto"},
    {"method": "auto", "row_scale": "norm", "audit": 8},
    {"method": "exact", "audit": 8},
    {"method": "hutchinson", "audit": "folds"},
    {"method": "loo"},
    {"method": "folds", "row_scale": "norm"},
]
PROBLEMS = [  # penalty, intercept, shape: each case has one of them
    (sp.Lasso(0.3), True, (40, 12)),
    (sp.Lasso(0.2), False, (20, 31)),
    (sp.Ridge(0.5), True, (20, 31)),
]
CASES = {
    f"{name}-{j}": (loss, how, PROBLEMS[(i + j) % 3])
    for i, (name, loss) in enumerate(SOME_LOSSES.items())
    for j, how in enumerate(HOW)
    # without a Gram matrix these take other probes; see below
    if not (loss.isotropic and how["method"] in ("compressed", "auto"))
}


@pytest.mark.parametrize(("loss", "how", "problem"), CASES.values(), ids=CASES)
def test_risks(store, loss, how, problem):
    stored, dense = (
        sp.estimate_risk(path, rng=0, precision="float64", **how)
        for path in paths(store, loss, *problem)
    )
    assert stored.method == dense.method
    assert_same(stored, dense, RISK, rtol=1e-7, atol=1e-7)
    assert stored.warnings == dense.warnings
    if "audit" in how:
        assert_same(stored.audit, dense.audit, AUDIT, rtol=1e-7, atol=1e-7)


def test_risks_in_single_precision(store):
    stored, dense = (
        sp.estimate_risk(path, method="compressed", row_scale="norm", audit=8, rng=0)
        for path in paths(store, sp.LAD(), sp.Lasso(0.3), True)
    )
    assert_same(stored, dense, RISK, rtol=2e-3, atol=2e-3)


@INTERCEPT
def test_probes_of_isotropic_losses(store, intercept):
    path, _ = paths(store, sp.SquareRoot(), sp.Lasso(0.3), intercept)
    exact = sp.estimate_risk(path, method="exact")
    for seed in range(3):
        risk = sp.estimate_risk(path, method="compressed", n_probes=100, rng=seed)
        assert (np.abs(risk.values - exact.values) <= 4 * risk.probe_stderr + 1e-4).all()
        assert (risk.probe_stderr < exact.stderr / 4).all()


@INTERCEPT
def test_other_estimates_of_a_path(store, intercept):
    stored, dense = paths(store, sp.LAD(), sp.Lasso(0.3), intercept, n_iter=6)
    for kwargs in ({"covariance": np.eye(12)}, {"method": "hutchinson", "rng": 0}):
        matrices = (sp.correction_matrices(path, **kwargs) for path in (stored, dense))
        for one, other in zip(*matrices, strict=True):
            if one is not None:
                np.testing.assert_allclose(one, other, atol=1e-10)
    for validate in (
        lambda path: sp.cross_validate_path(path, 4, burman=True, rng=0),
        sp.leave_one_out_path,
        lambda path: sp.hold_out_path(path, rng=0),
    ):
        assert_same(validate(stored), validate(dense), ("values", "stderr"), atol=1e-10)


def test_early_stopping(store):
    how = {"n_iter": 200, "stop": sp.StopOnRisk(rng=0)}
    stored, dense = paths(store, sp.LAD(), sp.Lasso(0.01), False, (60, 12), **how)
    assert stored.n_iter == dense.n_iter < 200
    assert stored.risk.best_iter == dense.risk.best_iter


@pytest.mark.parametrize("loss", SOME_LOSSES.values(), ids=SOME_LOSSES)
@INTERCEPT
def test_largest_penalties(store, loss, intercept):
    X, y = problem()
    y = responses(loss, y)
    names = ["lasso", "elastic_net", "group_lasso", "scad", "ridge"]
    for name in [*names, "lasso-weighted"] if loss == sp.LAD() else names:
        penalty = PENALTY_EXAMPLES[name](12)
        stored, dense = (sp.lam_max(data, y, loss, penalty, intercept) for data in (store(X), X))
        assert stored == pytest.approx(dense, rel=1e-6)


@pytest.mark.parametrize("penalty", [sp.Lasso, sp.Ridge])
@INTERCEPT
def test_tuning(store, penalty, intercept):
    X, y = problem()
    for how in ({}, {"method": "loo"}, {"method": "compressed", "audit": 8}):
        stored, dense = (
            sp.tune(data, y, sp.LAD(), penalty, 5, 20, fit_intercept=intercept, rng=0, **how)
            for data in (store(X), X)
        )
        np.testing.assert_allclose(stored.lams, dense.lams, rtol=1e-6)
        assert_same(stored, dense, ("risk", "stderr", "train"), rtol=2e-3)
        assert stored.best == dense.best
        assert_same(stored, dense, ("coef", "intercept"), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("single", [False, True], ids=["double", "single"])
@pytest.mark.parametrize("scale", [None, np.linspace(0.1, 9, 12)], ids=["", "scaled"])
@INTERCEPT
def test_products_and_parts(store, scale, intercept, single):
    """Those of the array, also after columns were divided or centred in each product."""
    X, _ = problem()
    stored, dense = store(X), DenseDesign(X)
    if scale is not None:
        stored, dense = ScaledDesign(stored, scale), DenseDesign(X / scale)
    if intercept:
        stored, dense = InterceptDesign(stored), InterceptDesign(dense)
        assert stored.intercept_scale == pytest.approx(dense.intercept_scale)
    dtype, atol = (np.float32, 1e-3) if single else (np.float64, 1e-11)
    assert stored.astype(np.float64) is stored or scale is not None or intercept
    stored = stored.astype(dtype)
    rng = np.random.default_rng(0)
    columns = np.array([0, 2, 4, 6, 8, 10, *[12] * intercept])
    parts = [(None, None), (np.arange(7), columns), (np.arange(3), None), (None, columns)]
    for rows, some_columns in parts:
        one, other = (design.part(rows, some_columns) for design in (stored, dense))
        assert one.shape == other.shape
        assert one.example.dtype == dtype
        for shape in ((), (3,)):
            b, u = (rng.standard_normal((m, *shape)).astype(dtype) for m in one.shape[::-1])
            assert one.matmat(b).dtype == dtype
            np.testing.assert_allclose(one.matmat(b), other.matmat(b), atol=atol)
            np.testing.assert_allclose(one.rmatmat(u), other.rmatmat(u), atol=atol)
    for center in (None, np.linspace(-1, 1, 12).astype(dtype)):
        squares = (design.row_squares(center) for design in (stored, dense))
        np.testing.assert_allclose(*squares, rtol=1e-5 if single else 1e-7, atol=10 * atol)
    rtol = 1e-5 if single else 1e-7
    np.testing.assert_allclose(stored.norm_bounds(), dense.norm_bounds(), rtol=rtol)


@pytest.mark.parametrize("shape", [(90, 70), (70, 90)], ids=["tall", "wide"])
@INTERCEPT
def test_norms_and_rows(store, shape, intercept):
    """Beyond the size at which the norm is computed of the whole matrix."""
    stored, dense = (
        path.design for path in paths(store, sp.LAD(), sp.Lasso(1.0), intercept, shape, 1)
    )
    X, _ = problem(*shape)
    Z = X - X.mean(axis=0) * intercept
    np.testing.assert_allclose(stored.row_squares(), (Z**2).sum(axis=1), rtol=1e-12, atol=1e-10)
    np.testing.assert_allclose(stored.norm_bounds(), dense.norm_bounds(), rtol=1e-6)
    if not intercept:
        assert stored.norm_bounds().high >= np.linalg.norm(X, 2) * (1 - 1e-9)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({3: np.nan}, "X has 1 value that is NaN or infinite; remove"),
        ({3: np.nan, 20: -np.inf, 39: np.inf}, "X has 3 values that are NaN or infinite"),
        ({20: 1e200}, "X has entries of magnitude up to 1e"),
        ({20: -1e160}, "X has entries of magnitude up to 1e"),
    ],
)
def test_bad_entries_are_refused_as_in_memory(store, change, error):
    X = problem()[0] + 10  # limits of magnitudes depend on the number of stored entries
    for i, value in change.items():
        X[i, 5] = value
    with pytest.raises(ValueError, match=error) as in_memory:
        DenseDesign(X)
    with pytest.raises(ValueError, match=error) as stored:
        store(X)
    assert str(in_memory.value) == str(stored.value)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("dtype", ["float64", "float32", "int8", "bool"])
def test_every_format(kind, dtype):
    X, y = problem()
    X = X.astype(dtype)
    path, expected = (
        sp.run(data, y, sp.LAD(), sp.Lasso(0.3), n_iter=20, fit_intercept=True)
        for data in (kind(X), X)
    )
    single = dtype == "float32"
    assert path.coef.dtype == (np.float32 if single else np.float64)
    assert_same(path, expected, PATH, atol=2e-4 if single else 1e-11)
    assert not SparseDesign(kind((9, 4))).matmat(np.ones(4)).any()


@COMPRESSED
@pytest.mark.parametrize("index", [-1, 12, 10**6])
def test_indices_out_of_range_are_refused(kind, index):
    """SciPy's products would read memory outside of the matrix."""
    X, y = problem(12, 12)
    X = kind(X)
    X.indices[0] = index
    fits = lambda: sp.run(X, y, sp.LAD(), sp.Lasso(0.1)), lambda: sp.LADLasso().fit(X, y)
    for fit in fits:
        with pytest.raises(ValueError, match=r"X is an invalid sparse matrix: .*ind"):
            fit()


def test_entries_may_be_stored_in_any_way():
    """In parts that add up, in any order, zeros among them."""
    X, y = problem()
    expected = sp.run(X, y, sp.LAD(), sp.Lasso(0.3), n_iter=10, fit_intercept=True)
    wanted = sp.estimate_risk(expected, method="exact", row_scale="norm")
    rows, columns = (np.ravel(index) for index in np.indices(X.shape))
    order = np.random.default_rng(0).permutation(3 * X.size)
    parts = np.concatenate([X.ravel() - 2, np.full(X.size, 3.0), np.full(X.size, -1.0)])[order]
    rows, columns = np.tile(rows, 3)[order], np.tile(columns, 3)[order]
    kinds = (sparse.csr_array, rows, columns), (sparse.csc_array, columns, rows)
    for kind, major, minor in kinds:
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
    found, expected = (
        sp.run(data, y, sp.LAD(), sp.Lasso(0.01), n_iter=10, fit_intercept=True)
        for data in (sparse.csr_array(X), X)
    )
    if spread:
        scale = expected.design.intercept_scale
        assert scale == pytest.approx(spread, rel=0.2)
        assert found.design.intercept_scale == pytest.approx(scale, rel=0.05)
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
        (sparse.csr_array([[1.0, 2j], [0, 1]]), TypeError, "X must be real"),
        (sparse.csr_array((2, 0)), ValueError, "X is empty"),
        (sparse.coo_array([1.0, 0.0]), ValueError, "X must have 2 dimensions"),
    ],
)
def test_bad_matrices(X, error, message):
    with pytest.raises(error, match=message):
        sp.run(X, [1.0, 2.0], sp.LAD(), sp.Lasso(0.1))


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


@COMPRESSED
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
    assert np.shares_memory(seen[0].inner.matrix.data, X.data)


def test_columns_of_very_different_sizes():
    """Their sizes do not matter once they are standardised, whatever the precision."""
    X, y = problem()
    sizes = np.geomspace(1e-12, 1e12, 12)
    model = sp.LADLasso(alpha=0.05, n_iter=30, select="last", tol=10, method=None)
    expected = model.fit(sparse.csr_array(X.astype("f4")), y).coef_
    found = model.fit(sparse.csr_array((X * sizes).astype("f4")), y).coef_
    np.testing.assert_allclose(found * sizes, expected, rtol=2e-3, atol=2e-4)


def test_scales_that_single_precision_cannot_hold():
    X, _ = problem()
    for scale in (1e-45, 1e45):
        design = ScaledDesign(SparseDesign(sparse.csr_array(scale * X)), np.full(12, scale))
        assert design.astype(np.float32) is design
