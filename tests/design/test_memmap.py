"""Designs in mapped files: all that is true of their copies in memory, without making one."""

import copy
import os
import pickle
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone

import steinpath as sp
from problems import PENALTY_EXAMPLES, SOME_LOSSES, draw, responses
from steinpath.design._dense import DenseDesign
from steinpath.design._memmap import BlockDesign, BlockSizes, needs_blocks
from steinpath.design._reading import as_design
from steinpath.design._transformed import ScaledDesign
from steinpath.estimators._rows import prepare_rows

INTERCEPT = pytest.mark.parametrize("intercept", [False, True], ids=["plain", "intercept"])
PATH = ("coef", "dual", "fitted", "intercept", "objective")
RISK = ("values", "raw", "train", "stderr", "probe_stderr", "corrected")


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


def assert_same(found, expected, names, **close):
    for name in names:
        np.testing.assert_allclose(
            getattr(found, name), getattr(expected, name), err_msg=name, **close
        )


# ------------------------------------------------------------------------------------------------
# Products
# ------------------------------------------------------------------------------------------------


def assert_products(design, X, rtol=1e-12):
    """Everything that a design can do, against the matrix itself."""
    rng, X = np.random.default_rng(0), np.array(X, dtype=float)
    n, p = X.shape
    assert design.shape == (n, p)
    dtype = design.example.dtype
    close = {"rtol": rtol, "atol": rtol * np.abs(X).max() * max(n, p)}
    for columns in ((), (1,), (3,)):
        b, u = (rng.standard_normal((m, *columns)).astype(dtype) for m in (p, n))
        for found, expected in (
            (design.matmat(b), X @ b),
            (design.rmatmat(u), X.T @ u),
        ):
            assert found.dtype == dtype
            assert type(found) is np.ndarray
            np.testing.assert_allclose(found, expected, **close)
    center = X.mean(axis=0)
    squares = [(None, (X**2).sum(axis=1)), (center, ((X - center) ** 2).sum(axis=1))]
    for about, expected in squares:
        found = design.row_squares(None if about is None else about.astype(dtype))
        np.testing.assert_allclose(found, expected, rtol=100 * rtol, atol=close["atol"])
    rows, columns = np.arange(n)[::3], np.arange(p)[1::2]
    for some_rows, some_columns in ((rows, columns), (rows, None), (None, columns), (None, None)):
        part = design.part(some_rows, some_columns)
        expected = X[rows] if some_rows is not None else X
        expected = expected[:, columns] if some_columns is not None else expected
        assert isinstance(part, DenseDesign)
        assert part.example.dtype == dtype
        np.testing.assert_allclose(part.example, expected, **close)
    assert not design.has_gram


