"""Corrections compressed in time, against the paper's method and against each other."""

import dataclasses

import numpy as np
import pytest

from backends import everywhere, on_backend, sp
from formal import vector_maps
from problems import ALGORITHM_EXAMPLES, PENALTY_EXAMPLES, SOME_LOSSES, draw, draw_for, handles
from steinpath.engine import _compression as compression
from steinpath.engine import _shortcuts as shortcuts
from steinpath.engine import _tangents as tangents
from steinpath.engine import _traces as corrections
from steinpath.engine._batch import Batch
from steinpath.engine._compression import RANK_TOL, allocate
from steinpath.risk import _methods as methods
from steinpath.risk._options import RiskOptions as _RiskOptions

Compression, ProbeColumns, Linearization, GramLinearization, batch_of = map(
    on_backend,
    (
        compression.Compression,
        compression.ProbeColumns,
        tangents.Linearization,
        shortcuts.GramLinearization,
        Batch.of,
    ),
)
compress, follow, probe_columns = map(
    on_backend, (compression.compress, compression.follow, compression.probe_columns)
)
Feed, responses = map(on_backend, (tangents.Feed, tangents.responses))
Stream, impulse_responses = map(on_backend, (corrections._Stream, corrections._responses))
second_moments, row_squares_of = map(
    on_backend, (corrections.second_moments, corrections.row_squares_of)
)
RiskOptions, score, predictions_of = map(
    on_backend, (_RiskOptions, methods.score, methods.Predictions)
)

#: Several windows in a short run, each with its own active rows and columns.
SHORT = {"window": 3, "worth_copying": 2.0}


def signs(rng, *shape):
    return rng.integers(0, 2, shape) * 2.0 - 1.0


def centered(path):
    """Duals as corrections use them: with an intercept, less their means."""
    return path.dual - path.fit_intercept * path.dual.mean(axis=1, keepdims=True)


def full_basis(path):
    (trajectory,) = compress(batch_of(path), [np.random.default_rng(0)], tol=0.0)
    return trajectory


def by_compression(path, probes, moments=None, row_squares=None, windows=SHORT):
    """Coefficients of the corrections with the same probes in every direction of a full basis."""
    trajectory = full_basis(path)
    rank, m = trajectory.rank, probes.shape[1]
    linearization = Linearization(batch_of(path), **windows)
    columns = probes_of(path, moments, row_squares, np.tile(probes, rank))
    # a loop for each direction, whose probes are averaged before they are fed back
    member = np.repeat(np.eye(rank), m, axis=0)
    found = np.zeros((path.n_iter + 1, rank))
    feed = Feed(
        columns.into_eta,
        columns.into_v,
        [columns.reader],
        eta_weights=lambda t: (trajectory.coordinates[t - 1] @ member.T)[None, :],
        v_weights=lambda t: (found[t] @ member.T)[None, :],
    )
    scale = 1.0 if columns.into_v is None else 1 / path.n_samples
    for t, (reading,) in responses(linearization, feed):
        found[t] = scale * reading[0] @ member / m
    return found @ trajectory.directions.T


def probes_of(path, moments, row_squares, probes):
    on_rows = len(probes) == path.n_samples
    return probe_columns(path.design, moments, row_squares, probes[:, None, :], on_rows)


def by_hutchinson(path, probes, moments=None, row_squares=None):
    """The same from the paper's matrices: estimated impulse by impulse, averaged, solved."""
    columns = probes_of(path, moments, row_squares, probes)
    reader = columns.reader[:, 0, :]
    linearization = Linearization(batch_of(path), **SHORT)

    def traces(probes, into_v):
        stream = Stream(probes[:, 0, :], [reader], into_v)
        (layers,) = impulse_responses(linearization, stream, sum_layers=False, width=256)
        return layers.mean(axis=0)

    weights, root_n = traces(columns.into_eta, False), np.sqrt(path.n_samples)
    if columns.into_v is not None:
        K = traces(columns.into_v, True) / root_n - root_n * np.eye(path.n_iter + 1)
        weights = np.linalg.solve(K, weights / -root_n)
    return weights[:, :-1] @ centered(path)


