"""Coarse products: a setting of torch that is changed for them alone."""

import numpy as np
import pytest

from steinpath._support import arrays

torch = pytest.importorskip("torch")


def setting():
    return torch.backends.cuda.matmul.allow_tf32


@pytest.fixture
def restored():
    before = setting()
    yield
    torch.backends.cuda.matmul.allow_tf32 = before


@pytest.mark.parametrize("before", [False, True])
def test_the_setting_is_restored(before, restored):
    torch.backends.cuda.matmul.allow_tf32 = before
    with arrays._TensorCores():
        assert setting()
        with arrays._TensorCores():  # of another thread
            assert setting()
        assert setting()
    assert setting() == before
    with pytest.raises(ZeroDivisionError), arrays._TensorCores():
        _ = 1 / 0
    assert setting() == before


def test_only_cuda_devices_have_it():
    for array in (np.zeros(2), torch.zeros(2)):
        before = setting()
        with arrays.coarse_products(array):
            assert setting() == before
