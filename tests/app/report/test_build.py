"""The content of the report of a fitted model."""

import pickle
import re
from functools import partial

import numpy as np
import pytest
from scipy import sparse
from sklearn.model_selection import GroupKFold, KFold, TimeSeriesSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import steinpath as sp
from steinpath._support.printing import with_error
from steinpath.app.cli.commands import option
from steinpath.app.fitted import Fitted
from steinpath.app.report import build
from steinpath.app.report.build import Result, build_charts, build_content, render
from steinpath.plots import held_out

# of short runs
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def rows(n=80, p=4):
    return sp.simulate.paper_model(p, noise="t3").sample(n, rng=0)


def columns(n=80, p=4):
    X, y = rows(n, p)
    return {f"x{j}": X[:, j] for j in range(p)}, y


def regression(X=None, y=None, **parameters):
    X, y = columns() if X is None else (X, y)
    settings = {"n_iter": 20, "n_alphas": 3, "random_state": 0} | parameters
    return make_pipeline(sp.TableEncoder(), sp.PathRegressor(**settings)).fit(X, y)


def classifier(k, **parameters):
    X, y = columns(120)
    y = np.digitize(y, np.quantile(y, np.arange(1, k) / k))
    settings = {"n_iter": 20, "n_alphas": 3, "random_state": 0} | parameters
    model = make_pipeline(sp.TableEncoder(), sp.PathClassifier(**settings))
    return model.fit(X, [f"class {code}" for code in y])


def content_of(model, **known):
    return build_content(Result(Fitted(model), **known))


def page_of(model, tmp_path, **options):
    sp.report(model, tmp_path / "report.html", **options)
    return (tmp_path / "report.html").read_text(encoding="utf-8")


def text_of(page):
    """The words of a page, without its style and scripts."""
    return re.sub(r"<(style|script).*?</\1>|<[^>]*>", "", page, flags=re.S)


def test_content_is_what_was_found():
    fitted = Fitted(regression(n_iter=50, n_alphas=5, random_state=3))
    main = fitted.main
    known = {"target": "y", "source": "f.csv", "command": "steinpath fit f.csv", "notes": ["a"]}
    content = build_content(Result(fitted, **known))
    assert content.title == "Predicting y from f.csv"
    t = main.best_iter_
    assert f"iteration {t} of 50" in content.model
    estimate, naive = (
        with_error(main.best_risk_, main.best_risk_stderr_),
        with_error(main.naive_risk_, main.naive_risk_stderr_),
    )
    assert estimate in content.verdict
    assert dict(content.facts)["nonzero coefficients"] == f"{fitted.nonzeros} of 4"
    assert len(content.coefficients) == fitted.nonzeros
    effects = [abs(effect) for *_, effect in content.coefficients]
    assert effects == sorted(effects, reverse=True)
    charts = content.charts
    k, shown = charts.chosen
    assert charts.iterates[shown] == t
    assert charts.risk[k][shown] == pytest.approx(main.naive_risk_)
    assert naive in charts.at_the_choice
    assert estimate in charts.at_the_choice
    assert dict(content.provenance)["adjustment for selection"] == "nested folds"
    assert charts.alphas == sorted(charts.alphas, reverse=True)
    assert charts.nonzeros[k][shown] == fitted.nonzeros
    assert ("seed", "3") in content.provenance
    assert content.notes == ["a"]
    assert content.command == "steinpath fit f.csv"


def test_the_median_error_has_digits_of_its_own_beside_a_loss_in_other_units():
    X, y = columns()
    for factor in (1e-3, 1.0, 1e3):
        model = regression(X, factor * y, loss="huber")
        said = dict(content_of(model).facts)["median absolute error"]
        assert float(said.replace(",", "")) == pytest.approx(model[-1].median_error_, rel=0.01)


def test_residuals_are_those_of_the_predictions():
    X, y = columns(60, 80)
    model = regression(X, y, loss="huber", test_loss="absolute")
    fitted = Fitted(model)
    charts = build_charts(fitted)
    residuals = y - model.predict(X)
    np.testing.assert_allclose(charts.raw, residuals, rtol=1e-9, atol=1e-9)
    assert fitted.risk.method == "loo"  # folds have a correction of their mean beside
    assert np.abs(charts.corrected).mean() == pytest.approx(fitted.main.naive_risk_, rel=1e-9)


def test_very_many_iterates_are_thinned():
    fitted = Fitted(regression(n_iter=1500, n_alphas=2))
    charts = build_charts(fitted)
    assert len(charts.iterates) < 450
    assert charts.iterates[charts.chosen[1]] == fitted.main.best_iter_
    assert (charts.iterates[0], charts.iterates[-1]) == (0, 1500)


