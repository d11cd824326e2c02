"""The spectral route, against exact traces and against Monte Carlo."""

import numpy as np
import pytest

from backends import everywhere, on_backend, sp
from problems import ALGORITHM_EXAMPLES, Products, draw
from steinpath.engine import _compression as compression
from steinpath.engine import _shortcuts as shortcuts
from steinpath.engine import _traces as traces

spectrum, spectral_corrections = map(
    on_backend, (shortcuts.spectrum, compression.spectral_corrections)
)
second_moments, row_squares_of = map(on_backend, (traces.second_moments, traces.row_squares_of))

SHAPES = pytest.mark.parametrize("shape", [(30, 12), (12, 30), (15, 15)], ids=str)
INTERCEPT = pytest.mark.parametrize("fit_intercept", [False, True], ids=["plain", "intercept"])
PENALTIES = pytest.mark.parametrize(
    "penalty",
    [
        sp.Ridge(0.5),
        sp.NoPenalty(),
        sp.ElasticNet(0.3, l1_ratio=0.0),
        sp.Ridge(0.5, weights=np.full(12, 2.0)),
    ],
    ids=["ridge", "none", "elastic-net-0", "equal-weights"],
)


def with_a_full_basis(path, covariance, row_scale):
    """Corrected fitted values of the spectral route, no direction of the duals being left out."""
    moments = None if covariance is None else second_moments(path, covariance)
    squares, rng = row_squares_of(path, row_scale), np.random.default_rng(0)
    found = spectral_corrections(path, moments, squares, rng, span_tol=0.0)
    assert found.variances.max() == 0
    return path.fitted - found.coefficients @ found.directions.T


@everywhere(every=11)
@PENALTIES
@pytest.mark.parametrize("algorithm", ALGORITHM_EXAMPLES.values(), ids=ALGORITHM_EXAMPLES)
@INTERCEPT
def test_squared_loss_has_no_rank_one_part(penalty, algorithm, fit_intercept):
    n = {"FISTA": 9, "HalpernPDHG": 12}.get(type(algorithm).__name__, 30)  # wide, square and tall
    X, y, model = draw(n, 12)
    path = sp.run(X, y, sp.Squared(), penalty, algorithm, 12, fit_intercept)
    for covariance in (None, model.covariance):
        for row_scale in (None, "norm", np.linspace(0.5, 2, n)):
            exact, spectral = (
                sp.estimate_risk(path, None, covariance, method, row_scale)
                for method in ("exact", "spectral")
            )
            corrected, scale = exact.corrected, np.abs(exact.corrected).max()
            found = with_a_full_basis(path, covariance, row_scale)
            np.testing.assert_allclose(found, corrected, atol=1e-9 * scale)
            np.testing.assert_allclose(spectral.corrected, corrected, atol=1e-3 * scale)
            assert spectral.probe_stderr.max() == 0


@INTERCEPT
def test_the_square_roots_rank_one_part_fades(fit_intercept):
    """What is left out is of relative order 1 / p."""
    gaps = []
    for p in (20, 80):
        model = sp.simulate.paper_model(p)
        X, y = model.sample(2 * p, rng=0)
        path = sp.run(X, y, sp.SquareRoot(), sp.Ridge(0.5), n_iter=40, fit_intercept=fit_intercept)
        exact, spectral = (
            sp.estimate_risk(path, method=method).values for method in ("exact", "spectral")
        )
        gaps.append(np.abs(spectral / exact - 1).max())
    assert gaps[0] < 0.1
    assert gaps[1] < gaps[0] / 2


