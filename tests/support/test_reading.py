"""Whatever X, y and weights are in, they are read as the numbers that they hold, or refused."""

import datetime as dt
from decimal import Decimal

import dask.array
import dask.dataframe
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from scipy import sparse

import steinpath as sp
from steinpath._support.validation import read_array

pytestmark = [
    pytest.mark.filterwarnings("ignore:X has feature names:UserWarning"),
    # of PyTorch, whose nested, masked, quantized and sparse tensors are new or on their way out
    pytest.mark.filterwarnings("ignore:.*[Nn]ested tensor:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*MaskedTensor:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*quantiz"),
    pytest.mark.filterwarnings("ignore:Sparse .* tensor support is in beta:UserWarning"),
]

# Whole numbers, which every type holds exactly; y and the weights are positive.
RNG = np.random.default_rng(0)
X = RNG.integers(-8, 9, (12, 3)) * 1.0
Y = RNG.integers(1, 9, 12) * 1.0
NAMES = list("abc")


def model():
    return sp.LADLasso(
        alpha=0.05,
        n_iter=3,
        select="last",
        tol=10.0,
        method=None,
        standardize=False,
        fit_intercept=False,
    )


FITTED = model().fit(X, Y)


# Each takes X, or what is in its place, and likewise y and weights.


def run(X=X, y=Y, sample_weight=None):
    path = sp.run(X, y, sp.LAD(), sp.Lasso(0.1), n_iter=3, sample_weight=sample_weight)
    return np.asarray(path.coef[-1, :])


def run_batch(X=X, y=Y):
    return sp.run_batch(X, y, sp.LAD(), sp.Lasso(0.1), n_iter=3)


def lam_max(X=X, y=Y):
    return sp.lam_max(X, y, sp.LAD(), sp.Lasso(1.0))


def tune(X=X, y=Y):
    return sp.tune(X, y, sp.LAD(), sp.Lasso, lams=2, n_iter=3)


def fit(X=X, y=Y, sample_weight=None):
    return model().fit(X, y, sample_weight).coef_


def predict(X=X):
    return FITTED.predict(X)


def score(X=X, y=Y, sample_weight=None):
    return FITTED.score(X, y, sample_weight)


USES = {
    "X": (run, run_batch, lam_max, tune, fit, predict, score),
    "y": (run, run_batch, lam_max, tune, fit, score),
    "sample_weight": (run, fit, score),
}
VALUES = {"X": X, "y": Y, "sample_weight": Y}
ARGUMENT = pytest.mark.parametrize("argument", USES)


class OnlyAnArray:
    """Something of which nothing is known but that it can be made an array."""

    def __init__(self, values):
        self.values = values

    def __array__(self, dtype=None, copy=None):
        return np.array(self.values, dtype)


def frame(values):
    """A data frame of pandas, or a series."""
    return pd.DataFrame(values, columns=NAMES) if values.ndim == 2 else pd.Series(values)


def polars(values):
    return pl.DataFrame(values, schema=NAMES) if values.ndim == 2 else pl.Series(values)


def arrow(values):
    if values.ndim == 1:
        return pa.array(values)
    return pa.table(dict(zip(NAMES, map(pa.array, values.T), strict=True)))


def objects(kind):
    """An array of Python's objects."""

    def made(values):
        result = np.empty(values.shape, dtype=object)
        result.flat = [kind(value) for value in values.flat]
        return result

    return made


def nested(kind):
    """Lists of such objects."""
    return lambda values: objects(kind)(values).tolist()


def read_only(values):
    values = values.copy()
    values.flags.writeable = False
    return values


def backwards(values):
    return np.ascontiguousarray(values[::-1])[::-1]


def negated(values):
    """A tensor that is to be negated whenever it is read."""
    tensor = torch.complex(torch.zeros(values.shape).double(), torch.asarray(-values))
    assert tensor.conj().imag.is_neg()
    return tensor.conj().imag


READ = {
    "list": lambda values: values.tolist(),
    "tuple": lambda values: tuple(map(tuple, values)) if values.ndim == 2 else tuple(values),
    "list of arrays": list,
    "__array__": OnlyAnArray,
    "float32": lambda values: values.astype("f4"),
    "big-endian": lambda values: values.astype(">f8"),
    "read-only": read_only,
    "backwards": backwards,
    "Fortran": np.asfortranarray,
    "every other": lambda values: np.repeat(values, 2, axis=0)[::2],
    "objects": objects(float),
    "Decimal": objects(Decimal),
    "pandas": frame,
    "pandas float32": lambda values: frame(values).astype("float32"),
    "pandas nullable": lambda values: frame(values).astype("Int64"),
    "pandas Sparse": lambda values: frame(values).astype(pd.SparseDtype("float", 0.0)),
    "pandas categories": lambda values: frame(values).astype("category"),
    "pandas of pyarrow": lambda values: frame(values).astype("double[pyarrow]"),
    "polars": polars,
    "polars Decimal": lambda values: polars(values.astype(int)).cast(pl.Decimal(10, 2)),
    "pyarrow": arrow,
    "torch": torch.asarray,
    "torch not contiguous": lambda values: torch.asarray(values.T.copy()).mT,
    "torch negated": negated,
    "list of tensors": lambda values: list(torch.asarray(values)),
}


