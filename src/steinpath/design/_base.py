"""Designs: the matrix X behind two products.

The engine touches X only through its products with blocks of columns. Anything with ``matmat``,
``rmatmat``, a ``shape`` and an ``example`` can stand in for X; `Design` gives the rest.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import array_api_compat
import numpy as np

from steinpath._support.arrays import Array, copied, folded, like, namespace, to_numpy
from steinpath._support.validation import is_own
from steinpath.design._norm import near_the_largest, norm_in_few_passes
from steinpath.problem._rows import Rows

# Designs this narrow are decomposed whole: a Krylov space needs room.
_SMALL = 32
# Vectors of a Krylov space, unless they have more numbers than this together, and products between
# looks at the norm.
_LANCZOS_STEPS, _LANCZOS_NUMBERS, _LANCZOS_EVERY = 60, 2**23, 5


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
    _norm: tuple[float, float] | None = None  # where it is known, and its tolerance

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

    def largest(self, value: float) -> float:
        """Return the largest number of all shares."""
        return value

    def here(self, values: Array) -> Array:
        """Return the rows that are here of an array that has them all."""
        return values

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

    def norm(self, tol: float = 1e-6) -> float:
        """Largest singular value: to ``tol`` and, unlike random estimates, not low."""
        known = self._norm
        if known is None or known[1] > tol:
            if self.members == 1:
                value = self._largest_singular_value(tol)
            else:  # of all members; for a warning it is enough to look at one
                near = near_the_largest(self, share=1.0 if tol >= 1e-3 else 0.9)
                value = max(self.member(int(k)).norm(tol) for k in near)
            known = self._norm = (value, tol)
        return known[0]

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

    def _largest_singular_value(self, tol: float) -> float:
        n, p = self.shape
        # of the matrix with rows times the roots of their weights
        roots = np.ones(n) if self.weights is None else np.sqrt(to_numpy(self.weights))

        def forth(b: np.ndarray) -> np.ndarray:
            return np.asarray((roots * to_numpy(self.forward(self.array(b))).T).T)

        def back(u: np.ndarray) -> np.ndarray:
            return to_numpy(self.adjoint(self.array((u.T / roots).T))).astype(float, copy=False)

        if not self.is_whole:
            # only XᵀX shows rows that are elsewhere
            if p <= _SMALL:
                return math.sqrt(max(np.linalg.eigvalsh(back(forth(np.eye(p))))[-1], 0.0))
            return norm_in_few_passes(forth, back, p, tol**1.5)
        if min(n, p) <= _SMALL:
            columns = forth(np.eye(p)) if p <= n else back(np.eye(n))
            return float(np.linalg.norm(columns.astype(float), 2))
        first, second = (forth, back) if p <= n else (back, forth)
        if self.out_of_core:
            return norm_in_few_passes(first, second, min(n, p), tol)
        # not by ARPACK: SciPy's BLAS has threads of its own, which keep the cores busy for a while
        # after it
        steps = min(_LANCZOS_STEPS, max(20, _LANCZOS_NUMBERS // min(n, p)))
        # a single vector stagnates before it converges, so that coarse values would be low
        return norm_in_few_passes(
            first, second, min(n, p), tol**1.5, width=1, most_steps=steps, every=_LANCZOS_EVERY
        )


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
    """A design that changes the products of another one."""

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
