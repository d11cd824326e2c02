"""Tables and figures of studies, checked by independent computations or made-up columns."""

import itertools
import json
import math
from dataclasses import replace

import matplotlib as mpl
import numpy as np
import pytest
from scipy import stats

from steinpath.study import STUDIES, Sizes, run_study
from steinpath.study._replicate import WATCHED, replicate
from steinpath.study._scenarios import SCENARIOS
from steinpath.study._settings import ALGORITHM, PAIRS, Configuration, interval_times, pair_title
from steinpath.study._tables import inside

mpl.use("agg")

BOTH = ("gaussian", "uniform")

SMALL = {
    "risk": Sizes(reps=5, n=(40,), p=(8, 12), iters=6),
    "universality": Sizes(reps=5, n=(40,), p=(8, 12), iters=6),
    "rates": Sizes(reps=5, n=(20, 40, 80), p=(), iters=4),
    "stopping": Sizes(reps=5, n=(40,), p=(8, 12), iters=6),
    "coverage": Sizes(reps=5, n=(40,), p=(8,), iters=6),
    "mis-specified": Sizes(reps=5, n=(40,), p=(8,), iters=6),
    "late": Sizes(reps=5, n=(20, 40), p=(), iters=6),
    "choice": Sizes(reps=5, n=(100, 60), p=(), iters=6),
    "margins": Sizes(reps=5, n=(40,), p=(8, 12), iters=6),
    "intervals": Sizes(reps=5, n=(40,), p=(8, 12), iters=6),
}
EVERY = pytest.mark.parametrize("name", SMALL)
TITLES = {
    ("lad", "ridge"): "LAD–ridge",
    ("lad", "lasso"): "LAD–lasso",
    ("lad", "mcp"): "LAD–MCP",
    ("lad", "scad"): "LAD–SCAD",
    ("square_root", "ridge"): "square root–ridge",
    ("square_root", "lasso"): "square root–lasso",
    ("square_root", "mcp"): "square root–MCP",
    ("square_root", "scad"): "square root–SCAD",
}
NAMES = {"truth": "R", "tilde": "R̃", "hat": "R̂", "audited": "R̂ audited"}
NAMES |= {"scaled": "R̂, rows scaled", "safe": "R̂ audited, auto"}
NAMES |= {"unaudited": "R̂ unaudited", "folds": "10-fold, corrected"}
NAMES |= {"five": "5-fold", "ten": "10-fold", "loo": "leave-one-out", "last": "last"}


def made_up(config, reps, rng):
    """Return columns like those of replications, with independent errors."""
    if config.kind == "choice":
        return made_up_choices(config, reps, rng)
    if config.kind == "intervals":
        return made_up_intervals(config, reps, rng)
    if config.kind == "labels":
        bare = replace(config, loss="lad")
        both = {risk: made_up(bare, reps, rng) for risk in ("zero_one", "matched")}
        return {f"{risk}_{k}": v for risk, columns in both.items() for k, v in columns.items()}
    shape = (reps, config.iters + 1)
    columns = {"truth": 2 + rng.uniform(size=shape), "train": rng.uniform(size=shape)}
    for way in config.ways:
        columns[way] = columns["truth"] + 0.1 * rng.standard_normal(shape)
        columns[f"{way}_stderr"] = rng.uniform(0.05, 0.15, shape)
        if way in WATCHED:
            columns[f"{way}_warned"] = np.repeat(rng.integers(0, 2, (reps, 1)), shape[1], axis=1)
    return columns


def made_up_choices(config, reps, rng):
    columns = {}
    for way in config.ways:
        truth = 2 + rng.uniform(size=(reps, 1))
        columns |= {f"{way}_truth": truth, f"{way}_covered": rng.uniform(0.8, 1, (reps, 1))}
        columns[f"{way}_width"] = rng.uniform(3, 5, (reps, 1))
        for name in ("naive", "honest"):
            columns[f"{way}_{name}"] = truth + 0.1 * rng.standard_normal((reps, 1))
            columns[f"{way}_{name}_stderr"] = rng.uniform(0.02, 0.1, (reps, 1))
    return columns


def made_up_intervals(config, reps, rng):
    (way,), shape = config.ways, (reps, len(interval_times(config.iters)) + 2)
    names = ("covers", "zero", "nonzero", "width", "warned", "false", "power", "any_false")
    columns = {f"{way}_{name}": rng.uniform(size=shape) for name in names}
    return columns | {f"{way}_iterate": rng.integers(1, 7, shape).astype(float)}


def results_of(name, sizes=None):
    sizes, rng = sizes or SMALL[name], np.random.default_rng(0)
    return {s: made_up(s, sizes.reps, rng) for s in STUDIES[name].plan(sizes)}


def exhibits_of(name, results):
    return {exhibit.name: exhibit for exhibit in STUDIES[name].exhibits(results)}


def drawn(exhibit):
    """Draw an exhibit from its table as stored in a file."""
    return exhibit.draw(json.loads(json.dumps(exhibit.table)))


def rows_of(table, **values):
    return [row for row in table if all(row[k] == v for k, v in values.items())]


def column(table, name):
    return np.array([row[name] for row in table])


def lines(ax):
    return [np.asarray(line.get_xydata()) for line in ax.lines]


def has_curve(ax, x, y):
    return any(xy.shape == (len(x), 2) and np.allclose(xy.T, [x, y]) for xy in lines(ax))


def has_band(ax, x, low, high):
    expected = {
        (float(t), float(round(v, 9))) for t, v in zip([*x, *x], [*low, *high], strict=True)
    }
    for collection in ax.collections:
        found = np.round(np.concatenate([path.vertices for path in collection.get_paths()]), 9)
        if expected <= set(map(tuple, found.tolist())):
            return True
    return False


