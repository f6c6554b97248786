"""Statistics of a stream: what batches leave behind, exactly, so that the rows need not be kept.

:class:`PointStatistics` (labelled points, all of their pairs) and :class:`PairStatistics` (labelled pairs)
are built by ``of``, grow by ``update`` and join by ``merge``; ``scaled`` gives those of rescaled features, ``scatter``
the two matrices that a metric is learned from. Any split of the data into batches, merged in any order, gives the
same to rounding.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .class_statistics import PointStatistics, Scatter
from .linalg import Matrix, Vector
from .pair_sample import PairSample
from .supervision import Pairs, pair_sums

__all__ = ["PairSample", "PairStatistics", "PointStatistics", "slices"]


def slices(X: Any, y: Any, rows: int = 65_536) -> Iterator[tuple[Any, Any]]:
    """Yield (X[i : i + rows], y[i : i + rows]): of memory-mapped arrays, one batch is in memory at a time."""
    for start in range(0, X.shape[0], rows):
        yield X[start : start + rows], y[start : start + rows]
        release(X)


def release(X: Any) -> None:
    """Give back the pages of a file that were read: else the process seems to hold all of it in the end."""
    base: Any = getattr(X, "base", None)
    # Not of a copy-on-write map: its changes are in these pages only.
    if isinstance(base, mmap.mmap) and getattr(X, "mode", "") == "r" and hasattr(mmap, "MADV_DONTNEED"):
        base.madvise(mmap.MADV_DONTNEED)


@dataclass
class PairStatistics:
    """Sums of (x - x')(x - x')ᵀ over similar and dissimilar pairs, their numbers, and a sample of the pairs."""

    similar: Matrix
    dissimilar: Matrix
    n_similar: int
    n_dissimilar: int
    sample: PairSample

    @classmethod
    def of(cls, pairs: Pairs, *, moments: bool = True) -> PairStatistics:
        """Statistics of labelled pairs, perhaps of one kind only; without ``moments``, only numbers and the sample."""
        if moments:
            return cls(*pair_sums(pairs), PairSample.of(pairs))
        n_similar = int(np.sum(pairs.labels == 1))
        return cls(np.empty((0, 0)), np.empty((0, 0)), n_similar, len(pairs) - n_similar, PairSample.of(pairs))

    def merge(self, other: PairStatistics) -> PairStatistics:
        """Statistics of both sets of pairs together; neither is changed."""
        return PairStatistics(
            self.similar + other.similar,
            self.dissimilar + other.dissimilar,
            self.n_similar + other.n_similar,
            self.n_dissimilar + other.n_dissimilar,
            self.sample.merge(other.sample),
        )

    def scaled(self, factors: Vector) -> PairStatistics:
        """Statistics of the same pairs with feature j multiplied by ``factors[j]``; the sample is that of before."""
        sample = replace(self.sample, differences=self.sample.differences * factors)
        weights = np.outer(factors, factors)
        return replace(self, similar=self.similar * weights, dissimilar=self.dissimilar * weights, sample=sample)

    def __sizeof__(self) -> int:
        """Bytes: what schedulers weigh moving it by."""
        return self.similar.nbytes + self.dissimilar.nbytes + self.sample.differences.nbytes

    @property
    def missing(self) -> str | None:
        """What is still needed before a metric can be learned."""
        if not self.n_similar:
            return "a similar pair (label +1)"
        return None if self.n_dissimilar else "a dissimilar pair (label -1)"

    def scatter(self) -> Scatter:
        """Averages over the pairs of each kind."""
        if self.missing:
            raise ValueError(f"no metric can be learned yet: it needs {self.missing}.")
        A, B = self.similar / self.n_similar, self.dissimilar / self.n_dissimilar
        return Scatter(A, B, self.n_similar, self.n_dissimilar)
