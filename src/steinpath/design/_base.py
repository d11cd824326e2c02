"""Designs: the matrix X, accessed through two products.

The engine accesses X only through its products with blocks of columns. Any object with ``matmat``,
``rmatmat``, a ``shape`` and an ``example`` can replace X; `Design` provides the rest.
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
    """Matrix of shape ``(n, p)`` that can be multiplied from both sides.

    Attributes
    ----------
    shape : tuple of int
        ``(n, p)``.
    example : Array
        Any array of the design's namespace, dtype and device; new arrays are created like it.
    weights : Array of shape (n,) or None
        Row weights with mean 1; None if all are equal. `rmatmat` includes them.
    out_of_core : bool
        Whether a product costs much more than its arithmetic, for example because X is read from a
        file.
    source_rows : ndarray of int of shape (n,) or None
        Index of the observation of each row, if integer counts were expanded into repeated rows;
        None if each row is one observation.
    """

    shape: tuple[int, int]
    example: Array
    weights: Array | None = None
    out_of_core: bool = False
    source_rows: np.ndarray | None = None
    _norm: NormBounds | None = None  # cached, once known

    @abstractmethod
    def matmat(self, block: Array) -> Array:
        """Return ``X @ block`` for a vector or a block of columns, as a new array."""

    @abstractmethod
    def rmatmat(self, block: Array) -> Array:
        """Return ``Xᵀ @ block`` for a vector or a block of columns, as a new array."""

    def forward(self, block: Array) -> Array:
        """Return ``X @ block`` for a block with any number of axes; the first is multiplied."""
        return self._product(self.matmat, block)

    def adjoint(self, block: Array) -> Array:
        """Return ``Xᵀ @ block`` with row weights, for a block with any number of axes."""
        return self._product(self.rmatmat, block)

    def _product(self, product: Callable[[Array], Array], block: Array) -> Array:
        if is_own(self):
            return folded(product, block)
        # a user-defined design may work in place and return the same array each time
        return copied(folded(product, copied(block)))

    @property
    def members(self) -> int:
        """Number of members with their own matrix; 1 if all share this one."""
        return 1

    def member(self, k: int) -> Design:
        """Return the design of one member."""
        return self

    def some(self, members: np.ndarray) -> Design:
        """Return the design of some members, if they have their own matrices."""
        return self

    @property
    def rows(self) -> Rows:
        """Number of rows and how to sum over them."""
        return Rows(self.n_rows, self.weights, None if self.is_whole else self.over_rows)

    # A design may hold only a share of the rows, with the others held elsewhere. Arrays with one
    # entry per row then have ``shape[0]`` entries, for the local rows. Quantities of all rows are
    # computed with the following methods.

    @property
    def n_rows(self) -> int:
        """Number of all rows, local or not."""
        return self.shape[0]

    @property
    def is_whole(self) -> bool:
        """Whether all rows are local."""
        return self.n_rows == self.shape[0]

    def over_rows(self, partial: Array) -> Array:
        """Return the sum over all rows, given the sum over the local rows."""
        return partial

    def largest(self, value: Any) -> Any:
        """Return the maximum over all shares, elementwise for arrays."""
        return value

    def local(self, values: Array) -> Array:
        """Return the local rows of an array of all rows."""
        return values

    def once(self, compute: Callable[[], Array]) -> Array:
        """Compute a quantity that is the same for all shares on one of them only.

        The function must not communicate with other shares.
        """
        return compute()

    @property
    def whole_shape(self) -> tuple[int, int]:
        """Number of all rows and number of columns."""
        return self.n_rows, self.shape[1]

    @property
    def largest_share(self) -> int:
        """Number of rows of the largest share; the same value on all shares."""
        return self.shape[0]

    @property
    def all_y(self) -> Array | None:
        """Responses of all rows, if they are known and some rows are not local."""
        return None

    def gathered(self, values: Array) -> Array:
        """Return an array of all rows, given the local part."""
        if self.is_whole:
            return values
        everything = np.zeros((self.n_rows, *values.shape[1:]), values.dtype)
        self.local(everything)[...] = values
        return self.over_rows(everything)

    def places(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return which of the given rows are local, and their local indices."""
        numbers = self.local(np.arange(self.n_rows))
        which = np.flatnonzero((rows >= numbers[0]) & (rows <= numbers[-1]))
        return which, rows[which] - numbers[0]

    def picked(self, values: Array, rows: np.ndarray) -> Array:
        """Return the entries of the given rows along the last axis, wherever the rows are stored.

        Parameters
        ----------
        values : Array of shape (…, n)
            Entries of the local rows.
        rows : ndarray of int of shape (m,)
            Global row indices.

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
        """Return the weighted sum over the rows of a vector or block."""
        return self.rows.total(block)

    def adjoint_and_total(self, block: Array) -> tuple[Array, Array]:
        """Return `adjoint` and `total` of a block; both are sums over all rows."""
        return self.adjoint(block), self.total(block)

    def row_squares(self, center: Array | None = None) -> Array:
        """Return the squared Euclidean distance of each row from ``center``, or from 0."""
        raise NotImplementedError(f"{type(self).__name__} does not implement row_squares")

    def astype(self, dtype: Any) -> Design:
        """Return the design in another precision, or itself if that is not available."""
        return self

    def part(self, rows: np.ndarray | None, columns: np.ndarray | None) -> Design | None:
        """Return a copy of some rows and columns (None: all); None if a copy does not pay off."""
        return None

    @property
    def has_gram(self) -> bool:
        """Whether `gram` is available and pays off."""
        return False

    def gram(self, of_rows: bool = False, dtype: Any = None, center: Array | None = None) -> Array:
        """Return ``Xᵀ X``, or ``X Xᵀ`` for the rows, after subtracting the features' ``center``.

        It is computed in precision ``dtype``, by default that of the design.
        """
        raise NotImplementedError(f"{type(self).__name__} does not implement gram")

    def norm_bounds(self) -> NormBounds:
        """Return bounds of the largest singular value, over all members; computed once."""
        if self._norm is None:
            self._norm = norm_bounds(self)
        return self._norm

    def zeros(self, *shape: int) -> Array:
        """Return zeros of the design's namespace, dtype and device."""
        return namespace(self.example).zeros(
            shape, dtype=self.example.dtype, device=array_api_compat.device(self.example)
        )

    def array(self, values: Any) -> Array:
        """Convert ``values`` to an array like the design's."""
        return like(values, self.example)

    def signs(self, rng: np.random.Generator, *shape: int) -> Array:
        """Return random signs, the probes of all trace estimates."""
        return self.array(rng.integers(0, 2, shape) * 2.0 - 1.0)


class ScalableDesign(Design):
    """Design that can compute row norms after its columns are rescaled."""

    @abstractmethod
    def row_squares(self, center: Array | None = None, scale: Array | None = None) -> Array:
        """Return the squared Euclidean distance of each row's features from ``center``, or from 0.

        With ``scale``, each feature's distance is divided by its scale.
        """

    def astype(self, dtype: Any) -> ScalableDesign:
        return self

    def part(self, rows: np.ndarray | None, columns: np.ndarray | None) -> ScalableDesign | None:
        return None


class TransformedDesign(Design):
    """Design that modifies the products of another design with the same rows."""

    @property
    @abstractmethod
    def inner(self) -> Design:
        """The modified design."""

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
        """Return ``X @ block`` for a block with any number of axes."""

    @abstractmethod
    def adjoint(self, block: Array) -> Array:
        """Return ``Xᵀ @ block`` for a block with any number of axes."""

    def matmat(self, block: Array) -> Array:
        return self.forward(block)

    def rmatmat(self, block: Array) -> Array:
        return self.adjoint(block)
