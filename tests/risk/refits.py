"""Plain references: runs that really delete rows, one after another."""

import numpy as np

import steinpath as sp

#: Step sizes of all runs: fixed, so that those on fewer rows are known.
SIGMA = TAU = 0.25

#: Test losses of predictions, written out.
TEST_LOSSES = {
    "lad": lambda y, f: np.abs(y - f),
    "square_root": lambda y, f: (y - f) ** 2,
    "squared": lambda y, f: (y - f) ** 2,
    "quantile": lambda y, f: np.maximum(0.3 * (y - f), -0.7 * (y - f)),
}


def algorithm(share=1.0):
    """Steps that are safe for any such share of the rows: up to 4/3 of the limit they are."""
    factor = np.sqrt(min(4 / 3 * share, 1.0))
    return sp.ChambollePock(SIGMA * factor, TAU * factor)


def drawn(n, p, seed=0, level=0.0):
    """Columns that are not centred, and heavy-tailed responses."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p)) + 0.5 * (level != 0)
    return X, X[:, :2].sum(axis=1) + rng.standard_t(3, n) + level


def refit(X, y, loss, penalty, n_iter, train, fit_intercept=False):
    """The run of a user who has some of the rows alone, given by a mask."""
    some = algorithm(train.sum() / len(y))
    return sp.run(X[train], y[train], loss, penalty, some, n_iter, fit_intercept=fit_intercept)


def predictions(run, X):
    """Of all iterates and rows."""
    return run.coef @ X.T + run.intercept[:, None]


def masks(pairs, n):
    """Masks of rows to train on, and counts of those to test on, of each split."""
    train, test = np.zeros((n, len(pairs)), dtype=bool), np.zeros((n, len(pairs)))
    for k, (some, others) in enumerate(pairs):
        train[some, k] = True
        np.add.at(test[:, k], others, 1)
    return train, test


def are_folds(train, test):
    """Whether each row is tested once, by a run that trains on all others."""
    return bool(np.all(test.sum(axis=1) == 1) and np.all(train == (test == 0)))


def group_error(losses, groups):
    """Standard error of a mean of losses (T, n), of independent groups of rows."""
    gaps = losses - losses.mean(axis=1, keepdims=True)
    sums = np.stack([gaps[:, groups == label].sum(axis=1) for label in np.unique(groups)])
    units = len(sums)
    return np.sqrt(units / (units - 1) * (sums**2).sum(axis=0)) / losses.shape[1]


class Validated:
    """Cross-validation of a path by refits.

    Attributes
    ----------
    tested : ndarray of shape (n_iter + 1, number of tests)
        Losses of all tests, of one split after the other.
    rows : ndarray of int of shape (number of tests,)
        The rows tested.
    burman : ndarray of shape (n_iter + 1,)
        What is added to their mean: zero unless the splits are folds.
    sums : ndarray of shape (n_iter + 1, n)
        Predictions of each row, summed over its tests.
    """

    def __init__(self, X, y, loss, penalty, n_iter, pairs, fit_intercept=False):
        criterion, n = TEST_LOSSES[loss.name], len(y)
        train, test = masks(pairs, n)
        self.counts = test.sum(axis=1)
        self.sums = np.zeros((n_iter + 1, n))
        losses, rows, self.burman = [], [], np.zeros(n_iter + 1)
        for k in range(len(pairs)):
            run = refit(X, y, loss, penalty, n_iter, train[:, k], fit_intercept)
            fitted = predictions(run, X)
            own = np.repeat(np.arange(n), test[:, k].astype(int))
            losses.append(criterion(y[own], fitted[:, own]))
            rows.append(own)
            self.sums += test[:, k] * fitted
            self.burman -= len(own) / test.sum() * criterion(y, fitted).mean(axis=1)
        self.tested, self.rows = np.concatenate(losses, axis=1), np.concatenate(rows)
        whole = refit(X, y, loss, penalty, n_iter, np.ones(n, dtype=bool), fit_intercept)
        self.train = criterion(y, predictions(whole, X)).mean(axis=1)
        self.burman = self.burman + self.train if are_folds(train, test) else 0 * self.burman

    @property
    def values(self):
        """Mean over all tests, with Burman's correction."""
        return self.tested.mean(axis=1) + self.burman