def of_torch(values):
    return isinstance(values, torch.Tensor)


@ARGUMENT
@pytest.mark.parametrize("container", READ)
def test_numbers_in_any_container(container, argument):
    values = VALUES[argument]
    if values.ndim == 1 and container == "torch not contiguous":
        pytest.skip("a vector has no other order")
    held = READ[container](values)
    single = "float32" in container
    for use in USES[argument]:
        # tensors stay tensors, and do not mix with arrays
        if of_torch(held) and argument != "X" and use in (run, run_batch, lam_max, tune):
            continue
        if use is tune:
            continue  # as `run_batch`, and takes longer
        found, expected = use(**{argument: held}), use(**{argument: values})
        if use is run_batch:
            found, expected = np.asarray(found.coef), expected.coef
        rtol = 1e-5 if single else 1e-12
        np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol, err_msg=use.__name__)


def of_other_types():
    """Booleans, columns of several types, and integers beyond double precision, as numbers."""
    flags, large = X > 0, X.astype(int) + 2**60
    mixed = pd.DataFrame({"a": X[:, 0].astype(int), "b": flags[:, 1], "c": X[:, 2].astype("f4")})
    mixtures = mixed, pl.from_pandas(mixed), pa.Table.from_pandas(mixed)
    yield flags, flags, objects(bool)(flags), objects(np.bool_)(flags)
    yield flags, frame(flags).astype("boolean"), polars(flags), arrow(flags)
    yield np.column_stack([X[:, 0], flags[:, 1], X[:, 2]]), *mixtures
    yield large, large, large.tolist(), large.astype(np.uint64), objects(int)(large)


@pytest.mark.parametrize("use", [run, fit, predict])
def test_numbers_of_other_types(use):
    for numbers, *containers in of_other_types():
        for held in containers:
            np.testing.assert_allclose(use(X=held), use(X=numbers.astype(float)), rtol=1e-12)


@pytest.mark.parametrize("argument", ["y", "sample_weight"])
def test_sparse_vectors(argument):
    for use in USES[argument]:
        with pytest.raises(TypeError, match=f"{argument} must be dense, got a sparse matrix"):
            use(**{argument: sparse.csr_array(Y[:, None])})


@pytest.mark.parametrize(
    ("made", "dtype"),
    [
        (lambda X: X.astype("f2"), "float16"),
        (lambda X: X.astype(np.longdouble), np.dtype(np.longdouble)),
        (lambda X: torch.asarray(X).half(), "torch.float16"),
        (lambda X: torch.asarray(X).bfloat16(), "torch.bfloat16"),
    ],
    ids=["half", "extended", "torch half", "torch bfloat16"],
)
def test_other_precisions(made, dtype):
    """Functions compute in the precision of X, and estimators in double precision."""
    if dtype == np.dtype(float):
        pytest.skip("there is no extended precision here")
    for use in (run, run_batch, lam_max):
        with pytest.raises(TypeError, match=f"X has dtype {dtype}; use float32 or float64"):
            use(X=made(X))
    for use in (fit, predict):
        np.testing.assert_allclose(use(X=made(X)), use(), rtol=1e-12)


def test_estimators_compute_what_dask_has():
    for held in (dask.array.from_array(X), dask.dataframe.from_pandas(frame(X), npartitions=2)):
        for use in (fit, predict, score):
            np.testing.assert_allclose(use(X=held), use(), rtol=1e-12)
    for bad in (np.ma.masked_array(X, X > 3), X.astype("M8[D]")):
        for use in (fit, predict, score):
            with pytest.raises(TypeError, match=r"X is a masked array|X must hold real numbers"):
                use(X=dask.array.from_array(bad))


def dates(values):
    return values.astype("M8[D]")


def spans(values):
    return values.astype("m8[D]")


def first_column(change):
    """A frame of which one column is something else; a series of that."""

    def made(values):
        column = change(values if values.ndim == 1 else values[:, 0])
        return column if values.ndim == 1 else frame(values).assign(a=column)

    return made


