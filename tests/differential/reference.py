"""The recursions once more, in plain NumPy, from the formulas of MATH.md: nothing of the package.

Rows of unequal weight are multiplied by the roots of their weights, with a loss to match, so that
what follows is unweighted. Everything is in double precision.
"""

from dataclasses import dataclass, field

import numpy as np

# ------------------------------------------------------------------------------------------------
# Losses and penalties: values, and minimisers x of step * f(x) + (x - z)² / 2
# ------------------------------------------------------------------------------------------------


def soft(z, threshold):
    return np.sign(z) * np.maximum(np.abs(z) - threshold, 0)


def counted(low, high, y):
    """How much rows of the classes -1 and 1 count."""
    return np.where(y > 0, high, low)


def logistic_prox(z, s):
    """The solution x of x + s / (1 + exp(1 - x)) = z, by bisection."""
    low, high = z - s, z + 0 * s
    for _ in range(200):
        x = (low + high) / 2
        above = x + s / (1 + np.exp(np.minimum(1 - x, 700))) > z
        low, high = np.where(above, low, x), np.where(above, x, high)
    return (low + high) / 2


#: Losses of labels y times residuals.
MARGIN = ("hinge", "squared_hinge", "logistic")

RHO = {
    "lad": lambda r: np.abs(r),
    "quantile": lambda r, q: np.where(r > 0, q * r, (q - 1) * r),
    "huber": lambda r, delta: np.where(
        np.abs(r) <= delta, r**2 / 2, delta * np.abs(r) - delta**2 / 2
    ),
    "epsilon_insensitive": lambda r, eps: np.maximum(np.abs(r) - eps, 0),
    "squared": lambda r: r**2 / 2,
    "hinge": lambda r, low, high, y=1: counted(low, high, y) * np.maximum(y * r, 0),
    "squared_hinge": lambda r, low, high, y=1: (
        counted(low, high, y) * np.maximum(y * r, 0) ** 2 / 2
    ),
    "logistic": lambda r, low, high, y=1: counted(low, high, y) * np.logaddexp(0, y * r - 1),
}

RHO_PROX = {
    "lad": soft,
    "quantile": lambda z, s, q: np.where(
        z > s * q, z - s * q, np.where(z < -s * (1 - q), z + s * (1 - q), 0)
    ),
    "huber": lambda z, s, delta: np.where(
        np.abs(z) <= delta * (1 + s), z / (1 + s), z - s * delta * np.sign(z)
    ),
    "epsilon_insensitive": lambda z, s, eps: np.where(
        np.abs(z) <= eps, z, np.sign(z) * np.maximum(np.abs(z) - s, eps)
    ),
    "squared": lambda z, s: z / (1 + s),
    "hinge": lambda z, s, low, high, y=1: (
        y * np.where(y * z > 0, np.maximum(y * z - s * counted(low, high, y), 0), y * z)
    ),
    "squared_hinge": lambda z, s, low, high, y=1: (
        y * np.where(y * z > 0, y * z / (1 + s * counted(low, high, y)), y * z)
    ),
    "logistic": lambda z, s, low, high, y=1: y * logistic_prox(y * z, s * counted(low, high, y)),
}

#: Derivatives, of losses that have one.
RHO_SLOPE = {
    "huber": lambda r, delta: np.clip(r, -delta, delta),
    "squared": lambda r: r,
    "squared_hinge": lambda r, low, high, y: counted(low, high, y) * y * np.maximum(y * r, 0),
    "logistic": lambda r, low, high, y: (
        counted(low, high, y) * y / (1 + np.exp(np.minimum(1 - y * r, 700)))
    ),
}

#: Penalties of one coefficient, by its own lam.
COST = {
    "none": lambda b, lam: 0 * b,
    "lasso": lambda b, lam: lam * np.abs(b),
    "ridge": lambda b, lam: lam * b**2 / 2,
    "elastic_net": lambda b, lam, l1_ratio: (
        lam * (l1_ratio * np.abs(b) + (1 - l1_ratio) * b**2 / 2)
    ),
    "mcp": lambda b, lam, gamma: np.where(
        np.abs(b) <= gamma * lam, lam * np.abs(b) - b**2 / (2 * gamma), gamma * lam**2 / 2
    ),
    "scad": lambda b, lam, a: np.where(
        np.abs(b) <= lam,
        lam * np.abs(b),
        np.where(
            np.abs(b) <= a * lam,
            (2 * a * lam * np.abs(b) - b**2 - lam**2) / (2 * (a - 1)),
            lam**2 * (a + 1) / 2,
        ),
    ),
}

