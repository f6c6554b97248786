"""Verification: given two images, do they show the same thing? Sets of labelled pairs with their protocols."""

from advmetric.datasets.verification.jitter import Jitter
from advmetric.datasets.verification.loader import list_verification, load_verification
from advmetric.datasets.verification.sets import Development, VerificationSet

__all__ = ["Development", "Jitter", "VerificationSet", "list_verification", "load_verification"]
