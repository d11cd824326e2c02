"""Files of models that are cut off, huge or made to harm: an error of ours, and nothing runs."""

import copy
import json
import os
import sys
import threading
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import Pipeline, make_pipeline

import steinpath as sp
from steinpath._support.messages import DataError
from steinpath.app.models import load_model, load_model_file, read_json, save_model
from steinpath.estimators._encoder import TableEncoder
from steinpath.inference._prediction_intervals import PredictionIntervals

RNG = np.random.default_rng(0)
ROWS = pd.DataFrame(
    {
        "größe": RNG.standard_normal(40),
        "town": np.array(["A", "B", "C"])[np.arange(40) % 3],
        "new": np.array(["no", "yes"])[np.arange(40) // 2 % 2],
    }
)
INTERVALS = PredictionIntervals(
    coef=np.array([[2.0, 0.0, 21.0, 30.0, 0.0], [0.0, 0.0, 0.0, 0.0, 0.0]]),
    intercept=np.array([99.0, 101.0]),
    fold=np.array([0, 0, 0, 1]),
    residuals=np.array([1.5, -0.25, 0.75, -2.5]),
    model=(np.array([1.0, 0.0, 0.0, 0.0, 4.5]), 98.0),
)


def small_model():
    """A model whose numbers are known, so that tests can look for them in its file."""
    y = 100 + 2 * ROWS["größe"].to_numpy() + RNG.standard_normal(40)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about few rows
        model = make_pipeline(TableEncoder(), sp.LADLasso(n_alphas=2, random_state=0)).fit(ROWS, y)
    last = model[-1]
    last.coef_, last.intercept_ = np.array([2.0, 10.0, 20.0, 30.0, 0.5]), 100.0
    last.intervals_, last.warnings_ = INTERVALS, ("few rows",)
    last.best_iter_, last.n_samples_, last.alpha_ = 7, 200, 0.1
    last.random_state = 3
    return model


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    file = tmp_path_factory.mktemp("model") / "m.json"
    save_model(small_model(), file, "price")
    return file.read_bytes()


@pytest.fixture
def refused(tmp_path):
    """What is said of a file with this content."""

    def refused(content):
        file = tmp_path / "bad.json"
        file.write_bytes(content)
        with pytest.raises(DataError) as caught:
            load_model(file)
        message = str(caught.value)
        assert message.startswith(f"{file} is not a model")
        assert len(message.splitlines()) == 1
        assert len(message) < len(str(file)) + 1000
        return message

    return refused


def test_cut_off_after_any_byte(whole, refused):
    for size in range(0, len(whole) - 2, 3):  # without the last line end, all is there
        assert "is not JSON, or is truncated" in refused(whole[:size])


def places(entry, path=()):
    """All entries of a JSON document, by the way to them."""
    yield path
    if isinstance(entry, dict | list):
        for key, value in entry.items() if isinstance(entry, dict) else enumerate(entry):
            yield from places(value, (*path, key))


def with_other(entry, path, value):
    if not path:
        return None if value is ... else value
    entry = copy.deepcopy(entry)
    inner = entry
    for key in path[:-1]:
        inner = inner[key]
    if value is ...:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    return entry


# None of these is right anywhere; those after the dots are where they are not of the right type.
NEVER = [True, 10**400, -(10**3999), "\ud800", [[]], {"a": []}, [None]]
ANYTHING = [None, -1, 0.5, "", "x", "../../etc/passwd", "a\0b", "\x1b[2J", [], {}, ["a"], ...]
# Entries that may be any text: parameters are checked by `fit`, as those of any estimator.
TEXTS = {("steinpath_version",), ("target",), ("steps", 0), ("steps", 1)}
TEXTS |= {("model", "attributes", name) for name in ("stop_",)}
TEXTS |= {("model", "attributes", "warnings_", 0)}


def is_free(path):
    """Whether an entry may have any plain data: it is a parameter of the estimator or encoder."""
    of_encoder = path[:2] == ("encoder", "parameters") or path[-1:] == ("sign",)
    return (path[:2] == ("model", "parameters") or of_encoder) and len(path) > 2


def test_no_field_takes_what_is_never_right(whole, refused):
    found = json.loads(whole)
    for path in places(found):
        for value in NEVER if not is_free(path) else [10**400, -(10**3999)]:
            if path[-1:] == ("positive",) and isinstance(value, bool):
                continue
            changed = with_other(found, path, value)
            refused(json.dumps(changed).encode("utf-8", "surrogatepass"))


def test_any_field_takes_what_it_should_be_or_refuses_it(whole, tmp_path):
    """What is loaded after a change is a whole model, which can be used and saved again."""
    found = json.loads(whole)
    file, taken = tmp_path / "m.json", set()
    for path in places(found):
        for value in ANYTHING:
            file.write_text(json.dumps(with_other(found, path, value)))
            try:
                saved = load_model_file(file)
            except DataError:
                continue
            if is_free(path):
                continue
            taken.add((path, repr(value)))
            model = saved.model
            assert isinstance(model, Pipeline)
            assert all(isinstance(text, str) for text in getattr(model[-1], "warnings_", ()))
            assert np.isfinite(model[-1].coef_).all()
            assert repr(model)
            assert np.isfinite(model.predict(ROWS)).all()
            if hasattr(model[-1], "intervals_"):
                bounds = model[-1].predict_interval(model[:-1].transform(ROWS), 0.5)
                assert (bounds[:, 0] <= bounds[:, 1]).all()
            save_model(model, file, saved.target)
            np.testing.assert_array_equal(load_model(file).predict(ROWS), model.predict(ROWS))
    texts = {repr(value) for value in ANYTHING if isinstance(value, str) and value}
    assert {path for path, value in taken if value in texts} == TEXTS
    lengths = {path for path, value in taken if value in ("[]", "{}", "['a']")}
    # a fold may have no residuals after thinning, and the second one has no coefficients
    folds = {("model", "intervals", "folds", k, "residuals") for k in (0, 1)}
    folds |= {("model", "intervals", "folds", 1, name) for name in ("index", "coef")}
    others = {("reading",), ("encoder", "columns", 0, "levels"), ("model", "parameters")}
    others |= {("model", "attributes"), ("model", "attributes", "warnings_")}
    others |= {("encoder", "columns", k, "curves") for k in range(3)}
    others |= {("model", "attributes", "loss_", "parameters")}  # empty, as it was
    assert lengths == {*others, ("encoder", "parameters")} | folds


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (b"100.0", b"1e999", "'intercept' is not a number"),
        (b"100.0", b"1" * 100_000, "is not a valid number"),
        (b"100.0", b"NaN", "NaN is not a valid number"),
        (b'"intercept": 100.0', b'"intercept": 1.0, "intercept": 100.0', "more than once"),
        (b'"best_iter_": 7', b'"best_iter_": 7.0', "not a nonnegative integer"),
        (b'"n_samples_": 200', b'"n_samples_": -200', "not a nonnegative integer"),
        (b'"alpha_": 0.1', b'"alpha_": -0.1', "out of range"),
        (b'"few rows"', b'"\\ud800"', "'warnings_' is not a string"),
        (b'"steinpath_version": "', b'"steinpath_version": {}, "x": "', "and nothing else"),
        (b'"random_state": 3', b'"random_state": ' + b"[" * 100_000, "not JSON"),
        (b"{", b"\xef\xbb\xbf{", "not JSON"),
        (b"-2.5", b"1e999", "'residuals' is not a number"),
        (b'"scores": "absolute"', b'"scores": "squared"', "'scores' is not valid"),
        (b'"scores": "absolute",', b"", "must have 'scores', 'model', 'folds' and nothing else"),
        (b'"LADLasso"', b'"os.system"', "not an estimator of steinpath"),
        (b'"penalty": "lasso"', b'"penalty": "os.system"', "'penalty_' is not valid"),
    ],
    ids=range(16),
)
def test_changes_that_json_allows(whole, refused, old, new, said):
    assert old in whole
    assert said in refused(whole.replace(old, new, 1))