PAIRS = [
    pytest.param(loss, penalty, algorithm, id=f"{a}-{b}-{c}")
    for i, (a, loss) in enumerate(SOME_LOSSES.items())
    for j, (b, penalty) in enumerate(PENALTY_EXAMPLES.items())
    for k, (c, algorithm) in enumerate(ALGORITHM_EXAMPLES.items())
    if handles(algorithm, loss) and (i + j + k) % 4 == 0
]


@everywhere(every=29)
@pytest.mark.parametrize(("loss", "penalty", "algorithm"), PAIRS)
@pytest.mark.parametrize("shape", [(24, 9), (9, 14)], ids=["tall", "wide"])
def test_a_full_basis_reproduces_hutchinson(loss, penalty, algorithm, shape):
    """Whatever the probes, on either side; with an intercept, sizes of rows, a covariance."""
    n, p = shape
    X, y, model = draw_for(loss, n, p)
    rng = np.random.default_rng(1)
    for fit_intercept in (False, True):
        path = sp.run(X, y, loss, penalty(p), algorithm, 10, fit_intercept)
        q = p + fit_intercept
        squares = rng.uniform(0.5, 1.5, n)
        for probes, options in (
            (signs(rng, q, 2), {}),
            (signs(rng, n, 2), {"row_squares": squares}),
            (signs(rng, q, 2), {"moments": second_moments(path, model.covariance)}),
        ):
            expected = by_hutchinson(path, probes, **options)
            found = by_compression(path, probes, **options)
            np.testing.assert_allclose(found, expected, atol=1e-9 * np.abs(expected).max())


@everywhere
def test_a_users_recursion_reproduces_hutchinson():
    X, y, _ = draw(24, 9)
    inner = sp.run(X, y, sp.Huber(), sp.Lasso(0.3), sp.FISTA(), n_iter=10)
    own = sp.Recursion(*vector_maps(inner.maps))
    path = sp.run(X, y, sp.Huber(), sp.NoPenalty(), own, n_iter=10)
    probes = signs(np.random.default_rng(0), 9, 2)
    found = by_compression(path, probes)
    np.testing.assert_allclose(found, by_hutchinson(path, probes), atol=1e-12)
    np.testing.assert_allclose(found, by_compression(inner, probes), atol=1e-12)
    assert sp.estimate_risk(path, method="compressed", rng=0).values.shape == (11,)


@everywhere(every=5)
@pytest.mark.parametrize(
    ("loss", "algorithm"),
    [
        pytest.param(SOME_LOSSES[a], algorithm, id=f"{a}-{b}")
        for a in ("square_root", "squared")
        for b, algorithm in ALGORITHM_EXAMPLES.items()
        if handles(algorithm, SOME_LOSSES[a])
    ],
)
@pytest.mark.parametrize("penalty", PENALTY_EXAMPLES)
def test_the_gram_matrix_gives_the_same_tangents(loss, algorithm, penalty):
    X, y, _ = draw(24, 9)
    rng = np.random.default_rng(1)
    for fit_intercept in (False, True):
        path = sp.run(X, y, loss, PENALTY_EXAMPLES[penalty](9), algorithm, 10, fit_intercept)
        batch = batch_of(path)
        linearization = Linearization(batch, **SHORT)
        sizes = rng.uniform(0.5, 1.5, 24)
        columns = probes_of(path, None, sizes, signs(rng, 9 + fit_intercept, 4))
        trajectory = full_basis(path)
        coordinates = trajectory.coordinates[:, None, :4]
        expected = follow(linearization, coordinates, columns)
        span = np.linalg.qr(path.dual.T)[0][:, None, :]
        gram = GramLinearization(batch, path.design.gram(), span, columns.into_v)
        reduced = ProbeColumns(columns.into_eta, gram.injection(), columns.reader)
        found = follow(gram, coordinates, reduced)
        np.testing.assert_allclose(found, expected, atol=1e-10 * np.abs(expected).max())