COST_PROX = {
    "none": lambda z, s, lam: z,
    "lasso": lambda z, s, lam: soft(z, s * lam),
    "ridge": lambda z, s, lam: z / (1 + s * lam),
    "elastic_net": lambda z, s, lam, l1_ratio: (
        soft(z, s * lam * l1_ratio) / (1 + s * lam * (1 - l1_ratio))
    ),
    "mcp": lambda z, s, lam, gamma: np.where(
        np.abs(z) <= gamma * lam, soft(z, s * lam) / (1 - s / gamma), z
    ),
    "scad": lambda z, s, lam, a: np.where(
        np.abs(z) <= (1 + s) * lam,
        soft(z, s * lam),
        np.where(np.abs(z) <= a * lam, ((a - 1) * z - np.sign(z) * s * a * lam) / (a - 1 - s), z),
    ),
}


@dataclass(frozen=True)
class Term:
    """A loss or a penalty: its name, its parameters, and what it gives each coefficient."""

    name: str
    parameters: dict = field(default_factory=dict)
    lam: float = 0.0
    #: A factor of lam for each coefficient, or for each group.
    weights: np.ndarray | None = None
    groups: np.ndarray | None = None


def penalty_value(term, b):
    if term.groups is not None:
        return sum(
            term.lam * weight * np.linalg.norm(b[term.groups == name])
            for weight, name in zip(term.weights, np.unique(term.groups), strict=True)
        )
    return np.sum(COST[term.name](b, term.lam * term.weights, **term.parameters))


def penalty_prox(term, z, step):
    if term.groups is None:
        return COST_PROX[term.name](z, step, term.lam * term.weights, **term.parameters)
    x = np.zeros_like(z)
    for weight, name in zip(term.weights, np.unique(term.groups), strict=True):
        own = term.groups == name
        size, threshold = np.linalg.norm(z[own]), step * term.lam * weight
        x[own] = (1 - threshold / size) * z[own] if size > threshold else 0
    return x


# ------------------------------------------------------------------------------------------------
# The problem that a recursion sees
# ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Reference:
    """A problem in plain NumPy, its rows multiplied by the roots of their weights."""

    X: np.ndarray
    y: np.ndarray
    loss: Term
    penalty: Term
    weights: np.ndarray
    fit_intercept: bool
    #: Where the intercept starts.
    start: float = 0.0
    #: Sample size that everything is scaled by; the number of rows by default.
    count: int | None = None
    #: What the intercept's column holds where no feature varies.
    constant_entry: float = 1.0

    @property
    def n(self):
        return self.count or len(self.y)

    @property
    def roots(self):
        return np.sqrt(self.weights / self.weights.mean())

    @property
    def means(self):
        return np.average(self.X, axis=0, weights=self.weights)

    @property
    def intercept_entry(self):
        """What the intercept's column holds: the root mean square of the centred entries."""
        if not np.ptp(self.X, axis=0).any():
            return self.constant_entry
        squares = ((self.X - self.means) ** 2).mean(axis=1)
        return np.sqrt(np.average(squares, weights=self.weights))

    @property
    def design(self):
        X = self.X
        if self.fit_intercept:
            X = np.column_stack([X - self.means, np.full(len(self.y), self.intercept_entry)])
        return self.roots[:, None] * X

    @property
    def parameters(self):
        """Those of the loss, and the labels of its rows."""
        return self.loss.parameters | ({"y": self.y} if self.loss.name in MARGIN else {})

    def loss_value(self, r):
        """Loss of residuals, rows counting unequally."""
        if self.loss.name == "square_root":
            return np.linalg.norm(self.roots * r)
        return self.roots**2 @ RHO[self.loss.name](r, **self.parameters) / np.sqrt(self.n)

    def objective(self, b, intercept):
        r = self.y - self.X @ b - intercept
        return self.loss_value(r) + penalty_value(self.penalty, b)

    def loss_prox(self, r, step):
        """Proximal map of the loss, of residuals that were multiplied by the roots."""
        if self.loss.name == "square_root":
            size = np.linalg.norm(r)
            return (1 - step / size) * r if size > step else 0 * r
        own = RHO_PROX[self.loss.name](r / self.roots, step / np.sqrt(self.n), **self.parameters)
        return self.roots * own

    def loss_gradient(self, r):
        own = RHO_SLOPE[self.loss.name](r / self.roots, **self.parameters)
        return self.roots * own / np.sqrt(self.n)

    def prox(self, z, step):
        """Proximal map of the penalty; the intercept goes free."""
        if not self.fit_intercept:
            return penalty_prox(self.penalty, z, step)
        return np.append(penalty_prox(self.penalty, z[:-1], step), z[-1])

    def run(self, recursion, n_iter, **steps):
        """Return coefficients, intercepts, fitted values and duals of all iterates."""
        A, root_n = self.design, np.sqrt(self.n)
        target = self.roots * (self.y - self.start)
        b, u = zip(*recursion(self, A / root_n, target / root_n, n_iter, **steps), strict=True)
        b = np.vstack([np.zeros(A.shape[1]), *b])
        fitted = b @ A.T / self.roots + self.start
        coef, intercept = b, np.zeros(n_iter + 1)
        if self.fit_intercept:
            coef = b[:, :-1]
            intercept = self.start + self.intercept_entry * b[:, -1] - coef @ self.means
        return coef, intercept, fitted, np.array(u) / self.roots


