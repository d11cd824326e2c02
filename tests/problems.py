"""Small problems that many tests share."""

import numpy as np

import steinpath as sp
from steinpath.problem._losses import LOSSES
from steinpath.problem._penalties import PENALTIES

PENALTY_EXAMPLES = {
    "lasso": lambda p: sp.Lasso(0.3),
    "lasso-weighted": lambda p: sp.Lasso(0.3, weights=np.arange(p) % 3),
    "ridge": lambda p: sp.Ridge(0.5),
    "elastic_net": lambda p: sp.ElasticNet(0.4, l1_ratio=0.7),
    "mcp": lambda p: sp.MCP(0.3, gamma=2.5),
    "scad": lambda p: sp.SCAD(0.3),
    "group_lasso": lambda p: sp.GroupLasso(0.4, groups=np.arange(p) % 3 % 2),
    "none": lambda p: sp.NoPenalty(),
}

LOSS_EXAMPLES = {
    "lad": sp.LAD(),
    "square_root": sp.SquareRoot(),
    "quantile": sp.Quantile(0.3),
    "huber": sp.Huber(0.8),
    "epsilon_insensitive": sp.EpsilonInsensitive(0.2),
    "squared": sp.Squared(),
}

# whatever else is registered, with its defaults
for name in sorted(set(PENALTIES) - set(PENALTY_EXAMPLES)):
    PENALTY_EXAMPLES[name] = lambda p, kind=PENALTIES[name]: kind(0.3)
for name in sorted(set(LOSSES) - set(LOSS_EXAMPLES)):
    LOSS_EXAMPLES[name] = LOSSES[name]()

#: Losses of responses that are numbers; margin losses have labels.
# Enough where a test is expensive: the squared hinge is flat as the hinge is, and smooth as others.
SOME_LOSSES = {name: loss for name, loss in LOSS_EXAMPLES.items() if name != "squared_hinge"}
REGRESSION_EXAMPLES = {name: loss for name, loss in LOSS_EXAMPLES.items() if not loss.margin}

ALGORITHM_EXAMPLES = {
    "chambolle-pock": sp.ChambollePock(),
    "chambolle-pock-theta": sp.ChambollePock(0.3, 0.3, theta=0.5),
    "chambolle-pock-relaxed": sp.ChambollePock(relaxation=1.7),
    "halpern": sp.HalpernPDHG(restart=4, warmup=1),
    "linearized-admm": sp.LinearizedADMM(),
    "proximal-gradient": sp.ProximalGradient(),
    "fista": sp.FISTA(),
}


def handles(algorithm, loss):
    """Whether the algorithm can handle the loss."""
    return loss.smoothness is not None or not isinstance(algorithm, sp.ProximalGradient)


def draw(n, p, seed=0, noise_scale=1.0):
    """A regression problem with correlated features and heavy-tailed noise."""
    rng = np.random.default_rng(seed)
    model = sp.simulate.paper_model(p, sp.simulate.Noise("t2", noise_scale))
    X, y = model.sample(n, rng)
    return X, y, model


def responses(loss, y):
    """Responses that the loss can have: y, or labels of two unequal classes for a margin loss."""
    if not loss.margin:
        return y
    ranks = np.argsort(np.argsort(y, axis=-1), axis=-1)
    n = y.shape[-1]
    return np.where(ranks >= n - max(2, 2 * n // 5), 1.0, -1.0).astype(y.dtype)


def draw_for(loss, n, p, seed=0, noise_scale=1.0):
    """A problem that the loss can have; see `draw` and `responses`."""
    X, y, model = draw(n, p, seed, noise_scale)
    return X, responses(loss, y), model


class Products(sp.design.Design):
    """A design that knows its two products, and nothing else."""

    def __init__(self, X):
        self.example, self.shape = X, X.shape

    def matmat(self, block):
        return self.example @ block

    def rmatmat(self, block):
        return self.example.T @ block


def ridge_hat(X, lam, fit_intercept):
    """Hat matrix of squared loss with a ridge penalty, the intercept being free."""
    n, p = X.shape
    ridge = np.sqrt(n) * lam * np.ones(p)
    if fit_intercept:
        X, ridge = np.column_stack([X, np.ones(n)]), np.append(ridge, 0.0)
    return X @ np.linalg.solve(X.T @ X + np.diag(ridge), X.T)