SHAPES = [(40, 12), (12, 40), (42, 12), (7, 12), (90, 60), (1, 200), (200, 1), (3, 500)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("order", ["C", "F"])
def test_shapes(in_blocks, shape, order):
    X = np.random.default_rng(1).standard_normal(shape)
    design = in_blocks(np.asarray(X, order=order))
    assert_products(design, X)
    np.testing.assert_allclose(design.norm_bounds(), np.linalg.norm(X, 2), rtol=1e-5)
    single = design.astype(np.float32)
    assert design.astype(np.float64) is design
    assert_products(single, X, rtol=1e-5)


@pytest.mark.parametrize("dtype", ["float64", "float32", "int16", "uint8", "bool"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_types(in_blocks, dtype, order):
    X = (10 * np.random.default_rng(0).random((40, 12))).astype(dtype)
    design = in_blocks(np.asarray(X, order=order))
    single = dtype == "float32"
    assert design.example.dtype == (np.float32 if single else np.float64)
    assert_products(design, X, rtol=1e-5 if single else 1e-12)


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


def test_which_maps_are_read_in_blocks(mapped):
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


def test_from_which_size_on(tmp_path):
    data = np.memmap(tmp_path / "zeros", dtype=float, mode="w+", shape=(2**12 + 1, 2**11))
    assert isinstance(as_design(data), BlockDesign)
    assert isinstance(as_design(data[1:]), DenseDesign)


def test_offsets_and_files_without_a_name(tmp_path):
    X, _ = problem()
    (tmp_path / "raw").write_bytes(b"header" * 1000 + X.tobytes())
    for offset, shape in ((6000, X.shape), (6000 + 12 * 8 * 10, (30, 12))):
        raw = np.memmap(tmp_path / "raw", dtype=float, mode="r", offset=offset, shape=shape)
        assert_products(BlockDesign(raw, sizes=SMALL), X[-shape[0] :])
        assert_products(BlockDesign(raw[4:], sizes=SMALL), X[-shape[0] :][4:])
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


def test_another_file_of_the_same_name(mapped, tmp_path):
    """The map still is of the old one."""
    X, _ = problem()
    old = mapped(X)
    same_first_row = np.vstack([X[:1], X[1:] + 1])
    for other in (X + 1, X[:20], same_first_row):
        np.save(tmp_path / "other.npy", other)
        (tmp_path / "other.npy").rename(tmp_path / "X.npy")
        assert_products(BlockDesign(old, sizes=SMALL), X)
    (tmp_path / "X.npy").unlink()
    assert_products(BlockDesign(old, sizes=SMALL), X)


def test_copies_do_not_hold_the_file(in_blocks):
    X, _ = problem(400, 12)
    design = in_blocks(X)
    text = pickle.dumps(design)
    assert len(text) < X.nbytes / 4
    for other in (pickle.loads(text), copy.deepcopy(design)):
        assert_products(other, X)


@pytest.mark.parametrize("mode", ["r", "c"])
def test_copies_of_what_is_only_in_the_map(tmp_path, mode):
    X, _ = problem()
    np.save(tmp_path / "X.npy", X)
    design = BlockDesign(np.load(tmp_path / "X.npy", mmap_mode=mode)[:, 1:], sizes=SMALL)
    for other in (pickle.loads(pickle.dumps(design)), copy.deepcopy(design)):
        assert_products(other, X[:, 1:])
        written_to(tmp_path / "X.npy", X)
        assert_products(other, X[:, 1:])


def test_products_go_back_and_forth(in_blocks):
    design = in_blocks(problem()[0])
    forward, backward = ([piece for piece, _ in design.blocks(b)] for b in (False, True))
    assert backward == forward[::-1]
    assert len(forward) == 6
    assert [piece.stop - piece.start for piece in forward] == [7, 7, 7, 7, 7, 5]
    ways = []
    read = design.blocks
    design.blocks = lambda backward=False: (ways.append(backward), read(backward))[1]
    design.matmat(np.ones(12))
    design.rmatmat(np.ones(40))
    assert ways == [False, True]


def test_rows_of_a_block(mapped):
    """A few at least, unless they are very long."""
    data = mapped(problem()[0])
    for largest, rows in ((1, 1), (5 * 12 * 8, 5), (2**20, 10)):
        design = BlockDesign(data, sizes=BlockSizes(0, few_rows=10, largest_block=largest))
        first, _ = next(design.blocks())
        assert first == slice(0, rows)


def test_large_parts_are_not_copied(mapped):
    sizes = replace(SMALL, largest_part=10 * 12 * 8)
    design = BlockDesign(mapped(problem()[0]), sizes=sizes)
    assert design.part(None, None) is None
    assert design.part(np.arange(11), None) is None
    assert design.part(np.arange(10), None) is not None
    assert design.astype(np.float32).part(np.arange(11), None) is not None


# ------------------------------------------------------------------------------------------------
# What cannot be read
# ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({3: np.nan}, "X has 1 value that is NaN or infinite; remove"),
        ({3: np.nan, 20: -np.inf, 39: np.inf}, "X has 3 values that are NaN or infinite"),
        ({20: 1e200}, "X has entries of magnitude up to 1e"),
        ({20: -1e160}, "X has entries of magnitude up to 1e"),
    ],
)
def test_bad_entries(in_blocks, change, error):
    X, y = problem()
    for i, value in change.items():
        X[i, 5] = value
    for how in (X, np.asfortranarray(X)):
        with pytest.raises(ValueError, match=error) as in_memory:
            sp.run(how, y, sp.LAD(), sp.Lasso(0.1))
        with pytest.raises(ValueError, match=error) as from_file:
            sp.run(in_blocks(how), y, sp.LAD(), sp.Lasso(0.1))
        assert str(in_memory.value) == str(from_file.value)


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
    with pytest.raises(ValueError, match="X has 40 rows, but y has 39"):
        sp.run(in_blocks(X), y[1:], sp.LAD(), sp.Lasso(0.1))


@pytest.mark.parametrize("view", ["whole", "columns"])
@pytest.mark.parametrize("when", ["before", "between"])
def test_files_cut_short(tmp_path, view, when):
    X = np.ones((4000, 12))
    np.save(tmp_path / "X.npy", X)
    data = np.load(tmp_path / "X.npy", mmap_mode="r")
    data = data[:, 1:] if view == "columns" else data
    design = BlockDesign(data, sizes=SMALL) if when == "between" else None
    for size in (3 * X.nbytes // 4, 10):
        with open(tmp_path / "X.npy", "r+b") as file:
            file.truncate(size)
        with pytest.raises(EOFError, match=r"file of X was truncated after.*X\.npy; write it"):
            (design or BlockDesign(data, sizes=SMALL)).rmatmat(np.ones(4000))


def test_lost_files(in_blocks, tmp_path):
    X, y = problem()
    path = sp.run(in_blocks(X), y, sp.LAD(), sp.Lasso(0.1), n_iter=5)
    (tmp_path / "X.npy").unlink()
    with pytest.raises(OSError, match=r"X can no longer be read \(No such file.*X\.npy"):
        sp.estimate_risk(path, method="compressed")
    (tmp_path / "X.npy").mkdir()  # opens, or not, and cannot be read
    with pytest.raises(OSError, match=r"X can no longer be read \(Is a directory.*X\.npy"):
        path.design.matmat(np.ones(12))


def replaced(path, X):
    np.save(path.with_suffix(".new.npy"), X)
    path.with_suffix(".new.npy").rename(path)


def written_to(path, X):
    """In place; the time is set, since clocks of file systems tick slowly."""
    with open(path, "r+b") as file:
        np.save(file, X)
    os.utime(path, (0, 0))


def appended_to(path, X):
    with open(path, "ab") as file:
        file.write(X[:1].tobytes())


@pytest.mark.parametrize("change", [replaced, written_to, appended_to])
@pytest.mark.parametrize("order", ["C", "F"])
def test_files_that_changed_since(in_blocks, tmp_path, change, order):
    X, y = problem()
    design = in_blocks(np.asarray(X, order=order))
    path = sp.run(design, y, sp.LAD(), sp.Lasso(0.1), n_iter=5)
    change(tmp_path / "X.npy", np.asarray(X + 1, order=order))
    calls = {
        "matmat": lambda: design.matmat(np.ones(12)),
        "rmatmat": lambda: design.rmatmat(np.ones(40)),
        "row_squares": design.row_squares,
        "part": lambda: design.part(np.arange(3), None),
        "risk": lambda: sp.estimate_risk(path, method="compressed"),
    }
    for name, call in calls.items():
        with pytest.raises(
            OSError, match=r"X can no longer be read \(the file was replaced or modified"
        ):
            pytest.fail(f"{name} gave {call()}")


def test_files_that_change_while_they_are_read(in_blocks, tmp_path):
    X, _ = problem()
    blocks = in_blocks(X).blocks()
    next(blocks)
    written_to(tmp_path / "X.npy", X + 1)
    with pytest.raises(OSError, match="modified after it was mapped"):
        list(blocks)


@pytest.mark.parametrize("mode", ["r", "c"])
def test_maps_whose_file_changed_since(tmp_path, mode):
    """Of some columns, which are copied from the map: that still is of a file that was replaced."""
    X, _ = problem()
    np.save(tmp_path / "X.npy", X)
    data = np.load(tmp_path / "X.npy", mmap_mode=mode)
    design = BlockDesign(data[:, 1:], sizes=SMALL)
    written_to(tmp_path / "X.npy", X + 1)
    with pytest.raises(OSError, match="modified after it was mapped"):
        design.matmat(np.ones(11))
    np.save(tmp_path / "X.npy", X)
    design = BlockDesign(np.load(tmp_path / "X.npy", mmap_mode=mode)[:, 1:], sizes=SMALL)
    replaced(tmp_path / "X.npy", X + 1)
    assert_products(design, X[:, 1:])


def test_maps_that_are_written_to_by_their_owner(tmp_path):
    X, _ = problem()
    np.save(tmp_path / "X.npy", X)
    data = np.load(tmp_path / "X.npy", mmap_mode="r+")
    design = BlockDesign(data, sizes=SMALL)
    data[3] = 7.0
    data.flush()
    os.utime(tmp_path / "X.npy", (0, 0))
    assert_products(design, data)


def test_small_maps_are_copied(mapped, tmp_path):
    X, y = problem()
    path = sp.run(mapped(X), y, sp.LAD(), sp.Lasso(0.1), n_iter=5)
    expected = sp.estimate_risk(path).values
    written_to(tmp_path / "X.npy", X + 1)
    np.testing.assert_array_equal(sp.estimate_risk(path).values, expected)


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
}
for name, call in calls.items():
    try:
        call()
        print(name, "had no error")
    except EOFError as error:
        print(name, error)
"""


@pytest.mark.parametrize("name", ["X", "y"])
def test_small_maps_cut_short(tmp_path, name):
    """In a process of its own, for which it would be the end to touch what is missing."""
    command = [sys.executable, "-W", "ignore", "-c", CUT_SHORT, tmp_path / "map.npy", name]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 3
    for line in lines:
        assert f"the file of {name} was truncated after it was mapped" in line


# ------------------------------------------------------------------------------------------------
# Paths and risks
# ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", SOME_LOSSES.values(), ids=SOME_LOSSES)
@pytest.mark.parametrize("shape", [(40, 12), (20, 31)], ids=["tall", "wide"])
@INTERCEPT
def test_paths(in_blocks, loss, shape, intercept):
    X, y = problem(*shape)
    y = responses(loss, y)
    for name in ("lasso", "ridge", "mcp", "group_lasso"):
        penalty = PENALTY_EXAMPLES[name](shape[1])
        found, expected = (
            sp.run(data, y, loss, penalty, n_iter=20, fit_intercept=intercept)
            for data in (in_blocks(X), X)
        )
        assert found.design.example.size == 1  # that is, not all of X
        assert_same(found, expected, PATH, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("dtype", ["float64", "float32", "int16"])
@pytest.mark.parametrize("order", ["C", "F"])
@INTERCEPT
def test_paths_of_types(in_blocks, dtype, order, intercept):
    X, y = problem()
    X = np.asarray((3 * X).astype(dtype), order=order)
    found, expected = (
        sp.run(data, y, sp.LAD(), sp.Lasso(0.3), n_iter=20, fit_intercept=intercept)
        for data in (in_blocks(X), X)
    )
    assert found.coef.dtype == expected.coef.dtype
    close = 1e-3 if dtype == "float32" else 1e-9
    assert_same(found, expected, PATH, rtol=close, atol=close)


def both(in_blocks, loss, penalty, intercept=True, shape=(40, 12), n_iter=12):
    X, y = problem(*shape)
    y = responses(loss, y)
    return [
        sp.run(data, y, loss, penalty, n_iter=n_iter, fit_intercept=intercept)
        for data in (in_blocks(X), X)
    ]


HOW = {
    "compressed": {"method": "compressed"},
    "row-scaled": {"method": "compressed", "row_scale": "norm"},
    "audited": {"method": "compressed", "audit": 8},
    "audited by folds": {"method": "compressed", "audit": "folds", "row_scale": "auto"},
    "auto": {"method": "auto", "row_scale": "norm", "audit": 8},
    "exact": {"method": "exact"},
    "hutchinson": {"method": "hutchinson"},
    "loo": {"method": "loo"},
    "folds": {"method": "folds"},
}


PROBLEMS = [  # penalty, intercept, shape: each case has one of them
    (sp.Lasso(0.3), True, (40, 12)),
    (sp.Lasso(0.2), False, (20, 31)),
    (sp.Ridge(0.5), True, (20, 31)),
]
CASES = {
    f"{name}-{which}": (loss, how, PROBLEMS[(i + j) % 3])
    for i, (name, loss) in enumerate(SOME_LOSSES.items())
    for j, (which, how) in enumerate(HOW.items())
    # without a Gram matrix these take other probes; see below
    if not (loss.isotropic and how["method"] in ("compressed", "auto"))
}


@pytest.mark.parametrize(("loss", "how", "problem"), CASES.values(), ids=CASES)
def test_risks(in_blocks, loss, how, problem):
    found, expected = (
        sp.estimate_risk(path, rng=0, precision="float64", **how)
        for path in both(in_blocks, loss, *problem)
    )
    assert found.method == expected.method
    assert_same(found, expected, RISK, rtol=1e-7, atol=1e-7)
    assert found.warnings == expected.warnings
    if "audit" in how:
        audits = ("rows", "difference", "stderr", "share", "repair", "error")
        assert_same(found.audit, expected.audit, audits, rtol=1e-7, atol=1e-7)


def test_risks_in_single_precision(in_blocks):
    found, expected = (
        sp.estimate_risk(path, method="compressed", row_scale="norm", audit=8, rng=0)
        for path in both(in_blocks, sp.LAD(), sp.Lasso(0.3))
    )
    assert_same(found, expected, RISK, rtol=2e-3, atol=2e-3)


@INTERCEPT
def test_probes_of_isotropic_losses(in_blocks, intercept):
    path, _ = both(in_blocks, sp.SquareRoot(), sp.Lasso(0.3), intercept)
    exact = sp.estimate_risk(path, method="exact")
    for seed in range(3):
        risk = sp.estimate_risk(path, method="compressed", n_probes=100, rng=seed)
        assert (np.abs(risk.values - exact.values) <= 4 * risk.probe_stderr + 1e-4).all()


def test_parts_of_the_file_feed_the_tangents(in_blocks, monkeypatch):
    """Sparse tangents read a window's rows and columns once, not in each of its iterations."""
    path, _ = both(in_blocks, sp.LAD(), sp.Lasso(0.6), n_iter=60, shape=(60, 40))
    sp.estimate_risk(path, method="compressed", rng=0)
    passes = []
    read = BlockDesign.blocks
    monkeypatch.setattr(BlockDesign, "blocks", lambda *args: (passes.append(1), read(*args))[1])
    sp.estimate_risk(path, method="compressed", rng=0)
    assert len(passes) < 30


def test_weights_and_tuning(in_blocks):
    X, y = problem()
    weights = 1 + np.arange(40) % 3
    found, expected = (
        sp.run(
            data, y, sp.LAD(), sp.Lasso(0.3), n_iter=20, fit_intercept=True, sample_weight=weights
        )
        for data in (in_blocks(X), X)
    )
    assert_same(found, expected, PATH, rtol=1e-9, atol=1e-9)
    found, expected = (
        sp.tune(data, y, sp.LAD(), sp.Lasso, 5, 20, fit_intercept=True, rng=0)
        for data in (in_blocks(X), X)
    )
    np.testing.assert_allclose(found.lams, expected.lams)
    assert_same(found, expected, ("risk", "stderr", "train"), rtol=2e-3)
    assert found.best == expected.best


# ------------------------------------------------------------------------------------------------
# Standardised columns, and estimators
# ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["float64", "float32", "int16"])
@pytest.mark.parametrize("weights", [None, np.arange(1.0, 41)], ids=["alike", "weighted"])
def test_moments_of_columns(in_blocks, order, dtype, weights):
    X = np.asarray((3 * problem()[0]).astype(dtype), order=order)
    X[:, 3], X[:, 5] = 7, 0
    means, variances = in_blocks(X).column_moments(weights)
    expected = np.average(X.astype(float), axis=0, weights=weights)
    rest = np.average((X - expected) ** 2, axis=0, weights=weights)
    close = 1e-5 if dtype == "float32" else 1e-12
    np.testing.assert_allclose(means, expected, rtol=close, atol=close)
    np.testing.assert_allclose(variances, rest, rtol=close, atol=close)
    assert (variances[[3, 5]] < 1e-40).all()


@pytest.mark.parametrize("order", ["C", "F"])
def test_scaled_columns(in_blocks, order):
    X, _ = problem()
    scale = np.linspace(0.1, 9, 12)
    design = ScaledDesign(in_blocks(np.asarray(X, order=order)), scale)
    np.testing.assert_allclose(design.matmat(np.ones(12)), (X / scale).sum(axis=1))
    np.testing.assert_allclose(design.rmatmat(np.ones((40, 2)))[:, 0], (X / scale).sum(axis=0))
    for center in (0, np.linspace(-1, 1, 12)):
        found = design.row_squares(center if np.ndim(center) else None)
        np.testing.assert_allclose(found, ((X / scale - center) ** 2).sum(axis=1))
    part = design.part(np.arange(3), np.array([0, 4]))
    np.testing.assert_allclose(part.matmat(np.eye(2)), (X / scale)[:3][:, [0, 4]])


STEPS = sp.ChambollePock(0.05, 0.05)
FEW = {"n_alphas": 2, "n_iter": 4, "random_state": 0, "algorithm": STEPS, "audit": 0}
FIXED = {"alpha": 0.1, "n_iter": 4, "select": 3, "method": None, "algorithm": STEPS}
MODELS = {
    "chosen": (sp.LADLasso(**FEW), "float64", "C"),
    "no intercept": (sp.HuberLasso(**FEW, fit_intercept=False), "float64", "F"),
    "not standardised": (sp.LADRidge(**FEW, standardize=False), "float64", "C"),
    "fixed": (sp.SqrtLasso(**FIXED), "float64", "F"),
    "single precision": (sp.LADLasso(**FIXED), "float32", "C"),
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
        assert (found.alpha_, found.best_iter_) == (
            pytest.approx(expected.alpha_, rel=1e-5),
            expected.best_iter_,
        )
    np.testing.assert_allclose(found.predict(data), found.predict(X), **close)
    assert found.score(data, y) == pytest.approx(found.score(X, y), rel=1e-4)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_estimators_with_weights_and_warm_starts(mapped):
    X, y = large_problem()
    data = mapped(X)
    model = sp.LADLasso(**FIXED, warm_start=True)
    for weights in (np.linspace(1, 2, len(y)), np.arange(len(y)) % 3):
        found, expected = (
            clone(model).fit(each, y, sample_weight=weights).fit(each, y, sample_weight=weights)
            for each in (data, X)
        )
        np.testing.assert_allclose(found.coef_, expected.coef_, rtol=1e-7, atol=1e-9)


def test_rows_taken_from_a_file_of_integers(mapped):
    """What weights leave of a file is an array, which scikit-learn has not converted."""
    X, y = problem()
    X = (9 * X).astype("int16")
    weights = np.arange(40) % 3
    options = {"needs_risk": False, "standardize": True, "about_mean": True}
    (_, found), (_, expected) = (
        prepare_rows(data, y, weights, **options) for data in (mapped(X), X.astype(float))
    )
    assert found.example.dtype == float
    np.testing.assert_array_equal(found.matmat(np.eye(12)), expected.matmat(np.eye(12)))


def test_estimators_see_changes_of_the_file(tmp_path):
    X, y = large_problem()
    np.save(tmp_path / "X.npy", X)
    data = np.load(tmp_path / "X.npy", mmap_mode="r+")
    assert needs_blocks(data)
    model = sp.LADLasso(**FIXED, warm_start=True).fit(data, y)
    data[:, 0] = -data[:, 0]  # of the same size, by which one might know it
    expected = clone(model).fit(np.array(data), y).coef_
    np.testing.assert_allclose(model.fit(data, y).coef_, expected, rtol=1e-7, atol=1e-9)


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


# ------------------------------------------------------------------------------------------------
# Memory
# ------------------------------------------------------------------------------------------------

ROWS, COLUMNS = 6_000, 3_000  # 144 MB

CHILD = """
import sys
import numpy as np
import steinpath as sp
from steinpath.design._memmap import BlockDesign, BlockSizes

sp.LADLasso  # all that is imported with the first name
X, rows, order = sys.argv[1], int(sys.argv[2]), sys.argv[3]
X = np.memmap(X, mode="r", shape=(rows, 3_000), dtype=float, order=order)
X = X[:, 1:] if sys.argv[4] == "columns" else X
y = np.random.default_rng(0).standard_t(2, rows)

def peak():  # the kernel's ru_maxrss would be that of the parent, if that has more
    lines = dict(line.split(":", 1) for line in open("/proc/self/status"))
    return int(lines["VmHWM"].split()[0]) / 1024

before = peak()
steps = sp.ChambollePock(0.1, 0.1)
if sys.argv[5] == "estimator":
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
@pytest.mark.parametrize(
    ("order", "view", "what"),
    [
        ("C", "all", "path"),
        ("F", "all", "path"),
        ("C", "columns", "path"),
        ("C", "all", "estimator"),
    ],
)
def test_memory_stays_far_below_the_file(large_file, order, view, what):
    size = ROWS * COLUMNS * 8 / 2**20
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", CHILD, large_file, str(ROWS), order, view, what],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < size / 2  # where X were loaded, it would be twice its size