# ------------------------------------------------------------------------------------------------
# The recursions, of A = X/√n and c = y/√n: each yields b^t and u^t for t = 1, …, n_iter
# (the ratio has done its part in the step sizes)
# ------------------------------------------------------------------------------------------------


def chambolle_pock(problem, A, c, n_iter, sigma, tau, theta, relaxation, ratio):
    """Condat's over-relaxation moves by so many times the way to the point that a step finds."""
    root_n = np.sqrt(problem.n)
    b, u = np.zeros(A.shape[1]), np.zeros(len(c))
    ahead, before = b, b  # the point that the last step found, and where it came from
    delta = sigma / root_n
    for _ in range(n_iter):
        extrapolated = ahead + theta * (ahead - before)
        w = u - sigma * (c - A @ extrapolated)
        found = w + delta * problem.loss_prox(-w / delta, 1 / delta)  # Moreau
        u = u + relaxation * (found - u)
        before, ahead = b, problem.prox(b - tau * A.T @ u, tau / root_n)
        b = b + relaxation * (ahead - b)
        yield b, u


def halpern(problem, A, c, n_iter, sigma, tau, restart, ratio, warmup, schedule):
    """Each step of Chambolle–Pock, reflected, is averaged with the anchor; b is found before u."""
    root_n, p, (first_sigma, first_tau) = np.sqrt(problem.n), A.shape[1], (sigma, tau)
    weights = dict(schedule)

    def step(z):
        delta = sigma / root_n
        b = problem.prox(z[:p] - tau * A.T @ z[p:], tau / root_n)
        w = z[p:] - sigma * (c - A @ (2 * b - z[:p]))
        return np.concatenate([b, w + delta * problem.loss_prox(-w / delta, 1 / delta)])

    z = anchor = np.zeros(p + len(c))
    since = -warmup
    found = step(z)
    for t in range(1, n_iter + 1):
        since += 1
        if t in weights:
            sigma, tau = first_sigma * weights[t], first_tau / weights[t]
        if since <= 0 or since == restart or t in weights:
            z, anchor, since = found, found, min(since, 0)
        else:
            z = (since * (2 * found - z) + anchor) / (since + 1)
        u = found[p:]
        found = step(z)
        yield found[:p], u


def linearized_admm(problem, A, c, n_iter, rho, alpha, ratio):
    """Residual r = c - A b and scaled multiplier d, neither of them eliminated."""
    root_n = np.sqrt(problem.n)
    b, d = np.zeros(A.shape[1]), np.zeros(len(c))
    for _ in range(n_iter):
        v = c - A @ b
        # minimise h(√n r) + rho/2 ‖r - v + d‖²
        r = problem.loss_prox(root_n * (v - d), root_n**2 / rho) / root_n
        u = rho * (r - v + d)
        b = problem.prox(b - alpha * A.T @ u, alpha)
        d = d + r - (c - A @ b)
        yield b, u


def proximal_gradient(problem, A, c, n_iter, step):
    root_n = np.sqrt(problem.n)
    b = np.zeros(A.shape[1])
    for _ in range(n_iter):
        u = -problem.loss_gradient(root_n * (c - A @ b))
        b = problem.prox(b - step * A.T @ u, step / root_n)
        yield b, u


def fista(problem, A, c, n_iter, step):
    root_n = np.sqrt(problem.n)
    b = before = np.zeros(A.shape[1])
    for t in range(1, n_iter + 1):
        point = b + (t - 1) / (t + 2) * (b - before)
        u = -problem.loss_gradient(root_n * (c - A @ point))
        before, b = b, problem.prox(point - step * A.T @ u, step / root_n)
        yield b, u
