"""Labelled datasets: six bundled, the others from a data home or OpenML; and pairs for verification."""

from advmetric.datasets.loader import load_dataset
from advmetric.datasets.registry import DatasetInfo, list_datasets
from advmetric.datasets.verification import VerificationSet, list_verification, load_verification

__all__ = [
    "DatasetInfo",
    "VerificationSet",
    "list_datasets",
    "list_verification",
    "load_dataset",
    "load_verification",
]