@everywhere(every=3)
@pytest.mark.parametrize("shape", [(24, 9), (9, 14)], ids=["tall", "wide"])
@pytest.mark.parametrize("row_scale", [None, "norm"])
@pytest.mark.parametrize("fit_intercept", [False, True], ids=["plain", "intercept"])
def test_basis_vectors_for_probes_give_the_exact_corrections(shape, row_scale, fit_intercept):
    """Scaled basis vectors, averaged before the loop is closed, are exact traces; on both sides."""
    n, p = shape
    X, y, model = draw(n, p)
    path = sp.run(X, y, sp.LAD(), sp.Lasso(0.2), n_iter=10, fit_intercept=fit_intercept)
    squares = row_squares_of(path, row_scale)
    for size in {n, p + fit_intercept}:
        shift = by_compression(path, np.sqrt(size) * np.eye(size), row_squares=squares)
        expected = sp.estimate_risk(path, method="exact", row_scale=row_scale).corrected
        scaled = shift if squares is None else squares * shift
        np.testing.assert_allclose(path.fitted - scaled, expected, atol=1e-9)
    moments = second_moments(path, model.covariance)
    shift = by_compression(path, np.sqrt(len(moments)) * np.eye(len(moments)), moments)
    expected = sp.estimate_risk(path, None, model.covariance, "exact").corrected
    np.testing.assert_allclose(path.fitted - shift, expected, atol=1e-9)


def risks_by_probes(path, options, n_probes, dtype, **how):
    """Estimated risk of each iterate by so many probes."""
    batch, rng = batch_of(path), np.random.default_rng(0)
    (problem,) = options.resolved(batch, [rng])
    moments, squares = [problem.moments], [problem.row_squares]
    found = Compression(batch, moments, squares, n_probes, [rng], dtype, **how)
    assert found.first == n_probes
    found.draw({0: n_probes})
    (estimates,) = found.estimates
    predictions = predictions_of(path, corrections=estimates.corrections())
    return score(problem, predictions, n_probes).values


@everywhere
@pytest.mark.parametrize("fit_intercept", [False, True], ids=["plain", "intercept"])
@pytest.mark.parametrize("row_scale", [None, "norm"])
def test_the_gram_route_gives_the_plain_routes_estimates(fit_intercept, row_scale, backend):
    X, y, model = draw(80, 40)
    path = sp.run(X, y, sp.SquareRoot(), sp.Lasso(0.3), n_iter=40, fit_intercept=fit_intercept)
    for covariance in (None, model.covariance):
        options = RiskOptions(None, covariance, "compressed", row_scale)
        single = backend.library.float32
        by_gram, plainly = (
            risks_by_probes(path, options, 20, single, use_gram=use) for use in (True, False)
        )
        np.testing.assert_allclose(by_gram, plainly, rtol=1e-4)
        assert np.abs(by_gram - plainly).max() > 0
        # where it pays, that is what a user gets
        how = {"row_scale": row_scale, "n_probes": 20, "probe_tol": 100.0, "rng": 0}
        risk = sp.estimate_risk(path, None, covariance, "compressed", **how)
        np.testing.assert_array_equal(risk.values, by_gram)


@pytest.mark.parametrize(("mean", "rtol"), [(0.0, 1e-4), (3e3, 2e-3), (1e7, 2e-3)])
def test_single_precision_is_enough_also_for_large_means(mean, rtol):
    X, y, _ = draw(200, 50)
    loss = sp.SquareRoot() if mean else sp.LAD()
    path = sp.run(X + mean, y, loss, sp.Lasso(0.3), n_iter=40, fit_intercept=bool(mean))
    single, double = (
        sp.estimate_risk(path, method="compressed", rng=0, precision=precision).values
        for precision in ("float32", "float64")
    )
    assert single.dtype == np.float64
    np.testing.assert_allclose(single, double, rtol=rtol)
    assert mean or np.abs(single - double).max() > 0


