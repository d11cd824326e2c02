"""Test losses of the user's own: what they are handed, and what they may return."""

import numpy as np
import pandas as pd
import pytest
import torch

import backends
import steinpath as sp
from problems import draw

X, Y, _ = draw(40, 8)
LASSO = sp.Lasso(0.3)


def absolute(y, prediction):
    return abs(y - prediction)


def same_array():
    """Returns an array that it keeps and changes at the next call."""
    kept = {}

    def scoring(y, prediction):
        losses = kept.setdefault(tuple(y.shape), 0 * y)
        losses[...] = abs(y - prediction)
        return losses

    return scoring


ROUTES = {
    "loo": lambda path, loss: sp.estimate_risk(path, loss, method="loo", rng=0).values,
    "folds": lambda path, loss: sp.estimate_risk(path, loss, method="folds", rng=0).values,
    "exact": lambda path, loss: sp.estimate_risk(path, loss, method="exact", rng=0).values,
    "compressed": lambda path, loss: (
        sp.estimate_risk(path, loss, method="compressed", rng=0).probe_stderr
    ),
    "centered": lambda path, loss: sp.estimate_risk(path, loss, centered=True, rng=0).values,
    "audit": lambda path, loss: (
        sp.estimate_risk(path, loss, method="compressed", audit=5, rng=0).values
    ),
    "audit by folds": lambda path, loss: (
        sp.estimate_risk(path, loss, method="compressed", audit="folds", rng=0).values
    ),
    "compare": lambda path, loss: sp.estimate_risk(path, loss, rng=0).compare(3, 9),
    "cross-validation": lambda path, loss: (
        sp.cross_validate_path(path, 4, loss, burman=True, rng=0).values
    ),
    "leave-one-out": lambda path, loss: sp.leave_one_out_path(path, loss).values,
    "hold-out": lambda path, loss: sp.hold_out_path(path, 0.3, loss, rng=0).values,
    "tune": lambda path, loss: (
        sp.tune(X, Y, sp.LAD(), sp.Lasso, 3, n_iter=12, test_loss=loss, rng=0).risk
    ),
    "stop": lambda path, loss: (
        sp.run(
            X, Y, sp.LAD(), LASSO, n_iter=12, stop=sp.StopOnRisk(patience=3, test_loss=loss, rng=0)
        ).risk.values
    ),
    "estimator": lambda path, loss: (
        sp.LADLasso(n_alphas=3, n_iter=12, test_loss=loss, random_state=0).fit(X, Y).risk_path_
    ),
}


@pytest.mark.filterwarnings("ignore:the estimated risk was still decreasing")
@pytest.mark.parametrize("route", ROUTES.values(), ids=ROUTES)
def test_a_test_loss_may_return_the_same_array_each_time(route):
    path = sp.run(X, Y, sp.LAD(), LASSO, n_iter=12)
    found, expected = route(path, same_array()), route(path, absolute)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("which", [0, 1], ids=["y", "prediction"])
@pytest.mark.parametrize("route", ROUTES.values(), ids=ROUTES)
def test_a_test_loss_cannot_modify_its_arguments(route, which):
    def in_place(*arguments):
        arguments[which][...] = 0
        return arguments[which]

    path = sp.run(X, Y, sp.LAD(), LASSO, n_iter=12)
    with pytest.raises(ValueError, match="read-only"):
        route(path, in_place)


@backends.everywhere
def test_on_every_array_library():
    path = backends.sp.run(X, Y, sp.LAD(), LASSO, n_iter=12)
    found, expected = (
        backends.sp.estimate_risk(path, loss, method="loo").values
        for loss in (absolute, "absolute")
    )
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (lambda r: r + 0j, "must be real, got complex128"),
        (lambda r: np.ma.masked_less(abs(r), 0.1), "is a masked array"),
        (lambda r: abs(r).astype("timedelta64[s]"), "must hold real numbers, got dtype timedelta"),
        (lambda r: (1e9 * abs(r)).astype("datetime64[s]"), "must hold real numbers, got dtype"),
        (lambda r: r.astype(str).astype(object), "must hold real numbers only"),
        (lambda r: r.astype(str), "must hold real numbers, got dtype <U"),
        (lambda r: abs(r)[:, None], r"of shape \(40,\); it returned ndarray of shape \(40, 1\)"),
        (lambda r: abs(r)[None, :], r"it returned ndarray of shape \(1, 40\)"),
        (lambda r: abs(r).mean(), r"it returned float64 of shape \(\)"),
        (lambda r: None, "it returned NoneType of shape None"),
        (lambda r: abs(r).tolist(), "it returned list of shape None"),
        (lambda r: np.where(r > 0, r, np.nan), "NaN or infinite; a scoring loss must be finite"),
        (lambda r: torch.from_numpy(abs(r)), "is torch.Tensor but X is numpy.ndarray"),
        (lambda r: pd.Series(pd.to_datetime(1e9 * abs(r))), "must hold real numbers"),
    ],
)
@pytest.mark.parametrize("route", ["loo", "compressed", "audit", "cross-validation", "tune"])
def test_results_that_are_no_losses_are_refused(returned, message, route):
    path = sp.run(X, Y, sp.LAD(), LASSO, n_iter=12)
    with pytest.raises((TypeError, ValueError), match=message):
        ROUTES[route](path, lambda y, z: returned(y - z))


@pytest.mark.parametrize(
    "returned",
    [
        lambda r: abs(r) > 1,
        lambda r: (abs(r) > 1).astype(np.int8),
        lambda r: pd.Series(abs(r) > 1),
        lambda r: (abs(r) > 1).astype(">f4"),
    ],
    ids=["booleans", "integers", "series", "another byte order"],
)
def test_numbers_of_other_types_are_losses(returned):
    path = sp.run(X, Y, sp.LAD(), LASSO, n_iter=5)
    found = sp.leave_one_out_path(path, lambda y, z: returned(y - z)).values
    expected = sp.leave_one_out_path(path, lambda y, z: (abs(y - z) > 1) * 1.0).values
    np.testing.assert_array_equal(found, expected)


def test_tensors_of_another_kind_are_refused_or_moved():
    path = sp.run(torch.tensor(X), torch.tensor(Y), sp.LAD(), LASSO, n_iter=5)
    expected = sp.leave_one_out_path(path).values
    moved = sp.leave_one_out_path(path, lambda y, z: abs(y - z).numpy()).values
    np.testing.assert_allclose(moved, expected)
    for returned, message in (
        (lambda r: abs(r).requires_grad_(), "requires gradients"),
        (lambda r: abs(r).to(torch.complex128), "must be real"),
    ):
        with pytest.raises(TypeError, match=message):
            sp.leave_one_out_path(path, lambda y, z, f=returned: f(y - z))
