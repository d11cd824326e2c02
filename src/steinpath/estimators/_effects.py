"""What the columns of a table contribute to a fitted model: curves, products and importance."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from sklearn.pipeline import Pipeline

from steinpath._support.arrays import to_numpy
from steinpath._support.tabular import Tabular
from steinpath.estimators._basis import Terms
from steinpath.estimators._columns import Column
from steinpath.estimators._encoder import TableEncoder

# Points of a curve, and of a surface, between two knots.
_POINTS, _FEW_POINTS = 12, 5


class ColumnCurve(NamedTuple):
    """Contribution of a column to the predictions, at increasing numbers or at levels."""

    name: str
    at: np.ndarray
    #: Relative to the mean over the points.
    effect: np.ndarray
    #: Standard errors by the jackknife over the out-of-fold models; NaN if there are none.
    stderr: np.ndarray


class PairSurface(NamedTuple):
    """Contribution (m, k) of the products of two columns, at m points of one and k of the other."""

    names: tuple[str, str]
    at: tuple[np.ndarray, np.ndarray]
    effect: np.ndarray


@dataclass(frozen=True, eq=False)
class ColumnEffects(Tabular):
    """Importance of columns of a table, the largest first; see `steinpath.column_effects`.

    Attributes
    ----------
    column : ndarray of str
        Names of the columns.
    importance : ndarray
        Root of the sum of squares of the coefficients of a column's features times their standard
        deviations. It is the standard deviation of the column's contribution to the predictions if
        its features are uncorrelated. Half of the square of a product is that of each column.
    share : ndarray
        Share of a column in the sum of the squares.
    features, nonzero, products : ndarray of int
        Number of the features of a column, of those with a nonzero coefficient, and of its
        products with a nonzero coefficient.
    """

    column: np.ndarray
    importance: np.ndarray
    share: np.ndarray
    features: np.ndarray
    nonzero: np.ndarray
    products: np.ndarray

    def to_dict(self) -> dict[str, Any]:
        """Return a table as columns by name: one row for each column of the data.

        Returns
        -------
        dict
            The attributes, in their order.
        """
        return dict(vars(self))


def column_effects(model: Pipeline) -> ColumnEffects:
    """Return the importance of each column of a table in a fitted model.

    Parameters
    ----------
    model : Pipeline
        A fitted pipeline of a `TableEncoder` and an estimator such as `LADLasso`.

    Returns
    -------
    ColumnEffects
        A table with ``to_frame()``. With several classes or quantiles, squares are averages.

    Examples
    --------
    >>> import numpy as np
    >>> import steinpath as sp
    >>> from sklearn.pipeline import make_pipeline
    >>> rng = np.random.default_rng(0)
    >>> cars = {"age": rng.uniform(0, 10, 300), "weight": rng.normal(1500, 300, 300)}
    >>> price = 20 * np.exp(-cars["age"] / 5) + 0.1 * rng.standard_normal(300)
    >>> model = make_pipeline(sp.TableEncoder(curves="auto"), sp.LADLasso(random_state=0))
    >>> effects = sp.column_effects(model.fit(cars, price))
    >>> effects.column
    array(['age', 'weight'], dtype=object)
    >>> bool(effects.share[0] > 0.99)
    True
    """
    parts = _Parts.of(model)
    total, used = parts.squares, np.any(parts.coef != 0, axis=0).astype(float)
    alone, _ = parts.sums(np.ones_like(used))
    nonzero, products = parts.sums(used)
    columns = {
        "column": np.array([column.name for column in parts.encoder.columns_], object),
        "importance": np.sqrt(total),
        "share": total / (total.sum() or 1.0),
        "features": alone.astype(int),
        "nonzero": nonzero.astype(int),
        "products": products.astype(int),
    }
    order = np.argsort(-total, kind="stable")
    return ColumnEffects(**{name: of[order] for name, of in columns.items()})


def column_curves(model: Pipeline, which: int = 0) -> list[ColumnCurve]:
    """Return the contribution of each column with nonzero coefficients, most important first.

    ``which`` is the index of one of several classes or quantiles.
    """
    parts, found = _Parts.of(model), list[ColumnCurve]()
    for k in np.argsort(-parts.squares, kind="stable").tolist():
        places = np.flatnonzero(parts.column[parts.terms.kept] == k)
        if not parts.coef[which, places].any():
            continue
        at, values = parts.points(k, _POINTS)
        values = values[:, parts.terms.kept[places] - parts.starts[k]]
        values = values - values.mean(axis=0)
        each = values @ parts.folds[which][:, places].T
        stderr = (
            np.sqrt((each.shape[1] - 1) * each.var(axis=1))
            if each.size
            else np.full(len(at), np.nan)
        )
        name = parts.encoder.columns_[k].name
        found.append(ColumnCurve(name, at, values @ parts.coef[which, places], stderr))
    return found


def pair_surfaces(model: Pipeline, which: int = 0, most: int = 4) -> list[PairSurface]:
    """Return the contributions of products of the pairs of columns with the largest ones."""
    parts = _Parts.of(model)
    kept, pairs = len(parts.terms.kept), parts.column[parts.terms.pairs]
    squares = (parts.coef[which] * parts.scale)[kept:] ** 2
    sizes = dict.fromkeys(zip(*pairs.tolist(), strict=True), 0.0)
    for pair, square in zip(zip(*pairs.tolist(), strict=True), squares, strict=True):
        sizes[pair] += square
    found = []
    for first, second in sorted(filter(sizes.get, sizes), key=lambda pair: -sizes[pair])[:most]:
        places = np.flatnonzero((pairs[0] == first) & (pairs[1] == second))
        sides, at = list[np.ndarray](), list[np.ndarray]()
        for side, k in enumerate((first, second)):
            points, values = parts.points(k, _FEW_POINTS)
            wanted = parts.terms.pairs[side, places] - parts.starts[k]
            sides.append(values[:, wanted] - parts.terms.centres[side, places])
            at.append(points)
        effect = (sides[0] * parts.coef[which, kept + places]) @ sides[1].T
        names = parts.encoder.columns_[first].name, parts.encoder.columns_[second].name
        found.append(PairSurface(names, (at[0], at[1]), effect))
    return found


class _Parts(NamedTuple):
    """A pipeline taken apart: coefficients (K, p) of K classes or quantiles."""

    encoder: TableEncoder
    terms: Terms
    coef: np.ndarray
    scale: np.ndarray
    #: Coefficients of the out-of-fold models of each; no rows if there are none.
    folds: list[np.ndarray]
    #: Column of each given feature, and the first feature of each column.
    column: np.ndarray
    starts: np.ndarray

    @classmethod
    def of(cls, model: Any) -> _Parts:
        steps = list(model) if isinstance(model, Pipeline) else []
        if len(steps) != 2 or not isinstance(steps[0], TableEncoder):
            raise TypeError(
                "model must be a fitted pipeline of a TableEncoder and an estimator, got "
                f"{type(model).__name__}"
            )
        encoder, estimator = steps
        if not hasattr(estimator, "scale_"):
            raise ValueError(
                "the model has no standard deviations of its features: it is not fitted, or was "
                "loaded from a file; fit it again"
            )
        if not estimator.standardize:
            raise ValueError(
                "the contribution of columns requires the standard deviations of the features, "
                "which a fit with standardize=False does not compute"
            )
        coef = np.atleast_2d(to_numpy(estimator.coef_)).astype(float)
        counts = [len(column.features) for column in encoder.columns_]
        given = Terms.of(sum(counts)) if encoder._terms is None else encoder._terms
        models = getattr(estimator, "estimators_", [estimator])
        intervals = [getattr(one, "intervals_", None) for one in models]
        folds = [np.zeros((0, coef.shape[1])) if each is None else each.coef for each in intervals]
        starts = np.cumsum([0, *counts])[:-1]
        column = np.repeat(np.arange(len(counts)), counts)
        terms = getattr(estimator, "terms_", given)
        return cls(encoder, terms, coef, to_numpy(estimator.scale_), folds, column, starts)

    def sums(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the sums over each column's own features, and over its products."""
        kept, count = len(self.terms.kept), len(self.encoder.columns_)
        alone = np.bincount(self.column[self.terms.kept], values[:kept], count)
        ends = self.column[self.terms.pairs]
        return alone, sum((np.bincount(side, values[kept:], count) for side in ends), 0 * alone)

    @property
    def squares(self) -> np.ndarray:
        """Squared importance of each column."""
        alone, products = self.sums(np.mean((self.coef * self.scale) ** 2, axis=0))
        return np.asarray(alone + products / 2)

    def points(self, k: int, between: int) -> tuple[np.ndarray, np.ndarray]:
        """Return values of a column, and its features there."""
        column = self.encoder.columns_[k]
        if not column.holds_numbers:
            values = np.eye(len(column.levels))[:, int(column.kind == "binary") :]
            at = np.array(column.levels, object)
        else:
            at = np.array([*_range(column, self.scale_of(k), between)])
            values = np.column_stack([at, *(curve(at) for curve in column.curves)])
        return at, np.pad(values, ((0, 0), (0, int(column.indicator))))

    def scale_of(self, k: int) -> float:
        """Return the standard deviation of a number."""
        return float(self.scale[int(np.searchsorted(self.terms.kept, self.starts[k]))])


def _range(column: Column, scale: float, between: int) -> Iterator[float]:
    """Yield increasing numbers over the range of a column, more where there are more rows."""
    middle = column.fill if isinstance(column.fill, float) else 0.0
    spread = [middle - 2 * scale, middle, middle + 2 * scale]
    knots = next((list(curve.knots) for curve in column.curves[::-1]), spread)
    for low, high in pairwise(knots):
        yield from np.linspace(low, high, between, endpoint=False).tolist()
    yield knots[-1]
