"""Bounded samples of pairs to choose a threshold on: of pairs at hand, and of a stream, however it was cut."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from advmetric.utils.typing import Matrix

from .data import Pairs

__all__ = ["PairSample", "threshold_pairs"]

_SAMPLE_PAIRS = 10_000
_SAMPLE_BYTES = 1 << 26
MOST_THRESHOLD_PAIRS = 1_000_000
"""``fit`` chooses its threshold on at most this many pairs: the share of right decisions is then known to 0.05 %."""


def threshold_pairs(pairs: Pairs) -> Pairs:
    """The pairs, or one drawn from each of 10⁶ equal stretches if there are more; always the same ones.

    (Drawn at random, not every k-th: the kinds may alternate. A stream, whose length is unknown, is sampled otherwise.)
    """
    N = len(pairs)
    if N <= MOST_THRESHOLD_PAIRS:
        return pairs
    ends = np.arange(MOST_THRESHOLD_PAIRS + 1) * N // MOST_THRESHOLD_PAIRS
    return pairs.take(np.random.default_rng(0).integers(ends[:-1], ends[1:]))


@dataclass
class PairSample:
    """A bounded uniform sample of pairs, by their differences: what a threshold is chosen on.

    Those with the smallest keys are kept, the key of a pair being a hash of its difference and label. So the sample
    depends on neither order nor batches nor a random state, merges exactly, and is everything while that fits.
    """

    differences: Matrix
    labels: NDArray[np.int8]
    keys: NDArray[np.uint64]

    @classmethod
    def of(cls, pairs: Pairs) -> PairSample:
        """Sample of labelled pairs."""
        d = pairs.X.shape[1]
        sample = cls(np.empty((0, d)), np.empty(0, np.int8), np.empty(0, np.uint64))
        for block, V in pairs.differences():
            labels = pairs.labels[block].astype(np.int8)
            keys = _keys(V, labels)
            if len(sample.keys) == sample.capacity:
                near = keys < sample.keys[-1]
                V, labels, keys = V[near], labels[near], keys[near]
            sample = sample.merge(cls(V, labels, keys))
        return sample

    @property
    def capacity(self) -> int:
        """How many pairs are kept at most: 10 000, or 64 MB of them."""
        return max(100, min(_SAMPLE_PAIRS, _SAMPLE_BYTES // (8 * self.differences.shape[1])))

    def merge(self, other: PairSample) -> PairSample:
        """Sample of both sets of pairs together."""
        keys = np.concatenate([self.keys, other.keys])
        kept = np.argsort(keys, kind="stable")[: self.capacity]
        return PairSample(
            np.concatenate([self.differences, other.differences])[kept],
            np.concatenate([self.labels, other.labels])[kept],
            keys[kept],
        )


def _keys(V: Matrix, labels: NDArray[np.int8]) -> NDArray[np.uint64]:
    """Hash of each row and its label: Σ odd_j · bits_j modulo 2⁶⁴, its bits then mixed (splitmix64)."""
    odd = np.random.default_rng(0x41D6).integers(1 << 63, size=V.shape[1], dtype=np.uint64) | np.uint64(1)
    bits = (V + 0.0).view(np.uint64)  # + 0.0 turns -0.0 into 0.0
    keys = np.einsum("ij,j->i", bits ^ (bits >> np.uint64(32)), odd) + labels.astype(np.uint64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        keys = (keys ^ (keys >> np.uint64(shift))) * np.uint64(factor)
    return keys ^ (keys >> np.uint64(31))
