"""Data frames: encoded, fitted, reported, saved and loaded, alike for all libraries."""

import numpy as np
import pandas as pd
import polars
import pyarrow as pa
from sklearn.base import clone, is_classifier
from sklearn.pipeline import make_pipeline

import steinpath as sp
from datafiles import columns_of, damaged, with_gaps
from file_surfaces import check_numbers, visible
from inputs import chance, mostly, one_of
from outcomes import Refusal, check, check_finite, evaluate

ODD = 1e300, -1e308, float("inf"), float("nan"), "new", "2020-01-01", True, None, b"x", 1j, [1]


def frames(case):
    """Features, model, report and model file do not depend on the library of the frame."""
    rng = case.rng
    n = int(one_of(rng, (1, 9, *(10, 12, 20, 30, 40, 60) * 2)))
    *columns, target = columns_of(rng, n)
    if chance(rng, 0.25):
        with_gaps(rng, columns)
    kinds = rng.permutation(len(LIBRARIES))[:2]
    frame, same = (LIBRARIES[kind](rng, columns) for kind in kinds)
    case.note(libraries=kinds, columns=columns, target=target)
    names = [column.name for column in columns]
    encoder = evaluate(lambda: _encoder(case, names))
    X = evaluate(lambda: encoder.fit_transform(frame))
    again = evaluate(lambda: clone(encoder).fit_transform(same))
    if isinstance(X, Refusal):
        check(isinstance(again, Refusal), f"another library is not refused: {X.message}")
        return X
    check_finite("X", X)
    features = encoder.get_feature_names_out().tolist()
    check(len(set(features)) == len(features) == X.shape[1], f"features are {features}")
    for found in (again, evaluate(lambda: encoder.transform(same))):
        check(not isinstance(found, Refusal), f"another library is refused: {found}")
        check(np.array_equal(found, X), "another library has other features")
    model = make_pipeline(encoder, _model(case, target.kind == "text"))
    y = one_of(rng, (np.array, list, pd.Series, polars.Series))(target.values)
    fitted = evaluate(lambda: model.fit(frame, y))
    if isinstance(fitted, Refusal):
        return fitted
    predicted = evaluate(lambda: _decided(model, frame))
    check(not isinstance(predicted, Refusal), f"the rows of the fit are refused: {predicted}")
    _check_report(case, model, target)
    _check_saved(case, model, same, predicted)
    return _check_new(case, model, columns)


def _encoder(case, names):
    rng = case.rng
    some = (), (), (), [one_of(rng, names)], tuple(names[1:])
    wrong = "x", ["nowhere"], 3, None
    options = case.note(
        missing=mostly(rng, ("impute", "impute", "error"), ("drop", None), wrong=0.02),
        categories=mostly(rng, some, wrong, wrong=0.01),
        drop=mostly(rng, some, wrong, wrong=0.01),
        keep=mostly(rng, some, wrong, wrong=0.01),
        decimal=mostly(rng, (None, None, ",", "."), (";", 3), wrong=0.01),
        na=mostly(rng, ((), ["no", "A1"]), (3, None), wrong=0.01),
        date_format=mostly(rng, (None, None, "%d.%m.%Y"), ("", 3), wrong=0.01),
        curves=mostly(rng, (False, False, True, "auto"), ("yes", 3, None), wrong=0.01),
        products=mostly(rng, (False, False, True, "auto"), ("yes", 3, [("x",)]), wrong=0.01),
        knots=mostly(rng, (8, 3, 20), (2, "x"), wrong=0.01),
        degree=mostly(rng, (1, 3), (0, None), wrong=0.01),
    )
    return sp.TableEncoder(**options)


def _model(case, classes):
    """A classifier or a regression that is fitted in no time."""
    rng = case.rng
    options = case.note(
        n_iter=one_of(rng, (1, 3, 12)),
        alpha=one_of(rng, (0.1, "auto", "auto")),
        method=one_of(rng, ("auto", "auto", "folds", "compressed", None)),
        loss=one_of(rng, ("logistic", "hinge") if classes else ("lad", "huber", "square_root")),
        penalty=one_of(rng, ("lasso", "ridge", "mcp", "none")),
    )
    if options["method"] is None:
        options |= {"alpha": 0.1, "select": "last"}
    if not classes:
        options |= case.note(transform_target=one_of(rng, (None, None, "auto", "log")))
    kind = sp.PathClassifier if classes else sp.PathRegressor
    return kind(**options, n_alphas=3, random_state=0)