FOLD = {"intercept": 0.0, "index": [0, 2], "coef": [1.0, 2.0], "residuals": [0.5]}


@pytest.mark.parametrize(
    ("folds", "said"),
    [
        ([], "none, or too many"),
        ([FOLD | {"index": [0]}], "too many or too few"),
        ([FOLD | {"index": [0, 10**12]}], "from 0 to 4 at most"),
        ([FOLD | {"index": [2, 2]}], "must increase"),
        ([FOLD | {"index": [-1, 2]}], "'index' is not a nonnegative integer"),
        ([FOLD | {"residuals": []}], "'residuals' is not valid"),
        ([FOLD, [1, 2]], "'folds' must have"),
        ([0] * 7_000_000, "none, or too many"),  # takes little room in a file
    ],
    ids=range(8),
)
def test_intervals_that_are_none(whole, refused, folds, said):
    changed = with_other(json.loads(whole), ("model", "intervals", "folds"), folds)
    assert said in refused(json.dumps(changed).encode())


def test_names_are_names(whole, tmp_path):
    """Also those that would be files, code or markup elsewhere."""
    file = tmp_path / "m.json"
    for name in ("../../etc/passwd", "/dev/null", "__class__", "{0.__init__}", "%s%n", "${x}"):
        file.write_bytes(whole.replace("größe".encode(), name.encode()))
        assert load_model(file)[:-1].get_feature_names_out()[0] == name
        assert sorted(path.name for path in tmp_path.iterdir()) == ["m.json"]


def test_the_largest_model(tmp_path):
    """A file of nothing but its size is refused for that, under its name."""
    file = tmp_path / "m.json"
    file.touch()
    os.truncate(file, 2**28 + 1)
    with pytest.raises(DataError, match=r"m\.json is not a model .* too large for a model"):
        load_model(file)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes")
def test_a_pipe_is_read_to_the_limit(tmp_path, whole):
    os.mkfifo(tmp_path / "m.json")
    for limit, said in ((len(whole), None), (len(whole) - 1, "too large")):
        writer = threading.Thread(target=(tmp_path / "m.json").write_bytes, args=(whole,))
        writer.start()
        if said is None:
            assert read_json(tmp_path / "m.json", limit) == json.loads(whole)
        else:
            with pytest.raises(DataError, match=said):
                read_json(tmp_path / "m.json", limit)
        writer.join()


def test_depth_does_not_depend_on_the_limit_of_recursion(refused, monkeypatch):
    before = sys.getrecursionlimit()
    for depth in (500, 5_000, 500_000):
        refused(b'{"format": ' * depth + b"1" + b"}" * depth)
        refused(b'{"format": "steinpath model", "x": ' + b"[" * depth + b"]" * depth + b"}")
    assert sys.getrecursionlimit() == before
