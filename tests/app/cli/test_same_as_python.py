"""The command does what a pipeline of a `TableEncoder` and an estimator does, to the last digit."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline

import steinpath as sp
from commands import bounds, call, houses

N = 60
QUICK = {"n_iter": 40, "n_alphas": 4, "random_state": 3}
COMMAND = ("--n-iter", 40, "--n-alphas", 4, "--seed", 3, "--json", "--no-plots")
INTERVALS = ("estimate", "stderr", "lower", "upper", "pvalue")


def numbers(n=N, p=4, seed=0):
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(rng.standard_normal((n, p)), columns=[f"x{j}" for j in range(p)])
    return table.assign(y=2 * table["x0"] - table["x1"] + 0.5 * rng.standard_t(2, n))


def mixed():
    table = houses(N).rename(columns={"price": "y"})
    return table.assign(old=table["rooms"] > 3, y=table["y"] - 30.0 * (table["rooms"] > 3))


def signs():
    table = numbers()
    return table.assign(
        x0=[f"${x:.3f}" for x in table["x0"]], x1=[f"{100 * x:.2f}%" for x in table["x1"]]
    )


def gaps():
    table = mixed()
    table.loc[[3, 8, 21], "Fläche m²"] = np.nan
    table.loc[[5, 30], "town"] = None
    return table


def classes(labels):
    table = numbers()
    edges = np.quantile(table["y"], np.arange(1, len(labels)) / len(labels))
    return table.assign(y=np.array(labels)[np.digitize(table["y"], edges)])


def sites():
    table = numbers()
    rng, site = np.random.default_rng(1), np.arange(N) // 5
    return table.assign(site=[f"s{k}" for k in site], y=table["y"] + rng.standard_normal(12)[site])


CASES = {
    # name: (table, options of the command, encoder, estimator, whether there are intervals)
    "numbers": (numbers(), (), {}, sp.LADLasso(**QUICK), True),
    "mixed": (mixed(), (), {}, sp.PathRegressor(**QUICK), True),
    "wide": (numbers(40, 60), (), {}, sp.PathRegressor(**QUICK), True),
    "signs": (signs(), (), {}, sp.PathRegressor(**QUICK), False),
    "missing": (gaps(), ("--impute",), {"missing": "impute"}, sp.PathRegressor(**QUICK), True),
    "0 and 1": (classes([0, 1]), (), {}, sp.PathClassifier(**QUICK), False),
    "two texts": (classes(["no", "yes"]), (), {}, sp.LogisticLasso(**QUICK), False),
    "three texts": (classes(["c", "a", "b"]), (), {}, sp.PathClassifier(**QUICK), False),
    "groups": (sites(), ("--group", "site"), {}, sp.PathRegressor(**QUICK), True),
    "quantile": (numbers(), ("--quantile", 0.8), {}, sp.QuantileLasso(q=0.8, **QUICK), False),
}


@pytest.fixture(params=CASES, scope="module")
def both(request, tmp_path_factory):
    """What the command prints, its model, and the same pipeline fitted in Python."""
    table, options, encoding, estimator, intervals = CASES[request.param]
    folder = tmp_path_factory.mktemp("both")
    file, options = folder / "d.csv", (*options, *["--intervals"][: int(intervals)])
    table.to_csv(file, index=False)  # with all digits
    command = ("fit", file, "--target", "y", "--out", folder / "o", *COMMAND, *options)
    found = json.loads(call(*command).stdout)
    frame, extra = table.drop(columns="y"), {}
    if "site" in frame:
        extra[f"{type(estimator).__name__.lower()}__groups"] = frame.pop("site")
    usual = {"missing": "error", "curves": "auto", "products": "auto"}
    if "transform_target" in estimator.get_params():
        estimator.set_params(transform_target="auto")
    pipeline = make_pipeline(sp.TableEncoder(**usual | encoding), estimator)
    pipeline.fit(frame, table["y"], **extra)
    return found, sp.load_model(folder / "o" / "model.json"), pipeline, frame


def parts(estimator):
    return getattr(estimator, "estimators_", [estimator])


def test_the_model_is_the_same(both):
    found, loaded, python, frame = both
    command, own = loaded[-1], python[-1]
    assert [*loaded[0].get_feature_names_out()] == [*python[0].get_feature_names_out()]
    np.testing.assert_array_equal(command.coef_, own.coef_)
    np.testing.assert_array_equal(command.intercept_, own.intercept_)
    np.testing.assert_array_equal(loaded.predict(frame), python.predict(frame))
    for name in ("alpha_", "best_iter_", "n_iter_"):
        assert [getattr(each, name) for each in parts(command)] == [
            getattr(each, name) for each in parts(own)
        ]
    worst = max(parts(own), key=lambda each: each.best_risk_)
    assert (found["alpha"], found["iterate"]) == (worst.alpha_, worst.best_iter_)


def test_the_expected_error_is_the_same(both):
    found, loaded, python, _ = both
    pairs = zip(parts(loaded[-1]), parts(python[-1]), strict=True)
    for one, other in pairs:
        assert one.best_risk_ == other.best_risk_
        assert one.best_risk_stderr_ == other.best_risk_stderr_
    own = python[-1]
    if "classes" not in found:
        assert (found["risk"], found["stderr"]) == (own.best_risk_, own.best_risk_stderr_)
        assert found["naive_risk"] == own.naive_risk_
        assert found["median_absolute_error"] == own.median_error_
        return
    assert found["classes"] == [str(label) for label in own.classes_]
    assert (found["error_rate"], found["error_rate_stderr"]) == (
        own.error_rate_,
        own.error_rate_stderr_,
    )
    assert loaded[-1].error_rate_ == own.error_rate_
    assert found["confusion"] == own.confusion_.tolist()
    scores = {
        name: (s["expected"], s["stderr"], s["constant"]) for name, s in found["scores"].items()
    }
    assert scores == own.scores_


@pytest.mark.filterwarnings("ignore:with 12 groups the normal approximation")
def test_intervals_are_the_same(both):
    found, loaded, python, frame = both
    if "classes" in found:
        np.testing.assert_array_equal(loaded.predict_proba(frame), python.predict_proba(frame))
        return
    np.testing.assert_array_equal(bounds(loaded, frame, 0.8), bounds(python, frame, 0.8))
    if "coefficient_intervals" not in found:
        return
    rows = found["coefficient_intervals"]["features"]
    encoder, estimator = python
    reference = encoder.reference_features_
    names = encoder.get_feature_names_out()
    own = estimator.coef_intervals(without=reference, names=names)
    assert [row["name"] for row in rows] == list(own.names)
    written = pd.read_csv(found["files"]["intervals"])
    for name in INTERVALS:
        values = getattr(own, name)
        assert [row[name] for row in rows] == values.tolist()
        np.testing.assert_allclose(written[name], values, rtol=1e-7)  # written with 8 digits
