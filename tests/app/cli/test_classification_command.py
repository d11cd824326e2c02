"""The command predicts classes."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from sklearn.pipeline import make_pipeline

import steinpath as sp
from commands import call, refused
from steinpath.app.fitted import Fitted
from steinpath.app.report.build import facts

QUICK = ("--n-iter", 20, "--n-alphas", 3)
NAMES = np.array(["low", "middle", "high"])


def drawn(n=90, k=2, seed=0):
    """Rows of classes that features say much about."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(rng.standard_normal((n, 4)).round(4), columns=list("abcd"))
    score = table["a"] - table["b"] + 0.7 * rng.standard_normal(n)
    edges = [0.4] if k == 2 else [-0.7, 0.7]
    table["y"] = NAMES[np.digitize(score, edges)]
    return table


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("classes")
    for k in (2, 3):
        drawn(k=k).to_csv(folder / f"of{k}.csv", index=False)
    return folder


def fitted(files, k, *options, command="fit"):
    """Fit a file, and return what is said to programs."""
    out = files / f"out{k}{command}{''.join(map(str, options))}"
    plots = () if "--plots" in options else ("--no-plots",)
    said = call(command, files / f"of{k}.csv", "--target", "y", *QUICK, *plots, *options,
                "--out", out, "--json")  # fmt: skip
    return json.loads(said.stdout), out


def fit_table(table, loss="logistic", **options):
    model = sp.PathClassifier(loss=loss, n_iter=20, n_alphas=3, random_state=0, **options)
    table = table.copy()
    return Fitted(make_pipeline(sp.TableEncoder(), model).fit(table, table.pop("y")))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--task", "classification", "--loss", "lad"), "--task classification and --loss lad"),
        (("--task", "regression", "--loss", "logistic"), "--task regression and --loss logistic"),
        (("--loss", "hinge", "--test-loss", "absolute"), "--loss hinge and --test-loss absolute"),
        (("--task", "regression", "--class-weight", "balanced"), "--class-weight"),
        (("--loss", "logistic", "--quantile", "0.5"), "--quantile"),
    ],
)
def test_options_of_both_tasks_are_refused(options, said, files):
    assert said in refused("fit", files / "of2.csv", "--target", "y", *options, code=2)


def test_two_classes_are_those_of_tune():
    table = drawn()
    fit = fit_table(table)
    (_, actual, _), y = fit.left_out_classes, np.where(table["y"] == "middle", 1, -1)
    assert fit.classes == ["low", "middle"]
    chosen = fit.tuning.chosen
    wrong = np.sign(chosen.predictions) != y[chosen.rows]
    assert list(fit.estimator.scores_) == ["zero_one", "log", "balanced_error", "auc"]
    rate, loss, *_ = fit.estimator.scores_.values()
    assert rate.value == pytest.approx(wrong.mean())
    plain = wrong.std(ddof=1) / np.sqrt(len(y))
    assert rate.stderr == pytest.approx(chosen.dependence * plain, rel=0.05)
    assert rate.constant == pytest.approx(min(np.mean(y == 1), np.mean(y == -1)))
    assert (loss.value, loss.stderr) == (fit.tuning.best_risk, fit.tuning.best_risk_stderr)
    shares = np.array([np.mean(y == 1), np.mean(y == -1)])
    assert loss.constant == pytest.approx(-shares @ np.log(shares))
    confusion = fit.estimator.confusion_
    assert confusion.sum() == len(y)
    assert confusion.trace() == np.sum(~wrong)
    assert_array_equal(confusion.sum(axis=1), np.bincount(actual))


def test_several_classes_are_fitted_one_against_the_rest():
    table = drawn(k=3)
    fit = fit_table(table)
    assert fit.classes == ["high", "low", "middle"]
    assert len(fit.models) == 3
    assert all(len(each.tuning_.chosen.rows) == 90 for each in fit.models)
    values = np.stack([each.tuning_.chosen.predictions for each in fit.models], axis=1)
    names = np.array(fit.classes)
    wrong = names[values.argmax(axis=1)] != table["y"]
    rate, loss, *_ = fit.estimator.scores_.values()
    assert rate.value == pytest.approx(wrong.mean())
    odds, of_one = fit.estimator.coupling_
    shares = np.exp(odds * values - of_one * np.logaddexp(0, -values))
    shares /= shares.sum(axis=1, keepdims=True)
    of_actual = shares[np.arange(90), [fit.classes.index(y) for y in table["y"]]]
    # the coefficients are estimated without the rows
    assert loss.value == pytest.approx(-np.log(of_actual).mean(), rel=0.05)
    assert loss.value > -np.log(of_actual).mean()
    assert loss.value < loss.constant
    assert rate.value < rate.constant
    assert fit.estimate == (loss.value, loss.stderr)


