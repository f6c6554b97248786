"""Information-theoretic metric learning."""

from .estimator import ITML

__all__ = ["ITML"]
