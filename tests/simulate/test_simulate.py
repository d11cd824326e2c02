"""Simulated data and exact risks, compared with Monte Carlo and closed forms."""

import math

import numpy as np
import pytest
from scipy import integrate, special, stats

import steinpath as sp
from steinpath.problem._scoring import CRITERIA, resolve_test_loss
from steinpath.simulate import LinearModel, Noise, paper_model, sparse_signal, toeplitz
from steinpath.simulate._transforms import uniform

NOISES = ["normal", "t2", "t3.5", "laplace", "none"]


def test_the_papers_model():
    model = paper_model(50, "t2")
    assert model.covariance[3, 5] == 0.25
    assert (model.coef[5:] == 0).all()
    assert (model.coef[:5] == model.coef[0]).all()
    assert model.coef @ model.covariance @ model.coef == pytest.approx(2)
    np.testing.assert_allclose(model.root @ model.root, model.covariance, atol=1e-12)
    other = paper_model(50, covariance=np.eye(50))
    assert other.coef @ other.coef == pytest.approx(2)


@pytest.mark.parametrize("design", ["gaussian", "uniform", "t8"])
def test_samples_have_the_moments_asked_for(design):
    mean = np.array([0.0, 1.0, -2.0])
    model = LinearModel([1.0, 2.0, 0.0], toeplitz(3), "normal", design, mean, intercept=4.0)
    X, y = model.sample(200_000, rng=0)
    np.testing.assert_allclose(X.mean(axis=0), mean, atol=0.02)
    np.testing.assert_allclose(np.cov(X.T), toeplitz(3), atol=0.02)
    noise = y - 4.0 - X @ model.coef
    assert abs(noise.mean()) < 0.01
    assert noise.var() == pytest.approx(1, abs=0.02)
    bounded = np.abs((X - mean) @ np.linalg.inv(model.root)).max() < math.sqrt(3) + 1e-9
    assert bounded == (design == "uniform")
    np.testing.assert_array_equal(model.sample(5, rng=3).X, model.sample(5, rng=3).X)


#: Scoring losses for numeric responses.
REGRESSION = [name for name, kind in CRITERIA.items() if not kind.margin]


@pytest.mark.slow
@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("design", ["gaussian", "uniform", "t4"])
def test_exact_risks_are_those_of_monte_carlo(noise, design):
    """Every scoring loss, with and without errors in coefficients and intercept."""
    p, draws = 8, 400_000
    model = LinearModel(
        sparse_signal(toeplitz(p)), toeplitz(p), Noise(noise, 0.8), design, mean=0.3, intercept=1.0
    )
    rng = np.random.default_rng(0)
    coef = np.vstack([0 * model.coef, model.coef + 0.2 * rng.standard_normal(p), model.coef])
    intercept = np.array([0.0, 0.7, 1.3])
    if noise == "laplace" and design != "gaussian":  # without errors in coefficients the design
        coef, intercept = coef[:2], intercept[:2]  # does not matter, and the integrals take seconds
    X, y = model.sample(draws, rng)
    predictions = X @ coef.T + intercept
    for test_loss in (*REGRESSION, sp.Quantile(0.85), sp.Huber(0.4)):
        exact = model.risk(coef, test_loss, intercept)
        if noise == "t2" and test_loss == "squared":
            assert np.isinf(exact).all()
            continue
        if design == "t4" and test_loss == "squared":
            continue  # infinite fourth moments, hence infinite standard errors
        losses = resolve_test_loss(test_loss)(y[:, None], predictions)
        stderr = losses.std(axis=0) / math.sqrt(draws)
        assert (np.abs(exact - losses.mean(axis=0)) <= 4 * stderr + 1e-9).all()


