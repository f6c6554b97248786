"""Batches of labelled points or of pairs. A batch is a function of the seed and the step: there is no state to save."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["Batch", "Batches", "ClassBatches", "PairBatches", "TripletBatches"]

Rows = NDArray[np.intp]


@dataclass(frozen=True)
class Batch:
    """Rows of the points to load, each once, and what is known of them.

    Parameters
    ----------
    rows : (m,) int array
    labels : (m,) array of class codes, or (N,) of +1 and -1 with ``pairs``
    pairs : (N, 2) int array, optional
        Places in ``rows``.
    """

    rows: Rows
    labels: NDArray[Any]
    pairs: NDArray[Any] | None = None


class Batches(Protocol):
    """What training asks for."""

    @property
    def steps_per_epoch(self) -> int:
        """Number of batches that together have as many points (or pairs) as there are."""

    def batch(self, step: int) -> Batch:
        """The batch of a step, counted from 0."""


@dataclass(frozen=True)
class ClassBatches:
    """Class-balanced batches: ``per_class`` points of each of ``batch_size / per_class`` classes.

    Points and classes are drawn anew for each step, without replacement; where there are too few classes to fill
    a batch, each gives more points. Classes are equally likely, whatever their sizes. Those with one point are drawn,
    too: they have dissimilar pairs.

    Parameters
    ----------
    codes : (n,) int array
        Classes 0 … C-1; -1 for points that are not used.
    batch_size : int
    per_class : int
    seed : int

    Examples
    --------
    >>> batches = ClassBatches(np.repeat(np.arange(10), 30), batch_size=12, per_class=4, seed=0)
    >>> np.unique(batches.batch(0).labels, return_counts=True)[1].tolist()
    [4, 4, 4]
    """

    codes: NDArray[Any]
    batch_size: int
    per_class: int
    seed: int
    _members: list[Rows] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        order = np.argsort(self.codes, kind="stable")
        order = order[np.searchsorted(self.codes[order], 0) :]
        bounds = np.flatnonzero(np.diff(self.codes[order])) + 1
        object.__setattr__(self, "_members", np.split(order, bounds))

    @property
    def steps_per_epoch(self) -> int:
        """Number of batches that together have as many points as there are."""
        return max(1, round(sum(map(len, self._members)) / self.batch_size))

    def batch(self, step: int) -> Batch:
        """The batch of a step: rows and class codes."""
        random = np.random.default_rng([self.seed, step])
        n_classes = min(len(self._members), max(2, self.batch_size // self.per_class))
        share = max(2, self.batch_size // n_classes)
        chosen = random.permutation(len(self._members))[:n_classes]
        drawn = [self._members[c] for c in chosen]
        rows = np.concatenate([random.permutation(part)[:share] for part in drawn])
        return Batch(rows, self.codes[rows])


@dataclass(frozen=True)
class PairBatches:
    """Batches of pairs, half of them similar; an epoch has every pair of the rarer kind once.

    Of the more frequent kind, an epoch sees as many as of the rarer one, and the epochs take turns through all of them.

    Parameters
    ----------
    pairs : (N, 2) int array
        Rows of the points.
    labels : (N,) array of +1 and -1
    batch_size : int
        Pairs in a batch.
    seed : int
    """

    pairs: NDArray[Any]
    labels: NDArray[Any]
    batch_size: int
    seed: int

    @property
    def _kinds(self) -> tuple[Rows, Rows]:
        return np.flatnonzero(self.labels > 0), np.flatnonzero(self.labels < 0)

    @property
    def steps_per_epoch(self) -> int:
        """Number of batches that have every pair of the rarer kind once."""
        return max(1, -(-min(map(len, self._kinds)) // max(1, self.batch_size // 2)))

    def batch(self, step: int) -> Batch:
        """The batch of a step: unique rows, and pairs of places in them."""
        half = max(1, self.batch_size // 2)
        places = np.arange(half) + half * step
        chosen = np.concatenate([self._drawn(kind, rows, places) for kind, rows in enumerate(self._kinds)])
        rows, at = np.unique(self.pairs[chosen], return_inverse=True)
        return Batch(rows, self.labels[chosen], at.reshape(-1, 2))

    def _drawn(self, kind: int, rows: Rows, places: Rows) -> Rows:
        """Entries at ``places`` of an endless sequence of shuffled copies of ``rows``."""
        drawn = np.empty_like(places)
        for turn in np.unique(places // len(rows)):
            now = places // len(rows) == turn
            order = np.random.default_rng([self.seed, kind, int(turn)]).permutation(rows)
            drawn[now] = order[places[now] % len(rows)]
        return drawn


@dataclass(frozen=True)
class TripletBatches:
    """Batches of triplets (anchor, similar, dissimilar) made of given pairs.

    An epoch has every similar pair in both orders once, each with a dissimilar partner of its anchor, drawn anew. The
    pairs of a batch are its (anchor, similar) ones followed by its (anchor, dissimilar) ones, in the same order.

    Parameters
    ----------
    pairs, labels, batch_size, seed :
        As for :class:`PairBatches`; a batch has this many triplets.

    Raises
    ------
    ValueError
        If no similar pair shares a point with a dissimilar one.
    """

    pairs: NDArray[Any]
    labels: NDArray[Any]
    batch_size: int
    seed: int
    _similar: NDArray[Any] = field(init=False, repr=False, compare=False)
    _partners: NDArray[Any] = field(init=False, repr=False, compare=False)
    _ranges: NDArray[Any] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        similar, dissimilar = (
            np.vstack([part, part[:, ::-1]]) for part in (self.pairs[self.labels > 0], self.pairs[self.labels < 0])
        )
        dissimilar = dissimilar[np.argsort(dissimilar[:, 0], kind="stable")]
        ranges = np.column_stack(
            [np.searchsorted(dissimilar[:, 0], similar[:, 0], side=side) for side in ("left", "right")]
        )
        usable = ranges[:, 1] > ranges[:, 0]
        if not usable.any():
            raise ValueError('loss="triplet" needs similar and dissimilar pairs that share a point; there are none.')
        object.__setattr__(self, "_similar", similar[usable])
        object.__setattr__(self, "_partners", dissimilar[:, 1])
        object.__setattr__(self, "_ranges", ranges[usable])

    @property
    def steps_per_epoch(self) -> int:
        """Number of batches that have every similar pair in both orders once."""
        return -(-len(self._similar) // self.batch_size)

    def triplets(self, step: int) -> NDArray[Any]:
        """(anchor, similar, dissimilar) rows of the points of a step."""
        epoch, place = divmod(step, self.steps_per_epoch)
        random = np.random.default_rng([self.seed, epoch])
        chosen = random.permutation(len(self._similar))[place * self.batch_size : (place + 1) * self.batch_size]
        first, last = self._ranges[chosen].T
        drawn = np.random.default_rng([self.seed, epoch, place]).integers(first, last)
        return np.column_stack([self._similar[chosen], self._partners[drawn]])

    def batch(self, step: int) -> Batch:
        """The batch of a step: unique rows, and pairs of places in them."""
        triplets = self.triplets(step)
        rows, at = np.unique(np.vstack([triplets[:, :2], triplets[:, [0, 2]]]), return_inverse=True)
        return Batch(rows, np.repeat([1, -1], len(triplets)), at.reshape(-1, 2))
