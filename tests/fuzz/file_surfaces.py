"""Surfaces that are files: what is read from them, models kept in them, and the command."""

import contextlib
import csv
import json
import re
import sys
import traceback
import warnings
from pathlib import Path
from unittest import mock

import numpy as np
from click.testing import CliRunner
from sklearn.base import is_classifier
from sklearn.pipeline import make_pipeline

import steinpath as sp
import steinpath.app.cli
from datafiles import ODD_NAMES, DataFile, damaged, data_file
from inputs import chance, mostly, one_of
from outcomes import Finding, Refusal, check, check_finite, evaluate, refusal
from steinpath._support.cells import missing, read_column, texts
from steinpath.app import TASKS
from steinpath.app.cli.commands import usable_names
from steinpath.app.models import load_model_file, save_model_file
from steinpath.app.tables import FileFormat, read_table
from steinpath.app.tables.table import plain
from steinpath.app.target import check_roles, read_roles
from steinpath.engine import _data
from steinpath.problem._losses import LOSSES
from steinpath.problem._penalties import PENALTIES
from steinpath.problem._scoring import CRITERIA


def files(case):
    """A file, read, encoded and predicted from; a model, written and read."""
    rng = case.rng
    file = data_file(rng, case.folder, wild=one_of(rng, (0.0, 0.2, 0.6)))
    case.note(file=file.path.name, content=file.path.read_bytes(), columns=file.columns)
    target = one_of(rng, file.names) if chance(rng, 0.1) else file.names[-1]
    others = [name for name in file.names if name != target]
    options = case.note(
        impute=chance(rng, 0.5),
        drop=[one_of(rng, file.names)] if chance(rng, 0.1) else [],
        categories=[one_of(rng, others)] if others and chance(rng, 0.2) else [],
    )
    table = usable(lambda: read_table(file.path, labels=options["categories"]), file.path)
    if isinstance(table, Refusal):
        check(not file.columns, f"a sound file is refused: {table.message}")
        damage_told = "damaged" in table.message
        check(not (damage_told and file.whole), f"a whole file is damaged: {table.message}")
        return table
    columns = usable(lambda: _columns(table))
    if isinstance(columns, Refusal):
        check(not file.columns, f"the columns of a sound file are refused: {columns.message}")
        return columns
    _check_columns(table, columns)
    if file.columns and not options["categories"]:
        _check_values(file, columns)
    encoded = usable(lambda: _encoded(table, target, **options))
    if isinstance(encoded, Refusal):
        return encoded
    encoder, X, y, task = encoded
    check_finite("X", X)
    names = encoder.get_feature_names_out().tolist()
    check(len(set(names)) == len(names) == X.shape[1], f"features are {names}")
    model = _some_model(rng, task)
    # of numbers: X and y may have too few rows, or entries that are too large
    fitted = evaluate(lambda: model.fit(X, y))
    if isinstance(fitted, Refusal):
        check(fitted.kind == "ValueError", f"{fitted.kind}: {fitted.message}")
        return fitted
    check_finite("coef", model.coef_)
    if task == "regression" and chance(rng, 0.5):
        model.coef_, model.intercept_ = rng.standard_normal(len(names)), rng.standard_normal()
    return _round_trip(case, make_pipeline(encoder, model), target, file, table)


def _columns(table, labels=()):
    """All columns as numbers, dates or texts."""
    frame = table.frame
    return {
        name: read_column(name, plain(frame.column(name)), table.format, name in labels).values
        for name in frame.column_names
    }


def _encoded(table, target, impute, drop, categories):
    """Do as the command: the fitted encoder, the features, the target and the task."""
    check_roles(table.frame.column_names, target, None, None, *drop, *categories)
    roles = read_roles(table, target, impute=impute)
    if roles.rows is not None:
        table = table.take(roles.rows)
    missing = "impute" if impute else "error"
    encoder = sp.TableEncoder(
        categories=categories, drop=drop, missing=missing, **table.format.of_cells
    )
    return encoder, encoder.fit_transform(table.frame.drop_columns(target)), roles.y, roles.task


def _some_model(rng, task):
    """An estimator that is fitted in no time, mostly without an estimate of its risk."""
    quick = {"alpha": 0.1, "n_iter": 3, "random_state": 0}
    if not chance(rng, 0.1):
        quick |= {"method": None, "select": "last"}
    if task == "classification":
        return sp.PathClassifier(loss=one_of(rng, ("logistic", "hinge")), **quick)
    return sp.PathRegressor(loss=one_of(rng, ("lad", "huber", "square_root")), **quick)


