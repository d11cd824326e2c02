"""What tests of studies share."""

import pytest


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    """Folder of undisturbed studies: ``risk``, and ``tiny`` with four replications."""
    from steinpath.study import STUDIES, run_study
    from studies import SIZES, TINY, replace

    folder = tmp_path_factory.mktemp("finished")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("steinpath.study._runner.write_figures", lambda folder, exhibits: [])
        report = run_study(STUDIES["risk"], folder, SIZES)
        run_study(TINY, folder, replace(SIZES, reps=4))
    assert report.finished == report.total == 16
    return folder
