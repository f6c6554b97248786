"""Adversarial metric learning with discriminative losses: PairAML and NeighborAML.

Three independent parts make up a problem: a loss that sees squared distances only (:mod:`.losses`), an adversary that
changes squared distances (:mod:`.adversary`), and a solver (:mod:`.solver`). :mod:`.problem` joins them.
"""

from .neighbor_aml import NeighborAML
from .pair_aml import PairAML

__all__ = ["NeighborAML", "PairAML"]