@everywhere
@pytest.mark.parametrize("fit_intercept", [False, True], ids=["plain", "intercept"])
@pytest.mark.parametrize("penalty", PENALTY_EXAMPLES)
def test_nothing_is_active(penalty, fit_intercept):
    """A penalty so large that all coefficients stay zero leaves windows without columns."""
    X, y, _ = draw(30, 9)
    example = PENALTY_EXAMPLES[penalty](9)
    if hasattr(example, "lam"):
        example = dataclasses.replace(example, lam=1e3)
    path = sp.run(X, y, sp.LAD(), example, n_iter=25, fit_intercept=fit_intercept)
    for method in ("exact", "hutchinson", "compressed"):
        risk = sp.estimate_risk(path, method=method, rng=0)
        assert np.isfinite(risk.values).all()
        if not fit_intercept and penalty in ("lasso", "group_lasso"):
            np.testing.assert_allclose(risk.values, risk.train)


@everywhere(every=5)
@pytest.mark.parametrize("penalty", ["lasso", "ridge", "group_lasso"])
@pytest.mark.parametrize(
    ("loss", "algorithm"),
    [
        ("lad", "chambolle-pock"),
        ("square_root", "linearized-admm"),
        ("huber", "chambolle-pock-relaxed"),
        ("huber", "fista"),
        ("hinge", "halpern"),
        ("logistic", "proximal-gradient"),
    ],
)
def test_windows_change_nothing(loss, algorithm, penalty):
    loss = SOME_LOSSES[loss]
    X, y, _ = draw_for(loss, 40, 20)
    path = sp.run(
        X,
        y,
        loss,
        PENALTY_EXAMPLES[penalty](20),
        ALGORITHM_EXAMPLES[algorithm],
        n_iter=50,
        fit_intercept=penalty == "lasso",
    )
    probes = signs(np.random.default_rng(0), path.design.shape[1], 2)
    estimates = [
        by_compression(path, probes, windows={"window": window, "worth_copying": share})
        for window, share in ((3, 2.0), (7, 2.0), (50, 2.0), (20, 0.0))
    ]
    assert np.abs(estimates[0]).max() > 0.01  # the comparison is of something
    for other in estimates[1:]:
        np.testing.assert_allclose(other, estimates[0], atol=1e-9)


@pytest.mark.parametrize("penalty", PENALTY_EXAMPLES)
@pytest.mark.parametrize("loss", SOME_LOSSES.values(), ids=SOME_LOSSES)
def test_tangents_have_the_precision_of_their_design(loss, penalty):
    """Nothing on the way makes double precision of single, which would cost twice the time."""
    X, y, _ = draw_for(loss, 24, 9)
    path = sp.run(X, y, loss, PENALTY_EXAMPLES[penalty](9), n_iter=7)
    probes, found = signs(np.random.default_rng(0), 9, 3), {}
    for dtype in (np.float32, np.float64):
        single = probes[:, None, :].astype(dtype)
        feed = Feed(single, None, [single], lambda t, one=single[0] ** 2: one, lambda t: None)
        linearization = Linearization(batch_of(path), path.design.astype(dtype), **SHORT)
        found[dtype] = np.stack([reading for _, (reading,) in responses(linearization, feed)])
        assert found[dtype].dtype == dtype
    size = np.abs(found[np.float64]).max()
    np.testing.assert_allclose(found[np.float32], found[np.float64], atol=1e-5 * size)


@everywhere
def test_windows_hold_what_is_active_and_no_more():
    X, y, _ = draw(60, 40)
    path = sp.run(X, y, sp.LAD(), sp.Lasso(1.5), n_iter=30)
    seen_times = []
    for window in Linearization(batch_of(path), **SHORT).windows():
        times = range(window.first, window.first + len(window.dual))
        seen_times.extend(times)
        duals, coefs = path.dual[[t - 1 for t in times]], path.coef[list(times)]
        inside = np.abs(duals) < 1 / np.sqrt(60) - 1e-12
        assert set(np.flatnonzero(inside.any(axis=0))) == set(window.rows)
        assert set(np.flatnonzero(coefs.any(axis=0))) <= set(window.columns)
        assert window.design.shape == (len(window.rows), len(window.columns))
    assert len(window.columns) < 40
    assert seen_times == list(range(1, 31))