# Means over replications


def test_inside_is_a_t_test():
    np.testing.assert_array_equal(
        inside(np.array([[0.0, 1.0, 1.0, -1.0], [0.0, 1.0, 9.0, -1.1]])), [True, False, True, False]
    )
    values = np.random.default_rng(0).standard_normal((12, 20_000))
    expected = 1 - 2 * stats.t.sf(2, df=11)
    tolerance = 4.5 * math.sqrt(expected * (1 - expected) / 20_000)
    assert inside(values).mean() == pytest.approx(expected, abs=tolerance)


# Plans


def test_the_papers_algorithm_and_sizes():
    assert (ALGORITHM.sigma, ALGORITHM.tau, ALGORITHM.theta) == (0.1, 0.1, 0.5)
    for name in ("risk", "universality"):
        full = STUDIES[name].full
        assert (full.reps, full.n, full.p, full.iters) == (100, (2000,), (1000, 2400), 300)
    assert {pair: pair_title(*pair) for pair in PAIRS} == TITLES


@pytest.mark.parametrize(("name", "designs"), [("risk", 1), ("universality", 2)])
def test_plans_of_the_papers_figures(name, designs):
    plan = STUDIES[name].plan(STUDIES[name].full)
    found = {(s.loss, s.penalty, s.p, s.rows) for s in plan}
    assert found == {(*pair, p, r) for pair in TITLES for p in (1000, 2400) for r in BOTH[:designs]}
    for s in plan:
        assert s.noise == ("t2" if s.loss == "lad" else "normal")
        assert {"tilde", "hat"} <= set(s.ways)
    # which share their replications
    half = [s for s in STUDIES[name].plan(SMALL["risk"]) if s.rows == "gaussian"]
    assert [s.key for s in half] == [s.key for s in STUDIES["risk"].plan(SMALL["risk"])]


def test_plan_of_rates():
    plan = STUDIES["rates"].plan(STUDIES["rates"].full)
    assert {s.n for s in plan} == {250, 500, 1000, 2000, 4000, 8000}
    assert all(s.p == s.n / 2 for s in plan)
    assert len({s.iters for s in plan}) == 1


def test_plans_of_stopping_and_coverage():
    for name, ways in (("stopping", {"hat", "five", "ten", "loo"}), ("coverage", {"tilde", "hat"})):
        plan = STUDIES[name].plan(STUDIES[name].full)
        assert {(s.loss, s.penalty) for s in plan} == set(TITLES)
        assert all(ways <= set(s.ways) and s.rows == "gaussian" for s in plan)
    # the band needs losses of finite variance
    assert {s.noise for s in plan} == {"laplace", "normal"}


def test_plan_of_mis_specified():
    study = STUDIES["mis-specified"]
    plan = study.plan(study.full)
    assert {s.rows for s in plan} == set(SCENARIOS) - {"uniform"}
    few = [s for s in plan if s.rows == "few rows"]
    assert {(s.n, s.p, s.iters) for s in few} == {(50, 25, 1000)}


