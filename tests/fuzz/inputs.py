"""Random inputs: sensible ones, extreme ones, and such as are plainly wrong.

Everything is drawn from a NumPy generator, so that a case is known by its seed.
"""

import decimal
import fractions
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import polars
import torch
from scipy import sparse

import steinpath as sp

SIZES = (1, 2, 3, 5, 8, 13, 21, 40)
NAN, INF = float("nan"), float("inf")
WRONG = (
    *(None, True, "auto", "", b"bytes", -1, 0, 2.5, NAN, INF, -INF, 1e-320, 1e308, 10**400, 1j),
    *([], [1, 2], {}, object(), int, np.float32(0.5), np.int8(3), np.array([0.5])),
    *(np.datetime64("2020-01-01"), decimal.Decimal("0.5"), fractions.Fraction(1, 3)),
)


def one_of(rng, values):
    """One of several values, of whatever kinds."""
    return values[rng.integers(len(values))]


def chance(rng, probability):
    """Whether something happens."""
    return rng.random() < probability


def mostly(rng, good, bad, *, wrong=0.08):
    """One of several good values; rarely one of the bad ones."""
    return one_of(rng, bad if chance(rng, wrong) else good)


def number(rng, low, high, *, bad=0.15):
    """A number in a range; sometimes at its ends, far outside, or no number at all."""
    if chance(rng, bad):
        return one_of(rng, WRONG)
    if chance(rng, 0.1):
        return one_of(rng, (low, high, np.nextafter(low, high), 10.0 ** rng.integers(-300, 300)))
    return float(low + (high - low) * rng.random() ** 3)


def count(rng, values, *, bad=0.1):
    """One of several integers; sometimes something else."""
    return one_of(rng, WRONG) if chance(rng, bad) else one_of(rng, values)


@dataclass
class Data:
    """A regression problem: what is handed in, and the plain numbers behind it."""

    X: Any
    y: Any
    #: The same as float64 arrays, where nothing is wrong with them that was put there on purpose.
    plain_X: np.ndarray | None
    plain_y: np.ndarray | None


def problem(rng, *, wild=0.5):
    """X and y: with probability ``wild`` each has something odd about it."""
    n, p = (int(one_of(rng, SIZES)) for _ in "np")
    with np.errstate(all="ignore"):
        X = features(rng, n, p, wild)
        y = target(rng, X, wild)
    X, plain_X = _disguised(rng, X, wild, wild)
    y, plain_y = _disguised(rng, y, wild, wild / 4)
    return Data(X, y, plain_X, plain_y)


def _disguised(rng, values, wild, often):
    """Something in place of values, and the plain numbers that it has, if it has any."""
    if chance(rng, wild / 40):
        return one_of(rng, WRONG), None
    if chance(rng, wild / 8):
        return poisoned(rng, values), None
    return dressed(rng, values) if chance(rng, often) else (values, values.copy())


def features(rng, n, p, wild):
    """A matrix of features, often degenerate."""
    X = rng.standard_normal((n, p))
    j, i = rng.integers(p), rng.integers(n)
    if not chance(rng, wild):
        return X
    match rng.integers(10):
        case 0:
            X[:] = 0
        case 1:
            X[:, j] = one_of(rng, (0.0, 1.0, -3.0, 1e8))
        case 2:
            X[:, j], X[i] = X[:, 0], X[0]
        case 3:
            X = np.outer(X[:, 0], X[0])
        case 4:
            X = np.round(X)
        case 5:
            X *= 10.0 ** rng.integers(-12, 13)
        case 6:
            X *= 10.0 ** rng.integers(-320, 308)
        case 7:
            X[:, j] *= 10.0 ** rng.integers(-200, 200)
        case 8:
            X += 10.0 ** rng.integers(0, 16)
        case 9:
            X[i] *= 10.0 ** rng.integers(-6, 7)
    return X


def target(rng, X, wild):
    """A target: linear in the features with noise, or something degenerate."""
    n, p = X.shape
    y = X @ (rng.standard_normal(p) * (rng.random(p) < 0.3))
    noise = one_of(rng, (rng.standard_normal, lambda k: rng.standard_t(2, k)))(n)
    if chance(rng, 0.15):  # labels, of one class now and then
        return np.where(noise > one_of(rng, (0.0, -1.0, 1.0, 3.0)), 1.0, -1.0)
    if not chance(rng, wild):
        return y + noise if np.isfinite(y).all() else noise
    degenerate = (
        lambda: np.full(n, one_of(rng, (0.0, 1.0, -1e8, 0.1))),
        lambda: y,  # a perfect fit
        lambda: np.round(noise),  # ties
        lambda: noise * 10.0 ** rng.integers(-12, 13),
        lambda: noise * 10.0 ** rng.integers(-320, 308),
        lambda: noise + 10.0 ** rng.integers(0, 16),
        lambda: np.where(rng.random(n) < 0.2, 1e6, noise),
        lambda: rng.standard_cauchy(n) ** 3,
    )
    return one_of(rng, degenerate)()