@everywhere
@SHAPES
@INTERCEPT
def test_quadratic_forms_are_those_of_the_singular_vectors(shape, fit_intercept):
    n, p = shape
    X, y, model = draw(n, p)
    path = sp.run(X, y, sp.Squared(), sp.Ridge(0.5), n_iter=2, fit_intercept=fit_intercept)
    design = path.design
    dense = design.matmat(np.eye(p + fit_intercept))
    moments = np.pad(model.covariance, (0, int(fit_intercept)))
    if fit_intercept:
        moments[-1, -1] = design.intercept_scale**2
    rho = np.linspace(0.5, 1.5, n)
    found = spectrum(path, moments, rho)
    U, s, Vt = np.linalg.svd(dense, full_matrices=True)
    nonzero = s > 1e-9 * s[0]
    np.testing.assert_allclose(np.sort(found.values)[::-1][: nonzero.sum()], s[nonzero])
    # sums weighted by the singular values identify the forms
    left = np.einsum("ik,i,ik->k", U[:, : len(s)], rho, U[:, : len(s)])
    right = np.einsum("kj,jl,kl->k", Vt[: len(s)], moments, Vt[: len(s)])
    for power in (2, 4):
        weights, expected = found.values**power, s**power
        assert weights @ found.row_squares == pytest.approx(expected @ left)
        assert weights @ found.moments == pytest.approx(expected @ right)


@pytest.mark.parametrize(
    ("loss", "penalty"),
    [
        (sp.LAD(), sp.Ridge(0.5)),
        (sp.SquareRoot(), sp.Lasso(0.5)),
        (sp.Squared(), sp.Ridge(0.5, weights=np.arange(12))),
    ],
)
def test_what_has_no_spectrum_is_refused(loss, penalty):
    X, y, _ = draw(30, 12)
    path = sp.run(X, y, loss, penalty, n_iter=3)
    with pytest.raises(ValueError, match="or squared loss, an isotropic penalty"):
        sp.estimate_risk(path, method="spectral")


def bias_at_the_end(model, n, row_scale, seeds):
    """Mean of estimated less true risk of the last iterate, and its standard error."""
    errors = []
    for seed in seeds:
        X, y = model.sample(n, rng=seed)
        path = sp.run(X, y, sp.SquareRoot(), sp.Ridge(0.5), sp.ChambollePock(0.1, 0.1, 0.5), 200)
        risk = sp.estimate_risk(path, method="spectral", row_scale=row_scale, rng=0)
        errors.append(risk.values[-1] - model.risk(path.coef[-1], "squared"))
    return np.mean(errors), np.std(errors, ddof=1) / np.sqrt(len(errors))


def test_row_scale_halves_the_bias_on_elliptical_rows():
    model = sp.simulate.paper_model(200, design="t4")
    (paper, error), (scaled, _) = (
        bias_at_the_end(model, 400, scale, range(8)) for scale in (None, "norm")
    )
    assert abs(paper) > 3 * error
    assert abs(scaled) < abs(paper) / 2


@pytest.mark.parametrize("fit_intercept", [False, True], ids=["plain", "intercept"])
def test_single_precision_data_keep_their_small_singular_values(fit_intercept):
    """Features in float32 with large means: one huge singular value, and all the others matter."""
    X, y, _ = draw(300, 120)
    values = []
    for dtype in (np.float64, np.float32):
        path = sp.run(
            (X + 40.0).astype(dtype),
            y.astype(dtype),
            sp.SquareRoot(),
            sp.Ridge(0.1),
            n_iter=100,
            fit_intercept=fit_intercept,
        )
        risk = sp.estimate_risk(path, method="spectral", row_scale="norm")
        assert risk.values.dtype == dtype
        values.append(risk.values)
    np.testing.assert_allclose(values[1], values[0], rtol=2e-3)


def test_a_design_without_a_gram_matrix_is_refused():
    X, y, _ = draw(120, 110)
    path = sp.run(Products(X), y, sp.SquareRoot(), sp.Ridge(0.5), n_iter=60)
    with pytest.raises(ValueError, match="and a dense X in memory"):
        sp.estimate_risk(path, method="spectral")
    risk = sp.estimate_risk(path, method="compressed", rng=0)
    dense = sp.run(X, y, sp.SquareRoot(), sp.Ridge(0.5), n_iter=60)
    other = sp.estimate_risk(dense, method="spectral")
    assert np.abs(risk.values - other.values).max() < 6 * risk.probe_stderr.max()
