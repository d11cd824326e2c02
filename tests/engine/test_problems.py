"""Problems with the same X as members of one batch: other losses, labels and levels."""

import numpy as np
import pytest
import torch

import steinpath as sp
from problems import draw
from steinpath._support.arrays import to_numpy
from steinpath.engine._batch import Batch, NotAlike
from steinpath.engine._data import prepare
from steinpath.engine._run import start
from steinpath.problem._scoring import resolve_test_loss
from steinpath.risk._leave_out import cross_validate, models_without
from steinpath.risk._splits import Splits

N, P = 24, 5
X, Y, _ = draw(N, P)
CLASSES = np.arange(N) % 3
FOLDS = Splits.of_folds(np.arange(N) % 4, 4)
PROBLEMS = {
    "quantiles": [(Y, sp.Quantile(q)) for q in (0.1, 0.5, 0.9)],
    "widths": [(Y, sp.Huber(delta)) for delta in (0.5, 2.0)],
    "classes": [(np.where(k == CLASSES, 1.0, -1.0), sp.Logistic()) for k in range(3)],
    "weighted classes": [
        (np.where(k == CLASSES, 1.0, -1.0), sp.Logistic({-1: 1.0, 1: 2.0 + k})) for k in range(3)
    ],
}
KINDS = pytest.mark.parametrize("kind", PROBLEMS)
INTERCEPT = pytest.mark.parametrize("intercept", [False, True], ids=["plain", "intercept"])
LAMS = (0.3, 0.1)


def separate(kind, intercept, algorithm, weights=None, place=np.asarray):
    batches = []
    for y, loss in PROBLEMS[kind]:
        data = prepare(place(X), place(y), loss, intercept, weights)
        batches.append(start(data, sp.Lasso(np.array(LAMS)), algorithm, len(LAMS)))
    return batches


@KINDS
@INTERCEPT
@pytest.mark.parametrize("place", [np.asarray, torch.asarray], ids=["numpy", "torch"])
def test_each_runs_as_it_does_alone(kind, intercept, place):
    batches = separate(kind, intercept, sp.HalpernPDHG(ratio="auto"), place=place)
    joint = Batch.joined(batches).extended(15)
    for k, alone in enumerate(batches):
        expected, found = alone.extended(15), joint.part([2 * k, 2 * k + 1])
        for one in (found, joint):
            paths = list(one)[2 * k :][:2] if one is joint else list(one)
            for path, other in zip(paths, expected, strict=True):
                for name in ("coef", "dual", "fitted", "intercept"):
                    values = (to_numpy(getattr(each, name)) for each in (path, other))
                    np.testing.assert_allclose(*values, atol=1e-10)
                assert path.loss == other.loss
                assert path.level == pytest.approx(other.level)


@KINDS
@INTERCEPT
@pytest.mark.parametrize("weights", [None, np.linspace(0.5, 2, N)], ids=["alike", "weights"])
def test_folds_of_each_have_their_own_loss_and_start(kind, intercept, weights):
    batches = separate(kind, intercept, sp.ChambollePock(), weights)
    joint = Batch.joined(batches).extended(10)
    criteria = [resolve_test_loss(None, path.loss) for path in joint]
    criteria = [
        one.about(path.y, path.level, path.data.sample_weight)
        for one, path in zip(criteria, joint, strict=True)
    ]
    found = cross_validate(joint, criteria, FOLDS, with_losses=True)
    for k, alone in enumerate(batches):
        own = criteria[2 * k : 2 * k + 2]
        for j, one in enumerate(cross_validate(alone.extended(10), own, FOLDS, with_losses=True)):
            both = found[2 * k + j]
            np.testing.assert_allclose(both.predictions, one.predictions, atol=1e-10)
            np.testing.assert_allclose(both.losses, one.losses, atol=1e-10)
            np.testing.assert_allclose(both.optimism, one.optimism, atol=1e-10)


@KINDS
@INTERCEPT
def test_models_of_splits_are_those_of_their_problems(kind, intercept):
    batches = separate(kind, intercept, sp.ChambollePock())
    joint = Batch.joined(batches)
    members, at = [0, 3, 1, 2], [3, 5, 8, 2]
    found = models_without(joint.part(members), FOLDS.train, at)
    for k, (member, t) in enumerate(zip(members, at, strict=True)):
        alone = batches[member // 2].part([member % 2])
        expected = models_without(alone, FOLDS.train[:, [k]], [t])
        np.testing.assert_allclose(found.coef[k], expected.coef[0], atol=1e-10)
        np.testing.assert_allclose(found.intercept[k], expected.intercept[0], atol=1e-10)
        np.testing.assert_allclose(found.predictions[:, k], expected.predictions[:, 0], atol=1e-10)


def test_other_kinds_of_losses_are_not_joined():
    batches = [
        start(prepare(X, Y, loss, False), sp.Lasso(0.1), sp.ChambollePock())
        for loss in (sp.LAD(), sp.SquareRoot())
    ]
    with pytest.raises(NotAlike, match=r"LAD\(\) and SquareRoot\(\) cannot be run together"):
        Batch.joined(batches)
