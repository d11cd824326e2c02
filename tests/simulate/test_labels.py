"""Model of labels: samples, and exact risk compared with independent computations."""

import itertools
import math

import numpy as np
import pytest
from scipy import integrate, stats
from scipy.special import expit

import steinpath as sp

LOSSES = {
    "zero_one": lambda m: (1 - np.sign(m)) / 2,
    "log": lambda m: np.logaddexp(0, -m),
    "hinge": lambda m: np.maximum(1 - m, 0),
    "squared_hinge": lambda m: np.maximum(1 - m, 0) ** 2,
    "brier": lambda m: expit(-m) ** 2,
}
EVERY = pytest.mark.parametrize("name", LOSSES)


@pytest.fixture(scope="module")
def model():
    covariance = sp.simulate.toeplitz(6, 0.4)
    mean = np.linspace(-1, 1, 6)
    coef = np.array([1.0, -2.0, 0.5, 0, 0, 1.0])
    return sp.simulate.LabelModel(coef, covariance, mean, intercept=0.7)


@EVERY
def test_risk_is_the_mean_loss_of_very_many_rows(model, name):
    rng = np.random.default_rng(0)
    X, y = model.sample(400_000, rng)
    coef = np.stack([model.coef, rng.standard_normal(6), 20 * rng.standard_normal(6), np.zeros(6)])
    intercept = np.array([0.7, -0.4, 3.0, 0.2])
    found = model.risk(coef, name, intercept)
    assert found.shape == (4,)
    for b, k, risk in zip(coef, intercept, found, strict=True):
        losses = LOSSES[name](y * (X @ b + k))
        assert abs(losses.mean() - risk) < 4.5 * losses.std() / math.sqrt(len(y)) + 1e-12
        assert model.risk(b, name, k) == pytest.approx(risk, rel=1e-12)


@EVERY
@pytest.mark.parametrize("scale", [1e-6, 0.3, 2.0, 50.0])
def test_risk_of_one_feature_is_a_single_integral(name, scale):
    model = sp.simulate.LabelModel([1.7], intercept=0.5)

    def integrand(x):
        up, z = expit(1.7 * x + 0.5), scale * x - 0.3
        return stats.norm.pdf(x) * (up * LOSSES[name](z) + (1 - up) * LOSSES[name](-z))

    kinks = [(k + 0.3) / scale for k in (-20.0, -4.0, -1.0, 0.0, 1.0, 4.0, 20.0)]
    edges = np.unique(np.clip([-10.0, -2.0, 0.0, 2.0, 10.0, *kinks], -10, 10))
    expected = sum(
        integrate.quad(integrand, a, b, epsabs=1e-12)[0] for a, b in itertools.pairwise(edges)
    )
    assert model.risk([scale], name, -0.3) == pytest.approx(expected, rel=1e-8)


def test_class_weights_have_mean_one(model):
    loss = sp.Logistic(class_weight={-1: 1.0, 1: 5.0})
    X, y = model.sample(400_000, rng=2)
    weights = np.where(y > 0, 5.0, 1.0)
    losses = LOSSES["log"](y * (X @ model.coef))
    expected = np.average(losses, weights=weights)
    assert model.risk(model.coef, loss) == pytest.approx(expected, rel=0.01)
    same = sp.Logistic(class_weight={-1: 3.0, 1: 3.0})
    assert model.risk(model.coef, same) == pytest.approx(model.risk(model.coef, "log"), rel=1e-10)


def test_labels_are_drawn_with_their_probabilities(model):
    X, y = model.sample(200_000, rng=3)
    assert set(np.unique(y)) == {-1.0, 1.0}
    up = expit(X @ model.coef + 0.7)
    error = (y > 0) - up
    for each in (error, error * (up > 0.8), error * X[:, 0]):
        assert abs(each.mean()) < 4.5 * each.std() / math.sqrt(len(y))
    assert (y > 0).mean() == pytest.approx(model.share, abs=0.005)
    np.testing.assert_allclose(np.cov(X.T), model.covariance, atol=0.02)
    np.testing.assert_array_equal(model.sample(5, rng=3).X, model.sample(5, rng=3).X)


def test_few_informative_features():
    model = sp.simulate.label_model(50, intercept=1.5)
    assert np.count_nonzero(model.coef) == 20
    assert model.coef @ model.coef == pytest.approx(4)
    assert 0.7 < model.share < 0.75
    covariance = sp.simulate.toeplitz(8)
    model = sp.simulate.label_model(8, strength=2.0, informative=20, covariance=covariance)
    assert model.coef @ covariance @ model.coef == pytest.approx(2)
    assert np.ptp(model.coef) == 0


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((np.zeros(6), "absolute"), "'zero_one', 'log'"),
        ((np.zeros(6), lambda y, z: y * z), "'zero_one', 'log'"),
        ((np.zeros(5),), "coefficients per row, one per feature of the model"),
        ((np.zeros((2, 6)), "log", np.zeros(3)), r"shape \(2,\), one per row of coef"),
    ],
)
def test_what_has_no_risk_is_refused(model, args, message):
    with pytest.raises(ValueError, match=message):
        model.risk(*args)
