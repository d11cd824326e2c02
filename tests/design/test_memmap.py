"""Designs in mapped files: blocks, views and memory; `test_storage` compares with arrays."""

import copy
import pickle
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone

import steinpath as sp
from problems import draw
from steinpath.design._conversion import as_design
from steinpath.design._dense import DenseDesign
from steinpath.design._memmap import BlockDesign, BlockSizes, needs_blocks
from steinpath.estimators._fit import prepare_rows

# Seven rows of twelve numbers: of 40 rows, the last block has fewer.
SMALL = BlockSizes(block=7 * 12 * 8, few_rows=1, largest_block=7 * 12 * 8)


@pytest.fixture
def mapped(tmp_path):
    """Write an array to a file, and map it."""

    def write(X, name="X.npy"):
        np.save(tmp_path / name, X)
        return np.load(tmp_path / name, mmap_mode="r")

    return write


@pytest.fixture
def in_blocks(mapped):
    """Write an array to a file, and make a design of it that reads small blocks."""
    return lambda X: BlockDesign(mapped(X), sizes=SMALL)


def problem(n=40, p=12):
    X, y, _ = draw(n, p)
    return X + np.linspace(0, 3, p), y + 2  # columns and responses with means


def assert_products(design, X, rtol=1e-12):
    """Everything that a design can do, against the matrix itself."""
    rng, X = np.random.default_rng(0), np.array(X, dtype=float)
    n, p = X.shape
    assert design.shape == (n, p)
    dtype = design.example.dtype
    close = {"rtol": rtol, "atol": rtol * np.abs(X).max() * max(n, p)}
    for columns in ((), (3,)):
        b, u = (rng.standard_normal((m, *columns)).astype(dtype) for m in (p, n))
        np.testing.assert_allclose(design.matmat(b), X @ b, **close)
        np.testing.assert_allclose(design.rmatmat(u), X.T @ u, **close)
    for center in (np.zeros(p), X.mean(axis=0)):
        squares = design.row_squares(center.astype(dtype))
        expected = ((X - center) ** 2).sum(axis=1)
        np.testing.assert_allclose(squares, expected, rtol=100 * rtol, atol=close["atol"])
    rows, columns = np.arange(n)[::3], np.arange(p)[1::2]
    part = design.part(rows, columns)
    assert part.example.dtype == dtype
    np.testing.assert_allclose(part.example, X[np.ix_(rows, columns)], **close)


SHAPES = [(40, 12), (12, 40), (42, 12), (7, 12), (90, 60), (1, 200), (200, 1), (3, 500)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("order", ["C", "F"])
def test_shapes(in_blocks, shape, order):
    X = np.random.default_rng(1).standard_normal(shape)
    design = in_blocks(np.asarray(X, order=order))
    assert_products(design, X)
    np.testing.assert_allclose(design.norm_bounds(), np.linalg.norm(X, 2), rtol=1e-5)
    assert design.astype(np.float64) is design
    assert_products(design.astype(np.float32), X, rtol=1e-5)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_gram_matrices(in_blocks, order, dtype):
    X = np.random.default_rng(0).standard_normal((40, 12)) + np.arange(12)
    design = in_blocks(np.asarray(X, order=order))
    for center in (None, X.mean(axis=0)):
        found = design.gram(dtype=dtype, center=center)
        expected = DenseDesign(X).gram(center=center)
        assert found.dtype == dtype
        rtol = 1e-12 if dtype == np.float64 else 1e-4
        np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol * 40)
    with pytest.raises(NotImplementedError, match="rows"):
        design.gram(of_rows=True)


VIEWS = {
    "rows": lambda X: X[5:31],
    "columns": lambda X: X[:, 2:9],
    "both": lambda X: X[3:, :7],
    "every other row": lambda X: X[::2],
    "every other column": lambda X: X[:, ::2],
    "backwards": lambda X: X[::-1],
    "transposed": lambda X: X.T,
    "some of the transposed": lambda X: X.T[2:9, 3:],
    "plain": np.asarray,
    "plain rows": lambda X: np.asarray(X)[5:][1:-2],
    "reshaped": lambda X: np.asarray(X).reshape(-1, 6) if X.flags.c_contiguous else X,
}


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
@pytest.mark.parametrize("order", ["C", "F"])
def test_views(mapped, view, order):
    X = np.asarray(np.random.default_rng(0).standard_normal((40, 12)), order=order)
    data = view(mapped(X))
    assert needs_blocks(data, largest=0)
    assert_products(BlockDesign(data, sizes=SMALL), view(X))