def _check_report(case, model, target):
    """A report of a model with an estimated risk has no number that is none."""
    rng, page = case.rng, case.folder / "report.html"
    intervals = bool(chance(rng, 0.2) and target.kind != "text")
    how = {"target": one_of(rng, (None, target.name)), "intervals": intervals}
    case.note(report=how)
    written = evaluate(lambda: sp.report(model, page, **how))
    if isinstance(written, Refusal):
        check(not page.exists(), "a page is there although it was refused")
        known = case.tried["method"] is not None and not how["intervals"]
        check(not known, f"no report of a fitted model: {written.message}")
    else:
        check_numbers("report", visible(page))


def _check_saved(case, model, frame, predicted):
    """A saved model predicts the same, and has no training data for a report."""
    file = case.folder / "model.json"
    saved = evaluate(lambda: sp.save_model(model, file))
    check(not isinstance(saved, Refusal), f"a fitted model is not saved: {saved}")
    loaded = evaluate(lambda: sp.load_model(file))
    check(not isinstance(loaded, Refusal), f"a model that was saved is refused: {loaded}")
    found = evaluate(lambda: _decided(loaded, frame))
    check(np.array_equal(found, predicted), "a model that was saved predicts otherwise")
    refused = evaluate(lambda: sp.report(loaded, case.folder / "no.html"))
    check(isinstance(refused, Refusal), "a report without training data")
    if chance(case.rng, 0.2):
        content = damaged(case.rng, file.read_bytes())
        file.write_bytes(content)
        case.note(content=content)
        again = evaluate(lambda: sp.load_model(file))
        if isinstance(again, Refusal):
            check(again.kind in ("DataError", "ValueError"), f"{again.kind}: {again.message}")


def _check_new(case, model, columns):
    """New rows that differ from those of the fit are predicted or refused."""
    rng = case.rng
    columns = {column.name: list(column.values) for column in columns}
    name, odd = one_of(rng, list(columns)), one_of(rng, ODD)
    changed = one_of(rng, ("gone", "all", "first", "few", "other"))
    case.note(name=name, odd=odd, changed=changed)
    if changed == "gone":
        del columns[name]
    elif changed == "all":
        columns[name] = [odd] * len(columns[name])
    elif changed == "first":
        columns[name][0] = odd
    elif changed == "few":
        few = rng.integers(3)
        columns = {other: values[:few] for other, values in columns.items()}
    else:
        columns[name] = one_of(rng, list(columns.values()))
    frame = one_of(rng, (dict, pd.DataFrame))(columns)
    predicted = evaluate(lambda: _decided(model, frame))
    if not isinstance(predicted, Refusal):
        check_finite("predictions of new rows", predicted)
    return predicted


def _decided(model, frame):
    """Predictions; of classes, the numbers that decide between them."""
    return np.asarray((model.decision_function if is_classifier(model) else model.predict)(frame))


# ----- Libraries -----


def _pandas(rng, columns):
    dtypes = {
        "number": ("float64", "Float64", "object"),
        "date": (None, "object"),
        "text": ("object", "string", "category"),
    }
    return pd.DataFrame(
        {
            column.name: pd.Series(column.values, dtype=one_of(rng, dtypes[column.kind]))
            for column in columns
        }
    )


def _polars(rng, columns):
    dtypes = {
        "number": (polars.Float64,),
        "date": (polars.Datetime("us"),),
        "text": (polars.String, polars.Categorical),
    }
    return polars.DataFrame(
        [polars.Series(x.name, x.values, dtype=one_of(rng, dtypes[x.kind])) for x in columns]
    )


def _arrow(rng, columns):
    types = {"number": pa.float64(), "date": pa.timestamp("us"), "text": pa.string()}
    return pa.table({x.name: pa.array(x.values, types[x.kind]) for x in columns})


def _mapping(rng, columns):
    return {column.name: column.values for column in columns}


LIBRARIES = _pandas, _polars, _arrow, _mapping
