"""From images to points: dense SIFT (extra ``vision``) and a cache on disk. Networks are in :mod:`advmetric.deep`."""

from .cache import cached
from .dense_sift import dense_sift, sift_pipeline

__all__ = ["cached", "dense_sift", "sift_pipeline"]