def test_charts_have_quantiles_of_all_rows_and_points_of_some(monkeypatch):
    fitted = Fitted(regression())
    monkeypatch.setattr(build, "_MOST_ROWS", 40)
    charts = build_charts(fitted)
    assert len(charts.actual) == len(charts.predicted) == len(charts.raw) == 40
    assert charts.left_out_rows == 80
    actual, predicted = held_out(fitted.tuning)
    shares = [0.05, 0.25, 0.5, 0.75, 0.95]
    np.testing.assert_allclose(charts.quantiles, np.quantile(actual - predicted, shares))
    pairs = set(zip(actual, predicted, strict=True))
    assert set(zip(charts.actual, charts.predicted, strict=True)) <= pairs


@pytest.mark.parametrize(("naive", "smaller"), [(1.0, True), (3.0, False)])
def test_the_curve_is_said_to_be_too_small_only_where_it_is_smaller(naive, smaller):
    fitted = Fitted(regression())
    main = fitted.main
    main.best_risk_, main.best_risk_stderr_ = 2.0, 0.5
    main.naive_risk_, main.naive_risk_stderr_ = naive, 0.5
    said = build_charts(fitted).at_the_choice
    assert ("biased downwards" in said) == smaller
    assert said.endswith("it is 2.00 ± 0.50.")


def test_widths_are_averages_over_the_rows():
    model = regression()
    content = content_of(model)
    assert [level for level, _ in content.widths] == [0.5, 0.8, 0.9, 0.95]
    widths = [width for _, width in content.widths]
    assert widths == sorted(widths)
    low, high = model[-1].predict_interval(model[:-1].transform(columns()[0]), 0.9).T
    assert dict(content.widths)[0.9] == pytest.approx(np.mean(high - low))


@pytest.fixture(scope="module")
def with_terms():
    """A model of the logarithm of the target with curves and products."""
    rng = np.random.default_rng(0)
    X = {"a": rng.normal(size=150), "b": rng.normal(size=150), "c": rng.choice(list("xyz"), 150)}
    signal = X["a"] ** 2 / 2 + X["a"] * (X["c"] == "x")
    y = np.exp(signal + rng.standard_t(4, 150) / 4)
    encoder = sp.TableEncoder(curves="auto", products="auto")
    model = sp.LADLasso(transform_target="log", n_iter=60, n_alphas=6, random_state=0)
    model.keeps_search = True
    return make_pipeline(encoder, model).fit(X, y), X, y


def test_terms_columns_and_products_are_reported(with_terms):
    model, _, _ = with_terms
    content = content_of(model)
    assert content.levels == model[-1].levels_
    assert "the logarithm of the target" in content.model
    assert "adjusted for the selection of terms" in content.verdict
    effects = sp.column_effects(model)
    assert [row[0] for row in content.importance] == effects.column[effects.importance > 0].tolist()
    curve = content.charts.curves[0]
    assert curve["x"]["name"] == "a"
    assert len(curve["x"]["at"]) == len(curve["effect"]) == len(curve["stderr"])
    surface = content.charts.surfaces[0]
    assert {surface[side]["name"] for side in "xy"} == {"a", "c"}
    assert surface["y"]["at"] == list(model[0].columns_[2].levels)
    assert np.shape(surface["effect"]) == (3, len(surface["x"]["at"]))
    assert "Terms compared" in text_of(render(content))


def test_predictions_of_logarithms_are_reported_on_the_scale_of_the_target(with_terms):
    model, X, y = with_terms
    content = content_of(model)
    np.testing.assert_allclose(content.charts.actual, y)
    np.testing.assert_allclose(content.charts.predicted, model[-1].left_out_prediction_)
    low, high = sp.predict_interval(model, X, 0.8).T
    assert dict(content.widths)[0.8] == pytest.approx(np.mean(high - low))


def test_few_rows_have_no_intervals_of_high_levels():
    X, y = columns()
    few = {name: values[:12] for name, values in X.items()}
    assert [level for level, _ in content_of(regression(few, y[:12])).widths] == [0.5, 0.8, 0.9]


@pytest.mark.parametrize(
    ("constant", "words"),
    [
        (4.0, "it is 50% below that of a constant prediction (4.00)."),
        (2.1, "it is 4.8% below that of a constant prediction (2.10)."),
        (1.6, "it is 25% above that of a constant prediction (1.60)."),
        (2.0001, "it is about the same as that of a constant prediction (2.00)."),
        (0.0, "compare it with that of a constant prediction (0.00)."),
    ],
)
def test_the_answer_is_compared_with_a_constant_prediction(constant, words):
    model = regression()
    model[-1].best_risk_, model[-1].best_risk_stderr_ = 2.0, 0.15
    model[-1].constant_risk_ = constant
    verdict = content_of(model).verdict
    assert verdict.startswith(
        "On new rows like these, the expected absolute error is 2.00 ± 0.15 ("
    )
    assert verdict.endswith(words)


