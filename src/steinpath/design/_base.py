"""Designs: the matrix X behind two products.

The engine touches X only through its products with blocks of columns. Anything with ``matmat``,
``rmatmat``, a ``shape`` and an ``example`` can stand in for X; `Design` gives the rest.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import array_api_compat
import numpy as np

from steinpath._support.arrays import Array, copied, folded, like, namespace, take
from steinpath._support.validation import is_own
from steinpath.design._norm import NormBounds, norm_bounds
from steinpath.problem._rows import Rows


class Design(ABC):
    """An ``(n, p)`` matrix that can be multiplied from both sides.

    Attributes
    ----------
    shape : tuple of int
        ``(n, p)``.
    example : Array
        Any array of the design's namespace, dtype and device: what new arrays are made like.
    weights : Array of shape (n,) or None
        How much each row counts, with mean 1; None if all count alike. `rmatmat` has them in it.
    out_of_core : bool
        Whether a product costs much more than its arithmetic, as where X is read from a file.
    source_rows : ndarray of int of shape (n,) or None
        Which observation each row stands for, where counts of observations were written out as
        rows; None if each row is one.
    """

    shape: tuple[int, int]
    example: Array
    weights: Array | None = None
    out_of_core: bool = False
    source_rows: np.ndarray | None = None
    _norm: NormBounds | None = None  # where bounds are known

    @abstractmethod
    def matmat(self, block: Array) -> Array:
        """``X @ block`` for a vector or a block of columns: a new array."""

    @abstractmethod
    def rmatmat(self, block: Array) -> Array:
        """``Xᵀ @ block`` for a vector or a block of columns: a new array."""

    def forward(self, block: Array) -> Array:
        """``X @ block`` for a block of any number of axes, of which the first is multiplied."""
        return self._product(self.matmat, block)

    def adjoint(self, block: Array) -> Array:
        """``Xᵀ @ block``, each row as often as it counts, for a block of any number of axes."""
        return self._product(self.rmatmat, block)

    def _product(self, product: Callable[[Array], Array], block: Array) -> Array:
        if is_own(self):
            return folded(product, block)
        # a user's own may work in place, and return the same array each time
        return copied(folded(product, copied(block)))

    @property
    def members(self) -> int:
        """Number of members that have a matrix of their own; 1 if all share this one."""
        return 1

    def member(self, k: int) -> Design:
        """Return the design of one member."""
        return self

    def some(self, members: np.ndarray) -> Design:
        """Return the design of some members, if they have matrices of their own."""
        return self

    @property
    def rows(self) -> Rows:
        """How many rows there are, and how sums over them are taken."""
        return Rows(self.n_rows, self.weights, None if self.is_whole else self.over_rows)

    # A design may hold a share of the rows, and others the rest. Arrays of one entry per row then
    # have ``shape[0]`` entries, those of its own, and what is said of all goes through these:

    @property
    def n_rows(self) -> int:
        """Number of all rows."""
        return self.shape[0]

    @property
    def is_whole(self) -> bool:
        """Whether all rows are here."""
        return self.n_rows == self.shape[0]

    def over_rows(self, partial: Array) -> Array:
        """Return a sum over all rows, from the sum over those that are here."""
        return partial

    def largest(self, value: Any) -> Any:
        """Return the largest number of all shares, or those of an array entry by entry."""
        return value

    def local(self, values: Array) -> Array:
        """Return the rows that are here of an array that has them all."""
        return values

    def once(self, compute: Callable[[], Array]) -> Array:
        """Return what all shares would compute alike, computed by one of them.

        The function must not use what goes through all shares.
        """
        return compute()

    @property
    def whole_shape(self) -> tuple[int, int]:
        """Number of all rows, and of columns."""
        return self.n_rows, self.shape[1]

    @property
    def largest_share(self) -> int:
        """Number of rows of the largest share: the same number for all of them."""
        return self.shape[0]

    @property
    def all_y(self) -> Array | None:
        """The responses of all rows, if these are known and not all rows are here."""
        return None

    def gathered(self, values: Array) -> Array:
        """Return an array of all rows, from that of the rows which are here."""
        if self.is_whole:
            return values
        everything = np.zeros((self.n_rows, *values.shape[1:]), values.dtype)
        self.local(everything)[...] = values
        return self.over_rows(everything)

    def places(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return which of some of all rows are here, and where."""
        numbers = self.local(np.arange(self.n_rows))
        which = np.flatnonzero((rows >= numbers[0]) & (rows <= numbers[-1]))
        return which, rows[which] - numbers[0]

    def picked(self, values: Array, rows: np.ndarray) -> Array:
        """Return the entries of some of all rows, along the last axis, wherever these rows are.

        Parameters
        ----------
        values : Array of shape (…, n)
            The entries of the rows that are here.
        rows : ndarray of int of shape (m,)
            The rows, by their numbers among all.

        Returns
        -------
        Array of shape (…, m)
        """
        if self.is_whole:
            return take(values, rows, axis=values.ndim - 1)
        which, where = self.places(rows)
        found = np.zeros((*values.shape[:-1], len(rows)), values.dtype)
        found[..., which] = values[..., where]
        return self.over_rows(found)

    def total(self, block: Array) -> Array:
        """Sum over the rows of a vector or block, each as often as it counts."""
        return self.rows.total(block)

    def adjoint_and_total(self, block: Array) -> tuple[Array, Array]:
        """Return `adjoint` and `total` of a block: both are sums over all rows."""
        return self.adjoint(block), self.total(block)

    def row_squares(self, center: Array | None = None) -> Array:
        """Squared Euclidean distance of each row's features from their ``center``, or from 0."""
        raise NotImplementedError(f"{type(self).__name__} does not know the sizes of its rows")

    def astype(self, dtype: Any) -> Design:
        """Return the design in another precision, or itself where that is not to be had."""
        return self

    def part(self, rows: np.ndarray | None, columns: np.ndarray | None) -> Design | None:
        """Return a copy of some rows and columns (None: of all); None if that does not pay."""
        return None

    @property
    def has_gram(self) -> bool:
        """Whether `gram` is there, and pays."""
        return False

    def gram(self, of_rows: bool = False, dtype: Any = None, center: Array | None = None) -> Array:
        """``Xᵀ X``, or ``X Xᵀ`` of the rows, after subtracting the features' ``center``.

        Computed in the precision ``dtype``, the design's own by default.
        """
        raise NotImplementedError(f"{type(self).__name__} has no Gram matrix")

    def norm_bounds(self) -> NormBounds:
        """Bounds for the largest singular value, or that of all members; computed once."""
        if self._norm is None:
            self._norm = norm_bounds(self)
        return self._norm

    def zeros(self, *shape: int) -> Array:
        """Return zeros like the design."""
        return namespace(self.example).zeros(
            shape, dtype=self.example.dtype, device=array_api_compat.device(self.example)
        )

    def array(self, values: Any) -> Array:
        """``values`` as an array like the design."""
        return like(values, self.example)

    def signs(self, rng: np.random.Generator, *shape: int) -> Array:
        """Return random signs like the design: the probes of all trace estimates."""
        return self.array(rng.integers(0, 2, shape) * 2.0 - 1.0)


