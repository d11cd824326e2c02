"""Tables of few rows and very many columns: memory, work and output that grow with their size."""

import tracemalloc
import weakref
from types import SimpleNamespace

import numpy as np
import pytest
from click.testing import CliRunner
from sklearn.pipeline import make_pipeline

import steinpath as sp
from steinpath.app.cli import fit as command
from steinpath.app.cli import main
from steinpath.app.fitted import Fitted, contender, rank
from steinpath.app.report.build import Result, build_content, render
from steinpath.app.tables import FileFormat, read_table
from steinpath.plots import largest_sizes

# of short runs
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

ROWS = 30
# Bytes that a cell of a text file may take while it is read, and a number afterwards.
BYTES_OF_A_CELL, BYTES_OF_A_NUMBER = 100, 60


def columns(p):
    X = np.random.default_rng(0).standard_normal((p, ROWS)).round(3)
    return {f"gene{j}": x for j, x in enumerate(X)}, X[0] + X[1]


def wide_fit(p, n_iter=4, penalty="ridge"):
    settings = {"penalty": penalty, "n_iter": n_iter, "n_alphas": 2, "random_state": 0}
    model = make_pipeline(sp.TableEncoder(), sp.PathRegressor(test_loss="absolute", **settings))
    model[-1].keeps_search = True  # as in the command
    return Fitted(model.fit(*columns(p)))


def write(file, columns):
    rows = zip(*columns.values(), strict=True)
    file.write_text("\n".join([",".join(columns), *(",".join(map(str, row)) for row in rows)]))


def peak(work):
    """Memory that some work takes at most, beyond what there was before."""
    tracemalloc.start()
    try:
        result = work()
        return tracemalloc.get_traced_memory()[1], result
    finally:
        tracemalloc.stop()


def content_of(fitted):
    encoder = fitted.encoder
    columns = {"columns": encoder.summary_, "n_columns": encoder.n_features_in_}
    return build_content(Result(fitted, **columns))


@pytest.mark.parametrize("p", [1000, 4000])
def test_memory_per_cell(p, tmp_path):
    file, (X, y) = tmp_path / "wide.csv", columns(p)
    write(file, X)
    cells = p * ROWS
    how = {"alpha": 0.1, "select": "last", "method": None, "n_iter": 1}
    one_step = sp.LADRidge(**how).fit(sp.TableEncoder().fit_transform(columns(2)[0]), y)
    size, table = peak(lambda: read_table(file, FileFormat()))
    assert size + table.frame.nbytes < BYTES_OF_A_CELL * cells
    size, features = peak(lambda: sp.TableEncoder().fit_transform(table.frame))
    assert size < BYTES_OF_A_NUMBER * cells
    size, _ = peak(lambda: one_step.fit(features, y))
    assert size < BYTES_OF_A_NUMBER * cells


def test_the_model_file_takes_memory_in_proportion(tmp_path):
    sizes = []
    for p in (1000, 4000):
        model = wide_fit(p).model
        sizes.append(peak(lambda model=model: sp.save_model(model, tmp_path / "m.json"))[0])
    assert sizes[1] < 5 * sizes[0]


@pytest.fixture(scope="module")
def fitted():
    return wide_fit(4000, n_iter=100)


def test_the_report_lists_some_columns_and_coefficients(fitted):
    content = content_of(fitted)
    assert fitted.nonzeros == 4000
    assert len(content.coefficients) == len(content.columns) == 1000
    effects = [abs(effect) for *_, effect in content.coefficients]
    largest = sorted(np.abs(fitted.coefficients().effects).tolist(), reverse=True)[:1000]
    np.testing.assert_allclose(effects, largest, rtol=1e-12)
    page = render(content)
    assert page.count("3,000 more coefficients are not listed.") == 1
    assert page.count("3,000 more columns are not listed.") == 1
    assert len(page) < 10**6


def test_the_target_is_always_among_the_columns_that_are_listed(tmp_path):
    X, y = columns(1500)
    file = tmp_path / "wide.npz"
    np.savez(file, **X, last=y)
    out = tmp_path / "out"
    short = ["--n-iter", "2", "--n-alphas", "2", "--no-plots"]
    found = CliRunner().invoke(
        main, ["fit", str(file), "--target", "last", "--out", str(out), *short]
    )
    assert found.exit_code == 0, found.output
    page = (out / "report.html").read_text(encoding="utf-8")
    assert '<th scope="row">last</th><td>target</td>' in page
    assert "500 more columns are not listed." in page


def test_the_report_makes_no_copy_of_the_path(fitted):
    path = fitted.tuning.path.coef
    assert peak(lambda: content_of(fitted))[0] < path.nbytes
    assert peak(lambda: largest_sizes(path))[0] < path.nbytes / 10


def test_models_that_are_compared_keep_no_coefficients(fitted):
    chosen, kept = fitted.tuning.chosen, contender(fitted, None)[1]
    assert kept.models.coef.size == kept.models.predictions.size == 0
    other = wide_fit(4000, n_iter=10, penalty="lasso")
    assert kept.compare(other.tuning.chosen) == chosen.compare(other.tuning.chosen)
    ranking = rank([contender(each, None) for each in (fitted, other)])
    assert ranking[0].behind == 0 <= ranking[1].behind


def test_while_models_are_compared_only_the_best_is_in_memory(monkeypatch):
    made, alive = [], []

    def make(data, loss, penalty, options, test_loss):
        alive.append(sum(each() is not None for each in made))
        found = wide_fit(100, penalty=penalty)
        made.append(weakref.ref(found))
        return found

    monkeypatch.setattr(command, "_fit", make)
    data = SimpleNamespace(roles=SimpleNamespace(task="regression"))
    pairs = [("lad", penalty) for penalty in ("lasso", "ridge", "mcp", "scad")]
    best, ranking = command._compare(data, pairs, None, {"test_loss": None, "q": None})
    assert alive == [0, 1, 1, 1]
    assert len(ranking) == 4
    assert best.tuning.chosen.value == ranking[0].risk
