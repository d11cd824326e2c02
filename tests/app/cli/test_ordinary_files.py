"""Files as people have them: each gets a model, or an error that names an option which works."""

import json
import shlex

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import steinpath as sp
from commands import call, refused
from steinpath.app.cli import main

N = 60
QUICK = ("--no-plots", "--n-iter", "20", "--n-alphas", "3", "--json")


def rows():
    """Numbers, dates, a category; amounts above a thousand."""
    rng = np.random.default_rng(0)
    area, rooms = rng.integers(300, 2000, N) / 10, rng.integers(1, 7, N)
    town = rng.choice(["Zürich", "Genève", "Köln"], N)
    sold = pd.Timestamp("2023-01-15") + pd.to_timedelta(rng.integers(0, 400, N), unit="D")
    rent = (30 * area + 200 * (town == "Zürich") + 50 * rng.standard_t(3, N)).round(2)
    return pd.DataFrame({"area": area, "rooms": rooms, "town": town, "sold": sold, "rent": rent})


def number(decimal=".", thousands="", sign="{}"):
    """Return a function that writes numbers with two decimals."""

    def text(value):
        plain = f"{value:,.2f}".replace(",", "T").replace(".", decimal)
        return sign.format(plain.replace("T", thousands))

    return text


def written(table, **changes):
    """Return the table as texts, with some columns written in another way."""
    table = table.assign(sold=table["sold"].dt.strftime("%Y-%m-%d"))
    return table.assign(**{name: rows()[name].map(how) for name, how in changes.items()})


def as_csv(table, sep=",", encoding="utf-8", index=False):
    return table.to_csv(index=index, sep=sep, lineterminator="\r\n").encode(encoding)


COMMA = number(",")
AMOUNT = number(",", ".")
CASES = {
    # name: (contents, the options that are needed and that the command names)
    "clean": (as_csv(written(rows())), ""),
    "Excel, decimal comma": (as_csv(written(rows(), area=COMMA, rent=COMMA), ";"), ""),
    "tabs, decimal comma": (as_csv(written(rows(), area=COMMA, rent=COMMA), "\t"), ""),
    "bars, decimal comma": (as_csv(written(rows(), area=COMMA, rent=COMMA), "|"), "--decimal ,"),
    "Excel, thousands": (
        as_csv(written(rows(), area=COMMA, rent=AMOUNT), ";"),
        "--decimal , --thousands .",
    ),
    "Latin-1": (as_csv(written(rows()), encoding="latin-1"), ""),
    "UTF-16": (as_csv(written(rows()), "\t", encoding="utf-16"), ""),
    "delimiter stated": (b"sep=;\r\n" + as_csv(written(rows()), ";"), ""),
    "extra empty cells": (as_csv(written(rows())).replace(b"\r\n", b",,\r\n"), ""),
    "extra empty cells of rows": (
        as_csv(written(rows())).replace(b"\r\n", b",,\r\n").replace(b",,", b"", 1),
        "",
    ),
    "empty rows": (as_csv(written(rows())) + b",,,,\r\n" * 3, ""),
    "index": (as_csv(written(rows()), index=True), ""),
    "German dates": (
        as_csv(written(rows(), sold=lambda day: f"{day:%d.%m.%Y}")),
        "--date-format %d.%m.%Y",
    ),
    "American dates": (
        as_csv(written(rows(), sold=lambda day: f"{day:%m/%d/%Y}")),
        "--date-format %m/%d/%Y",
    ),
    "dollars": (as_csv(written(rows(), rent=number(thousands=",", sign="${}"))), "--thousands ,"),
    "euros": (
        as_csv(written(rows(), area=COMMA, rent=number(",", ".", "{} €")), ";"),
        "--decimal , --thousands .",
    ),
    "francs": (
        as_csv(written(rows(), rent=number(thousands="'", sign="CHF {}")), ";"),
        '--thousands "\'"',
    ),
    "other missing": (
        as_csv(written(rows()).assign(rooms=["-", *rows()["rooms"][1:]])),
        "--na '-'",
    ),
}