@pytest.mark.parametrize("k", [2, 3])
def test_classification_is_described(k):
    model = classifier(k)
    content = content_of(model)
    assert content.verdict.startswith("On new rows like these, the expected misclassification rate")
    assert "of always predicting the most frequent class" in content.verdict
    assert content.widths is None
    assert "prediction-intervals" not in render(content).split("<main>")[1]
    one = "The selected model is iteration "
    several = "The model has one one-vs-rest classifier per class"
    assert content.model.startswith(one if k == 2 else several)
    assert "the logistic loss with a lasso penalty" in content.model
    classes = content.charts.classes
    assert classes["titles"][1:-1] == [f"#Predicted class {code}" for code in range(k)]
    for row, counts in zip(classes["confusion"], model[-1].confusion_.tolist(), strict=True):
        assert row[1:-1] == [str(count) for count in counts]
    assert len(classes["roc"]) == len(classes["reliability"]) == (1 if k == 2 else k)
    facts = dict(content.facts)
    score = model[-1].scores_["log"]
    assert facts["expected log loss"] == with_error(score.value, score.stderr)
    area = model[-1].scores_["auc"]
    assert facts["expected area under the ROC curve"] == with_error(area.value, area.stderr)
    low, high = model[-1].error_rate_interval_
    assert facts["95% interval of the error rate"] == f"{low:.1%} to {high:.1%}"
    assert f"95% interval {low:.1%} to {high:.1%}" in content.verdict


def test_without_probabilities_there_is_no_reliability_curve():
    assert content_of(classifier(2, loss="hinge")).charts.classes["reliability"] == []


def test_models_without_a_penalty_are_described():
    content = content_of(classifier(2, penalty="none"))
    assert "the logistic loss without a penalty" in content.model
    assert "selected alpha" not in dict(content.facts)


@pytest.mark.parametrize("n_iter", [3, "auto"], ids=["given", "limit"])
def test_a_risk_that_still_falls_is_the_first_warning(n_iter, monkeypatch):
    monkeypatch.setattr("steinpath.risk._stopping._MOST", 3)
    with pytest.warns(UserWarning, match="still decreasing"):
        model = regression(n_iter=n_iter)
    limit = "" if n_iter == 3 else ", the limit for data of this size"
    said = f"the estimated risk was still decreasing after 3 iterations{limit}; use a larger number"
    for remedy, name, words in ((str, "n_iter", "n_iter=6"), (option, "--n-iter", "--n-iter 6")):
        content = content_of(model, remedy=remedy)
        assert content.warnings[0] == f"{said}, such as {words}"
        assert len(content.warnings) == len(model[-1].warnings_)
        why = f"as set by {name}."
        if limit:
            why = f"the limit for data of this size (use {name} for more)."
        assert content.model.endswith(f"Iterations ended at 3: {why}")


@pytest.mark.parametrize(
    ("cv", "grouped", "said", "assumed"),
    [
        (None, False, "On new rows like these", "Rows are independent of each other"),
        (5, False, "On new rows like these", "Rows are independent of each other"),
        (KFold(5), False, "On new rows like these", "Rows are independent of each other"),
        (None, True, "On rows of new groups like these", "Groups are independent"),
        (GroupKFold(5), True, "On rows of new groups like these", "Groups are independent"),
        (TimeSeriesSplit(5), False, "On later rows like these", "earlier rows only"),
    ],
)
def test_the_report_does_not_assume_what_the_splits_do_not(cv, grouped, said, assumed):
    X, y = rows()
    groups = np.arange(80) % 20 if grouped else None
    model = sp.LADLasso(n_iter=10, n_alphas=2, cv=cv, random_state=0).fit(X, y, groups=groups)
    content = content_of(model)
    assert content.verdict.startswith(f"{said}, ")
    assert sum(assumed in each for each in content.assumptions) == 1


def test_the_same_fit_has_the_same_page():
    first, second = (render(content_of(regression())) for _ in range(2))
    assert first == second


