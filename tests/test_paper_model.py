"""The accuracy asked of the estimates on the paper's model, at the paper's size.

Minutes on two cores: `make slow`.
"""

import numpy as np
import pytest

from benchmarks.accuracy.paper_model import measure


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["lad", "square_root"])
@pytest.mark.parametrize("penalty", ["ridge", "lasso", "mcp", "scad"])
def test_error_and_regret(loss, penalty):
    records = [measure(loss, penalty, seed) for seed in range(5)]
    for name in ("tilde", "hat"):
        assert np.mean([r[f"{name}_rms"] for r in records]) <= 0.06
        assert max(r[f"{name}_regret"] for r in records) <= 0.02
