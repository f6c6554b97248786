"""Large margin nearest neighbours."""

from .estimator import LMNN
from .solver import lmnn_objective

__all__ = ["LMNN", "lmnn_objective"]
