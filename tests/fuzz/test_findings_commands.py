"""What the fuzzer found of files and commands, each as small as it can be."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

import steinpath as sp
from steinpath.app.cli import main
from steinpath.app.tables import DataError, read_table
from steinpath.problem._scoring import CRITERIA
from steinpath.risk._held_out import Interactions

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


# ------------------------------------------------------------------------------------------------
# Files
# ------------------------------------------------------------------------------------------------


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


# ------------------------------------------------------------------------------------------------
# Commands
# ------------------------------------------------------------------------------------------------


def test_an_error_on_new_rows_that_is_no_number(fitted, tmp_path):
    _, model = fitted
    new = tmp_path / "new.csv"
    new.write_text("x,y\n1,1e300\n", encoding="utf-8")
    result = command("predict", model, new)
    assert "on these 1 rows: too large" in result.stderr
    assert "inf" not in result.output


@pytest.mark.parametrize("option", ["--n-iter", "--n-alphas"])
def test_numbers_that_no_fit_takes_are_wrong_options(option, fitted):
    file, _ = fitted
    line = command("fit", file, "--target", "y", option, 10**13, code=2).stderr
    assert line.startswith(f"Error: Invalid value for '{option}'")


# ------------------------------------------------------------------------------------------------
# Sizes
# ------------------------------------------------------------------------------------------------


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
