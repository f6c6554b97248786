"""Verification: given two images, do they show the same thing? Sets of labelled pairs with their protocols."""

from .jitter import Jitter
from .loader import list_verification, load_verification
from .sets import Development, VerificationSet

__all__ = ["Development", "Jitter", "VerificationSet", "list_verification", "load_verification"]