def test_plan_of_late():
    study = STUDIES["late"]
    plan = study.plan(study.full)
    pairs = [*itertools.product(["lad"], ("ridge", "lasso", "mcp"))]
    pairs += itertools.product(["square_root"], ("ridge", "lasso"))
    shapes = [(n, p) for n in (200, 500, 2000) for p in (n // 5, n // 2, 2 * n)]
    expected = {(*pair, *shape, 600) for pair in pairs for shape in shapes}
    assert {(s.loss, s.penalty, s.n, s.p, s.iters) for s in plan} == expected
    for s in plan:
        assert (s.ways, s.rows) == (("unaudited", "audited", "folds"), "gaussian")
        assert s.noise == ("laplace" if s.loss == "lad" else "normal")


def test_plan_of_choice():
    study = STUDIES["choice"]
    plan = study.plan(study.full)
    independent = {(s.loss, s.n, s.p) for s in plan if s.rows == "independent"}
    lad = {("lad", 120, 60), ("lad", 100, 200), ("lad", 300, 150), ("lad", 1000, 500)}
    assert independent == lad | {("square_root", 100, 50), ("square_root", 400, 200)}
    for s in plan:
        assert (s.kind, s.penalty, s.iters) == ("choice", "lasso", 0)  # as many as pay
        if s.rows != "independent":
            assert (s.n, s.p, s.noise) == (300, 60, "normal")
    noises = {(s.loss, s.noise) for s in plan if s.rows == "independent"}
    lad = {("lad", "laplace"), ("lad", "skewed"), ("lad", "t2")}
    assert noises == lad | {("square_root", "normal"), ("square_root", "skewed")}
    ways = {s.rows: s.ways for s in plan}
    assert ways.pop("independent") == ("rows",)
    assert ways.pop("time series") == ("rows", "time")
    assert set(ways) == {"clusters of 3", "clusters of 3 to 10", "clusters of 10"}
    assert set(ways.values()) == {("rows", "groups")}
    # other sizes have half as many features
    plan = study.plan(Sizes(reps=2, n=(80,), p=(), iters=5))
    found = {(s.loss, s.n, s.p, s.iters) for s in plan if s.rows == "independent"}
    assert found == {("lad", 80, 40, 5), ("square_root", 80, 40, 5)}
    assert {(s.n, s.p) for s in plan if s.rows != "independent"} == {(80, 16)}


def test_plan_of_margins():
    plan = STUDIES["margins"].plan(STUDIES["margins"].full)
    losses, classes = ("hinge", "squared_hinge", "logistic"), ("equal classes", "unequal classes")
    expected = itertools.product(losses, ("lasso", "ridge"), (600,), (300, 900), classes)
    assert {(s.loss, s.penalty, s.n, s.p, s.rows) for s in plan} == set(expected)
    for s in plan:
        assert (s.kind, s.iters, s.ways) == ("labels", 150, ("hat", "mended", "burman"))
    assert plan[2].pair == "squared hinge–lasso"


def test_plan_of_intervals():
    study = STUDIES["intervals"]
    plan = study.plan(study.full)
    known = [s for s in plan if s.ways == ("known",)]
    assert {(s.loss, s.penalty, s.n, s.p, s.rows) for s in known} == {
        (*pair, 2000, p, rows) for pair in TITLES for p in (1000, 2400) for rows in BOTH
    }
    others = [s for s in plan if s not in known]
    assert {(s.loss, s.penalty, s.n, s.p, s.rows, s.ways) for s in others} == {
        (*pair, 1000, 500, "gaussian", ("nodewise",)) for pair in TITLES
    }
    for s in plan:
        assert (s.kind, s.iters) == ("intervals", 300)
        assert s.noise == ("t2" if s.loss == "lad" else "normal")
    assert interval_times(300) == [5, 8, 14, 23, 39, 65, 108, 180, 300]
    assert interval_times(2) == [2]


def test_only_choices_take_as_many_iterations_as_pay(tmp_path):
    with pytest.raises(ValueError, match="'risk' requires at least two iterations"):
        run_study(STUDIES["risk"], tmp_path, replace(SMALL["risk"], iters=0))
    for few in (1, -1):
        with pytest.raises(ValueError, match="iters"):
            Sizes(reps=2, n=(40,), p=(8,), iters=few)


@EVERY
def test_settings_of_a_plan_differ(name):
    for sizes in (STUDIES[name].full, STUDIES[name].quick, SMALL[name]):
        plan = STUDIES[name].plan(sizes)
        assert len({s.key for s in plan}) == len(plan)


# Risk


def check_curves(table, columns, names):
    """Return means and standard errors of the columns for each iterate."""
    for t, row in enumerate(table):
        assert row["iterate"] == t
        for name in names:
            values = columns[name][:, t]
            assert row[name] == pytest.approx(sum(values) / len(values))
            assert row[f"{name}_se"] == pytest.approx(stats.sem(values))


def test_curves_of_universality():
    results = results_of("universality")
    exhibits = exhibits_of("universality", results)
    assert len(exhibits) == 4
    for s, columns in results.items():
        exhibit = exhibits[f"universality-{s.loss.replace('_', '-')}-n{s.n}-p{s.p}"]
        table = rows_of(exhibit.table, penalty=s.penalty, design=s.rows)
        assert len(table) == s.iters + 1
        check_curves(table, columns, ("truth", "tilde", "hat"))


def test_curves_of_risk():
    results = results_of("risk")
    exhibits = exhibits_of("risk", results)
    for s, columns in results.items():
        own = {"loss": s.loss, "penalty": s.penalty}
        table = rows_of(exhibits[f"risk-n{s.n}-p{s.p}"].table, **own)
        assert len(table) == s.iters + 1
        check_curves(table, columns, ("truth", "tilde", "hat", "train"))
        table = rows_of(exhibits[f"risk-errors-n{s.n}-p{s.p}"].table, **own)
        errors = {way: columns[way] - columns["truth"] for way in ("tilde", "hat")}
        away = {way: np.array([e - e[0] for e in error]) for way, error in errors.items()}
        check_curves(table, away, away)


def test_summary_of_risk():
    results = results_of("risk")
    summary = STUDIES["risk"].summary(results)
    assert len(summary) == 2 * len(results)
    for s, columns in results.items():
        for way in ("tilde", "hat"):
            (row,) = rows_of(summary, pair=s.pair, p=s.p, estimate=NAMES[way])
            error = columns[way] - columns["truth"]
            p_values = stats.ttest_1samp(error, 0).pvalue
            limit = 2 * stats.t.sf(2, df=4)  # two standard errors, with five replications
            assert row["within 2 s.e."] == pytest.approx(np.mean(p_values >= limit))
            error = (error.T - error[:, 0])[1:]
            p_values = stats.ttest_1samp(error, 0, axis=1).pvalue
            assert row["centred"] == pytest.approx(np.mean(p_values >= limit))
            at = row["at"]
            assert abs(row["worst bias"]) == pytest.approx(max(abs(error.mean(axis=1))))
            assert row["worst bias"] == pytest.approx(error[at - 1].mean())
            assert row["its s.e."] == pytest.approx(stats.sem(error[at - 1]))
            assert row["risk"] == pytest.approx(columns["truth"][:, at].mean())
            assert row["reps"] == 5


# Universality


def test_summary_of_universality():
    results = results_of("universality")
    summary = STUDIES["universality"].summary(results)
    assert len(summary) == 3 * len(results) / 2
    for s, gaussian in results.items():
        if s.rows != "gaussian":
            continue
        uniform = results[replace(s, rows="uniform")]
        for name in ("truth", "tilde", "hat"):
            (row,) = rows_of(summary, pair=s.pair, p=s.p, curve=NAMES[name])
            a, b = gaussian[name], uniform[name]
            low, high = ([c.mean(axis=0) + sign * stats.sem(c) for c in (a, b)] for sign in (-2, 2))
            overlap = np.max(low, axis=0) <= np.min(high, axis=0)
            assert row["bands overlap"] == pytest.approx(overlap[1:].mean())
            paired = np.abs(stats.ttest_rel(a, b).statistic[1:]) <= 2
            assert row["paired difference within 2 s.e."] == pytest.approx(paired.mean())
            relative = np.abs(b.mean(axis=0) / a.mean(axis=0) - 1).max()
            assert row["largest, %"] == pytest.approx(100 * relative)


# Rates


def power_laws(sizes, exponents, noise=0.0):
    """Return results with errors of known sizes and random signs, and a common error."""
    rng = np.random.default_rng(0)
    results = {}
    for s in STUDIES["rates"].plan(sizes):
        shape = (sizes.reps, s.iters + 1)
        truth = rng.uniform(1, 2, shape)
        tilde = rng.choice([-1, 1], shape) * s.n ** exponents[0]
        gap = np.sign(tilde) * s.n ** exponents[1]  # of the same sign, so that sizes add up
        tilde[:, 0] = gap[:, 0] = 0
        spread = np.exp(noise * rng.standard_normal((sizes.reps, 1)))
        shared = rng.standard_cauchy((sizes.reps, 1))
        columns = {"truth": truth, "tilde": truth + shared + tilde * spread}
        results[s] = columns | {"hat": columns["tilde"] + gap * spread}
    return results


def test_table_and_slopes_of_rates():
    sizes = Sizes(reps=6, n=(100, 200, 400, 3200), p=(), iters=5)
    results = power_laws(sizes, (-0.5, -0.25), noise=0.3)
    (exhibit,) = STUDIES["rates"].exhibits(results)
    assert len(exhibit.table) == len(results)
    for s, columns in results.items():
        (row,) = rows_of(exhibit.table, loss=s.loss, penalty=s.penalty, n=s.n, p=s.p)
        for name, one, other in (
            ("tilde", "tilde", "truth"),
            ("hat", "hat", "truth"),
            ("gap", "hat", "tilde"),
        ):
            error = [
                np.mean([abs((a[t] - a[0]) - (b[t] - b[0])) for t in range(1, s.iters + 1)])
                for a, b in zip(columns[one], columns[other], strict=True)
            ]
            assert row[name] == pytest.approx(np.mean(error))
            assert row[f"{name}_se"] == pytest.approx(stats.sem(error))
    for found in STUDIES["rates"].summary(results):
        name = {"|R̃ − R|": "tilde", "|R̂ − R|": "hat", "|R̂ − R̃|": "gap"}[found["error"]]
        rows = [r for r in exhibit.table if TITLES[r["loss"], r["penalty"]] == found["pair"]]
        n, mean, error = (column(rows, key) for key in ("n", name, f"{name}_se"))
        fit = np.polyfit(np.log(n), np.log(mean), 1)
        assert found["slope"] == pytest.approx(fit[0])
        # linear in the logarithms, whose standard errors are relative ones
        moved = [np.polyfit(np.log(n), np.eye(4)[k] * error[k] / mean[k], 1)[0] for k in range(4)]
        assert found["s.e."] == pytest.approx(math.hypot(*moved))


# Stopping


def test_regret_by_hand():
    ways = ("hat", "audited", "tilde", "five", "ten", "loo")
    config = Configuration("lad", "ridge", 40, 8, 3, ways, "gaussian", "t2")
    truth = np.array([[4.0, 2.0, 3.0, 5.0], [4.0, 3.0, 2.0, 2.5]])
    columns = {"truth": truth, "hat": truth + 7}  # chooses the best
    columns["tilde"] = np.array([[0.0, 1.0, 1.0, 1.0]] * 2)  # 4 in place of 2, twice
    columns["five"] = np.array([[1.0, 1.0, 0.0, 0.0]] * 2)  # the first of two: 3 and 2
    columns["ten"] = np.array([[1.0, 0.0, 1.0, 1.0]] * 2)  # 2 and 3
    columns["loo"] = columns["audited"] = -truth  # the worst: 5 and 4
    (row,) = STUDIES["stopping"].summary({config: columns})
    expected = {"hat": 0, "tilde": 100, "five": 25, "ten": 25, "loo": 125, "audited": 125}
    for way, percent in (expected | {"last": 87.5}).items():
        assert row[NAMES[way]] == pytest.approx(percent)
    assert (row["pair"], row["reps"], row["best iterate"]) == ("LAD–ridge", 2, 1.5)
    (exhibit,) = STUDIES["stopping"].exhibits({config: columns})
    found = {(r["way"], r["replication"]): r for r in exhibit.table}
    assert len(found) == len(exhibit.table) == 2 * 7
    expected = {("five", 0): (2, 1, 0.5), ("five", 1): (2, 2, 0), ("last", 1): (3, 2, 0.25)}
    for key, values in expected.items():
        assert tuple(found[key][name] for name in ("chosen", "best", "regret")) == values


# Coverage


def test_coverage_one_by_one():
    results = results_of("coverage")
    summary = STUDIES["coverage"].summary(results)
    (exhibit,) = STUDIES["coverage"].exhibits(results)
    for s, columns in results.items():
        table = rows_of(exhibit.table, loss=s.loss, penalty=s.penalty)
        for way in ("tilde", "hat", "audited"):
            low = columns[way] - 2 * columns[f"{way}_stderr"]
            high = columns[way] + 2 * columns[f"{way}_stderr"]
            covered = (low <= columns["truth"]) & (columns["truth"] <= high)
            np.testing.assert_allclose(column(table, way), covered.mean(axis=0))
            (row,) = rows_of(summary, pair=s.pair, estimate=NAMES[way])
            assert row["all iterates"] == pytest.approx(covered.mean())
            assert row["last"] == pytest.approx(np.mean([c[-1] for c in covered]))
            chosen = [list(e).index(min(e)) for e in columns[way]]
            assert row["chosen"] == pytest.approx(
                np.mean([c[t] for c, t in zip(covered, chosen, strict=True)])
            )
            assert row["reps"] == 5


# Mis-specified


def test_summary_of_mis_specified():
    results = results_of("mis-specified")
    summary = STUDIES["mis-specified"].summary(results)
    assert len(summary) == 3 * len(results)
    for s, columns in results.items():
        for way in ("hat", "scaled", "safe"):
            (row,) = rows_of(summary, data=s.rows, pair=s.pair, estimate=NAMES[way])
            ends = [sum(columns[name][:, -1]) for name in (way, "truth")]
            assert row["bias at the end, %"] == pytest.approx(100 * (ends[0] - ends[1]) / ends[1])
            z = (columns[way] - columns["truth"]) / columns[f"{way}_stderr"]
            assert row["± 2 s.e. covers"] == pytest.approx(np.mean(np.abs(z[:, 1:]) <= 2))
            if way == "safe":
                assert row["warned"] == pytest.approx(columns["safe_warned"].mean())
            else:
                assert row["warned"] == ""


def test_curves_of_mis_specified():
    results = results_of("mis-specified")
    (exhibit,) = STUDIES["mis-specified"].exhibits(results)
    for s, columns in results.items():
        table = rows_of(exhibit.table, data=s.rows, loss=s.loss, penalty=s.penalty)
        assert len(table) == s.iters + 1
        check_curves(table, columns, ("truth", "hat", "scaled", "safe"))
        assert {(r["n"], r["p"]) for r in table} == {(s.n, s.p)}
        assert {r["warned"] for r in table} == {columns["safe_warned"][:, 0].mean()}


def test_long_curves_are_thinned_but_keep_their_ends():
    results = results_of("mis-specified", Sizes(reps=2, n=(40,), p=(8,), iters=250))
    (exhibit,) = STUDIES["mis-specified"].exhibits(results)
    few = next(s for s in results if s.rows == "few rows")
    table = rows_of(exhibit.table, data="few rows", loss=few.loss)
    found = column(table, "iterate")
    assert len(found) < 700
    np.testing.assert_allclose(column(table, "hat"), results[few]["hat"].mean(axis=0)[found])
    assert (found[0], found[-1]) == (0, few.iters)


# Late


def test_summary_of_late():
    results = results_of("late")
    summary = STUDIES["late"].summary(results)
    assert len(summary) == 3 * len(results)
    for s, columns in results.items():
        for way in ("unaudited", "audited", "folds"):
            (row,) = rows_of(summary, pair=s.pair, n=s.n, p=s.p, estimate=NAMES[way])
            off, silent = [], 0
            z = (columns[way] - columns["truth"]) / columns[f"{way}_stderr"]
            for r, truth in enumerate(columns["truth"]):
                late = [abs(v) > 3 for v in z[r, 2 * list(truth).index(min(truth)) + 1 :]]
                off += late
                silent += any(late) and not columns.get(f"{way}_warned", z)[r, 0]
            share = sum(off) / len(off) if off else 0
            assert row["late iterates off by 3 s.e."] == pytest.approx(share)
            truth, error = (columns[name][:, -1] for name in ("truth", way))
            error = 100 * (error - truth) / np.mean(truth)
            assert row["error at the end, %"] == pytest.approx(error.mean())
            assert row["its s.e."] == pytest.approx(stats.sem(error))
            assert row["± 2 s.e. covers the last"] == np.mean(np.abs(z[:, -1]) <= 2)
            assert row["all"] == pytest.approx(np.mean(np.abs(z) <= 2))
            if way == "unaudited":
                assert row["warned"] == columns["unaudited_warned"][:, 0].mean()
                assert row["off, not warned"] == silent / 5
            else:
                assert row["warned"] == row["off, not warned"] == ""
    assert max(row["late iterates off by 3 s.e."] for row in summary) > 0


def test_late_iterates_one_by_one():
    (config, columns), *_ = results_of("late", Sizes(reps=3, n=(20,), p=(), iters=4)).items()
    shape = columns["truth"].shape
    # the best iterates are 1, 0 and 4: two, four and no late ones
    columns["truth"] = np.array([[3, 1, 2, 2, 2], [1, 2, 2, 2, 2], [5, 4, 3, 2, 1]], float)
    error = np.array([[9, 9, 9, 3.1, 2.9], [9, 3.1, 2.9, -2.9, -3.1], [9, 9, 9, 9, 9]])
    columns |= {"unaudited": columns["truth"] + 0.1 * error}
    columns |= {"unaudited_stderr": np.full(shape, 0.1)}
    columns["unaudited_warned"] = np.repeat([[0.0], [1.0], [0.0]], shape[1], axis=1)
    (row,) = rows_of(STUDIES["late"].summary({config: columns}), estimate="R̂ unaudited")
    assert row["late iterates off by 3 s.e."] == 0.5
    assert (row["off, not warned"], row["warned"]) == (1 / 3, 1 / 3)


def test_curves_of_late():
    results = results_of("late")
    exhibits = exhibits_of("late", results)
    assert set(exhibits) == {"late-n20", "late-n40"}
    for s, columns in results.items():
        own = {"loss": s.loss, "penalty": s.penalty, "n": s.n, "p": s.p}
        table = rows_of(exhibits[f"late-n{s.n}"].table, **own)
        assert len(table) == s.iters + 1
        check_curves(table, columns, ("truth", "unaudited", "audited", "folds"))
        best = np.median([list(truth).index(min(truth)) for truth in columns["truth"]])
        assert {row["twice_best"] for row in table} == {2 * best}


# Choice

LEFT_OUT = {"rows": "rows", "groups": "clusters", "time": "later rows"}


def test_summary_of_choice():
    results = results_of("choice")
    summary = STUDIES["choice"].summary(results)
    assert len(summary) == sum(len(s.ways) for s in results)
    for s, columns in results.items():
        labels = {"data": s.rows, "noise": s.noise, "pair": s.pair, "n": s.n, "p": s.p}
        for way in s.ways:
            (row,) = rows_of(summary, **labels, **{"left out": LEFT_OUT[way]})
            found = {
                key.removeprefix(f"{way}_"): values.ravel()
                for key, values in columns.items()
                if key.startswith(way)
            }
            truth = found["truth"]
            assert row["reps"] == 5
            assert row["error"] == pytest.approx(truth.sum() / 5)
            for name in ("naive", "honest"):
                error = found[name] - truth
                bias = 100 * (found[name].sum() / truth.sum() - 1)
                assert row[f"{name} bias, %"] == pytest.approx(bias)
                stderr = 100 * stats.sem(error) / truth.mean()
                assert row[f"{name} s.e."] == pytest.approx(stderr)
                inside = [
                    abs(e) <= 2 * d for e, d in zip(error, found[f"{name}_stderr"], strict=True)
                ]
                assert row[f"{name} ± 2 s.e. covers"] == sum(inside) / 5
            assert row["90% interval covers"] == pytest.approx(found["covered"].mean())
            assert row["its s.e."] == pytest.approx(stats.sem(found["covered"]))
            assert row["width"] == pytest.approx(found["width"].mean())


# Figures


@EVERY
def test_tables_are_plain(name):
    """Tables contain all numbers of a figure, and are written to files."""
    results = results_of(name)
    tables = [exhibit.table for exhibit in STUDIES[name].exhibits(results)]
    for table in (*tables, STUDIES[name].summary(results)):
        assert len({tuple(row) for row in table}) == 1
        assert json.loads(json.dumps(table)) == table


CURVES = {
    "risk-n": (("truth", "tilde", "hat"), ("loss", "penalty")),
    "risk-errors": (("tilde", "hat"), ("loss", "penalty")),
    "universality": (("truth", "tilde", "hat"), ("loss", "penalty", "design")),
    "coverage": (("tilde", "hat", "audited"), ("loss", "penalty")),
    "mis-specified": (("truth", "hat", "scaled", "safe"), ("loss", "penalty", "data")),
    "late": (("truth", "unaudited", "audited", "folds"), ("loss", "penalty", "n", "p")),
    "margins-": (("truth", "hat", "mended", "burman", "train"), ("loss", "penalty")),
    "intervals-": (("zero", "nonzero", "width"), ("loss", "penalty")),
}


@pytest.mark.parametrize("start", CURVES)
def test_curves_and_bands_of_a_table_are_drawn(start):
    names, keys = CURVES[start]
    study = next(name for name in STUDIES if start.startswith(name))
    exhibits = exhibits_of(study, results_of(study))
    exhibits = [exhibit for name, exhibit in exhibits.items() if name.startswith(start)]
    assert exhibits
    for exhibit in exhibits:
        figure = drawn(exhibit)
        groups = {tuple(row[key] for key in keys) for row in exhibit.table}
        for group in groups:
            rows = rows_of(exhibit.table, **dict(zip(keys, group, strict=True)))
            t, title = column(rows, "iterate"), pair_title(*group[:2])
            for name in names:
                mean = column(rows, name)
                panels = [
                    ax
                    for ax in figure.axes
                    if name == "width"  # which is below its coverage
                    or title in (ax.get_title(), ax.get_ylabel(), ylabel_of(ax))
                ]
                assert any(has_curve(ax, t, mean) for ax in panels)
                if f"{name}_se" in rows[0]:
                    error = 2 * column(rows, f"{name}_se")
                    assert any(has_band(ax, t, mean - error, mean + error) for ax in panels)
        assert len(figure.legends) == 1


def ylabel_of(ax):
    """Return the label of the y axis of the first panel of a row."""
    row = ax.get_subplotspec().rowspan
    return next(
        other.get_ylabel()
        for other in ax.figure.axes
        if other.get_subplotspec().rowspan == row and other.get_subplotspec().is_first_col()
    )


BARS = {
    "choice": ("naive_bias", "honest_bias", "interval"),
    "margins": ("rms", "covers"),
    "intervals": ("zero_shortest", "nonzero_shortest", "false"),
}


@pytest.mark.parametrize("name", BARS)
def test_bars_of_a_table_are_drawn(name):
    exhibit = exhibits_of(name, results_of(name))[name]
    figure = drawn(exhibit)
    bars = {}
    for ax in figure.axes:
        for container in ax.containers:
            points, _, (lines,) = container.lines
            ends = np.array([segment[:, 0] for segment in lines.get_segments()])
            bars[tuple(np.round(points.get_xdata(), 9))] = ends
    for measure in BARS[name]:
        risks = {(r.get("risk"), r.get("way")) for r in exhibit.table}
        for risk, way in risks:
            rows = [r for r in exhibit.table if (r.get("risk"), r.get("way")) == (risk, way)]
            mean, error = column(rows, measure), 2 * column(rows, f"{measure}_se")
            ends = bars[tuple(np.round(mean, 9))]
            np.testing.assert_allclose(ends, np.transpose([mean - error, mean + error]))
    labels = [text.get_text() for text in figure.axes[0].get_yticklabels()]
    assert len(set(labels)) == len(labels) == len(exhibit.table) / len(risks)
    for row, label in zip(exhibit.table[:: len(risks)], labels, strict=True):
        assert label.startswith(f"{pair_title(row['loss'], row['penalty'])} {row['n']}×{row['p']}")
        if name == "choice":
            independent = row["data"] == "independent"
            assert (row["noise"] if independent else row["data"]) in label
            assert (f"{LEFT_OUT[row['left_out']]} held out" in label) is not independent


def test_figure_of_rates():
    sizes = Sizes(reps=6, n=(100, 200, 400, 3200), p=(), iters=5)
    results = power_laws(sizes, (-0.5, -0.25), noise=0.3)
    (exhibit,) = STUDIES["rates"].exhibits(results)
    figure = drawn(exhibit)
    summary = STUDIES["rates"].summary(results)
    titles = ["LAD–ridge", "LAD–lasso", "square root–ridge", "square root–lasso"]
    assert [ax.get_title() for ax in figure.axes] == titles
    for ax, pair in zip(figure.axes, titles, strict=True):
        rows = [r for r in exhibit.table if TITLES[r["loss"], r["penalty"]] == pair]
        slopes = {row["error"]: row["slope"] for row in rows_of(summary, pair=pair)}
        for name, container in zip(("tilde", "hat", "gap"), ax.containers, strict=True):
            points, _, (bars,) = container.lines
            mean, error = column(rows, name), column(rows, f"{name}_se")
            np.testing.assert_allclose(points.get_ydata(), mean)
            ends = np.array([segment[:, 1] for segment in bars.get_segments()])
            np.testing.assert_allclose(ends, np.transpose([mean - 2 * error, mean + 2 * error]))
        fits = [
            np.polyfit(*np.log(np.transpose(xy)), 1)[0]
            for xy, line in zip(lines(ax), ax.lines, strict=True)
            if line.get_linestyle() != "None"
        ]
        for expected in (*slopes.values(), -0.5, -0.25):
            assert np.min(np.abs(np.array(fits) - expected)) < 1e-9
        texts = " ".join(text.get_text() for text in ax.texts).replace("−", "-")
        assert all(f"{value:.2f}" in texts for value in slopes.values())


def test_figures_of_stopping():
    exhibits = exhibits_of("stopping", results_of("stopping"))
    assert set(exhibits) == {"stopping-n40-p8", "stopping-n40-p12"}
    exhibit = exhibits["stopping-n40-p8"]
    figure = drawn(exhibit)
    assert [ax.get_title() for ax in figure.axes] == list(TITLES.values())
    for ax, (loss, penalty) in zip(figure.axes, TITLES, strict=True):
        ways = ("hat", "audited", "tilde", "five", "ten", "loo")
        for way, container in zip(ways, ax.containers, strict=True):
            rows = rows_of(exhibit.table, loss=loss, penalty=penalty, way=way)
            regret = 100 * column(rows, "regret")
            assert container.lines[0].get_ydata() == pytest.approx([regret.mean()])
            (segment,) = container.lines[2][0].get_segments()
            assert np.ptp(segment[:, 1]) == pytest.approx(4 * stats.sem(regret))
            assert any(len(xy) == len(regret) and np.allclose(xy[:, 1], regret) for xy in lines(ax))


def test_bands_of_nominal_coverage_are_drawn():
    (exhibit,) = STUDIES["coverage"].exhibits(results_of("coverage"))
    figure = drawn(exhibit)
    nominal = math.erf(math.sqrt(2))
    ax = figure.axes[0]
    low = ax.patches[0].get_extents().transformed(ax.transData.inverted()).y0
    assert low == pytest.approx(nominal - 2 * math.sqrt(nominal * (1 - nominal) / 5), abs=1e-6)
    assert "95.4%" in figure.legends[0].get_texts()[-1].get_text()


def test_panels_of_late_show_twice_the_best_iterate():
    exhibit, _ = STUDIES["late"].exhibits(results_of("late"))
    figure = drawn(exhibit)
    assert len(figure.axes) == 15
    places = set()
    for ax in figure.axes:
        p = int(ax.get_title().removeprefix("n=20, p="))
        loss, penalty = next(pair for pair in TITLES if TITLES[pair] == ylabel_of(ax))
        rows = rows_of(exhibit.table, loss=loss, penalty=penalty, p=p)
        places.add(place := rows[0]["twice_best"])
        shown = {tuple(xy[:, 0]) for xy in lines(ax) if len(xy) == 2}
        assert shown == ({(place, place)} if place <= 6 else set())
    assert min(places) <= 6 < max(places)  # both cases are tested


def test_panels_of_mis_specified_show_warnings_and_the_ends_of_curves():
    (exhibit,) = STUDIES["mis-specified"].exhibits(results_of("mis-specified"))
    figure = drawn(exhibit)
    assert len(figure.axes) == 14
    for ax in figure.axes:
        data, size, rest = ax.get_title().split(", ")
        pair = next(pair for pair in TITLES if TITLES[pair] == ax.get_ylabel())
        rows = rows_of(exhibit.table, data=data, loss=pair[0], penalty=pair[1])
        assert size == f"n={rows[0]['n']}"
        assert rest == f"p={rows[0]['p']}: {100 * rows[0]['warned']:.0f}% warn"
        low, high = ax.get_ylim()
        ends = [rows[-1][name] for name in ("truth", "hat", "scaled", "safe")]
        assert low < min(ends) <= max(ends) < high


def test_summary_of_margins():
    results = results_of("margins")
    summary = STUDIES["margins"].summary(results)
    assert len(summary) == 2 * 3 * len(results)
    names = {"hat": "R̂", "mended": "audited by 64 rows", "burman": "10-fold, corrected"}
    for s, columns in results.items():
        for risk, title in (("zero_one", "error rate"), ("matched", "loss")):
            truth = columns[f"{risk}_truth"]
            for way, estimate in names.items():
                where = {"classes": s.rows.split()[0], "pair": s.pair, "p": s.p, "risk": title}
                (row,) = rows_of(summary, estimate=estimate, **where)
                error = columns[f"{risk}_{way}"] - truth
                assert (row["n"], row["reps"]) == (40, 5)
                assert row["truth"] == pytest.approx(truth[:, -1].mean())
                assert row["training"] == pytest.approx(columns[f"{risk}_train"][:, -1].mean())
                assert row["bias at the end"] == pytest.approx(error[:, -1].mean())
                assert row["its s.e."] == pytest.approx(stats.sem(error[:, -1]))
                rms = [math.sqrt(sum(e[1:] ** 2) / s.iters) for e in error]
                assert row["rms"] == pytest.approx(np.mean(rms))
                stderr = columns[f"{risk}_{way}_stderr"]
                within = (abs(error) <= 2 * stderr)[:, 1:].mean(axis=1)
                assert row["± 2 s.e. covers"] == pytest.approx(within.mean())
                assert row["s.e. of that"] == pytest.approx(stats.sem(within))


def test_summary_of_intervals():
    results = results_of("intervals")
    summary = STUDIES["intervals"].summary(results)
    assert len(summary) == len(results) == 8 * (2 * 2 + 1)
    titles = {"known": "covariance", "nodewise": "node-wise lasso"}
    for (s, columns), row in zip(results.items(), summary, strict=True):
        (way,) = s.ways
        found = {name.removeprefix(f"{way}_"): values for name, values in columns.items()}
        assert (row["design"], row["pair"], row["n"], row["p"]) == (s.rows, s.pair, s.n, s.p)
        assert (row["scores"], row["reps"]) == (titles[way], 5)
        along, shortest, by_risk = found["covers"][:, :-2], -2, -1
        assert row["covers"] == pytest.approx(along.mean())
        assert row["lowest"] == pytest.approx(min(along.mean(axis=0)))
        assert row["highest"] == pytest.approx(max(along.mean(axis=0)))
        assert row["nonzero"] == pytest.approx(found["nonzero"][:, :-2].mean())
        assert row["shortest"] == np.median(found["iterate"][:, shortest])
        assert row["covers there"] == pytest.approx(found["covers"][:, shortest].mean())
        assert row["nonzero there"] == pytest.approx(found["nonzero"][:, shortest].mean())
        assert row["smallest risk"] == pytest.approx(found["covers"][:, by_risk].mean())
        assert row["width"] == pytest.approx(found["width"][:, shortest].mean())
        ratio = found["width"][:, shortest] / found["width"][:, -3]
        assert row["relative to last"] == pytest.approx(np.median(ratio))
        for title, name in (("FDR", "false"), ("power", "power"), ("FWER", "any_false")):
            assert row[title] == pytest.approx(found[name][:, shortest].mean())


def test_curves_of_margins_and_intervals():
    results = results_of("margins")
    exhibits = exhibits_of("margins", results)
    classes = ("equal", "unequal")
    curves = {f"margins-{c}-n40-p{p}" for c in classes for p in (8, 12)}
    assert set(exhibits) == {"margins", *curves}
    for s, columns in results.items():
        table = exhibits[f"margins-{s.rows.split()[0]}-n{s.n}-p{s.p}"].table
        rows = rows_of(table, loss=s.loss, penalty=s.penalty)
        names = ("truth", "hat", "mended", "burman", "train")
        check_curves(rows, {name: columns[f"zero_one_{name}"] for name in names}, names)
    results = results_of("intervals")
    exhibits = exhibits_of("intervals", results)
    known = {f"intervals-known-{rows}-n40-p{p}" for rows in BOTH for p in (8, 12)}
    assert set(exhibits) == {"intervals", *known, "intervals-nodewise-gaussian-n20-p10"}
    times = interval_times(6)
    for s, columns in results.items():
        (way,) = s.ways
        table = exhibits[f"intervals-{way}-{s.rows}-n{s.n}-p{s.p}"].table
        rows = rows_of(table, loss=s.loss, penalty=s.penalty)
        assert column(rows, "iterate").tolist() == times
        widths = columns[f"{way}_width"]
        curves = {name: columns[f"{way}_{name}"] for name in ("zero", "nonzero")}
        curves["width"] = widths / widths[:, [len(times) - 1]]
        for name, values in curves.items():
            along = values[:, : len(times)]
            np.testing.assert_allclose(column(rows, name), along.mean(axis=0))
            np.testing.assert_allclose(column(rows, f"{name}_se"), stats.sem(along))


# All together


@EVERY
def test_replications_are_what_a_study_expects(name):
    study = STUDIES[name]
    sizes = replace(SMALL[name], reps=2, n=SMALL[name].n[:2], p=SMALL[name].p[:1], iters=3)
    results = {}
    for config in study.plan(sizes):
        parts = [replicate(config, seed) for seed in range(2)]
        results[config] = {key: np.stack([part[key] for part in parts]) for key in parts[0]}
    for row in study.summary(results):
        assert all(math.isfinite(v) for v in row.values() if isinstance(v, float))
    for exhibit in study.exhibits(results):
        assert drawn(exhibit).axes
