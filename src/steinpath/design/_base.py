"""Designs: the matrix X, accessed through two products, and bounds of its norm.

The engine accesses X only through its products with blocks of columns. Any object with ``matmat``,
``rmatmat``, a ``shape`` and an ``example`` can replace X; `Design` provides the rest.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

import array_api_compat
import numpy as np

from steinpath._support.arrays import (
    Array,
    cast,
    folded,
    largest_along,
    like,
    namespace,
    to_numpy,
    units_of,
)
from steinpath.problem._rows import Rows

#: Columns of a product, and number of applications of ``Xᵀ X``, to bound a norm.
WIDTH, STEPS = 8, 5
#: Up to this many columns, the norm is computed exactly.
EXACT = 64


class NormBounds(NamedTuple):
    """Bounds of the largest singular value; `high` is at most a few percent above it."""

    low: float
    high: float


class Design(ABC):
    """Matrix of shape ``(n, p)`` that can be multiplied from both sides.

    Products must not modify their arguments, and return a new array each time.

    Attributes
    ----------
    shape : tuple of int
        ``(n, p)``.
    example : Array
        Any array of the design's namespace, dtype and device; new arrays are created like it.
    all_weights : ndarray of shape (n,) or None
        Sample weights of all rows, with mean 1; None if all are equal. `rmatmat` includes them.
    out_of_core : bool
        Whether a product costs much more than its arithmetic, as if X is read from a file.
    is_remote : bool
        Whether the rows are in other processes, where `on_blocks` calls functions.
    all_y : Array or None
        Responses of all rows, if they are known and some rows are not local.
    source_rows : ndarray of int of shape (n,) or None
        Index of the observation of each row, if rows were repeated by integer counts.
    screen : Screen or None
        Selection of columns by y, which is repeated without each set of held-out rows.
    """

    shape: tuple[int, int]
    example: Array
    all_weights: np.ndarray | None = None
    out_of_core: bool = False
    is_remote: bool = False
    all_y: Array | None = None
    source_rows: np.ndarray | None = None
    screen: Any = None
    _norm: NormBounds | None = None  # cached, once known

    @abstractmethod
    def matmat(self, block: Array) -> Array:
        """Return ``X @ block`` for a vector or a block of columns, as a new array."""

    @abstractmethod
    def rmatmat(self, block: Array) -> Array:
        """Return ``Xᵀ @ block`` for a vector or a block of columns, as a new array."""

    def forward(self, block: Array) -> Array:
        """Return ``X @ block`` for a block with any number of axes; the first is multiplied."""
        return folded(self.matmat, block)

    def adjoint(self, block: Array) -> Array:
        """Return ``Xᵀ @ block`` with row weights, for a block with any number of axes."""
        return folded(self.rmatmat, block)

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
        return Rows(self.n_rows, complete=None if self.is_whole else self.over_rows)

    @property
    def unweighted(self) -> Design:
        """The same matrix without sample weights."""
        return self

    # A design may hold only a share of the rows. Arrays with one entry per row then have
    # ``shape[0]`` entries, for these; the following methods compute quantities of all rows.

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
        """Compute on one share what is the same for all, without communication between them."""
        return compute()

    @property
    def whole_shape(self) -> tuple[int, int]:
        """Number of all rows and number of columns."""
        return self.n_rows, self.shape[1]

    @property
    def largest_share(self) -> int:
        """Number of rows of the largest share; the same value on all shares."""
        return self.shape[0]

    def on_blocks(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call a function where the rows are: here, or on every block of rows of a cluster."""
        return function(*args)

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

    def from_local(self, values: Array, rows: np.ndarray) -> Array:
        """Return entries (…, m) of m rows of the whole, given those of the local ones of them."""
        if self.is_whole:
            return values
        entries = np.zeros((*values.shape[:-1], len(rows)), values.dtype)
        entries[..., self.places(rows)[0]] = values
        return self.over_rows(entries)

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
        """Return ``Xᵀ X`` (or ``X Xᵀ``, of the rows) of features minus their ``center``."""
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
        """Return squared distances of the rows; with ``scale``, of columns divided by it."""

    def astype(self, dtype: Any) -> ScalableDesign:
        return self

    def part(self, rows: np.ndarray | None, columns: np.ndarray | None) -> ScalableDesign | None:
        return None