def test_which_maps_are_read_in_blocks(mapped, tmp_path):
    limit = 7 * 12 * 8
    X, _ = problem()
    large = mapped(X)
    small = large[:7]
    assert needs_blocks(large, limit)
    for other in (small, X, large.copy(), large + 1, X.tolist(), np.frombuffer(X).reshape(X.shape)):
        assert not needs_blocks(other, limit)
        assert isinstance(as_design(other), DenseDesign)
    with pytest.raises(TypeError, match="X is a masked array"):
        as_design(np.ma.masked_array(large))
    data = np.memmap(tmp_path / "zeros", dtype=float, mode="w+", shape=(2**12 + 1, 2**11))
    assert isinstance(as_design(data), BlockDesign)
    assert isinstance(as_design(data[1:]), DenseDesign)


def test_offsets_and_files_without_a_name(tmp_path):
    X, _ = problem()
    (tmp_path / "raw").write_bytes(b"header" * 1000 + X.tobytes())
    raw = np.memmap(tmp_path / "raw", dtype=float, mode="r", offset=6960, shape=(30, 12))
    assert_products(BlockDesign(raw, sizes=SMALL), X[10:])
    assert_products(BlockDesign(raw[4:], sizes=SMALL), X[14:])
    with open(tmp_path / "raw", "rb") as file:
        nameless = np.memmap(file, dtype=float, mode="r", offset=6000, shape=X.shape)
        nameless.filename = None
        assert_products(BlockDesign(nameless, sizes=SMALL), X)


@pytest.mark.parametrize("mode", ["c", "r+"])
def test_changes_of_the_map_are_seen(tmp_path, mode):
    X, _ = problem()
    np.save(tmp_path / "X.npy", X)
    changed = np.load(tmp_path / "X.npy", mmap_mode=mode)
    changed[20:25] += 1.0
    X[20:25] += 1.0
    for _ in range(2):  # and stay
        assert_products(BlockDesign(changed, sizes=SMALL), X)
    np.testing.assert_array_equal(changed, X)


def test_copies_do_not_hold_the_file(mapped):
    X, _ = problem(400, 12)
    for data, expected in ((mapped(X), X), (mapped(X)[::-2, 1:], X[::-2, 1:]), (mapped(X).T, X.T)):
        design = BlockDesign(data, sizes=SMALL)
        text = pickle.dumps(design)
        assert len(text) < X.nbytes / 4
        for other in (pickle.loads(text), copy.deepcopy(design)):
            assert_products(other, expected)


def test_copies_hold_what_is_only_in_the_map(mapped, tmp_path):
    X, _ = problem()
    mapped(X)
    data = np.load(tmp_path / "X.npy", mmap_mode="c")
    data[3] = X[3] = 7.0
    design = BlockDesign(data, sizes=SMALL)
    for other in (pickle.loads(pickle.dumps(design)), copy.deepcopy(design)):
        assert_products(other, X)


def test_files_may_be_renamed_or_deleted(mapped, tmp_path):
    X, _ = problem()
    design = BlockDesign(mapped(X), sizes=SMALL)
    (tmp_path / "X.npy").unlink()
    assert_products(design, X)


def test_products_go_back_and_forth(in_blocks, monkeypatch):
    design, read, pieces = in_blocks(problem()[0]), BlockDesign.blocks, []

    def recorded(design, backward=False):
        for piece, block in read(design, backward):
            pieces.append(piece)
            yield piece, block

    monkeypatch.setattr(BlockDesign, "blocks", recorded)
    design.matmat(np.ones(12))
    assert [piece.stop - piece.start for piece in pieces] == [7, 7, 7, 7, 7, 5]
    design.rmatmat(np.ones(40))
    assert pieces[6:] == pieces[:6][::-1]


def test_large_parts_are_not_copied(mapped):
    sizes = replace(SMALL, largest_part=10 * 12 * 8)
    design = BlockDesign(mapped(problem()[0]), sizes=sizes)
    assert design.part(None, None) is None
    assert design.part(np.arange(11), None) is None
    assert design.part(np.arange(10), None) is not None
    assert design.astype(np.float32).part(np.arange(11), None) is not None


def test_bad_kinds(in_blocks):
    X, y = problem()
    for bad in (X + 1j, X.ravel(), X.astype("float16"), X[None]):
        texts = []
        for made in (np.array, in_blocks):
            with pytest.raises((TypeError, ValueError), match=r"^X ") as caught:
                sp.run(made(bad), y, sp.LAD(), sp.Lasso(0.1))
            texts.append(str(caught.value))
        assert texts[0] == texts[1]
    path, other = (
        sp.run(data, y, sp.LAD(), sp.Lasso(0.1), n_iter=5)
        for data in (X, in_blocks(X.astype(">f8")))
    )
    np.testing.assert_allclose(other.coef, path.coef, rtol=1e-10, atol=1e-12)