def first_polars(dtype):
    def made(values):
        column = pl.Series("a", values.astype(int).tolist() if values.ndim == 1 else [*range(12)])
        column = column.cast(dtype)
        return column if values.ndim == 1 else polars(values).with_columns(column)

    return made


def first_arrow(dtype):
    def made(values):
        column = pa.array(range(12), pa.int64()).cast(dtype)
        return column if values.ndim == 1 else arrow(values).set_column(0, "a", column)

    return made


def some_missing(marker):
    """Objects of which the first is a mark."""

    def made(values):
        held = objects(float)(values)
        held.flat[0] = marker
        return held

    return made


def as_tensor(change):
    return lambda values: change(torch.asarray(values.copy()))


def nested_tensor(tensor):
    return torch.nested.nested_tensor(list(torch.atleast_2d(tensor)))


def masked_tensor(tensor):
    return torch.masked.masked_tensor(tensor, tensor > 0)


class Fails:
    def __array__(self, dtype=None, copy=None):
        raise RuntimeError("there is nothing")


MASKED = "{} is a masked array; fill or drop the masked entries first"
NOT_REAL = "{} must hold real numbers"
COLUMN = "(column 'a' of )?{} must hold real numbers"
TENSOR = r"{} is a torch tensor of layout torch.* and dtype .*; pass a dense tensor, such as {}"

REFUSED = {
    "masked": (lambda values: np.ma.masked_array(values, values > 3), MASKED),
    "masked, by rows": (lambda values: list(np.ma.masked_array(values, values > 3)), MASKED),
    "masked constant": (lambda values: some_missing(np.ma.masked)(values).tolist(), MASKED),
    "masked object": (some_missing(np.ma.masked), MASKED),
    "dates": (dates, NOT_REAL),
    "spans of time": (spans, NOT_REAL),
    "list of dates": (lambda values: list(dates(values)), NOT_REAL),
    "objects of dates": (lambda values: dates(values).astype(object), NOT_REAL),
    "datetime.timedelta": (nested(lambda value: dt.timedelta(value)), NOT_REAL),
    "texts": (lambda values: values.astype(str), NOT_REAL),
    "list of texts": (nested(str), NOT_REAL),
    "objects of texts": (objects(str), NOT_REAL),
    "bytes": (lambda values: values.astype("S"), NOT_REAL),
    "text": (lambda values: "12", NOT_REAL),
    "numbers and a text": (lambda values: some_missing("1")(values).tolist(), NOT_REAL),
    "objects of complex": (objects(complex), NOT_REAL),
    "structured": (lambda values: values.astype([("a", float)]), NOT_REAL),
    "a number too large": (some_missing(10**400), NOT_REAL),
    "mapping": (lambda values: {"a": values}, NOT_REAL),
    "ragged": (lambda values: [[1.0, 2.0], [3.0]], "{} cannot be read as an array"),
    "an array that fails": (lambda values: Fails(), "{} cannot be read as an array: there is"),
    "pandas texts": (first_column(lambda column: column.astype(str)), NOT_REAL),
    "pandas dates": (lambda values: frame(values).apply(pd.to_datetime), COLUMN),
    "pandas date": (first_column(pd.to_datetime), COLUMN),
    "pandas date with a zone": (first_column(lambda c: pd.to_datetime(c, utc=True)), COLUMN),
    "pandas span": (first_column(pd.to_timedelta), COLUMN),
    "pandas period": (first_column(lambda c: pd.period_range("2000", periods=len(c))), COLUMN),
    "pandas of pyarrow, time": (
        first_column(lambda c: pd.Series(dates(c)).astype("timestamp[us][pyarrow]")),
        COLUMN,
    ),
    "polars date": (first_polars(pl.Date), COLUMN),
    "polars datetime": (first_polars(pl.Datetime("us")), COLUMN),
    "polars duration": (first_polars(pl.Duration("us")), COLUMN),
    "polars time": (first_polars(pl.Time), COLUMN),
    "polars texts": (first_polars(pl.String), NOT_REAL),
    "polars lazy": (lambda values: pl.LazyFrame({"a": [1.0]}), r"{} is a lazy frame; pass {}.coll"),
    "pyarrow date": (first_arrow(pa.timestamp("us")), COLUMN),
    "pyarrow duration": (first_arrow(pa.duration("us")), COLUMN),
    "pyarrow texts": (first_arrow(pa.string()), NOT_REAL),
    "torch coo": (as_tensor(torch.Tensor.to_sparse), TENSOR),
    "torch csr": (as_tensor(lambda tensor: torch.atleast_2d(tensor).to_sparse_csr()), TENSOR),
    "torch meta": (as_tensor(lambda tensor: tensor.to("meta")), TENSOR),
    "torch nested": (as_tensor(nested_tensor), TENSOR),
    "torch float8": (as_tensor(lambda x: x.to(torch.float8_e4m3fn)), TENSOR),
    "torch with gradients": (
        as_tensor(torch.Tensor.requires_grad_),
        r"{} requires gradients, which are not supported; pass {}.detach\(\)",
    ),
    "torch masked": (as_tensor(masked_tensor), MASKED),
}


