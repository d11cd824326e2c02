"""What tests of studies share."""

import pytest

from steinpath.study import _runner as runner


@pytest.fixture
def no_figures(monkeypatch):
    """Leave out the figures, which take longer than all else."""
    monkeypatch.setattr(runner, "write_figures", lambda folder, exhibits: [])


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    """Folder of undisturbed studies: ``risk``, and ``tiny`` with four replications."""
    from steinpath.study import STUDIES, run_study
    from studies import SIZES, TINY, replace

    folder = tmp_path_factory.mktemp("finished")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runner, "write_figures", lambda folder, exhibits: [])
        report = run_study(STUDIES["risk"], folder, SIZES)
        run_study(TINY, folder, replace(SIZES, reps=4))
    assert report.finished == report.total == 16
    return folder
