"""Which points of a batch are similar and which dissimilar: as lists of pairs, or as masks of the distance matrix."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["Listed", "Related", "from_labels", "from_pairs", "from_tuple"]

Indices = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class Related:
    """Masks (n, m) of the similar and of the dissimilar pairs of n points and m others."""

    similar: Tensor
    dissimilar: Tensor


@dataclass(frozen=True)
class Listed:
    """Pairs by index, (left, right) for each kind; ``right`` refers to the other points if there are such."""

    similar: Indices
    dissimilar: Indices

    def related(self, n: int, m: int) -> Related:
        """The same pairs as masks."""
        masks = []
        for left, right in (self.similar, self.dissimilar):
            mask = torch.zeros((n, m), dtype=torch.bool, device=left.device)
            mask[left, right] = True
            masks.append(mask)
        return Related(*masks)


def from_labels(labels: Tensor, ref_labels: Tensor, same_points: bool) -> Related:
    """All pairs of classes (n,) and (m,); a point is not paired with itself if ``same_points``."""
    similar = labels[:, None] == ref_labels[None, :]
    dissimilar = ~similar
    if same_points:
        similar = similar.fill_diagonal_(False)
    return Related(similar, dissimilar)


def from_tuple(indices_tuple: tuple[Tensor, ...]) -> Listed:
    """Pairs (a1, p, a2, n) or triplets (a, p, n) of pytorch-metric-learning."""
    if len(indices_tuple) == 3:
        anchor, positive, negative = indices_tuple
        return Listed((anchor, positive), (anchor, negative))
    if len(indices_tuple) != 4:
        raise ValueError(f"indices_tuple must be (a1, p, a2, n) or (a, p, n), got {len(indices_tuple)} tensors.")
    return Listed((indices_tuple[0], indices_tuple[1]), (indices_tuple[2], indices_tuple[3]))


def from_pairs(pairs: Tensor, labels: Tensor | None) -> Listed:
    """Index pairs (N, 2) with labels +1 and -1."""
    if pairs.ndim != 2 or pairs.shape[1] != 2:
        raise ValueError(f"pairs must have shape (N, 2), got {tuple(pairs.shape)}.")
    if labels is None or labels.shape != pairs.shape[:1]:
        raise ValueError(f"pairs need labels, +1 or -1 for each of the {len(pairs)}.")
    if not bool((labels.abs() == 1).all()):
        raise ValueError("labels of pairs must be +1 (similar) or -1 (dissimilar).")
    left, right = pairs.unbind(dim=1)
    similar = labels.to(pairs.device) > 0
    return Listed((left[similar], right[similar]), (left[~similar], right[~similar]))
