"""Regressive virtual metric learning."""

from .estimator import RVML
from .kernel import KernelRVML

__all__ = ["RVML", "KernelRVML"]
