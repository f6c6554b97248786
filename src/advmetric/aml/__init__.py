"""Adversarial Metric Learning: confusion (adversary), distinguishment (objective), solvers, estimators."""

from .estimator import AML
from .search import AMLCV

__all__ = ["AML", "AMLCV"]