@ARGUMENT
@pytest.mark.parametrize("container", REFUSED)
def test_what_is_refused(container, argument):
    made, message = REFUSED[container]
    texts = set()
    for use in USES[argument]:
        with pytest.raises((TypeError, ValueError), match=message.replace("{}", argument)) as error:
            use(**{argument: made(VALUES[argument])})
        texts.add(str(error.value))
    assert len(texts) == 1


@pytest.mark.parametrize("container", [name for name in REFUSED if "date" in name])
def test_batches_of_frames(container):
    made, _ = REFUSED[container]
    with pytest.raises((TypeError, ValueError), match=r"X (must hold|cannot be read)"):
        run_batch(X=[made(X), made(X)], y=[Y, Y])


@ARGUMENT
@pytest.mark.parametrize(
    "made",
    [
        some_missing(None),
        lambda values: some_missing(None)(values).tolist(),
        some_missing(float("nan")),
        some_missing(pd.NA),
        lambda values: frame(values).mask(frame(values) > 3).astype("Float64"),
        lambda values: frame(values).mask(frame(values) > 3).astype("double[pyarrow]"),
        lambda values: frame(values > 3).astype("boolean").mask(frame(values) > 3),
        lambda values: pl.DataFrame(polars(values)).select(pl.all().replace(4.0, None)),
    ],
    ids=["None", "list", "NaN", "NA", "nullable", "pyarrow", "boolean", "polars"],
)
def test_missing_values(made, argument):
    if argument != "X" and isinstance(made(Y), pl.DataFrame):
        pytest.skip("a frame is not a vector")
    for use in USES[argument]:
        with pytest.raises(ValueError, match="NaN"):
            use(**{argument: made(VALUES[argument])})


@ARGUMENT
@pytest.mark.parametrize("made", [np.asarray, frame, torch.asarray], ids=["", "pandas", "torch"])
def test_complex_numbers(made, argument):
    for use in USES[argument]:
        with pytest.raises((TypeError, ValueError), match=r"must be real|Complex data not"):
            use(**{argument: made(VALUES[argument] + 1j)})


def test_nothing():
    for use in USES["X"]:
        with pytest.raises(TypeError, match="X must hold real numbers, got None"):
            use(X=None)
    for use in USES["y"]:
        with pytest.raises((TypeError, ValueError), match=r"got None|target y is None"):
            use(y=None)


@pytest.mark.parametrize("made", [REFUSED["masked"][0], dates], ids=["masked", "dates"])
def test_simulated_models_refuse_them_too(made):
    truth, bad = sp.simulate.LinearModel(np.ones(12)), made(Y)
    calls = {
        "mean": lambda: sp.simulate.LinearModel(np.ones(12), mean=bad),
        "coef": lambda: truth.risk(bad),
        "intercept": lambda: truth.risk(np.ones((12, 12)), intercept=bad),
    }
    for name, call in calls.items():
        with pytest.raises(TypeError, match=f"{name} (is a masked|must hold real numbers)"):
            call()


@pytest.mark.parametrize("name", ["compute", "toarray", "collect", "mask", "todense"])
def test_columns_may_have_the_names_of_methods(name):
    rng = np.random.default_rng(0)
    X, y = pd.DataFrame(rng.standard_normal((30, 2)), columns=["a", name]), rng.standard_normal(30)
    model = sp.LADLasso(alpha=0.1, select="last", method=None, tol=1e6, n_iter=5).fit(X, y)
    assert np.isfinite(model.predict(X)).all()
    sp.run(X, y, sp.LAD(), sp.Lasso(0.1), n_iter=2)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_columns_of_texts_are_named(library):
    frame = pytest.importorskip(library).DataFrame({"a": [1.0, 2.0], "town": ["x", "y"]})
    with pytest.raises(TypeError, match="of type str in column 'town'; encode texts as numbers"):
        read_array("X", frame)
    with pytest.raises(TypeError, match="of type str; encode texts as numbers"):
        read_array("X", np.array([[1.0, "x"]], object))
    with pytest.raises(TypeError, match=r"of type str$"):
        read_array("y", np.array(["a", "b"], object))