def test_a_report_in_python_names_no_option_of_the_command(tmp_path):
    X, y = columns()
    X = X | {"id": np.arange(80), "town": np.array(["A", "A", "B", "C"] * 20)}
    text = text_of(page_of(regression(X, y), tmp_path, target="price", intervals=True))
    assert not re.search(r"(?<!\w)--\w", text)
    assert "steinpath predict" not in text
    assert "Predicting price" in text
    assert "as set by n_iter." in text
    assert "use groups=labels or cv=TimeSeriesSplit(5)" in text
    assert "model[-1].predict_interval(model[:-1].transform(X_new), level=0.9)" in text
    assert "TableEncoder()" in text
    assert "keep=[&#39;id&#39;]" in text  # of the column that was dropped
    assert "Confidence intervals for the coefficients" in text
    assert "differences from its most frequent level (&#39;town=A&#39;)" in text


def test_estimators_without_a_table_have_a_report_without_columns(tmp_path):
    X, y = rows()
    page = page_of(sp.LADLasso(n_iter=10, n_alphas=2).fit(X, y), tmp_path, source="memory")
    assert 'id="columns"' not in page
    text = text_of(page)
    assert "Predicting the response from memory" in text
    assert "model.predict_interval(X_new, level=0.9)" in text
    assert "x3" in text


def error_of_one(y, predicted):
    return np.abs(y - predicted) ** 1.5


@pytest.mark.parametrize(
    "changes",
    [
        {"test_loss": error_of_one},
        {"test_loss": "squared"},
        {"alpha": 0.1, "select": "last"},
        {"alpha": 0.0, "select": 5},
        {"fit_intercept": False, "standardize": False},
        {"penalty": "none"},
        {"penalty": "mcp", "penalty_params": {"gamma": 4.0}},
        {"loss": "quantile", "loss_params": {"q": 0.9}},
        {"method": "compressed"},
    ],
    ids=lambda changes: ", ".join(changes),
)
def test_any_regression_has_a_report(changes, tmp_path):
    X, y = rows()
    settings = {"n_iter": 10, "n_alphas": 2, "random_state": 0} | changes
    page = page_of(sp.PathRegressor(**settings).fit(X, y), tmp_path)
    assert "nan" not in text_of(page).lower().split()


def test_any_features_have_a_report(tmp_path):
    X, y = rows()
    fit = partial(sp.LADLasso(n_iter=10, n_alphas=2, random_state=0).fit, y=y)
    weighted = sp.LADLasso(n_iter=10, n_alphas=2, random_state=0)
    np.save(tmp_path / "X.npy", X)
    for model in (
        fit(sparse.csr_array(X)),
        weighted.fit(X, y, sample_weight=np.arange(80) % 3),
        make_pipeline(StandardScaler(), sp.LADLasso(n_iter=10, n_alphas=2)).fit(X, y),
        fit(np.load(tmp_path / "X.npy", mmap_mode="r")),
    ):
        page_of(model, tmp_path)


def test_other_steps_after_the_encoder_have_no_reference_levels(tmp_path):
    X, y = columns()
    X = X | {"town": np.array(["A", "A", "B", "C"] * 20)}
    model = make_pipeline(sp.TableEncoder(), StandardScaler(), sp.LADLasso(n_iter=10, n_alphas=2))
    fitted = Fitted(model.fit(X, y))
    assert fitted.references == []
    assert fitted.caption == ""
    np.testing.assert_array_equal(fitted.coefficients().coef, model[-1].coef_)
    assert "town" in page_of(model, tmp_path)


@pytest.mark.parametrize("k", [2, 3])
def test_reports_of_classes_have_intervals_up_to_a_factor(k, tmp_path):
    text = text_of(page_of(classifier(k), tmp_path, intervals=True))
    assert "for the coefficients up to one common factor" in text
    assert ("against the rest" in text) == (k == 3)


def test_models_that_have_no_report_are_refused(tmp_path):
    X, y = rows()
    file = tmp_path / "report.html"
    model = sp.LADLasso(n_iter=10, n_alphas=2).fit(X, y)
    with pytest.raises(TypeError, match=r"must be a fitted .* estimator.*got StandardScaler"):
        sp.report(StandardScaler(), file)
    alone = sp.LADLasso(alpha=0.1, select="last", method=None, n_iter=10, tol=1e9).fit(X, y)
    for without in (sp.LADLasso(), pickle.loads(pickle.dumps(model)), alone):
        with pytest.raises(ValueError, match="no risk estimate with its training data"):
            sp.report(without, file)
    several = sp.QuantileLasso(q=(0.1, 0.9), n_iter=10, n_alphas=2).fit(X, y)
    with pytest.raises(ValueError, match="about one quantile"):
        sp.report(several, file)
    assert not file.exists()
    sp.report(several.estimators_[0], file)
