"""Solvers of the same objectives: time, and distance to the best objective found.

Four problems, with one adapter per solver:

- **LAD–lasso** and **LAD–ridge** at the paper's penalty, Student-t₂ noise.
- **lasso path** and **group lasso path**: squared loss, normal noise, twenty penalties from the
  smallest with all coefficients zero to a hundredth of it; groups of ten columns.

An adapter takes a `Task` and returns coefficients, one row per penalty. Objectives are computed
from the coefficients. The *gap* of a solver is its objective divided by the lowest objective found,
minus 1; for a path, that at the worst penalty. The linear program for LAD–lasso has 2 (n + p)
variables: the positive and negative parts of residuals and coefficients.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from importlib import import_module
from typing import Any

import numpy as np
from scipy import sparse
from scipy.optimize import linprog
from sklearn.linear_model import QuantileRegressor, lasso_path

import steinpath as sp
from benchmarks.common.measuring import Peer, Record, available, steady_seconds
from steinpath.study._settings import LAM

N_LAMS, LAM_RATIO, GROUP_SIZE = 20, 0.01, 10
SEARCHED = sp.HalpernPDHG(ratio="auto", warmup=10)  # default of `tune` and of the estimators


@dataclass(frozen=True, eq=False)
class Task:
    """Data and objectives, one per penalty."""

    X: np.ndarray
    y: np.ndarray
    loss: sp.Loss
    penalty: Callable[[Any], sp.Penalty]
    lams: np.ndarray

    @classmethod
    def draw(cls, name: str, n: int, p: int, seed: int) -> Task:
        """Draw data of the paper's model for a problem in `SOLVERS`."""
        X, y = sp.simulate.paper_model(p, "t2" if "LAD" in name else "normal").sample(n, rng=seed)
        penalties: dict[str, Callable[[Any], sp.Penalty]] = {
            "LAD–lasso": sp.Lasso,
            "LAD–ridge": sp.Ridge,
            "lasso path": sp.Lasso,
            "group lasso path": partial(sp.GroupLasso, groups=np.arange(p) // GROUP_SIZE),
        }
        penalty = penalties[name]
        if "LAD" in name:
            return cls(X, y, sp.LAD(), penalty, np.array([LAM]))
        largest = sp.lam_max(X, y, sp.Squared(), penalty(1.0))
        lams = largest * np.geomspace(1, LAM_RATIO, N_LAMS)
        return cls(X, y, sp.Squared(), penalty, lams)

    @property
    def root_n(self) -> float:
        """Divisor of the losses: `lams` are √n times the penalties for mean losses."""
        return math.sqrt(len(self.y))

    @property
    def alphas(self) -> np.ndarray:
        """Penalties for packages with mean losses, such as scikit-learn."""
        return self.lams / self.root_n

    @cached_property
    def by_columns(self) -> np.ndarray:
        """X in column-major order, for coordinate descent."""
        return np.asfortranarray(self.X)

    def objectives(self, coefs: np.ndarray) -> np.ndarray:
        """Return the objective of each row at its penalty."""
        residuals = self.y[:, None] - self.X @ coefs.T
        penalties = [self.penalty(lam).value(b) for lam, b in zip(self.lams, coefs, strict=True)]
        total: np.ndarray = self.loss.value(residuals) + np.asarray(penalties, dtype=float)
        return total


# ------------------------------------------------------------------------------------------------
# steinpath: the last iterate of a path
# ------------------------------------------------------------------------------------------------


def steinpath(algorithm: sp.ProximalAlgorithm, n_iter: int, task: Task) -> np.ndarray:
    """Run all penalties as a batch."""
    batch = sp.run_batch(
        task.X, task.y, task.loss, task.penalty(task.lams), algorithm, n_iter=n_iter
    )
    return np.asarray(batch.coef[:, -1])


# ------------------------------------------------------------------------------------------------
# LAD
# ------------------------------------------------------------------------------------------------


def linear_program(task: Task) -> tuple[np.ndarray, Any]:
    """Return costs and constraint matrix of LAD–lasso: [X, -X, I, -I] z = y, z ≥ 0."""
    n, p = task.X.shape
    costs = np.repeat([task.lams[0], 1 / task.root_n], [2 * p, 2 * n])
    eye = sparse.eye_array(n)
    blocks = [sparse.csc_array(task.X), sparse.csc_array(-task.X), eye, -eye]
    return costs, sparse.csc_array(sparse.hstack(blocks, format="csc"))


def coefficients(z: Any, p: int) -> np.ndarray:
    """Return the coefficients of a solution of the linear program."""
    coef: np.ndarray = z[:p] - z[p : 2 * p]
    return coef[None]


def highs(task: Task) -> np.ndarray:
    costs, matrix = linear_program(task)
    result = linprog(costs, A_eq=matrix, b_eq=task.y, method="highs")
    return coefficients(result.x, task.X.shape[1])


def pdlp(tolerance: float, task: Task) -> np.ndarray:
    """Run OR-Tools PDLP until primal and dual residuals and the gap are within the tolerance."""
    from ortools.pdlp import solvers_pb2
    from ortools.pdlp.python import pdlp as solver

    costs, matrix = linear_program(task)
    program = solver.QuadraticProgram()
    program.objective_vector = costs
    program.constraint_matrix = sparse.csc_matrix(matrix)
    program.constraint_lower_bounds = program.constraint_upper_bounds = task.y
    program.variable_lower_bounds = np.zeros(len(costs))
    program.variable_upper_bounds = np.full(len(costs), np.inf)
    options = solvers_pb2.PrimalDualHybridGradientParams()
    criteria = options.termination_criteria.simple_optimality_criteria
    criteria.eps_optimal_absolute = criteria.eps_optimal_relative = tolerance
    result = solver.primal_dual_hybrid_gradient(program, options)
    return coefficients(result.primal_solution, task.X.shape[1])


def quantile_regressor(task: Task) -> np.ndarray:
    """Run scikit-learn's QuantileRegressor; the absolute loss is twice the median pinball loss."""
    model = QuantileRegressor(alpha=task.alphas[0] / 2, fit_intercept=False, solver="highs")
    return np.asarray(model.fit(task.X, task.y).coef_)[None]


def smooth_quantile(task: Task) -> np.ndarray:
    """Run skglm's SmoothQuantileRegressor, with decreasing smoothing of the pinball loss."""
    from skglm.experimental import SmoothQuantileRegressor

    model = SmoothQuantileRegressor(quantile=0.5, alpha=task.alphas[0] / 2, fit_intercept=False)
    return np.asarray(model.fit(task.by_columns, task.y).coef_)[None]


def rehline(tolerance: float, task: Task) -> np.ndarray:
    """Run ReHLine (ridge only), with ½‖b‖² and a multiple C of the pinball losses."""
    from rehline import plq_Ridge_Regressor

    model = plq_Ridge_Regressor(
        loss={"name": "QR", "qt": 0.5},
        C=2 / (task.lams[0] * task.root_n),
        fit_intercept=False,
        max_iter=100_000,
        tol=tolerance,
    )
    return np.asarray(model.fit(task.X, task.y).coef_)[None]


def clarabel(task: Task) -> np.ndarray:
    """Run an interior-point method for LAD–ridge, which is not a linear program."""
    cp = import_module("cvxpy")
    b = cp.Variable(task.X.shape[1])
    loss = cp.norm1(task.y - task.X @ b) / task.root_n
    cp.Problem(cp.Minimize(loss + task.lams[0] / 2 * cp.sum_squares(b))).solve(solver="CLARABEL")
    return np.asarray(b.value)[None]


# ------------------------------------------------------------------------------------------------
# Squared loss
# ------------------------------------------------------------------------------------------------


def coordinate_descent(tolerance: float, task: Task) -> np.ndarray:
    """Run scikit-learn's lasso path with warm starts."""
    _, coefs, _ = lasso_path(
        task.by_columns, task.y, alphas=task.alphas, tol=tolerance, max_iter=100_000
    )
    return np.asarray(coefs.T)


def adelie(tolerance: float, task: Task) -> np.ndarray:
    """Run adelie's block coordinate descent for the lasso or group lasso."""
    import adelie as ad

    penalty = task.penalty(1.0)
    starts = np.arange(0, task.X.shape[1], GROUP_SIZE if hasattr(penalty, "groups") else 1)
    path = ad.grpnet(
        task.by_columns,
        ad.glm.gaussian(task.y),
        groups=starts,
        penalty=np.ones(len(starts)),
        lmda_path=task.alphas,
        intercept=False,
        early_exit=False,
        tol=tolerance,
        progress_bar=False,
    )
    return np.asarray(path.betas.toarray())


def steinpath_peers(algorithm: sp.ProximalAlgorithm, *n_iter: int) -> dict[str, Peer]:
    """Return adapters of one algorithm with several numbers of iterations."""
    name = type(algorithm).__name__
    return {
        f"steinpath, {name}, {k} iterations": Peer(partial(steinpath, algorithm, k)) for k in n_iter
    }


SOLVERS: dict[str, dict[str, Peer]] = {
    "LAD–lasso": {
        **steinpath_peers(sp.ChambollePock(), 300),
        **steinpath_peers(SEARCHED, 300, 3000),
        "SciPy, linprog (HiGHS)": Peer(highs),
        "OR-Tools, PDLP, 1e-4": Peer(partial(pdlp, 1e-4), ("ortools",)),
        "OR-Tools, PDLP, 1e-6": Peer(partial(pdlp, 1e-6), ("ortools",)),
        "scikit-learn, QuantileRegressor": Peer(quantile_regressor),
        "skglm, SmoothQuantileRegressor": Peer(smooth_quantile, ("skglm",)),
    },
    "LAD–ridge": {
        **steinpath_peers(sp.ChambollePock(), 300),
        **steinpath_peers(SEARCHED, 300, 3000),
        "ReHLine, 1e-4": Peer(partial(rehline, 1e-4), ("rehline",)),
        "ReHLine, 1e-8": Peer(partial(rehline, 1e-8), ("rehline",)),
        "CVXPY, Clarabel": Peer(clarabel, ("cvxpy", "clarabel")),
    },
    "lasso path": {
        **steinpath_peers(sp.FISTA(), 300),
        "scikit-learn, lasso_path": Peer(partial(coordinate_descent, 1e-6)),
        "adelie, 1e-7": Peer(partial(adelie, 1e-7), ("adelie",)),
        "adelie, 1e-12": Peer(partial(adelie, 1e-12), ("adelie",)),
    },
    "group lasso path": {
        **steinpath_peers(sp.FISTA(), 300),
        "adelie, 1e-7": Peer(partial(adelie, 1e-7), ("adelie",)),
        "adelie, 1e-12": Peer(partial(adelie, 1e-12), ("adelie",)),
    },
}


# ------------------------------------------------------------------------------------------------
# Comparison
# ------------------------------------------------------------------------------------------------


def relative_gaps(objectives: dict[str, np.ndarray]) -> dict[str, float]:
    """Return the gap of each solver to the lowest objective found, at its worst penalty."""
    lowest = np.min(list(objectives.values()), axis=0)
    return {name: float(np.max(each / lowest - 1)) for name, each in objectives.items()}


def solve_all(name: str, n: int, p: int, seed: int, plain_seconds: float) -> list[Record]:
    """Run all solvers of a problem once, after compilation."""
    task, warm = Task.draw(name, n, p, seed), Task.draw(name, 40, 20, seed)
    elapsed, objectives = {}, {}
    for solver, call in available(SOLVERS[name]).items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about convergence: the gap is reported
            call(warm)
            elapsed[solver], coefs = steady_seconds(partial(call, task))
        objectives[solver] = task.objectives(coefs)
    gaps = relative_gaps(objectives)
    return [
        {
            "problem": name,
            "n": n,
            "p": p,
            "solver": solver,
            "seconds": took,
            "ratio": took / plain_seconds,
            "gap": gaps[solver],
        }
        for solver, took in elapsed.items()
    ]


def solvers_table(records: list[Record]) -> str:
    lines = [
        "| problem | n × p | solver | seconds | plain runs | objective above the best |",
        "|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {r['problem']} | {r['n']} × {r['p']} | {r['solver']} | {r['seconds']:.3f} "
        f"| {r['ratio']:.1f} | {r['gap']:.0e} |"
        for r in records
    ]
    return "\n".join(lines)
