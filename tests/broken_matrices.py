"""Sparse matrices of every format that are broken in every way; run as a program, it uses them all.

SciPy trusts the indices of a matrix, so that a mistake here may end the process. That is why
`test_broken_matrices.py` runs this in a process of its own.
"""

import json
import sys
import warnings

import numpy as np
from scipy import sparse

FAR = 10**6
KINDS = ("array", "matrix")
USES = ("run", "fit", "predict")
#: Ways to break a matrix, by their names: what to do to it, and what the error says.
BREAKS = {}


def sound(name, kind="array"):
    """A matrix of 30 rows and 4 columns; each row has an entry in the first two."""
    X = np.random.default_rng(0).integers(1, 9, (30, 4)) * 1.0
    X[::3, 2] = 0
    return getattr(sparse, f"{name}_{kind}")(X)


def broken(name, message, **formats):
    """Add a way to break matrices of some formats."""
    for each, change in formats.items():
        BREAKS[f"{each}: {name}"] = (each, change, message)


def put(attribute, where, value):
    """Change one entry of an array in place."""
    return lambda X: getattr(X, attribute).__setitem__(where, value)


def replace(attribute, function):
    """Put another array in place of one."""
    return lambda X: setattr(X, attribute, function(getattr(X, attribute)))


def each(*formats):
    """The same for several formats."""
    return lambda change: dict.fromkeys(formats, change)


compressed, with_data = each("csr", "csc", "bsr"), each("csr", "csc", "bsr", "coo", "dia")
INTEGERS = "indices must be integers"

broken("index too large", "must be <", **compressed(put("indices", 0, FAR)))
broken("index negative", "must be >= 0", **compressed(put("indices", 0, -FAR)))
broken("index not an integer", INTEGERS, **compressed(replace("indices", lambda a: a + 0.5)))
broken("too few indices", "the same size", **compressed(replace("indices", lambda a: a[:1])))
broken("indices in two axes", "1-D", **compressed(replace("indices", lambda a: a[None])))
broken("too few entries", "the same size", **compressed(replace("data", lambda a: a[:1])))
broken("last pointer too large", "Last value of index", **compressed(put("indptr", -1, FAR)))
broken("first pointer not 0", "start with 0", **compressed(put("indptr", 0, 1)))
broken("pointers fall", "non-decreasing", **compressed(put("indptr", 1, FAR)))
broken("pointer negative", "non-decreasing", **compressed(put("indptr", 1, -FAR)))
broken("pointer not an integer", INTEGERS, **compressed(replace("indptr", lambda a: a + 0.5)))
broken("too few pointers", "index pointer size", **compressed(replace("indptr", lambda a: a[:-2])))
broken("no pointers", "index", **compressed(replace("indptr", lambda a: a[:0])))


def without_entries(X):
    X.indices, X.data, X.indptr[:] = X.indices[:0], X.data[:0], 0
    X.indptr[1] = FAR


broken("pointers fall, no entries", "non-decreasing", **compressed(without_entries))


broken("shape too small", "must be <", csr=lambda X: setattr(X, "_shape", (30, 2)))
broken("shape too small", "must be <", csc=lambda X: setattr(X, "_shape", (10, 4)))

broken(
    "row too large",
    "exceeds",
    coo=put("row", 0, FAR),
    dok=lambda X: X._dict.update({(FAR, 0): 1.0}),
)
broken(
    "row negative",
    "negative",
    coo=put("row", 0, -FAR),
    dok=lambda X: X._dict.update({(-3, 0): 1.0}),
)
broken(
    "column too large",
    "exceeds",
    coo=put("col", 0, FAR),
    dok=lambda X: X._dict.update({(0, 4): 1.0}),
)
broken(
    "column negative",
    "negative",
    coo=put("col", 0, -1),
    dok=lambda X: X._dict.update({(0, -1): 1.0}),
)
broken("too few entries", "same length", coo=replace("data", lambda a: a[:3]))
broken("too few rows", "same length", coo=replace("coords", lambda a: (a[0][:3], a[1])))
broken("three axes", "number of index arrays", coo=replace("coords", lambda a: (*a, a[0])))
broken("one axis", "number of index arrays", coo=replace("coords", lambda a: a[:1]))
broken("rows in two axes", "same length", coo=replace("coords", lambda a: (a[0][None], a[1][None])))
broken("row not an integer", INTEGERS, coo=replace("coords", lambda a: (a[0] + 0.5, a[1])))
broken("row not an integer", INTEGERS, dok=lambda X: X._dict.update({(0.5, 0): 1.0}))
broken("row a text", INTEGERS, dok=lambda X: X._dict.update({("a", 0): 1.0}))
broken("key of three", "broken", dok=lambda X: X._dict.update({(0, 0, 0): 1.0}))
broken("key of one", "broken", dok=lambda X: X._dict.update({7: 1.0}))