@everywhere
@pytest.mark.parametrize("tol", [0.3, RANK_TOL, 1e-3])
@pytest.mark.parametrize("fit_intercept", [False, True], ids=["plain", "intercept"])
def test_the_basis_holds_the_trajectory(tol, fit_intercept):
    X, y, _ = draw(200, 100)
    path = sp.run(X, y, sp.LAD(), sp.Lasso(0.3), n_iter=150, fit_intercept=fit_intercept)
    (found,) = compress(batch_of(path), [np.random.default_rng(0)], tol)
    H, r = found.directions, found.rank
    np.testing.assert_allclose(H.T @ H, np.eye(r), atol=1e-10)
    np.testing.assert_allclose(found.coordinates, centered(path) @ H, atol=1e-10)
    weighted = centered(path) / np.sqrt(np.arange(1, 151))[:, None]
    values = np.linalg.svd(weighted, compute_uv=False)
    assert r == np.sum(values > tol * values[0])
    np.testing.assert_allclose(found.sizes, values[:r], rtol=0.02)
    left = np.linalg.norm(weighted - weighted @ H @ H.T, 2)
    assert left <= 1.05 * values[r] <= 1.05 * tol * values[0]


def test_probes_are_shared_by_size():
    sizes = np.array([10.0, 5.0, 1.0, 0.1])
    np.testing.assert_array_equal(allocate(sizes, 16), [9, 5, 1, 1])
    np.testing.assert_array_equal(allocate(sizes, 2), [2, 1, 1, 1])
    assert allocate(np.zeros(1), 5).sum() == 5


PROBLEMS = {
    "lad-lasso": (sp.LAD(), sp.Lasso(0.5), "t2", "gaussian"),
    "lad-ridge": (sp.LAD(), sp.Ridge(0.5), "t2", "gaussian"),
    "sqrt-lasso": (sp.SquareRoot(), sp.Lasso(0.5), "normal", "gaussian"),
    "uneven rows": (sp.LAD(), sp.Ridge(0.5), "t2", "t4"),
}


@pytest.fixture(scope="module", params=PROBLEMS)
def medium(request):
    """A problem large enough for the corrections to matter, small enough for exact traces."""
    loss, penalty, noise, design = PROBLEMS[request.param]
    model = sp.simulate.paper_model(60, noise, design)
    X, y = model.sample(120, rng=3)
    return sp.run(X, y, loss, penalty, sp.ChambollePock(0.1, 0.1, 0.5), n_iter=40), model


@pytest.mark.parametrize("known", [False, True], ids=["R-hat", "R-tilde"])
@pytest.mark.parametrize("row_scale", [None, "norm"])
def test_noise_is_what_it_says(medium, known, row_scale):
    """Over many draws: the mean is the exact estimate, the spread the claimed standard error."""
    path, model = medium
    options = {"covariance": model.covariance if known else None, "row_scale": row_scale}
    exact = sp.estimate_risk(path, method="exact", **options)
    draws = [
        sp.estimate_risk(path, method="compressed", probe_tol=100.0, rng=seed, **options)
        for seed in range(60)
    ]
    values = np.stack([risk.values for risk in draws])
    spread = values.std(axis=0, ddof=1)[3:]
    claimed = np.sqrt(np.mean([risk.probe_stderr**2 for risk in draws], axis=0))[3:]
    assert 0.75 < np.sqrt(np.mean(claimed**2) / np.mean(spread**2)) < 1.35
    # what is left beside the noise: the basis is cut off, single probes close their own loops
    bias = values.mean(axis=0)[3:] - exact.values[3:]
    assert (np.abs(bias) <= 4 * spread / np.sqrt(60) + 0.1 * exact.stderr[3:]).all()


