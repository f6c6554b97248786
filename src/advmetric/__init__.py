"""advmetric: distances that hold up on ambiguous data.

Adversarial Metric Learning (Chen et al., IJCAI 2018) and the methods it is compared with, behind one
scikit-learn interface for class labels and for pairs.
"""

from .aml import AML, AMLCV
from .baselines.drift import DRIFT
from .baselines.drml import DRML
from .baselines.erml import ERML
from .baselines.euclidean import Euclidean
from .baselines.flatgeo import FlatGeo
from .baselines.gmml import GMML
from .baselines.itml import ITML
from .baselines.lmnn import LMNN
from .baselines.rvml import RVML, KernelRVML
from .datasets import list_datasets, load_dataset
from .metric import Mahalanobis
from .registry import Method, methods
from .search import MetricIndex
from .supervision import AllPairs, BalancedPairs, NeighborPairs, RandomPairs

__version__ = "0.1.0"

__all__ = [
    "AML",
    "AMLCV",
    "DRIFT",
    "DRML",
    "ERML",
    "GMML",
    "ITML",
    "LMNN",
    "RVML",
    "AllPairs",
    "BalancedPairs",
    "Euclidean",
    "FlatGeo",
    "KernelRVML",
    "Mahalanobis",
    "Method",
    "MetricIndex",
    "NeighborPairs",
    "RandomPairs",
    "list_datasets",
    "load_dataset",
    "methods",
]
