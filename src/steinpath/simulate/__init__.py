"""Simulated data with known risk: the paper's designs, signals and noise, and class labels."""

from steinpath.simulate._labels import LabelModel, label_model
from steinpath.simulate._model import (
    Data,
    LinearModel,
    Noise,
    PredictionErrors,
    paper_model,
    sparse_signal,
    toeplitz,
)

__all__ = ["Data", "LabelModel", "LinearModel", "Noise", "PredictionErrors", "label_model"]
__all__ += ["paper_model", "sparse_signal", "toeplitz"]
