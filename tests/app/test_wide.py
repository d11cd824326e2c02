"""Tables of few rows and very many columns: memory, work and output that grow with their size."""

import tracemalloc
import weakref

import numpy as np
import pytest

from steinpath.app import fitting
from steinpath.app.cli.outputs import make_model
from steinpath.app.encoding import encode
from steinpath.app.fitting import Fit, _without_models, compare_models, fit_model, prepare_data
from steinpath.app.model_spec import ModelSpec
from steinpath.app.report.build import build_content
from steinpath.app.report.page import render
from steinpath.app.tables import Table, read_table
from steinpath.plots._coefficients import largest_sizes
from steinpath.risk._after_choice import compare_chosen

ROWS = 30
# Bytes that a cell of a text file may take while it is read (a Python string, and its place in a
# list), and a number afterwards.
BYTES_OF_A_CELL, BYTES_OF_A_NUMBER = 100, 60


def columns(p):
    X = np.random.default_rng(0).standard_normal((p, ROWS)).round(3)
    return {"y": X[0] + X[1], **{f"gene{j}": x for j, x in enumerate(X)}}


def wide_fit(p, n_iter=4):
    data = prepare_data(encode(Table(columns(p)), "y"), n_iter, n_alphas=2)
    return fit_model(data, ModelSpec.from_names("lad", "ridge", data.encoded.y))


def peak(work):
    """Memory that some work takes at most, beyond what there was before."""
    tracemalloc.start()
    try:
        result = work()
        return tracemalloc.get_traced_memory()[1], result
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("p", [1000, 4000])
def test_memory_per_cell(p, tmp_path):
    file, table = tmp_path / "wide.csv", columns(p)
    lines = [
        ",".join(table),
        *(",".join(map(str, row)) for row in zip(*table.values(), strict=True)),
    ]
    file.write_text("\n".join(lines))
    cells = (p + 1) * ROWS
    size, read = peak(lambda: read_table(file))
    assert size < BYTES_OF_A_CELL * cells
    size, encoded = peak(lambda: encode(read, "y"))
    assert size < BYTES_OF_A_NUMBER * cells
    size, _ = peak(lambda: prepare_data(encoded, n_iter=4, n_alphas=2))
    assert size < BYTES_OF_A_NUMBER * cells


def test_the_model_file_takes_memory_in_proportion(tmp_path):
    sizes = []
    for p in (1000, 4000):
        model = make_model(wide_fit(p))
        sizes.append(peak(lambda model=model: model.save(tmp_path / "m.json"))[0])
    assert sizes[1] < 5 * sizes[0]


@pytest.fixture(scope="module")
def fit():
    return wide_fit(4000, n_iter=100)


def test_the_report_lists_some_columns_and_coefficients(fit):
    content = build_content(fit, file="f", command="c", seed=0)
    assert fit.nonzeros == 4000
    assert len(content.coefficients) == len(content.columns) == 1000
    effects = [abs(each.effect) for each in content.coefficients]
    largest = sorted(np.abs(fit.effects).tolist(), reverse=True)[:1000]
    np.testing.assert_allclose(effects, largest, rtol=1e-12)
    page = render(content)
    assert "3,000 more coefficients are not listed." in page
    assert "3,001 more columns are not listed." in page
    assert len(page) < 10**6


def test_the_target_is_always_among_the_columns_that_are_listed():
    table = columns(3000)
    table["last"] = table.pop("y")
    found = encode(Table(table), "last").summaries
    assert [one.name for one in found if one.kind == "target"] == ["last"]
    assert len(found) == 1001


def test_coefficients_are_computed_once_for_all_of_them(fit, monkeypatch):
    computed = []
    coef = Fit.coef.fget
    monkeypatch.setattr(Fit, "coef", property(lambda self: computed.append(1) or coef(self)))
    build_content(fit, file="f", command="c", seed=0)
    assert len(computed) < 5


def test_the_report_makes_no_copy_of_the_path(fit):
    path = fit.tuning.path.coef
    assert peak(lambda: build_content(fit, file="f", command="c", seed=0))[0] < path.nbytes
    assert peak(lambda: largest_sizes(path))[0] < path.nbytes / 10


def test_models_that_are_compared_keep_no_coefficients(fit):
    chosen = fit.tuning.chosen
    kept = _without_models(chosen)
    assert kept.models.coef.size == kept.models.predictions.size == 0
    other = wide_fit(4000, n_iter=10).tuning.chosen
    assert compare_chosen(kept, other) == compare_chosen(chosen, other)
    specs = [ModelSpec.from_names("lad", each, fit.data.encoded.y) for each in ("ridge", "lasso")]
    _, ranking = compare_models(fit.data, specs, "absolute")
    assert ranking[0].behind == 0 <= ranking[1].behind


def test_while_models_are_compared_only_the_best_is_in_memory(fit, monkeypatch):
    made, alive = [], []

    def make(*args):
        alive.append(sum(each() is not None for each in made))
        found = fit_model(*args)
        made.append(weakref.ref(found))
        return found

    monkeypatch.setattr(fitting, "fit_model", make)
    y = fit.data.encoded.y
    specs = [ModelSpec.from_names("lad", each, y) for each in ("lasso", "ridge", "mcp", "scad")]
    compare_models(prepare_data(fit.data.encoded, 4, 2), specs, "absolute")
    assert alive == [0, 1, 1, 1]


@pytest.mark.slow
def test_so_many_values_of_alpha_as_there_is_room_for():
    found = prepare_data(encode(Table(columns(100_000)), "y"))
    assert (found.n_iter, found.n_alphas) == ("auto", 9)
    assert found.notes[0].startswith("because of the number of columns, the grid has 9 values")
    asked = prepare_data(found.encoded, n_iter=300, n_alphas=20)
    assert (asked.n_iter, asked.n_alphas, asked.notes) == (300, 20, ())
