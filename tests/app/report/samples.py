"""Contents of reports to try the page on: tiny, fitted to real data, and crowded."""

from functools import cache
from types import SimpleNamespace

import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.pipeline import make_pipeline

import steinpath as sp
from steinpath.app.fitted import FitIntervals, Fitted, Interval, Ranked
from steinpath.app.report.build import Result, build_content, figure, plus_minus
from steinpath.estimators._columns import ColumnSummary
from steinpath.estimators._levels import LevelRisk
from steinpath.plots import QUANTILES
from steinpath.risk._evidence import Diagnostic

ASSUMPTIONS = (
    "The rows are drawn independently of each other from one population.",
    "New rows come from the same population.",
    "The features of a row are not dominated by a few very large values.",
)

CHECKS = (
    Diagnostic("near-duplicate rows", 0.0, 0.01, ""),
    Diagnostic("leverage of the largest row", 0.131, 0.5, ""),
    Diagnostic("movement of the last iterations", 0.0021, 0.05, ""),
)


# What only some reports have.
NOTHING = {
    "unlisted_columns": 0,
    "unlisted_coefficients": 0,
    "intervals": None,
    "widths": None,
    "caption": "",
    "predict": "",
    "levels": (),
    "compared": "",
    "importance": (),
    "unlisted_curves": 0,
    "log_target": False,
}


def replace(record, **changes):
    """A record with some of its fields replaced."""
    return SimpleNamespace(**vars(record) | changes)


def rows(array):
    """The rows of a matrix, as plain numbers."""
    return tuple(tuple(row) for row in np.asarray(array).tolist())


def charts(n_alphas=3, n_iterates=41, n_names=5, scale=1.0, seed=0):
    """Curves that fall, and rise again where the penalty is weak."""
    rng = np.random.default_rng(seed)
    t = np.arange(n_iterates)
    alphas = np.geomspace(1.0, 0.01, n_alphas)
    decay = np.exp(-t / (3.0 + 10 * alphas[:, None]))
    weak = 1 - np.linspace(0.3, 1, n_alphas)[::-1, None]
    risk = 2 + 3 * decay + weak * np.log1p(t) / 4 + 0.4 * np.sqrt(alphas[:, None])
    train = risk - 0.3 * weak * np.log1p(t) - 0.1 * np.log1p(t)
    final = rng.standard_t(3, n_names)
    raw = rng.standard_t(2, 150)
    predicted = 20 + 6 * rng.standard_normal(150)
    residuals = 1.2 * raw
    row, at = np.unravel_index(np.argmin(risk), risk.shape)
    return SimpleNamespace(
        complete=False,
        test_loss="absolute error",
        penalty="lasso",
        alphas=tuple(alphas.tolist()),
        iterates=tuple(t.tolist()),
        risk=rows(scale * risk),
        stderr=rows(np.full_like(risk, scale * 0.08)),
        train=rows(scale * train),
        nonzeros=rows(np.minimum(n_names, np.arange(n_iterates)) + 0 * risk.astype(int)),
        chosen=(int(row), int(at)),
        coefficient_names=tuple(f"feature {j}" for j in range(n_names)),
        coefficients=rows(scale * final * (1 - np.exp(-t[:, None] / (2 + np.arange(n_names))))),
        raw=tuple((scale * raw).tolist()),
        corrected=tuple((scale * (raw * 1.15 + 0.05 * rng.standard_normal(150))).tolist()),
        at_the_choice="Adjusted for selection, it is larger.",
        actual=tuple((scale * (predicted + residuals)).tolist()),
        predicted=tuple((scale * predicted).tolist()),
        quantiles=tuple((scale * np.quantile(residuals, QUANTILES)).tolist()),
        left_out_rows=150,
        left_out_by="fitted",
        classes=None,
        contribution="contribution to the prediction",
        curves=(),
        surfaces=(),
        limit=0.0,
    )


def intervals(names, **changes):
    """Confidence intervals for features of these names, the last of them not identified."""
    rng = np.random.default_rng(0)
    found = []
    for k, name in enumerate(names):
        estimate, stderr = 3 * rng.standard_normal(), rng.uniform(0.2, 1)
        stderr = stderr if k < len(names) - 1 else np.inf
        ends = estimate - 2 * stderr, estimate + 2 * stderr
        found.append(Interval(name, estimate, stderr, *ends, 0.01 * k, k < len(names) / 2, 2.0))
    usual = {"warnings": ("there are few rows",), "notes": ("some features are excluded",)}
    return FitIntervals(
        SimpleNamespace(t=7, scores="residuals", scale="coefficient"),
        tuple(found),
        assumptions="Rows are independent.",
        n_tests=len(names),
        **usual | changes,
    )


def tiny(**changes):
    """A small content, with some of its fields replaced."""
    curves = changes.pop("charts", None) or charts()
    names = curves.coefficient_names
    row, at = curves.chosen
    values = curves.coefficients[at] if curves.coefficients else ()
    found = [(n, v / 2, v) for n, v in zip(names, values, strict=True) if v]
    content = SimpleNamespace(
        title="Predicting price from houses.csv",
        verdict=(
            f"On new rows, the expected absolute error is {figure(curves.risk[row][at])}; it is 9% "
            "below that of a constant prediction."
        ),
        model=f"The selected model is iteration {curves.iterates[at]}.",
        facts=(
            ("Estimated risk", plus_minus(curves.risk[row][at], curves.stderr[row][at])),
            ("Selected iteration", str(curves.iterates[at])),
        ),
        warnings=(),
        assumptions=ASSUMPTIONS,
        checks=CHECKS,
        columns=(
            ColumnSummary("price", "target", "from 10 to 90", 0, 0),
            ColumnSummary("rooms", "number", "from 1 to 9", 3, 1),
        ),
        notes=("3 missing values of rooms were imputed with the median.",),
        intercept=1.25,
        coefficients=tuple(sorted(found, key=lambda row: -abs(row[2]))),
        ranking=(),
        ranked_by="risk",
        charts=curves,
        command="steinpath fit houses.csv --target price",
        provenance=(("steinpath", "0.1.0"), ("seed", "0")),
        **NOTHING,
    )
    return replace(content, **changes)


