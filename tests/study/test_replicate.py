"""One replication, compared with direct calls of the public functions."""

from dataclasses import replace

import numpy as np
import pytest

import steinpath as sp
from steinpath.study import _replicate as module
from steinpath.study._replicate import WAYS, replicate
from steinpath.study._settings import PAIRS, Configuration

SETTING = Configuration("lad", "lasso", 50, 20, 8, tuple(WAYS), "gaussian", "t2")
HAND_LOSSES = {"lad": sp.LAD(), "square_root": sp.SquareRoot()}
HAND_PENALTIES = {
    "ridge": sp.Ridge(0.5),
    "lasso": sp.Lasso(0.5),
    "mcp": sp.MCP(0.5, gamma=3.0),
    "scad": sp.SCAD(0.5, a=3.7),
}
CRITERIA = {"lad": np.abs, "square_root": np.square}


def streams(config, seed):
    """Return random generators of the data and of each estimator."""
    sequence = np.random.SeedSequence([seed, config.n, config.p])
    data, *others = map(np.random.default_rng, sequence.spawn(1 + len(WAYS)))
    return data, dict(zip(WAYS, others, strict=True))


def data_by_hand(config, seed):
    rng, _ = streams(config, seed)
    errors = rng.spawn(1)[0]
    model = sp.simulate.paper_model(config.p, config.noise)
    values, vectors = np.linalg.eigh(model.covariance)
    X = rng.standard_normal((config.n, config.p)) @ (vectors * np.sqrt(values)) @ vectors.T
    draw = {
        "t2": lambda: errors.standard_t(2, config.n),
        "normal": lambda: errors.standard_normal(config.n),
        "laplace": lambda: errors.laplace(size=config.n),
    }
    return X, X @ model.coef + draw[config.noise](), model


@pytest.mark.parametrize(("loss", "penalty"), PAIRS)
def test_a_replication_is_what_a_user_would_do(loss, penalty):
    """All pairs have the same streams of random numbers, which depend on seed, n and p."""
    noise = {"lad": "t2", "square_root": "normal"}[loss]
    config = replace(SETTING, loss=loss, penalty=penalty, noise=noise)
    found = replicate(config, 3)
    X, y, model = data_by_hand(config, 3)
    _, rng = streams(config, 3)
    algorithm = sp.ChambollePock(sigma=0.1, tau=0.1, theta=0.5)
    path = sp.run(X, y, HAND_LOSSES[loss], HAND_PENALTIES[penalty], algorithm, n_iter=8)

    def estimate(way, **options):
        return sp.estimate_risk(path, method="compressed", rng=rng[way], **options)

    by_hand = {
        "tilde": estimate("tilde", covariance=model.covariance),
        "hat": estimate("hat"),
        "scaled": estimate("scaled", row_scale="norm"),
        "audited": estimate("audited", audit=32),
        "safe": estimate("safe", audit=32, row_scale="auto"),
        "five": sp.cross_validate_path(path, 5, rng=rng["five"]),
        "ten": sp.cross_validate_path(path, 10, rng=rng["ten"]),
        "loo": sp.leave_one_out_path(path),
        "unaudited": estimate("unaudited"),
        "folds": sp.estimate_risk(path, method="folds", rng=rng["folds"]),
    }
    assert set(by_hand) == set(WAYS)
    for way, risk in by_hand.items():
        np.testing.assert_allclose(found[way], risk.values, rtol=1e-5, err_msg=way)
        np.testing.assert_allclose(found[f"{way}_stderr"], risk.stderr, rtol=1e-4, err_msg=way)
    assert by_hand["tilde"].covariance_known
    assert not by_hand["hat"].covariance_known
    watched = ("safe", "unaudited")
    for way in watched:
        assert (found[f"{way}_warned"] == bool(by_hand[way].warnings)).all()
    test_loss = {"lad": "absolute", "square_root": "squared"}[loss]
    np.testing.assert_allclose(found["truth"], model.risk(path.coef, test_loss), rtol=1e-9)
    train = CRITERIA[loss](y - path.coef @ X.T).mean(axis=1)
    np.testing.assert_allclose(found["train"], train, rtol=1e-9)
    names = {*by_hand, *(f"{way}_stderr" for way in by_hand), "truth", "train"}
    assert set(found) == names | {f"{way}_warned" for way in watched}
    assert all(column.shape == (9,) and column.dtype == float for column in found.values())


def test_the_streams_of_the_first_estimators_stay():
    first = ("tilde", "hat", "scaled", "audited", "safe", "five", "ten", "loo")
    assert first == WAYS[: len(first)]
    assert set(module.CORRECTIONS) <= set(WAYS)


@pytest.mark.parametrize(("rows", "warned"), [("gaussian", 0.0), ("near-duplicate rows", 1.0)])
def test_warnings_are_counted_and_not_heard(rows, warned):
    config = Configuration("square_root", "ridge", 120, 40, 20, ("safe",), rows, "normal")
    found = replicate(config, 0)
    np.testing.assert_array_equal(found["safe_warned"], np.full(21, warned))


@pytest.mark.parametrize(("iters", "warned"), [(20, 0.0), (600, 1.0)])
def test_unreliable_late_iterates_are_counted(iters, warned):
    config = Configuration("lad", "lasso", 60, 120, iters, ("unaudited",), "gaussian", "laplace")
    np.testing.assert_array_equal(replicate(config, 0)["unaudited_warned"], warned)


@pytest.mark.parametrize("rows", module.SCENARIOS)
def test_the_truth_of_the_zero_prediction_is_known(rows):
    """Signal and noise have variances 2 and 1 for every design."""
    config = Configuration("square_root", "ridge", 30, 20, 2, (), rows, "normal")
    assert replicate(config, 0)["truth"][0] == pytest.approx(3, rel=1e-9)


@pytest.mark.parametrize("rows", module.SCENARIOS)
def test_torch_gives_what_numpy_does(rows):
    """For LAD, where both draw the same probes."""
    config = replace(SETTING, rows=rows)
    expected = replicate(config, 0)
    found = replicate(replace(config, backend="torch"), 0)
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        assert isinstance(found[name], np.ndarray)
        np.testing.assert_allclose(found[name], values, rtol=1e-5, err_msg=name)


@pytest.mark.parametrize(
    "config",
    [
        replace(SETTING, rows="heavy-tailed features", noise="laplace"),
        Configuration("lad", "lasso", 60, 12, 8, ("rows", "groups"), "clusters of 3", "normal"),
        Configuration("hinge", "lasso", 60, 12, 8, ("hat", "burman"), "equal classes", "logistic"),
        Configuration("lad", "lasso", 80, 40, 12, ("known", "nodewise"), "gaussian", "t2"),
    ],
    ids=lambda config: config.kind,
)
def test_a_way_is_the_same_every_time_and_does_not_depend_on_the_others(config):
    together = replicate(config, 1)
    for way in config.ways:
        alone = replicate(replace(config, ways=(way,)), 1)
        for name, values in alone.items():
            np.testing.assert_array_equal(together[name], values)
    assert all(column.dtype == float for column in together.values())
    other = replicate(config, 2)
    assert any(not np.array_equal(other[name], together[name]) for name in together)
