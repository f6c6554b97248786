"""The methods of this library, in one table: what the experiments and the command line iterate over.

A new method is one file in ``baselines/`` and one row here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .aml import AML
from .baselines.euclidean import Euclidean
from .baselines.gmml import GMML
from .learner import MetricLearner

__all__ = ["Method", "methods"]


@dataclass(frozen=True)
class Method:
    """One metric learner and what is worth knowing about it."""

    name: str
    estimator: type[MetricLearner]
    paper: str
    certainty: str
    """How sure the formulas are: from the paper, the authors' code, a textbook, or a reconstruction."""
    grid: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    """Parameters worth tuning, with the values to try by default."""

    @property
    def supervision(self) -> tuple[str, ...]:
        """What it learns from: "points" (with class labels), "pairs", or both."""
        return self.estimator.supervision


_METHODS = (
    Method("Euclidean", Euclidean, "no learning", "exact"),
    Method(
        "GMML",
        GMML,
        "Zadeh, Hosseini, Sra. Geometric Mean Metric Learning. ICML 2016",
        "paper and authors' code",
        {"t": (0.05, 0.1, 0.25, 0.5, 0.75)},
    ),
    Method(
        "AML",
        AML,
        "Chen, Gong, Yang, Li, Wei, Li. Adversarial Metric Learning. IJCAI 2018",
        "paper, re-derived (errata in docs/paper-notes.md)",
        {"t": (0.05, 0.1, 0.25, 0.5, 0.75), "beta": (0.01, 0.1, 1.0), "alpha": (0.1, 1.0, 10.0, 100.0)},
    ),
)


def methods() -> tuple[Method, ...]:
    """List the methods with their class, paper, supervision, certainty and default tuning grid.

    Examples
    --------
    >>> [method.name for method in methods()][:2]
    ['Euclidean', 'GMML']
    """
    return _METHODS
