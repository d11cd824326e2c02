"""Names that come from data: shown as they are, wherever they go, and never obeyed."""

import csv
import io
import json
from collections import Counter
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner
from rich.console import Console

import steinpath as sp
from steinpath import plots
from steinpath._support.files import as_csv
from steinpath._support.printing import printable, printable_json
from steinpath.app.cli import main
from steinpath.app.cli.console import Display

HOSTILE = [
    *("<script>alert(1)</script>", "\"><img src=x onerror='alert(1)'>", "</script></td><!--"),
    *("]]>&lt;&amp;", "${alert(1)}{{7*7}}`", "line\u2028and\u2029paragraph", "long" * 2000),
    *("\u202eright to left\u202c", r"$\frac{", "$x_{", "^_\\%$$", "[bold]", "[/]", ":skull:"),
    *("[link=file:///]x[/link]", "\x1b]0;owned\x07", "\x1b[2J\x9b31m\x00\x7f", "backslash\\"),
    "=cmd|' /C calc'!A0",
]
# Those with the largest coefficients, which are printed.
SEEN = [r"$\frac{", "$x_{", "[bold]", "[/]", ":skull:", "\x1b]0;owned\x07"]
LEVELS = ["<b>bold</b>", "\x1b[31mred", "[/red]", "$\\int"]
TARGET = "<i>[/]\x1b[5m$\\frac{</i>"
QUICK = ("--iters", "12", "--n-alphas", "3")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Data whose columns, levels and file have hostile names."""
    folder = tmp_path_factory.mktemp("hostile")
    rng = np.random.default_rng(0)
    n, p = 60, len(HOSTILE)
    X = rng.standard_normal((n, p))
    effects = np.where(np.isin(HOSTILE, SEEN), 5.0, 1.0)
    arrays = {TARGET: X @ effects + rng.standard_normal(n)}
    arrays |= dict(zip(HOSTILE, X.T, strict=True))
    arrays["level"] = rng.choice(LEVELS, n)
    with pa.OSFile(str(folder / "[bold]<b>&$_{.arrow"), "wb") as file:
        table = pa.table(arrays)
        with pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table)
    return folder


@pytest.fixture(scope="module")
def fitted(folder):
    """What the command prints about them."""
    command = ("fit", data_of(folder), "--target", TARGET, "--out", folder / "o[/]", "--no-plots")
    return call(*command, *QUICK)


def data_of(folder):
    return next(folder.glob("*.arrow"))


def call(*arguments, code=0):
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, result.output
    return result


def invisible(text):
    """Characters that a terminal would obey, or not show."""
    return {c for c in text if not (c.isprintable() or c == "\n")}


class Page(HTMLParser):
    """Elements and attributes of a page, and its text outside of scripts."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.attributes, self.text, self.declared = Counter(), Counter(), "", []
        self._raw = False
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags[tag] += tag != "wbr"  # between the parts of a name
        self.attributes.update(name for name, _ in attrs)
        self._raw = tag in ("script", "style")

    def handle_endtag(self, tag):
        self._raw = False

    def handle_data(self, data):
        self.text += "" if self._raw else data

    def handle_comment(self, data):
        self.declared.append(data)

    unknown_decl = handle_pi = handle_comment


def test_the_report_has_nothing_but_its_own_elements(fitted, folder, tmp_path):
    page = Page((folder / "o[/]" / "report.html").read_text(encoding="utf-8"))
    # the same data under names that mean nothing
    plain = tmp_path / "plain.npz"
    table = pa.ipc.open_file(data_of(folder)).read_all()
    names = ["y", *(f"x{k}" for k in range(len(HOSTILE))), "level"]
    codes = {level: f"l{k}" for k, level in enumerate(LEVELS)}
    columns = [column.to_numpy() for column in table.columns[:-1]]
    columns.append(np.array([codes[level] for level in table.columns[-1].to_pylist()]))
    np.savez(plain, **dict(zip(names, columns, strict=True)))
    call("fit", plain, "--target", "y", "--out", tmp_path / "o", "--no-plots", *QUICK)
    wanted = Page((tmp_path / "o" / "report.html").read_text(encoding="utf-8"))
    assert page.tags == wanted.tags
    assert page.attributes == wanted.attributes
    assert page.declared == wanted.declared == []
    assert page.tags["script"] == 2
    assert not any(name.startswith("on") for name in page.attributes)
    for name in HOSTILE:
        assert name in page.text


