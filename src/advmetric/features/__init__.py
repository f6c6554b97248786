"""From images to points: dense SIFT (extra ``vision``), a Siamese network (extra ``deep``), and a cache on disk."""

from .cache import cached
from .dense_sift import dense_sift, sift_pipeline
from .siamese import SiameseNet

__all__ = ["SiameseNet", "cached", "dense_sift", "sift_pipeline"]
