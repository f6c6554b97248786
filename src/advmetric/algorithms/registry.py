"""The methods of this library, in one table: what the experiments and the command line iterate over.

A new method is one file in ``algorithms/`` and one row here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from advmetric.learners.base import MetricLearner

from .aml import AML
from .aml.estimator import AML_GRID
from .amlcv import AMLCV
from .arml import ARML
from .discriminative import NeighborAML, PairAML
from .drift import DRIFT
from .drml import DRML
from .erml import ERML
from .euclidean import Euclidean
from .flatgeo import FlatGeo
from .gmml import GMML
from .itml import ITML
from .lmnn import LMNN
from .rgml import RGML
from .rvml import RVML

__all__ = ["SEARCH", "Method", "methods"]


@dataclass(frozen=True)
class Method:
    """One metric learner and what is worth knowing about it.

    See Also
    --------
    methods : List them.

    Examples
    --------
    >>> from advmetric import methods
    >>> gmml = next(method for method in methods() if method.name == "GMML")
    >>> gmml.supervision, list(gmml.grid)
    (('points', 'pairs'), ['t'])
    """

    name: str
    estimator: type[MetricLearner]
    paper: str
    certainty: str
    """How sure the formulas are: from the paper, the authors' code, a textbook, or a reconstruction."""
    grid: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    """Parameters worth tuning, with the values to try by default."""
    tunes_on_all_pairs: bool = False
    """Whether the best parameters depend on the number of pairs: tuned on fewer pairs, they would be wrong for all."""

    @property
    def draws_paper_pairs(self) -> bool:
        """Return whether the experiments give it the random pairs that the paper's methods learn from."""
        return self.certainty != "derived here"

    @property
    def supervision(self) -> tuple[str, ...]:
        """What it learns from: "points" (with class labels), "pairs", or both."""
        return self.estimator.supervision


_METHODS = (
    Method("Euclidean", Euclidean, "no learning", "exact"),
    Method(
        "ITML",
        ITML,
        "Davis, Kulis, Jain, Sra, Dhillon. Information-Theoretic Metric Learning. ICML 2007",
        "authors' code",
        {"gamma": (1e-4, 1e-3, 1e-2, 1e-1, 1.0)},
        tunes_on_all_pairs=True,
    ),
    Method(
        "LMNN",
        LMNN,
        "Weinberger, Saul. Distance Metric Learning for Large Margin Nearest Neighbor Classification. JMLR 2009",
        "textbook",
        {"n_neighbors": (1, 3, 5)},
    ),
    Method(
        "FlatGeo",
        FlatGeo,
        "Meyer, Bonnabel, Sepulchre. Regression on Fixed-Rank Positive Semidefinite Matrices. JMLR 2011",
        "textbook; step constants are a reconstruction",
        {"percentiles": ((5, 95), (25, 75), (40, 60))},
    ),
    Method(
        "RVML",
        RVML,
        "Perrot, Habrard. Regressive Virtual Metric Learning. NIPS 2015",
        "authors' code",
        {"lam": (1e-5, 1e-4, 1e-3, 1e-2, 1e-1)},
    ),
    Method(
        "GMML",
        GMML,
        "Zadeh, Hosseini, Sra. Geometric Mean Metric Learning. ICML 2016",
        "paper and authors' code",
        {"t": (0.05, 0.1, 0.25, 0.5, 0.75)},
    ),
    Method(
        "ERML",
        ERML,
        "Yang et al. Empirical Risk Minimization for Metric Learning Using Privileged Information. IJCAI 2016",
        "reconstruction from the abstract",
        {"lam": (1e-4, 1e-3, 1e-2), "gamma": (1e-2, 1e-1)},
    ),
    Method(
        "DRML",
        DRML,
        "Harandi, Salzmann, Hartley. Joint Dimensionality Reduction and Metric Learning. ICML 2017",
        "paper",
        {"lam": (1e-3, 1e-2, 1e-1)},
    ),
    Method(
        "DRIFT",
        DRIFT,
        "Ye, Zhan, Si, Jiang. Learning Mahalanobis Distance Metric: Considering Instance Disturbance Helps. IJCAI 2017",
        "reconstruction from the abstract",
        {"lambda1": (1e-2, 1e-1, 1.0), "lambda2": (1.0, 10.0)},
    ),
    Method(
        "ARML",
        ARML,
        "Wang, Liu, Yi, Jiang, Hsieh. Provably Robust Metric Learning. NeurIPS 2020",
        "paper and authors' code",
        {"loss": ("negative", "logistic"), "n_steps": (300, 1000)},
    ),
    Method(
        "RGML",
        RGML,
        "Collas, Breloy, Ginolhac, Ren, Ovarlez. Robust Geometric Metric Learning. EUSIPCO 2022",
        "paper and authors' code",
        {"cost": ("gaussian", "tyler"), "lam": (0.01, 0.05, 0.5)},
    ),
    Method(
        "AML",
        AML,
        "Chen, Gong, Yang, Li, Wei, Li. Adversarial Metric Learning. IJCAI 2018",
        "paper, re-derived (errata in docs/paper-notes.md)",
        AML_GRID,
    ),
    Method(
        "PairAML",
        PairAML,
        "this library: logistic loss on pairs, after Chen et al. (IJCAI 2018) and Guillaumin et al. (ICCV 2009)",
        "derived here",
        {"t": (0.1, 0.5), "gamma": (1.0, 0.3, 0.1, 0.01), "alpha": (1.0, 0.0), "beta": (10.0, 30.0)},
        tunes_on_all_pairs=True,
    ),
    Method(
        "NeighborAML",
        NeighborAML,
        "this library: losses on neighbours, after Chen et al. (IJCAI 2018), LMNN, NCA and ARML",
        "derived here",
        {"loss": ("margin", "softmax", "radius"), "t": (0.1, 0.25), "gamma": (0.01, 0.1), "alpha": (0.0, 1.0)},
    ),
)


SEARCH = Method("AMLCV", AMLCV, "this library: the loss and its parameters by cross-validation", "derived here")
"""Not one of the methods, but a choice among them: the default of the command line, and a row of the experiments."""


def methods() -> tuple[Method, ...]:
    """List the methods with their class, paper, supervision, certainty and default tuning grid.

    See Also
    --------
    Method : What is known of each.

    Examples
    --------
    >>> [method.name for method in methods()][:2]
    ['Euclidean', 'ITML']
    """
    return _METHODS