@pytest.mark.filterwarnings("ignore:Glyph")
@pytest.mark.parametrize("ending", ["png", "pdf", "svg"])
def test_plots_of_names_that_are_no_mathematics(tmp_path, ending):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, len(HOSTILE)))
    path = sp.run(X, X.sum(axis=1), sp.LAD(), sp.Lasso(0.1), n_iter=10)
    drawn = plots.plot_coefficients(path, HOSTILE, top=len(HOSTILE))
    drawn.figure.set_size_inches(5, 9)
    written = [text.get_text() for text in drawn.texts]
    assert {r"$\frac{", "$x_{", "[/]"} <= set(written)
    plots.save(drawn, tmp_path / f"plot.{ending}")
    plots.close(drawn)
    if ending == "svg":
        ElementTree.parse(tmp_path / "plot.svg")


def test_what_is_printed_has_no_escapes(fitted):
    printed = fitted.stdout + fitted.stderr
    assert not invisible(printed)
    lines = [line.split("  ")[0].strip() for line in printed.splitlines()]
    for name in SEEN:
        assert printable(name) in lines


def test_json_has_no_escapes_and_all_names(folder, tmp_path):
    command = ("fit", data_of(folder), "--target", TARGET, "--out", tmp_path / "\x9b31m\u202e")
    printed = call(*command, "--json", "--no-plots", *QUICK).stdout
    assert not invisible(printed)
    found = json.loads(printed)
    assert found["target"] == TARGET
    assert "\x9b31m\u202e" in found["files"]["model"]


def test_notes_and_errors_have_no_escapes(folder, tmp_path):
    model = folder / "o[/]" / "model.json"
    others = {"target": "\x1b[31m", "file": "\x1b]0;owned\x07[/].csv", "model": "\x9b[/].json"}
    said = [
        call("fit", data_of(folder), "--target", others["target"], code=3).stderr,
        call("fit", tmp_path / others["file"], "--target", "y", code=3).stderr,
        call("fit", data_of(folder), "--target", TARGET, "--loss", "\x1b[31m", code=2).stderr,
        call("predict", tmp_path / others["model"], data_of(folder), code=3).stderr,
        call("study", "\x1b[31m", code=2).stderr,
    ]
    arrays = {name: np.zeros(1) for name in HOSTILE} | {"level": np.array(["\x1b[31m\u202e"])}
    table = pa.table(arrays)
    new = tmp_path / "new.arrow"
    with pa.ipc.new_file(new, table.schema) as writer:
        writer.write_table(table)
    said.append(call("predict", model, new).stderr)
    assert "that the model does not know" in said[-1]
    for text in said:
        assert len(text.splitlines()) == 1
        assert not invisible(text)


@pytest.mark.parametrize("name", ["[/].csv", "[bold]x.csv", ":x:\x1b]0;owned\x07.csv"], ids=ascii)
def test_bars_show_the_name_of_the_file(monkeypatch, name):
    """On a terminal, which is given escapes by rich: those of the name are not among them."""
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=100)
    monkeypatch.setattr("steinpath.app.cli.console.Console", lambda **options: console)
    with Display() as shown:
        shown.begin(f"reading {name}", 0)
    assert f"reading {printable(name)}" in screen.getvalue()
    assert "\x1b]" not in screen.getvalue()


def test_printable_leaves_what_can_be_seen():
    assert printable("größe 東京 🚲\nnext") == "größe 東京 🚲\nnext"
    assert printable("\x1b\x9b\u202e\ud800\t") == "\N{REPLACEMENT CHARACTER}" * 5
    text = json.dumps({"größe": "\x9b\u202e\U000e0001"}, ensure_ascii=False, indent=1)
    assert not invisible(printable_json(text))
    assert json.loads(printable_json(text)) == json.loads(text)


def test_cells_of_csv_are_no_formulas():
    harmful = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "＝1", "－1"]
    harmless = ["a=b", "a\r=1", "a\n=1", "x", "", "'quoted", " =1", "1,5", 'say "so"']
    rows = [{"=head": text, "number": -1.5, "count": -2} for text in harmful + harmless]
    found = list(csv.reader(io.StringIO(as_csv(rows, ".8g"), newline="")))
    assert found[0] == ["'=head", "number", "count"]
    wanted = [f"'{text}" for text in harmful] + harmless
    assert [row[0] for row in found[1:]] == [text.replace("\r", "\n") for text in wanted]
    assert {tuple(row[1:]) for row in found[1:]} == {("-1.5", "-2")}
