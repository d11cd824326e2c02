"""What the fuzzer has found, each in its smallest form."""

import fractions
import json

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from scipy import sparse

import steinpath as sp
from steinpath._support.validation import check_number
from steinpath.app.cli import main
from steinpath.app.tables import DataError, read_table
from steinpath.problem._scoring import CRITERIA
from steinpath.risk._held_out import Interactions

RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((20, 4)), RNG.standard_t(2, 20)
PATH = sp.run(X, Y, sp.LAD(), sp.Lasso(0.1), n_iter=5)

LAD, LASSO, MANY = sp.LAD(), sp.Lasso(0.1), 10**400
FIXED = {"select": "last", "method": None, "tol": 1e6}
RIDGE = sp.LADRidge(alpha=0.01, n_iter=50, **FIXED).fit(X, X @ [3.0, 3.0, 0.0, 0.0])
LARGE, SMALL = (X * [1.0, 1.0, size, 1.0] for size in (1e200, 1e-200))
BOTH_SIGNS = np.where(np.arange(80).reshape(20, 4) == [[3, 1, 2, 7]], np.inf, X)
BOTH_SIGNS[5, 0] = -np.inf
REFUSED = {
    "counts without end": (lambda: sp.run(X, Y, LAD, LASSO, n_iter=MANY), "n_iter must be at most"),
    "probes without end": (
        lambda: sp.correction_matrices(PATH, method="hutchinson", n_probes=MANY),
        "n_probes must be at most",
    ),
    "widths that cannot be squared": (lambda: sp.Huber(1e200), r"finite number in .*1e\+150\]"),
    "others": (lambda: sp.EpsilonInsensitive(1e200), r"finite number in .*1e\+150\]"),
    "strengths beyond all measure": (
        lambda: sp.LADLasso(alpha=[1.0, 1e308]).fit(X, Y),
        r"alpha must be a finite number in \[0, 1e\+300\]",
    ),
    "targets too large for single precision": (
        lambda: sp.LADLasso().fit(X.astype(np.float32), 1e100 * Y),
        "y has entries of magnitude up to",
    ),
    "a million alphas": (
        lambda: sp.tune(X, Y, LAD, sp.Lasso, lams=10**6),
        "lams must be at most 10000",
    ),
    "steps of next to nothing": (
        lambda: sp.ChambollePock(sigma=5e-324),
        r"sigma must be a finite number in \[2\.22507e-308, inf\)",
    ),
    "a complex weight for all rows": (
        lambda: sp.LADLasso(alpha=1.0, n_iter=2, **FIXED).fit(X, Y, sample_weight=1j),
        "sample_weight must|[Cc]omplex",
    ),
    "predictions beyond floating point": (
        lambda: RIDGE.predict(np.full((2, 4), 1e308)),
        "too large|up to",
    ),
    "bytes as a splitter": (lambda: sp.cross_validate_path(PATH, b"x"), "cv"),
    "infinities of both signs": (lambda: sp.LADLasso().fit(BOTH_SIGNS, Y), "infinity"),
    "new infinities of both signs": (lambda: RIDGE.predict(BOTH_SIGNS), "infinity"),
}
COLUMN = "column 2 of X has entries of magnitude up to"
REFUSED |= {  # the one became infinite and had no say, the other was taken for constant
    f"a column too {name} to square, {type(bad).__name__}": (
        lambda bad=bad: sp.LADLasso(alpha=0.1, n_iter=3, select="last").fit(bad, Y),
        COLUMN,
    )
    for name, columns in (("large", LARGE), ("small", SMALL))
    for bad in (columns, sparse.csr_array(columns))
}


