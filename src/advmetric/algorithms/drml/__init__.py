"""Joint dimensionality reduction and metric learning."""

from .estimator import DRML

__all__ = ["DRML"]
