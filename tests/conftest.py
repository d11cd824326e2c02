"""Fixtures that many tests share."""

import array_api_strict
import numpy as np
import pytest


@pytest.fixture(params=["numpy", "array_api_strict"])
def xp(request):
    """Array namespaces that the numerics are written against."""
    return {"numpy": np, "array_api_strict": array_api_strict}[request.param]
