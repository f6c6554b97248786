"""Labelled datasets: six bundled, the others from a data home or OpenML; and pairs for verification."""

from .loader import load_dataset
from .registry import DatasetInfo, list_datasets
from .verification import VerificationSet, list_verification, load_verification

__all__ = [
    "DatasetInfo",
    "VerificationSet",
    "list_datasets",
    "list_verification",
    "load_dataset",
    "load_verification",
]