def usable(call, file=None):
    """Call something; only data may be refused, in a line that says where."""
    result = evaluate(call)
    if isinstance(result, Refusal):
        check(result.kind == "DataError", f"{result.kind}: {result.message}")
        check(len(result.message.splitlines()) == 1, f"more than a line: {result.message!r}")
        named = (
            str(file) in result.message
            if file
            else re.search(r"'.*'|\".*\"|\b(line|row|rows|column|columns)\b", result.message)
        )
        check(bool(named), f"does not say where: {result.message!r}")
    return result


def _check_columns(table, columns):
    check(table.frame.num_rows > 0, "there are no rows")
    for name, values in columns.items():
        check(bool(name.strip()), "a name is blank")
        check(len(values) == table.frame.num_rows, f"column {name!r} has {len(values)} rows")
        check(values.dtype.kind in "fMO", f"column {name!r} is of {values.dtype}")
        check(not (values.dtype.kind == "f" and np.isinf(values).any()), f"{name!r} is infinite")
        if values.dtype == object:
            check(all(v is None or (isinstance(v, str) and v) for v in values), f"{name!r}: texts")


def _check_values(file, columns):
    """The values that were written are those that were read."""
    names = [column.name.strip() for column in file.columns]
    check(list(columns) == names, f"columns are {list(columns)}")
    for column, values in zip(file.columns, columns.values(), strict=True):
        gaps = np.array([value is None for value in column.values])
        check(np.array_equal(missing(values), gaps), f"others are missing in {column.name!r}")
        if gaps.all():
            continue
        kind = {"f": "number", "M": "date", "O": "text"}[values.dtype.kind]
        check(kind == column.kind, f"{column.name!r} is read as {kind}")
        expected = [value for value in column.values if value is not None]
        found = values[~gaps]
        if kind == "date":
            expected = np.array(expected, "datetime64[us]")
        if kind == "text":  # as levels, of which true and false may be written in several ways
            expected, found = texts(np.array(expected, object)), texts(found)
        same = [a == b for a, b in zip(found, expected, strict=True)]
        first = same.index(False) if not all(same) else 0
        check(all(same), f"{column.name!r} has {found[first]!r} for {expected[first]!r}")


def _round_trip(case, model, target, file, table):
    """A model in a file predicts the same, what the file says, and in any order of the rows."""
    predictions = usable(lambda: _decided(model, table))
    if isinstance(predictions, Refusal):
        return predictions
    check_finite("predictions", predictions)
    kept = case.folder / "model.json"
    save_model_file(model, kept, target, table.format.to_json())
    saved = usable(lambda: load_model_file(kept))
    check(not isinstance(saved, Refusal), f"a model that was saved is refused: {saved}")
    again = usable(lambda: _read_for(saved, file.path))
    check(not isinstance(again, Refusal), f"read once, but not twice: {again}")
    found = evaluate(lambda: _decided(saved.model, again))
    check(np.array_equal(found, predictions), "a model that was saved predicts otherwise")
    expected, sizes = recomputed(json.loads(kept.read_text(encoding="utf-8")), again)
    off = np.abs(expected - found) / np.maximum(sizes, 1e-300)
    check(off.max() < 1e-12, f"predictions are off by {off.max():.2g}")
    order = case.rng.permutation(again.frame.num_rows)
    moved = evaluate(lambda: _decided(saved.model, again.take(order)))
    off = np.abs(moved - found[order]) / np.maximum(sizes[order], 1e-300)
    check(off.max() < 1e-12, "predictions depend on the order of rows")
    return saved


def recomputed(entries, table):
    """Predictions from the JSON of a model, and the sizes of the terms of their sums."""
    coef = [np.array(values) for values in entries["model"]["coef"].values()]
    used = entries["encoder"]["columns"]
    values = _columns(table, [column["name"] for column in used if column["levels"]])
    intercept = np.array(entries["model"]["intercept"])
    total = np.zeros((table.frame.num_rows, *intercept.shape)) + intercept
    sizes = np.abs(total)
    for column in used:
        for feature in _features(column, values[column["name"]]):
            term = np.multiply.outer(feature, coef.pop(0))
            total, sizes = total + term, sizes + np.abs(term)
    return total, sizes


