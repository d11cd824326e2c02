"""What is minimised and how predictions are scored: losses, penalties, Jacobians, test losses."""

from steinpath.problem._jacobians import Diagonal, Jacobian
from steinpath.problem._losses import Loss, SeparableLoss
from steinpath.problem._penalties import Penalty, SeparablePenalty

__all__ = ["Diagonal", "Jacobian", "Loss", "Penalty", "SeparableLoss", "SeparablePenalty"]
