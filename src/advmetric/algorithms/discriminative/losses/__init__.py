"""Losses: one per file. A loss sees squared distances only, and returns its value and its derivatives by them."""

from .base import Loss, LossValue, NeighborLoss, softplus
from .logistic_pairs import LogisticPairs
from .margin import Margin
from .radius import Radius
from .softmax import Softmax
from .triplets import LogisticTriplets

__all__ = [
    "LogisticPairs",
    "LogisticTriplets",
    "Loss",
    "LossValue",
    "Margin",
    "NeighborLoss",
    "Radius",
    "Softmax",
    "softplus",
]
