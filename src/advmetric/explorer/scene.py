"""Which points and pairs the page shows: few enough to stay fluid, held-out pairs first."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from advmetric.learners.folds import draw_rows
from advmetric.pairs.data import LabelledPoints, Pairs, Samples
from advmetric.pairs.samplers import BalancedPairs
from advmetric.utils.typing import Indices, Matrix

__all__ = ["Scene", "make_scene"]

JUDGED = 4000
"""Pairs of held-out points that are drawn at most."""


@dataclass(frozen=True)
class Scene:
    """Points to show, and held-out pairs of them.

    Parameters
    ----------
    X : (n, d) array
    rows : (n,) array
        Rows of the file that the points are of, counted from 1.
    names : list of str
        For people: "17", or "17a" for the first point of pair 17.
    classes : (n,) array, or None
        Codes of the classes; None for points of pairs.
    held_out : (n,) boolean array
        Whether the metric was not learned from the point.
    left, right, kinds : (N,) arrays
        Held-out pairs as positions among the points, and +1 or -1.
    links : (P, 3) array
        For pairs: all shown pairs as positions, and +1 or -1.
    """

    X: Matrix
    rows: Indices
    names: list[str]
    classes: NDArray[np.integer] | None
    held_out: NDArray[np.bool_]
    left: Indices
    right: Indices
    kinds: NDArray[np.integer]
    links: NDArray[np.integer]


def make_scene(samples: Samples, held_out: Indices, most: int, seed: int) -> Scene:
    """Choose at most ``most`` points and the held-out pairs among them.

    Of points, a stratified random sample is shown, and balanced random pairs of its held-out points are judged. Of
    pairs, held-out ones are shown before others; equal points of several pairs are one point.
    """
    if isinstance(samples, LabelledPoints):
        return _of_points(samples, held_out, most, seed)
    return _of_pairs(samples, held_out, most, seed)


def _of_points(samples: LabelledPoints, held_out: Indices, most: int, seed: int) -> Scene:
    drawn = draw_rows(samples.labels, most, seed)
    rows = np.arange(len(samples)) if drawn is None else drawn
    shown, out = samples.take(rows), np.isin(rows, held_out)
    left, right, kinds = _drawn_pairs(shown, np.flatnonzero(out), seed)
    names = [str(row + 1) for row in rows]
    return Scene(shown.X, rows + 1, names, shown.labels, out, left, right, kinds, np.empty((0, 3), dtype=int))


def _drawn_pairs(points: LabelledPoints, among: Indices, seed: int) -> tuple[Indices, Indices, NDArray[np.integer]]:
    """Draw balanced pairs, each once; none where the points have not both kinds."""
    part = points.take(among)
    sizes = np.unique(part.labels, return_counts=True)[1]
    if len(sizes) < 2 or sizes.max() < 2:
        nothing = np.empty(0, dtype=np.intp)
        return nothing, nothing, nothing
    pairs = BalancedPairs(min(JUDGED, 20 * len(part))).sample(part.X, part.labels, seed)
    ends = np.unique(np.sort(pairs.indices, axis=1), axis=0)
    kinds = np.where(part.labels[ends[:, 0]] == part.labels[ends[:, 1]], 1, -1)
    return among[ends[:, 0]], among[ends[:, 1]], kinds


def _of_pairs(samples: Pairs, held_out: Indices, most: int, seed: int) -> Scene:
    order = np.random.default_rng(seed).permutation(len(samples))
    out = np.isin(order, held_out)
    chosen = np.concatenate([np.sort(order[out][: most // 2]), order[~out]])[: most // 2]
    shown, held = samples.take(chosen), np.isin(chosen, held_out)
    ends = np.concatenate([shown.left, shown.right])
    _, first, place = np.unique(shown.X[ends], axis=0, return_index=True, return_inverse=True)
    # Points in the order in which they occur.
    rank = np.argsort(np.argsort(first))
    place, first = rank[place.ravel()], np.sort(first)
    left, right = np.split(place, 2)
    n = len(first)
    learned_from = np.zeros(n, dtype=bool)
    learned_from[left[~held]] = learned_from[right[~held]] = True
    rows = chosen[first % len(shown)] + 1
    names = [f"{row}{'a' if f < len(shown) else 'b'}" for row, f in zip(rows, first, strict=True)]
    links = np.column_stack([left, right, shown.labels])
    judged = (left[held], right[held], shown.labels[held])
    return Scene(shown.X[ends[first]], rows, names, None, ~learned_from, *judged, links)
