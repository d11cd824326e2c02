"""Regression problems as hypothesis draws them: small, and often degenerate."""

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st

import steinpath as sp
from problems import responses

#: What is odd about a matrix of features.
ODDITIES = ("constant", "duplicate", "zero", "copied row", "integers", "rank one", "offset")

LOSSES = st.one_of(
    st.just(sp.LAD()),
    st.just(sp.SquareRoot()),
    st.just(sp.Squared()),
    st.builds(sp.Quantile, st.floats(0.05, 0.95)),
    st.builds(sp.Huber, st.floats(0.1, 3.0)),
    st.builds(sp.EpsilonInsensitive, st.floats(0.0, 1.0)),
    st.sampled_from((sp.Hinge(), sp.SquaredHinge(), sp.Logistic())),
    st.sampled_from((sp.Hinge, sp.Logistic)).map(lambda kind: kind({-1: 1.0, 1: 3.0})),
)
STRENGTHS = st.floats(0.01, 3.0)
CONVEX = st.one_of(
    st.builds(sp.Lasso, STRENGTHS),
    st.builds(sp.Ridge, STRENGTHS),
    st.builds(sp.ElasticNet, STRENGTHS, st.floats(0.0, 1.0)),
    st.just(sp.NoPenalty()),
)
PENALTIES = st.one_of(CONVEX, st.builds(sp.MCP, STRENGTHS), st.builds(sp.SCAD, STRENGTHS))


@st.composite
def problems(draw, *, least=1, most=12, odd=True):
    """X and y; with ``odd``, degenerate in up to two ways."""
    n, p = (draw(st.integers(least, most), label=name) for name in "np")
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1), label="seed"))
    X = rng.standard_normal((n, p))
    for kind in draw(st.lists(st.sampled_from(ODDITIES), max_size=2)) if odd else ():
        j, i = rng.integers(p), rng.integers(n)
        if kind == "rank one":
            X = np.outer(X[:, 0], X[0])
        elif kind == "integers":
            X = np.round(2 * X)
        elif kind == "copied row":
            X[i] = X[rng.integers(n)]
        else:
            column = X[:, j]
            others = {"constant": 3.0, "zero": 0.0, "offset": column + 100.0}
            X[:, j] = others.get(kind, X[:, rng.integers(p)])
    y = X @ (rng.standard_normal(p) * (rng.random(p) < 0.5))
    noise = draw(st.sampled_from(("heavy", "none", "ties", "constant")), label="noise")
    match noise if odd else "heavy":
        case "heavy":
            y = y + rng.standard_t(2, n)
        case "ties":
            y = np.round(y + rng.standard_normal(n))
        case "constant":
            y = np.full(n, 2.0)
    return X, y


def posed(problem, loss):
    """X and y for a loss: with labels, two rows of a class at least, for one of margins."""
    X, y = problem
    assume(not loss.margin or len(y) >= 4)
    return X, responses(loss, y)