def _features(column, values):
    """The features of a column, by what the JSON says of it."""
    fill, gaps = column["fill"], missing(values)
    if column["kind"] in ("number", "date"):
        dates = values.dtype.kind == "M"
        numbers = values.astype("int64") / 86_400e6 if dates else values.astype(float)
        features = [np.where(gaps, np.nan if fill is None else fill, numbers)]
    else:
        known = column["levels"]
        named = [fill if text is None else text for text in texts(values)]
        if known[-1] == "(other)":
            named = [text if text in known else "(other)" for text in named]
        levels = known[1:] if column["kind"] == "binary" else known
        features = [np.array([text == level for text in named], float) for level in levels]
    return features + [gaps.astype(float)] * column["indicator"]


def _read_for(saved, path):
    """A file, read as the model says."""
    labels = [column.name for column in saved.model[0].columns_ if column.levels]
    return read_table(path, FileFormat.from_json(saved.format), labels)


def _decided(model, table):
    """Predictions; of classes, the numbers that decide between them."""
    decide = model.decision_function if is_classifier(model[-1]) else model.predict
    return np.asarray(decide(table.frame), float)


WRONG_WORDS = (
    *("", " ", "nan", "inf", "-1", "0", "1e309", "1.5", "9" * 30, "0x10", "٣", "ünï", "\udcff"),
    *("[red]", "%s", "--", "-", "--target", "a" * 5000, "a\nb"),
)
FOLDERS = (
    *(".", "", "a/b/c", "ünï [red] 東京", "n" * 300, "out/", "\udcff", "nowhere/../out", "-"),
    "data.csv/x",
)


def commands(case):
    """A command line: what it promises is there, or one line says why not."""
    rng = case.rng
    wild = one_of(rng, (0.0, 0.0, 0.1, 0.5))
    file = data_file(rng, case.folder, wild=wild, rows=(10, 12, 20, 20, 30, 40, 60))
    case.note(file=file.path.name, content=file.path.read_bytes())
    command = one_of(rng, ("fit", "fit", "fit", "tune", "compare", "predict"))
    large = case.note(large=one_of(rng, (3 * 10**7, 3 * 10**7, 300)))["large"]
    # single precision is for many rows, for which there is no time here
    with contextlib.chdir(case.folder), mock.patch.object(_data, "_LARGE", large):
        if command == "predict":
            return _predict(case, file)
        words = _fit_words(rng, command, file)
        _spoil(rng, words, 0.15)
        result, refused = _call(case, words)
        if refused is not None:
            return refused
        _check_fit(case, command, words, result, file)
        if command != "compare" and chance(rng, 0.2):  # again, over what is there
            _call(case, words)
    return result


def _fit_words(rng, command, file):
    """A command line that is right for a file, or nearly."""
    shown = file.path.name
    if chance(rng, 0.02):
        shown = one_of(rng, ("nowhere.csv", ".", "", "x.xlsx", "..", "\udcff.csv", "n" * 300))
    words = [command, shown, "--iters", str(rng.integers(2, 16))]
    words += ["--n-alphas", str(rng.integers(1, 4))]
    if not chance(rng, 0.02):
        target = file.names[-1].strip()
        # the column before an equals sign, so that one may begin with a dash
        words.append(f"--target={one_of(rng, file.names) if chance(rng, 0.03) else target}")
    if not chance(rng, 0.01):
        words.append("--no-plots")
    if chance(rng, 0.6):
        words.append("--impute")
    if chance(rng, 0.5):
        words.append("--json")
    classes = bool(file.columns) and file.columns[-1].kind == "text"
    if chance(rng, 0.05):
        classes = not classes
    losses, criteria = (
        tuple(name for name in names if kinds[name].margin == classes)
        for names, kinds in ((usable_names(LOSSES), LOSSES), (CRITERIA, CRITERIA))
    )
    if chance(rng, 0.1) and ((command != "compare" and not classes) or chance(rng, 0.1)):
        words.append("--intervals")
    choices = {
        "--loss": tuple(name.replace("_", one_of(rng, "-_")) for name in losses),
        "--penalty": tuple(name.replace("_", "-") for name in usable_names(PENALTIES)),
        "--test-loss": criteria,
        "--task": (TASKS[classes],),
        "--group": tuple(file.names[:-1]),
        "--time": tuple(file.names[:-1]),
        "--rule": ("min", "one-se"),
        "--seed": ("0", "1", "4294967296", "9" * 40),
        "--quantile": ("0.5", "0.9", "1e-9", "0.999999"),
        "--delta": ("1", "1e-3", "1e-300", "1e300"),
        "--epsilon": ("0", "0.1", "1e300"),
        "--l1-ratio": ("0", "0.5", "1"),
        "--gamma": ("3", "1.0000000001", "1e300"),
        "--a": ("3.7", "2.0000000001", "1e300"),
        "--drop": tuple(file.names),
        "--category": tuple(file.names),
        "--curves": ("auto", "yes", "no"),
        "--products": ("auto", "yes", "no"),
        "--transform-target": ("auto", "log", "no"),
    }
    if classes:
        choices["--class-weight"] = ("balanced",)
    if classes and (command != "fit" or chance(rng, 0.1)):
        choices["--score"] = "log", "auc", "zero-one", "balanced_error", "brier"
    if chance(rng, 0.02):
        choices["--gap"] = "0", "3", "1000"
    for name in rng.permutation(list(choices))[: rng.integers(0, 5)]:
        for _ in range(one_of(rng, (1, 1, 1, 2))):
            words.append(f"{name}={one_of(rng, choices[str(name)])}")
    if chance(rng, 0.7):
        words += ["--out", mostly(rng, ("out",), (*FOLDERS, file.path.name), wrong=0.3)]
    return words


