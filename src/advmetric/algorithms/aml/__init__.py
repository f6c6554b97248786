"""Adversarial Metric Learning: confusion (adversary), distinguishment (objective), solvers, estimators."""

from .cv import AMLCV
from .estimator import AML

__all__ = ["AML", "AMLCV"]
