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


def shrink(train, held_out):
    """Factor of Burman's correction, small where training rows are fitted nearly perfectly."""
    return np.sqrt(np.clip(train / held_out, 0, 1))


def dependent(error, risk, units):
    """Standard error with what the rows share, if that was not measured."""
    tested = risk.estimate.held_out
    if tested is not None and len(tested.rows) < len(risk.path.y):
        return error
    return np.hypot(error, np.sqrt(2 / units) * np.maximum(risk.values - risk.train, 0))


class Validated:
    """Cross-validation of a path by refits.

    Attributes
    ----------
    tested : ndarray of shape (n_iter + 1, number of tests)
        Losses of all tests, of one split after the other.
    rows : ndarray of int of shape (number of tests,)
        The rows tested.
    correction : ndarray of shape (n_iter + 1,)
        Burman's correction of their mean.
    burman : ndarray of shape (n_iter + 1,)
        What is added to their mean by default: shrunk, and zero unless the splits are folds.
    sums : ndarray of shape (n_iter + 1, n)
        Predictions of each row, summed over its tests.
    """

    def __init__(self, X, y, loss, penalty, n_iter, pairs, fit_intercept=False):
        criterion, n = TEST_LOSSES[loss.name], len(y)
        train, test = masks(pairs, n)
        self.counts = test.sum(axis=1)
        self.sums = np.zeros((n_iter + 1, n))
        losses, rows, self.correction = [], [], np.zeros(n_iter + 1)
        for k in range(len(pairs)):
            run = refit(X, y, loss, penalty, n_iter, train[:, k], fit_intercept)
            fitted = predictions(run, X)
            own = np.repeat(np.arange(n), test[:, k].astype(int))
            losses.append(criterion(y[own], fitted[:, own]))
            rows.append(own)
            self.sums += test[:, k] * fitted
            self.correction -= len(own) / test.sum() * criterion(y, fitted).mean(axis=1)
        self.tested, self.rows = np.concatenate(losses, axis=1), np.concatenate(rows)
        whole = refit(X, y, loss, penalty, n_iter, np.ones(n, dtype=bool), fit_intercept)
        self.train = criterion(y, predictions(whole, X)).mean(axis=1)
        self.correction += self.train
        factor = shrink(self.train, self.tested.mean(axis=1))
        self.burman = are_folds(train, test) * factor * self.correction

    @property
    def values(self):
        """Mean over all tests, with Burman's correction."""
        return self.tested.mean(axis=1) + self.burman