def _spoil(rng, words, probability):
    """Make a command line wrong, perhaps."""
    while chance(rng, probability):
        at = int(rng.integers(1, len(words)))
        wrong, (name, equals, _) = one_of(rng, WRONG_WORDS), words[at].partition("=")
        changes = [], [wrong, words[at]], [words[at]] * 2, [f"{name}{equals}{wrong}"], [wrong]
        words[at : at + 1] = one_of(rng, changes)
        if len(words) < 2:
            return


def _predict(case, file):
    """Fit, so that there is a model; then predict a file that is much like it, or another."""
    rng = case.rng
    words = ["fit", file.path.name, f"--target={file.names[-1].strip()}", "--impute", "--out=out"]
    words += ["--no-plots", "--iters=3", "--n-alphas=1"]
    classes = bool(file.columns) and file.columns[-1].kind == "text"
    names = [name for name, kind in CRITERIA.items() if kind.margin == classes]
    words.append(f"--test-loss={one_of(rng, names)}")
    _, refused = _call(case, words)
    if refused is not None:
        return refused
    new = file
    if chance(rng, 0.5):
        new = _changed(rng, case.folder, file)
        case.note(new_file=new.path.name, new_content=new.path.read_bytes())
    if chance(rng, 0.1):
        kept = Path("out/model.json")
        kept.write_bytes(damaged(rng, kept.read_bytes()))
        case.note(model=kept.read_bytes())
    words = ["predict", "out/model.json", new.path.name]
    as_json, to = chance(rng, 0.5), one_of(rng, (None, None, "p.csv", "a/p.csv", ".", "", "out"))
    words += ["--json"] * as_json + ([] if to is None else ["--out", to])
    _spoil(rng, words, 0.1)
    result, refused = _call(case, words)
    if refused is not None:
        return refused
    if "--help" in words or words[-1] == "-h":
        return result
    named = [Path(word) for word in words[3:] if Path(word).is_file() and word != new.path.name]
    text = result.stdout or (named[-1].read_text(encoding="utf-8") if named else "")
    if text.startswith("{"):
        columns = _strict(text) | {"notes": []}
    else:
        head, *rows = csv.reader(text.splitlines())
        columns = dict(zip(head, zip(*rows, strict=True), strict=True))
    found = columns.pop("predictions" if text.startswith("{") else "prediction")
    numbers = [*columns.values()] if is_classifier(load_model_file(words[1]).model[-1]) else [found]
    check_finite("predictions", [float(value) for values in numbers for value in values])
    rows = read_table(words[2] if Path(words[2]).exists() else new.path).frame.num_rows
    check(len(found) == rows, f"{len(found)} predictions for {rows} rows")
    return result


