"""Data whose risk is known: the paper's designs, signals and noise laws."""

from steinpath.simulate._model import (
    Data,
    LinearModel,
    Noise,
    PredictionErrors,
    paper_model,
    sparse_signal,
    toeplitz,
)

__all__ = [
    "Data",
    "LinearModel",
    "Noise",
    "PredictionErrors",
    "paper_model",
    "sparse_signal",
    "toeplitz",
]
