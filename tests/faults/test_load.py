"""Eight at once, in threads and in processes: to each its own, to the last bit."""

import multiprocessing
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import load
import steinpath as sp
from commands import call, write

EIGHT = range(8)


@pytest.fixture(scope="module")
def alone():
    """Eight fits one after the other."""
    return [load.fit(k) for k in EIGHT]


@pytest.fixture(scope="module")
def eight_processes():
    context = multiprocessing.get_context("forkserver")
    # all that takes long to import; Python 3.11 does not look for it in `sys.path`
    context.set_forkserver_preload(["steinpath.app.cli", "scipy.stats"])
    with context.Pool(8) as pool:
        yield pool


@pytest.fixture
def often():
    """Let threads change places far more often than usual."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("often")
def test_eight_fits_in_threads_are_those_one_after_the_other(alone):
    start = threading.Barrier(8)

    def fit(k):
        start.wait()
        return load.fit(k)

    before = load.settings()
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(fit, EIGHT))
    for k in EIGHT:
        assert found[k][:4] == alone[k][:4], k
        assert found[k][4] == {before}  # at every step
    assert load.settings() == before


def test_eight_fits_in_processes_are_those_one_after_the_other(alone, eight_processes):
    found = eight_processes.map(load.fit, EIGHT, chunksize=1)
    for k in EIGHT:
        assert found[k][:4] == alone[k][:4], k


def test_eight_commands_that_write_the_same_files(tmp_path, monkeypatch, eight_processes):
    write(tmp_path)
    monkeypatch.chdir(tmp_path)
    arguments = ["fit", "houses.csv", "--target=price", "--iters=20", "--n-alphas=3"]
    arguments = [*arguments, "--no-plots", "--out"]
    call(*arguments, "alone")
    together = [*arguments, str(tmp_path / "together")]
    together[1] = str(tmp_path / "houses.csv")
    assert eight_processes.map(load.command, [together] * 8, chunksize=1) == [0] * 8
    names = {file.name for file in (tmp_path / "alone").iterdir()}
    assert {file.name for file in (tmp_path / "together").iterdir()} == names
    assert names == {"model.json", "report.html", "risk.csv"}
    for name in ("model.json", "risk.csv"):
        one, other = (tmp_path / folder / name for folder in ("alone", "together"))
        assert one.read_bytes() == other.read_bytes()


@pytest.mark.usefixtures("often")
def test_a_model_that_eight_threads_write_is_whole_whenever_it_is_read(tmp_path):
    call(
        *("fit", write(tmp_path), "--target=price", "--iters=20", "--n-alphas=3"),
        *("--no-plots", "--out", tmp_path),
    )
    file = tmp_path / "model.json"
    mine = [sp.load_model(file) for _ in EIGHT]
    expected = []
    for k, each in enumerate(mine):
        each[-1].warnings_ = ("x" * 500 * k,)
        sp.save_model(each, file)
        expected.append(file.read_bytes())

    def save(each):
        for _ in range(10):
            sp.save_model(each, file)

    with ThreadPoolExecutor(8) as threads:
        saving = [threads.submit(save, each) for each in mine]
        while not all(each.done() for each in saving):
            assert file.read_bytes() in expected
        for each in saving:
            each.result()
    assert file.read_bytes() in expected
    assert not list(tmp_path.glob("*-partial"))