@pytest.mark.parametrize(("call", "message"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused(call, message):
    with pytest.raises((TypeError, ValueError), match=message):
        call()


def test_what_cannot_be_printed_is_still_refused():
    class Mute:
        def __repr__(self):
            raise RuntimeError

    with pytest.raises(TypeError, match="got an object of type Mute"):
        check_number("lam", Mute())
    with pytest.raises(ValueError, match="got an object of type int"):
        sp.Lasso(-(10**5000))
    assert sp.Lasso(fractions.Fraction(1, 4)).lam == 0.25


def test_a_quantile_of_next_to_nothing():
    path = sp.run(X, Y, sp.Quantile(5e-324), sp.Lasso(0.1), n_iter=5)
    assert np.isfinite(path.coef).all()


def test_long_doubles_beside_tensors():
    path = sp.run(torch.tensor(X), Y.astype(np.longdouble), sp.LAD(), sp.Lasso(0.1), n_iter=3)
    assert np.isfinite(path.coef.numpy()).all()


def test_widths_beyond_single_precision():
    residuals = np.float32([-3.0, 0.5, 2.0])
    np.testing.assert_array_equal(sp.Huber(1e100).rho(residuals), residuals**2 / 2)
    np.testing.assert_array_equal(sp.EpsilonInsensitive(1e100).rho(residuals), 0)


def test_steps_backwards_beside_tensors():
    path = sp.run(torch.tensor(X[::-1].copy()), Y[::-1], sp.LAD(), sp.Lasso(0.1), n_iter=5)
    np.testing.assert_allclose(path.coef.numpy(), PATH.coef, atol=1e-12)


def test_audits_of_losses_that_cannot_be_squared():
    path = sp.run(X, 1e112 * Y, sp.SquareRoot(), sp.Lasso(0.1), n_iter=3)
    risk = sp.estimate_risk(path, method="compressed", audit="folds", rng=0)
    assert np.isfinite(risk.values).all()


def test_grids_from_next_to_nothing_down():
    """Refused for its size, or tried: not 'Geometric sequence cannot include zero'."""
    assert sp.lam_max(X, Y, sp.LAD(), sp.ElasticNet(1.0, l1_ratio=5e-324)) == np.inf
    tuning = sp.tune(X, Y, sp.Huber(1e-322), sp.Lasso, lams=2, n_iter=2)
    assert np.isfinite(tuning.lams).all()


def test_standard_errors_of_losses_that_cannot_be_squared():
    tuning = sp.tune(
        1e80 * X, 1e80 * Y, sp.SquareRoot(), sp.Ridge, lams=2, n_iter=20, method="compressed", rng=0
    )
    assert np.isfinite(tuning.risk).all()
    assert not np.isnan(tuning.stderr).any()


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int16, np.int64])
def test_small_integers_are_counts(kind):
    """Products of them overflow."""
    options = {"alpha": 0.1, "select": "last", "method": None, "tol": 1e6}
    expected = sp.LADRidge(n_iter=100, **options).fit(X, Y).coef_
    model = sp.LADRidge(n_iter=kind(100), n_alphas=kind(20), **options)
    np.testing.assert_array_equal(model.fit(X, Y).coef_, expected)


ROWS = 30


def command(*words, code=0):
    result = CliRunner().invoke(main, [str(word) for word in words])
    assert result.exit_code == code, result.output
    return result


@pytest.fixture
def fitted(tmp_path):
    """A file, and a model that was fitted to it under squared error."""
    file = tmp_path / "d.csv"
    rows = "".join(f"{k % 7},{k % 3 + k % 7}\n" for k in range(ROWS))
    file.write_text(f"x,y\n{rows}", encoding="utf-8")
    quick = ("--iters", 3, "--n-alphas", 1, "--no-plots", "--test-loss", "squared")
    command("fit", file, "--target", "y", "--out", tmp_path / "o", *quick)
    return file, tmp_path / "o" / "model.json"


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_delimiters_are_found_behind_a_name_of_two_lines(delimiter, tmp_path):
    file = tmp_path / "d.csv"
    file.write_text(f'"area\n(m²)"{delimiter}"y"\n1{delimiter}2\n', encoding="utf-8")
    table = read_table(file)
    assert table.frame.column_names == ["area\n(m²)", "y"]
    assert table.frame["y"].to_pylist() == ["2"]


