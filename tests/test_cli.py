"""The command and the plots."""

import sys

import numpy as np
import pytest
from click.testing import CliRunner

import steinpath as sp
from problems import draw
from steinpath.cli import main


def test_demo_prints_a_table_names_the_iterate_and_saves_a_plot(tmp_path):
    file = tmp_path / "demo.png"
    command = ["demo", "--n", "80", "--p", "40", "--iters", "20", "--plot", str(file)]
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 0, result.output
    for word in ("iterate", "training error", "estimated risk", "true risk", "Chosen iterate: "):
        assert word in result.output
    assert file.read_bytes().startswith(b"\x89PNG")
    assert CliRunner().invoke(main, command).output == result.output  # a seed is a seed


def test_demo_prints_warnings():
    result = CliRunner().invoke(main, ["demo", "--n", "20", "--p", "10", "--iters", "5"])
    assert result.exit_code == 0, result.output
    assert "Warning: with 20 observations" in result.output


def test_demo_refuses_nonsense():
    assert CliRunner().invoke(main, ["demo", "--iters", "0"]).exit_code == 2
    assert "0.1" in CliRunner().invoke(main, ["--version"]).output


def test_plot_shows_the_curves():
    X, y, _ = draw(60, 30)
    risk = sp.estimate_risk(sp.run(X, y, sp.LAD(), sp.Lasso(0.3), n_iter=10))
    ax = risk.plot()
    curves = {line.get_label(): line.get_ydata() for line in ax.lines}
    np.testing.assert_array_equal(curves["estimated risk"], risk.values)
    np.testing.assert_array_equal(curves["training error"], risk.train)
    assert f"chosen iterate {risk.best_iter}" in curves
    assert "before the audit" not in curves
    assert risk.plot(ax) is ax


def test_plot_shows_what_an_audit_repaired():
    X, y, _ = draw(60, 30)
    path = sp.run(X, y, sp.LAD(), sp.Lasso(0.3), n_iter=60)
    risk = sp.estimate_risk(path, method="compressed", audit=60, rng=0)
    curves = {line.get_label(): line.get_ydata() for line in risk.plot().lines}
    np.testing.assert_array_equal(curves["before the audit"], risk.raw)
    np.testing.assert_array_equal(curves["estimated risk"], risk.values)


def test_plots_say_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    X, y, _ = draw(60, 30)
    risk = sp.estimate_risk(sp.run(X, y, sp.LAD(), sp.Lasso(0.3), n_iter=3))
    with pytest.raises(ImportError, match=r"pip install 'steinpath\[plot\]'"):
        risk.plot()


def test_public_names_are_documented_and_complete():
    for name in sp.__all__:
        assert getattr(sp, name).__doc__, name