def poisoned(rng, values):
    """Something that no regression can be run on."""
    values, where = values.copy(), rng.integers(values.size)
    frame = pd.DataFrame(values.reshape(len(values), -1))
    days = np.datetime64("2020-01-01") + np.arange(values.size).reshape(values.shape)

    def with_entry(entry, kind=float):
        changed = values.astype(kind)
        changed.flat[where] = entry
        return changed

    forms = (
        lambda: with_entry(one_of(rng, (NAN, INF, -INF))),
        lambda: with_entry(one_of(rng, (None, "a", 1 + 1j, 10**400, decimal.Decimal("NaN"))), "O"),
        lambda: values[: rng.integers(len(values))],
        lambda: one_of(rng, (values[None], values[..., None])),
        lambda: values.reshape(-1)[: len(values)],
        lambda: values.astype(complex),
        lambda: one_of(rng, (values.astype(str), frame.astype("string"))),
        lambda: [*values.ravel().tolist(), [1.0, 2.0]],
        lambda: np.ma.array(values, mask=values > np.median(values)),
        lambda: one_of(rng, (days, days - days.flat[0])),
        lambda: frame.assign(when=pd.date_range("2020-01-01", periods=len(values))),
        lambda: frame.astype("Float64").mask(frame >= frame.max(axis=None)),
        lambda: torch.tensor(values, requires_grad=True),
    )
    return one_of(rng, forms)()


def is_numeric(values):
    """Whether nothing in it is masked, missing, infinite, complex, a date or a time."""
    if np.ma.is_masked(values):
        return False
    if isinstance(values, pd.DataFrame | pd.Series):
        if values.isna().to_numpy().any():
            return False
        kinds = {dtype.kind for dtype in np.atleast_1d(values.dtypes)}
    elif isinstance(values, np.ndarray):
        kinds = {values.dtype.kind}
        if kinds == {"f"} and not np.isfinite(values).all():
            return False
    else:
        return True  # for all we know
    return not kinds & {*"mMc"}


def dressed(rng, values):
    """The same numbers in another container, dtype or layout, and as a plain array."""
    matrix = values.ndim == 2
    with np.errstate(all="ignore"):
        single = values.astype(np.float32)
        whole = np.clip(values, -100, 100).astype(one_of(rng, (np.int8, np.int64)))
    read_only = values.copy()
    read_only.flags.writeable = False
    kinds = sparse.csr_array, sparse.csc_matrix, sparse.coo_array, sparse.lil_array
    forms = [
        (np.asfortranarray(values), values),
        (np.repeat(values, 2, axis=0)[::2], values),
        (values[::-1], values[::-1].copy()),
        (read_only, values),
        (values.astype(">f8"), values),
        (values.tolist(), values),
        (values.astype(object), values),
        (pd.DataFrame(values) if matrix else pd.Series(values, dtype="Float64"), values),
        (polars.DataFrame(values) if matrix else polars.Series(values), values),
        (torch.tensor(np.ascontiguousarray(values)), values),
        (one_of(rng, kinds)(values) if matrix else values[:, None], values),
        (single, single.astype(float) if np.isfinite(single).all() else None),
        (whole, whole.astype(float)),
        (values > 0, (values > 0).astype(float)),
        (values.astype(np.longdouble), None),
        (np.ma.array(values), values),
    ]
    return one_of(rng, forms)


def sample_weight(rng, y):
    """Weights of rows: counts, fractions, and such as are refused."""
    size = len(y) if getattr(y, "shape", ()) or isinstance(y, list) else 1
    counts = rng.integers(0, 4, size)
    good = (
        *(np.ones(size), rng.random(size), rng.random(size).astype(np.float32), counts, 2.0),
        *(counts.tolist(), pd.Series(counts + 0.5), 10.0 ** rng.integers(-9, 4, size)),
    )
    bad = (
        *(np.zeros(size), -np.ones(size), np.full(size, np.nan), np.ones(size + 1)),
        *(np.ma.array(counts, mask=counts > 1), counts.astype("datetime64[D]"), counts * 10**12),
        *WRONG,
    )
    return mostly(rng, good, bad, wrong=0.2)


