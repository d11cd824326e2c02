"""Curves of single columns and products of two, as features of linear models."""

from __future__ import annotations

import re
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.preprocessing import SplineTransformer

from steinpath._support.arrays import units_of
from steinpath._support.entries import checked, entries, require
from steinpath.design._conversion import column_moments

#: What is fitted, from the simplest.
LEVELS = ("linear", "curves", "linear and products", "curves and products")
# Distinct values of a column with curves, at least; rows for each knot, at least.
_FEWEST, _PER_KNOT = 5, 5
# Functions of each of two numbers, the smoothest first, whose products are tried; functions and
# most frequent levels whose products with a level are; and functions in the additive models whose
# residuals select the products.
_IN_PRODUCTS, _LEVELS, _IN_ADDITIVE = 3, 12, 5
# Number of columns with products in each selection, of rows on which a product of indicators must
# differ from 0, and of products that are selected, also per row.
_MOST_COLUMNS, _FEWEST_ROWS, _MOST_SELECTED, _PER_ROW = 40, 5, 300, 0.5
#: Most products of all pairs of columns.
MOST_PRODUCTS = 20_000
# Names of columns of whole numbers that start again after a period, and its length.
_CYCLES = {
    r"(?i)(.*[_ .-])?(hours?|hr)": 24.0,
    r"(?i)(.*[_ .-])?(months?|mnth|mon)": 12.0,
    r"(?i)(.*[_ .-])?(week_?days?|wday|dow|day_?of_?(the_?)?week)": 7.0,
}
# In place of functions that overflow; predictions are checked instead. Largest values that are
# multiplied.
_HUGE, _LARGEST = 1e300, 1e100
# Responses and residuals are clipped at these numbers of robust standard deviations; penalty of
# ridge regressions on standardised columns, per row, in addition to the number of columns; steps.
_CLIP_Y, _CLIP, _RIDGE, _STEPS = 5.0, 3.0, 0.02, 20
# Squared size of gradients relative to the first at which steps end.
_CONVERGED = 1e-16
# Days in a year and a week, and knots for each period.
_YEAR, _KNOTS_OF = 365.25, {24: 12, 7: 7}


class Curve(NamedTuple):
    """Smooth functions of a number: combinations of splines with unit variance, uncorrelated.

    They are uncorrelated with the number itself as well, or periodic. The smoothest come first.
    """

    knots: tuple[float, ...]
    degree: int
    period: float
    #: For each spline, and then 1 and the number, its part of each function.
    weights: tuple[tuple[float, ...], ...]

    @property
    def size(self) -> int:
        """Number of functions."""
        return len(self.weights[0])

    def __call__(self, values: np.ndarray) -> np.ndarray:
        """Return the functions (n, count) of values."""
        with np.errstate(over="ignore", invalid="ignore"):
            functions = self.parts(values) @ np.array(self.weights)
        return np.asarray(np.nan_to_num(functions, nan=_HUGE, posinf=_HUGE, neginf=-_HUGE))

    def parts(self, values: np.ndarray) -> np.ndarray:
        """Return all splines, 1 and, unless they are periodic, the number."""
        how = "periodic" if self.period else "linear"
        knots = np.array(self.knots)[:, None]
        splines = SplineTransformer(len(knots), self.degree, knots=knots, extrapolation=how)
        first = splines.fit(knots).transform(values[:, None])
        line = (values - self.knots[0]) / (self.knots[-1] - self.knots[0])
        rest = [np.ones(len(values))] if self.period else [np.ones(len(values)), line]
        return np.column_stack([first, *rest])

    @classmethod
    def fit(cls, values: np.ndarray, knots: np.ndarray, degree: int, period: float = 0.0) -> Any:
        """Return the functions for values and knots; None if there are none."""
        new = cls(tuple(knots.tolist()), degree, period, ())
        parts = new.parts(values)
        removed = 1 if period else 2
        splines, line = parts[:, :-removed], parts[:, -removed:]
        shift = np.linalg.lstsq(line, splines, rcond=None)[0]
        rest = splines - line @ shift
        differences = np.diff(np.eye(splines.shape[1]), 2, axis=0)
        if period:
            around = np.eye(splines.shape[1])
            differences = np.roll(around, 1, 0) - 2 * around + np.roll(around, -1, 0)
        rough = differences.T @ differences + 1e-6 * np.eye(splines.shape[1])
        root = np.linalg.inv(np.linalg.cholesky(rough))
        sizes, vectors = np.linalg.eigh(root @ (rest.T @ rest / len(values)) @ root.T)
        vectors = root.T @ vectors
        kept = np.flatnonzero(sizes > 1e-8 * sizes.max())[::-1]
        vectors = vectors[:, kept] / np.sqrt(sizes[kept])
        if not vectors.shape[1]:
            return None
        weights = np.concatenate([vectors, -shift @ vectors])
        return new._replace(weights=tuple(map(tuple, weights.tolist())))