def test_absolute_risk_of_a_gaussian_design_in_closed_form():
    """Folded normal given the noise, then an integral over the noise (Student t₂)."""
    model = paper_model(30, "t2")
    coef = model.coef * np.linspace(0, 0.99, 7)[:, None]
    size = np.sqrt(np.einsum("ij,jk,ik->i", coef - model.coef, model.covariance, coef - model.coef))

    def folded(noise):
        z = noise / size
        mean = size * math.sqrt(2 / math.pi) * np.exp(-(z**2) / 2) + noise * (
            1 - 2 * stats.norm.cdf(-z)
        )
        return 2 * mean * stats.t.pdf(noise, 2)

    expected, _ = integrate.quad_vec(lambda x: folded(x / (1 - x)) / (1 - x) ** 2, 0, 1)
    np.testing.assert_allclose(model.risk(coef, "absolute"), expected, rtol=1e-9)


def test_normal_design_and_noise_add_up():
    model, share = paper_model(30, "normal"), np.linspace(0, 1, 5)
    coef, total = model.coef * (1 - share)[:, None], np.sqrt(1 + 2 * share**2)
    absolute = total * math.sqrt(2 / math.pi)
    np.testing.assert_allclose(model.risk(coef, "absolute"), absolute, rtol=1e-10)
    np.testing.assert_allclose(model.risk(coef, "squared"), total**2)
    for name in ("huber", "pseudo_huber", "epsilon_insensitive"):
        criterion = resolve_test_loss(name)
        expected = [
            integrate.quad(
                lambda x, s=s, c=criterion: 2 * c(s * x, 0.0) * stats.norm.pdf(x),
                0,
                40,
                points=[0.1 / s, 1.35 / s],
            )[0]
            for s in total
        ]
        np.testing.assert_allclose(model.risk(coef, name), expected, rtol=1e-8)


def test_uniform_design_of_one_feature():
    """E|ε - U d| with ε normal: a double integral by quadrature."""
    model = LinearModel([1.0], noise="normal", design="uniform")
    half = math.sqrt(3) * 2.0

    def given(x):
        return math.sqrt(2 / math.pi) * math.exp(-(x**2) / 2) + x * (1 - 2 * stats.norm.cdf(-x))

    expected = integrate.quad(given, 0, half)[0] / half
    assert model.risk(np.array([3.0]), "absolute") == pytest.approx(expected, rel=1e-9)


def sincs(s, spread):
    """Return φ = ∏ sin x / x, the terms of f = -s φ' / φ, and bounds of those of s f'."""
    x = np.longdouble(s) * np.longdouble(math.sqrt(3) * np.abs(spread))
    y = np.maximum(x, 0.03)  # below, 1 - x cot x suffers from cancellation; its series does not
    series = x**2 / 3 + x**4 / 45 + 2 * x**6 / 945 + x**8 / 4725
    fall = np.where(x < y, series, 1 - y / np.tan(y))
    phi = np.prod(np.where(x > 0, np.sin(x) / np.where(x > 0, x, 1), 1))
    return phi, fall, np.where(x < y, 3 * series, np.abs(y / np.tan(y) - (y / np.sin(y)) ** 2))


ROWS = {
    "equal": np.full((1, 300), 0.1),
    "a power of two apart": 2.0 ** -np.arange(24)[None],
    "few large and many small": np.r_[[3.0, -1.0], np.full(400, 1e-3)][None],
    "normal": np.random.default_rng(0).standard_normal((3, 200)),
    "of many sizes": 10 ** np.random.default_rng(1).uniform(-9, 0, (3, 100)),
    "zeros and others": np.array([[0.0, 0.0, 0.0], [0.0, 2.0, 0.0], [1.0, 0.0, -1e-200]]),
    "one entry": np.array([[1.0], [0.0], [-1e-7], [1e5]]),
}


