"""Models in files."""

import json
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import steinpath as sp
from steinpath.app.encoding import Column, Encoding
from steinpath.app.models import Choice
from steinpath.app.saved_intervals import for_file
from steinpath.app.tables import DataError
from steinpath.inference._prediction_intervals import PredictionIntervals

CHOICE = Choice("lad", "lasso", {"gamma": 3.0}, 0.1, 7, 300, "absolute", 0.0, 1.5, 0.1, 1.4, 200)


@pytest.fixture
def model():
    columns = (
        Column("größe", "number"),
        Column("town", "category", ("A", "B", "(other)")),
        Column("new", "binary", ("no", "yes"), "no"),
    )
    return sp.Model(
        Encoding("price", columns),
        np.array([2.0, 10.0, 20.0, 30.0, 0.5]),
        100.0,
        CHOICE,
        ("few rows",),
        "0.1",
    )


@pytest.fixture
def entries(model, tmp_path):
    model.save(tmp_path / "m.json")
    return json.loads((tmp_path / "m.json").read_text(encoding="utf-8"))


def test_what_is_saved_is_what_is_loaded(model, tmp_path):
    model.save(tmp_path / "m.json")
    again = sp.load_model(tmp_path / "m.json")
    assert again.encoding == model.encoding
    assert again.choice == model.choice
    assert again.warnings == model.warnings
    assert (again.intercept, again.steinpath_version) == (100.0, "0.1")
    np.testing.assert_array_equal(again.coef, model.coef)
    assert again.feature_names == ["größe", "town=A", "town=B", "town=(other)", "new=yes"]
    assert "'price', lad + lasso: 5 of 5 coefficients" in repr(again)
    again.save(tmp_path / "n.json")
    assert (tmp_path / "n.json").read_bytes() == (tmp_path / "m.json").read_bytes()


def test_numbers_survive_to_the_last_bit(model, tmp_path):
    coef = np.random.default_rng(0).standard_normal(5) * 10.0 ** np.arange(-2, 3)
    sp.Model(model.encoding, coef, 1 / 3, CHOICE).save(tmp_path / "m.json")
    again = sp.load_model(tmp_path / "m.json")
    np.testing.assert_array_equal(again.coef, coef)
    assert again.intercept == 1 / 3


def test_a_standard_error_that_is_not_known(model, tmp_path):
    choice = replace(CHOICE, stderr=np.inf)
    sp.Model(model.encoding, model.coef, 0.0, choice).save(tmp_path / "m.json")
    assert '"stderr": null' in (tmp_path / "m.json").read_text(encoding="utf-8")
    assert sp.load_model(tmp_path / "m.json").choice == choice


def test_predictions(model):
    new = pd.DataFrame(
        {"town": ["A", "B", "Rome"], "größe": [1, 2, 3], "new": ["yes", None, "no"], "x": 0}
    )
    with pytest.warns(UserWarning, match="'town' has 1 value"):
        predictions = model.predict(new)
    np.testing.assert_array_equal(predictions, [112.5, 124.0, 136.0])
    assert model.predict(dict(new.iloc[:1])) == [112.5]


def test_predictions_that_overflow_are_refused(model):
    with pytest.raises(DataError, match="row 1 are too large"):
        model.predict({"town": ["A"], "größe": [1.7e308], "new": ["no"]})


def test_arrays_have_no_names(model):
    with pytest.raises(TypeError, match="data frame"):
        model.predict(np.zeros((2, 5)))


# ------------------------------------------------------------------------------------------------
# Prediction intervals
# ------------------------------------------------------------------------------------------------


def intervals_of(n=90, p=5, folds=3, seed=0, **options):
    rng = np.random.default_rng(seed)
    coef = rng.standard_normal((folds, p)) * (rng.random((folds, p)) < 0.6)
    return PredictionIntervals(
        coef, rng.standard_normal(folds), rng.integers(0, folds, n), rng.standard_t(2, n), **options
    )


NEW = {"town": ["A", "B", "A"], "größe": [1.0, 2.0, -3.0], "new": ["yes", "no", "no"]}
X_NEW = np.array([[1.0, 1, 0, 0, 1], [2.0, 0, 1, 0, 0], [-3.0, 1, 0, 0, 0]])


@pytest.mark.parametrize("level", [0.5, 0.9])
def test_intervals_are_those_of_cross_conformal_prediction(model, level, tmp_path):
    """By the formula: order statistics over rows of fold predictions less or plus residuals."""
    kept = intervals_of()
    replace(model, intervals=kept).save(tmp_path / "m.json")
    bounds = sp.load_model(tmp_path / "m.json").predict_interval(NEW, level)
    predictions = X_NEW @ kept.coef.T + kept.intercept
    rank = math.floor(round((1 - level) * (len(kept.fold) + 1), 9))
    for k in range(3):
        centres, sizes = predictions[k, kept.fold], np.abs(kept.residuals)
        lower, upper = np.sort(centres - sizes)[rank - 1], np.sort(centres + sizes)[-rank]
        np.testing.assert_allclose(bounds[k], [lower, upper], rtol=1e-12)


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("centred", [False, True])
def test_intervals_are_the_same_after_saving(model, symmetric, centred, tmp_path):
    centre = (np.array([0.0, 1.0, 0.0, 0.0, 2.0]), 3.0) if centred else None
    before = replace(model, intervals=intervals_of(symmetric=symmetric, model=centre))
    before.save(tmp_path / "m.json")
    after = sp.load_model(tmp_path / "m.json")
    assert after.intervals.symmetric == symmetric
    np.testing.assert_array_equal(
        after.predict_interval(NEW, 0.8), before.predict_interval(NEW, 0.8)
    )
    after.save(tmp_path / "n.json")
    assert (tmp_path / "n.json").read_bytes() == (tmp_path / "m.json").read_bytes()