def test_a_level_of_thousands_of_digits_is_a_name():
    digits = "9" * 5000  # more than Python makes an integer of
    encoder = sp.TableEncoder().fit({"code": [digits, "a"] * (ROWS // 2)})
    assert encoder.columns_[0].levels == (digits, "a")


def test_numbers_beyond_double_precision_are_not_finite(tmp_path):
    if np.finfo(np.longdouble).max == np.finfo(float).max:
        pytest.skip("no extended precision here")
    file = tmp_path / "d.npz"
    np.savez(file, x=np.full(ROWS, np.longdouble("1e4000")), y=np.arange(ROWS))
    with pytest.raises(DataError, match="'x' has a number that is not finite, in row 1"):
        sp.TableEncoder().fit(read_table(file).frame)


def test_a_model_with_an_integer_of_thousands_of_digits(fitted):
    _, model = fitted
    entries = json.loads(model.read_text(encoding="utf-8"))
    entries["model"]["attributes"]["n_samples_"] = 12345
    model.write_text(json.dumps(entries).replace("12345", "1" * 5000), encoding="utf-8")
    with pytest.raises(DataError, match="is not a model"):
        sp.load_model(model)


def test_an_error_on_new_rows_that_is_no_number(fitted, tmp_path):
    _, model = fitted
    new = tmp_path / "new.csv"
    new.write_text("x,y\n1,1e300\n", encoding="utf-8")
    result = command("predict", model, new)
    assert "on these 1 rows: too large" in result.stderr
    assert "inf" not in result.output


def test_a_target_of_new_rows_that_is_refused(fitted, tmp_path):
    _, model = fitted
    new = tmp_path / "new.csv"
    new.write_text("x,y\n1,inf\n", encoding="utf-8")
    result = command("predict", model, new, code=3)
    assert "not finite, in line 2" in result.stderr
    assert not result.stdout  # no predictions before the error


def test_standard_errors_of_large_losses_in_single_precision():
    changes = np.random.default_rng(0).standard_normal((3, 20, 2)) * 1e11
    expected = Interactions(changes).stderr() ** 2
    found = Interactions(changes.astype(np.float32)).stderr() ** 2
    np.testing.assert_allclose(found, expected, rtol=1e-4)


@pytest.mark.parametrize("delta", [1e-300, 1e-3, 1e300])
def test_pseudo_huber_between_its_limits(delta):
    r = np.array([0.0, 1e-9, 1.0, -1e140])
    found = CRITERIA["pseudo_huber"](delta)(r, np.zeros(4))
    small = np.abs(r) < 1e-3 * delta
    large = np.abs(r) > 1e9 * delta
    np.testing.assert_allclose(found[small], r[small] ** 2 / 2, rtol=1e-6)
    np.testing.assert_allclose(found[large], delta * np.abs(r[large]), rtol=1e-6)


def test_changes_that_are_all_zero_have_no_variance():
    assert Interactions(np.zeros((2, 5, 2))).stderr().tolist() == [0.0, 0.0]


@pytest.mark.parametrize("size", [1e-200, 1e200])
def test_targets_whose_errors_have_no_standard_error(size, tmp_path):
    y = np.random.default_rng(0).standard_normal(ROWS) * size
    file = tmp_path / "d.csv"
    rows = "".join(f"{k % 7},{value!r}\n" for k, value in enumerate(y.tolist()))
    file.write_text(f"x,y\n{rows}", encoding="utf-8")
    line = command("fit", file, "--target", "y", "--out", tmp_path / "o", code=3).stderr
    assert line.startswith("Error: y has entries of magnitude up to")
    assert "rescale y" in line


def test_a_tolerance_whose_square_is_too_large():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((200, 3)), rng.standard_normal(200)
    model = sp.LADLasso(n_alphas=2, n_iter=3, select="last", tol=np.float64(1e155), random_state=0)
    assert model.fit(X, y).n_iter_ == 3  # without a warning
