"""A table of numbers, dates and categories as a matrix."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, combinations
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils._set_output import _get_output_config
from sklearn.utils.validation import check_is_fitted

from steinpath._support import cells
from steinpath._support.cells import ReadColumn, TextFormat
from steinpath._support.entries import checked, entries, require
from steinpath._support.messages import (
    DataError,
    Message,
    Remark,
    Remedy,
    as_notes,
    counted,
    joined,
    refuse_gaps,
    refuse_unknown,
    with_closest,
)
from steinpath._support.validation import check_choice, check_count, warn
from steinpath.estimators import _columns as columns
from steinpath.estimators._basis import LEVELS, MOST_PRODUCTS, Basis, Terms, multiplied
from steinpath.estimators._columns import OTHER, Column, ColumnFit

#: Columns that are summarised.
MOST_SUMMARIES = 1000
# Knots of all columns at most, and of each column at least.
_MOST_KNOTS, _FEWEST_KNOTS = 1200, 4
# Parameters that are lists.
_LISTS = ("categories", "drop", "keep", "na")


@dataclass(eq=False, repr=False, kw_only=True)
class TableEncoder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Encode a data frame with numbers, dates, categories and missing values as a matrix.

    Numbers are features as they are, also where they are written as text; dates are days since
    1970. A column of two levels is one feature; one of more levels has a feature for each level,
    and rare levels are merged as "(other)". Constant columns, identifiers such as row numbers, and
    texts that are nearly all distinct are dropped, with a note.

    Parameters
    ----------
    categories : sequence of str, default=()
        Columns to treat as categorical, such as numeric codes.
    drop : sequence of str, default=()
        Columns to drop.
    keep : sequence of str, default=()
        Columns to use although they look like identifiers.
    missing : {"impute", "error"}, default="impute"
        "impute": medians replace missing numbers, also in new rows, and columns of numbers with
        missing values in `fit` get an indicator feature "NAME (missing)"; missing values are a
        level "(missing)" of a category with three or more of them in `fit`, and else the most
        frequent level replaces them. "error": missing values are an error.
    decimal : {".", ","}, optional
        Decimal separator of numbers that are written as text; a point by default.
    thousands : {",", ".", "'", " "}, optional
        Thousands separator of numbers that are written as text; none by default.
    na : sequence of str, default=()
        Texts that mean a missing value, in addition to "", "NA", "NaN" and similar ones.
    date_format : str, optional
        Format of dates that are written as text, as for `datetime.datetime.strptime`, in addition
        to ISO 8601.
    curves : bool or "auto", default=False
        Whether smooth functions of numbers and dates are features as well: splines with knots at
        quantiles, which are linear beyond the data. They are uncorrelated functions with variance
        1, the smoothest first. Those of hours, months and weekdays, and of dates, are periodic.
        With "auto", steinpath's estimators use them if they reduce the estimated error, with at
        least 40 rows and more rows than other features.
    products : bool, "auto" or sequence of pairs of str, default=False
        Whether products of the features of two columns are features as well: of all columns, or of
        the given pairs. With "auto", steinpath's estimators select products by their correlation
        with y, again in each fold, and use them if they reduce the estimated error.
    knots : int, default=8
        Number of knots of each curve; fewer, but at least four, if there would be more than 1,200
        in all columns.
    degree : int, default=1
        Degree of the splines; 1 for piecewise linear functions. Those of hours, months and years
        are cubic.

    Attributes
    ----------
    columns_ : tuple of Column
        The columns that become features, with `name`, `kind` ("number", "date", "binary" or
        "category"), `levels`, `fill`, `sign` and `indicator`.
    notes_ : tuple of str
        What was done to the data: columns dropped, signs removed, values imputed.
    summary_ : tuple of ColumnSummary
        Name, kind, detail, number of missing values and of features of the first 1,000 columns.
    reference_features_ : list of int
        Index of the feature of the most frequent level of each category.
    feature_names_in_ : ndarray of str
        All columns seen in `fit`.
    n_features_in_ : int
        Number of these columns.

    Notes
    -----
    Data frames are read by pyarrow (``pip install 'steinpath[files]'``). Currency and percent signs
    are removed: "5%" is 5. New rows must be written alike: a column that had percent signs in `fit`
    must have them in `transform`. Unknown levels are encoded as "(other)", or as zeros.

    Examples
    --------
    >>> import steinpath as sp
    >>> flats = {"area": ["50", "72", None, "64"], "town": ["Ulm", "Bonn", "Ulm", "Ulm"]}
    >>> encoder = sp.TableEncoder()
    >>> encoder.fit_transform(flats)
    array([[50.,  0.,  1.],
           [72.,  0.,  0.],
           [64.,  1.,  1.],
           [64.,  0.,  1.]])
    >>> encoder.get_feature_names_out()
    array(['area', 'area (missing)', 'town=Ulm'], dtype=object)
    >>> print(*encoder.notes_)
    1 missing value in 1 column was imputed (medians; a level "(missing)" or the most frequent one)
    """

    categories: Sequence[str] = ()
    drop: Sequence[str] = ()
    keep: Sequence[str] = ()
    missing: str = "impute"
    decimal: str | None = None
    thousands: str | None = None
    na: Sequence[str] = ()
    date_format: str | None = None
    curves: bool | str = False
    products: Any = False
    knots: int = 8
    degree: int = 1

    #: Kinds of remarks that notes leave out, because it is known how rows depend on each other.
    unsaid = tuple[str, ...]()

    def fit(self, X: Any, y: Any = None) -> TableEncoder:
        """Learn how columns become features.

        Parameters
        ----------
        X : DataFrame, pyarrow.Table or mapping of columns by name
            Of pandas, polars or another library with the Arrow interface. Columns hold numbers,
            dates, strings, categories or booleans.
        y : ignored
            For compatibility with pipelines.

        Returns
        -------
        self
            The fitted encoder.
        """
        return self.fit_columns([fit for fit, _ in self.column_fits(self._checked(X))])

    def fit_transform(self, X: Any, y: Any = None, rows: Any = None, **params: Any) -> np.ndarray:
        """Fit, and return the features of the same rows.

        Parameters
        ----------
        X : DataFrame, pyarrow.Table or mapping of columns by name
            As for `fit`.
        y : ignored
            For compatibility with pipelines.
        rows : array-like of int, optional
            Their numbers in a file, from 0, if some of its rows are left out or reordered.
        **params : ignored
            For compatibility with scikit-learn.

        Returns
        -------
        ndarray of shape (n, p)
            The features.
        """
        fits, contents = zip(*self.column_fits(self._checked(X), rows=rows), strict=True)
        self.fit_columns(fits)
        used = [read for fit, read in zip(fits, contents, strict=True) if fit.summary.features]
        return self._encode(zip(self.columns_, used, strict=True))[0]

    def transform(self, X: Any) -> np.ndarray:
        """Return the features of rows.

        Parameters
        ----------
        X : DataFrame, pyarrow.Table or mapping of columns by name
            With all columns that became features, in any order; it may have others.

        Returns
        -------
        ndarray of shape (n, p)
            The features. Levels that were not seen in `fit` cause a warning.
        """
        check_is_fitted(self)
        table = _filled_table(X)
        known = set(table.column_names)
        if lacking := [column.name for column in self.columns_ if column.name not in known]:
            said = f"{counted(len(lacking), 'column')} of the model "
            said += "is missing" if len(lacking) == 1 else "are missing"
            raise DataError(f"{said}: {with_closest(lacking, known)}")
        features, notes = self.encode(table)
        for note in notes:
            warn(note)
        return features

    def encode(self, table: Any) -> tuple[np.ndarray, list[Message]]:
        """Return the features of rows of a `pyarrow.Table`, and notes instead of warnings."""
        how = self._format
        return self._encode(
            (column, _read_new(column, table.column(column.name), how)) for column in self.columns_
        )

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the names of the features, made unique.

        Parameters
        ----------
        input_features : ignored
            For compatibility with scikit-learn.

        Returns
        -------
        ndarray of str of shape (p,)
            Their names.
        """
        check_is_fitted(self)
        names: dict[str, None] = {}
        given = [feature for column in self.columns_ for feature in column.features]
        for feature in given if self._terms is None else self._terms.names(given):
            name, k = feature, 1
            while name in names:
                k += 1
                name = f"{feature} ({k})"
            names[name] = None
        return np.array(list(names), object)

    @property
    def reference_features_(self) -> list[int]:
        """Index of the feature of the most frequent level of each category."""
        starts = zip(self.columns_, self._ends, strict=False)
        return [start for column, start in starts if column.kind == "category"]

    @property
    def _ends(self) -> list[int]:
        return [*accumulate((len(column.features) for column in self.columns_), initial=0)]

    def check_names(self, names: Collection[str]) -> None:
        """Refuse unknown columns, and those to be both dropped and kept."""
        categories, drop, keep = map(self._texts, ("categories", "drop", "keep"))
        refuse_unknown(names, (*drop, *categories, *keep))
        if both := sorted({*drop} & {*keep}):
            raise DataError(f"{both[0]!r} cannot be both dropped and kept")

    def _checked(self, X: Any) -> Any:
        table = _filled_table(X)
        self.check_names(table.column_names)
        return table

    def column_fits(
        self, table: Any, first: str | None = None, rows: Any = None
    ) -> Iterator[tuple[ColumnFit, ReadColumn | None]]:
        """Yield how each column of a `pyarrow.Table` becomes features, and its contents if read.

        `first` is the first column of the whole table; `rows` are as for `fit_transform`.
        """
        impute = check_choice("missing", self.missing, ("impute", "error")) == "impute"
        categories, drop, keep = map(self._texts, ("categories", "drop", "keep"))
        curves = None
        if self._checked_basis()[0]:
            room = max(_MOST_KNOTS // len(table.column_names), _FEWEST_KNOTS)
            curves = min(self.knots, room), self.degree
        first = first or table.column_names[0]
        for name, column in zip(table.column_names, table.columns, strict=True):
            if name in drop:  # only its missing values are counted
                gaps = np.asarray(column.is_null(nan_is_null=True))
                if cells.is_text(column.type):
                    gaps = cells.read_column(name, column, self._format, as_labels=True).gaps
                yield columns.drop_column(name, gaps), None
                continue
            category = name in categories or cells.is_dictionary(column.type)
            read = cells.read_column(name, column, self._format, category or None)
            kept = name in (*categories, *keep)
            how = impute, category, kept, name == first, rows, curves
            yield columns.fit_column(name, read, *how), read

    def fit_columns(self, fits: Sequence[ColumnFit]) -> TableEncoder:
        """Fit from how each column becomes features."""
        used = [fit.column for fit in fits if isinstance(fit.column, Column)]
        dropped = [fit.column for fit in fits if isinstance(fit.column, Remark) and fit.column.one]
        said = "in column {name!r}, {value!r:.60} is a negative number"
        negative = [(fit.summary.name, fit.negative) for fit in fits if fit.negative]
        notes = [Message(said, name=name, value=value) for name, value in negative]
        notes += as_notes(columns.doubts(fits)) + as_notes(dropped)
        remarks = (remark for fit in fits for remark in fit.remarks)
        notes += as_notes(remark for remark in remarks if remark.key not in self.unsaid)
        if not used:
            raise DataError(joined("; ", ["there is no column to predict from", *notes]))
        if gaps := [fit for fit in fits if fit.summary.features and fit.summary.missing]:
            notes += self._missing(gaps)
        names, summary = zip(*((fit.summary.name, fit.summary) for fit in fits), strict=True)
        return self._fitted(used, names, notes, summary[:MOST_SUMMARIES])

    def _checked_basis(self) -> tuple[bool, tuple[str, ...]]:
        """Return whether there are curves, and the levels from which estimators select."""
        for name in ("curves", "products"):
            given = getattr(self, name)
            pairs = name == "products" and not isinstance(given, str) and _are_pairs(given)
            if not (
                isinstance(given, bool) or pairs or (isinstance(given, str) and given == "auto")
            ):
                such = ", or pairs of column names" * (name == "products")
                raise DataError(f"{name} must be True, False or 'auto'{such}; got {given!r:.60}")
        automatic = [name for name in ("curves", "products") if getattr(self, name) == "auto"]
        if automatic and _get_output_config("transform", self)["dense"] != "default":
            raise DataError(
                f"{automatic[0]}='auto' requires an array, from which estimators know the column "
                "of each feature; use set_output(transform='default')"
            )
        if automatic == ["curves"] and self.products is not False:
            raise DataError("with curves='auto', products must be 'auto' or False")
        check_count("knots", self.knots, low=3, high=100)
        check_count("degree", self.degree, low=1, high=5)
        levels = [LEVELS[0]] if self.curves is not True else [LEVELS[1]]
        levels += [LEVELS[1]] * (self.curves == "auto")
        with_products = LEVELS[3] if self.curves else LEVELS[2]
        levels += [with_products] * isinstance(self.products, str)
        return bool(self.curves), tuple(levels) if len(levels) > 1 else ()

    def _missing(self, gaps: list[ColumnFit]) -> list[Message]:
        """Return a note about missing values in the fit, or refuse them."""
        how = f'(medians; a level "{columns.MISSING}" or the most frequent one)'
        if self.missing == "impute":
            total = sum(fit.summary.missing for fit in gaps)
            values = f"{counted(total, 'missing value')} in {counted(len(gaps), 'column')}"
            return [Message(f"{values} {'was' if total == 1 else 'were'} imputed {how}")]
        counts = {fit.summary.name: (fit.summary.missing, fit.first_gap) for fit in gaps}
        last = gaps[0].rows - 1
        whole_row = len(counts) > 1 and set(counts.values()) == {(1, last)}
        advice = f"use {{remedy}} to impute them {how}"
        remedy = Remedy("missing", "impute")
        refuse_gaps(counts, Message(advice, remedy=remedy), last if whole_row else None)
        return []

    def to_json(self) -> dict[str, Any]:
        """Return the fitted state as plain data, for `from_json`; without notes and summary."""
        check_is_fitted(self)
        lists = {name: self._texts(name) for name in _LISTS}
        entries = [
            {
                **column._asdict(),
                "levels": list(column.levels),
                "curves": [curve._asdict() for curve in column.curves],
            }
            for column in self.columns_
        ]
        names = self.feature_names_in_.tolist()
        return {"columns": entries, "names": names, "parameters": self.get_params() | lists}

    @classmethod
    def from_json(cls, state: Any) -> TableEncoder:
        """Return a fitted encoder from plain data; raise `DataError` if it is not valid.

        Columns may be those of a model file of version 0.1.0; other entries may be left out.
        """
        state = {"names": None, "parameters": {}} | checked(dict, "encoder", state)
        state = entries("encoder", state, ("columns", "names", "parameters"))
        listed, given = checked((dict, None), "columns", state["columns"]), state["parameters"]
        require(listed, "columns", listed, "are none")
        used = [columns.column_from_json(entry) for entry in listed]
        own = [column.name for column in used]
        names = own if state["names"] is None else checked((str, None), "names", state["names"])
        require(all(map(str.strip, names)), "names", names, "have a blank one")
        refuse_unknown(cells.check_names(names), cells.check_names(own))
        right = set(checked(dict, "parameters", given)) <= set(cls().get_params())
        require(right, "parameters", [*given], "are not those of TableEncoder")
        for name in given.keys() & {*_LISTS}:
            checked((str, None), name, given[name])
        encoder = cls(**given)
        require(encoder.missing in ("impute", "error"), "missing", encoder.missing)
        assert encoder._format  # checked
        try:
            encoder._checked_basis()
        except (TypeError, ValueError) as error:
            raise DataError(f"its 'parameters' are not valid: {error}") from None
        return encoder._fitted(used, names, (), ())

    def _fitted(self, used: Any, names: Any, notes: Any, summary: Any) -> TableEncoder:
        self.columns_, self.notes_, self.summary_ = tuple(used), tuple(notes), tuple(summary)
        self.feature_names_in_, self.n_features_in_ = np.array([*names], object), len(names)
        self._terms = self._products()
        return self

    def _layout(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the column of each feature, its order among them, and its kind; see `Basis`."""
        column, order, kinds = list[int](), list[int](), list[str]()
        for k, each in enumerate(self.columns_):
            count = len(each.features)
            column += [k] * count
            order += range(count - each.indicator)
            own = ["number"] * each.holds_numbers + ["curve"] * each.n_curves
            kinds += own + ["level"] * (count - len(own))
            order += [0] * each.indicator
        return np.array(column), np.array(order), np.array(kinds)

    def _products(self) -> Terms | None:
        """Return the features and products of pairs of columns, if all are wanted."""
        if not self.products or isinstance(self.products, str):
            return None
        column, order, kinds = self._layout()
        wanted = None
        if not isinstance(self.products, bool):
            places = {each.name: k for k, each in enumerate(self.columns_)}
            refuse_unknown(places, [name for pair in self.products for name in pair])
            wanted = {frozenset(places[name] for name in pair) for pair in self.products}
        pairs = [
            (i, j)
            for i, j in combinations(range(len(column)), 2)
            if column[i] != column[j]
            and multiplied(order, kinds, i, j)
            and (wanted is None or {column[i], column[j]} in wanted)
        ]
        if len(pairs) > MOST_PRODUCTS:
            said = f"all products would be {len(pairs):,} features, but the limit is "
            raise DataError(
                f"{said}{MOST_PRODUCTS:,}; use products='auto', or name pairs of columns"
            )
        centre = np.zeros(len(column))
        for start, each in zip(self._ends, self.columns_, strict=False):
            if each.holds_numbers and each.fill is not None:
                centre[start] = each.fill
        return Terms.of(len(column), pairs=pairs, centre=centre)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.string = tags.input_tags.categorical = True
        tags.input_tags.two_d_array = False
        return tags

    @property
    def _format(self) -> TextFormat:
        return TextFormat(self.decimal, self.thousands, tuple(self._texts("na")), self.date_format)

    def _texts(self, parameter: str) -> list[str]:
        """Return a parameter that is a sequence of names or texts."""
        given = getattr(self, parameter)
        right = isinstance(given, Collection) and not isinstance(given, str)
        if not right or (parameter == "na" and not all(isinstance(text, str) for text in given)):
            raise DataError(f"{parameter} must be a list of strings, got {given!r:.60}")
        return [str(text) for text in given]

    def _encode(
        self, used: Iterable[tuple[Column, ReadColumn]]
    ) -> tuple[np.ndarray, list[Message]]:
        """Return the features of rows, and notes about unknown levels."""
        ends = self._ends
        X, gaps, remarks = np.empty((0, ends[-1])), dict[str, tuple[int, int]](), list[Remark]()
        for (column, read), start, stop in zip(used, ends, ends[1:], strict=False):
            if not start:
                X = np.empty((len(read.data), ends[-1]))
            unknown = column.encode(read, X[:, start:stop])
            if column.fill is None and read.gaps.any():
                gaps[column.name] = int(read.gaps.sum()), int(read.gaps.argmax())
            if unknown.any():
                remarks.append(_remark_unknown(column, read, unknown))
        advice = "fill them in, or fit the model with {remedy}"
        refuse_gaps(gaps, Message(advice, remedy=Remedy("missing", "impute")))
        if self._terms is not None:
            X = self._terms(X)
        elif levels := self._checked_basis()[1]:
            X = Basis.of(X, *self._layout(), levels)
        return X, as_notes(remarks)


