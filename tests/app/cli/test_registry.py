"""A loss, a penalty and a test loss are one class each, and are found by everything."""

import contextlib
import pickle
from dataclasses import dataclass
from functools import partial
from unittest import mock

import click
import numpy as np
import pytest

import steinpath as sp
from commands import call, houses, refused, write
from steinpath.app.cli import main
from steinpath.app.cli.commands import parameter_specs, usable_names
from steinpath.problem import Criterion, ParameterSpec, SeparableLoss, SeparablePenalty
from steinpath.problem._losses import LOSSES
from steinpath.problem._penalties import PENALTIES
from steinpath.problem._scoring import CRITERIA, resolve_test_loss

REGISTRIES = {"loss": LOSSES, "penalty": PENALTIES, "test_loss": CRITERIA}


def define():
    """Define one class of each kind."""
    tau_spec = ParameterSpec(
        "tau", 0.5, low=0, high=1, open_low=True, open_high=True, help="The expectile aimed at."
    )

    @dataclass(frozen=True)
    class Expectile(SeparableLoss):
        """``|tau - 1(r < 0)| r² / 2``."""

        tau: float = 0.5

        name = "expectile"
        label = "expectile"
        parameter_spec = tau_spec
        test_loss = "asymmetric"
        smoothness = 1.0

        def __post_init__(self):
            self.parameter_spec.store(self)

        def rho(self, r):
            return self._weight(r) * r * r / 2

        def score(self, r, s):
            return r * self.slope(r, s)

        def slope(self, r, s):
            return self._weight(r) / (1 + s * self._weight(r))

        def _weight(self, r):
            return np.where(r > 0, self.tau, 1 - self.tau)

    @dataclass(frozen=True, eq=False, repr=False)
    class BoundedLasso(SeparablePenalty):
        """``lam * Σ |b_j|`` where all ``|b_j| <= bound``."""

        bound: float = 1.0

        name = "bounded_lasso"
        label = "bounded lasso"
        parameter_spec = ParameterSpec("bound", bound, low=0, option="largest", help="The bound.")

        def __post_init__(self):
            super().__post_init__()
            self.parameter_spec.store(self)

        def cost(self, size, lam):
            return lam * size

        def pieces(self, lam, step):
            return [(step * lam, 1.0), (step * lam + self.bound, 0.0)]

    class AsymmetricError(Criterion):
        """Twice the loss of an expectile."""

        name = "asymmetric"
        label = "asymmetric error at {:.3g}"
        parameter_spec = tau_spec

        def rho(self, r):
            return 2 * Expectile(self.parameter).rho(r)

    return Expectile, BoundedLasso, AsymmetricError


@pytest.fixture
def defined():
    """One class of each kind, for the while."""
    with contextlib.ExitStack() as stack:
        for registry in REGISTRIES.values():
            stack.enter_context(mock.patch.dict(registry))
        yield define()


@pytest.mark.parametrize("command", ["fit", "tune", "compare"])
def test_the_command_has_options_for_them(command, defined):
    said = " ".join(call(command, "--help").stdout.split())
    for text in (
        "|expectile]",
        "|bounded-lasso]",
        "|asymmetric]",
        "The expectile aimed at. [0<x<1]",
    ):
        assert text in said
    context = click.Context(main)
    parameters = main.get_command(context, command).get_params(context)
    options = {each.name: each for each in parameters}
    assert options["bound"].opts == ["--largest"]
    assert "'--tau'" in refused(command, "x.csv", "--target", "y", "--tau", "1", code=2)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_model_files_and_reports_have_their_names(defined, tmp_path):
    file, out = write(tmp_path), tmp_path / "o"
    options = ("--loss", "expectile", "--tau", 0.75, "--penalty", "bounded-lasso", "--largest", 90)
    small = ("--no-plots", "--n-iter", 30, "--n-alphas", 3)
    said = call("fit", file, "--target", "price", "--out", out, *options, *small).stdout
    assert "price: expectile + bounded lasso" in said
    assert "expected asymmetric error at 0.75" in said
    model = sp.load_model(out / "model.json")
    loss, penalty, test_loss = defined
    assert model[-1].loss_ == loss(0.75)
    assert isinstance(model[-1].penalty_, penalty)
    assert model[-1].penalty_.bound == 90
    assert (model[-1].test_loss_, model[-1].test_parameter_) == (test_loss.name, 0.75)
    sp.save_model(model, out / "again.json")
    again = sp.load_model(out / "again.json")
    np.testing.assert_array_equal(again.predict(houses(5)), model.predict(houses(5)))
    report = (out / "report.html").read_text("utf-8")
    assert "expectile regression with a bounded lasso penalty" in report
    assert "the expected asymmetric error at 0.75 is" in report
    assert "mean asymmetric error at 0.75" in call("predict", out / "model.json", file).stderr
    other = ("--loss", "lad", "--test-loss", "asymmetric", "--tau", 0.9)
    said = call("fit", file, "--target", "price", "--out", out, *other, *small).stdout
    assert "expected asymmetric error at 0.9" in said