def fit(file, folder, *options):
    """Fit a file; return what is said about it, and the model."""
    found = json.loads(
        call("fit", file, "--target", "rent", "--out", folder, *QUICK, *options).stdout
    )
    return found, sp.load_model(folder / "model.json")


@pytest.fixture(scope="module")
def clean(tmp_path_factory):
    """The model of the clean file, and its predictions."""
    folder = tmp_path_factory.mktemp("clean")
    (folder / "d.csv").write_bytes(CASES["clean"][0])
    _, model = fit(folder / "d.csv", folder)
    return model.predict(rows())


@pytest.mark.parametrize("name", CASES)
def test_each_file_gets_the_model_of_the_clean_file(name, clean, tmp_path):
    content, named = CASES[name]
    file, options = tmp_path / "rents.csv", shlex.split(named)
    file.write_bytes(content)
    if named:
        command = ["fit", file, "--target", "rent", "--out", tmp_path / "o", *QUICK]
        first = CliRunner().invoke(main, [*map(str, command)])
        assert first.exit_code in (0, 3), first.output
        said = first.stderr if first.exit_code else " ".join(json.loads(first.stdout)["notes"])
        assert f"use {named}" in said
    if name == "other missing":
        options.append("--impute")
    found, model = fit(file, tmp_path / "o", *options)
    assert not any("treated as text" in note for note in found["notes"])
    tolerance = 1e-9
    if name == "other missing":
        tolerance = 0.05  # one value is imputed
    np.testing.assert_allclose(model.predict(rows()), clean, rtol=tolerance)
    # the same file, without options: they are those of the fit
    out = tmp_path / "predicted.csv"
    said = call("predict", tmp_path / "o" / "model.json", file, "--out", out).stderr
    assert "mean absolute error on these 60 rows" in said
    np.testing.assert_allclose(pd.read_csv(out)["prediction"], clean, rtol=tolerance)


def test_options_of_the_command_line_win_over_those_of_the_model(tmp_path):
    table = written(rows(), area=COMMA, rent=COMMA)
    (tmp_path / "comma.csv").write_bytes(as_csv(table, "\t"))
    (tmp_path / "point.csv").write_bytes(as_csv(written(rows()), "\t"))
    fit(tmp_path / "comma.csv", tmp_path, "--decimal", ",", "--delimiter", r"\t")
    model = tmp_path / "model.json"
    assert json.loads(model.read_text(encoding="utf-8"))["reading"] == {
        "decimal": ",",
        "delimiter": "\t",
    }
    first = call("predict", model, tmp_path / "comma.csv").stdout
    assert call("predict", model, tmp_path / "point.csv", "--decimal", ".").stdout == first
    message = refused("predict", model, tmp_path / "point.csv")
    assert "column 'area' must hold numbers, as in the fit, but has" in message
    kept = json.loads(
        call("predict", model, tmp_path / "comma.csv", "--keep", "area", "--json").stdout
    )["kept"]["area"]
    np.testing.assert_array_equal(kept, rows()["area"])
    assert (
        call("predict", model, tmp_path / "comma.csv", "--keep", "area")
        .stdout.splitlines()[1]
        .startswith(f'"{table["area"][0]}",')
    )


