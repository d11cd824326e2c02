"""Losses, penalties, Jacobians of their proximal maps, and scoring losses."""

from steinpath.problem._jacobians import Diagonal, Jacobian
from steinpath.problem._losses import Loss, SeparableLoss
from steinpath.problem._penalties import Penalty, SeparablePenalty
from steinpath.problem._registry import ParameterSpec
from steinpath.problem._scoring import Criterion

__all__ = ["Criterion", "Diagonal", "Jacobian", "Loss", "ParameterSpec", "Penalty", "SeparableLoss"]
__all__ += ["SeparablePenalty"]