class ScalableDesign(Design):
    """A design that knows the sizes of its rows also after its columns are divided by numbers."""

    @abstractmethod
    def row_squares(self, center: Array | None = None, scale: Array | None = None) -> Array:
        """Squared Euclidean distance of each row's features from their ``center``, or from 0.

        With ``scale``, each feature's distance is divided by its own.
        """

    def astype(self, dtype: Any) -> ScalableDesign:
        return self

    def part(self, rows: np.ndarray | None, columns: np.ndarray | None) -> ScalableDesign | None:
        return None


class TransformedDesign(Design):
    """A design that changes the products of another one, and has its rows."""

    @property
    @abstractmethod
    def inner(self) -> Design:
        """The other one."""

    @property
    def n_rows(self) -> int:
        return self.inner.n_rows

    @property
    def largest_share(self) -> int:
        return self.inner.largest_share

    @property
    def all_y(self) -> Array | None:
        return self.inner.all_y

    def over_rows(self, partial: Array) -> Array:
        return self.inner.over_rows(partial)

    def largest(self, value: Any) -> Any:
        return self.inner.largest(value)

    def local(self, values: Array) -> Array:
        return self.inner.local(values)

    def once(self, compute: Callable[[], Array]) -> Array:
        return self.inner.once(compute)

    @abstractmethod
    def forward(self, block: Array) -> Array:
        """``X @ block`` for a block of any number of axes."""

    @abstractmethod
    def adjoint(self, block: Array) -> Array:
        """``Xᵀ @ block`` for a block of any number of axes."""

    def matmat(self, block: Array) -> Array:
        return self.forward(block)

    def rmatmat(self, block: Array) -> Array:
        return self.adjoint(block)
