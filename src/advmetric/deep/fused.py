"""The pair loss of a labelled batch with its gradient, block by block of the matrix of distances, for the CPU.

The loss is a scalar, so its gradient by the embeddings is known when the loss is, and no (n, n) matrix is formed.
Points are sorted by class and blocks end where classes do: all pairs of two blocks are dissimilar, one sign and one
weight serve them, and a pair of blocks is visited once. Only within a block are there masks, and similar pairs to push
apart. The gradients are the formulas of :mod:`advmetric.deep.dense`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from .functional import adversarial_factors

__all__ = ["labelled_pair_loss"]

_ROWS = 128
"""Rows of a block, if no class has more: its matrices stay in the cache."""


def labelled_pair_loss(
    h: Tensor, labels: Tensor, L: Tensor, b: Tensor, c: float, alpha: float, *, active: bool = False
) -> tuple[Tensor, Tensor]:
    """Half the loss of all similar and half that of all dissimilar pairs i ≠ j, and the first of the two.

    That of one kind is (Σ_i ℓ(x_i) / S + α Σ_i ℓ(x̃_i) / S̃) / (1 + α), with ℓ = softplus, x = y(d² - b), x̃ = y(d̃² - b),
    d̃ = d₊ for similar and d₋ for dissimilar pairs, and S as for :func:`~advmetric.deep.functional.pair_losses`.

    Parameters
    ----------
    h : (n, r) tensor
        Embeddings, rows zLᵀ.
    labels : (n,) tensor
        Classes.
    L : (r, d) tensor
    b : 0-d tensor
    c : float
        Price of a move.
    alpha : float
    active : bool
        Whether S is the number of pairs that are on the wrong side.

    Returns
    -------
    loss, similar : 0-d tensors
        The loss, differentiable once by h, L and b; the part has no gradient.

    Notes
    -----
    O(n²r + r²d + r³) time, O(nr) memory beside a block of 128 rows, or of the largest class.
    """
    loss, part = _PairLoss.apply(h, labels, L, b, c, alpha, active)  # type: ignore[no-untyped-call]
    return loss, part


class _PairLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, h: Tensor, labels: Tensor, L: Tensor, b: Tensor, c: float, alpha: float, active: bool
    ) -> tuple[Tensor, Tensor]:
        order = torch.argsort(labels)
        labels, sizes = torch.unique_consecutive(labels[order], return_inverse=True, return_counts=True)[1:]
        counts = sizes.tolist()
        h = h[order]
        h -= h.mean(dim=0)  # distances stay as they are, rounding errors are least about the origin
        views = [_View(h, b)]
        if alpha > 0.0:
            C, inverse = adversarial_factors(L, c)
            views += [_View(h @ C, b), _View(h @ inverse.T, b)]
        # Pushed apart are similar pairs only, and pulled together dissimilar ones.
        near = [_Sums(h) for _ in views[:2]]
        far = [_Sums(h) for _ in views[:2]]
        start = 0
        for stop in _ends(counts):
            similar = (labels[start:stop, None] == labels[None, start:stop]).to(h.dtype)
            dissimilar = 1.0 - similar
            similar.fill_diagonal_(0.0)
            for view, sums in zip(views[:2], near, strict=True):
                sums.within(view, similar, 1.0, start, stop)
            for view, sums in zip((*views[:1], *views[2:]), far, strict=True):
                sums.within(view, dissimilar, -1.0, start, stop)
                sums.between(view, start, stop)
            start = stop
        n_similar = sum(size * (size - 1) for size in counts)
        n_dissimilar = len(h) * (len(h) - 1) - n_similar
        shares = [1.0 / (1.0 + alpha), alpha / (1.0 + alpha)]
        for kind, count in ((near, n_similar), (far, n_dissimilar)):
            for sums, share in zip(kind, shares, strict=False):
                sums.finish(h, 0.5 * share, None if active else max(count, 1))
        part = torch.stack([sums.loss for sums in near]).sum()
        loss = torch.stack([sums.loss for sums in far]).sum() + part
        if any(ctx.needs_input_grad):
            by_h = near[0].slopes.add_(far[0].slopes)
            by_b = torch.stack([sums.total for sums in far]).sum() - torch.stack([sums.total for sums in near]).sum()
            gradients = [by_b]
            if alpha > 0.0:
                K, Q = C @ C.T, inverse.T @ inverse
                pushed, pulled = near[1].slopes, far[1].slopes
                by_h.addmm_(pushed, K).addmm_(pulled, Q)
                by_K = (h.T @ pushed).addmm_(Q @ (h.T @ pulled), Q, alpha=-1.0)
                gradients.append((by_K + by_K.T) @ L / c)
            ctx.save_for_backward(torch.empty_like(by_h).index_copy_(0, order, by_h.mul_(2.0)), *gradients)
        ctx.mark_non_differentiable(part)
        return loss, part

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, outer: Tensor, _: Tensor) -> Any:
        by_h, by_b, *by_L = (outer * gradient for gradient in ctx.saved_tensors)
        return by_h, None, by_L[0] if by_L else None, by_b, None, None, None


class _View:
    """Embeddings (n, r) of one kind, real or moved, as matrices whose products are d² - b."""

    def __init__(self, moved: Tensor, b: Tensor) -> None:
        squares = moved.square().sum(dim=1, keepdim=True)
        one = torch.ones_like(squares)
        self.left = torch.cat([-2.0 * moved, squares, one], dim=1)
        self.right = torch.cat([moved, one, squares - b], dim=1).T

    def beyond(self, rows: slice, columns: slice) -> Tensor:
        """d² - b of the pairs of a block."""
        return self.left[rows] @ self.right[:, columns]


class _Sums:
    """What the pairs of one kind add to the loss, and to its slopes g = y ℓ'(y(d² - b)) by the squared distances.

    ``slopes`` (n, r) is Σ_j (g_ij + g_ji)(h_i - h_j) and ``total`` Σ |g_ij|, over ordered pairs.
    """

    def __init__(self, h: Tensor) -> None:
        self.h = h
        self.loss, self.sums, self.slopes = h.new_zeros(()), h.new_zeros(len(h), 1), torch.zeros_like(h)
        self.total, self.sign = self.loss, 1.0

    def within(self, view: _View, mask: Tensor, sign: float, start: int, stop: int) -> None:
        """Pairs of a block under a mask, a symmetric matrix of 0 and 1."""
        rows, self.sign = slice(start, stop), sign
        x = view.beyond(rows, rows)
        if sign < 0.0:
            x.neg_()
        self.loss = self.loss + torch.dot(functional.softplus(x).reshape(-1), mask.reshape(-1))
        slopes = x.sigmoid_().mul_(mask)
        self.slopes[rows].addmm_(slopes, self.h[rows], alpha=-2.0)
        self.sums[rows].add_(slopes.sum(dim=1, keepdim=True), alpha=2.0)

    def between(self, view: _View, start: int, stop: int) -> None:
        """Pairs of a block and what follows it, all of them dissimilar, each counted in both orders."""
        if stop == len(self.h):
            return
        rows, columns = slice(start, stop), slice(stop, None)
        x = view.beyond(rows, columns).neg_()
        self.loss = self.loss + 2.0 * functional.softplus(x).sum()
        slopes = x.sigmoid_()
        self.slopes[rows].addmm_(slopes, self.h[columns], alpha=-2.0)
        self.sums[rows].add_(slopes.sum(dim=1, keepdim=True), alpha=2.0)
        self.slopes[columns].addmm_(slopes.T, self.h[rows], alpha=-2.0)
        self.sums[columns].add_(slopes.sum(dim=0)[:, None], alpha=2.0)

    def finish(self, h: Tensor, weight: float, count: int | None) -> None:
        """Divide by the number of pairs, or of those on the wrong side, and multiply by a weight."""
        self.total = 0.5 * self.sums.sum()
        factor = weight / (self.total.clamp_min(1.0) if count is None else self.total.new_full((), count))
        self.slopes.addcmul_(self.sums, h).mul_(factor * self.sign)
        self.loss, self.total = self.loss * factor, self.total * factor


def _ends(counts: list[int]) -> list[int]:
    """Where blocks end: after as many whole classes as have 128 rows, or after one."""
    ends, start, stop = [], 0, 0
    for count in counts:
        if stop > start and stop + count - start > _ROWS:
            ends.append(stop)
            start = stop
        stop += count
    return [*ends, stop]
