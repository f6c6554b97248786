"""Labelled datasets: six bundled, the others from a data home or OpenML."""

from advmetric.datasets.loader import load_dataset
from advmetric.datasets.registry import DatasetInfo, list_datasets

__all__ = ["DatasetInfo", "list_datasets", "load_dataset"]