def _changed(rng, folder, file):
    """Another file for the same model: with other rows, columns missing, or something else."""
    columns = {name: list(texts(x)) for name, x in _columns(read_table(file.path)).items()}
    name, rows = one_of(rng, list(columns)), len(next(iter(columns.values())))
    odd = one_of(rng, ("1e300", "-1e308", "new", "2020-01-01", "inf", None))
    match rng.integers(4):
        case 0:
            columns = {other: cells for other, cells in columns.items() if other != name}
        case 1:
            columns[name] = [odd] * rows
        case 2:
            columns[name][0] = odd
        case 3:
            columns[one_of(rng, ("more", *ODD_NAMES))] = columns.pop(name)
    path = folder / "new.csv"
    with open(path, "w", encoding="utf-8", errors="replace", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(columns or ["x"])
        writer.writerows(zip(*columns.values(), strict=True))
    return DataFile(path, None, list(columns))


CODES = (1, 2, 3)
#: A number that is none, other than in quotation marks or as the name of a level.
NO_NUMBER = re.compile(r"(?<![\w'\"=.-])-?(nan|inf|infinity)(?![\w'\".-])", re.IGNORECASE)


def _call(case, words):
    """Call the command; return what it printed, and in which words it refused, or None."""
    case.note(command=words)
    causes = []

    def say(message, code):
        causes.append(sys.exception())
        return said(message, code)

    entry = sys.modules["steinpath.app.cli.entry"]
    said = entry._say
    with warnings.catch_warnings(record=True) as caught, mock.patch.object(entry, "_say", say):
        warnings.simplefilter("always")
        result = CliRunner().invoke(steinpath.app.cli.main, words)
    error = result.exception
    if error is not None and not isinstance(error, SystemExit):
        raise Finding("".join(traceback.format_exception(error)[-8:]))
    for warning in caught:
        raise Finding(f"a warning leaks: {warning.message} ({warning.filename}:{warning.lineno})")
    left = [str(path) for path in case.folder.rglob("*.steinpath-*")]
    check(not left, f"left behind: {left}")
    if result.exit_code == 0:
        return result, None
    case.note(stderr=result.stderr)
    check(result.exit_code in CODES, f"exit code {result.exit_code}")
    lines = [line for line in result.stderr.split("\n") if not line.startswith("Note: ")]
    check(len(lines) == 2 and not lines[1], f"more than one line: {result.stderr!r}")
    check(lines[0].startswith("Error: ") and len(lines[0]) > 20, f"says {lines[0]!r}")
    check(not result.stdout, f"printed before the error: {result.stdout!r:.200}")
    # data are refused by those who look at them: an error from the depths says nothing to a user
    cause = causes[-1].__cause__
    if cause is not None and result.exit_code == 3 and "cannot read" not in lines[0]:
        refusal(cause)
    return result, Refusal(f"exit code {result.exit_code}", lines[0])


def _strict(text):
    """JSON without the constants that JSON does not have."""

    def refuse(constant):
        raise Finding(f"{constant} in JSON")

    return json.loads(text, parse_constant=refuse)


def _check_fit(case, command, words, result, file):
    """Look at all that a fit wrote."""
    if "--help" in words or "-h" in words:
        return
    check(not result.stderr, f"on the standard error: {result.stderr!r:.200}")
    # words of a file that nobody knows, and of the command line, may well be no numbers
    known = file.columns and not NO_NUMBER.search(" ".join(words))
    if "--json" in words:
        check_finite("numbers", _numbers(_strict(result.stdout)))
    else:
        case.note(stdout=result.stdout)
        if known:
            check_numbers("output", result.stdout)
    named = {path.name: path for path in case.folder.rglob("*") if path.is_file()}
    wanted = {"fit": {"model.json"}, "tune": {"model.json", "ranking.csv"}}
    for name in wanted.get(command, {"ranking.csv"}) | {"risk.csv", "report.html"}:
        check(name in named, f"{name} was not written")
    for name in ("risk.csv", "ranking.csv"):
        if name in named:
            rows = list(csv.DictReader(named[name].read_text(encoding="utf-8").splitlines()))
            check(len(rows) > 0, f"{name} has no rows")
            for row in rows:
                others = ("loss", "penalty", "still_falls", "class")
                # standard errors that are not known are empty
                numbers = {k: v for k, v in row.items() if v and k not in others}
                check_finite(f"{name}: {row}", [float(value) for value in numbers.values()])
    if known:
        check_numbers("report", visible(named["report.html"]))
    if command != "compare":
        saved = load_model_file(named["model.json"])
        table = _read_for(saved, words[1])
        predicted = evaluate(lambda: _decided(saved.model, table))
        check(not isinstance(predicted, Refusal), f"the rows of the fit are refused: {predicted}")
        check_finite("predictions", predicted)


def check_numbers(where, text):
    """No number of a text is none."""
    none = NO_NUMBER.search(text)
    check(none is None, f"{none} in the {where}")


def visible(page):
    """The text of a report."""
    text = page.read_text(encoding="utf-8")
    return re.sub(r"(?s)<(script|style).*?</\1>|<[^>]*>", " ", text)


def _numbers(found):
    if isinstance(found, dict):
        found = list(found.values())
    if isinstance(found, list):
        return [number for each in found for number in _numbers(each)]
    return [found] if isinstance(found, int | float) else []
