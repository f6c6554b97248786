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
    h: Tensor, labels: Tensor, L: Tensor, b: Tensor, c: float, alpha: float
) -> tuple[Tensor, Tensor]:
    """Σ_i≠j w_ij [ ℓ(y_ij(d_ij² - b)) + α ℓ(y_ij(d̃_ij² - b)) ] / (1 + α), and the part of the similar pairs in it.

    Each kind of pairs has half of the weight, ℓ is softplus, d̃ is d₊ for similar and d₋ for dissimilar pairs.

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

    Returns
    -------
    loss, similar : 0-d tensors
        The loss, differentiable once by h, L and b; the part has no gradient.

    Notes
    -----
    O(n²r + r²d + r³) time, O(nr) memory beside a block of 128 rows, or of the largest class.
    """
    loss, part = _PairLoss.apply(h, labels, L, b, c, alpha)  # type: ignore[no-untyped-call]
    return loss, part


class _PairLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, h: Tensor, labels: Tensor, L: Tensor, b: Tensor, c: float, alpha: float
    ) -> tuple[Tensor, Tensor]:
        order = torch.argsort(labels)
        labels, sizes = torch.unique_consecutive(labels[order], return_inverse=True, return_counts=True)[1:]
        h = h[order]
        h -= h.mean(dim=0)  # distances stay as they are, rounding errors are least about the origin
        views = [_View(h, b, 1.0 / (1.0 + alpha))]
        if alpha > 0.0:
            C, inverse = adversarial_factors(L, c)
            share = alpha / (1.0 + alpha)
            views += [_View(h @ C, b, share), _View(h @ inverse.T, b, share)]
        counts = sizes.tolist()
        similar = sum(size * (size - 1) for size in counts)
        near = 0.5 / max(similar, 1)
        far = 0.5 / max(len(h) * (len(h) - 1) - similar, 1)
        part = h.new_zeros(())
        start = 0
        for stop in _ends(counts):
            part += _within(views, h, labels, start, stop, near, far)
            for view in views[:1] + views[2:]:
                view.between(h, start, stop, far)
            start = stop
        loss = torch.stack([view.loss for view in views[:1] + views[2:]]).sum() + part
        if any(ctx.needs_input_grad):
            for view in views:
                view.finish(h)
            by_h = views[0].slopes
            by_b = -torch.stack([view.total for view in views]).sum()
            gradients = [by_b]
            if alpha > 0.0:
                K, Q = C @ C.T, inverse.T @ inverse
                pushed, pulled = (view.slopes for view in views[1:])
                by_h = torch.addmm(by_h, pushed, K).addmm_(pulled, Q)
                by_K = (h.T @ pushed).addmm_(Q @ (h.T @ pulled), Q, alpha=-1.0)
                gradients.append((by_K + by_K.T) @ L / c)
            ctx.save_for_backward(torch.empty_like(by_h).index_copy_(0, order, by_h.mul_(2.0)), *gradients)
        ctx.mark_non_differentiable(part)
        return loss, part

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, outer: Tensor, _: Tensor) -> Any:
        by_h, by_b, *by_L = (outer * gradient for gradient in ctx.saved_tensors)
        return by_h, None, by_L[0] if by_L else None, by_b, None, None


class _View:
    """Embeddings (n, r) of one kind, real or moved, with what their pairs add to the loss and its slopes g.

    ``slopes`` is Σ g_ij (h_i - h_j) for each i, over ordered pairs in both directions.
    """

    def __init__(self, moved: Tensor, b: Tensor, share: float) -> None:
        squares = moved.square().sum(dim=1, keepdim=True)
        one = torch.ones_like(squares)
        # Products of rows of the two are d² - b.
        self.left = torch.cat([-2.0 * moved, squares, one], dim=1)
        self.right = torch.cat([moved, one, squares - b], dim=1).T
        self.share = share
        self.loss, self.sums, self.slopes = b.new_zeros(()), torch.zeros_like(squares), torch.zeros_like(moved)
        self.total = self.loss

    def between(self, h: Tensor, start: int, stop: int, far: float) -> None:
        """Pairs of a block and what follows it, all of them dissimilar, each counted in both orders."""
        if stop == len(h):
            return
        weight = 2.0 * far * self.share
        x = (self.left[start:stop] @ self.right[:, stop:]).neg_()
        self.loss = self.loss + weight * functional.softplus(x).sum()
        self._add(x.sigmoid_(), h, slice(start, stop), slice(stop, None), -weight)

    def within(self, slopes: Tensor, h: Tensor, rows: slice) -> None:
        """Pairs of a block, whose slopes are a symmetric matrix."""
        self._add(slopes, h, rows, None, 2.0)

    def _add(self, slopes: Tensor, h: Tensor, rows: slice, columns: slice | None, weight: float) -> None:
        self.slopes[rows].addmm_(slopes, h[rows if columns is None else columns], alpha=-weight)
        self.sums[rows].add_(slopes.sum(dim=1, keepdim=True), alpha=weight)
        if columns is not None:
            self.slopes[columns].addmm_(slopes.T, h[rows], alpha=-weight)
            self.sums[columns].add_(slopes.sum(dim=0)[:, None], alpha=weight)

    def finish(self, h: Tensor) -> None:
        self.slopes.addcmul_(self.sums, h)
        self.total = 0.5 * self.sums.sum()


def _within(views: list[_View], h: Tensor, labels: Tensor, start: int, stop: int, near: float, far: float) -> Tensor:
    """Add the pairs of a block to the views; what its similar pairs add to the loss, which the views leave out."""
    rows = slice(start, stop)
    similar = (labels[rows, None] == labels[None, rows]).to(h.dtype)
    sign = torch.mul(similar, 2.0).sub_(1.0)
    weight = torch.mul(similar, near - far).add_(far).fill_diagonal_(0.0)
    signed = sign * weight
    # ½(w + yw) and ½(w - yw) are the weights of similar and of dissimilar pairs.
    beyond = [view.left[rows] @ view.right[:, rows] for view in views]
    if len(views) > 1:
        beyond[1:] = [beyond[2].lerp_(beyond[1], similar)]
    part = h.new_zeros(())
    for view, x in zip(views[:1] + views[2:], beyond, strict=True):
        losses = functional.softplus(x.mul_(sign)).reshape(-1)
        both, difference = torch.dot(losses, weight.reshape(-1)), torch.dot(losses, signed.reshape(-1))
        view.loss = view.loss + 0.5 * view.share * (both - difference)
        part += 0.5 * view.share * (both + difference)
        slopes = x.sigmoid_().mul_(signed).mul_(view.share)
        if view is views[0]:
            view.within(slopes, h, rows)
        else:
            pushed = similar.mul_(slopes)
            views[1].within(pushed, h, rows)
            view.within(slopes.sub_(pushed), h, rows)
    return part


def _ends(counts: list[int]) -> list[int]:
    """Where blocks end: after as many whole classes as have 128 rows, or after one."""
    ends, start, stop = [], 0, 0
    for count in counts:
        if stop > start and stop + count - start > _ROWS:
            ends.append(stop)
            start = stop
        stop += count
    return [*ends, stop]
