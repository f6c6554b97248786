"""Public names for learning from batches: see the guide to scale."""

from .pairs.batches import slices
from .pairs.pair_statistics import PairStatistics, PointStatistics

__all__ = ["PairStatistics", "PointStatistics", "slices"]