CUT_SHORT = """
import sys
import numpy as np
import steinpath as sp

n, p = 4000, 12
X, y = np.ones((n, p)) + np.eye(n, p), np.arange(n) % 7.0
np.save(sys.argv[1], globals()[sys.argv[2]])
maps = {"X": X, "y": y, sys.argv[2]: np.load(sys.argv[1], mmap_mode="r")}
model = sp.LADLasso(alpha=0.1, n_iter=2, select="last", method=None, tol=10.0)
model.fit(X, y)
with open(sys.argv[1], "r+b") as file:
    file.truncate(4096)
calls = {
    "run": lambda: sp.run(maps["X"], maps["y"], sp.LAD(), sp.Lasso(0.1), n_iter=2),
    "fit": lambda: model.fit(maps["X"], maps["y"]),
    "score": lambda: model.score(maps["X"], maps["y"]),
    "design": lambda: sp.design._memmap.BlockDesign(maps["X"][:, 1:]) if sys.argv[2] == "X" else 1,
}
for name, call in calls.items():
    try:
        call()
    except EOFError as error:
        print(name, error)
"""


@pytest.mark.parametrize("name", ["X", "y"])
def test_files_cut_short(tmp_path, name):
    """In a process of its own, which would end if it read what is missing."""
    command = [sys.executable, "-W", "ignore", "-c", CUT_SHORT, tmp_path / "map.npy", name]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 3 + (name == "X")
    for line in lines:
        assert f"the file of {name} was truncated after it was mapped" in line


def test_parts_of_the_file_feed_the_tangents(in_blocks, monkeypatch):
    """Sparse tangents read a window's rows and columns once, not in each of its iterations."""
    X, y = problem(60, 40)
    path = sp.run(in_blocks(X), y, sp.LAD(), sp.Lasso(0.6), n_iter=60, fit_intercept=True)
    sp.estimate_risk(path, method="compressed", rng=0)
    passes = []
    read = BlockDesign.blocks
    monkeypatch.setattr(BlockDesign, "blocks", lambda *args: (passes.append(1), read(*args))[1])
    sp.estimate_risk(path, method="compressed", rng=0)
    assert len(passes) < 30


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["float64", "float32", "int16"])
@pytest.mark.parametrize("weights", [None, np.arange(1.0, 41)], ids=["alike", "weighted"])
def test_moments_of_columns(in_blocks, order, dtype, weights):
    X = np.asarray((3 * problem()[0]).astype(dtype), order=order)
    X[:, 3], X[:, 5] = 7, 0
    means, deviations = in_blocks(X).column_moments(weights)
    variances = deviations**2
    expected = np.average(X.astype(float), axis=0, weights=weights)
    rest = np.average((X - expected) ** 2, axis=0, weights=weights)
    close = 1e-5 if dtype == "float32" else 1e-12
    np.testing.assert_allclose(means, expected, rtol=close, atol=close)
    np.testing.assert_allclose(variances, rest, rtol=close, atol=close)
    assert (variances[[3, 5]] < 1e-40).all()


STEPS = sp.ChambollePock(0.05, 0.05)
FEW = {"n_alphas": 2, "n_iter": 4, "random_state": 0, "algorithm": STEPS, "audit": 0}
FIXED = {"alpha": 0.1, "n_iter": 4, "select": 3, "method": None, "algorithm": STEPS}
MODELS = {
    "chosen": (sp.LADLasso(**FEW), "float64", "C"),
    "no intercept": (sp.HuberLasso(**FEW, fit_intercept=False), "float64", "F"),
    "not standardised": (sp.LADRidge(**FEW, standardize=False), "float64", "C"),
    "single precision": (sp.LADLasso(**FIXED), "float32", "F"),
    "integers": (sp.LADLasso(**FIXED), "int64", "C"),
}
SLOW = ("not standardised", "single precision", "integers")


def large_problem(dtype="float64"):
    """Just too large for a block: estimators take files, and make designs of them themselves."""
    n = 1500
    p = 2**26 // (n * np.dtype(dtype).itemsize) + 1
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, p), dtype=np.float32) + np.linspace(0, 3, p, dtype=np.float32)
    y = X[:, :5].sum(axis=1) + rng.standard_t(2, n)
    return (9 * X).astype(dtype), y


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    ("model", "dtype", "order"),
    [
        pytest.param(*values, id=name, marks=pytest.mark.slow if name in SLOW else ())
        for name, values in MODELS.items()
    ],
)
def test_estimators(mapped, model, dtype, order):
    X, y = large_problem(dtype)
    data = mapped(np.asarray(X, order=order))
    assert needs_blocks(data)
    expected = clone(model).fit(X, y)
    found = clone(model).fit(data, y)
    close = {"rtol": 2e-3, "atol": 2e-3} if dtype == "float32" else {"rtol": 1e-6, "atol": 1e-8}
    for name in ("coef_", "intercept_", "alphas_"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), **close)
    assert found.coef_.any()
    assert found.coef_.dtype == expected.coef_.dtype
    if model.method:
        np.testing.assert_allclose(found.risk_path_, expected.risk_path_, rtol=5e-3)
        assert found.alpha_ == pytest.approx(expected.alpha_, rel=1e-5)
        assert found.best_iter_ == expected.best_iter_
    np.testing.assert_allclose(found.predict(data), found.predict(X), **close)
    assert found.score(data, y) == pytest.approx(found.score(X, y), rel=1e-4)