def _are_pairs(given: Any) -> bool:
    """Whether these are pairs of distinct names."""
    return isinstance(given, Sequence) and all(
        isinstance(pair, Sequence)
        and not isinstance(pair, str)
        and len(pair) == len(set(pair)) == 2
        and all(isinstance(name, str) for name in pair)
        for pair in given
    )


def _filled_table(X: Any) -> Any:
    table = cells.as_arrow(X)
    for what, count in (("columns", table.num_columns), ("rows", table.num_rows)):
        if not count:
            raise DataError(f"the table has no {what}")
    return table


def _read_new(column: Column, values: Any, how: TextFormat) -> ReadColumn:
    """Return the values of a column of new rows, of the type that it had in the fit."""
    name, sign = column.name, column.sign
    read = cells.read_column(name, values, how, as_labels=not column.holds_numbers)
    if not column.holds_numbers or not read.kind:
        return read
    if read.kind != ("M" if column.kind == "date" else "f"):
        read.refuse_doubtful()
        said = f"column {{name!r}} must hold {column.kind}s, as in the fit, but has {{other}}"
        raise DataError(Message(said, name=name, other=read.placed(read.first_other(column.kind))))
    if sign is not None and not read.gaps.all() and not columns.comparable(sign, read.sign):
        row = int(read.gaps.argmin())
        said = "column {name!r} holds numbers {fit} in the fit, but has {value!r:.60} in {place}, "
        said += "{new}; write them as in the fit"
        fit, new = (f"with {mark!r}" if mark else "without a sign" for mark in (sign, read.sign))
        value = str(values[row].as_py())
        raise DataError(Message(said, row=row, name=name, fit=fit, new=new, value=value))
    return read


def _remark_unknown(column: Column, read: ReadColumn, unknown: np.ndarray) -> Remark:
    """Return a remark about values without a level, and how they are treated."""
    rows = np.flatnonzero(np.append(unknown, False)[read.data])
    level = repr(column.levels[0]) if column.kind == "binary" else "none of its levels"
    level = repr(OTHER) if OTHER in column.levels else level
    about = {"value": read.text(int(rows[0])), "row": int(rows[0]), "level": level}
    count = counted(len(rows), "value")
    about["were"] = "was" if len(rows) == 1 else "were"
    key = "rare or unknown levels" if OTHER in column.levels else "unknown levels"
    return columns.remark(column.name, key, count=count, **about)
