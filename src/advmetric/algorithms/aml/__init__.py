"""Adversarial Metric Learning: confusion (adversary), distinguishment (objective), solvers, estimator."""

from .estimator import AML

__all__ = ["AML"]