def fit_curves(
    name: str, is_date: bool, values: np.ndarray, knots: int, degree: int
) -> tuple[Curve, ...]:
    """Return the curves of a column: over quantiles of its values, or over periods of time."""
    distinct, found = np.unique(values), list[Any]()
    if len(distinct) < _FEWEST or max(-distinct[0], distinct[-1]) > _LARGEST:
        return ()
    periods = list[float]()
    if is_date:  # in days
        periods = [_YEAR] * bool(np.ptp(values) > _YEAR)
        periods += [7.0] * (len(np.unique(distinct % 7 // 1)) > 1)
        periods += [1.0] * bool(np.any(distinct % 1))
    elif not np.any(distinct % 1):
        # hours from 0 or from 1, say, and not all in one half of the day
        low, high, half = distinct[0], distinct[-1], 2 * len(distinct)
        named = [period for pattern, period in _CYCLES.items() if re.fullmatch(pattern, name)]
        periods = [period for period in named if low >= 0 and high <= period < half]
    for period in periods:
        ends = np.linspace(0, period, _KNOTS_OF.get(int(period), knots) + 1)
        found.append(Curve.fit(values, ends, 1 if period == 7 else 3, period))
    if is_date or not periods:
        count = min(knots, len(distinct) - 1, len(values) // _PER_KNOT)
        places = np.unique(np.quantile(values, np.linspace(0, 1, max(count, 0))))
        if len(places) > 2:
            found.append(Curve.fit(values, places, degree))
    return tuple(curve for curve in found if curve is not None)


def curve_from_json(entry: Any) -> Curve:
    """Return a curve from the data of a model file; refuse what is not valid."""
    given = entries("curves", checked(dict, "curves", entry), Curve._fields)
    knots, period = checked((float, None), "knots", given["knots"]), given["period"]
    degree, weights = checked(int, "degree", given["degree"]), given["weights"]
    period = checked(float, "period", period)
    right = 2 < len(knots) < 1000 and knots == sorted(set(knots)) and 1 <= degree <= 5
    require(right and period >= 0, "knots", knots, "are not those of a curve")
    rows = len(knots) - 1 + (1 if period else degree + 2)
    table = [checked((float, None), "weights", row) for row in checked(list, "weights", weights)]
    same = len(table) == rows and len({len(row) for row in table}) == 1 and len(table[0]) > 0
    require(same, "weights", weights, "do not fit the knots")
    return Curve(tuple(knots), degree, period, tuple(map(tuple, table)))


class Terms(NamedTuple):
    """Features of a model: some of the given ones, and products of two of them."""

    n_given: int
    kept: np.ndarray
    #: Indices (2, m) of the features that are multiplied, and what is subtracted from them.
    pairs: np.ndarray
    centres: np.ndarray

    @classmethod
    def of(cls, n_given: int, kept: Any = None, pairs: Any = (), centre: Any = None) -> Self:
        """Return terms; all features by default, and products of features minus their centre."""
        pairs = np.array(pairs, int).reshape(-1, 2).T
        centres = np.zeros(pairs.shape) if centre is None else np.asarray(centre, float)[pairs]
        return cls(n_given, np.arange(n_given) if kept is None else kept, pairs, centres)

    def __call__(self, X: np.ndarray) -> np.ndarray:
        """Return the features of rows."""
        (left, right), (low, high) = self.pairs, self.centres
        values = np.empty((len(X), len(self.kept) + len(left)))
        values[:, : len(self.kept)] = X[:, self.kept]
        products = values[:, len(self.kept) :]
        with np.errstate(over="ignore", invalid="ignore"):  # checked by what uses the features
            np.multiply(X[:, left] - low, X[:, right] - high, out=products)
        return values

    def places(self, columns: Any) -> Any:
        """Return the places of given features among those kept; None for None."""
        if columns is None:
            return None
        at = np.searchsorted(self.kept, columns)
        wrong = np.take(self.kept, at, mode="clip") != columns
        if np.any(wrong):
            column = np.atleast_1d(columns)[np.atleast_1d(wrong)][0]
            raise ValueError(f"column {column} of X is not a feature of the selected terms")
        return at

    def names(self, given: Any) -> list[str]:
        """Return the names of the features, from those of the given ones."""
        pairs = self.pairs.T.tolist()
        return [str(given[j]) for j in self.kept] + [f"{given[i]} × {given[j]}" for i, j in pairs]

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {name: np.asarray(value).tolist() for name, value in self._asdict().items()}

    @classmethod
    def from_json(cls, state: Any) -> Terms:
        """Return terms from the data of a model file; refuse what is not valid."""
        given = entries("terms", checked(dict, "terms", state), cls._fields)
        count = checked(int, "n_given", given["n_given"])
        kept = checked((int, None), "kept", given["kept"])
        lists = checked(list, "pairs", given["pairs"]), checked(list, "centres", given["centres"])
        pairs = [checked((int, None), "pairs", side) for side in lists[0]]
        centres = [checked((float, None), "centres", side) for side in lists[1]]
        sizes = {*map(len, pairs), *map(len, centres)}
        right = len(pairs) == len(centres) == 2 and len(sizes) == 1
        right = right and all(0 <= j < count for j in [*kept, *pairs[0], *pairs[1]])
        require(right, "pairs", pairs, "do not fit the features")
        return cls(count, np.array(kept, int), np.array(pairs, int), np.array(centres))


class Basis(np.ndarray):
    """Features with their columns, for estimators that select between levels of a basis.

    column: index of the original column of each feature; order: 0 for numbers themselves and the
    first levels of categories, then 1, 2, ...; kinds: "number", "curve" or "level" of each;
    levels: names of what to select from, those of `LEVELS`.
    """

    column: np.ndarray
    order: np.ndarray
    kinds: np.ndarray
    levels: tuple[str, ...]

    @classmethod
    def of(cls, X: np.ndarray, column: Any, order: Any, kinds: Any, levels: Any) -> Basis:
        """Return an array as a basis."""
        new = X.view(cls)
        new.column, new.order, new.kinds = map(np.asarray, (column, order, kinds))
        new.levels = tuple(levels)
        return new

    def __array_finalize__(self, obj: Any) -> None:
        self.levels = ()  # of derived arrays, which may have other columns

    def __getitem__(self, key: Any) -> Any:
        found = super().__getitem__(key)
        of_rows = not isinstance(key, tuple) or (len(key) == 2 and key[1] is Ellipsis)
        if of_rows and isinstance(found, Basis) and found.ndim == 2:
            vars(found).update(vars(self))
        return found

    def __reduce__(self) -> Any:
        reduced: Any = super().__reduce__()
        return (*reduced[:2], (reduced[2], vars(self)))

    def __setstate__(self, state: Any) -> None:
        super().__setstate__(state[0])
        vars(self).update(state[1])


def basis_of(X: Any) -> Basis | None:
    """Return X if it has levels to select from, and all of its columns."""
    return X if isinstance(X, Basis) and X.levels else None


def multiplied(order: np.ndarray, kinds: np.ndarray, i: Any, j: Any) -> Any:
    """Return whether products of two features are tried: of few functions, or with a level."""
    smooth = (order[i] < _IN_PRODUCTS) & (order[j] < _IN_PRODUCTS)
    of_level = (kinds[i] == "level") | (kinds[j] == "level")
    return smooth | (of_level & (order[i] < _LEVELS) & (order[j] < _LEVELS))


def additive(X: Any) -> np.ndarray:
    """Return the features of a basis in the additive models whose residuals select products."""
    return np.flatnonzero((X.kinds == "level") | (X.order < _IN_ADDITIVE))


def most_products(n: int) -> int:
    """Return the number of products that are selected with n rows."""
    return min(_MOST_SELECTED, int(_PER_ROW * n))


def strongest_pairs(
    X: Basis, used: np.ndarray, y: np.ndarray, kept: np.ndarray, most: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return pairs (m, 2) of features, and which of them each set of rows (n, K) selects.

    The products of the selected pairs have the largest correlations with residuals of an additive
    model of the features ``used``.
    """
    values = standardised(np.asarray(X, float))
    rest = residuals(values[:, np.intersect1d(additive(X), used)], y, kept)
    largest_values = np.abs(np.asarray(X)).max(axis=0)
    usable = used[(X.order[used] < _LEVELS) & (largest_values[used] < _LARGEST)]
    strong = _strongest_columns(X.column[usable], values[:, usable], y, kept)
    pairs = [np.zeros((0, 2), int)]
    scores = [np.zeros((0, kept.shape[1]), np.float32)]
    present = (np.asarray(X)[:, usable] != 0) | (X.kinds[usable] != "level")
    for a in range(len(usable)):
        others = np.flatnonzero(X.column[usable] > X.column[usable[a]])
        others = others[(strong[a] & strong[others]).any(axis=1)]
        others = others[multiplied(X.order, X.kinds, usable[a], usable[others])]
        others = others[present[:, a] @ present[:, others].astype(float) >= _FEWEST_ROWS]
        products = standardised(values[:, usable[[a]]] * values[:, usable[others]])
        pairs.append(np.stack([np.full(len(others), usable[a]), usable[others]], axis=1))
        sizes = np.where(strong[a] & strong[others], np.abs(products.T @ rest), -1.0)
        scores.append(sizes.astype(np.float32))
    together = np.concatenate(scores)
    chosen = largest(together, most or most_products(len(y))) & (together >= 0)
    some = chosen.any(axis=1)
    return np.concatenate(pairs)[some], chosen[some]


def standardised(X: np.ndarray) -> np.ndarray:
    """Return columns with mean 0 and variance 1; constant ones are 0."""
    means, sizes = column_moments(X)
    constant = sizes <= 10 * np.finfo(float).eps * np.abs(means)
    return np.asarray((X - means) / np.where(constant, np.inf, sizes))


def residuals(X: np.ndarray, y: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """Return residuals (n, K) of ridge regressions on the rows kept (n, K); 0 in the other rows.

    The columns of X are standardised. A few steps of conjugate gradients are enough to select
    columns. Outliers are clipped, so that they do not select columns. The unit is the largest
    distance of y from its median.
    """
    y = y - np.median(y)
    y /= units_of(np.abs(y).max())  # so that no square overflows
    rest = _clipped(np.broadcast_to(y[:, None], kept.shape), kept, _CLIP_Y)
    penalty = _RIDGE * kept.sum(axis=0) + X.shape[1]
    coef = np.zeros((X.shape[1], kept.shape[1]))
    gradient = X.T @ rest
    direction, square = gradient, np.sum(gradient**2, axis=0)
    least = _CONVERGED * square
    for _ in range(_STEPS):
        fitted = np.where(kept, X @ direction, 0.0)
        curvature = np.sum(fitted**2, axis=0) + penalty * np.sum(direction**2, axis=0)
        step = square / np.where(curvature > 0, curvature, 1.0)
        coef, rest = coef + step * direction, rest - step * fitted
        gradient, before = X.T @ rest - penalty * coef, square
        square = np.sum(gradient**2, axis=0)
        direction = gradient + square / np.where(before > 0, before, 1.0) * direction
        direction = np.where(square > least, direction, 0.0)
    return _clipped(rest, kept, _CLIP)


def _clipped(values: np.ndarray, kept: np.ndarray, width: float) -> np.ndarray:
    """Clip the kept values in each column, and subtract their mean; the others are 0."""
    known = np.where(kept, values, np.nan)
    middle = np.nanmedian(known, axis=0)
    limit = width * 1.4826 * np.nanmedian(np.abs(known - middle), axis=0)
    limit = np.where(limit > 0, limit, np.inf)
    known = np.clip(known, middle - limit, middle + limit)
    return np.where(kept, known - np.nanmean(known, axis=0), 0.0)


def largest(scores: np.ndarray, count: int) -> np.ndarray:
    """Return which entries are among the ``count`` largest of their column."""
    if len(scores) <= count:
        return np.ones(scores.shape, bool)
    return np.asarray(scores >= np.partition(scores, -count, axis=0)[-count])


def _strongest_columns(
    column: np.ndarray, values: np.ndarray, y: np.ndarray, kept: np.ndarray
) -> np.ndarray:
    """Return which features (m, K) are of columns that are strongly correlated with y."""
    centred = np.where(kept, y[:, None], 0.0)
    centred -= np.where(kept, centred.sum(axis=0) / kept.sum(axis=0), 0.0)
    best = np.zeros((int(column.max(initial=0)) + 1, kept.shape[1]))
    np.maximum.at(best, column, (values.T @ centred) ** 2)
    return np.asarray((largest(best, _MOST_COLUMNS) & (best > 0))[column])