def test_another_decimal_separator_replaces_the_thousands_of_the_model(tmp_path):
    (tmp_path / "comma.csv").write_bytes(as_csv(written(rows(), area=COMMA, rent=AMOUNT), ";"))
    (tmp_path / "point.csv").write_bytes(as_csv(written(rows())))
    fit(tmp_path / "comma.csv", tmp_path, "--decimal", ",", "--thousands", ".")
    first, second = (
        call("predict", tmp_path / "model.json", tmp_path / name, *options).stdout
        for name, options in (("comma.csv", ()), ("point.csv", ("--decimal", ".")))
    )
    assert first == second


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--thousands", "."], "both the decimal and the thousands separator"),
        (["--thousands", "x"], "must be a comma, a point, an apostrophe or a space"),
        (["--delimiter", ";;"], "the delimiter must be one character"),
        (["--encoding", "nope"], "unknown encoding 'nope'"),
    ],
)
def test_options_that_make_no_sense(options, message, tmp_path):
    (tmp_path / "d.csv").write_bytes(CASES["clean"][0])
    said = refused("fit", tmp_path / "d.csv", "--target", "rent", *options, code=2)
    assert message in said


CLEAN = as_csv(written(rows()))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            b"Rents 2023\r\n\r\n" + CLEAN,
            "line 3 has 5 cells, but the header names 1 column; remove line 1 if it is a title",
        ),
        (b"Rents 2023,,,,\r\n" + CLEAN, "'column 5'; remove the lines above the header"),
        (
            CLEAN + b"(60 rows)\r\n",
            "line 62 has 1 cell, but the header names 5 columns; remove it if it is not a row",
        ),
        (CLEAN + b"123.4,,,,98765\r\n", "remove line 62 if it is a footer, such as totals, or"),
        (CLEAN.replace(b"rooms", b"area", 1), "several columns are named 'area'; column names"),
    ],
    ids=["title", "title with commas", "footer", "totals", "duplicate names"],
)
def test_edits_that_make_a_file_readable_are_named(content, message, tmp_path):
    (tmp_path / "d.csv").write_bytes(content)
    command = ("fit", tmp_path / "d.csv", "--target", "rent", "--out", tmp_path / "o", *QUICK)
    assert message in refused(*command)


def test_options_for_labels_are_those_of_the_role(tmp_path):
    file = tmp_path / "d.csv"
    table = written(rows(), rent=number(thousands=","), area=lambda x: f"{100 * x:,.0f}")
    file.write_bytes(as_csv(table))
    command = ("fit", file, "--out", tmp_path, *QUICK, "--target")
    assert "--thousands , (or --task classification if these" in refused(*command, "rent")
    assert "--thousands , (or --category 'area' if these" in refused(*command, "rooms")
    # `predict` has neither option
    file.write_bytes(CLEAN)
    fit(file, tmp_path)
    file.write_bytes(as_csv(table.drop(columns="rent")))
    message = refused("predict", tmp_path / "model.json", file, "--out", tmp_path / "p.csv")
    assert message.endswith("--thousands ,")


def test_a_target_of_few_numbers_is_noted(tmp_path):
    table = written(rows()).assign(rent=pd.qcut(rows()["rent"], 3, labels=[1, 2, 3]))
    table.to_csv(tmp_path / "d.csv", index=False)
    (note,) = fit(tmp_path / "d.csv", tmp_path)[0]["notes"]
    assert note.endswith("if they are classes, use --task classification")
    for task in ("classification", "regression"):
        found, _ = fit(tmp_path / "d.csv", tmp_path, "--task", task)
        assert not found["notes"]


SHUFFLED = np.random.default_rng(1).permutation(N)


def test_several_identifiers_are_one_note(tmp_path):
    file = tmp_path / "d.csv"
    written(rows()).assign(id=SHUFFLED, uuid=SHUFFLED, index=np.arange(N)).to_csv(file)
    found, _ = fit(file, tmp_path)
    (note,) = [note for note in found["notes"] if "identifier" in note]
    assert "(--keep-column 'column 1', … keeps them): 'column 1', 'id', 'uuid', 'index'" in note
    message = refused(
        *("fit", file, "--target", "rent", "--out", tmp_path),
        *("--keep-column", "id", "--drop", "id"),
    )
    assert "'id' cannot be both in --drop and in --keep-column" in message
    _, model = fit(file, tmp_path, "--keep-column", "uuid")
    assert "uuid" in [column.name for column in model[0].columns_]