def of_inner(name: str) -> Any:
    """Return a property that is the attribute or method of the inner design."""
    return property(lambda self: getattr(self.inner, name))


class TransformedDesign(Design):
    """Design that modifies the products of another one, ``inner``, with the same rows."""

    def __init__(self, inner: Design):
        self.inner = inner
        self.shape, self.example, self.out_of_core = inner.shape, inner.example, inner.out_of_core
        self.all_weights = inner.all_weights

    n_rows = of_inner("n_rows")
    largest_share = of_inner("largest_share")
    is_remote = of_inner("is_remote")
    all_y = of_inner("all_y")
    on_blocks = of_inner("on_blocks")
    over_rows = of_inner("over_rows")
    largest = of_inner("largest")
    local = of_inner("local")
    once = of_inner("once")

    # subclasses define `forward` and `adjoint`

    def matmat(self, block: Array) -> Array:
        return self.forward(block)

    def rmatmat(self, block: Array) -> Array:
        return self.adjoint(block)


def norm_bounds(design: Design) -> NormBounds:
    """Bound the norm of a design, or the largest norm of its members, by block Lanczos.

    Five steps from a random block of eight columns give the largest Ritz value θ of ``Xᵀ X`` and
    its residual. An eigenvalue lies within the norm of the residual of θ. It is the largest one
    unless the random block is nearly orthogonal to the leading eigenvectors, so ``√(θ + residual)``
    is an upper bound: 1 to 3 percent too large for random matrices, whose singular values are
    dense, and exact if the largest ones are well separated.
    """
    p, members = design.shape[1], design.members
    if p <= EXACT:
        start, steps = np.eye(p), 1
    else:
        start, steps = np.random.default_rng(0).standard_normal((p, WIDTH)), STEPS
    xp = namespace(design.example)
    block = like(start, design.example)[None, :, :] + design.zeros(members, 1, 1)
    block = _orthonormal(block / math.sqrt(p), 0.0)
    blocks: list[Array] = []
    images: list[Array] = []
    for step in range(steps):
        # blocks of a design have the members axis in the middle; stacked matrices have it first
        image = design.adjoint(design.forward(xp.permute_dims(block, (1, 0, 2))))
        blocks.append(block)
        images.append(xp.permute_dims(image, (1, 0, 2)))
        if step < steps - 1:
            block = images[-1] / units_of(xp.max(largest_along(images[-1], 1), axis=2)[:, :, None])
            for known in blocks:
                block = block - known @ (xp.matrix_transpose(known) @ block)
            # the remainder of a product that is pure rounding error has no meaningful direction
            block = _orthonormal(block, float(xp.finfo(block.dtype).eps) ** 0.5)
    basis, image = xp.concat(blocks, axis=2), xp.concat(images, axis=2)
    projected = to_numpy(cast(xp.matrix_transpose(basis) @ image, xp.float64))
    values, vectors = np.linalg.eigh((projected + projected.transpose(0, 2, 1)) / 2)
    top = like(vectors[:, :, -1:], basis)
    theta = np.maximum(values[:, -1], 0.0)
    rest = image @ top - like(theta[:, None, None], basis) * (basis @ top)
    unit = np.where(theta > 0, theta, 1.0)
    size = np.linalg.norm(to_numpy(rest)[:, :, 0].astype(float) / unit[:, None], axis=1)
    return NormBounds(math.sqrt(float(theta.max())), math.sqrt(float((theta * (1 + size)).max())))


def _orthonormal(block: Array, least: float) -> Array:
    """Return orthonormal bases of the columns of matrices; columns not above ``least`` become 0."""
    xp, limit = namespace(block), least**2 * block.shape[1]
    for _ in range(2):  # the second pass removes rounding errors of the first
        gram = to_numpy(xp.matrix_transpose(block) @ block).astype(float)
        squares, vectors = np.linalg.eigh(gram)
        factors = 1 / np.sqrt(np.where(squares > limit, squares, np.inf))
        block = block @ like(vectors * factors[:, None, :], block)
        limit = 0.5
    return block