@pytest.mark.parametrize("spread", ROWS.values(), ids=ROWS)
def test_transforms_of_uniform_sums_are_products(spread):
    """On both sides of every size of entry, to rounding; values below e^-60 may be zero."""
    size = np.abs(spread).max(axis=1)
    transform = uniform(spread)
    for x in np.exp(np.arange(-20, 14, 0.13)):
        s = x / np.where(size > 0, size, 1)
        found = transform(s)
        for row, entries in enumerate(spread):
            phi, fall, rate = sincs(s[row], entries)
            terms, rounding = np.abs(fall).sum(), 4e-16  # relative, of s times an entry
            tolerance = (1e-13 + rounding * terms) * abs(phi) + math.exp(-60)
            assert abs(found.value[row] - phi) <= tolerance
            slope = found.slope[row] * s[row] ** 2
            tolerance = tolerance * terms + rounding * rate.sum() * abs(phi)
            assert abs(slope - phi * fall.sum()) <= tolerance


@pytest.mark.parametrize("df", [2.5, 4, 30])
def test_rows_of_a_student_design_have_one_random_size_each(df):
    p, mean = 3, np.array([0.0, 1.0, -2.0])
    model = LinearModel(np.ones(p), toeplitz(p), "none", f"t{df}", mean)
    X, y = model.sample(50_000, rng=0)
    np.testing.assert_allclose(y, X @ model.coef)
    scale = math.sqrt((df - 2) / df)
    z = (X - mean) @ np.linalg.inv(model.root) / scale  # standard multivariate Student
    # χ²_p / p over χ²_df / df; entries with independent scales would have another distribution
    assert stats.kstest(np.sum(z**2, axis=1) / p, stats.f(p, df).cdf).pvalue > 0.01
    direction = np.array([1.0, -2.0, 0.5])
    size = scale * math.sqrt(direction @ model.covariance @ direction)
    assert stats.kstest((X - mean) @ direction / size, stats.t(df).cdf).pvalue > 0.01
    # norms and directions of rows are independent, and directions uniform: cosines for p = 3
    cosine = z[:, 0] / np.linalg.norm(z, axis=1)
    assert stats.kstest(cosine, stats.uniform(-1, 2).cdf).pvalue > 0.01
    assert abs(stats.spearmanr(np.abs(cosine), np.sum(z**2, axis=1)).statistic) < 0.02


@pytest.mark.parametrize("df", [2.1, 2.5, 4, 30])
def test_student_design_in_closed_form(df):
    rng = np.random.default_rng(0)
    model = LinearModel(rng.standard_normal(6), toeplitz(6), "none", f"t{df}")
    error = rng.standard_normal((4, 6)) * np.array([1.0, 1e-6, 0.0, 30.0])[:, None]
    square = np.einsum("ij,jk,ik->i", error, model.covariance, error)
    # E|t| = 2 √df Γ((df + 1) / 2) / (√π (df - 1) Γ(df / 2)), which is 1 for df = 4
    mean = 2 * math.sqrt(df / math.pi) * special.poch(df / 2, 0.5) / (df - 1)
    expected = mean * np.sqrt(square * (df - 2) / df)
    coef = model.coef + error
    np.testing.assert_allclose(model.risk(coef, "absolute"), expected, rtol=1e-7)
    np.testing.assert_allclose(model.risk(coef, "quantile"), expected / 2, rtol=1e-7)
    np.testing.assert_allclose(model.risk(coef, "squared"), square)
    noisy = LinearModel(model.coef, toeplitz(6), Noise("laplace", 2.0), f"t{df}", mean=0.5)
    bias = 0.5 * error.sum(axis=1) - 1.0
    np.testing.assert_allclose(
        noisy.risk(coef, "squared", -1.0), square + bias**2 + noisy.noise.variance
    )


def test_shapes_and_centering():
    model = paper_model(10, "t2")
    many = model.risk(np.zeros((3, 10)), "absolute")
    assert many.shape == (3,)
    assert model.risk(np.zeros(10), "absolute") == many[0]
    assert model.risk(np.zeros(10), "absolute", centered=True) == pytest.approx(0)
    difference = model.risk(model.coef, "absolute", centered=True)
    assert difference == pytest.approx(math.sqrt(2) - many[0])
    # squared error has no variance, but differences of it are finite
    square = model.coef @ model.covariance @ model.coef
    assert model.risk(model.coef, "squared", centered=True) == pytest.approx(-square)