def test_class_weights_favour_the_rare_class():
    table = drawn(200)
    plain, balanced = fit_table(table), fit_table(table, class_weight="balanced")
    confusion = balanced.estimator.confusion_
    assert confusion[:, 1].sum() > plain.estimator.confusion_[:, 1].sum()
    assert "expected log loss with class weights" in dict(facts(balanced))
    assert balanced.estimator.scores_["log"].constant == pytest.approx(np.log(2))
    wrong = confusion.sum() - confusion.trace()
    assert balanced.estimator.error_rate_ == pytest.approx(wrong / 200)


@pytest.mark.parametrize(("loss", "constant"), [("hinge", 0.5), ("squared_hinge", 0.75)])
def test_losses_without_probabilities(loss, constant):
    table = drawn(80)
    order = np.argsort(table["a"] - table["b"])
    table["y"] = np.where(np.isin(np.arange(80), order[:20]), "few", "many")
    fit = fit_table(table, loss)
    assert list(fit.estimator.scores_) == ["zero_one", loss, "balanced_error", "auc"]
    assert fit.estimator.scores_[loss].constant == pytest.approx(constant)
    assert not hasattr(fit.estimator, "predict_proba")


def test_dependent_rows_need_every_class_on_both_sides(tmp_path):
    file = tmp_path / "d.csv"
    command = ("fit", file, "--target", "y", "--out", tmp_path / "o", *QUICK)
    table = drawn().assign(g=np.arange(90) // 9)
    table.assign(y=np.where(table["g"] == 3, "there", "elsewhere")).to_csv(file, index=False)
    assert "class 'there' are in one group" in refused(*command, "--group", "g")
    table = drawn().assign(t=np.arange(90), y=["early"] * 60 + ["late"] * 30)
    table.to_csv(file, index=False)
    said = refused(*command, "--time", "t")
    assert "the class 'late' does not occur in the first 15" in said


def test_a_class_of_two_rows_is_fitted_though_nested_folds_leave_out_both():
    table = drawn(60)
    table["y"] = ["rare"] * 2 + ["usual"] * 58
    assert 0 < fit_table(table).estimator.error_rate_ < 0.2


@pytest.mark.parametrize("k", [2, 3])
def test_predict_writes_labels_and_probabilities(k, files, tmp_path):
    _, out = fitted(files, k)
    said = call("predict", out / "model.json", files / f"of{k}.csv", "--out", tmp_path / "p.csv")
    written, table = pd.read_csv(tmp_path / "p.csv"), drawn(k=k)
    labels = sorted(set(table["y"]))
    assert list(written) == ["prediction", *(f"probability of {label}" for label in labels)]
    rate = np.mean(written["prediction"] != table["y"])
    assert f"error rate on these 90 rows: {rate:.4g}; expected on new rows: 0." in said.stderr
    found = json.loads(call("predict", out / "model.json", files / f"of{k}.csv", "--json").stdout)
    assert found["predictions"] == written["prediction"].tolist()
    table.drop(columns="y").to_csv(tmp_path / "new.csv", index=False)
    assert call("predict", out / "model.json", tmp_path / "new.csv").stderr == ""
    table.assign(y="unknown").to_csv(tmp_path / "new.csv", index=False)
    said = call("predict", out / "model.json", tmp_path / "new.csv").stderr
    assert "90 of them of classes unknown to the model" in said


def test_what_models_of_classes_do_not_have_is_refused(files):
    _, out = fitted(files, 2, "--loss", "hinge")
    file = files / "of2.csv"
    assert "require a regression" in refused("predict", out / "model.json", file, "--interval", 0.9)
    written = call("predict", out / "model.json", file).stdout.splitlines()
    assert written[0] == "prediction"
    assert not hasattr(sp.load_model(out / "model.json"), "predict_proba")


@pytest.mark.parametrize("k", [2, 3])
def test_the_report_has_charts_of_classes(k, files):
    found, out = fitted(files, k)
    page = (out / "report.html").read_text(encoding="utf-8")
    for part in ("Confusion matrix", "ROC curve", "Reliability curve", "roc-plot"):
        assert part in page
    for part in ("residuals-plot", "predicted-plot", "errors-plot", "median absolute"):
        assert f'id="{part}"' not in page
    assert ("One model per class" in page) == (k == 3)
    data = json.loads(page.split('id="data">')[1].split("</script>")[0])
    assert [curve["name"] for curve in data["roc"]] == [each["class"] for each in found["models"]]
    for curve in data["roc"]:
        assert (curve["x"][0], curve["y"][0], curve["x"][-1], curve["y"][-1]) == (0, 0, 1, 1)
        assert np.all(np.diff(curve["x"]) >= 0)
    assert len(data["reliability"]) == len(data["roc"])


def test_plots_of_classes(files):
    _, out = fitted(files, 2, "--plots")
    found = {file.name for file in (out / "plots").iterdir()}
    assert {"roc.pdf", "reliability.pdf", "summary.png", "risk.pdf"} <= found
    assert not {"residuals.pdf", "predicted.pdf"} & found


SCORES = {
    "log": "log loss",
    "auc": "1 - area under the ROC curve",
    "zero-one": "error rate",
    "balanced-error": "balanced error rate",
}


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("score", SCORES)
def test_losses_are_ranked_by_a_score(k, score, files):
    usual = score == "log"
    options = () if usual else ("--loss", "logistic", "--loss", "hinge", "--score", score)
    found, out = fitted(files, k, *options, command="compare")
    ranking = found["ranking"]
    assert {row["loss"] for row in ranking} == set(options[1:4:2] or ["logistic"])
    risks = [row["risk"] for row in ranking]
    assert risks == sorted(risks)
    assert ranking[0]["behind"] == 0
    assert not (out / "model.json").exists()
    ranked_by = re.search(r"sorted by estimated (.*?)\.", (out / "report.html").read_text())
    assert ranked_by[1] == SCORES[score]
    said = call("compare", files / f"of{k}.csv", "--target", "y", *QUICK, "--no-plots",
                "--penalty", "lasso", "--out", out, *options).stdout  # fmt: skip
    assert said.startswith(f"y: expected {SCORES[score]}\n")


def test_losses_without_probabilities_are_ranked_by_the_area(files):
    found, _ = fitted(files, 2, "--loss", "hinge", "--loss", "logistic", command="compare")
    assert all(0 <= row["risk"] <= 0.5 for row in found["ranking"])
    again, _ = fitted(files, 2, "--loss", "hinge", "--loss", "logistic", "--score", "auc",
                      command="compare")  # fmt: skip
    assert again["ranking"] == found["ranking"]


@pytest.mark.parametrize("command", ["tune", "compare"])
@pytest.mark.parametrize("option", ["--score", "--test-loss"])
@pytest.mark.parametrize("name", ["log", "brier"])
def test_losses_without_probabilities_have_no_scores_of_them(command, option, name, files):
    losses = "--loss", "logistic", "--loss", "squared-hinge"
    call = command, files / "of2.csv", "--target", "y", *losses, option, name
    said = refused(*call, code=2)
    assert f"{option} {name} requires probabilities" in said
    assert "--loss squared-hinge;" in said


@pytest.mark.parametrize("k", [2, 3])
def test_models_are_ranked_by_another_score_than_that_of_the_selection(k, files):
    both = "--score", "brier", "--test-loss", "log"
    found, _ = fitted(files, k, *both, command="compare")
    selected, _ = fitted(files, k, "--test-loss", "log", command="compare")
    # a Brier score is less than half of the log loss
    risks = [row["risk"] for row in found["ranking"]]
    assert 0 < max(risks) < min(row["risk"] for row in selected["ranking"]) / 2
    assert sorted(row["alpha"] for row in found["ranking"]) == sorted(
        row["alpha"] for row in selected["ranking"]
    )


@pytest.mark.parametrize(("k", "score"), [(2, "log"), (3, "log"), (3, "auc")])
def test_errors_are_unknown_if_one_group_is_tested(k, score, tmp_path):
    # without the other group there are too few rows to train on
    table = drawn(n=40, k=k).assign(group=["one"] * 36 + ["other"] * 4)
    table.loc[36:, "y"] = np.resize(NAMES[:k], 4)
    table.to_csv(tmp_path / "d.csv", index=False)
    command = "compare", tmp_path / "d.csv", "--target", "y", "--group", "group", "--json"
    said = call(*command, *QUICK, "--score", score, "--out", tmp_path / "out")
    ranking = json.loads(said.stdout)["ranking"]
    assert [row["behind_stderr"] for row in ranking[1:]] == [None] * (len(ranking) - 1)
    assert pd.read_csv(tmp_path / "out" / "ranking.csv")["behind_stderr"].isna().sum() == 1


def test_a_rare_class_is_found(tmp_path):
    # the error rate of a class of 6% is smallest if it is never predicted
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1200, 12))
    share = 1 / (1 + np.exp(3.4 - X[:, 0] - 0.6 * X[:, 1]))
    y = np.where(rng.random(1200) < share, "yes", "no")
    pd.DataFrame(X).add_prefix("x").assign(y=y).to_csv(tmp_path / "d.csv", index=False)
    command = "tune", tmp_path / "d.csv", "--target", "y", "--out", tmp_path, "--no-plots", "--json"
    found = json.loads(call(*command).stdout)
    assert found["iterate"] > 0
    assert found["nonzeros"] >= 2
    assert "no feature improves" not in str(found["notes"])
    log = found["scores"]["log"]
    assert log["expected"] < log["constant"]
    area = found["scores"]["auc"]
    assert area["expected"] - 4 * area["stderr"] > area["constant"]


