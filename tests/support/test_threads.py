"""Threads: how many there are, and that nothing is lost or changed by them."""

import threading
from contextvars import ContextVar

import numpy as np
import pytest
from joblib import Parallel, delayed
from threadpoolctl import threadpool_info, threadpool_limits

import steinpath as sp
from steinpath._support import threads
from steinpath._support.threads import in_threads, one_thread_unless, threads_allowed
from steinpath.engine import _batch


def blas():
    return max(pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas")


@pytest.fixture
def two():
    with threadpool_limits(2, "blas"):
        if blas() < 2:
            pytest.skip("the BLAS has one thread here, whatever it is told")
        yield


@pytest.mark.usefixtures("two")
def test_small_products_have_one_thread_and_large_ones_all():
    with one_thread_unless(1e3):
        assert blas() == 1
        assert threads_allowed() == 2  # for parts of the work
        with one_thread_unless(1e3):
            assert threads_allowed() == 2
    with one_thread_unless(1e12):
        assert blas() == 2
    assert (blas(), threads_allowed()) == (2, 2)


@pytest.mark.usefixtures("two")
def test_limits_are_lifted_after_an_error():
    with pytest.raises(KeyError), one_thread_unless(1e3):
        raise KeyError
    assert (blas(), threads_allowed()) == (2, 2)


@pytest.mark.usefixtures("two")
def test_fits_in_threads_of_the_users_own_leave_no_limit():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 5))
    y = X[:, 0] + rng.standard_normal(40)

    def fit(seed):
        return sp.LADLasso(n_alphas=3, n_iter=30, random_state=seed).fit(X, y).coef_

    found = Parallel(n_jobs=2, backend="threading")(delayed(fit)(seed) for seed in (0, 0, 0, 0))
    assert blas() == 2
    for coef in found:
        np.testing.assert_array_equal(coef, found[0])


def test_calls_overlap_in_their_own_contexts():
    told, here = ContextVar("told", default=0), threading.get_ident()
    told.set(7)
    together = threading.Barrier(3, timeout=10)

    def call(item):
        together.wait()  # would fail if one waited for another
        assert threads_allowed() == 1
        return item**2, told.get(), threading.get_ident() != here

    assert in_threads(call, [1, 2, 3], 3) == [(1, 7, True), (4, 7, True), (9, 7, True)]


@pytest.mark.parametrize("count", [1, 2])
def test_errors_reach_the_caller(count):
    def call(item):
        return 1 / item

    with pytest.raises(ZeroDivisionError):
        in_threads(call, [1, 0, 2], count)


@pytest.mark.parametrize("algorithm", [sp.HalpernPDHG(), sp.ChambollePock()], ids=repr)
def test_parts_are_the_whole(algorithm, monkeypatch):
    """Iterates do not depend on the number of threads, nor on whether a run was interrupted."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 15))
    y = X[:, 0] + rng.standard_t(2, 60)
    penalties = [sp.Lasso(lam) for lam in (0.1, 0.3, 0.5, 1.0, 2.0)]
    whole = sp.run_batch(X, y, sp.LAD(), penalties, algorithm, 40, True)
    monkeypatch.setattr(_batch, "_WIDE", 1e-9)
    monkeypatch.setattr(_batch, "threads_allowed", lambda: 2)
    used = []
    original = threads.ThreadPoolExecutor
    monkeypatch.setattr(threads, "ThreadPoolExecutor", lambda n: used.append(n) or original(n))
    parts = sp.run_batch(X, y, sp.LAD(), penalties, algorithm, 17, True).extended(40)
    assert used == [2, 2]
    for name in ("coef", "dual", "fitted", "intercept"):
        np.testing.assert_allclose(getattr(parts, name), getattr(whole, name), atol=1e-13)