def test_internal_classes_are_not_registered():
    assert not {"free_intercept", "side_by_side"} & set(PENALTIES)
    for registry in REGISTRIES.values():
        assert all(kind.name == name and kind.label for name, kind in registry.items())


def test_a_name_is_taken_once(defined):
    with pytest.raises(ValueError, match=r"name 'lasso' of .* is already used by .*Lasso"):

        class Other(sp.Lasso):
            name = "lasso"
            label = "other"

    assert PENALTIES["lasso"] is sp.Lasso
    again = define()  # as a cell of a notebook that is run again
    assert LOSSES["expectile"] is again[0] is not defined[0]


def test_a_subclass_without_a_name_of_its_own_is_not_registered():
    class Mine(sp.Huber):
        pass

    assert LOSSES["huber"] is sp.Huber
    assert Mine.name == "huber"


def test_the_command_lists_what_a_name_is_enough_for():
    assert set(usable_names(LOSSES)) == set(LOSSES)
    assert set(usable_names(PENALTIES)) == set(PENALTIES) - {"group_lasso"}


def test_classes_share_a_parameter_with_the_widest_limits():
    assert set(parameter_specs()) == {"q", "delta", "eps", "l1_ratio", "gamma", "a"}
    delta = parameter_specs()["delta"]
    assert (delta.low, delta.high, delta.open_low) == (0, np.inf, True)  # of the pseudo-Huber loss
    assert sp.Huber.parameter_spec.high < np.inf


MAKERS = [
    (kind, spec)
    for registry in REGISTRIES.values()
    for kind in registry.values()
    if (spec := kind.parameter_spec) is not None
]


@pytest.mark.parametrize(("kind", "spec"), MAKERS, ids=lambda each: each.name)
def test_classes_check_the_limits_that_they_state(kind, spec):
    make = partial(kind, 1.0) if issubclass(kind, SeparablePenalty) else kind
    name = "parameter" if issubclass(kind, Criterion) else spec.name
    if name != "parameter":
        assert getattr(make(), name) == spec.default
    tiny = 1e-9
    tried = {spec.default: True, np.nan: False, np.inf: False, -np.inf: False}
    for limit, is_open, sign in ((spec.low, spec.open_low, 1), (spec.high, spec.open_high, -1)):
        if np.isfinite(limit):
            size = max(abs(limit), 1.0) * tiny
            tried |= {limit: not is_open, limit + sign * size: True, limit - sign * size: False}
    for value, allowed in tried.items():
        if allowed:
            assert getattr(make(**{name: value}), name) == value
        else:
            with pytest.raises(ValueError, match=f"{spec.name} must be a finite number in"):
                make(**{name: value})


@pytest.mark.parametrize("name", CRITERIA)
def test_test_losses_are_equal_by_value_and_can_be_pickled(name):
    kind = CRITERIA[name]
    one = resolve_test_loss(name)
    assert type(one) is kind
    assert isinstance(one, Criterion)
    assert pickle.loads(pickle.dumps(one)) == one
    assert hash(one) == hash(resolve_test_loss(name))
    assert one not in [resolve_test_loss(other) for other in CRITERIA if other != name]
    if kind.parameter_spec is None:
        with pytest.raises(ValueError, match=f"{name!r} takes no parameter"):
            kind(0.5)
    else:
        assert one != kind(one.parameter / 2)
        assert f"{one.parameter:.3g}" in one.words
