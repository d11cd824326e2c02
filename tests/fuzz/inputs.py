"""Random inputs: sensible ones, extreme ones, and such as are plainly wrong.

Everything is drawn from a NumPy generator, so that a case is known by its seed.
"""

import datetime
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
WRONG = (
    None,
    True,
    "auto",
    "",
    b"bytes",
    -1,
    0,
    2.5,
    float("nan"),
    float("inf"),
    -float("inf"),
    1e-320,
    1e308,
    10**400,
    1j,
    [],
    [1, 2],
    {},
    (),
    object(),
    int,
    np.float32(0.5),
    np.int8(3),
    np.bool_(True),
    np.array(0.5),
    np.array([0.5]),
    np.datetime64("2020-01-01"),
    decimal.Decimal("0.5"),
    fractions.Fraction(1, 3),
    datetime.date(2020, 1, 1),
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
    X = features(rng, n, p, wild)
    y = target(rng, X, wild)
    plain_X, plain_y = X.copy(), y.copy()
    if chance(rng, wild / 8):
        X, plain_X = poisoned(rng, X), None
    if chance(rng, wild / 8):
        y, plain_y = poisoned(rng, y), None
    if plain_X is not None and chance(rng, wild):
        X, plain_X = dressed(rng, X)
    if plain_y is not None and chance(rng, wild / 4):
        y, plain_y = dressed(rng, y)
    if chance(rng, wild / 40):
        X, plain_X = one_of(rng, WRONG), None
    if chance(rng, wild / 40):
        y, plain_y = one_of(rng, WRONG), None
    return Data(X, y, plain_X, plain_y)


def features(rng, n, p, wild):
    """A matrix of features, often degenerate."""
    X = rng.standard_normal((n, p))
    if not chance(rng, wild):
        return X
    with np.errstate(over="ignore"):
        return _degenerate(rng, X)


def _degenerate(rng, X):
    n, p = X.shape
    for _ in range(rng.integers(1, 3)):
        j = rng.integers(p)
        match rng.integers(12):
            case 0:
                X[:] = 0
            case 1:
                X[:, j] = one_of(rng, (0.0, 1.0, -3.0, 1e8))
            case 2:
                X[:, j] = X[:, rng.integers(p)]
            case 3:
                X[rng.integers(n)] = X[rng.integers(n)]
            case 4:
                X = np.outer(rng.standard_normal(n), rng.standard_normal(p))
            case 5:
                X = np.round(X)
            case 6:
                X = X * 10.0 ** rng.integers(-12, 13)
            case 7:
                X = X * 10.0 ** rng.integers(-320, 308)
            case 8:
                X[:, j] *= 10.0 ** rng.integers(-200, 200)
            case 9:
                X = X + 10.0 ** rng.integers(0, 16)
            case 10:
                X[rng.integers(n)] *= 10.0 ** rng.integers(-6, 7)
            case 11:
                X = (X > 0.5).astype(float)
    return X


def target(rng, X, wild):
    """A target: linear in the features with noise, or something degenerate."""
    n, p = X.shape
    with np.errstate(all="ignore"):
        y = X @ (rng.standard_normal(p) * (rng.random(p) < 0.3))
        noise = one_of(rng, (rng.standard_normal, lambda k: rng.standard_t(2, k)))(n)
        if chance(rng, 0.15):  # labels, of one class now and then
            return np.where(noise > one_of(rng, (0.0, -1.0, 1.0, 3.0)), 1.0, -1.0)
        if not chance(rng, wild):
            return y + noise if np.isfinite(y).all() else noise
        match rng.integers(9):
            case 0:
                y = np.zeros(n)
            case 1:
                y = np.full(n, one_of(rng, (1.0, -1e8, 0.1)))
            case 2:
                pass  # a perfect fit
            case 3:
                y = np.round(noise)  # ties
            case 4:
                y = noise * 10.0 ** rng.integers(-12, 13)
            case 5:
                y = noise * 10.0 ** rng.integers(-320, 308)
            case 6:
                y = noise + 10.0 ** rng.integers(0, 16)
            case 7:
                y = np.where(rng.random(n) < 0.2, 1e6, noise)
            case 8:
                y = rng.standard_cauchy(n) ** 3
    return y


def poisoned(rng, values):
    """Something that no regression can be run on."""
    values = values.copy()
    match rng.integers(19):
        case 0:
            values.flat[rng.integers(values.size)] = np.nan
        case 1:
            values.flat[rng.integers(values.size)] = one_of(rng, (np.inf, -np.inf))
        case 2:
            values = values[: rng.integers(len(values))]
        case 3:
            values = values[None]
        case 4:
            values = values.astype(complex)
        case 5:
            values = values.astype(str)
        case 6:
            values = values.astype(object)
            values.flat[0] = one_of(rng, (None, "a", object(), 1 + 1j, 10**400))
        case 7:
            values = [*values.ravel().tolist(), [1.0, 2.0]]
        case 8:
            values = np.full(values.shape, np.datetime64("2020-01-01"))
        case 9:
            values = values.reshape(-1)[: len(values)]
        case 10:
            values = np.ma.array(values, mask=values > np.median(values))
        case 11:
            values = values[..., None]
        case 12:
            when = np.datetime64("2020-01-01") + np.arange(values.size).reshape(values.shape)
            values = one_of(rng, (when, when - when.flat[0]))
        case 13:
            values = pd.DataFrame(values.reshape(len(values), -1))
            values[0] = pd.date_range("2020-01-01", periods=len(values))
        case 14:
            values = pd.DataFrame(values.reshape(len(values), -1), dtype="Float64")
            values.iloc[rng.integers(len(values)), 0] = pd.NA
        case 15:
            values = pd.DataFrame(values.reshape(len(values), -1)).astype("string")
        case 16:
            values = values.astype(object)
            values.flat[0] = one_of(rng, (datetime.date(2020, 1, 1), decimal.Decimal("NaN"), [1.0]))
        case 17:
            values = np.rec.fromarrays(np.atleast_2d(values.T))
        case 18:
            values = torch.tensor(values, requires_grad=True)
    return values


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
    """The same numbers, or what is left of them, in another container, dtype or layout."""
    match rng.integers(20):
        case 0:
            return np.asfortranarray(values), values
        case 1:
            return np.repeat(values, 2, axis=0)[::2], values
        case 2:
            return values[::-1], values[::-1]
        case 3:
            values.flags.writeable = False
            return values, values
        case 4:
            return values.astype(">f8"), values
        case 5:
            return values.tolist(), values
        case 6:
            return pd.DataFrame(values) if values.ndim == 2 else pd.Series(values), values
        case 7:
            as_polars = polars.DataFrame if values.ndim == 2 else polars.Series
            return as_polars(values), values
        case 8:
            return torch.tensor(np.ascontiguousarray(values)), values
        case 9:
            kind = one_of(
                rng,
                (
                    sparse.csr_array,
                    sparse.csc_matrix,
                    sparse.coo_array,
                    sparse.lil_array,
                    sparse.bsr_array,
                ),
            )
            return (kind(values), values) if values.ndim == 2 else (values, values)
        case 10:
            with np.errstate(over="ignore"):
                single = values.astype(np.float32)
            return single, single.astype(float) if np.isfinite(single).all() else None
        case 11:
            with np.errstate(all="ignore"):
                whole = np.clip(values, -100, 100).astype(one_of(rng, (np.int8, np.int64)))
            return whole, whole.astype(float)
        case 12:
            return (values > 0), (values > 0).astype(float)
        case 13:
            with np.errstate(over="ignore"):
                return values.astype(np.float16), None
        case 14:
            return values.astype(np.longdouble), None
        case 15:
            wide = np.broadcast_to(values[:1], values.shape)
            return wide, np.array(wide)
        case 16:
            return values.astype(object), values
        case 17:
            return np.ma.array(values), values
        case 18:
            if values.ndim == 1:
                return pd.Series(values, dtype="Float64"), values
            names = [f"column {k}" for k in range(values.shape[1])]
            return pd.DataFrame(values, columns=names).convert_dtypes(), values
        case 19:
            if values.ndim == 1:
                return values[:, None], values
            return pd.DataFrame(dict(enumerate(values.T))), values


def sample_weight(rng, y):
    """Weights of rows: counts, fractions, and such as are refused."""
    size = len(y) if getattr(y, "shape", ()) or isinstance(y, list) else 1
    counts = rng.integers(0, 4, size)
    return mostly(
        rng,
        (
            np.ones(size),
            rng.random(size),
            rng.random(size).astype(np.float32),
            counts,
            counts.tolist(),
            pd.Series(counts + 0.5),
            10.0 ** rng.integers(-9, 4, size),
            2.0,
        ),
        (
            np.zeros(size),
            -np.ones(size),
            np.full(size, np.nan),
            np.ones(size + 1),
            np.ones((size, 1)),
            np.ma.array(counts, mask=counts > 1),
            counts.astype(object),
            counts.astype("datetime64[D]"),
            counts * 10**12,
            *WRONG,
        ),
        wrong=0.2,
    )


# ------------------------------------------------------------------------------------------------
# Losses, penalties, algorithms
# ------------------------------------------------------------------------------------------------


def loss(rng):
    """A loss, sometimes with a parameter that is refused."""
    return one_of(
        rng,
        (
            lambda: sp.LAD(),
            lambda: sp.SquareRoot(),
            lambda: sp.Squared(),
            lambda: sp.Quantile(number(rng, 0.0, 1.0, bad=0.02)),
            lambda: sp.Huber(number(rng, 0.0, 3.0, bad=0.02)),
            lambda: sp.EpsilonInsensitive(number(rng, 0.0, 1.0, bad=0.02)),
            lambda: one_of(rng, (sp.Hinge, sp.SquaredHinge, sp.Logistic))(class_weight(rng)),
            lambda: one_of(rng, (*WRONG, sp.LAD, sp.Lasso(1.0))) if chance(rng, 0.1) else sp.LAD(),
        ),
    )()


def class_weight(rng):
    """Weights of the classes -1 and 1; more often none."""
    return mostly(
        rng,
        (None, None, "balanced", {-1: 1.0, 1: 3.0}, {1: 1e-3}, {}),
        ({0: 1.0}, {1: -1.0}, {1: 0.0}, {-1: float("nan")}, "x", 3, [1, 2]),
    )


def penalty(rng, p=3):
    """A penalty, sometimes with parameters that are refused."""
    lam = number(rng, 0.0, 2.0, bad=0.01)
    weights = None
    if chance(rng, 0.2):
        weights = rng.random(p) * (rng.random(p) < 0.7) * 10.0 ** rng.integers(-4, 5)
        if chance(rng, 0.2):
            weights = one_of(rng, (-weights, weights[:-1], weights * np.nan, *WRONG))
    return one_of(
        rng,
        (
            lambda: sp.Lasso(lam, weights=weights),
            lambda: sp.Ridge(lam, weights=weights),
            lambda: sp.ElasticNet(lam, number(rng, 0.0, 1.0, bad=0.01), weights=weights),
            lambda: sp.MCP(lam, number(rng, 1.0, 5.0, bad=0.01), weights=weights),
            lambda: sp.SCAD(lam, number(rng, 2.0, 5.0, bad=0.01), weights=weights),
            lambda: sp.GroupLasso(lam, rng.integers(0, 3, p), weights=None),
            lambda: sp.NoPenalty(),
            lambda: one_of(rng, (*WRONG, sp.Lasso)) if chance(rng, 0.1) else sp.Lasso(lam),
        ),
    )()


def algorithm(rng):
    """An algorithm, mostly with its own steps."""

    def step():
        return None if chance(rng, 0.7) else number(rng, 0.0, 2.0, bad=0.02)

    def restart():
        return None if chance(rng, 0.3) else mostly(rng, (1, 2, 5, 100), (0, -1, 2.5, *WRONG))

    def ratio():
        return mostly(rng, ("auto", 1.0, 0.01, 30.0), (0, -1.0, "best", float("nan"), *WRONG))

    if chance(rng, 0.5):
        return sp.ChambollePock()
    return one_of(
        rng,
        (
            lambda: sp.ChambollePock(step(), step()),
            lambda: sp.ChambollePock(theta=number(rng, 0.0, 1.0, bad=0.02)),
            lambda: sp.ChambollePock(relaxation=number(rng, 0.5, 2.0, bad=0.02)),
            lambda: sp.LinearizedADMM(step(), step()),
            lambda: sp.HalpernPDHG(step(), step(), restart(), ratio()),
            lambda: sp.ChambollePock(ratio=ratio()),
            lambda: sp.ProximalGradient(step()),
            lambda: sp.FISTA(step()),
            lambda: one_of(rng, (*WRONG, sp.FISTA)) if chance(rng, 0.2) else sp.ChambollePock(),
        ),
    )()


def columns(X, default=3):
    """How many columns something has that may not have any."""
    shape = getattr(X, "shape", ())
    return shape[1] if len(shape) == 2 and shape[1] else default


def test_loss(rng):
    """A test loss by name, by function, or something else."""
    return mostly(
        rng,
        (
            None,
            "absolute",
            "squared",
            "huber",
            "pseudo_huber",
            "quantile",
            "epsilon_insensitive",
            *("zero_one", "log", "hinge", "squared_hinge", "brier"),
            sp.Quantile(0.3),
            sp.Logistic(),
            lambda y, prediction: abs(y - prediction),
        ),
        (
            lambda y, prediction: (y - prediction)[:1],
            lambda y, prediction: (y - prediction) * float("nan"),
            lambda y, prediction: "a text",
            "nonsense",
            sp.LAD,
            1,
            [],
        ),
    )