def test_a_model_saved_without_intervals_says_how_to_get_them(model, tmp_path):
    model.save(tmp_path / "m.json")
    assert '"intervals"' not in (tmp_path / "m.json").read_text(encoding="utf-8")
    again = sp.load_model(tmp_path / "m.json")
    assert again.intervals is None
    with pytest.raises(DataError, match=r"saved without prediction intervals.* `steinpath fit`"):
        again.predict_interval(NEW)


@pytest.mark.parametrize(
    ("level", "said"),
    [(0.0, "level"), (1.0, "level"), (np.nan, "level"), ("a", "level"), (0.999, "highest")],
)
def test_levels_that_are_none(model, level, said):
    with pytest.raises(DataError, match=said):
        replace(model, intervals=intervals_of()).predict_interval(NEW, level)


def test_intervals_of_numbers_that_are_too_large_name_the_row(model):
    large = NEW | {"größe": [1.0, 1.7e308, 1.0]}
    steep = PredictionIntervals(np.full((1, 5), 9.0), np.zeros(1), np.zeros(9, int), np.ones(9))
    with pytest.raises(DataError, match="row 2 are too large"):
        replace(model, intervals=steep).predict_interval(large, 0.5)


def test_a_file_keeps_a_bounded_number_of_residuals_and_no_zeros(model, tmp_path):
    many = intervals_of(n=50_000)
    kept = for_file(many)
    assert len(kept.residuals) <= 2000
    replace(model, intervals=kept).save(tmp_path / "m.json")
    assert (tmp_path / "m.json").stat().st_size < 100_000
    found = json.loads((tmp_path / "m.json").read_text(encoding="utf-8"))["intervals"]["folds"]
    assert sum(len(fold["residuals"]) for fold in found) == len(kept.residuals)
    assert [len(fold["coef"]) for fold in found] == np.count_nonzero(many.coef, axis=1).tolist()
    # conservative, and close to those of all residuals
    X = np.random.default_rng(0).standard_normal((50, 5))
    whole, thin = many.interval(X, 0.9), kept.interval(X, 0.9)
    assert (thin[:, 0] <= whole[:, 0]).all()
    assert (thin[:, 1] >= whole[:, 1]).all()
    np.testing.assert_allclose(thin, whole, atol=0.1 * np.ptp(whole, axis=1).mean())


def test_intervals_too_large_for_a_file_are_left_out():
    fold, residuals = np.arange(10) % 2, np.ones(10)
    large = PredictionIntervals(np.ones((2, 500_001)), np.zeros(2), fold, residuals)
    assert for_file(large) is None
    sparse = np.zeros((2, 500_001))
    sparse[:, ::2] = 1.0
    assert for_file(PredictionIntervals(sparse, np.zeros(2), fold, residuals)) is not None


def change(key, value):
    def do(entries):
        entries[key] = value

    return do


@pytest.mark.parametrize(
    ("do", "said"),
    [
        (lambda e: e.pop("format"), "'format'"),
        (change("version", 2), "newer"),
        (change("version", "1"), "newer"),
        (lambda e: e.pop("coef"), "'coef'"),
        (lambda e: e["coef"].pop("größe"), "'coef'"),
        (lambda e: e["coef"].update({"größe": "2"}), "not a number"),
        (lambda e: e["coef"].update({"größe": None}), "not a number"),
        (lambda e: e["coef"].update({"größe": True}), "not a number"),
        (lambda e: e["coef"].update({"größe": 10**400}), "not a number"),
        (change("intercept", [1]), "not a number"),
        (change("risk", "small"), "not a number"),
        (change("loss", 3), "not a string"),
        (change("parameters", [1]), "named numbers"),
        (change("warnings", "none"), "'warnings'"),
        (change("columns", {}), "list"),
        (change("columns", [{"name": "a"}]), "kind"),
        (change("target", None), "target"),
        (change("version", True), "newer"),
        (change("stderr", -1), "numbers are not valid"),
        (change("iterate", 301), "numbers are not valid"),
        (change("test_loss", "nope"), "'test_loss'"),
        (change("test_loss", "quantile"), "'test_loss'"),
    ],
    ids=range(22),
)
def test_models_that_are_none(do, said, entries, tmp_path):
    do(entries)
    file = tmp_path / "bad.json"
    file.write_text(json.dumps(entries), encoding="utf-8")
    with pytest.raises(DataError, match=said) as caught:
        sp.load_model(file)
    assert "is not a model" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"\x80\x04K.", b"[" * 10**6, b'{"intercept": NaN}', b"null"],
    ids=range(6),
)
def test_files_that_are_no_models(content, tmp_path):
    file = tmp_path / "bad.json"
    file.write_bytes(content)
    with pytest.raises(DataError, match="is not a model"):
        sp.load_model(file)


def test_every_way_of_cutting_a_model_off(model, tmp_path):
    model.save(tmp_path / "m.json")
    whole, file = (tmp_path / "m.json").read_bytes(), tmp_path / "cut.json"
    for size in range(0, len(whole) - 2, 37):
        file.write_bytes(whole[:size])
        with pytest.raises(DataError, match="is not a model"):
            sp.load_model(file)


def test_huge_files_are_not_read(tmp_path):
    file = tmp_path / "huge.json"
    with open(file, "wb") as huge:
        huge.truncate(2**29)
    with pytest.raises(DataError, match="too large"):
        sp.load_model(file)


def test_nothing_is_there_to_read(tmp_path):
    with pytest.raises(DataError, match="cannot read"):
        sp.load_model(tmp_path / "none.json")
    with pytest.raises(DataError, match="cannot read"):
        sp.load_model(tmp_path)
