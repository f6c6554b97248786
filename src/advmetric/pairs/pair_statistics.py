"""Statistics of labelled points and of labelled pairs that add up over batches.

:class:`PointStatistics` (labelled points, all of their pairs) and :class:`PairStatistics` (labelled pairs) are built by
``of``, grow by ``update`` and are joined by ``merge``; ``scaled`` gives those of rescaled features, ``scatter`` the two
matrices that a metric is learned from. Any split of the data into batches, merged in any order, gives the same result
to rounding.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from advmetric.utils.typing import Matrix, Vector

from .class_statistics import PointStatistics
from .data import Pairs, Scatter
from .sample import PairSample
from .scatter import pair_sums

__all__ = ["PairStatistics", "PointStatistics", "Statistics"]


@dataclass
class PairStatistics:
    """Sums of (x - x')(x - x')ᵀ over similar and dissimilar pairs, their numbers, and a sample of the pairs.

    See Also
    --------
    PointStatistics : Of labelled points.

    Examples
    --------
    >>> import numpy as np
    >>> from advmetric import GMML, BalancedPairs, load_dataset
    >>> data = load_dataset("vehicle")
    >>> pairs = BalancedPairs(400).sample(data.X, data.y, random_state=0)
    >>> halves = [PairStatistics.of(pairs.take(rows)) for rows in np.split(np.arange(400), 2)]
    >>> GMML().fit_statistics(halves[0].merge(halves[1])).components_.shape
    (18, 18)
    """

    similar: Matrix
    dissimilar: Matrix
    n_similar: int
    n_dissimilar: int
    sample: PairSample

    kind: ClassVar[str] = "pairs"

    @classmethod
    def of(cls, pairs: Pairs, *, moments: bool = True) -> PairStatistics:
        """Statistics of labelled pairs, perhaps of one kind only; without ``moments``, only numbers and the sample."""
        if moments:
            return cls(*pair_sums(pairs), PairSample.of(pairs))
        n_similar = int(np.sum(pairs.labels == 1))
        return cls(np.empty((0, 0)), np.empty((0, 0)), n_similar, len(pairs) - n_similar, PairSample.of(pairs))

    def merge(self, other: PairStatistics) -> PairStatistics:
        """Statistics of both sets of pairs together; neither is changed."""
        if not isinstance(other, PairStatistics) or self.n_features != other.n_features:
            raise ValueError(
                f"statistics of pairs with {self.n_features} features do not merge with {_described(other)}."
            )
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

    @property
    def n_features(self) -> int:
        """Return d."""
        return int(self.sample.differences.shape[1])

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


Statistics = PointStatistics | PairStatistics


def _described(other: object) -> str:
    kind, width = getattr(other, "kind", type(other).__name__), getattr(other, "n_features", None)
    return kind if width is None else f"those of {kind} with {width}"