def test_probes_are_added_until_the_noise_is_as_asked(medium):
    path, _ = medium
    first = sp.estimate_risk(path, method="compressed", rng=0, probe_tol=1.0)
    asked = 0.6 * first.probe_stderr[first.best_iter]
    more = sp.estimate_risk(path, method="compressed", rng=0, probe_tol=asked)
    assert more.n_probes > first.n_probes
    near = slice(more.best_iter // 2, 2 * more.best_iter + 1)
    assert np.sqrt(np.mean(more.probe_stderr[near] ** 2)) <= asked
    with pytest.warns(UserWarning, match="256 random probes is .* above probe_tol"):
        sp.estimate_risk(path, method="compressed", n_probes=16, rng=0, probe_tol=1e-6)


@everywhere
@pytest.mark.parametrize("loss", [sp.LAD(), sp.SquareRoot(), sp.Squared()], ids=repr)
@pytest.mark.parametrize(("of_X", "of_y"), [(1e25, 1.0), (1e-25, 1e-30), (1.0, 1e40), (1.0, 1e-40)])
def test_units_do_not_matter(loss, of_X, of_y):
    """Single precision holds no numbers above 1e38 or below 1e-38; the estimates do not care."""
    X, y, _ = draw(60, 30)
    lam = 0.3 * of_X * (of_y if loss.name == "squared" else 1.0)
    plain, scaled = (
        sp.estimate_risk(
            sp.run(X * a, y * b, loss, sp.Lasso(penalty), n_iter=20),
            "absolute",
            method="compressed",
            rng=0,
        )
        for a, b, penalty in ((1.0, 1.0, 0.3), (of_X, of_y, lam))
    )
    np.testing.assert_allclose(scaled.values / of_y, plain.values, rtol=1e-4)
    np.testing.assert_allclose(scaled.probe_stderr / of_y, plain.probe_stderr, rtol=1e-2, atol=1e-6)


@everywhere
def test_nothing_to_correct():
    """Duals that are all zero have no directions; the estimate is the training error."""
    X, _, _ = draw(60, 30)
    path = sp.run(X, np.zeros(60), sp.LAD(), sp.Lasso(0.3), n_iter=10)
    risk = sp.estimate_risk(path, method="compressed", rng=0)
    np.testing.assert_array_equal(risk.values, 0)
    np.testing.assert_array_equal(risk.probe_stderr, 0)


def test_noise_of_losses_with_kinks_and_jumps(medium):
    """A callable needs no derivative for its noise to be seen."""
    path, _ = medium
    for loss in (lambda y, z: (np.abs(y - z) > 1) * 1.0, lambda y, z: np.abs(y - z)):
        draws = [
            sp.estimate_risk(path, loss, method="compressed", probe_tol=100.0, rng=seed)
            for seed in range(30)
        ]
        spread = np.std([risk.values for risk in draws], axis=0, ddof=1)[3:]
        claimed = np.sqrt(np.mean([risk.probe_stderr**2 for risk in draws], axis=0))[3:]
        assert 0.6 < np.sqrt(np.mean(claimed**2) / np.mean(spread**2)) < 1.6


@pytest.mark.parametrize("seed", range(3))
def test_collinear_columns_with_probes_that_diverge(seed):
    """A few of the probes grow exponentially: they are left out, and the rest is accurate."""
    rng, n, n_new = np.random.default_rng(seed), 60, 4000
    latent = rng.standard_normal((n + n_new, 1))
    latent = latent + 0.02 * rng.standard_normal((n + n_new, 3)) @ rng.standard_normal((3, 10))
    knots = np.quantile(latent[:n], np.linspace(0, 1, 17)[1:-1], axis=0)
    X = np.maximum(latent[:, :, None] - knots.T, 0).reshape(n + n_new, -1)
    X = (X - X[:n].mean(axis=0)) / X[:n].std(axis=0)
    y = X[:, ::17].sum(axis=1) / 5 + rng.standard_normal(n + n_new)
    algorithm = sp.HalpernPDHG(ratio="auto", warmup=10)
    options = {"n_iter": 1500, "fit_intercept": True}
    path = sp.run(X[:n], y[:n], sp.LAD(), sp.Lasso(0.02), algorithm, **options)
    risk = sp.estimate_risk(path, method="compressed", row_scale="norm", n_probes=64, rng=0)
    error = np.abs(y[n:] - path.coef @ X[n:].T - path.intercept[:, None]).mean(axis=1)
    assert np.median(np.abs(risk.values / error - 1)) < 0.2
    assert risk.values[-1] < 2 * error[-1]