def first_row(columns, values):
    """Put a row of lists in place of the first."""

    def change(X):
        X.rows[0], X.data[0] = columns, values

    return {"lil": change}


broken("column too large", "must be <", **first_row([FAR], [1.0]))
broken("column negative", "must be >= 0", **first_row([-FAR], [1.0]))
broken("columns not sorted", "must be sorted", **first_row([3, 1], [1.0, 2.0]))
broken("columns not different", "must be sorted", **first_row([1, 1], [1.0, 2.0]))
broken("column not an integer", INTEGERS, **first_row([0.5], [1.0]))
broken("column a text", INTEGERS, **first_row(["a"], [1.0]))
broken("too few entries", "the same lengths", **first_row([0, 1, 2], [1.0]))
broken("too many entries", "the same lengths", **first_row([0], [1.0, 2.0, 3.0]))
broken("a row that is no list", "no len", **first_row(None, [1.0]))
broken("entries that are no list", "not iterable", **first_row([0], None))
broken("too few lists", "the same lengths", lil=replace("rows", lambda a: a[:5]))
broken("too few lists of entries", "the same lengths", lil=replace("data", lambda a: a[:5]))


def every_list_twice(X):
    X.rows, X.data = (np.concatenate([lists, lists]) for lists in (X.rows, X.data))


broken("too many lists", "index pointer size", lil=every_list_twice)


broken("offset not an integer", INTEGERS, dia=replace("offsets", lambda a: a + 0.5))
broken("offset twice", "duplicate", dia=replace("offsets", lambda a: np.r_[a[:1], a[:-1]]))
broken("too few offsets", "do not match data", dia=replace("offsets", lambda a: a[:2]))
broken("too few diagonals", "do not match data", dia=replace("data", lambda a: a[:2]))
broken("diagonals in one axis", "do not match data", dia=replace("data", np.ravel))

broken("dates", "got dtype datetime64", **with_data(replace("data", lambda a: a.astype("M8[D]"))))
broken("texts", "got dtype <U", **with_data(replace("data", lambda a: a.astype(str))))
broken("a mask", "X is a masked array", **with_data(replace("data", np.ma.masked_array)))
broken("half precision", "float16", **with_data(replace("data", lambda a: a.astype("f2"))))
broken(
    "a text", "got dtype <U", **first_row([0], ["a"]), dok=lambda X: X._dict.update({(0, 0): "a"})
)


def main():
    """Use every matrix, and print what came of it, a line for each."""
    import steinpath as sp

    warnings.simplefilter("ignore")
    y = np.arange(30.0) % 7
    model = sp.LADLasso(alpha=0.1, n_iter=2, select="last", method=None, tol=10.0)
    model.fit(sound("csr"), y)
    uses = {
        "run": lambda X: sp.run(X, y, sp.LAD(), sp.Lasso(0.1), n_iter=2),
        "fit": lambda X: model.fit(X, y),
        "predict": model.predict,
    }
    for name, (kind_of_matrix, change, _) in BREAKS.items():
        for kind in KINDS:
            for use in USES:
                X = sound(kind_of_matrix, kind)
                change(X)
                try:
                    outcome = f"no error, but {uses[use](X)}"
                except (ValueError, TypeError) as error:
                    outcome = str(error)
                print(json.dumps([name, kind, use, outcome]), flush=True)


if __name__ == "__main__":
    sys.exit(main())
