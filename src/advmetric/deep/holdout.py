"""Pairs held out to stop training by, of points that training does not see."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

__all__ = ["split_pairs"]

Rows = NDArray[np.intp]


def split_pairs(
    pairs: NDArray[Any], labels: NDArray[Any], fraction: float, random: np.random.RandomState
) -> tuple[Rows, Rows, bool]:
    """Rows of ``pairs`` to train on, rows held out, and whether the two share no point.

    Points that similar pairs link go together, so that no similar pair is lost; a dissimilar pair of a training point
    and a held-out one is in neither part. If that leaves a part without one kind of pairs, or training without half
    of the dissimilar ones, the pairs themselves are split at random, and the parts share points.
    """
    points, at = np.unique(pairs, return_inverse=True)
    at = at.reshape(pairs.shape)
    left, right = at[labels > 0].T
    links = coo_array((np.ones(len(left)), (left, right)), shape=(len(points), len(points)))
    count, group = connected_components(links, directed=False)
    # By the number of similar pairs, not of groups: one group may hold most of them. Groups without any count little.
    weight = np.bincount(group[left], minlength=count) + 0.1
    order = random.permutation(count)
    held_groups = np.zeros(count, dtype=bool)
    held_groups[order[np.cumsum(weight[order]) <= fraction * weight.sum()]] = True
    held_points = held_groups[group]
    sides = held_points[at].sum(axis=1)
    train, held = np.flatnonzero(sides == 0), np.flatnonzero(sides == 2)
    both = all(np.any(labels[part] == kind) for part in (train, held) for kind in (-1, 1))
    if both and 2 * np.sum(labels[train] < 0) >= np.sum(labels < 0):
        return train, held, True
    kinds = [random.permutation(np.flatnonzero(labels == kind)) for kind in (-1, 1)]
    counts = [min(max(1, round(fraction * len(rows))), len(rows) - 1) for rows in kinds]
    train = np.sort(np.concatenate([rows[n:] for rows, n in zip(kinds, counts, strict=True)]))
    held = np.sort(np.concatenate([rows[:n] for rows, n in zip(kinds, counts, strict=True)]))
    return train, held, False