def with_terms(label="a long level of a category", **changes):
    """Curves, products and levels of terms, of columns with this name and level."""
    rng = np.random.default_rng(0)
    sides = [
        {"name": label, "kind": "number", "period": 0, "at": np.linspace(-9, 2e6, 30).tolist()},
        {"name": "hour", "kind": "number", "period": 24, "at": np.linspace(0, 24, 50).tolist()},
        {"name": "when", "kind": "date", "period": 0, "at": [17000.5, 17100.0, 19000.0]},
        {"name": "week", "kind": "date", "period": 0, "at": [17000.0, 17003.0, 17007.0]},
        {"name": "where", "kind": "level", "period": 0, "at": [f"{label} {k}" for k in range(12)]},
        {"name": "yes", "kind": "level", "period": 0, "at": ["no", "yes"]},
    ]
    curves = [
        {"x": side, "effect": rng.normal(size=len(side["at"])).tolist(), "levels": 0}
        | {"stderr": [0.1] * len(side["at"])}
        for side in sides
    ]
    curves[0]["stderr"] = [np.nan] * 30
    curves[4]["levels"] = 40
    pairs = [(sides[0], sides[1]), (sides[2], sides[4]), (sides[5], sides[4])]
    surfaces = [
        {"x": x, "y": y, "effect": rng.normal(size=(len(y["at"]), len(x["at"]))).tolist()}
        for x, y in pairs
    ]
    return tiny(
        charts=replace(charts(), curves=curves, surfaces=surfaces, limit=2.0),
        levels=(
            LevelRisk("linear", None, 12, 2.0, 0.1, 0.5, 0.2, False),
            LevelRisk("curves and products", "log", 1234, 1.5, 0.1, 0.0, 0.0, True),
        ),
        compared="These were compared.",
        importance=[(side["name"], 1 / (k + 1), 0.2, 5, 3, 2) for k, side in enumerate(sides)],
        log_target=True,
        **changes,
    )


@cache
def fitted():
    """The report of a fit to scikit-learn's data on diabetes."""
    columns, y = load_diabetes(scaled=False, return_X_y=True, as_frame=True)
    model = sp.LADLasso(n_alphas=16, n_iter=250, random_state=0)
    known = {"target": "progression", "source": "diabetes.csv", "command": "steinpath fit ..."}
    found = Fitted(make_pipeline(sp.TableEncoder(), model).fit(columns, y))
    summary = {"columns": found.encoder.summary_, "n_columns": 10}
    content = build_content(Result(found, **known, **summary))
    return replace(content, provenance=(("steinpath", "0.1.0"), ("seed", "0")))


def crowded():
    """Warnings, a ranking, very many columns and unusual names."""
    words = [
        "Wohnfläche in Quadratmetern",
        "築年数",
        "διάμετρος",
        "площадь_участка",
        "prix·m²",
        "x",
    ]
    names = [f"{words[j % len(words)]} {j}" for j in range(118)]
    names.append("a_very_long_name_without_any_place_to_break_the_line_" * 3)
    names.append("a long name with many words in it " * 4)
    curves = replace(
        charts(20, 301, 40, scale=1e4, seed=3),
        coefficient_names=tuple(reversed(names[-40:])),
        test_loss="Huber's loss (δ = 1.345)",
        penalty="elastic net",
    )
    huge = tuple((40 * r[0], *r[1:]) for r in curves.risk)
    row, at = curves.chosen
    best = curves.risk[row][at]
    pairs = [(a, b) for a in ("LAD", "Huber", "squared") for b in ("elastic net", "lasso")]
    kinds = ("number", "binary", "date", "category", "dropped")
    return tiny(
        title="Predicting Verkaufspreis (€) from immobilien_2019–2024_alle_bundesländer.csv",
        charts=replace(curves, risk=huge),
        warnings=(
            "312 of 4,000 rows have near-duplicates: the risk is underestimated; use --group.",
            "one row has more than half of the leverage; inspect row 1,871.",
            "the audit found a risk that is 12% larger; use folds.",
        ),
        checks=(
            *CHECKS,
            Diagnostic(
                "difference from the audit",
                4.31,
                3.0,
                "the audit disagrees with the estimate by more than its standard error; use folds.",
            ),
        ),
        columns=tuple(
            ColumnSummary(
                n, kinds[j % 5], f"{j + 2} values, such as “{words[j % 6]}”", j % 7, j % 4
            )
            for j, n in enumerate(names)
        ),
        ranking=tuple(
            Ranked(a, b, 0.01 * (j + 1), at + j, 30 + j, best + d, 800.0, d, 0.6 * d)
            for j, ((a, b), d) in enumerate(
                zip(pairs, (0.0, 55.0, 160.0, 410.0, 930.0, 2900.0), strict=True)
            )
        ),
        notes=("column 17 is dropped: it is constant.", "dates are encoded as days since 1970."),
        command="steinpath compare 'immobilien_2019–2024.csv' --target 'Verkaufspreis (€)'"
        + " --loss lad --loss huber --loss squared --penalty 'elastic net' --penalty lasso",
    )
