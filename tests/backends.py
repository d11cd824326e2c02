"""The array libraries that tests run on, and the package as it is seen on each of them.

A test that takes `sp` from here and is marked `everywhere` runs once on each library. What it
hands in becomes arrays of that library; what it reads are NumPy arrays again, after a look at what
they were. So one body, written in NumPy, speaks for all of them. On NumPy itself `sp` is the
package and nothing else.
"""

import functools
import types
from dataclasses import dataclass
from typing import Any

import array_api_strict
import numpy as np
import pytest
import torch
from array_api_compat import device

import steinpath
from steinpath._support.arrays import to_numpy


@dataclass(frozen=True)
class Backend:
    """An array library, and a precision."""

    library: Any
    precision: str = "float64"

    def __str__(self):
        return f"{self.library.__name__}-{self.precision}"

    @property
    def dtype(self):
        return getattr(self.library, self.precision)

    @property
    def tol(self):
        """How closely results agree with those of NumPy in double precision."""
        return 1e-10 if self.precision == "float64" else 1e-3

    def asarray(self, values):
        """Numbers as an array of the library."""
        return self.library.asarray(np.asarray(values), dtype=self.dtype)

    def owns(self, value):
        return isinstance(value, type(self.library.asarray(0.0)))

    def assert_own(self, array):
        """The array is the library's, in its precision, where X was."""
        example = self.asarray(0.0)
        assert type(array) is type(example)
        assert array.dtype == example.dtype
        assert device(array) == device(example)

    def assert_same(self, found, expected):
        """The array is the library's own, and has the values that NumPy found."""
        self.assert_own(found)
        expected = np.asarray(expected)
        # where all are zero, what they are made of is about one
        size = np.abs(expected[np.isfinite(expected)]).max(initial=0.0) or 1.0
        np.testing.assert_allclose(to_numpy(found), expected, rtol=0, atol=self.tol * size)

    # what a test sees of the package

    def hand_in(self, value):
        """Return what a test hands in as the package is to get it."""
        if self == NUMPY:
            return value
        if isinstance(value, Seen):
            return value.inner
        if isinstance(value, np.ndarray) and value.dtype.kind == "f":
            return self.asarray(value)
        if isinstance(value, types.FunctionType) and not _is_ours(value):

            @functools.wraps(value)
            def of_the_test(*args):
                return self.hand_in(value(*self.read(args)))

            return of_the_test
        return _within(value, self.hand_in)

    def read(self, value):
        """Return what the package returned as a test sees it."""
        if self == NUMPY:
            return value
        if self.owns(value):
            if value.dtype in (self.library.float32, self.library.float64):
                self.assert_own(value)
            return to_numpy(value)
        if _is_ours(value) and not isinstance(value, list):
            return Seen(value, self)
        if hasattr(value, "__wrapped__"):  # a function that the test handed in
            return value.__wrapped__
        if isinstance(value, types.GeneratorType):
            return map(self.read, value)
        return _within(value, self.read)


NUMPY = Backend(np)
BACKENDS = [NUMPY, Backend(torch), Backend(array_api_strict)]
#: What is compared with NumPy in double precision.
OTHERS = [
    backend
    for library in (np, torch, array_api_strict)
    for precision in ("float64", "float32")
    if (backend := Backend(library, precision)) != NUMPY
]


def _is_ours(value):
    if isinstance(value, type) and issubclass(value, Exception):
        return False
    return str(getattr(value, "__module__", "")).startswith("steinpath.")


def _within(value, function):
    """Apply a function to all that a container holds."""
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(function, value))
    if isinstance(value, list):
        return [*map(function, value)]
    if isinstance(value, tuple):
        return tuple(map(function, value))
    if isinstance(value, dict):
        return {key: function(each) for key, each in value.items()}
    return value


class Seen:
    """Something of the package that works on another library than NumPy, as a test sees it."""

    def __init__(self, inner, backend):
        self.inner, self.backend = inner, backend

    def __getattr__(self, name):
        return self.backend.read(getattr(self.inner, name))

    def __getitem__(self, key):
        return self.backend.read(self.inner[key])

    def __call__(self, *args, **options):
        args, options = self.backend.hand_in((args, options))
        return self.backend.read(self.inner(*args, **options))

    def __array__(self, dtype=None, copy=None):
        return np.array(self.inner, dtype=dtype, copy=copy)

    def __eq__(self, other):
        return self.inner == self.backend.hand_in(other)

    __hash__ = None

    def __repr__(self):
        return repr(self.inner)


# ----- The backend of the test that is running -----

_running = NUMPY


@pytest.fixture
def backend(request):
    """The backend of a test that runs on several."""
    global _running
    _running = request.param
    yield _running
    _running = NUMPY


def everywhere(test=None, *, every=1):
    """Run a test on all backends: on others than NumPy one in ``every`` cases, a few at most."""
    if test is None:
        return functools.partial(everywhere, every=every)
    on_all = pytest.mark.parametrize("backend", BACKENDS, indirect=True, ids=str)
    return pytest.mark.every(every)(on_all(pytest.mark.usefixtures("backend")(test)))


def seen(value):
    """Return something of the package as the running test sees it."""
    return _running.read(value)


class _Package:
    def __getattr__(self, name):
        return seen(getattr(steinpath, name))


#: The package.
sp = _Package()


def on_backend(function):
    """Return a function of the package that runs on the backend of the test."""

    @functools.wraps(function, updated=())
    def call(*args, **options):
        return seen(function)(*args, **options)

    return call


def skip_frames_without_names(frame):
    """Skip a test if scikit-learn is too old to read the column names of frames of this library."""
    from sklearn.utils.validation import _get_feature_names

    if _get_feature_names(frame) is None:
        pytest.skip("this scikit-learn does not read the column names of this polars")
