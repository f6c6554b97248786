"""advmetric: distances that hold up on ambiguous data.

Adversarial Metric Learning (Chen et al., IJCAI 2018) and the methods it is compared with, behind one
scikit-learn interface for class labels and for pairs.
"""

from .aml import AML, AMLCV
from .baselines.euclidean import Euclidean
from .baselines.gmml import GMML
from .datasets import list_datasets, load_dataset
from .metric import Mahalanobis
from .registry import Method, methods
from .supervision import AllPairs, BalancedPairs, NeighborPairs, RandomPairs

__version__ = "0.1.0"

__all__ = [
    "AML",
    "AMLCV",
    "GMML",
    "AllPairs",
    "BalancedPairs",
    "Euclidean",
    "Mahalanobis",
    "Method",
    "NeighborPairs",
    "RandomPairs",
    "list_datasets",
    "load_dataset",
    "methods",
]
