"""advmetric: distances that hold up on ambiguous data.

Adversarial Metric Learning (Chen et al., IJCAI 2018) and the methods it is compared with, behind one
scikit-learn interface for class labels and for pairs.
"""

from .algorithms.aml import AML
from .algorithms.amlcv import AMLCV
from .algorithms.arml import ARML
from .algorithms.discriminative import NeighborAML, PairAML
from .algorithms.drift import DRIFT
from .algorithms.drml import DRML
from .algorithms.erml import ERML
from .algorithms.euclidean import Euclidean
from .algorithms.flatgeo import FlatGeo
from .algorithms.gmml import GMML
from .algorithms.itml import ITML
from .algorithms.lmnn.estimator import LMNN
from .algorithms.registry import Method, methods
from .algorithms.rgml import RGML
from .algorithms.rvml import RVML, KernelRVML
from .datasets import list_datasets, load_dataset
from .metric.index import MetricIndex
from .metric.mahalanobis import Mahalanobis
from .pairs.samplers import AllPairs, BalancedPairs, NeighborPairs, RandomPairs

__version__ = "0.1.0"

__all__ = [
    "AML",
    "AMLCV",
    "ARML",
    "DRIFT",
    "DRML",
    "ERML",
    "GMML",
    "ITML",
    "LMNN",
    "RGML",
    "RVML",
    "AllPairs",
    "BalancedPairs",
    "Euclidean",
    "FlatGeo",
    "KernelRVML",
    "Mahalanobis",
    "Method",
    "MetricIndex",
    "NeighborAML",
    "NeighborPairs",
    "PairAML",
    "RandomPairs",
    "list_datasets",
    "load_dataset",
    "methods",
]