def loss(rng):
    """A loss, sometimes with a parameter that is refused."""
    margin = one_of(rng, (sp.Hinge, sp.SquaredHinge, sp.Logistic))
    forms = (
        sp.LAD,
        sp.SquareRoot,
        sp.Squared,
        lambda: sp.Quantile(number(rng, 0.0, 1.0, bad=0.02)),
        lambda: sp.Huber(number(rng, 0.0, 3.0, bad=0.02)),
        lambda: sp.EpsilonInsensitive(number(rng, 0.0, 1.0, bad=0.02)),
        lambda: margin(class_weight(rng)),
        lambda: mostly(rng, (sp.LAD(),), (*WRONG, sp.LAD, sp.Lasso(1.0))),
    )
    return one_of(rng, forms)()


def class_weight(rng):
    """Weights of the classes -1 and 1; more often none."""
    good = None, None, "balanced", {-1: 1.0, 1: 3.0}, {1: 1e-3}, {}
    return mostly(rng, good, ({0: 1.0}, {1: -1.0}, {1: 0.0}, {-1: NAN}, "x", 3, [1, 2]))


def penalty(rng, p=3):
    """A penalty, sometimes with parameters that are refused."""
    lam, weights = number(rng, 0.0, 2.0, bad=0.01), None
    if chance(rng, 0.2):
        weights = rng.random(p) * (rng.random(p) < 0.7) * 10.0 ** rng.integers(-4, 5)
        weights = mostly(rng, (weights,), (-weights, weights[:-1], weights * np.nan, *WRONG))
    forms = (
        lambda: sp.Lasso(lam, weights=weights),
        lambda: sp.Ridge(lam, weights=weights),
        lambda: sp.ElasticNet(lam, number(rng, 0.0, 1.0, bad=0.01), weights=weights),
        lambda: sp.MCP(lam, number(rng, 1.0, 5.0, bad=0.01), weights=weights),
        lambda: sp.SCAD(lam, number(rng, 2.0, 5.0, bad=0.01), weights=weights),
        lambda: sp.GroupLasso(lam, rng.integers(0, 3, p), weights=None),
        sp.NoPenalty,
        lambda: mostly(rng, (sp.Lasso(lam),), (*WRONG, sp.Lasso)),
    )
    return one_of(rng, forms)()


def algorithm(rng):
    """An algorithm, mostly with its own steps."""

    def step():
        return None if chance(rng, 0.7) else number(rng, 0.0, 2.0, bad=0.02)

    def ratio():
        return mostly(rng, ("auto", 1.0, 0.01, 30.0), (0, -1.0, "best", NAN, *WRONG))

    restart = mostly(rng, (None, 1, 2, 5, 100), (0, -1, 2.5, *WRONG))
    forms = (
        lambda: sp.ChambollePock(step(), step()),
        lambda: sp.ChambollePock(theta=number(rng, 0.0, 1.0, bad=0.02)),
        lambda: sp.ChambollePock(relaxation=number(rng, 0.5, 2.0, bad=0.02)),
        lambda: sp.LinearizedADMM(step(), step()),
        lambda: sp.HalpernPDHG(step(), step(), restart, ratio()),
        lambda: sp.ChambollePock(ratio=ratio()),
        lambda: sp.ProximalGradient(step()),
        lambda: sp.FISTA(step()),
        lambda: mostly(rng, (sp.ChambollePock(),), (*WRONG, sp.FISTA), wrong=0.2),
    )
    return sp.ChambollePock() if chance(rng, 0.5) else one_of(rng, forms)()


def columns(X, default=3):
    """How many columns something has that may not have any."""
    shape = getattr(X, "shape", ())
    return shape[1] if len(shape) == 2 and shape[1] else default


def test_loss(rng):
    """A test loss by name, by function, or something else."""
    good = (
        *(None, "absolute", "squared", "huber", "pseudo_huber", "quantile", "epsilon_insensitive"),
        *("zero_one", "log", "hinge", "squared_hinge", "brier", sp.Quantile(0.3), sp.Logistic()),
        lambda y, prediction: abs(y - prediction),
    )
    bad = (
        lambda y, prediction: (y - prediction)[:1],
        lambda y, prediction: (y - prediction) * NAN,
        *("nonsense", sp.LAD, 1, []),
    )
    return mostly(rng, good, bad)