class Nested:
    """Nested cross-validation by refits, in plain loops.

    Parameters
    ----------
    X, y, loss, lams, n_iter, fit_intercept
        The problem: the lasso with any of some penalties, and any of some iterates.
    train, test : ndarray of shape (n, K)
        Masks of the rows that each split trains on, and how often it tests each.
    rule, iterate
        As for `tune`.
    length : int
        Number of iterates to choose from.
    """

    def __init__(self, X, y, loss, lams, n_iter, train, test, rule, iterate, length, **options):
        self.X, self.y, self.loss, self.lams = X, y, loss, np.asarray(lams)
        self.n_iter, self.length, self.options = n_iter, length, options
        self.train, self.test, self.rule, self.iterate = train, test, rule, iterate
        self.folds = are_folds(train, test)
        self.known = {}
        self.choices = [self.choose(k) for k in range(train.shape[1])]

    def fitted(self, rows, lam):
        """Return the predictions of all rows by all iterates of a refit to some."""
        name = rows.tobytes(), float(lam)
        if name not in self.known:
            run = refit(self.X, self.y, self.loss, sp.Lasso(lam), self.n_iter, rows, **self.options)
            self.known[name] = run, predictions(run, self.X)
        return self.known[name][1][: self.length]

    def losses(self, rows):
        """Losses (L, T, n) of all rows by runs on some of them, for all penalties."""
        criterion = TEST_LOSSES[self.loss.name]
        return np.stack([criterion(self.y, self.fitted(rows, lam)) for lam in self.lams])

    def choose(self, k, without=None):
        """Choose a penalty and an iterate from the rows of split k, less what another tests."""
        own, parts, sizes, everywhere = self.train[:, k], [], [], []
        for j in range(self.train.shape[1]):
            tested = self.test[:, j] * own
            both = own & self.train[:, j]
            if j in (k, without) or not tested.any() or not both.any():
                continue
            losses = self.losses(both)
            parts.append((losses * tested).sum(axis=2) / tested.sum())
            sizes.append(tested.sum())
            everywhere.append(losses[:, :, own].mean(axis=2))
        if not parts:
            return None
        risks = np.average(parts, axis=0, weights=sizes)
        if self.folds:
            train = self.losses(own)[:, :, own].mean(axis=2)
            correction = train - np.average(everywhere, axis=0, weights=sizes)
            risks = risks + shrink(train, risks) * correction
        at = [int(np.argmin(curve)) if self.iterate is None else self.iterate for curve in risks]
        lowest = [risks[m, at[m]] for m in range(len(at))]
        best = int(np.argmin(lowest))
        if self.rule == "one_se" and len(parts) > 1:
            for m in np.argsort(-self.lams):
                gaps = [part[m, at[m]] - part[best, at[best]] for part in parts]
                if lowest[m] - lowest[best] <= np.std(gaps, ddof=1) / np.sqrt(len(gaps)):
                    best = int(m)
                    break
        return best, at[best]

    @property
    def splits(self):
        """The splits for which there is a choice, and enough rows to train on."""
        trained = self.train.sum(axis=0)
        some = [k for k, choice in enumerate(self.choices) if choice is not None]
        return [k for k in some if 2 * trained[k] >= trained.max()]

    def model(self, k):
        """Coefficients and intercept of the model of a split."""
        m, t = self.choices[k]
        self.fitted(self.train[:, k], self.lams[m])
        run, _ = self.known[self.train[:, k].tobytes(), float(self.lams[m])]
        return run.coef[t], run.intercept[t]

    def predictions(self, k):
        """Of all rows, by the model of a split."""
        m, t = self.choices[k]
        return self.fitted(self.train[:, k], self.lams[m])[t]

    def mean_over_tests(self, of_split):
        """Mean over the tests of each row of something (n,) that each split has."""
        total = sum(self.test[:, k] * of_split(k) for k in self.splits)
        counts = sum(self.test[:, k] for k in self.splits)
        rows = np.flatnonzero(counts)
        return rows, (total[rows] / counts[rows])

    def left_out_losses(self):
        """Rows that were tested, and their mean losses over the tests."""
        criterion = TEST_LOSSES[self.loss.name]
        return self.mean_over_tests(lambda k: criterion(self.y, self.predictions(k)))

    def value(self):
        """Mean loss of the tested rows, with Burman's correction at the choices if they are all."""
        found = self.left_out_losses()[1].mean()
        if self.folds:
            whole = self.losses(np.ones(len(self.y), dtype=bool)).mean(axis=2)
            train = correction = 0.0
            for k in self.splits:
                share, choice = self.test[:, k].mean(), self.choices[k]
                train += share * whole[choice]
                fold = self.losses(self.train[:, k]).mean(axis=2)
                correction += share * (whole[choice] - fold[choice])
            found += shrink(train, found) * correction
        return found

    def pair_term(self):
        """Covariance of the mean losses of two folds, with the standard error of its estimate."""
        K, changes = self.train.shape[1], []
        for k in range(K):
            for j in range(k + 1, K):
                changes.append([self._change(k, j), self._change(j, k)])
        changes = np.array(changes) - np.mean(changes)
        products = changes.prod(axis=1)
        return max(0.0, products.mean() + products.std(ddof=1) / np.sqrt(len(products)))

    def _change(self, k, j):
        tested = self.test[:, k] > 0
        alone = self.losses(self.train[:, k])[self.choices[k]]
        both = self.losses(self.train[:, k] & self.train[:, j])[self.choose(k, without=j)]
        return alone[tested].mean() - both[tested].mean()