def test_constants_and_noise_alone():
    silent = LinearModel([0.0], noise="none")
    assert silent.risk([0.0], "huber") == 0
    assert silent.risk([0.0], "absolute", intercept=-2.0) == 2
    sizes = np.array([1.0, 1e-5, 1e-8])  # very different ones keep their relative accuracy
    risks = silent.risk(sizes[:, None], "absolute")
    np.testing.assert_allclose(risks / sizes, math.sqrt(2 / math.pi), rtol=1e-8)
    for df in (1.2, 2, 5, 30):
        found = LinearModel([0.0], noise=f"t{df}").risk([0.0], "absolute")
        assert found == pytest.approx(stats.t(df).expect(abs), rel=1e-3 if df < 2 else 1e-7)


MODEL = paper_model(5)
REFUSED = [
    (lambda: LinearModel([1.0, 2.0], np.eye(3)), "shape"),
    (lambda: LinearModel([[1.0]]), "1 dimension"),
    (
        lambda: LinearModel([1.0], design="cauchy"),
        "design must be one of 'gaussian', 'uniform', or 't' followed by .* 't4'; got 'cauchy'",
    ),
    (lambda: LinearModel([1.0], design="t"), "design must be one of"),
    (lambda: LinearModel([1.0], design=4), "design must be one of .* got 4"),
    (lambda: LinearModel([1.0], design="t2"), "greater than 2, so that the covariance exists"),
    (lambda: paper_model(5, design="t31"), "design 't31': .* use 'gaussian' for larger"),
    (lambda: Noise("cauchy"), "noise must be one of 'normal', 'laplace', 'none', or 't'"),
    (lambda: Noise("t1"), "so that the mean exists"),
    (lambda: Noise("t50"), "use 'normal' for larger values"),
    (lambda: Noise("normal", -1), "scale must be"),
    (lambda: LinearModel([1.0, 2.0], mean=[1.0, 2.0, 3.0]), "mean must be a number"),
    (lambda: sparse_signal(np.eye(3), -1.0), "strength must be"),
    (lambda: toeplitz(3, 1.0), "correlation must be"),
    (lambda: paper_model(0), "p must be at least 1"),
    (lambda: MODEL.sample(0), "n must be at least 1"),
    (lambda: MODEL.sample(5, rng="seed"), "rng must be"),
    (lambda: MODEL.risk(np.zeros((2, 2, 5))), "2 dimensions"),
    (lambda: MODEL.risk(np.full(5, np.nan)), "NaN"),
    (lambda: MODEL.risk(np.zeros((3, 5)), intercept=[1, 2]), r"shape \(3,\), one per row of coef"),
    (lambda: MODEL.risk(np.zeros(4)), "5 coefficients per row, one per feature of the model; got"),
    (lambda: MODEL.risk(np.zeros(5), lambda y, z: y), "test_loss must be a name or a Loss"),
    (lambda: MODEL.risk(np.zeros(5), "quadratic"), "test_loss must be one of"),
    (lambda: MODEL.risk(np.zeros(5), "log"), "is for class labels, but a linear model has numeric"),
]


@pytest.mark.parametrize(("make", "message"), REFUSED)
def test_bad_models_are_refused(make, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make()


@pytest.mark.slow
def test_integrals_that_do_not_converge_say_so():
    nearly_constant = LinearModel([0.0], noise=Noise("normal", 1e-6))
    with pytest.raises(ArithmeticError, match="did not converge"):
        nearly_constant.risk([0.0], "absolute", intercept=1.0)


def test_models_keep_copies_of_what_they_are_given():
    coef = np.ones(3)
    model = LinearModel(coef, np.eye(3))
    coef[:] = 0
    np.testing.assert_array_equal(model.coef, 1)
