"""Models in files."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import steinpath as sp
from steinpath.app.encoding import Column, Encoding
from steinpath.app.models import Choice
from steinpath.app.tables import DataError

CHOICE = Choice("lad", "lasso", {"gamma": 3.0}, 0.1, 7, 300, "absolute", 0.0, 1.5, 0.1, 1.4, 200)


@pytest.fixture
def model():
    columns = (
        Column("größe", "number"),
        Column("town", "category", ("A", "B", "(other)")),
        Column("new", "yes or no", ("no", "yes"), "no"),
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
    assert "'price' by lad + lasso: 5 of 5 coefficients" in repr(again)
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
        (change("loss", 3), "not a text"),
        (change("parameters", [1]), "named numbers"),
        (change("warnings", "none"), "'warnings'"),
        (change("columns", {}), "list"),
        (change("columns", [{"name": "a"}]), "kind"),
        (change("target", None), "target"),
        (change("version", True), "newer"),
        (change("stderr", -1), "not those of a fit"),
        (change("iterate", 301), "not those of a fit"),
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
    assert "is no model" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"\x80\x04K.", b"[" * 10**6, b'{"intercept": NaN}', b"null"],
    ids=range(6),
)
def test_files_that_are_no_models(content, tmp_path):
    file = tmp_path / "bad.json"
    file.write_bytes(content)
    with pytest.raises(DataError, match="is no model"):
        sp.load_model(file)


def test_every_way_of_cutting_a_model_off(model, tmp_path):
    model.save(tmp_path / "m.json")
    whole, file = (tmp_path / "m.json").read_bytes(), tmp_path / "cut.json"
    for size in range(0, len(whole) - 2, 37):
        file.write_bytes(whole[:size])
        with pytest.raises(DataError, match="is no model"):
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