def test_scores_are_those_of_classes(files):
    command = "compare", files / "of2.csv", "--target", "y", "--loss", "lad"
    assert "--score" in refused(*command, "--score", "auc", code=2)


def test_the_risks_of_several_classes_are_in_one_file(files):
    _, out = fitted(files, 3)
    risks = pd.read_csv(out / "risk.csv")
    assert sorted(set(risks["class"])) == ["high", "low", "middle"]
    assert len(risks) == 3 * 3 * 21


def test_what_is_printed(files, tmp_path):
    said = call("fit", files / "of3.csv", "--target", "y", *QUICK, "--no-plots", "--out",
                tmp_path / "o").stdout  # fmt: skip
    for part in (
        "expected error rate",
        "baseline error rate (majority class)",
        "expected log loss",
        "baseline log loss (class frequencies)",
        "→ high",
        "→ middle",
        "features used",
    ):
        assert part in said


def test_serially_dependent_rows_are_warned_of_once(tmp_path):
    rng = np.random.default_rng(0)
    X = np.cumsum(rng.standard_normal((200, 3)), axis=0)
    y = pd.qcut(X[:, 0] + np.cumsum(rng.standard_normal(200)) / 2, 3, labels=["a", "b", "c"])
    table = pd.DataFrame(X, columns=["u", "v", "w"]).assign(y=y.astype(str))
    table.to_csv(tmp_path / "d.csv", index=False)
    command = ("fit", tmp_path / "d.csv", "--target", "y", "--out", tmp_path, "--no-plots")
    said = call(*command, "--n-iter", "20", "--n-alphas", "3").stdout
    assert said.count("residuals of neighbouring rows") == 1
    assert said.count("consecutive rows of X") == 1


def test_tables_of_many_classes_are_in_the_files_only(tmp_path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": rng.standard_normal(150), "y": [f"c{k % 25}" for k in range(150)]})
    table.to_csv(tmp_path / "d.csv", index=False)
    command = ("fit", tmp_path / "d.csv", "--target", "y", "--out", tmp_path, "--no-plots")
    said = call(*command, "--n-iter", "5", "--n-alphas", "2").stdout
    assert "The confusion matrix of the 25 classes is in report.html." in said
    assert "→" not in said
    assert len(sp.load_model(tmp_path / "model.json").classes_) == 25