def test_estimators_with_weights_and_warm_starts(mapped, tmp_path):
    """The file may have changed between two fits."""
    X, y = large_problem()
    mapped(X)
    data, model = np.load(tmp_path / "X.npy", mmap_mode="r+"), sp.LADLasso(**FIXED, warm_start=True)
    for weights in (None, np.linspace(1, 2, len(y)), np.arange(len(y)) % 3):
        found = model.fit(data, y, sample_weight=weights).coef_
        expected = clone(model).fit(np.array(data), y, sample_weight=weights).coef_
        np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-9)
        data[:, 0] = -data[:, 0]  # of the same size, by which one might know it


def test_rows_taken_from_a_file_of_integers(mapped):
    """What weights leave of a file is an array, which scikit-learn has not converted."""
    X, y = problem()
    X = (9 * X).astype("int16")
    weights = np.arange(40) % 3
    options = {"expand": False, "standardize": True, "about_mean": True}
    (_, found), (_, expected) = (
        prepare_rows(data, y, weights, **options) for data in (mapped(X), X.astype(float))
    )
    assert found.example.dtype == float
    np.testing.assert_array_equal(found.matmat(np.eye(12)), expected.matmat(np.eye(12)))


def test_estimators_refuse_bad_entries(tmp_path):
    n = 2**26 // (12 * 8) + 1
    data = np.memmap(tmp_path / "X", dtype=float, mode="w+", shape=(n, 12))
    data[3, 3] = np.nan
    assert needs_blocks(data)
    with pytest.raises(ValueError, match="X has 1 value that is NaN"):
        sp.LADLasso().fit(data, np.zeros(n))
    model = sp.LADLasso(alpha=0.1, n_iter=5, select=5, method=None).fit(*problem())
    with pytest.raises(ValueError, match="X has 1 value that is NaN"):
        model.predict(data)
    data[3, 3] = 0
    with pytest.raises(ValueError, match="Input y contains NaN"):
        sp.LADLasso().fit(data, np.full(n, np.nan))
    with pytest.raises(ValueError, match="X has 13 features, but LADLasso is expecting 12"):
        model.predict(np.memmap(tmp_path / "X", mode="r", dtype=float, shape=(12 * n // 13, 13)))


ROWS, COLUMNS = 6_000, 3_000  # 144 MB
CHILD = """
import sys
import numpy as np
import steinpath as sp
from steinpath.design._memmap import BlockDesign, BlockSizes

sp.LADLasso  # all that is imported with the first name
X = np.memmap(sys.argv[1], mode="r", shape=(6_000, 3_000), dtype=float, order=sys.argv[2])
X = X[:, 1:] if sys.argv[3] == "columns" else X
y = np.random.default_rng(0).standard_t(2, 6_000)

def peak():  # the kernel's ru_maxrss would be that of the parent, if that has more
    lines = dict(line.split(":", 1) for line in open("/proc/self/status"))
    return int(lines["VmHWM"].split()[0]) / 1024

before = peak()
steps = sp.ChambollePock(0.1, 0.1)
if sys.argv[4] == "estimator":
    model = sp.LADLasso(alpha=[0.05, 0.03], n_iter=3, algorithm=steps, random_state=0, audit=0)
    model.fit(X, y).predict(X)
else:
    design = BlockDesign(X, sizes=BlockSizes(block=2**22, largest_part=2**24))
    path = sp.run(design, y, sp.LAD(), sp.Lasso(1.0), steps, 3, fit_intercept=True)
    risk = sp.estimate_risk(path, method="compressed", n_probes=4, row_scale="norm", rng=0)
print(peak() - before)
"""


@pytest.fixture(scope="module")
def large_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("large") / "X"
    rng = np.random.default_rng(0)
    with open(path, "wb") as file:
        for _ in range(0, ROWS, 1000):
            common = rng.standard_normal((1000, 1))  # makes a norm that is soon found
            file.write((common + rng.standard_normal((1000, COLUMNS), dtype="f4")).tobytes())
    yield path
    path.unlink()


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")
@pytest.mark.parametrize("how", ["C all path", "F all path", "C columns path", "C all estimator"])
def test_memory_stays_far_below_the_file(large_file, how):
    command = [sys.executable, "-W", "ignore", "-c", CHILD, large_file, *how.split()]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    size = ROWS * COLUMNS * 8 / 2**20
    assert float(done.stdout) < size / 2  # where X were loaded, it would be twice its size
